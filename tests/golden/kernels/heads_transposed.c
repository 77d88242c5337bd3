// Work(evaluations=0, iterations=1024, loaded=4096, stored=4096)
void k_0(void *const *buffers, const int64_t *sizes, int tid, int nt) {
  (void)buffers; (void)sizes; (void)tid; (void)nt;
  float *const b0 = (float *)buffers[0];
  float *const b1 = (float *)buffers[1];
  {
    for (int64_t i0 = 0, i0_end = 2; i0 < i0_end; i0++) {
      for (int64_t i1 = 0, i1_end = 4; i1 < i1_end; i1++) {
        for (int64_t i2 = 8 * tid / nt, i2_end = 8 * (tid + 1) / nt; i2 < i2_end; i2++) {
          for (int64_t i3 = 0, i3_end = 16; i3 < i3_end; i3 += 16) {
            const vf v0_0 = vf_load(b0 + (i3 + i1 * 16 + i2 * 64 + i0 * 512));
            vf_store(b1 + (i3 + i2 * 16 + i1 * 128 + i0 * 512), v0_0);
          }
        }
      }
    }
  }
}
