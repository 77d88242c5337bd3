// Work(evaluations=19264, iterations=9600, loaded=12800, stored=12800)
void k_0(void *const *buffers, const int64_t *sizes, int tid, int nt) {
  (void)buffers; (void)sizes; (void)tid; (void)nt;
  float *const b0 = (float *)buffers[0];
  float *const b1 = (float *)buffers[1];
  {
    float t1[116] __attribute__((aligned(64)));
    for (int64_t i0 = 32 * tid / nt, i0_end = 32 * (tid + 1) / nt; i0 < i0_end; i0++) {
      vf p1_0 = vf_splat(-__builtin_inff());
      vf p1_1 = vf_splat(-__builtin_inff());
      vf p1_2 = vf_splat(-__builtin_inff());
      vf p1_3 = vf_splat(-__builtin_inff());
      for (int64_t i1 = 0, i1_end = 64; i1 < i1_end; i1 += 64) {
        const vf v0_0 = vf_load(b0 + (i1 + i0 * 100));
        const vf v0_1 = vf_load(b0 + ((i1 + 16) + i0 * 100));
        const vf v0_2 = vf_load(b0 + ((i1 + 32) + i0 * 100));
        const vf v0_3 = vf_load(b0 + ((i1 + 48) + i0 * 100));
        p1_0 = vf_max(v0_0, p1_0);
        p1_1 = vf_max(v0_1, p1_1);
        p1_2 = vf_max(v0_2, p1_2);
        p1_3 = vf_max(v0_3, p1_3);
      }
      {
        const int64_t i1 = 64;
        const int left = 4, mask = (int)((1u << left) - 1);
        const vb lanes = lane_range(0, left - 1);
        (void)mask; (void)lanes;
        const vf v0_0 = vf_load(b0 + (i1 + i0 * 100));
        const vf v0_1 = vf_load(b0 + ((i1 + 16) + i0 * 100));
        const vf v0_2 = vf_loadm(b0 + ((i1 + 32) + i0 * 100), mask);
        p1_0 = vf_max(v0_0, p1_0);
        p1_1 = vf_max(v0_1, p1_1);
        p1_2 = vf_sel(lanes, vf_max(v0_2, p1_2), p1_2);
      }
      const float v1 = vf_hmax(vf_max(vf_max(p1_0, p1_1), vf_max(p1_2, p1_3)));
      const float v3 = (v1 * (-1.0f));
      vf p8_0 = vf_splat(0.0f);
      vf p8_1 = vf_splat(0.0f);
      vf p8_2 = vf_splat(0.0f);
      vf p8_3 = vf_splat(0.0f);
      for (int64_t i1 = 0, i1_end = 64; i1 < i1_end; i1 += 64) {
        const vf v0_0 = vf_load(b0 + (i1 + i0 * 100));
        const vf v0_1 = vf_load(b0 + ((i1 + 16) + i0 * 100));
        const vf v0_2 = vf_load(b0 + ((i1 + 32) + i0 * 100));
        const vf v0_3 = vf_load(b0 + ((i1 + 48) + i0 * 100));
        const vf v4_0 = (v0_0 + vf_splat(v3));
        const vf v4_1 = (v0_1 + vf_splat(v3));
        const vf v4_2 = (v0_2 + vf_splat(v3));
        const vf v4_3 = (v0_3 + vf_splat(v3));
        const vf v6_0 = (v4_0 * vf_splat(1.442695f));
        const vf v6_1 = (v4_1 * vf_splat(1.442695f));
        const vf v6_2 = (v4_2 * vf_splat(1.442695f));
        const vf v6_3 = (v4_3 * vf_splat(1.442695f));
        const vf v7_0 = v_exp2(v6_0);
        const vf v7_1 = v_exp2(v6_1);
        const vf v7_2 = v_exp2(v6_2);
        const vf v7_3 = v_exp2(v6_3);
        vf_store(t1 + i1, v7_0);
        vf_store(t1 + ((i1 + 16)), v7_1);
        vf_store(t1 + ((i1 + 32)), v7_2);
        vf_store(t1 + ((i1 + 48)), v7_3);
        p8_0 = vf_add(p8_0, v7_0);
        p8_1 = vf_add(p8_1, v7_1);
        p8_2 = vf_add(p8_2, v7_2);
        p8_3 = vf_add(p8_3, v7_3);
      }
      {
        const int64_t i1 = 64;
        const int left = 4, mask = (int)((1u << left) - 1);
        const vb lanes = lane_range(0, left - 1);
        (void)mask; (void)lanes;
        const vf v0_0 = vf_load(b0 + (i1 + i0 * 100));
        const vf v0_1 = vf_load(b0 + ((i1 + 16) + i0 * 100));
        const vf v0_2 = vf_loadm(b0 + ((i1 + 32) + i0 * 100), mask);
        const vf v4_0 = (v0_0 + vf_splat(v3));
        const vf v4_1 = (v0_1 + vf_splat(v3));
        const vf v4_2 = (v0_2 + vf_splat(v3));
        const vf v6_0 = (v4_0 * vf_splat(1.442695f));
        const vf v6_1 = (v4_1 * vf_splat(1.442695f));
        const vf v6_2 = (v4_2 * vf_splat(1.442695f));
        const vf v7_0 = v_exp2(v6_0);
        const vf v7_1 = v_exp2(v6_1);
        const vf v7_2 = v_exp2(v6_2);
        vf_store(t1 + i1, v7_0);
        vf_store(t1 + ((i1 + 16)), v7_1);
        vf_store(t1 + ((i1 + 32)), v7_2);
        p8_0 = vf_add(p8_0, v7_0);
        p8_1 = vf_add(p8_1, v7_1);
        p8_2 = vf_sel(lanes, vf_add(p8_2, v7_2), p8_2);
      }
      const float v8 = vf_hadd(vf_add(vf_add(p8_0, p8_1), vf_add(p8_2, p8_3)));
      const float v9 = (1.0f / v8);
      for (int64_t i1 = 0, i1_end = 64; i1 < i1_end; i1 += 64) {
        const vf v7_0 = vf_load(t1 + i1);
        const vf v7_1 = vf_load(t1 + ((i1 + 16)));
        const vf v7_2 = vf_load(t1 + ((i1 + 32)));
        const vf v7_3 = vf_load(t1 + ((i1 + 48)));
        const vf v10_0 = (v7_0 * vf_splat(v9));
        const vf v10_1 = (v7_1 * vf_splat(v9));
        const vf v10_2 = (v7_2 * vf_splat(v9));
        const vf v10_3 = (v7_3 * vf_splat(v9));
        vf_store(b1 + (i1 + i0 * 100), v10_0);
        vf_store(b1 + ((i1 + 16) + i0 * 100), v10_1);
        vf_store(b1 + ((i1 + 32) + i0 * 100), v10_2);
        vf_store(b1 + ((i1 + 48) + i0 * 100), v10_3);
      }
      {
        const int64_t i1 = 64;
        const int left = 4, mask = (int)((1u << left) - 1);
        const vb lanes = lane_range(0, left - 1);
        (void)mask; (void)lanes;
        const vf v7_0 = vf_load(t1 + i1);
        const vf v7_1 = vf_load(t1 + ((i1 + 16)));
        const vf v7_2 = vf_load(t1 + ((i1 + 32)));
        const vf v10_0 = (v7_0 * vf_splat(v9));
        const vf v10_1 = (v7_1 * vf_splat(v9));
        const vf v10_2 = (v7_2 * vf_splat(v9));
        vf_store(b1 + (i1 + i0 * 100), v10_0);
        vf_store(b1 + ((i1 + 16) + i0 * 100), v10_1);
        vf_storem(b1 + ((i1 + 32) + i0 * 100), v10_2, mask);
      }
    }
  }
}
