"""Dims: polynomial arithmetic, exact division, and a prover that never claims what is false."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tegg.dim import (Claim, Facts, Poly, dim, evaluate, exact_div, hint, product, substitute,
                      symbols, upper_bound)
from tegg.errors import ArgumentError, ShapeError

A, B, C = dim("a", 1, 7), dim("b", 0, 5), dim("c", 2)
BOUNDS = {"a": (1, 7), "b": (0, 5), "c": (2, 9)}
sizes = st.fixed_dictionaries({k: st.integers(*v) for k, v in BOUNDS.items()})
ints = st.integers(-4, 4)


def polys(depth=3):
    leaf = st.one_of(ints, st.sampled_from([A, B, C]))
    return st.recursive(leaf, lambda p: st.tuples(p, p, st.sampled_from("+-*")).map(_combine),
                        max_leaves=2 ** depth)


def _combine(t):
    x, y, op = t
    return x + y if op == "+" else x - y if op == "-" else x * y


@given(polys(), polys(), sizes)
def test_arithmetic_is_that_of_integers(p, q, s):
    for combined, plain in ((p + q, evaluate(p, s) + evaluate(q, s)),
                            (p - q, evaluate(p, s) - evaluate(q, s)),
                            (p * q, evaluate(p, s) * evaluate(q, s)),
                            (-p, -evaluate(p, s))):
        assert evaluate(combined, s) == plain
        assert isinstance(combined, int) or symbols(combined)


@given(polys(), polys())
def test_equal_polynomials_are_identical(p, q):
    assert (p + q) * (p - q) == p * p - q * q
    assert hash(p + q) == hash(q + p) and repr(p + q) == repr(q + p)
    assert pickle.loads(pickle.dumps(p)) == p


@given(polys(2), polys(2))
def test_division_undoes_multiplication(p, q):
    if q == 0:
        assert exact_div(p, q) is None
    else:
        assert exact_div(p * q, q) == p


@given(polys(), polys(2), sizes)
def test_division_is_exact_or_refused(p, q, s):
    d = exact_div(p, q)
    if d is not None:
        assert d * q == p and evaluate(d, s) * evaluate(q, s) == evaluate(p, s)
    elif isinstance(p, Poly) and q != 0:
        with pytest.raises(ShapeError, match="is not a multiple of"):
            p // q


@given(polys(), st.lists(polys(2), max_size=2), sizes)
def test_the_prover_is_sound(p, claims, s):
    facts = Facts()
    for c in claims:
        if isinstance(c, Poly):
            facts.assume(Claim(c))
    holds = all(evaluate(c, s) >= 0 for c in facts.claims)
    if holds and facts.nonnegative(p):
        assert evaluate(p, s) >= 0


@given(polys(2), polys(2), polys(), sizes)
def test_the_prover_is_sound_under_equalities(p, q, r, s):
    facts = Facts()
    try:
        facts.same(p, q)
    except ShapeError:
        return
    if evaluate(p, s) == evaluate(q, s):
        assert evaluate(facts.canonical(r), s) == evaluate(r, s)
        if facts.nonnegative(r):
            assert evaluate(r, s) >= 0
    assert facts.canonical(p) == facts.canonical(q)


@given(polys(), sizes)
def test_the_upper_bound_bounds(p, s):
    top = upper_bound(p)
    assert top is None or evaluate(p, s) <= top


@given(polys(), polys(1), sizes)
def test_substitution(p, q, s):
    (a,) = symbols(A)
    there = {**s, "a": evaluate(q, s)}
    assert evaluate(substitute(p, {a: q}), s) == evaluate(p, there)


def test_what_bounds_prove():
    facts = Facts()
    assert facts.nonnegative(A - 1) and facts.nonnegative(7 - A) and not facts.nonnegative(A - 2)
    assert facts.nonnegative(A * C - C) and not facts.nonnegative(A - B)
    facts.assume(A >= B)
    assert facts.nonnegative(A - B) and facts.nonnegative(3 * A - 3 * B)
    assert not facts.nonnegative(B - A)


def test_claims_decide_only_what_is_proven():
    assert A >= 1
    assert not A > 7
    with pytest.raises(ShapeError) as e:
        bool(A > 3)
    assert str(e.value) == ("a-4 >= 0 depends on sizes that are known only at run time; give the "
                            "symbols bounds, or state it with tegg.assume(...)")


def test_equalities_are_solved_for_a_symbol():
    n, m = dim("n"), dim("m")
    facts = Facts()
    facts.same(2 * m, n)
    assert facts.canonical(n + m) == 3 * m and facts.nonnegative(n)
    facts.same(n, 2 * m)  # again, which changes nothing
    with pytest.raises(ShapeError, match="no symbol can be solved for"):
        facts.same(2 * m, 3)
    with pytest.raises(ShapeError, match="no symbol can be solved for"):
        facts.same(3, 4)


def test_hints():
    assert hint(dim("n")) == 256 and hint(dim("n", max=64)) == 64 and hint(7) == 7
    assert hint(dim("n", hint=5) + 1) == 6 and hint(dim("n", hint=(9, 5))) == 9
    assert hint(dim("n", hint=2) - 5) == 1


def test_dims_that_cannot_be():
    for args, text in [(("2x",), "a dim is named by an identifier such as 's', not '2x'"),
                       (("n", -1), "dim 'n' needs 0 <= min <= max, not min=-1, max=None"),
                       (("n", 3, 2), "dim 'n' needs 0 <= min <= max, not min=3, max=2"),
                       (("n", 1, 4, 9), "dim 'n': hint 9 is outside 1..4"),
                       (("n", "1"), "dim 'n': bounds and hints are ints, not '1'"),
                       (("n", 1, 4.0), "dim 'n': bounds and hints are ints, not 4.0"),
                       (("n", 1, 4, (2, "3")), "dim 'n': bounds and hints are ints, not '3'")]:
        with pytest.raises(ShapeError) as e:
            dim(*args)
        assert str(e.value) == text
    assert dim("n", 4, 4) == 4


def test_other_errors():
    with pytest.raises(ShapeError) as e:
        evaluate(A + B, {"a": 1})
    assert str(e.value) == "the size of dim 'b' is not known here"
    with pytest.raises(ShapeError) as e:
        Facts().assume(True)
    assert str(e.value) == "assume takes a claim such as n - k >= 0, not True"
    with pytest.raises(ShapeError) as e:
        Facts().assume(A - A - 1 >= 0 if isinstance(A - A - 1, Poly) else Claim(-1))
    assert str(e.value) == "the claim -1 >= 0 is false"
    with pytest.raises(TypeError):
        A >= "x"  # noqa: B015


@pytest.mark.parametrize("compute", [
    lambda: A + 1.5, lambda: 1.5 - A, lambda: A * 0.5, lambda: A / 2, lambda: 1 / A, lambda: A % 2,
    lambda: 7 % A, lambda: 7 // A, lambda: A ** 0.5, lambda: A ** -1, lambda: 2 ** A, lambda: A ** B,
    lambda: int(A), lambda: float(A), lambda: range(A), lambda: [1, 2][:A], lambda: round(A),
    lambda: abs(A), lambda: divmod(A, 2), lambda: A + np.float64(1)])
def test_what_is_no_polynomial(compute):
    with pytest.raises(ArgumentError) as e:
        compute()
    of, *_ = str(e.value).split(" ")
    assert str(e.value) == (f"{of} is a size that only a call of the compiled program knows, and "
                            f"Python cannot compute with it but for +, -, *, exact // and powers; "
                            f"as a tensor it is tegg.full((), {of}, 'f32')")


def test_powers():
    assert A ** 0 == 1 and A ** 1 == A and (A + 1) ** 2 == A * A + 2 * A + 1
    with pytest.raises(TypeError):
        A ** "2"


def test_products_and_text():
    assert product((2, A, 3)) == 6 * A and product(()) == 1
    assert repr(2 * A * B - 3 * C + 1) == "2*a*b+1-3*c" and repr(-A) == "-a"
