// Work(evaluations=37056, iterations=12288, loaded=33792, stored=32768)
void k_0(void *const *buffers, const int64_t *sizes, int tid, int nt) {
  (void)buffers; (void)sizes; (void)tid; (void)nt;
  float *const b0 = (float *)buffers[0];
  float *const b1 = (float *)buffers[1];
  float *const b2 = (float *)buffers[2];
  float *const b3 = (float *)buffers[3];
  float *const b4 = (float *)buffers[4];
  float *const b5 = (float *)buffers[5];
  {
    float t1[144] __attribute__((aligned(64)));
    for (int64_t i0 = 32 * tid / nt, i0_end = 32 * (tid + 1) / nt; i0 < i0_end; i0++) {
      vf p3_0 = vf_splat(0.0f);
      vf p3_1 = vf_splat(0.0f);
      vf p3_2 = vf_splat(0.0f);
      vf p3_3 = vf_splat(0.0f);
      for (int64_t i1 = 0, i1_end = 128; i1 < i1_end; i1 += 64) {
        const vf v0_0 = vf_load(b0 + (i1 + i0 * 128));
        const vf v0_1 = vf_load(b0 + ((i1 + 16) + i0 * 128));
        const vf v0_2 = vf_load(b0 + ((i1 + 32) + i0 * 128));
        const vf v0_3 = vf_load(b0 + ((i1 + 48) + i0 * 128));
        const vf v1_0 = vf_load(b1 + (i1 + i0 * 128));
        const vf v1_1 = vf_load(b1 + ((i1 + 16) + i0 * 128));
        const vf v1_2 = vf_load(b1 + ((i1 + 32) + i0 * 128));
        const vf v1_3 = vf_load(b1 + ((i1 + 48) + i0 * 128));
        const vf v2_0 = (v0_0 + v1_0);
        const vf v2_1 = (v0_1 + v1_1);
        const vf v2_2 = (v0_2 + v1_2);
        const vf v2_3 = (v0_3 + v1_3);
        vf_store(t1 + i1, v2_0);
        vf_store(t1 + ((i1 + 16)), v2_1);
        vf_store(t1 + ((i1 + 32)), v2_2);
        vf_store(t1 + ((i1 + 48)), v2_3);
        p3_0 = vf_add(p3_0, v2_0);
        p3_1 = vf_add(p3_1, v2_1);
        p3_2 = vf_add(p3_2, v2_2);
        p3_3 = vf_add(p3_3, v2_3);
      }
      const float v3 = vf_hadd(vf_add(vf_add(p3_0, p3_1), vf_add(p3_2, p3_3)));
      const float v5 = (v3 * 0.0078125f);
      const float v7 = (v5 * (-1.0f));
      vf p10_0 = vf_splat(0.0f);
      vf p10_1 = vf_splat(0.0f);
      vf p10_2 = vf_splat(0.0f);
      vf p10_3 = vf_splat(0.0f);
      for (int64_t i1 = 0, i1_end = 128; i1 < i1_end; i1 += 64) {
        const vf v2_0 = vf_load(t1 + i1);
        const vf v2_1 = vf_load(t1 + ((i1 + 16)));
        const vf v2_2 = vf_load(t1 + ((i1 + 32)));
        const vf v2_3 = vf_load(t1 + ((i1 + 48)));
        const vf v8_0 = (v2_0 + vf_splat(v7));
        const vf v8_1 = (v2_1 + vf_splat(v7));
        const vf v8_2 = (v2_2 + vf_splat(v7));
        const vf v8_3 = (v2_3 + vf_splat(v7));
        p10_0 = vf_fma(v8_0, v8_0, p10_0);
        p10_1 = vf_fma(v8_1, v8_1, p10_1);
        p10_2 = vf_fma(v8_2, v8_2, p10_2);
        p10_3 = vf_fma(v8_3, v8_3, p10_3);
      }
      const float v10 = vf_hadd(vf_add(vf_add(p10_0, p10_1), vf_add(p10_2, p10_3)));
      const float v13 = sf_fma(v10, 0.0078125f, 1e-05f);
      const float v14 = s_sqrt(v13);
      const float v15 = (1.0f / v14);
      for (int64_t i1 = 0, i1_end = 128; i1 < i1_end; i1 += 64) {
        const vf v2_0 = vf_load(t1 + i1);
        const vf v2_1 = vf_load(t1 + ((i1 + 16)));
        const vf v2_2 = vf_load(t1 + ((i1 + 32)));
        const vf v2_3 = vf_load(t1 + ((i1 + 48)));
        const vf v8_0 = (v2_0 + vf_splat(v7));
        const vf v8_1 = (v2_1 + vf_splat(v7));
        const vf v8_2 = (v2_2 + vf_splat(v7));
        const vf v8_3 = (v2_3 + vf_splat(v7));
        const vf v16_0 = (v8_0 * vf_splat(v15));
        const vf v16_1 = (v8_1 * vf_splat(v15));
        const vf v16_2 = (v8_2 * vf_splat(v15));
        const vf v16_3 = (v8_3 * vf_splat(v15));
        const vf v17_0 = vf_load(b2 + i1);
        const vf v17_1 = vf_load(b2 + ((i1 + 16)));
        const vf v17_2 = vf_load(b2 + ((i1 + 32)));
        const vf v17_3 = vf_load(b2 + ((i1 + 48)));
        const vf v19_0 = vf_load(b3 + i1);
        const vf v19_1 = vf_load(b3 + ((i1 + 16)));
        const vf v19_2 = vf_load(b3 + ((i1 + 32)));
        const vf v19_3 = vf_load(b3 + ((i1 + 48)));
        const vf v20_0 = vf_fma(v16_0, v17_0, v19_0);
        const vf v20_1 = vf_fma(v16_1, v17_1, v19_1);
        const vf v20_2 = vf_fma(v16_2, v17_2, v19_2);
        const vf v20_3 = vf_fma(v16_3, v17_3, v19_3);
        vf_store(b4 + (i1 + i0 * 128), v20_0);
        vf_store(b4 + ((i1 + 16) + i0 * 128), v20_1);
        vf_store(b4 + ((i1 + 32) + i0 * 128), v20_2);
        vf_store(b4 + ((i1 + 48) + i0 * 128), v20_3);
        vf_store(b5 + (i1 + i0 * 128), v2_0);
        vf_store(b5 + ((i1 + 16) + i0 * 128), v2_1);
        vf_store(b5 + ((i1 + 32) + i0 * 128), v2_2);
        vf_store(b5 + ((i1 + 48) + i0 * 128), v2_3);
      }
    }
  }
}
