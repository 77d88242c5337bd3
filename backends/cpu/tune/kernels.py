"""Kernels of our own making that a profile is fitted to: what each does, and what it takes."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tegg.bits import bits_of
from tegg.dim import hint
from tegg.dtype import DType, dtype as as_dtype, f32
from tegg.extract.cost import Costs
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph, Node
from tegg.ir.op import OPS
from tegg.ir.work import Step, Values, WorkModel
from tegg.kernel.code import KernelCode
from tegg.planning.plan import Call

from ..library import Library, load
from ..program import Program, steps_of, with_barriers
from ..templates import templates
from .machine import Sample

_SAMPLE = 3e-4    # seconds of one sample by its predicted time: a short one is rarely disturbed
_MOST = 2000      # runs of a kernel in one sample
_LONG = 1.0       # seconds: what every call is said to take, so that threads share it


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
        model = WorkModel(values, costs.ops, costs.keep, costs.load, costs.panel, ready=ready)
        demand = model.demand([n.id for n in self.outputs], body)
        loaded = [demand.reads.get(i, 0) * values.dtype[i].itemsize for i in leaves]
        stored = [values.size[n.id] * n.dtype.itemsize for n in self.outputs]
        return costs.seconds(demand, loaded, stored)


class Kernels:
    """Cases, compiled as one library, each on memory of its own."""

    def __init__(self, cases: Sequence[Case], lower: Callable[..., KernelCode], costs: Costs,
                 lanes: int) -> None:
        self.cases = tuple(cases)
        self._codes = [lower(Fragment(c.graph, c.outputs, c.anchors), f"tune{i}", c.still)
                       for i, c in enumerate(self.cases)]
        self._library: Library = load(self._codes, lanes=lanes)
        self._costs = costs
        self._arrays: dict[int, list[np.ndarray]] = {}

    def sample(self, number: int, threads: int) -> Sample:
        """Seconds of one run of a case by so many threads, when its memory was touched before."""
        case, code = self.cases[number], self._codes[number]
        if number not in self._arrays:
            self._arrays[number] = _memory(case, code)
        arrays = self._arrays[number]
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        sizes = (ctypes.c_int64 * 1)()
        early = [i for i, s in enumerate(code.stages) if s.reads and s.reads <= case.still]
        late = [i for i in range(len(code.stages)) if i not in early]
        repeats = max(1, min(_MOST, int(_SAMPLE / case.seconds(self._costs, threads))))
        if early:
            self._program(number, early, 1).run(pointers, sizes, 1)
        program = self._program(number, late, repeats)

        def run(keep: object = arrays) -> float:
            start = time.perf_counter()
            program.run(pointers, sizes, threads)
            return (time.perf_counter() - start) / repeats
        return run

    def _program(self, number: int, stages: Sequence[int], repeats: int) -> Program:
        code = self._codes[number]
        buffers = tuple(range(_count(self.cases[number], code)))
        call = Call(number, buffers, tuple(stages), _LONG, "tune")
        steps = steps_of(self._codes, [call] * repeats, (), 0.0)
        return Program(with_barriers(steps, set()), self._library.functions, ())


def _count(case: Case, code: KernelCode) -> int:
    return len(case.graph.inputs) + len(case.outputs) + len(code.temporaries)


def _memory(case: Case, code: KernelCode) -> list[np.ndarray]:
    """Arrays of a kernel, each from a cache line on; inputs where every op is at its usual."""
    rng = np.random.default_rng(0)
    out = []
    wanted = [(s.shape, s.dtype) for s in case.graph.inputs]
    wanted += [(n.shape, n.dtype) for n in case.outputs]
    wanted += [((t.size,), t.dtype) for t in code.temporaries]
    for place, (shape, dtype) in enumerate(wanted):
        size = int(np.prod([hint(d) for d in shape]))
        raw = np.zeros(size * dtype.itemsize + 64, np.uint8)
        start = -raw.ctypes.data % 64
        array = raw[start:start + size * dtype.itemsize].view(dtype.numpy)
        if place < len(case.graph.inputs):
            some = rng.uniform(0.5, 2.0, 4096) if dtype.is_float else rng.integers(1, 4, 4096)
            array[...] = np.resize(some, size)
        out.append(array)
    return out


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


# ---- products
def product(op: str, own: Sequence[int], m: int, n: int, k: int, *, lanes: int, still: bool = True,
            dtype: DType | str = f32, transposed: bool = False) -> Case:
    """A product of one form. ``still``: the second operand is a weight."""
    rows = {o.name: o for o in templates(lanes)}
    g = Graph(table={**OPS, **rows})
    kind = as_dtype(dtype)
    x = g.input("x", (m, k), kind)
    y = g.input("y", (n, k) if transposed else (k, n), kind)
    spec = "a,k;n,k;a,n" if transposed else "a,k;k,n;a,n"
    c = g.op(op, x, y, spec, (m, n), *own)
    weights = frozenset({1}) if still else frozenset()
    return Case(f"{op}{tuple(own)} {m}x{k} @ {k}x{n}{'' if still else ', packed each time'}", op,
                g, (c,), (c,), weights)
