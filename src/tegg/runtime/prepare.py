"""Compiling ahead what programs share: the machine's own part of a first call.

Large products, or their loops where something is computed before or after them, and attention take
their sizes as arguments, so that a handful of kernels serves most of them. Which forms these are is
what the rules and the costs of this machine choose for usual sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from tegg.contraction import Spec
from tegg.cores import side_by_side
from tegg.dim import Shape
from tegg.dtype import DTYPES, f32
from tegg.ir.graph import Graph, Node
from tegg.planning.plan import Plan
from tegg.planning.target import find
from tegg.rewrite.compiler import Bf16, Compiler, Fp16, Generic
from tegg.runtime.driver import Options, plan_graph

# Rows of x, and both sides of w: one row and few (a token, a batch), one tile and many.
_USUAL = tuple((m, n) for m in (1, 64, 1024) for n in (1024, 4096))
_ENDS = ((False, False), (False, True), (True, True))  # of a product: computed before, and after
# The same where operands of products may be rounded to 16 bits: the dtypes that x and w lie in, and
# what is computed. Of float16 only single rows, where memory decides: more are done in float32.
_HALVED = (*((half, dtypes, size, ends) for half, dtypes, ends in (
    (Bf16, ("f32", "f32"), _ENDS), (Bf16, ("bf16", "f32"), _ENDS[1:2]),
    (Bf16, ("bf16", "bf16"), _ENDS)) for size in _USUAL),
    *((Fp16, ("f32", "f32"), size, _ENDS) for size in _USUAL if size[0] == 1))
# Where weights are learnt: rows of a batch, and both sides of w.
_LEARNT = ((128, 768, 512), (128, 512, 256))
_SPECS = ("a,c;c,b;a,b", "a,c;b,c;a,b", "c,a;c,b;a,b")  # x @ w, x @ w.T, x.T @ w
# A token against the keys, and against the values, that heads keep of those before it; and whether
# queries, or weights of values, are computed on the way.
_KEPT = (("h,a,c;h,b,c;h,a,b", (8, 1, 64), (8, 512, 64), (False, True)),
         ("h,a,b;h,b,c;h,a,c", (8, 1, 512), (8, 512, 64), (True,)))
# Depths of a head, which stay in the text: of most models, of larger ones, of small encoders. Which
# keys a row sees by its position is an argument, whether heads share keys is not.
_HEADS = ((64, 1), (64, 4), (128, 1), (128, 4), (32, 1))  # and how many share a head of keys
# How many times ``prepare`` tells of a step.
STEPS = (2 * len(_ENDS) * len(_USUAL) + 2 * sum(len(h[-1]) for h in _HALVED) + 3 * len(_LEARNT)
         + sum(len(k[-1]) for k in _KEPT) + 2 * len(_HEADS))


def prepare(device: str = "cpu", step: Callable[[str], None] = lambda name: None) -> int:
    """Compile the device's library, its usual products and attention into the cache, where they are
    not there yet. How many kernels these are.

    Raises BackendError where the device or its compiler is missing.
    """
    plans: dict[tuple[str, ...], Plan] = {}
    target = find(device)
    for graph, compilers, told in _usual():
        plan = _shared(plan_graph(graph, Options(compilers, device)))
        plans.setdefault(tuple(k.source for k in plan.kernels), plan)
        step(told)
    first, *rest = plans.values()
    target.build(first)  # the library that all are linked with is compiled once
    side_by_side(target.build, rest)
    return len(plans)


def _shared(plan: Plan) -> Plan:
    """A plan without what no other program has: of products with ends the loops alone, which are
    not called."""
    cores = [k.core for k in plan.kernels if k.core is not None]
    return replace(plan, kernels=cores, run=[], ahead=[]) if cores else plan


def _usual() -> Iterator[tuple[Graph, tuple[Compiler, ...], str]]:
    """Programs of one kernel each, their compilers where not the usual ones, and what they are."""
    usual = [((), ("f32", "f32"), size, _ENDS, "") for size in _USUAL]
    halves = [((Generic(), half()), dtypes, size, ends, f", {half.__name__} of {'@'.join(dtypes)}")
              for half, dtypes, size, ends in _HALVED]
    for compilers, dtypes, (m, n), ends, how in (*usual, *halves):
        for spec in _SPECS[:2]:
            for computed, more in ends:
                yield (_product(spec, (m, n), (n, n), "weight", computed, more, dtypes), compilers,
                       f"{m} rows, {n} columns{how}")
    for m, k, n in _LEARNT:
        for spec, x, w in zip(_SPECS, ((m, k), (m, n), (m, k)), ((k, n), (k, n), (m, n))):
            yield _product(spec, x, w, "arg", False, True), (), f"learning, {k} to {n}"
    for spec, token, kept, ways in _KEPT:
        for computed in ways:
            yield _product(spec, token, kept, "arg", computed, True), (), "a token's attention"
    for depth, shared in _HEADS:
        yield _attention(depth, shared, "f32"), (), f"attention, heads of {depth}"
        yield (_attention(depth, shared, "bf16"), (Generic(), Bf16()),
               f"attention, heads of {depth}, Bf16")


def _product(spec: str, x_shape: Shape, w_shape: Shape, kind: str, computed: bool,
             more: bool, dtypes: tuple[str, str] = ("f32", "f32")) -> Graph:
    """A product of x with a w of some kind. ``computed``: x is computed on the way. ``more``:
    something becomes of the product, which lies as x does. Sums are float32."""
    graph, said = Graph(), Spec.parse(spec)
    x, w = graph.input("x", x_shape, dtypes[0]), graph.input("w", w_shape, dtypes[1], kind)
    if computed:
        x = graph.op("Neg", x)
    sizes = said.sizes(x_shape, w_shape)
    out = graph.expansion("Contract", _wide(graph, x), _wide(graph, w), spec,
                          tuple(sizes[c] for c in said.out))
    graph.outputs["out"] = _narrow(graph, graph.op("Exp2", out) if more else out, dtypes[0])
    return graph


def _wide(graph: Graph, x: Node) -> Node:
    return x if x.dtype is f32 else graph.op("Cast", x, f32)


def _narrow(graph: Graph, x: Node, dtype: str) -> Node:
    return x if x.dtype.name == dtype else graph.op("Cast", x, DTYPES[dtype])


def _attention(depth: int, shared: int, dtype: str) -> Graph:
    """softmax(q @ k.T / sqrt(depth)) @ v, where ``shared`` heads of q have one of k and v."""
    graph, heads, n = Graph(), 8, 256
    q = _wide(graph, graph.input("q", (heads, shared, n, depth), dtype))
    k, v = (_wide(graph, graph.input(name, (heads, n, depth), dtype)) for name in "kv")
    shape = (heads, shared, n, n)
    scores = graph.expansion("Contract", q, k, "h,g,a,c;h,b,c;h,g,a,b", shape)
    scale = graph.full(1 / math.sqrt(depth), "f32", shape)
    weights = graph.expansion("Softmax", graph.op("Mul", scores, scale), 3)
    out = graph.expansion("Contract", weights, v, "h,g,a,b;h,b,c;h,g,a,c",
                          (heads, shared, n, depth))
    graph.outputs["out"] = _narrow(graph, out, dtype)
    return graph
