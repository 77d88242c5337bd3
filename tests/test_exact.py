"""Exact arithmetic and the solver: what they prove, what they refuse, what they leave open."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tegg.bits import bits_of
from tegg.dim import dim
from tegg.dtype import DTYPES, f16, f32, f64
from tegg.errors import ArgumentError
from tegg.ir.graph import Graph
from tegg.rewrite.compiler import Generic, stack
from tegg.testing import smt
from tegg.testing.exact import ELEMENTWISE, RATIONAL, Undecided, exactly, simplest
from tegg.testing.instance import instance
from tegg.testing.same import same
from tegg.testing.score import _Proof
from tegg.testing.soundness import Unsound, relations
from tegg.testing.values import draw_runs

STACK = stack(Generic())


@given(st.integers(-99, 99), st.integers(1, 99), st.sampled_from([f64, f32, f16]))
def test_a_constant_stands_for_its_fraction(p, q, dtype):
    value = float(np.asarray(p / q).astype(dtype.numpy))
    found = simplest(value, dtype)
    assert float(np.asarray(float(found)).astype(dtype.numpy)) == value
    assert found == Fraction(p, q) or found.denominator <= Fraction(p, q).denominator


def test_infinities_are_no_fractions():
    with pytest.raises(Undecided, match="infinity"):
        simplest(float("inf"))


def pair(build, shape=(2, 3), dtype="f64"):
    g = Graph()
    x, y = g.input("x", shape, dtype), g.input("y", shape, dtype)
    return g, *build(g, x, y), [x, y]


ARRAYS = {0: np.arange(6.0).reshape(2, 3) / 7 + 1, 1: np.arange(6.0).reshape(2, 3) / 3 + 2}

# a pair of nodes, what rationals say, what reals of the solver say, what floats of the solver say
CASES = {
    "sum in another order": (lambda g, x, y: (g.add(g.add(x, y), x), g.add(g.add(x, x), y)),
                             True, True, False),
    "swapped difference": (lambda g, x, y: (g.op("Sub", x, y), g.op("Sub", y, x)),
                           False, False, False),
    "a tiny difference": (lambda g, x, y: (g.mul(x, 1 + 2.0 ** -40), x), False, False, None),
    "quotient": (lambda g, x, y: (g.mul(x, g.op("Recip", y)), g.op("Div", x, y)),
                 True, True, False),
    "zero": (lambda g, x, y: (g.add(x, 0.0), x), True, True, False),
    "minus zero": (lambda g, x, y: (g.add(x, -0.0), x), True, True, True),
    "times one": (lambda g, x, y: (g.mul(x, 1.0), x), True, True, True),
    "same function": (lambda g, x, y: (g.op("Sin", g.add(x, y)), g.op("Sin", g.add(y, x))),
                      True, True, True),
    "other function": (lambda g, x, y: (g.op("Sin", x), g.op("Sqrt", x)), None, False, False),
    "mean": (lambda g, x, y: (g.op("Mean", x, 1), g.mul(g.op("SumReduce", x, 1), 1 / 3)),
             True, True, None),
    "maximum": (lambda g, x, y: (g.op("MaxReduce", x, 1), g.op("MaxReduce", g.op("Flip", x, 1), 1)),
                True, True, None),
    "modulo": (lambda g, x, y: (g.op("Mod", x, y), x), None, None, None),
}


@pytest.mark.parametrize("case", CASES)
def test_rationals(case):
    build, want, _, _ = CASES[case]
    g, a, b, _ = pair(build)
    assert exactly(g, a, b, ARRAYS) is want


@pytest.mark.parametrize("case", CASES)
def test_solver(case, monkeypatch):
    pytest.importorskip("z3")
    build, _, reals, floats = CASES[case]
    if not floats:  # a difference of floats may take it long to find
        monkeypatch.setattr(smt, "TIMEOUT_MS", 500)
    g, a, b, inputs = pair(build)
    assert smt.proven(g, a, b, inputs, "reals") is reals
    assert smt.proven(g, a, b, inputs, "bitwise") in (floats, None if not floats else True)


@pytest.mark.parametrize("dtype", ["u8", "i8", "i64", "bool"])
def test_integers_wrap_and_compare_by_their_sign(dtype):
    pytest.importorskip("z3")
    unsigned = dtype in ("bool", "u8")  # nothing is below 0
    g, a, b, inputs = pair(lambda g, x, y: (g.less(x, g.full(0, dtype)),
                                            g.less(x, x)), dtype=dtype)
    assert smt.proven(g, a, b, inputs, "bitwise") is unsigned


def test_specials_leave_rationals_undecided():
    g, a, b, _ = pair(lambda g, x, y: (x, y))
    assert exactly(g, a, b, {0: np.full((2, 3), np.inf), 1: ARRAYS[1]}) is None
    g, a, b, _ = pair(lambda g, x, y: (g.op("Recip", x), y))
    assert exactly(g, a, b, {0: np.zeros((2, 3)), 1: ARRAYS[1]}) is None


def test_every_op_of_the_domains_is_one_that_the_evaluator_knows():
    assert set(RATIONAL) - {"Sum"} == set(ELEMENTWISE)


def test_without_the_solver(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "z3", None)
    smt.solver.cache_clear()
    try:
        g, a, b, inputs = pair(lambda g, x, y: (x, y))
        with pytest.raises(ArgumentError, match=r"pip install 'tegg\[verify\]'"):
            smt.proven(g, a, b, inputs, "reals")
    finally:
        smt.solver.cache_clear()


# Rules that stand on more than the arithmetic of their operands: what a function is at some
# argument, casts, sizes of dtypes, or a meaning in words.
OPEN = ("shape/", "sign/", "exp/", "cos/sin", "cast/through-wider", "softmax/log-of", "mean/size",
        "rope/", "gather/", "full/gather", "sub/", "copy/", "range/")
CLOSED = {r.name: (r, s) for s in STACK.rule_sets for r in s.rules if not r.name.startswith(OPEN)}


@pytest.mark.parametrize("name", CLOSED)
def test_a_shipped_rule_is_proven(name):
    """For every value of its operands, on one graph that it matches."""
    pytest.importorskip("z3")
    rule, home = CLOSED[name]
    left: list[str] = []
    for seed in range(12):
        made = instance(rule, STACK.table, relations(STACK), tuple(DTYPES.values()), Random(seed),
                        providers=STACK.providers)
        proof = _Proof(rule, home.header, made, relations(STACK), draw_runs(made, home.header))
        try:
            for action in rule.actions:
                proof.action(action)
        except Unsound as e:
            left.append(str(e))
        else:
            return
    pytest.fail(left[-1])


def test_at_sizes_of_a_run():
    n, m = dim("n", 0, 4), dim("m", 1, 4)
    g = Graph()
    x = g.input("x", (n, m), "f64")
    joined = g.reshape(g.reshape(g.op("Pad", x, (1, 0), (0, m), bits_of(0.5, f64)),
                                 (2 * m * (n + 1),)), (n + 1, 2 * m))
    padded = g.op("Pad", x, (1, 0), (0, m), bits_of(0.5, f64))
    moved = g.op("Pad", x, (1, m), (0, 0), bits_of(0.5, f64))
    for sizes in ({"n": 0, "m": 1}, {"n": 2, "m": 3}, {"n": 2, "m": 2}):
        arrays = {0: np.arange(float(sizes["n"] * sizes["m"])).reshape(sizes["n"], sizes["m"])}
        assert exactly(g, joined, padded, arrays, sizes) is True
        assert exactly(g, moved, padded, arrays, sizes) is (sizes["n"] == 0)
        if smt_is_here():
            assert smt.proven(g, joined, padded, [x], "bitwise", sizes) is True
            assert smt.proven(g, moved, padded, [x], "bitwise", sizes) is (sizes["n"] == 0)


def smt_is_here() -> bool:
    try:
        smt.solver()
    except ArgumentError:
        return False
    return True


@pytest.mark.parametrize("source, to, same", [
    ("f16", "f32", True), ("bf16", "f32", True), ("f32", "f64", True), ("f16", "f16", True),
    ("f32", "f16", False), ("f16", "bf16", False), ("i64", "f32", False)])
def test_casts_that_change_nothing(source, to, same):
    g = Graph()
    x = g.input("x", (3,), source)
    y = g.op("Cast", g.op("Cast", x, DTYPES[to]), DTYPES["f64"])
    z = g.op("Cast", x, DTYPES["f64"])
    array = np.arange(3).astype(DTYPES[source].numpy)
    known = DTYPES[source].is_float
    assert bool(known and exactly(g, y, z, {0: array}, {})) == same


# ---- word for word
def test_one_computation_in_other_words_is_the_same():
    g = Graph()
    x = g.input("x", (2, 3), "i8")
    wide = g.cast(x, "i32")
    assert same(g, g.add(wide, 1), g.add(g.cast(g.cast(wide, "i64"), "i32"), 1))
    assert same(g, wide, g.cast(g.cast(wide, "i8"), "i32"))
    assert not same(g, wide, g.cast(g.cast(wide, "u8"), "i32"))  # -1 becomes 255
    long = g.input("z", (2, 3), "i64")
    assert not same(g, long, g.cast(g.cast(long, "f64"), "i64"))  # 2^53 + 1 is no f64
    assert not same(g, g.add(wide, 1), g.add(wide, 2))
    assert not same(g, g.op("Neg", wide), wide)
    y = g.input("y", (2, 3), "f32")
    assert same(g, g.op("Softmax", y, 1), g.table["Softmax"].expand(g, (y,), (1,)))
    assert not same(g, g.op("Softmax", y, 1), g.op("Softmax", y, 0))
    assert not same(g, y, g.cast(g.cast(y, "bf16"), "f32"))
