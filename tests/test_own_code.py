"""Compilers' own phases, costs, and C: what they do, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tegg.backends.cpu.target import Cpu

import tegg
from tegg.errors import ArgumentError, BackendError, ExtractionError
from tegg.ir.graph import Graph
from tegg.ir.op import OPS
from tegg.rewrite.compiler import Compiler, Generic, stack
from tegg.rewrite.rulefile import read_rules

RULES = """;; Twice.
;;
;; ruleset:  twice
;; class:    bitwise
;; phase:    {phase}
;; uses:     -
;; grows:    no
;; targets:  any

(ruleset twice)

;; x + x  =>  twice(x)
(rewrite (Add x x) (Twice x)
         :ruleset twice :name "twice/add")
"""
TWICE = tegg.Op("Twice", "elementwise", 1, OPS["Sqrt"].shape, OPS["Neg"].dtype,
                lambda a, t, s, d: a[0] + a[0], domains=("any",), cost=0.5,
                code=(tegg.Code(float="({0} + {0})", int="({0} + {0})"),))
SUMS = tegg.Op("Running", "kernel", 2, lambda s, a, f: s[0], OPS["Add"].dtype,
               lambda a, t, s, d: (np.cumsum(a[0], 0) + a[1] * t[0]).astype(d.numpy),
               (("scale", "int"),), domains=("any", "any"), cost=2, staged=True,
               code=(tegg.Code(dtypes=("f32",), body="""
  $T sum = 0;
  const int64_t n = y_shape[0];
  if (tid == 0)
    for (int64_t i = 0; i < n; i++) { sum += x0[i]; y[i] = sum + x1[i] * $scale; }
"""),))


def rules(phase="names"):
    return read_rules(RULES.format(phase=phase), "twice.egg", ("twice",))


def doubled(shape=(5,), dtype="f32"):
    g = Graph()
    x = g.input("x", shape, dtype)
    g.outputs["y"] = g.add(x, x)
    return g


def test_an_expression_of_ones_own():
    run = doubled((37,)).compile([Generic(), Compiler(rules(), ops=[TWICE], name="t")], cache=False)
    x = np.arange(37, dtype=np.float32)
    np.testing.assert_array_equal(run(x)["y"], x * 2)
    assert "twice/add" in run.explain()


def test_functions_stand_once_above_kernels():
    row = replace(TWICE, code=(tegg.Code(float="{v}two({0})", int="{v}two({0})", functions="""
#define TWO(L, V, T) static inline V v##L##_two(V x) { return x + x; } \\
  static inline T s##L##_two(T x) { return x + x; }
TWO(f, vf, float) TWO(d, vd, double) TWO(i, vi, int32_t) TWO(l, vl, int64_t) TWO(u, vu, uint8_t)
TWO(c, vc, int8_t)"""),))
    for dtype in ("f32", "f64", "i32", "u8"):
        run = doubled((37,), dtype).compile([Compiler(rules(), ops=[row], name="t")], cache=False)
        x = np.arange(37).astype(dtype.replace("f", "float").replace("i", "int").replace(
            "u8", "uint8"))
        np.testing.assert_array_equal(run(x)["y"], x * 2)


def running(dtype="f32"):
    table = {**OPS, "Running": SUMS}
    g = Graph(table)
    x = g.input("x", (6,), dtype)
    y = g.input("y", (2, 6), dtype)
    y = g.reshape(g.narrow(y, 0, 1, 1), (6,))
    g.outputs["z"] = g.add(g.op("Running", g.mul(x, 2.0), y, 3), 1.0)
    return g


def test_a_kernel_of_ones_own_reads_what_is_computed_and_moved():
    run = running().compile([Generic(), Compiler(ops=[SUMS], name="s")], cache=False)
    x, y = np.arange(6, dtype=np.float32), np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(run(x, y)["z"], np.cumsum(2 * x) + 3 * y[1] + 1)


def test_dtypes_that_a_body_is_not_written_for():
    with pytest.raises(ExtractionError, match="Running has no lowering for f64 on cpu: its C is "
                                              "written for f32"):
        running("f64").compile([Compiler(ops=[SUMS], name="s")], cache=False)
    assert Cpu().unsupported(replace(SUMS, code=()), tegg.f32) == (
        "it is a kernel of its own, and its row brings no Code('c')")


def test_a_body_that_names_no_attribute():
    wrong = replace(SUMS, code=(tegg.Code(body="y[0] = $size;"),))
    g = Graph({**OPS, "Running": wrong})
    x = g.input("x", (6,), "f32")
    g.outputs["z"] = g.op("Running", x, x, 3)
    with pytest.raises(BackendError, match=r"the C body of op 'Running' cannot be filled in: 'size'; "
                                           r"it may name \$scale, \$T0, \$T1, \$T"):
        g.compile([Compiler(ops=[wrong], name="s")], cache=False)


@pytest.mark.parametrize("row, said", [
    (replace(SUMS, staged=False), "is of kind 'kernel', whose result is written whole"),
    (replace(SUMS, code=(tegg.Code(float="{0}"),)), "is of kind 'kernel'; its Code has a body"),
    (replace(TWICE, code=(tegg.Code(body="y[0] = 1;"),)), "is of kind 'elementwise'; a Code has "
                                                          "expressions for kind 'elementwise'"),
    (replace(TWICE, code=(tegg.Code(float="{0}"),)), r"takes int operands, for which its Code has no "
                                                     r"expression; write Code\(int=...\)"),
])
def test_code_that_does_not_fit(row, said):
    with pytest.raises(ArgumentError, match=f"op '{row.name}' of compiler 'c' {said}"):
        Compiler(ops=[row], name="c")


# ---- phases
def test_a_phase_of_ones_own():
    made = Compiler(rules("mine"), ops=[TWICE], name="t",
                    phases={"mine": {"after": "algebra", "rounds": 3}})
    order = [p.name for p in stack([Generic(), made]).phases]
    assert order[:3] == ["algebra", "mine", "names"]
    assert {p.name: p.rounds for p in stack([made]).phases}["mine"] == 3
    run = doubled().compile([made], cache=False)
    assert "phase mine:" in run.explain()


def test_limits_of_a_phase():
    made = Compiler(name="t", phases={"idioms": {"nodes": 9}})
    assert {p.name: p.nodes for p in stack([made]).phases}["idioms"] == 9


@pytest.mark.parametrize("phases, said", [
    ({"mine": {"rounds": 3}}, "compiler 'c' has settings for a phase 'mine', which is not one of"),
    ({"idoms": {"rounds": 3}}, "did you mean 'idioms'"),
    ({"mine": {"after": "algebr"}}, "did you mean 'algebra'"),
    ({"facts": {"after": "algebra"}}, "compiler 'c' has settings for a phase 'facts'"),
    ({"idioms": {"after": "algebra"}}, "compiler 'c' says after which phase 'idioms' runs, which is"),
    ({"idioms": {"laps": 3}}, "limit laps=3 of phase 'idioms' is not understood"),
])
def test_phases_that_cannot_be(phases, said):
    with pytest.raises(ArgumentError, match=said):
        stack([Compiler(name="c", phases=phases)])


def test_two_compilers_must_agree():
    a, b = (Compiler(name=n, phases={"idioms": {"rounds": r}}) for n, r in (("a", 1), ("b", 2)))
    with pytest.raises(ArgumentError, match="compilers 'a' and 'b' say different things of the phase "
                                            "'idioms'"):
        stack([a, b])
    a, b = (Compiler(name=n, cost={"Exp": c}) for n, c in (("a", 1), ("b", 2)))
    with pytest.raises(ArgumentError, match="compilers 'a' and 'b' give Exp the costs 1 and 2; make"):
        stack([a, b])


# ---- costs
def test_costs_change_the_choice():
    g = doubled((4096,))
    base, own = Compiler(rules(), ops=[TWICE], name="t"), Compiler(name="c", cost={"Twice": 9000})
    cheap, dear = (g.compile(s, cache=False).plan.seconds for s in ([base], [base, own]))
    assert cheap <= dear
    both = Compiler(name="c", cost={"Twice": 9000, "Add": 9000})
    assert g.compile([base, both], cache=False).plan.seconds > 10 * dear


@pytest.mark.parametrize("cost, said", [
    ({"Expp": 3}, "cost= of compiler 'c' names 'Expp', which is no op; did you mean 'Exp'"),
    ({"Exp": -1}, "cost= of compiler 'c' gives Exp -1; a cost is a number of operations, 0 or more"),
    ({"Exp": "low"}, "cost= of compiler 'c' gives Exp 'low'; a cost is a number"),
])
def test_costs_that_cannot_be(cost, said):
    with pytest.raises(ArgumentError, match=said):
        stack([Compiler(name="c", cost=cost)])
