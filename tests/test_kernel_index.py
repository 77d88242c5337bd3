"""The algebra of index forms: every rewriting is an equality at every point of the loops."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles import examples
from tegg.dim import Facts, dim
from tegg.dim import evaluate as size_of
from tegg.errors import LoweringError
from tegg.ir.graph import Graph
from tegg.kernel.index import ZERO, Algebra, Form, Guard, Quotient, Remainder, Var, variable
from tegg.kernel.propagate import Propagation

EXTENTS = (1, 2, 3, 5, 8, 12)


def value(form: Form, at: dict[Var, int], sizes: dict[str, int]) -> int:
    """What a form is at a point."""
    total = size_of(form.const, sizes)
    for atom, k in form.terms.items():
        if isinstance(atom, Var):
            x = at[atom]
        else:
            inner, d = value(atom.form, at, sizes), size_of(atom.divisor, sizes)
            x = inner // d if isinstance(atom, Quotient) else inner % d
        total += size_of(k, sizes) * x
    return total


def every(vars: list[Var], sizes: dict[str, int]):
    ranges = [range(size_of(v.extent, sizes)) for v in vars]
    return [dict(zip(vars, p)) for p in itertools.islice(itertools.product(*ranges), 300)]


@st.composite
def forms(draw):
    vars = [Var(draw(st.sampled_from(EXTENTS)), k) for k in range(draw(st.integers(1, 3)))]
    form = Form(draw(st.integers(-20, 40)))
    for v in vars:
        form = form + variable(v) * draw(st.sampled_from((-7, -1, 0, 1, 2, 3, 4, 6, 12, 24, 100)))
    return vars, form


@settings(max_examples=examples(300), deadline=None)
@given(forms(), st.sampled_from((1, 2, 3, 4, 6, 8, 12, 24, 99)),
       st.sampled_from((1, 2, 3, 5, 8, 24)))
def test_divmod_is_floor_division(drawn, d, e):
    vars, form = drawn
    algebra = Algebra(Facts())
    q, r = algebra.divmod(form, d)
    twice = algebra.divmod(q, e), algebra.divmod(r, e)
    for at in every(vars, {}):
        x = value(form, at, {})
        assert (value(q, at, {}), value(r, at, {})) == divmod(x, d)
        assert [value(f, at, {}) for pair in twice for f in pair] == [
            *divmod(x // d, e), *divmod(x % d, e)]
    low, high = algebra.range(q)
    for at in every(vars, {}):
        assert low <= value(q, at, {}) <= high


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from((1, 2, 3, 4, 6)), min_size=1, max_size=4), st.randoms())
def test_unflatten_inverts_flatten(shape, random):
    algebra = Algebra(Facts())
    vars = [Var(n, k) for k, n in enumerate(shape)]
    index = tuple(map(variable, vars))
    flat = algebra.flatten(index, tuple(shape))
    assert algebra.unflatten(flat, tuple(shape)) == index
    other = list(shape)
    random.shuffle(other)
    there = algebra.unflatten(flat, tuple(other))
    for at in every(vars, {}):
        assert value(algebra.flatten(there, tuple(other)), at, {}) == value(flat, at, {})


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from((1, 2, 3, 4, 6)), min_size=1, max_size=4), st.randoms())
def test_a_reshape_keeps_row_major_order(shape, random):
    """Merged, split and shuffled axes, with some of size 1."""
    algebra = Algebra(Facts())
    vars = [Var(n, k) for k, n in enumerate(shape)]
    other = [n for n in shape if n > 1 or random.random() < 0.5]
    for i in range(len(other) - 1, 0, -1):
        if random.random() < 0.5:
            other[i - 1:i + 1] = [other[i - 1] * other[i]]
    for wanted in (other, random.sample(other, len(other)), [1, *shape, 1]):
        there = algebra.reshaped(tuple(map(variable, vars)), tuple(shape), tuple(wanted))
        assert len(there) == len(wanted)
        for at in every(vars, {}):
            place = [value(i, at, {}) for i in there]
            assert all(0 <= i < n for i, n in zip(place, wanted))
            flat = sum(at[v] * math.prod(shape[k + 1:]) for k, v in enumerate(vars))
            assert sum(i * math.prod(wanted[k + 1:]) for k, i in enumerate(place)) == flat


def test_outside_of_an_axis_stays_outside_of_it():
    """What a pad asks for beyond an axis is no other row of the array that was reshaped."""
    n = dim("n", 1)
    algebra, i, j = Algebra(Facts()), variable(Var(9, 0)) + -1, variable(Var(n, 0)) + -1
    assert algebra.reshaped((ZERO, i, j), (1, 7, n), (7, n)) == (i, j)
    assert algebra.reshaped((i, j), (7, n), (7, 1, n, 1)) == (i, ZERO, j, ZERO)
    first, *rest = algebra.reshaped((i, j), (7, 6), (7, 2, 3))
    assert first == i and all(f.vars() == {Var(n, 0)} for f in rest)


def test_cumulative_sum_loses_its_division():
    """(i + 100 w) mod 99 is (i + w) mod 99."""
    algebra, i, w = Algebra(Facts()), Var(40, 0), Var(50, 1)
    q, r = algebra.divmod(variable(i) + variable(w) * 100, 99)
    assert r == variable(i) + variable(w)
    assert q == variable(w)


def test_symbolic_division_of_rows():
    n, m = dim("n", 1), dim("m", 1)
    algebra, i, j = Algebra(Facts()), Var(n, 0), Var(m, 0)
    flat = variable(i) * m + variable(j)
    assert algebra.divmod(flat, m) == (variable(i), variable(j))


def test_quotient_and_remainder_recombine():
    n = dim("n", 1)
    algebra, i = Algebra(Facts()), Var(n * 6, 0)
    q, r = algebra.divmod(variable(i), n)
    assert isinstance(next(iter(r.terms)), Remainder)
    assert algebra.recombine(q * n + r) == variable(i)


def test_facts_prove_guards():
    n, k = dim("n", 1), dim("k", 0)
    facts = Facts()
    form = variable(Var(n, 0)) + k
    assert not Algebra(facts).within(form, 0, 2 * n - 1)
    facts.assume(n - k >= 0)
    assert Algebra(facts).within(form, 0, 2 * n - 1)
    assert Algebra(facts).outside(Guard(form, -5, -1))


def test_substitution_simplifies():
    algebra, i, j = Algebra(Facts()), Var(24, 0), Var(4, 1)
    q = algebra.divmod(variable(i), 6)[0]
    assert algebra.substitute(q, {i: variable(j) * 6}) == variable(j)


@pytest.mark.parametrize("extent", (0, 1))
def test_a_loop_of_at_most_one_iteration_is_a_constant(extent):
    assert variable(Var(extent, 0)) == Form(0)


def test_too_many_pairs_of_node_and_index_are_refused():
    g = Graph()
    x = g.input("x", (4,), "f32")
    for _ in range(4):
        x = g.op("Flip", x, 0)
    p = Propagation(g, frozenset(), limit=1)
    _, index = p.bind(x.shape, ())
    with pytest.raises(LoweringError, match="the fragment needs more than 4 pairs of node and "
                                            "index; store an inner value and lower the parts"):
        p.at(x, index)
