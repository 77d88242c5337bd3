"""The Tensor functions, many in one program, compiled for the CPU: equal to the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import tegg
from tegg.testing.strategies import array
from tegg.dtype import f32, i32
from tegg.ir.oracle import evaluate

RNG = np.random.default_rng(0)
X, Y = array(RNG, (3, 5, 8), f32), array(RNG, (3, 5, 8), f32, "nonzero")
I, J = array(RNG, (4, 6), i32), array(RNG, (4, 6), i32, "nonzero")
ROWS = RNG.integers(-5, 5, (2, 2))


def elementwise(x, y):
    one = {n: getattr(tegg, n)(x) for n in (
        "exp", "sin", "cos", "sigmoid", "tanh", "erf", "silu", "gelu", "relu", "abs", "sign",
        "floor", "ceil", "trunc", "round", "square", "isnan")}
    return one | {"tanh gelu": x.gelu("tanh"), "log": x.abs().log(), "rsqrt": y.abs().rsqrt(),
                  "rem": x % y, "floordiv": x // y, "fmod": tegg.fmod(x, y), "pow": x.abs() ** y,
                  "cube": x ** 3 - y ** -2, "clamp": x.clamp(-1, 1),
                  "where": tegg.where(x > y, x, 0), "max": tegg.maximum(x, y),
                  "half": x.cast("f16").exp(), "le": x <= y}


def reductions(x, y):
    return {"softmax": x.softmax(1), "log softmax": x.log_softmax(-1), "lse": x.logsumexp((0, 2)),
            "std": x.std((0, 1)), "layer norm": tegg.layer_norm(x, (5, 8), y[0], y[1]),
            "rms norm": tegg.rms_norm(x, 8), "min": x.min(1), "any": (x > 9).any(-1),
            "all": (x > -99).all(), "mean": x.mean(), "normalize": x.normalize(-1),
            "matmul": x @ y.mT, "attention": tegg.scaled_dot_product_attention(
                x, y, y, is_causal=True), "rope": tegg.rope(x, tegg.cos(y), tegg.sin(y)),
            "linear": tegg.linear(x, y[0])}


def movement(x, y):
    return {"index": x[:, ROWS, ::-2], "gather": x.gather(1, np.abs(ROWS)[None] % 5),
            "cat": tegg.cat([x, y[:, :2], x], 1), "pad": x.pad((1, 2, 0, 3), value=-1.5),
            "flip": x.flip().T, "unfold": x.unfold(2, 3, 2), "reshape": x.T.reshape(6, -1),
            "stack": tegg.stack([x, y], 2).flatten(1, 2), "expand": x[:, :1].expand(3, 4, 8),
            "narrow": x.narrow(2, 3, 2).transpose(0, 2)}


def integers(a, b):
    return {"//": a // b, "%": a % b, "sum": (a * 3).sum(0), "pow": a ** 5, "min": a.min(1),
            "u8": (abs(a).cast("u8") - 7) // 3, "f64": a.cast("f64").erf(),
            "div": a.cast("f32") / 7, "bits": (a > 0) ^ (b > 0), "mm": a @ b.T}


@pytest.mark.parametrize(("fn", "args"), [(elementwise, (X, Y)), (reductions, (X, Y)),
                                          (movement, (X, Y)), (integers, (I, J))])
def test_compiled_equals_the_oracle(fn, args):
    got = tegg.compile(fn, device="cpu")(*args)
    traced = tegg.trace(fn, args)
    values = dict(zip(traced.slots, args))
    values.update({i: s.source.data for i, s in enumerate(traced.graph.inputs)
                   if s.source is not None})
    want = dict(zip(traced.graph.outputs, evaluate(traced.graph.outputs.values(), values)))
    assert set(got) == set(want)
    for name, value in want.items():
        tol = {np.dtype(np.float16): 2e-3}.get(value.dtype, 2e-5) if value.dtype.kind == "f" else 0
        assert got[name].dtype == value.dtype, name
        np.testing.assert_allclose(got[name], value, rtol=tol, atol=tol, err_msg=name)
