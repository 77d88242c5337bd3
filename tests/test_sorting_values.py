"""Sort, whose values go without places: kernels on C of every width against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tegg
from profiles import examples
from tegg.backends.cpu.sorting_values import network
from tegg.backends.cpu.target import Cpu
from tegg.dtype import DTYPES
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph
from tegg.ir.oracle import evaluate
from tegg.testing.kernels import Kernels

SPECIALS = (np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-40, -1e-40, 3.0, 65504.0)


@pytest.mark.parametrize("n", range(2, 11))
def test_the_network_sorts_all_zeros_and_ones(n):
    """Then it sorts whatever can be compared."""
    for bits in range(1 << n):
        x = [bits >> i & 1 for i in range(n)]
        for i, j in network(n):
            if x[i] > x[j]:
                x[i], x[j] = x[j], x[i]
        assert x == sorted(x)


def elements(rng: np.random.Generator, kind: str, shape: tuple[int, ...], dtype) -> np.ndarray:
    """Elements of a kind: random bits, few values, in order, runs of near ones, so that merges end
    in one run long before the other, or those that break things."""
    count = int(np.prod(shape))
    if kind == "bits":
        x = rng.bytes(count * dtype.itemsize)
        out = np.frombuffer(x, dtype.numpy) if dtype.kind != "bool" else rng.random(count) < 0.5
    else:
        with np.errstate(all="ignore"):
            out = {"few": rng.integers(0, 3, count), "rising": np.arange(count),
                   "falling": -np.arange(count),
                   "clusters": np.repeat(rng.integers(0, 9, count // 997 + 1) * 1000, 997)[:count]
                   + rng.integers(0, 1000, count),
                   "special": rng.choice(SPECIALS if dtype.is_float else [0, 1, 7], count)
                   }[kind].astype(dtype.numpy)
    return out.reshape(shape)


def sort_fragment(dtype: str, shape: tuple[int, ...], axis: int, kept: int,
                  descending: int) -> Fragment:
    g = Graph()
    y = g.op("Sort", g.input("x", shape, dtype), axis, (kept,), descending)
    return Fragment(g, (y,), ())


def same(got: np.ndarray, want: np.ndarray, said: str) -> None:
    """Bit for bit, but for which NaN it is."""
    if want.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):  # NaN that signal
            got, want = (np.asarray(a, np.float64) for a in (got, want))
        np.testing.assert_array_equal(np.signbit(got) & ~np.isnan(got),
                                      np.signbit(want) & ~np.isnan(want), err_msg=said)
    np.testing.assert_array_equal(got, want, err_msg=said)


KINDS = ("bits", "few", "rising", "falling", "clusters", "special")


@pytest.mark.parametrize("lanes", [4, 8, 16])
@given(seed=st.integers(0, 9999))
@settings(max_examples=examples(1), deadline=None)
def test_values_in_order_of_every_dtype_and_size(lanes, seed):
    """Rows around the sizes of squares, runs and short rows, side by side and apart."""
    rng = np.random.default_rng(seed)
    cases, arrays = [], []
    for dtype in DTYPES.values():
        n = int(rng.choice([1, 2, 15, 20, 21, 63, 64, 65, 255, 256, 257, 300, 512, 1000, 1025]))
        shape, axis = ((n, int(rng.choice([1, 3, 17]))), 0) if rng.random() < 0.5 else ((3, n), 1)
        kept = int(rng.choice([n, max(1, n // 2), 1]))
        cases.append(sort_fragment(dtype.name, shape, axis, kept, int(rng.integers(2))))
        arrays.append({0: elements(rng, str(rng.choice(KINDS)), shape, dtype)})
    got = Kernels(Cpu(lanes), cases).run(arrays)
    for case, given_, (result,) in zip(cases, arrays, got):
        (want,) = evaluate(case.outputs, given_)
        same(result, want, str(case.outputs[0]))


@pytest.mark.parametrize("dtype", ["f32", "i64", "f16"])
@pytest.mark.parametrize("kind", KINDS)
def test_few_long_rows_are_shared(dtype, kind):
    """Chunks and levels of merges, whatever is left of the last ones."""
    dtype = DTYPES[dtype]
    rng = np.random.default_rng(3)
    shape = (40_003, 2) if dtype.name == "f16" else (1, 70_001)
    axis = 0 if dtype.name == "f16" else 1
    x = elements(rng, kind, shape, dtype)
    f = tegg.compile(lambda x: (x.sort(axis).values, x.sort(axis, descending=True).values))
    for got, descending in zip(f(x), (0, 1)):
        (want,) = evaluate(sort_fragment(dtype.name, shape, axis, shape[axis], descending).outputs,
                           {0: x})
        same(got, want, f"{kind} {descending}")


def test_a_long_axis_of_a_size_that_a_call_gives():
    graph, n = tegg.Graph(), tegg.dim("n", 1, 200_000, 100_000)
    graph.tensor((n,)).sort(0).values.output("y")
    program = graph.compile([tegg.Generic()])
    for size in (1, 255, 256 * 16 + 1, 90_000):
        x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
        np.testing.assert_array_equal(program(x)["y"], np.sort(x))


def test_places_are_not_found_where_only_values_are_wanted():
    x = np.random.default_rng(0).standard_normal((6, 500)).astype(np.float32)
    f = tegg.compile(lambda x: x.sort(1).values)
    np.testing.assert_array_equal(f(x), np.sort(x, 1))
    assert [c.label for c in f.plan.run] == ["Sort"], f.plan.show()
