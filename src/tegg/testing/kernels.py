"""Fragments lowered one by one for a target, built as one plan, and run between guard pages."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from tegg.dim import Dim, evaluate, product, symbols
from tegg.dtype import DType, f32
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph
from tegg.ir.op import OPS
from tegg.ir.places import Copies
from tegg.planning.plan import Buffer, Call, Plan
from tegg.planning.target import Target
from tegg.testing.memory import Guarded

Arrays = Mapping[int, np.ndarray]  # input slot -> values
PATTERN = 0x5a  # what memory holds before it is written; no byte of a bool


class Kernels:
    """A kernel per fragment, on memory of its own.

    Raises LoweringError where the target does not take a fragment as one kernel.
    """

    def __init__(self, target: Target, fragments: Sequence[Fragment]) -> None:
        self.fragments = tuple(fragments)
        self.codes = [target.lower(f, f"k{i}", frozenset()) for i, f in enumerate(fragments)]
        buffers: list[Buffer] = []
        self.calls: list[Call] = []
        for i, (f, code) in enumerate(zip(self.fragments, self.codes)):
            memory = [*(("input", s.dtype, product(s.shape)) for s in f.graph.inputs),
                      *(("output", n.dtype, product(n.shape)) for n in f.outputs),
                      *(("arena", t.dtype, t.size) for t in code.temporaries)]
            first = len(buffers)
            buffers += [Buffer(kind, dtype, size, first + n)
                        for n, (kind, dtype, size) in enumerate(memory)]
            self.calls.append(Call(i, tuple(range(first, len(buffers))),
                                   tuple(range(len(code.stages))), 0.0, "test"))
        inward, outward = self._copies(target, buffers)
        self.symbols = tuple(sorted({s for code in self.codes for s in code.symbols}
                                    | {s.name for b in buffers for s in symbols(b.size)}))
        self.plan = Plan(self.codes, buffers, [], [*inward, *self.calls, *outward], [], [],
                         self.symbols, 0.0, None)
        self.executable = target.build(self.plan)

    def _copies(self, target: Target, buffers: Sequence[Buffer]) -> tuple[list[Call], list[Call]]:
        """Calls that bring arguments to a device with memory of its own, and results back."""
        copies: Copies | None = getattr(target, "copies", None)
        if copies is None:
            return [], []
        made = []
        for kind, op in (("input", copies.inward), ("output", copies.outward)):
            graph = Graph({**OPS, op.name: op})
            copy = graph.op(op.name, graph.input("x", (1,), f32))
            number = len(self.codes)
            self.codes.append(target.lower(Fragment(graph, (copy,), ()), f"k{number}", frozenset()))
            made.append([Call(number, (i, i), (), 0.0, "copy")
                         for i, b in enumerate(buffers) if b.kind == kind])
        return made[0], made[1]

    def run(self, inputs: Sequence[Arrays], sizes: Mapping[str, int] | None = None,
            at_end: bool = True) -> list[list[np.ndarray]]:
        """The outputs of every kernel. ``at_end``: whether memory ends, or begins, at a page that
        cannot be touched."""
        sizes = sizes or {}
        memory = [Guarded(b.bytes(sizes), at_end) for b in self.plan.buffers]
        try:
            for call, fragment, given in zip(self.calls, self.fragments, inputs):
                self._fill(call, fragment, given, memory, sizes)
            pointers = (ctypes.c_void_p * max(1, len(memory)))(*(m.address for m in memory))
            values = [sizes[s] for s in self.symbols]
            self.executable.run(pointers, (ctypes.c_int64 * max(1, len(values)))(*values))
            return [[a.copy() for a in self._outputs(call, fragment, memory, sizes)]
                    for call, fragment in zip(self.calls, self.fragments)]
        finally:
            for m in memory:
                m.close()

    @staticmethod
    def _fill(call: Call, fragment: Fragment, given: Arrays, memory: Sequence[Guarded],
              sizes: Mapping[str, int]) -> None:
        specs = fragment.graph.inputs
        for slot, spec in enumerate(specs):
            _array(memory[call.buffers[slot]], spec.shape, spec.dtype, sizes)[...] = given[slot]
        for b in call.buffers[len(specs):]:
            ctypes.memset(memory[b].address, PATTERN, memory[b].size)

    @staticmethod
    def _outputs(call: Call, fragment: Fragment, memory: Sequence[Guarded],
                 sizes: Mapping[str, int]) -> list[np.ndarray]:
        first = len(fragment.graph.inputs)
        return [_array(memory[b], n.shape, n.dtype, sizes)
                for n, b in zip(fragment.outputs, call.buffers[first:])]


def _array(memory: Guarded, shape: tuple[Dim, ...], dtype: DType,
           sizes: Mapping[str, int]) -> np.ndarray:
    return memory.array(tuple(evaluate(d, sizes) for d in shape), dtype)
