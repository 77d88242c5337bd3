// Work(evaluations=2048, iterations=2048, loaded=8192, stored=4096)
void k_0(void *const *buffers, const int64_t *sizes, int tid, int nt) {
  (void)buffers; (void)sizes; (void)tid; (void)nt;
  uint16_t *const b0 = (uint16_t *)buffers[0];
  uint16_t *const b1 = (uint16_t *)buffers[1];
  uint16_t *const b2 = (uint16_t *)buffers[2];
  {
    for (int64_t i0 = 32 * tid / nt * 64, i0_end = 32 * (tid + 1) / nt * 64; i0 < i0_end; i0 += 64) {
      const vf v0_0 = vh_load(b0 + i0);
      const vf v0_1 = vh_load(b0 + ((i0 + 16)));
      const vf v0_2 = vh_load(b0 + ((i0 + 32)));
      const vf v0_3 = vh_load(b0 + ((i0 + 48)));
      const vf v1_0 = vh_load(b1 + i0);
      const vf v1_1 = vh_load(b1 + ((i0 + 16)));
      const vf v1_2 = vh_load(b1 + ((i0 + 32)));
      const vf v1_3 = vh_load(b1 + ((i0 + 48)));
      const vf v2_0 = (v0_0 + v1_0);
      const vf v2_1 = (v0_1 + v1_1);
      const vf v2_2 = (v0_2 + v1_2);
      const vf v2_3 = (v0_3 + v1_3);
      vh_store(b2 + i0, v2_0);
      vh_store(b2 + ((i0 + 16)), v2_1);
      vh_store(b2 + ((i0 + 32)), v2_2);
      vh_store(b2 + ((i0 + 48)), v2_3);
    }
  }
}
