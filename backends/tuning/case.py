"""Kernels that a profile is fitted to: what each does, and what it should take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tegg.bits import bits_of
from tegg.dim import hint
from tegg.dtype import DType, f32
from tegg.extract.cost import Costs
from tegg.ir.graph import Graph, Node
from tegg.ir.op import OPS
from tegg.ir.demand import Step, Values
from tegg.ir.work import WorkModel

_ALIGN = 64  # bytes: a cache line


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel. ``of``: what it tells of (an op's name, a dtype, a template); ``still``: inputs
    that are known before a run, and packed ahead. steps: of a chain. small: whether starting it
    is a good part of what it takes."""

    name: str
    of: str
    graph: Graph
    outputs: tuple[Node, ...]
    anchors: tuple[Node, ...] = ()
    still: frozenset[int] = frozenset()
    steps: int = 0
    small: bool = False

    @property
    def elements(self) -> int:
        """Of its result."""
        return math.prod(hint(d) for d in self.outputs[0].shape)

    @property
    def sizes(self) -> tuple:
        """The shapes and dtypes of its operands, and which are known before a run."""
        return tuple((i.shape, i.dtype) for i in self.graph.inputs), self.still

    @property
    def dtype(self) -> DType:
        """Of its first operand."""
        return self.graph.inputs[0].dtype

    def seconds(self, costs: Costs, threads: int) -> float:
        """The predicted time with so many threads, also where one would be sooner."""
        costs = costs.with_threads(threads)
        if threads > 1:
            costs = replace(costs, call=None)
        nodes = self.graph.reachable(list(self.outputs))
        values = Values.of({n.id: n.shape for n in nodes}, {n.id: n.dtype for n in nodes},
                           self.graph.table)
        leaves = {n.id: n.attrs[0] for n in nodes if n.op.name == "Input"}
        body = {n.id: Step(n.op, tuple(a.id for a in n.args), n.attrs)
                for n in nodes if n.id not in leaves}
        ready = frozenset(i for i, slot in leaves.items() if slot in self.still)
        model = WorkModel(values, costs.ops, costs.keep, costs.load, costs.panel, costs.apart,
                          ready, close=costs.close, gather=costs.gather)
        demand = model.demand([n.id for n in self.outputs], body)
        loaded = [demand.reads.get(i, 0) * values.dtype[i].itemsize for i in leaves]
        stored = [values.size[n.id] * n.dtype.itemsize for n in self.outputs]
        return costs.seconds(demand, loaded, stored)


def drawn(dtype: DType, size: int) -> np.ndarray:
    """Values where every op is at its usual, from a cache line on."""
    out = empty(dtype, size)
    rng = np.random.default_rng(0)
    some = rng.uniform(0.5, 2.0, 4096) if dtype.is_float else rng.integers(1, 4, 4096)
    out[...] = np.resize(some, size)
    return out


def empty(dtype: DType, size: int) -> np.ndarray:
    """Memory from a cache line on, of zeros."""
    raw = np.zeros(size * dtype.itemsize + _ALIGN, np.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start:start + size * dtype.itemsize].view(dtype.numpy)


# ---- elementwise chains and single ops, on what a first cache holds
def chain(length: int, dtype: str = "f32", size: int = 4096) -> Case:
    """``length`` additions and others as cheap, one after the other, that no compiler shortens."""
    g = Graph()
    x = g.input("x", (size,), dtype)
    y, other = x, "Sub" if x.dtype.is_float else "Maximum"
    for i in range(length):
        y = g.op(other if i % 3 == 2 else "Add", y, x)
    return Case(f"chain of {length} in {dtype}", dtype, g, (y,), steps=length)


def single(name: str, size: int = 4096) -> Case:
    """One elementwise op, or an idiom along rows of 256."""
    g = Graph()
    shape = (size,) if OPS[name].kind == "elementwise" else (size // 256, 256)
    x = g.input("x", shape, f32)
    return Case(name, name, g, (g.op(name, *_operands(g, name, x), *_attributes(name)),))


def _operands(g: Graph, name: str, x: Node) -> list[Node]:
    row = [g.input(n, x.shape[-1:], f32) for n in "gb"[:OPS[name].arity - 1]]
    return [x, *row] if OPS[name].kind == "composite" else [x] * OPS[name].arity


def _attributes(name: str) -> list:
    return [1 if kind == "axis" else bits_of(1e-5, f32) for _, kind in OPS[name].attrs]


def tiny(size: int) -> Case:
    """So little that starting it is what takes time."""
    g = Graph()
    x = g.input("x", (size,), f32)
    return Case(f"add of {size}", "start", g, (g.op("Add", x, x),), small=True)


def streaming(name: str, rows: int, columns: int = 1024) -> Case:
    """An op over more than the nearest caches hold; what it counts as is known from ``single``."""
    g = Graph()
    x = g.input("x", (rows, columns), f32)
    y = g.op(name, *_operands(g, name, x), *_attributes(name))
    return Case(f"{name} of {rows}x{columns}", "stream", g, (y,))


def repeated(name: str, times: int, size: int) -> Case:
    """One elementwise op many times over each element: what it counts as, where memory is what
    a single one waits for. Two additions go with each."""
    g = Graph()
    x = g.input("x", (size,), f32)
    total = x
    for i in range(times):
        moved = g.op("Add", x, g.full(0.25 * (i + 1), f32, (size,)))
        total = g.op("Add", total, g.op(name, *[moved] * OPS[name].arity))
    return Case(f"{times} x {name}", name, g, (total,))
