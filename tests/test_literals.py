"""Literals of kernels read back to the value that they were written for, in few digits."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, strategies as st

from tegg.backends.cexpr import constant
from tegg.bits import bits_of
from tegg.dtype import bf16, f16, f32, f64


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(3.4028234663852886e38)
@example(1.401298464324817e-45)
@example(-0.0)
def test_a_float32_reads_back(x):
    text = constant(bits_of(x, f32), f32).strip("()")
    assert text.endswith("f") and any(c in text for c in ".e")
    got = np.float32(text[:-1])
    assert got == x and np.signbit(got) == np.signbit(x)
    assert sum(c.isdigit() for c in text.split("e")[0].strip("-0.f").rstrip("0")) <= 9


@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
def test_what_is_narrower_reads_back_as_float32(x):
    for dtype in (f16, bf16):
        text = constant(bits_of(x, dtype), dtype)
        assert np.float32(text.strip("()f")) == np.float32(dtype.numpy.type(x))


def test_digits_are_few():
    assert [constant(bits_of(x, f32), f32) for x in (0.1, -0.044715, 1.0, 1e-5, 1e20)] == [
        "0.1f", "(-0.044715f)", "1.0f", "1e-05f", "1e+20f"]
    assert constant(bits_of(0.1, f64), f64) == "0.1"
