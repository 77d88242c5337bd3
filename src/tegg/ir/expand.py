"""Expansions: each named op over simpler ones, one definition for recorder, rules and printers.

Every function takes ``(b, args, attrs)``: a builder with the ``Graph`` methods, nodes, attributes.
"""

from __future__ import annotations

import math

from tegg.bits import float_of
from tegg.contraction import Spec

LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)


def neg(b, a, attrs):
    return b.mul(a[0], -1)


def sub(b, a, attrs):
    return b.add(a[0], b.mul(a[1], -1))


def div(b, a, attrs):
    return b.mul(a[0], b.op("Recip", a[1]))


def exp(b, a, attrs):
    return b.op("Exp2", b.mul(a[0], LOG2_E))


def log(b, a, attrs):
    return b.mul(b.op("Log2", a[0]), LN_2)


def cos(b, a, attrs):
    """1 - 2 sin(x/2)^2: x/2 is exact, where pi/2 - x would round the angle away for large x."""
    s = b.op("Sin", b.mul(a[0], 0.5))
    return b.add(b.mul(b.mul(s, s), -2), 1)


def rsqrt(b, a, attrs):
    return b.op("Recip", b.op("Sqrt", a[0]))


def sigmoid(b, a, attrs):
    return b.op("Recip", b.add(exp(b, (b.mul(a[0], -1),), ()), 1))


def tanh(b, a, attrs):
    """2 sigmoid(2x) - 1"""
    return b.add(b.mul(sigmoid(b, (b.mul(a[0], 2),), ()), 2), -1)


def silu(b, a, attrs):
    return b.mul(a[0], sigmoid(b, a, ()))


def gelu(b, a, attrs):
    """x/2 (1 + erf(x / sqrt 2))"""
    return b.mul(b.mul(a[0], 0.5), b.add(b.idiom("Erf", b.mul(a[0], 2 ** -0.5)), 1))


def gelu_tanh(b, a, attrs):
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"""
    x = a[0]
    inner = b.mul(b.add(x, b.mul(b.mul(b.mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
    return b.mul(b.mul(x, 0.5), b.add(tanh(b, (inner,), ()), 1))


def not_nan(b, x):
    """True but for NaN: every number is below 1 or above 0."""
    return b.add(b.less(x, 1), b.less(0, x))


def logical_not(b, a, attrs):
    return b.select(a[0], b.full(False, "bool"), b.full(True, "bool"))


def equal(b, a, attrs):
    """Neither is less, and neither is NaN. bool + is or, bool * is and."""
    x, y = a
    same = logical_not(b, (b.add(b.less(x, y), b.less(y, x)),), ())
    return b.mul(same, b.mul(not_nan(b, x), not_nan(b, y))) if x.dtype.is_float else same


def less_equal(b, a, attrs):
    return b.add(b.less(a[0], a[1]), b.idiom("Equal", a[0], a[1]))


def maximum(b, a, attrs):
    """NaN in either operand propagates, as in MaxReduce."""
    x, y = a
    top = b.select(b.less(x, y), y, x)
    return b.select(not_nan(b, y), top, y) if x.dtype.is_float else top


def minimum(b, a, attrs):
    x, y = a
    low = b.select(b.less(y, x), y, x)
    return b.select(not_nan(b, y), low, y) if x.dtype.is_float else low


def relu(b, a, attrs):
    """max(x, 0) by one comparison; NaN stays NaN."""
    return b.select(b.less(a[0], 0), b.full(0, a[0].dtype), a[0])


def abs_(b, a, attrs):
    """x < 0 ? -x : x, and +0 for -0 through x + 0 of the positive branch."""
    x = a[0]
    return b.select(b.less(x, 0), b.mul(x, -1), b.add(x, 0))


def floor(b, a, attrs):
    """x - fmod(x, 1), one less where the remainder is negative; inf, NaN and -0 stay."""
    x = a[0]
    r = b.broadcast("Mod", x, b.full(1, x.dtype))
    t = b.add(x, b.mul(r, -1))
    return b.select(b.less(r, 0), b.add(t, -1), b.select(b.less(0, r), t, x))


# The rational approximation of erf on [-4, 4] in float32 that Eigen and XLA use.
_ERF_P = (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06,
          -5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03,
          -1.60960333262415e-02)
_ERF_Q = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03,
          -7.37332916720468e-03, -1.42647390514189e-02)


def _horner(b, x, coefficients):
    out = b.full(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        out = b.add(b.mul(out, x), c)
    return out


def erf(b, a, attrs):
    """The error function: 5e-7 absolute in float32, 1e-15 in float64; never beyond 1."""
    x = a[0]
    f, end = (_erf64, 6) if x.dtype.name == "f64" else (_erf32, 3.6)
    high = b.select(b.less(end, x), b.full(1, x.dtype), f(b, x))
    return b.select(b.less(x, -end), b.full(-1, x.dtype), high)


def _erf32(b, x):
    """x P(x^2) / Q(x^2), which is above 1 from 3.62 on."""
    x2 = b.mul(x, x)
    return b.mul(b.mul(x, _horner(b, x2, _ERF_P)), b.op("Recip", _horner(b, x2, _ERF_Q)))


# Chebyshev interpolants in 60 digits, as powers: erf(x)/x in x^2 on [0, 1], and e^(x^2) erfc(x) on
# [1, 6] in t = (x - k) / (x + k), k = sqrt 6 (the variable of Schonfelder, Math. Comp. 32, 1978).
_ERF_LOW = (-7.795898827002142e-10, 1.3720064546777686e-08, -1.6208483801871705e-07,
            1.6447424703317362e-06, -1.492473690741966e-05, 0.00012055294904839707,
            -0.0008548325975389692, 0.0052239776071164225, -0.02686617064323777,
            0.11283791670945006, -0.37612638903183543, 1.1283791670955126)
_ERF_HIGH = (-1.796045010922934e-06, -1.100381120215999e-06, 9.527082899054719e-06,
             1.3437594994306461e-05, -4.669800281800159e-05, -0.00010325576697563005,
             0.0002949764158791299, 0.0006855385996366975, -0.002857462291335844,
             -0.0022689267635532537, 0.03630813149958038, -0.1214514028401136,
             0.25166683742194385, -0.3768742538656741, 0.2146263390698206)


def _erf64(b, x):
    """erf(x)/x by powers of x^2 up to 1; 1 - e^(-x^2) times a polynomial beyond, odd in x."""
    k, size = math.sqrt(6), abs_(b, (x,), ())
    high = b.select(b.less(size, 1), b.full(1, x.dtype), size)
    t = b.add(b.mul(b.op("Recip", b.add(high, k)), -2 * k), 1)
    tail = b.mul(b.op("Exp2", b.mul(b.mul(high, high), -LOG2_E)), _horner(b, t, _ERF_HIGH))
    beyond = b.add(b.mul(tail, -1), 1)
    signed = b.select(b.less(x, 0), b.mul(beyond, -1), beyond)
    return b.select(b.less(1, size), signed, b.mul(x, _horner(b, b.mul(x, x), _ERF_LOW)))


def mean(b, a, attrs):
    """sum / n, multiplied by 1/n as the front end records it."""
    x, (axis,) = a[0], attrs
    n = x.shape[axis]
    s = b.op("SumReduce", x, axis)
    if isinstance(n, int):
        return b.mul(s, 1.0 / n if n else math.inf)
    return div(b, (s, b.size(n, x.dtype)), ())


def softmax(b, a, attrs):
    x, (axis,) = a[0], attrs
    e = exp(b, (sub(b, (x, b.op("MaxReduce", x, axis)), ()),), ())
    return div(b, (e, b.op("SumReduce", e, axis)), ())


def log_softmax(b, a, attrs):
    x, (axis,) = a[0], attrs
    c = sub(b, (x, b.op("MaxReduce", x, axis)), ())
    return sub(b, (c, log(b, (b.op("SumReduce", exp(b, (c,), ()), axis),), ())), ())


def normalize(b, a, attrs):
    x, (axis, eps) = a[0], attrs
    c = sub(b, (x, mean(b, (x,), (axis,))), ())
    var = mean(b, (b.mul(c, c),), (axis,))
    return b.mul(c, rsqrt(b, (b.add(var, float_of(eps)),), ()))


def layer_norm(b, a, attrs):
    return b.add(b.mul(normalize(b, a[:1], attrs), a[1]), a[2])


def rms_normalize(b, a, attrs):
    x, (axis, eps) = a[0], attrs
    ms = mean(b, (b.mul(x, x),), (axis,))
    return b.mul(x, rsqrt(b, (b.add(ms, float_of(eps)),), ()))


def rms_norm(b, a, attrs):
    return b.mul(rms_normalize(b, a[:1], attrs), a[1])


def rope(b, a, attrs):
    x, cos_, sin_ = a
    axis, half = len(x.shape) - 1, x.shape[-1] // 2
    x1, x2 = b.narrow(x, axis, 0, half), b.narrow(x, axis, half, half)
    return b.add(b.mul(x, cos_), b.mul(b.concat([b.mul(x2, -1), x1], axis), sin_))


def contract(b, a, attrs):
    """Both operands spread over all variables, multiplied, summed. One variable an axis."""
    (x, y), (text, shape) = a, attrs
    spec = Spec.parse(text)
    size = spec.sizes(x.shape, y.shape)
    order = "".join(spec.out) + spec.k

    def spread(v, axes):
        letters = [c for c in axes if c]
        v = b.reshape(v, tuple(size[c] for c in letters))
        mine = [c for c in order if c in letters]
        v = b.permute(v, tuple(letters.index(c) for c in mine))
        v = b.reshape(v, tuple(size[c] if c in mine else 1 for c in order))
        return b.expand(v, tuple(size[c] for c in order))

    out = b.mul(spread(x, spec.x), spread(y, spec.y))
    for i in reversed(range(len(order) - len(spec.k), len(order))):
        out = b.op("SumReduce", out, i)
    return b.reshape(out, shape)


def attention(b, a, attrs):
    """The softmax of scores along what is summed, and the sums."""
    spec = Spec.parse(attrs[0])
    return contract(b, (softmax(b, a[:1], (spec.x.index(spec.k),)), a[1]), attrs)
