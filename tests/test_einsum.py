"""einsum against NumPy's; errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tegg
from recorded import check, check_error, run
from tegg.testing.strategies import array
from tegg.dtype import f16, f32, f64, i32
from tegg.errors import ArgumentError, DTypeError, ShapeError

SIZES = {"i": 2, "j": 3, "k": 4, "l": 1, "m": 0}


@st.composite
def equations(draw):
    """An equation and the shapes of its operands; letters may stand twice, sizes may be 1."""
    terms = draw(st.lists(st.text("ijklm", max_size=4), min_size=1, max_size=4))
    used = sorted(set("".join(terms)))
    out = draw(st.permutations(used))[:draw(st.integers(0, len(used)))] if used else []
    dots = draw(st.lists(st.booleans(), min_size=len(terms), max_size=len(terms)))
    lead = {True: draw(st.sampled_from([(2,), (3, 2), ()])), False: ()}
    shapes = [lead[d] + tuple(SIZES[c] for c in t) for d, t in zip(dots, terms)]
    text = ",".join("..." * d + t for d, t in zip(dots, terms))
    return text + draw(st.sampled_from(["", "->" + "..." * any(dots) + "".join(out)])), shapes


@given(case=equations(), dtype=st.sampled_from([f64, f32, f16, i32]), seed=st.integers(0, 99))
def test_einsum(case, dtype, seed):
    equation, shapes = case
    rng = np.random.default_rng(seed)
    given_ = [array(rng, s, dtype, "small") for s in shapes]
    if dtype is i32:
        given_ = [np.asarray(a % 5) for a in given_]
    check(lambda *xs: tegg.einsum(equation, *xs), lambda *xs: np.einsum(equation, *xs), *given_,
          slack=8)


def test_sizes_of_one_broadcast_and_operands_may_be_a_list():
    a, b = np.ones((1, 3, 4)), np.full((2, 1, 4), 2.0)
    check(lambda a, b: tegg.einsum("ijk,ijk->ijk", [a, b]), lambda a, b: a * b, a, b)
    check(lambda a: tegg.einsum(" i j k -> k i j", a), lambda a: a.transpose(2, 0, 1), a)
    check(lambda a: tegg.einsum("ijk->ji", a > 0), lambda a: (a > 0).any(2).T, a)


def test_the_cheap_product_comes_first():
    g = tegg.Graph()
    a, b, c = g.tensor((50, 2)), g.tensor((2, 50)), g.tensor((50, 1))
    tegg.einsum("ij,jk,kl->il", a, b, c)
    assert all(np.prod(n.shape) <= 100 for n in g.nodes if n.op.name == "SumReduce")


def test_symbols():
    n = tegg.dim("n", 1, 8)
    x = np.random.default_rng(0).normal(size=(3, 3, 2))
    got = run(lambda x: tegg.einsum("iik,ijk->ij", x, x), x, dims={"x": (n, n, None)},
              sizes={"n": 3})
    np.testing.assert_allclose(got, np.einsum("iik,ijk->ij", x, x))


X, Y = np.ones((2, 3)), np.ones((3, 4))
ERRORS = [
    (lambda x, y: tegg.einsum("ij,jk", x), ArgumentError,
     "einsum: 'ij,jk' has 2 operands, 1 are given"),
    (lambda x, y: tegg.einsum("ij"), ArgumentError,
     "einsum: takes an equation and operands, not 'ij' and 0 operands"),
    (lambda x, y: tegg.einsum("i1", x), ArgumentError,
     "einsum: 'i1' is no equation; letters, ',', '...' and '->' make one"),
    (lambda x, y: tegg.einsum("ijk", x), ShapeError,
     "einsum: 'ijk' of 'ijk' does not name the 2 axes of its operand"),
    (lambda x, y: tegg.einsum("ij,ji", x, y), ShapeError,
     "einsum: 'i' of 'ij,ji' is 2 and 4; operands (2, 3), (3, 4)"),
    (lambda x, y: tegg.einsum("ii", x), ShapeError,
     "einsum: 'i' of 'ii' names axes of 2 and 3 of (2, 3)"),
    (lambda x, y: tegg.einsum("ij->ik", x), ArgumentError,
     "einsum: 'k' of the result of 'ij->ik' stands in no operand"),
    (lambda x, y: tegg.einsum("ij->ii", x), ArgumentError,
     "einsum: 'i' of the result of 'ij->ii' stands twice"),
    (lambda x, y: tegg.einsum("ij,jk", x > 0, y > 0), DTypeError,
     "einsum: needs numbers, not bool; write x.cast('f32')"),
]


@pytest.mark.parametrize(("fn", "kind", "text"), ERRORS)
def test_errors(fn, kind, text):
    check_error(fn, kind, text, X, Y)


def test_compiled_is_one_kernel():
    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=(2, 3, n, 8)).astype(np.float32) for n in (5, 7))
    f = tegg.compile(lambda q, k: tegg.einsum("bhqd,bhkd->bqhk", q, k))
    np.testing.assert_allclose(f(q, k), np.einsum("bhqd,bhkd->bqhk", q, k), atol=1e-5)
    assert f.program(q, k).stats["kernels"] == 1
