"""Straight runs of gathered indices: where they are said to run they do, in values and in C."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import check
from tegg.testing.draw import Draw
from tegg.backends.cpu.emit import C

from tegg.bits import value_of
from tegg.dim import Facts, dim
from tegg.dtype import i32, i64
from tegg.ir.graph import Graph
from tegg.kernel.index import Algebra, Form, Gathered, Var
from tegg.kernel.lane import Lanes
from tegg.kernel.lower import lower
from tegg.kernel.straight import END, Runs, run
from tegg.kernel.value import Values

WIDTH = 16


def wrapped(n: int) -> int:
    """An integer as 64 bits hold it."""
    return (n + 2 ** 63) % 2 ** 64 - 2 ** 63


def plain(f: Form, at, scalars) -> int:
    """A form at places of its variables."""
    return wrapped(f.const + sum(k * (scalars[a.value.id] if isinstance(a, Gathered) else at[a])
                                 for a, k in f.terms.items()))


def meaning(v, at, scalars) -> int:
    """The value of an index, as machine integers compute it."""
    if v.id in scalars:
        return scalars[v.id]
    if v.op in ("const", "index"):
        return plain(v.attr, at, scalars) if v.op == "index" else value_of(v.attr, v.dtype)
    a = [meaning(x, at, scalars) for x in v.args]
    return {"Add": lambda: wrapped(a[0] + a[1]), "Sub": lambda: wrapped(a[0] - a[1]),
            "Neg": lambda: wrapped(-a[0]), "Mul": lambda: wrapped(a[0] * a[1]),
            "Abs": lambda: wrapped(abs(a[0])), "Maximum": lambda: max(a), "Minimum": lambda: min(a),
            "LessThan": lambda: a[0] < a[1], "LessEqual": lambda: a[0] <= a[1],
            "Select": lambda: a[1] if a[0] else a[2]}[v.op]()


FAR = (2 ** 63 - 3, -2 ** 63, 2 ** 62, -2 ** 62 - 1, 2 ** 31)


class Chain:
    """Random indices along a variable, mostly such as are straight somewhere."""

    def __init__(self, r) -> None:
        self.r, self.algebra = r, Algebra(Facts(()))
        self.values = Values(self.algebra)
        self.var, self.other = Var(r.randint(2, 70), 0), Var(5, 1)
        self.scalars: dict[int, int] = {}

    def fixed(self):
        """What does not follow the lanes; of a scalar nothing is known."""
        r, kind = self.r, self.r.choice(["const"] * 6 + ["other", "scalar", "far"])
        if kind == "other":
            return self.values.index(Form(r.randint(-9, 9), {self.other: 1}), i64)
        if kind == "scalar":
            v = self.values.load(3, i64, Form(len(self.scalars)))
            self.scalars[v.id] = r.choice([r.randint(-9, 70), r.randint(-9, 70), *FAR])
            return v
        return self.values.const(r.choice(FAR) if kind == "far" else r.randint(-40, 70), i64)

    def index(self, depth: int):
        r, make = self.r, self.values.make
        if not depth:
            return self.values.index(Form(r.randint(-9, 9), {self.var: r.choice([1, 1, -1])}), i64)
        a = self.index(depth - 1)
        b = self.fixed() if r.random() < 0.8 else self.index(r.randint(0, depth - 1))
        op = r.choice(["Add", "Sub", "Mul", "Neg", "Abs", "Abs", "Maximum", "Minimum", "Select",
                       "Select"])
        if op in ("Neg", "Abs"):
            return make(op, (a,), i64)
        if op == "Select":
            test = make(r.choice(["LessThan", "LessEqual"]), r.choice([(a, b), (b, a)]), i64)
            taken = (a, make("Add", (a, self.fixed()), i64))
            return make(op, (test, *r.sample(taken, 2)), i64)
        if op == "Mul":
            b = self.values.const(r.choice([-1, -1, 1, 3]), i64)
        return make(op, r.choice([(a, b), (b, a)]), i64)


@settings(max_examples=400, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(1, 90))
def test_between_two_lanes_that_hold_all_guards_an_index_is_its_form(r, depth, extent):
    chain = Chain(r)
    atom, var, scalars = Gathered(chain.index(depth), extent), chain.var, chain.scalars
    found = run(Lanes(chain.algebra, WIDTH), Form(0, {atom: 1}), var, lambda v: v.id in scalars)
    if found is None:
        return
    for row in (0, 4):
        places = [{var: i, chain.other: row} for i in range(var.extent)]
        holds = [all(g.low <= plain(g.form, at, scalars) <= g.high for g in found.guards)
                 for at in places]
        right = [plain(found.form, at, scalars) == min(max(meaning(
            atom.value, at, scalars), 0), extent - 1) for at in places]
        for first in range(var.extent):
            last = min(first + WIDTH, var.extent) - 1
            assert not (holds[first] and holds[last]) or all(right[first:last + 1]), (found, row)


def test_a_reflected_axis_is_straight_between_its_ends():
    algebra = Algebra(Facts(()))
    values, var = Values(algebra), Var(68, 0)
    at = values.index(Form(-2, {var: 1}), i64)
    top = values.const(63, i64)
    inner = values.make("Abs", (values.make("Sub", (top, at), i64),), i64)
    index = values.make("Abs", (values.make("Sub", (top, inner), i64),), i64)
    found = Runs(algebra, var, lambda v: False).clamped(Gathered(index, 64))
    assert found.form == Form(-2, {var: 1})
    assert {(g.form, g.low, g.high) for g in found.guards} == {
        (Form(65, {var: -1}), 0, END), (Form(-2, {var: 1}), 0, END), (Form(-2, {var: 1}), 0, 63)}


def test_what_does_not_run_straight_is_not_said_to():
    algebra = Algebra(Facts(()))
    values, var = Values(algebra), Var(40, 0)
    lanes = Lanes(algebra, WIDTH)
    at = values.index(Form(0, {var: 1}), i64)
    loaded = values.load(0, i64, Form(0, {var: 1}))
    twice = values.make("Mul", (at, values.const(2, i64)), i64)
    narrow = values.index(Form(0, {var: 1}), i32)
    square = values.make("Mul", (at, at), i64)
    for value in (loaded, twice, narrow, square):
        assert run(lanes, Form(0, {Gathered(value, 9): 1}), var) is None
    half = Form(0, {Gathered(twice, 99, clamped=False): 1, var: -1})
    assert run(lanes, half, var).form == Form(0, {var: 1})
    assert run(lanes, Form(0, {var: 1}), var) is None  # nothing is gathered
    unknown = values.make("Add", (at, values.load(0, i64, Form(3))), i64)
    form = Form(0, {Gathered(unknown, 9): 1})
    assert run(lanes, form, var, lambda v: False) is None and run(lanes, form, var) is not None


def test_what_could_wrap_is_not_said_to_run():
    """The lowest integer is less than all others, but its distance to them is no 64-bit number."""
    algebra = Algebra(Facts(()))
    values, var = Values(algebra), Var(40, 0)
    at, scalar = values.index(Form(0, {var: 1}), i64), values.load(0, i64, Form(3))
    far = values.const(2 ** 62, i64)
    for other in (scalar, far):
        test = values.make("LessThan", (other, at), i64)
        for value in (values.make("Select", (test, at, at), i64),
                      values.make("Maximum", (other, at), i64)):
            assert run(Lanes(algebra, WIDTH), Form(0, {Gathered(value, 9): 1}), var) is None


# ---- in C
def around(g: Graph, x, axis: int, before: int, after: int, mode: str):
    """An axis with its own values around it, as ``tegg.pad`` records it."""
    n = x.shape[axis]

    def plus(v, d):
        return g.broadcast("Add", v, g.size(d, i64))

    at = plus(g.iota(before + n + after, i64), -before)
    if mode == "reflect":
        folded = g.named("Abs", plus(g.mul(at, -1), n - 1))
        at = g.named("Abs", plus(g.mul(folded, -1), n - 1))
    elif mode == "circular":
        late, early = plus(at, -n), plus(at, n)
        at = g.select(g.less(at, 0), early, g.select(g.less(late, 0), at, late))
    return g.op("Gather", x, at, axis)


@pytest.mark.parametrize("width", [16, 8, 4])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_axes_around_which_their_own_values_stand(mode, width):
    """At sizes below a vector, at its ends, and with tails; of every kind of memory."""
    g, outputs = Draw(), []
    for rows, n, before, after, dtype in [
            (3, 64, 2, 2, "f32"), (2, 5, 4, 3, "f32"), (1, 33, 0, 16, "f32"), (4, 17, 1, 0, "f64"),
            (2, 40, 3, 9, "u8"), (2, 19, 2, 2, "f16"), (3, 31, 5, 1, "bool"), (2, 48, 1, 1, "i64"),
            (0, 20, 2, 2, "f32"), (5, 1, 0, 0, "f32"), (2, 2, 1, 1, "bf16"), (1, 18, 0, 0, "i8"),
            (3, 16, 2, 2, "i32"), (2, 15, 9, 2, "i32"), (2, 64, 40, 50, "f32"),
            (2, 32, 16, 17, "i32")]:
        x = g.x(rows, n, dtype=dtype)
        outputs.append(around(g, x, 1, before, after, mode))
    if mode == "replicate":
        outputs.append(around(g, g.x(3, 1), 1, 20, 30, mode))
    x = g.x(2, 21, 18)
    outputs.append(around(g, around(g, x, 1, 2, 3, mode), 2, 3, 2, mode))
    code = check(g, outputs, width=width)
    assert "? vf_load(b" in code.source and "? vi_load(b" in code.source
    assert ": vf_near(b" in code.source and ": vi_nearm(b" in code.source


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["reflect", "replicate"]), st.integers(8, 70), st.data())
def test_ends_of_axes_are_near_wherever_vectors_begin(mode, n, data):
    before, after = (data.draw(st.integers(0, min(n - 1, 24))) for _ in range(2))
    g = Draw()
    check(g, [around(g, g.x(2, n), 1, before, after, mode)])


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_axes_of_symbolic_sizes(mode):
    g, n = Draw(), dim("n", min=4, max=200)
    out = around(g, g.x(3, n), 1, 3, 2, mode)
    code = lower(g, [out], "k", C(16))
    assert "? vf_load(b" in code.source
    for size in (4, 14, 64, 67):
        check(g, [out], {"n": size}, code=code)


@pytest.mark.parametrize("width", [16, 4])
def test_rows_that_begin_anywhere(width):
    """Windows whose beginnings are data, as far outside of the axis as 64 bits reach."""
    g = Draw()
    x, start, more = g.x(2, 50), g.x(9, dtype="i64"), g.x(4, dtype="i64")
    at = g.broadcast("Add", g.reshape(start, (9, 1)), g.iota(23, i64))
    out = g.op("Gather", x, at, 1)
    bent = g.named("Abs", g.broadcast("Add", g.reshape(more, (4, 1)), g.iota(20, i64)))
    begins = [0, 27, 28, -1, -23, 50, 2 ** 63 - 3, -2 ** 63, -2 ** 63 + 5]
    check(g, [out, g.op("Gather", x, bent, 1)], width=width, inputs={
        0: np.arange(100, dtype=np.float32).reshape(2, 50), 1: np.array(begins), 2: np.array([-7, 3, -2 ** 63, 2 ** 63 - 9])})


def test_padded_images_that_are_gathered_read_no_memory_beside_them():
    """Guards of what is gathered follow the run."""
    g = Draw()
    inner = g.padded(g.x(4, 30), (0, 0), (3, 5), fill=0)
    check(g, [around(g, inner, 1, 6, 7, mode) for mode in ("reflect", "replicate")])


def test_straight_rows_are_walked_along():
    """Positions that only ends need are no reason to walk down columns."""
    g = Draw()
    code = lower(g, [around(g, around(g, g.x(3, 64, 64), 1, 2, 2, "reflect"), 2, 2, 2,
                            "reflect")], "k", C(16))
    loops = [line for line in code.source[:code.source.index("? vf_load(")].splitlines()
             if "for (" in line]
    assert "+= 64" in loops[-1] and "+= 64" not in "".join(loops[:-1])
