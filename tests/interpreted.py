"""A target whose kernels are run by the oracle: plans and calls are tested without a compiler."""

from __future__ import annotations

from tegg.ir import oracle
from tegg.ir.classes import Cover, EClasses, ENode, Fragment, KernelSpec
from tegg.dim import evaluate
from tegg.ir.graph import Graph
from tegg.kernel.code import KernelCode, Stage, Work
from tegg.planning.interpreter import Interpreter
from tegg.planning.make import make_plan
from tegg.runtime.compiled import Compiled
from tegg.ir.signature import Signature


def classes_of(graph: Graph) -> EClasses:
    """Every node a class of its own."""
    live = graph.reachable()
    return EClasses(graph, {n.id: [ENode(n.op, tuple(a.id for a in n.args), n.attrs)]
                            for n in live}, {n.id: n.shape for n in live},
                    {n.id: n.dtype for n in live}, {n.id: n.id for n in live})


def one_op_each(classes: EClasses, weights: bool = True) -> Cover:
    """Every computed value is a kernel of its own; what depends on weights only runs ahead."""
    specs, ahead = [], set()
    for c, (n,) in sorted(classes.nodes.items()):
        if n.op.name == "Input":
            if classes.graph.inputs[n.attrs[0]].kind == "weight":
                ahead.add(c)
            continue
        early = weights and bool(n.args) and set(n.args) <= ahead
        if early:
            ahead.add(c)
        specs.append(KernelSpec((c,), tuple(dict.fromkeys(n.args)), {c: n}, 1e-6, None, early))
    return Cover(specs, 1e-6 * len(specs), None)


def rebuild(spec: KernelSpec, classes: EClasses) -> Fragment:
    g = Graph(facts=classes.graph.facts)
    made = {x: g.input(f"b{i}", classes.shape[x], classes.dtype[x])
            for i, x in enumerate(spec.leaves)}
    for c in sorted(spec.body):
        n = spec.body[c]
        made[c] = g.op(n.op.name, *[made[a] for a in n.args], *n.attrs)
    return Fragment(g, tuple(made[c] for c in spec.outs), ())


def launch(fragments):
    """Kernels evaluated by the oracle. ``fragments`` by kernel name."""
    def run(kernel, arrays, sizes) -> None:
        f = fragments[kernel.name]
        ins = [n for n in f.graph.nodes if n.op.name == "Input"]
        at = lambda n: tuple(evaluate(d, sizes) for d in n.shape)
        values = {n.attrs[0]: arrays[n.attrs[0]].reshape(at(n)) for n in ins}
        results = oracle.evaluate(f.outputs, values, sizes)
        for i, (o, r) in enumerate(zip(f.outputs, results)):
            arrays[len(ins) + i].reshape(at(o))[...] = r

    return run


class Interpreted:
    """The target. ``fragments`` by kernel name."""

    name, features, rules, ops, providers = "interpreted", frozenset(), (), (), ()

    def __init__(self) -> None:
        self.fragments: dict[str, Fragment] = {}

    def lower(self, fragment: Fragment, name: str, constant: frozenset[int]) -> KernelCode:
        self.fragments[name] = fragment
        ins = sum(n.op.name == "Input" for n in fragment.graph.nodes)
        outs = frozenset(range(ins, ins + len(fragment.outputs)))
        return KernelCode(name, name, (Stage(name, frozenset(range(ins)), outs),), (), (),
                          Work(0, 0, 0, 0))

    def build(self, plan) -> Interpreter:
        return Interpreter(plan, launch(self.fragments))


def compiled(graph: Graph, **options) -> Compiled:
    """A graph compiled op by op for the interpreter."""
    classes, target = classes_of(graph), Interpreted()
    signature = Signature.of(graph)
    plan = make_plan(classes, one_op_each(classes, **options),
                     tuple(s.name for s in signature.symbols), lambda s: rebuild(s, classes),
                     target.lower)
    weights = {i: s.source for i, s in enumerate(graph.inputs) if s.kind == "weight"}
    return Compiled(signature, plan, weights, target)
