"""The op table: every row's meaning has its shape and dtype, and every expansion that meaning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from profiles import few
from tegg.testing.strategies import accepted, row_calls
from tegg.bits import bits_of, float_of, value_of
from tegg.dtype import DTYPES, bf16, bool_, f16, f32, f64, i32, i64, i8, u8
from tegg.errors import DTypeError
from tegg.ir.graph import Graph
from tegg.ir.op import OPS, PRIMOPS, TOLERANCE
from tegg.ir.oracle import apply, evaluate

PAIRS = [(row, d) for row in OPS.values() if row.kind in ("elementwise", "reduce", "scan", "sort",
                                                          "composite", "contract", "attention")
         for d in DTYPES.values() if accepted(row, d) or row.name == "Cast"]
NAMED = [(row, d) for row, d in PAIRS if row.named]


def name_of(value):
    return getattr(value, "name", None)


def meaning(row, arrays, attrs):
    """A row applied by the oracle: checked for shape and dtype."""
    graph = Graph()
    node = graph.op(row.name, *inputs(graph, arrays), *attrs)
    return apply(row, arrays, attrs, node.shape, node.dtype, {})


def inputs(graph, arrays):
    return [graph.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]


def expanded(row, arrays, attrs):
    """A row's expansion, evaluated; halves are computed in float32, as kernels do."""
    graph = Graph()
    wide = [a.astype(np.float32) if a.dtype.itemsize == 2 else a for a in arrays]
    node = graph.expansion(row.name, *inputs(graph, wide), *attrs)
    (out,) = evaluate([node], dict(enumerate(wide)))
    with np.errstate(over="ignore"):  # beyond a half's range is inf, as in the meaning
        return out.astype(arrays[0].dtype) if out.dtype == np.float32 else out


def agree(row, got, want, dtype, slack=1.0):
    tol = TOLERANCE.get(dtype.name, 0) * row.tolerance * slack
    got, want = (np.asarray(v).astype(np.float64) for v in (got, want))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tol, atol=tol, equal_nan=True)


@pytest.mark.parametrize(("row", "dtype"), PAIRS, ids=name_of)
@given(data=st.data())
@few
def test_meaning_has_the_recorded_shape_and_dtype(row, dtype, data):
    arrays, attrs = data.draw(row_calls(row, dtype, specials=True))
    with np.errstate(all="ignore"):
        out = meaning(row, arrays, attrs)
    assert out.dtype == out.dtype.newbyteorder("=")


@pytest.mark.parametrize(("row", "dtype"), NAMED, ids=name_of)
@given(data=st.data())
@few
def test_expansion_has_the_rows_meaning(row, dtype, data):
    arrays, attrs = data.draw(row_calls(row, dtype))
    agree(row, expanded(row, arrays, attrs), meaning(row, arrays, attrs), dtype)


# Where an expansion differs from the meaning for special values, and why.
DIFFERENT = {
    "Div": "x (1/y) leaves the range where 1/y does",
    "Gelu": "-inf times the 0 of its tail", "GeluTanh": "inf - inf inside of tanh's argument",
}


@pytest.mark.parametrize(("row", "dtype"), [(r, d) for r, d in NAMED if r.kind == "elementwise"
                                            and r.name not in DIFFERENT], ids=name_of)
@given(data=st.data())
@few
def test_elementwise_expansion_holds_for_special_values(row, dtype, data):
    arrays, attrs = data.draw(row_calls(row, dtype, specials=True))
    agree(row, expanded(row, arrays, attrs), meaning(row, arrays, attrs), dtype)


@pytest.mark.parametrize("name", DIFFERENT)
@given(data=st.data())
@few
def test_other_expansions_hold_for_finite_values(name, data):
    row = OPS[name]
    (first, *rest), attrs = data.draw(row_calls(row, f32))
    arrays = [first * np.float32(1e3), *rest]
    agree(row, expanded(row, arrays, attrs), meaning(row, arrays, attrs), f32)


def test_erf_is_as_accurate_as_its_docstring_says():
    x = np.linspace(-7, 7, 20001)
    want = meaning(OPS["Erf"], [x], ())
    assert np.abs(expanded(OPS["Erf"], [x], ()) - want).max() <= 1e-15
    got = expanded(OPS["Erf"], [x.astype(np.float32)], ())
    assert np.abs(got - want).max() <= 5e-7
    assert (np.abs(got) <= 1).all() and got[0] == -1 and got[-1] == 1


def test_cos_keeps_large_angles():
    x = np.array([1e4, 12345.678, -9e5], np.float32)
    assert np.abs(expanded(OPS["Cos"], [x], ()) - np.cos(x)).max() < 5e-7


def test_gelu_vanishes_far_below_zero():
    x = np.array([-1e3, -1e30], np.float32)
    assert (expanded(OPS["Gelu"], [x], ()) == 0).all()


def test_there_are_twelve_primops():
    assert len(PRIMOPS) == 12 and all(not OPS[name].named for name in PRIMOPS)


def test_rows_say_how_they_are_tested():
    for row in OPS.values():
        assert len(row.domains) == row.arity
        assert repr(row) == row.name


@pytest.mark.parametrize(("value", "dtype", "bits"), [
    (-1, u8, 255), (256, u8, 0), (-1, i8, -1), (128, i8, -128), (2 ** 63, i64, -2 ** 63),
    (2 ** 31, i32, -2 ** 31), (3, bool_, 1)])
def test_integer_bits_wrap_as_in_c(value, dtype, bits):
    assert bits_of(value, dtype) == bits


@given(st.floats(), st.sampled_from([f32, f64, f16, bf16]))
def test_float_bits_are_kept(value, dtype):
    back = value_of(bits_of(value, dtype), dtype)
    assert np.float64(back).tobytes() == np.float64(value).tobytes()
    assert float_of(bits_of(-0.0, f64)) == 0 and bits_of(-0.0, f64) != bits_of(0.0, f64)


@pytest.mark.parametrize(("name", "dtypes", "text"), [
    ("Add", (f32, f64), "operands have dtypes f32 and f64; they must be equal (f64 holds both)"),
    ("Exp2", (i32,), "needs a float dtype, not i32; write x.cast('f32')"),
    ("IntDiv", (f32, f32), "needs an integer dtype, not f32"),
    ("Mod", (bool_, bool_), "needs numbers, not bool; write x.cast('i32')"),
    ("Not", (i32,), "needs bool, not i32; write (x != 0)"),
    ("Select", (f32, f32, f32), "the condition is f32, not bool; write (x != 0)"),
    ("Gather", (f32, f32), "needs an integer dtype, not f32")])
def test_dtype_errors(name, dtypes, text):
    with pytest.raises(DTypeError) as e:
        OPS[name].dtype(list(dtypes), ())
    assert str(e.value) == text


@pytest.mark.parametrize("given, to", [(f64, bf16), (f32, i32), (bf16, bf16), (f32, f64)])
def test_only_float32_is_held_as_a_half(given, to):
    with pytest.raises(DTypeError) as e:
        OPS["Held"].dtype([given], (to,))
    assert str(e.value) == (f"holds f32 as f16 or bf16, not {given.name} as {to.name}; "
                            f"write a Cast")
