"""Values that rest in 16 bits: which may, what bounds them, and that the rules fire."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tegg.testing.programs import programs

from tegg.errors import RuleError
from tegg.ir.graph import Graph
from tegg.ir.oracle import evaluate
from tegg.rewrite.compiler import ROUNDING, Bf16, Compiler, Fp16, Generic, Tf32
from tegg.rewrite.egraph import saturate
from tegg.rewrite.rulefile import read_rules
from tegg.rewrite.providers.bounds import LARGEST, Bounds, bounds
from tegg.rewrite.providers.multiplying import Multiplying


class Spy(Bounds):
    """Keeps the bounds of the nodes of a graph."""

    def facts(self, view):
        known = bounds(view)
        self.of = {i: known[c] for i, c in view.of.items() if c in known}
        return super().facts(view)


@given(programs(steps=12))
def test_no_value_is_beyond_its_bound(program):
    spy = Spy()
    half = Compiler("half.f16", providers=(ROUNDING, spy), rounds=True)
    saturate(program.graph, (Generic(), half))
    if not all(np.all(np.isfinite(a)) for a in program.inputs.values() if a.dtype.kind == "f"):
        return
    nodes = [n for n in program.graph.reachable() if n.id in spy.of]
    for n, value in zip(nodes, evaluate(nodes, program.inputs, program.sizes)):
        finite = np.abs(value[np.isfinite(value)].astype(np.float64))
        assert finite.max(initial=0) <= spy.of[n.id] * (1 + 1e-5) + 1e-30, (n, spy.of[n.id])


def bound_of(build) -> float | None:
    g = Graph()
    x = g.input("x", (4, 9), "f32")
    spy = Spy()
    g.outputs["y"] = y = build(g, x)
    saturate(g, (Generic(), Compiler("half.f16", providers=(ROUNDING, spy), rounds=True)))
    return spy.of.get(y.id)


@pytest.mark.parametrize("build, most", [
    (lambda g, x: g.op("Sin", x), 1),
    (lambda g, x: g.mul(g.op("Sin", x), 300), 300),
    (lambda g, x: g.op("SumReduce", g.op("Sin", x), 1), 9),
    (lambda g, x: g.op("MaxReduce", g.op("Sin", x), 1), 1),
    (lambda g, x: g.table["Softmax"].expand(g, (x,), (1,)), 1),
    (lambda g, x: g.op("Exp2", g.op("Sin", x)), 2),
    (lambda g, x: g.pad(g.op("Sin", x), (1, 0), (0, 0), -3.0), 3),
    (lambda g, x: g.cast(g.input("b", (2,), "u8"), "f32"), 255),
    (lambda g, x: g.cast(g.input("b", (2,), "i8"), "f32"), 128),
    (lambda g, x: g.op("Sqrt", g.mul(g.op("Sin", x), 16)), 4)])
def test_bounds(build, most):
    assert bound_of(build) == pytest.approx(most)


@pytest.mark.parametrize("build", [
    lambda g, x: g.add(x, 1), lambda g, x: g.op("Recip", g.op("Sin", x)),
    lambda g, x: g.op("Exp2", g.mul(g.op("Sin", x), 300)),
    lambda g, x: g.full(float("nan"), "f32", (2,)), lambda g, x: g.full(float("inf"), "f32", (2,))])
def test_what_has_no_bound(build):
    assert bound_of(build) in (None, float("inf"))


def block(g: Graph):
    """x W, its row statistics, its norm, its softmax, and a product of that."""
    x, w = g.input("x", (8, 16), "f32"), g.input("w", (16, 16), "f32", "weight")
    h = product(g, x, w)
    total = g.op("SumReduce", g.op("Sin", h), 1)
    scale = g.op("Sqrt", g.add(total, 9))
    soft = g.table["Softmax"].expand(g, (g.mul(h, 2),), (1,))
    y = product(g, soft, w)
    nodes = dict(h=h, total=total, scale=scale, soft=soft, w=w, x=x, y=y,
                 shifted=g.add(h, g.expand(total, h.shape)))
    for name, n in nodes.items():
        g.outputs[name] = n
    return nodes


def product(g: Graph, x, w):
    rows, k, n = x.shape[0], x.shape[1], w.shape[1]
    both = [g.expand(g.reshape(x, (rows, k, 1)), (rows, k, n)),
            g.expand(g.reshape(w, (1, k, n)), (rows, k, n))]
    return g.reshape(g.op("SumReduce", g.mul(*both), 1), (rows, n))


def test_statistics_norms_and_softmaxes_stay_as_they_are():
    g = Graph()
    nodes = block(g)
    classes = saturate(g, (Generic(), Bf16())).classes
    of = {name: classes.of[(n.args[0] if n.op.name == "Reshape" else n).id]
          for name, n in nodes.items()}  # movement never rests: its operand does
    rests = {name for name, c in of.items() if "bf16" in classes.forms.get(c, ())}
    assert rests == {"h", "w", "x", "y", "shifted"}
    assert {of[n] for n in rests} <= classes.narrow


def test_float16_asks_for_a_bound():
    g = Graph()
    nodes = block(g)
    bounded = g.outputs["bounded"] = g.mul(g.op("Sin", nodes["h"]), 2)
    done = saturate(g, (Generic(), Fp16()))
    classes = done.classes
    assert "f16" in classes.forms[classes.of[bounded.id]]
    assert classes.of[nodes["h"].id] not in classes.forms
    assert "f16" in classes.forms[classes.of[nodes["w"].id]]
    assert done.report.rules["f16/rest"].matches and done.report.rules["f16/only"].matches
    assert LARGEST < 65504


def test_both_together_leave_a_choice():
    g = Graph()
    nodes = block(g)
    done = saturate(g, (Generic(), Fp16(), Bf16()))
    assert done.classes.forms[done.classes.of[nodes["w"].id]] == {"f16", "bf16"}
    assert done.report.rules["bf16/rest"].matches and done.report.rules["bf16/only"].matches


def test_bitwise_rounds_nothing():
    g = Graph()
    block(g)
    done = saturate(g, (Generic(), Bf16()), precision="bitwise")
    assert not done.classes.forms and "half.bf16" in done.report.skipped


READER = """;; A product that may be rounded.
;;
;; ruleset:  licence
;; class:    reals
;; phase:    lower
;; uses:     may-multiply
;; grows:    no
;; targets:  any

(ruleset licence)

;; e = -(-e)
(rule ((= e (Contract x y i s)) (may-multiply x y i d)) ((union e (Neg (Neg e))))
      :ruleset licence :name "licence/read")
"""


def licensed(compiler: Compiler, build, *more: Compiler) -> set[str]:
    """In which dtypes the products of a graph may be made."""
    said = set()

    class Listening(Multiplying):
        def facts(self, view):
            for fact in super().facts(view):
                said.add(fact[-1])
                yield fact

    g = Graph()
    build(g)
    (own,) = (p for p in compiler.providers if isinstance(p, Multiplying))
    others = tuple(p for p in compiler.providers if p is not own)
    reader = Compiler(read_rules(READER, "licence.egg"))
    saturate(g, (Generic(), reader, *more, Compiler(*compiler.sources, providers=(
        *others, Listening(own.dtype)), rounds=True)))
    return said


def of_weights(g: Graph):
    x = g.op("Sin", g.input("x", (8, 16), "f32"))
    g.outputs["y"] = product(g, x, g.input("w", (16, 4), "f32", "weight"))


def of_arguments(g: Graph):
    g.outputs["y"] = product(g, g.input("x", (8, 16), "f32"), g.input("w", (16, 4), "f32"))


def of_anything(g: Graph):
    x = g.add(g.input("x", (8, 16), "f32"), 1)
    g.outputs["y"] = product(g, x, g.input("w", (16, 4), "f32"))


def of_doubles(g: Graph):
    g.outputs["y"] = product(g, g.input("x", (8, 16), "f64"), g.input("w", (16, 4), "f64"))


@pytest.mark.parametrize("compiler, dtype", [(Bf16(), "bf16"), (Fp16(), "f16"), (Tf32(), "tf32")])
def test_products_are_licensed(compiler, dtype):
    assert licensed(compiler, of_weights) == {dtype}
    assert licensed(compiler, of_arguments) == ({dtype} - {"f16"})
    assert licensed(compiler, of_doubles) == set()
    assert bool(licensed(compiler, of_anything)) == (dtype != "f16")


OWN = """;; What a user wants to be stored otherwise.
;;
;; ruleset:  own
;; class:    facts
;; phase:    facts
;; uses:     -
;; grows:    no
;; targets:  any

(ruleset own)
"""


def own(*rules: str) -> Compiler:
    return Compiler(read_rules(OWN + "".join(
        f'\n;; a policy\n(rule {r} :ruleset own :name "own/r{i}")\n' for i, r in enumerate(rules)),
        "own.egg"))


def stored(*compilers: Compiler, form: str) -> set[str]:
    """Which values of a block rest in a form."""
    g = Graph()
    nodes = block(g)
    nodes["bounded"] = g.outputs["bounded"] = g.op("Sin", nodes["h"])
    classes = saturate(g, (Generic(), *compilers)).classes
    of = {name: classes.of[(n.args[0] if n.op.name == "Reshape" else n).id]
          for name, n in nodes.items()}
    return {name for name, c in of.items() if form in classes.forms.get(c, ())}


KEEP_SINES, KEEP_PRODUCTS = ("((= t (Sin x))) ((keep-f32 t))",
                             "((= t (Contract x y i s))) ((keep-f32 t))")
ADMIT_SOFTMAX = "((= t (Softmax x k))) ((may-round t))"


@pytest.mark.parametrize("compiler, form, usual", [
    (Bf16(), "bf16", {"h", "w", "x", "y", "shifted", "bounded"}),
    (Fp16(), "f16", {"w", "x", "bounded"})])
def test_rules_of_a_user_overrule_the_policy_op_by_op(compiler, form, usual):
    assert stored(compiler, form=form) == usual
    assert stored(compiler, own(KEEP_SINES), form=form) == usual - {"bounded"}
    assert stored(own(KEEP_SINES, KEEP_PRODUCTS), compiler, form=form) \
        == usual - {"bounded", "h", "y"}
    assert stored(compiler, own(ADMIT_SOFTMAX), form=form) == usual | {"soft"}


def test_a_product_that_is_kept_rounds_no_operand():
    for compiler in (Bf16(), Fp16(), Tf32()):
        assert licensed(compiler, of_weights)
        assert licensed(compiler, of_weights, own(KEEP_PRODUCTS)) == set()


def test_what_no_policy_is_stacked_for_is_refused():
    with pytest.raises(RuleError, match="keep-f32 is not an action .* no relation keep-f32 is declared "
                                        "in this stack; declare it, or stack what does"):
        saturate(Graph(), (Generic(), own(KEEP_SINES)))


def held(compiler: Compiler, half: str, *more: Compiler) -> set[str]:
    """The ops by which a value becomes a half, in the class where that is."""
    g = Graph()
    x = g.input("x", (4, 64), "f32")
    y = g.cast(g.op("Sin", x), half)
    g.outputs["y"] = g.op("Add", y, g.input("z", (4, 64), half))
    done = saturate(g, (Generic(), *more, compiler))
    c = done.classes.of[y.id]
    return {n.op.name for n in done.classes.nodes[c]}


def test_what_may_round_where_it_is_stored_need_not_round_before():
    assert held(Bf16(), "bf16") == {"Cast", "Held"}
    assert held(Bf16(), "f16") == held(Fp16(), "bf16") == held(Tf32(), "bf16") == {"Cast"}
    assert held(Bf16(), "bf16", own(KEEP_SINES)) == {"Cast"}
