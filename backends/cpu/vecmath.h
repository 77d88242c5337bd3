// Elementary functions of vectors, in float and double, with scalar forms of identical results.
//
//   v_exp2 v_exp v_log2 v_log v_sin v_cos v_tanh v_sigmoid v_erf v_sqrt   vectors of float
//   vd_...  of double,   s_...  of one float,   sd_...  of one double
//
// Errors are below, in units of the last place: log 1; exp2, exp, log2, sin, cos 2; tanh, sigmoid,
// erf 3; in double sin, cos and erf 1; sqrt is the CPU's (1/2).
// NaN gives NaN, infinities their limits, exp2(-inf) is 0. Results of exp2 and exp below the least
// normal number are 0 (those of sigmoid, too, where exp(-x) overflows): denormal ones would cost a
// hundred cycles each where a softmax is masked.
// Polynomials are minimax fits (Remez) of the functions that stand beside them.
#pragma once

// ---- what the functions are written in
#define M_SPLAT(V, x) ((x) - (V){0})

INL vf mf_sel(vi m, vf a, vf b) { return (vf)(((vi)a & m) | ((vi)b & ~m)); }
INL vd md_sel(vl m, vd a, vd b) { return (vd)(((vl)a & m) | ((vl)b & ~m)); }

// The less of a number and b; NaN where b is NaN.
INL vf mf_least(vf a, vf b) {
#if !V_REGISTER
  return mf_sel(a < b, a, b);
#elif TEGG_LANES == 16
  return __builtin_ia32_minps512_mask(a, b, a, -1, 4);
#elif TEGG_LANES == 8
  return __builtin_ia32_minps256(a, b);
#else
  return __builtin_ia32_minps(a, b);
#endif
}

// a * b + c, rounded once where the CPU can do that, else twice: the bounds above hold for both.
// The compiler is told to fuse nothing by itself, so that a value does not depend on its place.
#if !defined(__FMA__) && !defined(__AVX512F__) && !defined(__ARM_FEATURE_FMA)
#define M_FUSED 0
INL vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
INL vd vd_fma(vd a, vd b, vd c) { return a * b + c; }
INL float sf_fma(float a, float b, float c) { return a * b + c; }
INL double sd_fma(double a, double b, double c) { return a * b + c; }
#else
#define M_FUSED 1
INL float sf_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
INL double sd_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#if defined(__clang__) && __has_builtin(__builtin_elementwise_fma)
INL vf vf_fma(vf a, vf b, vf c) { return __builtin_elementwise_fma(a, b, c); }
INL vd vd_fma(vd a, vd b, vd c) { return __builtin_elementwise_fma(a, b, c); }
#elif V_REGISTER
#if TEGG_LANES == 16
#define M_FMAF(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)
#elif TEGG_LANES == 8
#define M_FMAF __builtin_ia32_vfmaddps256
#else
#define M_FMAF __builtin_ia32_vfmaddps
#endif
// Of float64, by the register.
#if TEGG_LANES << V_ONE == 16
#define M_FMAD(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4)
#elif TEGG_LANES << V_ONE == 8
#define M_FMAD __builtin_ia32_vfmaddpd256
#else
#define M_FMAD __builtin_ia32_vfmaddpd
#endif
enum { M_PARTS = V_ONE ? 1 : 2 };
typedef double m_part __attribute__((vector_size(8 * TEGG_LANES / M_PARTS)));
typedef union { vd whole; m_part parts[M_PARTS]; } m_parts;
INL vf vf_fma(vf a, vf b, vf c) { return M_FMAF(a, b, c); }
INL vd vd_fma(vd a, vd b, vd c) {
  m_parts x = {a}, y = {b}, z = {c};
  for (int h = 0; h < M_PARTS; h++) z.parts[h] = M_FMAD(x.parts[h], y.parts[h], z.parts[h]);
  return z.whole;
}
#else  // gcc makes one instruction of the lanes
INL vf vf_fma(vf a, vf b, vf c) {
  for (int k = 0; k < TEGG_LANES; k++) c[k] = __builtin_fmaf(a[k], b[k], c[k]);
  return c;
}
INL vd vd_fma(vd a, vd b, vd c) {
  for (int k = 0; k < TEGG_LANES; k++) c[k] = __builtin_fma(a[k], b[k], c[k]);
  return c;
}
#endif
#endif

// The value nearest to x as an integer, left in the low bits of the sum: |x| < 2^22 (2^51).
#define MF_ROUND 12582912.f         // 1.5 * 2^23
#define MD_ROUND 6755399441055744.  // 1.5 * 2^52

#define P(x, c) p = vf_fma(p, x, M_SPLAT(vf, c))
#define Q(x, c) p = vd_fma(p, x, M_SPLAT(vd, c))

// ---- 2^x and e^x
// mf_scaled is p 2^n, where t = n + MF_ROUND: 0 where x is less than `low`, infinity from `high` on,
// NaN where x is NaN. Its x has gone through mf_below first.
#if V_REGISTER && TEGG_LANES == 16
INL vf mf_below(vf x, float high) { return mf_least(M_SPLAT(vf, high + 1), x); }
INL vf mf_scaled(vf p, vf t, vf n, vf x, float low, float high) {
  (void)t, (void)high;  // past it the product overflows
  enum { NOT_LESS = 21 };
  return __builtin_ia32_scalefps512_mask(
      p, n, (vf){0}, __builtin_ia32_cmpps512_mask(x, M_SPLAT(vf, low), NOT_LESS, -1, 4), 4);
}
#else
INL vf mf_below(vf x, float high) { return (void)high, x; }
INL vf mf_scaled(vf p, vf t, vf n, vf x, float low, float high) {
  p = (vf)((vi)p + ((vi)t << 23));
  p = mf_sel(x < low, (vf){0}, p);
  return mf_sel(x < high, p, x + __builtin_inff());
}
#endif

// p = f * q(f) + 1 with q = (2^f - 1) / f on [-1/2, 1/2]; the sum's low bits go to the exponent.
INL vf v_exp2(vf x) {
  x = mf_below(x, 128.f);
  vf t = x + MF_ROUND, n = t - MF_ROUND, f = x - n;
  vf p = M_SPLAT(vf, 0x1.446ca2p-13f);
  P(f, 0x1.5f08c6p-10f); P(f, 0x1.3b29e4p-7f); P(f, 0x1.c6af6cp-5f);
  P(f, 0x1.ebfbe0p-3f); P(f, 0x1.62e430p-1f); P(f, 1.f);
  return mf_scaled(p, t, n, x, -126.f, 128.f);
}

// r = x - n ln 2 in two parts, the first of which times n is exact; q = (e^r - 1 - r) / r^2.
#define EXP_REDUCED \
  vf t = vf_fma(x, M_SPLAT(vf, 0x1.715476p+0f), M_SPLAT(vf, MF_ROUND)), n = t - MF_ROUND; \
  vf r = vf_fma(n, M_SPLAT(vf, -0x1.63p-1f), x); \
  r = vf_fma(n, M_SPLAT(vf, 0x1.bd0106p-13f), r); \
  vf p = M_SPLAT(vf, 0x1.6d755ap-10f); \
  P(r, 0x1.120b86p-7f); P(r, 0x1.5554b8p-5f); P(r, 0x1.5554dcp-3f); P(r, 0.5f);

INL vf v_exp(vf x) {
  x = mf_below(x, 0x1.62e430p+6f);
  EXP_REDUCED
  p = vf_fma(p, r * r, r) + 1.f;
  return mf_scaled(p, t, n, x, -0x1.5d589ep+6f, 0x1.62e430p+6f);  // e^-87.3 is 2^-126
}

// p = (2^f - 1) / f
#define EXP2D_LESS_1(f) \
  p = M_SPLAT(vd, 0x1.c4c8ea1553088p-36); \
  Q(f, 0x1.e9ec3f39efd38p-32); Q(f, 0x1.e4cef6834cd5cp-28); Q(f, 0x1.b524ebbf6efb8p-24); \
  Q(f, 0x1.62c022494f413p-20); Q(f, 0x1.ffcbfc6dade6bp-17); Q(f, 0x1.430912f86a0cbp-13); \
  Q(f, 0x1.5d87fe78a3f8ap-10); Q(f, 0x1.3b2ab6fba4e7dp-7); Q(f, 0x1.c6b08d704a0c6p-5); \
  Q(f, 0x1.ebfbdff82c58fp-3); Q(f, 0x1.62e42fefa39efp-1);

INL vd vd_exp2(vd x) {
  vd t = x + MD_ROUND, f = x - (t - MD_ROUND), p;
  EXP2D_LESS_1(f)
  Q(f, 1.);
  p = (vd)((vl)p + ((vl)t << 52));
  p = md_sel(vd_less(x, M_SPLAT(vd, -1022.)), (vd){0}, p);
  return md_sel(vd_less(x, M_SPLAT(vd, 1024.)), p, x + __builtin_inf());
}

#define EXPD_REDUCED \
  vd t = vd_fma(x, M_SPLAT(vd, 0x1.71547652b82fep+0), M_SPLAT(vd, MD_ROUND)), n = t - MD_ROUND; \
  vd r = vd_fma(n, M_SPLAT(vd, -0x1.a39ef35793c76p-33), x - n * 0x1.62e42feep-1); \
  vd p = M_SPLAT(vd, 0x1.1f8b5480c0aacp-29); \
  Q(r, 0x1.af4df70387d70p-26); Q(r, 0x1.27e4ccc92312cp-22); Q(r, 0x1.71de022afddf3p-19); \
  Q(r, 0x1.a01a01acfcc6bp-16); Q(r, 0x1.a01a01abea1c3p-13); Q(r, 0x1.6c16c16c151f7p-10); \
  Q(r, 0x1.11111111100d8p-7); Q(r, 0x1.5555555555558p-5); Q(r, 0x1.5555555555557p-3); Q(r, 0.5);

INL vd vd_exp(vd x) {
  EXPD_REDUCED
  p = vd_fma(p, r * r, r) + 1.;
  p = (vd)((vl)p + ((vl)t << 52));
  p = md_sel(vd_less(x, M_SPLAT(vd, -0x1.6232bdd7abcd2p+9)), (vd){0}, p);
  return md_sel(vd_less(x, M_SPLAT(vd, 0x1.62e42fefa39f0p+9)), p, x + __builtin_inf());
}

// ---- whether any lane of a mask is set
INL int m_any(vi m) {
#if !V_REGISTER
  int any = 0;
  for (int k = 0; k < TEGG_LANES; k++) any |= m[k];
  return any;
#elif TEGG_LANES == 16
  return __builtin_ia32_ptestmd512(m, m, -1);
#elif TEGG_LANES == 8
  return __builtin_ia32_movmskps256((vf)m);
#else
  return __builtin_ia32_movmskps((vf)m);
#endif
}

// ---- logarithms
// x = 2^e m with m in [sqrt 1/2, sqrt 2), r = m - 1; below the least normal number by way of 2^23 x.
#define LOG_SPECIAL(V, SEL, INF, NONE, y) \
  SEL(V##_less((V){0}, x) & V##_less(x, M_SPLAT(V, INF)), y, \
      SEL(V##_equal(x, (V){0}), M_SPLAT(V, -INF), \
          SEL(V##_less(x, (V){0}), M_SPLAT(V, NONE), x)))
// NAME is PART of the bits of x and of what its exponent is less than they say; what is no normal
// positive number is seen to apart.
#define MF_LOG(NAME, PART) \
  static __attribute__((noinline, cold, unused)) void NAME##_special(vf *at) { \
    const vf x = *at; \
    const vi low = x < 0x1p-126f; \
    const vf y = PART((vi)mf_sel(low, x * 0x1p23f, x), low & 23); \
    *at = LOG_SPECIAL(vf, mf_sel, __builtin_inff(), __builtin_nanf(""), y); \
  } \
  INL vf NAME(vf x) { \
    vf y = PART((vi)x, (vi){0}); \
    if (__builtin_expect(m_any(((vi)x < 0x00800000) | ((vi)x >= 0x7f800000)), 0)) \
      NAME##_special(&x), y = x; \
    return y; \
  }
#define LOG_REDUCED \
  vi e = (bits - 0x3f3504f3) >> 23; \
  vf r = (vf)(bits - (e << 23)) - 1.f, n = __builtin_convertvector(e - less, vf);

// q = (log(1 + r) - r + r^2 / 2) / r^3
INL vf mf_log(vi bits, vi less) {
  LOG_REDUCED
  vf p = M_SPLAT(vf, 0x1.2c567ap-4f), z = r * r;
  P(r, -0x1.dd9724p-4f); P(r, 0x1.dc8e7ap-4f); P(r, -0x1.fbc4d8p-4f); P(r, 0x1.23dd18p-3f);
  P(r, -0x1.55625cp-3f); P(r, 0x1.999d36p-3f); P(r, -0x1.ffffe6p-3f); P(r, 0x1.555554p-2f);
  p = vf_fma(p * r, z, n * -0x1.bd0106p-13f) - 0.5f * z;
  return vf_fma(n, M_SPLAT(vf, 0x1.63p-1f), r + p);
}
MF_LOG(v_log, mf_log)

// q = (log2(1 + r) / r - log2 e) / r; log2 e in two parts, the first of 12 bits
INL vf mf_log2(vi bits, vi less) {
  LOG_REDUCED
  vf p = M_SPLAT(vf, -0x1.dc8ebcp-4f);
  P(r, 0x1.7dad04p-3f); P(r, -0x1.823f60p-3f); P(r, 0x1.a2c64ep-3f); P(r, -0x1.eb5318p-3f);
  P(r, 0x1.2780f6p-2f); P(r, -0x1.71574ep-2f); P(r, 0x1.ec708ap-2f); P(r, -0x1.715476p-1f);
  p = vf_fma(p * r, r, r * 0x1.47652cp-12f);
  return vf_fma(r, M_SPLAT(vf, 0x1.714p+0f), p) + n;
}
MF_LOG(v_log2, mf_log2)

// s = r / (2 + r), log(1 + r) = 2 atanh s; q = (2 atanh s / s - 2) / s^2
#define LOGD_REDUCED \
  vl low = vd_less(x, M_SPLAT(vd, 0x1p-1022)), bits = (vl)md_sel(low, x * 0x1p52, x); \
  vl e = (bits - 0x3fe6a09e667f3bcdll) >> 52; \
  vd r = (vd)(bits - (e << 52)) - 1., n = __builtin_convertvector(e - (low & 52), vd); \
  vd s = r / (r + 2.), z = s * s, half = 0.5 * (r * r); \
  vd p = M_SPLAT(vd, 0x1.2b5f1181bb57fp-3); \
  Q(z, 0x1.39fdc75451e4cp-3); Q(z, 0x1.7462b9bb86a5ap-3); Q(z, 0x1.c71c62d1bca7dp-3); \
  Q(z, 0x1.2492492e02b66p-2); Q(z, 0x1.999999999522ep-2); Q(z, 0x1.5555555555558p-1); \
  p = s * vd_fma(z, p, half);

INL vd vd_log(vd x) {
  LOGD_REDUCED
  p = n * 0x1.62e42feep-1 - ((half - (p + n * 0x1.a39ef35793c76p-33)) - r);
  return LOG_SPECIAL(vd, md_sel, __builtin_inf(), __builtin_nan(""), p);
}

// The head of log(1 + r) keeps 21 bits, so that its product with the head of log2 e is exact.
INL vd vd_log2(vd x) {
  LOGD_REDUCED
  vd head = (vd)((vl)(r - half) & ~0xffffffffll), tail = (r - head) - half + p;
  p = tail * 0x1.71547652b82fep+0 + head * 0x1.705fc2eefa200p-33;
  p = p + head * 0x1.71547652p+0 + n;
  return LOG_SPECIAL(vd, md_sel, __builtin_inf(), __builtin_nan(""), p);
}

// ---- sine and cosine
#if M_FUSED
#define MF_LARGE 0x1p18f  // above this the reduction loses bits, and libm is asked
#else
#define MF_LARGE 1e6f
#endif

// What is left of x = q pi/2 + r, in [-pi/4, pi/4]; q stands in the low bits. Where products are
// rounded with their sum, x less q times the first part of pi/2 is exact: a multiple of 2^-24 below 1;
// the parts are positive, for then -0 is left of -0.
// In double the first part has 33 bits, so that its product with q is exact.
INL vf mf_quadrant(vf x, vi *q) {
#if M_FUSED
  vf t = vf_fma(x, M_SPLAT(vf, 0x1.45f306p-1f), M_SPLAT(vf, MF_ROUND)), n = t - MF_ROUND;
  *q = (vi)t;
  x = vf_fma(n, M_SPLAT(vf, -0x1.921fb4p+0f), x);
  x = vf_fma(n, M_SPLAT(vf, -0x1.4442d0p-24f), x);
  return vf_fma(n, M_SPLAT(vf, -0x1.846988p-48f), x);
#else
  vd d = __builtin_convertvector(x, vd), t = d * 0x1.45f306dc9c883p-1 + MD_ROUND, n = t - MD_ROUND;
  *q = __builtin_convertvector((vl)t, vi);
  return __builtin_convertvector((d - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34, vf);
#endif
}

// sin(x + turn pi/2): with z = r^2, sin r = r + r z s, cos r = 1 - z/2 + z^2 c. The product z s is no
// -0, so that the sine of -0 is -0.
INL vf mf_sincos(vf x, int turn) {
  vi q;
  vf r = mf_quadrant(x, &q), z = r * r;
  q += turn;
  vf p = M_SPLAT(vf, -0x1.9ac8f8p-13f);
  P(z, 0x1.110c28p-7f); P(z, -0x1.555552p-3f); P(z, 0x1p-126f);
  vf s = vf_fma(p, r, r);
  p = M_SPLAT(vf, 0x1.9bd7f2p-16f);
  P(z, -0x1.6c12d2p-10f); P(z, 0x1.555554p-5f); P(z, -0.5f); P(z, 1.f);
  p = mf_sel((q & 1) == 0, s, p);
  return (vf)((vi)p ^ ((q & 2) << 30));
}

#define MF_TRIG(NAME, LIBM, TURN) \
  static __attribute__((noinline, cold, unused)) void NAME##_large(const vf *x, vf *y) { \
    for (int k = 0; k < TEGG_LANES; k++) \
      if ((*x)[k] > MF_LARGE || (*x)[k] < -MF_LARGE) (*y)[k] = LIBM((*x)[k]); \
  } \
  INL vf NAME(vf x) { \
    vf y = mf_sincos(x, TURN); \
    vi large = (vf)((vi)x & 0x7fffffff) > MF_LARGE; \
    if (__builtin_expect(m_any(large), 0)) NAME##_large(&x, &y); \
    return y; \
  }
MF_TRIG(v_sin, __builtin_sinf, 0)
MF_TRIG(v_cos, __builtin_cosf, 1)

// In double q is below 2^20, and its products with two parts of pi/2 of 33 bits are exact: what is left
// is r + s, of which s is what r has been rounded by, with an error of q 2^-118. Where almost all
// cancels, libm is asked.
#define MD_LARGE 0x1p20
#define MD_CLOSE 0x1p-60
INL vd md_sincos(vd x, int turn, vl *apart) {
  vd t = vd_fma(x, M_SPLAT(vd, 0x1.45f306dc9c883p-1), M_SPLAT(vd, MD_ROUND)), n = t - MD_ROUND;
  vl q = (vl)t + turn;
  vd a = vd_fma(n, M_SPLAT(vd, -0x1.921fb54400000p+0), x), b = n * 0x1.0b4611a600000p-34, w = a - b;
  vd c = vd_fma(n, M_SPLAT(vd, 0x1.3198a2e037073p-69), b - (a - w)), r = w - c, s = (w - r) - c;
  vd z = r * r, v = z * r, least = n * MD_CLOSE, p = M_SPLAT(vd, 0x1.5d8fba8a065d3p-33);
  *apart = ~vd_less_equal(vd_abs(x), M_SPLAT(vd, MD_LARGE)) | vd_less(z, least * least);  // NaN, too
  // sin r = r + r z p and cos r = 1 - z/2 + z^2 p, with z = r^2, each with the first order of s.
  Q(z, -0x1.ae5e5a440544ap-26); Q(z, 0x1.71de3567735f8p-19); Q(z, -0x1.a01a019bfd840p-13);
  Q(z, 0x1.111111110f7cdp-7);
  vd sine = vd_fma(z, vd_fma(v, p, -0.5 * s), s);
  sine = r + vd_fma(v, M_SPLAT(vd, -0x1.5555555555548p-3), sine);
  p = M_SPLAT(vd, -0x1.8fa47ffc042c8p-37);
  Q(z, 0x1.1ee9d783bcbacp-29); Q(z, -0x1.27e4f7ea7e2d5p-22); Q(z, 0x1.a01a019c83f03p-16);
  Q(z, -0x1.6c16c16c14f8ep-10); Q(z, 0x1.555555555554bp-5);
  vd half = M_SPLAT(vd, -0.5), one = vd_fma(half, z, M_SPLAT(vd, 1.));
  vd tail = vd_fma(-r, s, vd_fma(half, z, 1. - one));
  vd cosine = one + vd_fma(z, z * p, tail);
  p = md_sel(vl_equal(q & 1, (vl){0}), md_sel(vd_equal(x, (vd){0}), x, sine), cosine);
  return (vd)((vl)p ^ ((q & 2) << 62));
}

#define MD_TRIG(NAME, LIBM, TURN) \
  static __attribute__((noinline, cold, unused)) void NAME##_apart(const vd *x, const vl *m, vd *y) { \
    for (int k = 0; k < TEGG_LANES; k++) \
      if ((*m)[k]) (*y)[k] = LIBM((*x)[k]); \
  } \
  INL vd NAME(vd x) { \
    vl apart; \
    vd y = md_sincos(x, TURN, &apart); \
    if (__builtin_expect(m_any(__builtin_convertvector(apart, vi)), 0)) NAME##_apart(&x, &apart, &y); \
    return y; \
  }
MD_TRIG(vd_sin, __builtin_sin, 0)
MD_TRIG(vd_cos, __builtin_cos, 1)

// ---- remainders, exact
// Quotients of 29 bits by 24 bits have 53: in double nothing is rounded but the quotient, and where that
// is one too many the remainder is below 0.
#define MF_QUOTIENT 0x1p29f
static __attribute__((noinline, cold, unused)) void vf_mod_large(const vf *a, const vf *b, vf *r) {
  for (int k = 0; k < TEGG_LANES; k++) {
    const float x = __builtin_fabsf((*a)[k]), y = __builtin_fabsf((*b)[k]);
    if (!(x < y * MF_QUOTIENT && y < __builtin_inff())) (*r)[k] = __builtin_fmodf((*a)[k], (*b)[k]);
  }
}
INL vf vf_mod(vf a, vf b) {
  vf x = (vf)((vi)a & 0x7fffffff), y = (vf)((vi)b & 0x7fffffff);
  vi near = (x < y * MF_QUOTIENT) & (y < M_SPLAT(vf, __builtin_inff()));
  vd d = __builtin_convertvector(y, vd), r = __builtin_convertvector(x, vd);
  r = r - ((r / d + MD_ROUND) - MD_ROUND) * d;
  vf m = __builtin_convertvector(md_sel(vd_less(r, M_SPLAT(vd, 0.)), r + d, r), vf);
  m = (vf)((vi)m | ((vi)a & (int32_t)0x80000000));
  if (__builtin_expect(m_any(~near), 0)) vf_mod_large(&a, &b, &m);
  return m;
}
INL vd vd_mod(vd a, vd b) {
  for (int k = 0; k < TEGG_LANES; k++) a[k] = __builtin_fmod(a[k], b[k]);
  return a;
}

// ---- e^x - 1 over e^x + 1, which loses nothing near 0
INL vf v_tanh(vf a) {
  vf x = (vf)((vi)a & 0x7fffffff) * 2.f;
  x = mf_sel(x > 20.f, M_SPLAT(vf, 20.f), x);
  EXP_REDUCED
  vf scale = (vf)(((vi)t << 23) + 0x3f800000);
  p = vf_fma(scale, vf_fma(p, r * r, r), scale - 1.f);
  p = p / (p + 2.f);
  return (vf)((vi)p | ((vi)a & (int32_t)0x80000000));
}
INL vd vd_tanh(vd a) {
  vd x = (vd)((vl)a & 0x7fffffffffffffffll) * 2.;
  x = md_sel(vd_less(M_SPLAT(vd, 40.), x), M_SPLAT(vd, 40.), x);
  EXPD_REDUCED
  vd scale = (vd)(((vl)t << 52) + 0x3ff0000000000000ll);
  p = vd_fma(scale, vd_fma(p, r * r, r), scale - 1.);
  p = p / (p + 2.);
  return (vd)((vl)p | ((vl)a & (int64_t)0x8000000000000000ull));
}

INL vf v_sigmoid(vf x) { return 1.f / (1.f + v_exp(-x)); }
INL vd vd_sigmoid(vd x) { return 1. / (1. + vd_exp(-x)); }

// ---- the error function: 1 - 2^(a r(a)) with r = log2(erfc a) / a on [0, 4], 1 from 4 on
// With 2^f - 1 = f q(f) it is (1 - 2^n) - 2^n f q(f), which loses nothing near 0, where n is 0.
INL vf v_erf(vf x) {
  vf a = mf_least(M_SPLAT(vf, 4.f), (vf)((vi)x & 0x7fffffff)), p = M_SPLAT(vf, 0x1.c03cc8p-17f);
  P(a, -0x1.640366p-13f); P(a, 0x1.debda6p-11f); P(a, -0x1.3b425cp-9f); P(a, 0x1.e5b168p-13f);
  P(a, 0x1.c4b8c8p-6f); P(a, -0x1.2fabe0p-3f); P(a, -0x1.d63ec4p-1f); P(a, -0x1.a0be84p+0f);
  vf t = vf_fma(a, p, M_SPLAT(vf, MF_ROUND)), n = t - MF_ROUND, f = vf_fma(a, p, -n);
  p = M_SPLAT(vf, 0x1.446ca2p-13f);
  P(f, 0x1.5f08c6p-10f); P(f, 0x1.3b29e4p-7f); P(f, 0x1.c6af6cp-5f);
  P(f, 0x1.ebfbe0p-3f); P(f, 0x1.62e430p-1f);
  vf minus = (vf)(((vi)t << 23) + (int32_t)0xbf800000);  // -2^n
  p = vf_fma(minus, p * f, minus + 1.f);
  return (vf)((vi)p | ((vi)x & (int32_t)0x80000000));
}

// In double erf x = x + x s(x^2) below 3/4, with s = erf(x) / x - 1. From there to 6 it is as above, with
// log2(erfc a) = g0 + t q(t), t = a - 3/4, as exact as what is left of 1 by it asks for.
INL vd vd_erf(vd x) {
  vd a = vd_abs(x), z = x * x, p = M_SPLAT(vd, -0x1.0544af7767d81p-30);
  Q(z, 0x1.ef4763559e939p-27); Q(z, -0x1.5ec157b90e03ep-23); Q(z, 0x1.b9daef9bf9ee8p-20);
  Q(z, -0x1.f4d1d6d0e84f7p-17); Q(z, 0x1.f9a3230d389dcp-14); Q(z, -0x1.c02db3ecc71ddp-11);
  Q(z, 0x1.565bcd0e2cff1p-8); Q(z, -0x1.b82ce31287d10p-6); Q(z, 0x1.ce2f21a042bc6p-4);
  Q(z, -0x1.812746b0379e7p-2); Q(z, 0x1.06eba8214db69p-3);
  vd near = vd_fma(x, p, x), t = md_sel(vd_less(M_SPLAT(vd, 6.), a), M_SPLAT(vd, 6.), a) - 0.75;
  p = M_SPLAT(vd, 0x1.72fc63e867e1ap-39);
  Q(t, -0x1.5ba24aad29479p-34); Q(t, 0x1.2eab8d80e5825p-30); Q(t, -0x1.44eede988ebfep-27);
  Q(t, 0x1.ded6c2b651cb1p-25); Q(t, -0x1.f76b4703e29c4p-23); Q(t, 0x1.6d55fa1fef742p-21);
  Q(t, -0x1.10943c96150edp-20); Q(t, -0x1.16700ac9be1ccp-19); Q(t, 0x1.5b7cc240ce1d7p-16);
  Q(t, -0x1.48ae6fce7feb3p-14); Q(t, 0x1.406a24e79ed60p-13); Q(t, 0x1.882733f1e2bc9p-13);
  Q(t, -0x1.ad55989cefbcap-9); Q(t, 0x1.2c53072cba591p-6); Q(t, -0x1.3899cd788c519p-4);
  Q(t, -0x1.2a5d1ef82a05bp+0); Q(t, -0x1.9b0a775784efdp+1);
  const double g0 = -0x1.caa8a3c6dfffdp+0;
  vd m = vd_fma(t, p, M_SPLAT(vd, g0)) + MD_ROUND, n = m - MD_ROUND, f = vd_fma(t, p, g0 - n);
  EXP2D_LESS_1(f)
  vd minus = (vd)(((vl)m << 52) + (int64_t)0xbff0000000000000ull);  // -2^n
  p = vd_fma(minus, p * f, minus + 1.);
  p = (vd)((vl)p | ((vl)x & (int64_t)0x8000000000000000ull));
  return md_sel(vd_less(a, M_SPLAT(vd, 0.75)), near, p);
}

// ---- by the lane: a square root is one instruction
INL vd vd_sqrt(vd x) {
  vd y;
  for (int k = 0; k < TEGG_LANES; k++) y[k] = __builtin_sqrt(x[k]);
  return y;
}
INL vf v_sqrt(vf x) {
  vf y;
  for (int k = 0; k < TEGG_LANES; k++) y[k] = __builtin_sqrtf(x[k]);
  return y;
}

// ---- scalars: a lane of the vector function
#define SCALAR(NAME) \
  INL float s_##NAME(float x) { return v_##NAME(M_SPLAT(vf, x))[0]; } \
  INL double sd_##NAME(double x) { return vd_##NAME(M_SPLAT(vd, x))[0]; }
SCALAR(exp2)
SCALAR(exp)
SCALAR(log2)
SCALAR(log)
SCALAR(tanh)
SCALAR(sigmoid)
#undef SCALAR
// log(e^a + e^b) without overflow; of infinities the larger one, of NaN NaN.
INL double sd_logadd(double a, double b) {
  const double m = sd_max(a, b);
  return m - m != 0 ? m : m + __builtin_log(1 + __builtin_exp(-__builtin_fabs(a - b)));
}
INL float sf_logadd(float a, float b) { return (float)sd_logadd(a, b); }
INL vd vd_logadd(vd a, vd b) {
  const vd m = vd_max(a, b);
  return md_sel(vd_equal(m - m, (vd){0}), m + vd_log(1 + vd_exp(-vd_abs(a - b))), m);
}
INL vf vf_logadd(vf a, vf b) {
  const vf m = vf_max(a, b);
  return mf_sel(m - m != 0, m, m + v_log(1 + v_exp(-vf_abs(a - b))));
}
// A running sum e^m s of exponentials, m the largest exponent so far: one more term e^x. Only m and
// one multiply-add wait for the term before. Where m is no number s stays finite. Its logarithm is
// ..._logged.
INL void sd_logsum(double *m, double *s, double x) {
  const double top = sd_max(*m, x), far = -__builtin_fabs(x - *m);
  const double e = top - top != 0 ? 0 : __builtin_exp(far);
  *s = x > *m ? sd_fma(*s, e, 1) : *s + e;
  *m = top;
}
INL void sf_logsum(float *m, float *s, float x) {
  const float top = sf_max(*m, x), far = -__builtin_fabsf(x - *m);
  const float e = top - top != 0 ? 0 : s_exp(far);
  *s = x > *m ? sf_fma(*s, e, 1) : *s + e;
  *m = top;
}
INL void vd_logsum(vd *m, vd *s, vd x) {
  const vd top = vd_max(*m, x);
  const vd e = md_sel(vd_equal(top - top, (vd){0}), vd_exp(-vd_abs(x - *m)), (vd){0});
  *s = md_sel(vd_less(*m, x), vd_fma(*s, e, M_SPLAT(vd, 1.)), *s + e);
  *m = top;
}
INL void vf_logsum(vf *m, vf *s, vf x) {
  const vf top = vf_max(*m, x);
  const vf e = mf_sel(top - top != 0, (vf){0}, v_exp(-vf_abs(x - *m)));
  *s = mf_sel(x > *m, vf_fma(*s, e, M_SPLAT(vf, 1.f)), *s + e);
  *m = top;
}
INL double sd_logged(double m, double s) { return m + __builtin_log(s); }
INL float sf_logged(float m, float s) { return m + s_log(s); }
INL vd vd_logged(vd m, vd s) { return m + vd_log(s); }
INL vf vf_logged(vf m, vf s) { return m + v_log(s); }
INL double vd_hlogadd(vd a) {
  double r = a[0];
  for (int k = 1; k < TEGG_LANES; k++) r = sd_logadd(r, a[k]);
  return r;
}
INL float vf_hlogadd(vf a) {
  double r = a[0];
  for (int k = 1; k < TEGG_LANES; k++) r = sd_logadd(r, a[k]);
  return (float)r;
}
INL float s_sin(float x) { return v_sin(M_SPLAT(vf, x))[0]; }
INL float s_cos(float x) { return v_cos(M_SPLAT(vf, x))[0]; }
INL float s_erf(float x) { return v_erf(M_SPLAT(vf, x))[0]; }
INL float s_sqrt(float x) { return __builtin_sqrtf(x); }
INL double sd_sin(double x) { return vd_sin(M_SPLAT(vd, x))[0]; }
INL double sd_cos(double x) { return vd_cos(M_SPLAT(vd, x))[0]; }
INL double sd_erf(double x) { return vd_erf(M_SPLAT(vd, x))[0]; }
INL double sd_sqrt(double x) { return __builtin_sqrt(x); }
#undef P
#undef Q
