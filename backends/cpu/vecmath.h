// Vector mathematics by libm, lane by lane.
#pragma once
#include "vector.h"
#include <math.h>
#define EACH(NAME, F, D) \
  INL vf v_##NAME(vf x) { vf r; for (int k = 0; k < TEGG_LANES; k++) r[k] = F(x[k]); return r; } \
  INL vd vd_##NAME(vd x) { vd r; for (int k = 0; k < TEGG_LANES; k++) r[k] = D(x[k]); return r; } \
  INL float s_##NAME(float x) { return F(x); } \
  INL double sd_##NAME(double x) { return D(x); }
INL float sigmoidf_(float x) { return 1.f / (1.f + expf(-x)); }
INL double sigmoid_(double x) { return 1. / (1. + exp(-x)); }
EACH(exp2, exp2f, exp2)
EACH(exp, expf, exp)
EACH(log2, log2f, log2)
EACH(log, logf, log)
EACH(sin, sinf, sin)
EACH(cos, cosf, cos)
EACH(sqrt, sqrtf, sqrt)
EACH(tanh, tanhf, tanh)
EACH(erf, erff, erf)
EACH(sigmoid, sigmoidf_, sigmoid_)
#undef EACH
