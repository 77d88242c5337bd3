"""Index rules are proven by a solver: for every point, and every size within its bounds."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernel_index import forms

from profiles import examples
from tegg.dim import Facts, Poly, Symbol, dim
from tegg.ir.classes import ENode
from tegg.ir.op import OPS
from tegg.kernel.index import Algebra, Form, Quotient, Var, variable
from tegg.rewrite.providers.permutations import Permutations

z3 = pytest.importorskip("z3")
TIMEOUT_MS = 1500


class Terms:
    """Forms and dims as integer terms, with what is known of each: floors by their definition."""

    def __init__(self) -> None:
        self.known: list = []
        self.made: dict = {}

    def dim(self, d):
        if isinstance(d, Poly):
            total = z3.IntVal(0)
            for monomial, c in d.terms.items():
                part = z3.IntVal(c)
                for s in monomial:
                    part = part * self.symbol(s)
                total = total + part
            return total
        return z3.IntVal(d)

    def symbol(self, s: Symbol):
        if s not in self.made:
            v = self.made[s] = z3.Int(s.name)
            self.known += [v >= s.min, *([v <= s.max] if s.max is not None else [])]
        return self.made[s]

    def form(self, form: Form):
        total = self.dim(form.const)
        for atom, k in form.terms.items():
            total = total + self.dim(k) * self.atom(atom)
        return total

    def atom(self, atom):
        if atom not in self.made:
            if isinstance(atom, Var):
                v = self.made[atom] = z3.Int(f"v{len(self.made)}")
                self.known += [v >= 0, v < self.dim(atom.extent)]
            else:
                q, r = self.divide(self.form(atom.form), self.dim(atom.divisor))
                self.made[atom] = q if isinstance(atom, Quotient) else r
        return self.made[atom]

    def divide(self, x, d):
        """Quotient and remainder as new integers that only their definition binds."""
        q, r = (z3.Int(f"{n}{len(self.known)}") for n in "qr")
        self.known += [x == q * d + r, r >= 0, r < d, d >= 1]
        return q, r

    def answer(self, claim) -> str:
        solver = z3.Solver()
        solver.set("timeout", TIMEOUT_MS)
        solver.add(*self.known, z3.Not(claim))
        return str(solver.check())


def divmod_answer(algebra: Algebra, form: Form, d) -> str:
    q, r = algebra.divmod(form, d)
    terms = Terms()
    whole, rest = terms.divide(terms.form(form), terms.dim(d))
    return terms.answer(z3.And(terms.form(q) == whole, terms.form(r) == rest))


@settings(max_examples=examples(60), deadline=None)
@given(forms(), st.sampled_from((1, 2, 3, 4, 6, 8, 12, 24, 99)),
       st.sampled_from((1, 2, 3, 5, 8, 24)))
def test_divmod(drawn, d, e):
    algebra = Algebra(Facts())
    q, r = algebra.divmod(drawn[1], d)
    for form, by in ((drawn[1], d), (q, e), (r, e)):
        assert divmod_answer(algebra, form, by) == "unsat"


SIZES = {n: dim(n, 1, top) for n, top in (("a", 9), ("b", 64), ("c", None))}
STRIDES = (1, 2, 3, SIZES["a"], SIZES["b"], SIZES["a"] * SIZES["b"], SIZES["c"], SIZES["c"] * 4)


@st.composite
def symbolic(draw):
    form = Form(draw(st.integers(0, 5)))
    for k in range(draw(st.integers(1, 2))):
        extent = draw(st.sampled_from((4, *SIZES.values())))
        form = form + variable(Var(extent, k)) * draw(st.sampled_from(STRIDES))
    return form


@settings(max_examples=examples(40), deadline=None)
@given(symbolic(), st.sampled_from(STRIDES))
def test_divmod_of_symbolic_sizes_is_never_wrong(form, d):
    """Products of unknowns may be beyond the solver, which then says so."""
    assert divmod_answer(Algebra(Facts()), form, d) in ("unsat", "unknown")


@pytest.mark.parametrize("stride, d", [
    (SIZES["b"], SIZES["b"]), (SIZES["a"] * SIZES["b"], SIZES["b"]), (1, SIZES["c"])])
def test_divmod_of_symbolic_sizes_is_proven(stride, d):
    form = variable(Var(SIZES["a"], 0)) * stride + variable(Var(d, 1))
    assert divmod_answer(Algebra(Facts()), form, d) == "unsat"


def test_a_wrong_quotient_is_seen():
    terms, form = Terms(), variable(Var(12, 0))
    whole, _ = terms.divide(terms.form(form), terms.dim(5))
    q, _ = Algebra(Facts()).divmod(form, 4)
    assert terms.answer(terms.form(q) == whole) == "sat"


@settings(max_examples=examples(60), deadline=None)
@given(forms(), st.sampled_from((2, 3, 4, 8, 24)), st.integers(1, 4))
def test_recombining(drawn, d, factor):
    """d (x / d) + x mod d is x."""
    algebra = Algebra(Facts())
    q, r = algebra.divmod(drawn[1], d)
    joined = algebra.recombine(q * (d * factor) + r * factor)
    terms = Terms()
    assert terms.answer(terms.form(joined) == terms.form(drawn[1]) * factor) == "unsat"


SHAPES = [(4,), (2, 3), (3, 1, 4), (SIZES["a"], 4), (2, SIZES["b"], 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_unflatten_undoes_flatten(shape):
    algebra = Algebra(Facts())
    index = tuple(variable(Var(n, i)) for i, n in enumerate(shape))
    again = algebra.unflatten(algebra.flatten(index, shape), shape)
    terms = Terms()
    claim = z3.And([terms.form(x) == terms.form(y) for x, y in zip(index, again)])
    assert terms.answer(claim) == "unsat"


# The laws that the simplifier stands on, for every x.
LAWS = {
    "quotient of a quotient": lambda x, d, e: (x / d) / e == x / (d * e),
    "quotient of a remainder": lambda x, d, e: (x % (d * e)) / d == (x / d) % e,
    "remainder of a remainder": lambda x, d, e: (x % (d * e)) % d == x % d,
    "quotient and remainder": lambda x, d, e: d * (x / d) + x % d == x,
    "common factor": lambda x, d, e: z3.And(*(
        z3.And((d * x + s) / (d * e) == x / e, (d * x + s) % (d * e) == d * (x % e) + s)
        for s in range(d))),
    "residues": lambda x, d, e: ((d * e + 1) * x) % d == x % d,
}


@pytest.mark.parametrize("law", LAWS)
def test_law(law):
    x = z3.Int("x")
    for d, e in itertools.product((1, 2, 3, 4, 7), repeat=2):
        solver = z3.Solver()
        solver.add(z3.Not(LAWS[law](x, d, e)))
        assert solver.check() == z3.unsat, (law, d, e)


# ---- permutations
def stated(nodes: dict, shapes: dict) -> set:
    view = SimpleNamespace(nodes=nodes, shape=shapes, having=lambda op: (
        (c, n) for c, ns in nodes.items() for n in ns if n.op.name == op))
    return set(Permutations().facts(view))


def permute(arg: int, perm: tuple) -> ENode:
    return ENode(OPS["Permute"], (arg,), (perm,))


PERMS = [p for rank in range(5) for p in itertools.permutations(range(rank))]


@pytest.mark.parametrize("rank", range(5))
def test_permutations_compose(rank):
    """All of them: what they do to axes of different sizes is all that they do."""
    x = np.empty((2, 3, 5, 7)[:rank])
    mine = [p for p in PERMS if len(p) == rank]
    for p, q in itertools.product(mine, repeat=2):
        facts = stated({0: [], 1: [permute(0, p)], 2: [permute(1, q)]},
                       {0: x.shape, 1: x.transpose(p).shape})
        (r,) = {f[3] for f in facts if f[0] == "perm-compose"}
        assert x.transpose(p).transpose(q).strides == x.transpose(r).strides


@pytest.mark.parametrize("perm", PERMS, ids=str)
def test_moving_axes_of_size_one_is_a_reshape(perm):
    """At every index of every size, where the provider says so; and it says so where it is."""
    for units in itertools.product((True, False), repeat=len(perm)):
        shape = tuple(1 if u else dim(f"n{i}", 2) for i, u in enumerate(units))
        facts = [f for f in stated({0: [], 1: [permute(0, perm)]}, {0: shape})
                 if f[0] == "perm-units"]
        moved = [i for i in perm if not units[i]]
        assert bool(facts) == (moved == sorted(moved) and perm != tuple(range(len(perm))))
        for *_, new in facts:
            terms = Terms()
            at = tuple(variable(Var(n, i)) for i, n in enumerate(new))  # an index of the result
            old = [at[0]] * len(perm)
            for i, axis in enumerate(perm):
                old[axis] = at[i]
            algebra = Algebra(Facts())
            both = (terms.form(algebra.flatten(*f)) for f in ((tuple(old), shape), (at, new)))
            assert terms.answer(next(both) == next(both)) == "unsat"
