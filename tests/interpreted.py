"""A target whose kernels are run by the oracle: plans and calls are tested without a compiler."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np

from tegg.ir import oracle
from tegg.ir.classes import Cover, EClasses, ENode, Fragment, KernelSpec
from tegg.dim import evaluate
from tegg.ir.graph import Graph
from tegg.kernel.code import KernelCode, Stage, Work
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


class Interpreter:
    """An executable that evaluates fragments on the memory of the plan."""

    def __init__(self, plan, fragments) -> None:
        self.plan, self.fragments = plan, fragments

    def _array(self, pointers, number: int, shape, dtype) -> np.ndarray:
        n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raw = (ctypes.c_char * n).from_address(pointers[number]) if n else bytearray()
        return np.frombuffer(raw, dtype.numpy).reshape(shape)

    def _call(self, call, pointers, sizes) -> None:
        f = self.fragments[self.plan.kernels[call.kernel].name]
        ins = [n for n in f.graph.nodes if n.op.name == "Input"]
        at = lambda n: tuple(evaluate(d, sizes) for d in n.shape)
        values = {n.attrs[0]: self._array(pointers, call.buffers[n.attrs[0]], at(n), n.dtype)
                  for n in ins}
        results = oracle.evaluate(f.outputs, values, sizes)
        for i, (o, r) in enumerate(zip(f.outputs, results)):
            self._array(pointers, call.buffers[len(ins) + i], at(o), o.dtype)[...] = r

    def run(self, pointers, sizes) -> None:
        named = dict(zip(self.plan.symbols, sizes))
        self._copy(self.plan.before, pointers, named)
        for c in self.plan.run:
            self._call(c, pointers, named)
        self._copy(self.plan.after, pointers, named)

    def _copy(self, pairs, pointers, sizes) -> None:
        for source, to in pairs:
            ctypes.memmove(pointers[to], pointers[source], self.plan.buffers[source].bytes(sizes))

    def bound(self, pointers, sizes, keep):
        busy = threading.Lock()

        def run():
            with busy:
                self.run(pointers, sizes)
            return keep and None

        return run

    def caller(self, inputs, outputs, symbols, claims) -> None:
        return None

    def run_ahead(self, pointers, sizes) -> None:
        for c in self.plan.ahead:
            self._call(c, pointers, dict(zip(self.plan.symbols, sizes)))

    def profile(self, pointers, sizes) -> list[float]:
        out = []
        for c in self.plan.run:
            start = time.perf_counter()
            self._call(c, pointers, dict(zip(self.plan.symbols, sizes)))
            out.append(time.perf_counter() - start)
        return out

    def source(self) -> str:
        return "\n".join(map(repr, self.fragments))


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
        return Interpreter(plan, self.fragments)


def compiled(graph: Graph, **options) -> Compiled:
    """A graph compiled op by op for the interpreter."""
    classes, target = classes_of(graph), Interpreted()
    signature = Signature.of(graph)
    plan = make_plan(classes, one_op_each(classes, **options),
                     tuple(s.name for s in signature.symbols), lambda s: rebuild(s, classes),
                     target.lower)
    weights = {i: s.source for i, s in enumerate(graph.inputs) if s.kind == "weight"}
    return Compiled(signature, plan, weights, target)
