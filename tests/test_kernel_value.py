"""Values: identity, dependence, and substitution that respects bound variables."""

from __future__ import annotations

import pytest

from tegg.bits import bits_of
from tegg.dim import Facts
from tegg.dtype import bf16, bool_, f16, f32, i32
from tegg.errors import LoweringError
from tegg.kernel.index import Algebra, Form, Gathered, Guard, Var, variable
from tegg.kernel.value import Reduction, Values, holds, reachable

I, J, K = Var(8, 0), Var(8, 1), Var(8, 2)


@pytest.fixture
def values() -> Values:
    return Values(Algebra(Facts()))


def element(values, i, j):
    return values.load(0, f32, variable(i) * 8 + variable(j))


def test_equal_values_are_one(values):
    a, b = element(values, I, J), element(values, I, J)
    assert a is b
    assert values.make("Add", (a, b), f32) is values.make("Add", (b, a), f32)


def test_constants_differ_by_bits_and_dtype(values):
    assert values.const(0.0, f32) is not values.const(-0.0, f32)
    assert values.const(1, i32) is not values.const(1.0, f32)


def test_a_reduction_binds(values):
    total = values.reduce("sum", (J,), element(values, I, J), f32)
    assert total.deps == {I}


def test_gathered_indices_are_operands(values):
    row = values.load(1, i32, variable(I))
    x = values.load(0, f32, Form(0, {Gathered(row, 5): 8, J: 1}))
    assert x.args == (row,)
    assert x.deps == {I, J}
    moved = values.substitute(x, {I: variable(K)})
    assert moved.args == (values.load(1, i32, variable(K)),)


def test_substitution_leaves_bound_variables_alone(values):
    total = values.reduce("sum", (J,), element(values, I, J), f32)
    assert values.substitute(total, {J: variable(K)}) is total
    both = values.make("Add", (total, element(values, I, J)), f32)
    moved = values.substitute(both, {J: variable(K)})
    assert moved.args == (total, element(values, I, K))


def test_substitution_does_not_capture(values):
    """Sum over j of x[i, j] at i = j is a sum over another variable."""
    total = values.reduce("sum", (J,), element(values, I, J), f32)
    moved = values.substitute(total, {I: variable(J)})
    bound, = moved.attr.vars
    assert bound != J
    assert moved.deps == {J}
    assert moved.args[0] is element(values, J, bound)


def test_what_a_reduction_counts_follows_its_variable(values):
    """A variable that is renamed is so in the guard of its terms, too."""
    total = values.make("red", (element(values, I, J),), f32,
                        Reduction("sum", (J,), only=Guard(variable(J) - 2, 0, 3)))
    assert total.attr.trips() == 4
    moved = values.substitute(total, {I: variable(J)})
    bound, = moved.attr.vars
    assert moved.attr.only == Guard(variable(bound) - 2, 0, 3)
    assert values.substitute(total, {I: variable(K)}).attr.only == total.attr.only


def test_operands_come_first(values):
    x = element(values, I, J)
    y = values.make("Exp2", (x,), f32)
    assert reachable([values.make("Mul", (y, x), f32)])[:2] == [x, y]


def test_too_many_values_are_refused():
    small = Values(Algebra(Facts()), limit=3)
    with pytest.raises(LoweringError, match="more than 3 distinct values per iteration; store"):
        for n in range(4):
            small.const(n, i32)


def test_what_a_value_holds(values):
    """A number of bfloat16, whatever it is made of, but not one that is only held as if it were."""
    x = values.load(0, bf16, variable(I))
    wide, real = values.make("Cast", (x,), f32), values.load(1, f32, variable(I))
    zero, one = (values.make("const", (), f32, bits_of(n, f32)) for n in (0.0, 1.0))
    test = values.load(2, bool_, variable(I))
    rounded = values.make("Cast", (real,), bf16)
    for v in (x, wide, rounded, values.make("Cast", (rounded,), f32), zero,
              values.make("Select", (test, wide, zero), f32)):
        assert holds(v, bf16)
    held = values.make("Held", (real,), bf16, bf16)
    for v in (real, one, held, values.make("Cast", (held,), f32),
              values.make("Add", (wide, wide), f32), values.make("Select", (test, wide, real), f32),
              values.load(3, f16, variable(I))):
        assert not holds(v, bf16)
