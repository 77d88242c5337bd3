// Work(evaluations=18432, iterations=6144, loaded=25344, stored=24576)
void k_0(void *const *buffers, const int64_t *sizes, int tid, int nt) {
  (void)buffers; (void)sizes; (void)tid; (void)nt;
  float *const b0 = (float *)buffers[0];
  float *const b1 = (float *)buffers[1];
  float *const b2 = (float *)buffers[2];
  float *const b3 = (float *)buffers[3];
  {
    for (int64_t i0 = 64 * tid / nt, i0_end = 64 * (tid + 1) / nt; i0 < i0_end; i0++) {
      for (int64_t i1 = 0, i1_end = 64; i1 < i1_end; i1 += 64) {
        const vf v0_0 = vf_load(b0 + (i1 + i0 * 96));
        const vf v0_1 = vf_load(b0 + ((i1 + 16) + i0 * 96));
        const vf v0_2 = vf_load(b0 + ((i1 + 32) + i0 * 96));
        const vf v0_3 = vf_load(b0 + ((i1 + 48) + i0 * 96));
        const vf v1_0 = vf_load(b1 + i1);
        const vf v1_1 = vf_load(b1 + ((i1 + 16)));
        const vf v1_2 = vf_load(b1 + ((i1 + 32)));
        const vf v1_3 = vf_load(b1 + ((i1 + 48)));
        const vf v3_0 = vf_load(b2 + i1);
        const vf v3_1 = vf_load(b2 + ((i1 + 16)));
        const vf v3_2 = vf_load(b2 + ((i1 + 32)));
        const vf v3_3 = vf_load(b2 + ((i1 + 48)));
        const vf v4_0 = vf_fma(v0_0, v1_0, v3_0);
        const vf v4_1 = vf_fma(v0_1, v1_1, v3_1);
        const vf v4_2 = vf_fma(v0_2, v1_2, v3_2);
        const vf v4_3 = vf_fma(v0_3, v1_3, v3_3);
        const vf v5_0 = (v4_0 * 0.5f * (1.0f + v_erf(v4_0 * 0.70710678118654752f)));
        const vf v5_1 = (v4_1 * 0.5f * (1.0f + v_erf(v4_1 * 0.70710678118654752f)));
        const vf v5_2 = (v4_2 * 0.5f * (1.0f + v_erf(v4_2 * 0.70710678118654752f)));
        const vf v5_3 = (v4_3 * 0.5f * (1.0f + v_erf(v4_3 * 0.70710678118654752f)));
        vf_store(b3 + (i1 + i0 * 96), v5_0);
        vf_store(b3 + ((i1 + 16) + i0 * 96), v5_1);
        vf_store(b3 + ((i1 + 32) + i0 * 96), v5_2);
        vf_store(b3 + ((i1 + 48) + i0 * 96), v5_3);
      }
      {
        const int64_t i1 = 64;
        const vf v0_0 = vf_load(b0 + (i1 + i0 * 96));
        const vf v0_1 = vf_load(b0 + ((i1 + 16) + i0 * 96));
        const vf v1_0 = vf_load(b1 + i1);
        const vf v1_1 = vf_load(b1 + ((i1 + 16)));
        const vf v3_0 = vf_load(b2 + i1);
        const vf v3_1 = vf_load(b2 + ((i1 + 16)));
        const vf v4_0 = vf_fma(v0_0, v1_0, v3_0);
        const vf v4_1 = vf_fma(v0_1, v1_1, v3_1);
        const vf v5_0 = (v4_0 * 0.5f * (1.0f + v_erf(v4_0 * 0.70710678118654752f)));
        const vf v5_1 = (v4_1 * 0.5f * (1.0f + v_erf(v4_1 * 0.70710678118654752f)));
        vf_store(b3 + (i1 + i0 * 96), v5_0);
        vf_store(b3 + ((i1 + 16) + i0 * 96), v5_1);
      }
    }
  }
}
