// Functions whose results are rounded to bfloat16 next: errors below 2^-12 of the result. Sigmoids that
// are no normal numbers are 0. NaN gives NaN, infinities what the full formulas give.
//
//   v_near_sigmoid v_near_silu v_near_gelu_tanh v_near_gelu   vectors of float;  s_...  of one float
//
// AVX-512 has estimates of reciprocals, and takes the fraction of a number as it scales by the rest;
// elsewhere these are the full formulas. Polynomials are minimax fits of what stands beside them.
#pragma once

#if V_REGISTER && TEGG_LANES == 16 && defined(__AVX512DQ__) && \
    __has_builtin(__builtin_ia32_reduceps512_mask_round)
#define NP(x, c) p = vf_fma(p, x, M_SPLAT(vf, c))

// 2^x by f = x - floor(x), in lanes of m, 0 in others; x is at least -126.
INL vf near_exp2(vf x, uint16_t m) {
  const vf f = __builtin_ia32_reduceps512_mask_round(x, 1, (vf){0}, -1, 4);
  vf p = M_SPLAT(vf, 0x1.3f968ep-4f);
  NP(f, 0x1.cefc5cp-3f); NP(f, 0x1.64444ap-1f); NP(f, 0x1.fff632p-1f);
  return __builtin_ia32_scalefps512_mask(p, x, (vf){0}, m, 4);
}

// 1 / (1 + 2^x)
INL vf near_logistic(vf x) {
  x = __builtin_ia32_maxps512_mask(M_SPLAT(vf, -126.f), x, x, -1, 4);  // x where that is NaN
  return __builtin_ia32_rcp14ps512_mask(near_exp2(x, -1) + 1.f, (vf){0}, -1);
}
INL vf v_near_sigmoid(vf x) { return near_logistic(x * -0x1.715476p+0f); }  // -log2 e
INL vf v_near_silu(vf x) { return x * v_near_sigmoid(x); }
INL vf v_near_gelu_tanh(vf x) {  // -2 log2 e sqrt(2/pi) (x + 0.044715 x^3)
  const vf c = vf_fma(x * x, M_SPLAT(vf, -0x1.a5a7d0p-4f), M_SPLAT(vf, -0x1.26aec2p+1f));
  return x * near_logistic(x * c);
}

// x Phi(x), with log2 Phi(-|x|) in |x| up to 9, where Phi is 1e-19
INL vf v_near_gelu(vf x) {
  enum { GREATER = 30, NOT_LESS = 21 };
  const vf a = (vf)((vi)x & 0x7fffffff), one = M_SPLAT(vf, 1.f);
  vf p = M_SPLAT(vf, -0x1.067702p-20f);
  NP(a, 0x1.52e0c0p-15f); NP(a, -0x1.7b611ap-11f); NP(a, 0x1.ebb5a4p-8f); NP(a, -0x1.a572d0p-5f);
  NP(a, -0x1.d88b84p-2f); NP(a, -0x1.265f60p+0f); NP(a, -0x1.000674p+0f);
  p = near_exp2(p, __builtin_ia32_cmpps512_mask(M_SPLAT(vf, 9.f), a, NOT_LESS, -1, 4));
  return x * __builtin_ia32_subps512_mask(one, p, p, __builtin_ia32_cmpps512_mask(
      x, (vf){0}, GREATER, -1, 4), 4);
}
#undef NP
#else
INL vf v_near_sigmoid(vf x) { return v_sigmoid(x); }
INL vf v_near_silu(vf x) { return x * v_sigmoid(x); }
INL vf v_near_gelu_tanh(vf x) {
  return x * v_sigmoid(x * (1.5957691216057308f + 0.071354816272600266f * (x * x)));
}
INL vf v_near_gelu(vf x) { return x * 0.5f * (1.f + v_erf(x * 0.70710678118654752f)); }
#endif

INL float s_near_sigmoid(float x) { return v_near_sigmoid(M_SPLAT(vf, x))[0]; }
INL float s_near_silu(float x) { return v_near_silu(M_SPLAT(vf, x))[0]; }
INL float s_near_gelu_tanh(float x) { return v_near_gelu_tanh(M_SPLAT(vf, x))[0]; }
INL float s_near_gelu(float x) { return v_near_gelu(M_SPLAT(vf, x))[0]; }
