"""Kernels of a target on memory between guard pages, and their results beside the oracle's."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from tegg.dim import evaluate as size_of, product, symbols
from tegg.dtype import DType
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph, Node
from tegg.ir.oracle import evaluate
from tegg.kernel.code import KernelCode
from tegg.planning.plan import Buffer, Call, Plan
from tegg.planning.target import Target
from tegg.testing.memory import Guarded
from tegg.testing.tolerance import close
from typing import Self

Arrays = Mapping[int, np.ndarray]  # input slot -> values
Sizes = Mapping[str, int]  # of symbols
PATTERN = 0x5a  # what memory holds before it is written; no byte of a bool


def random_inputs(graph: Graph, sizes: Sizes | None = None, seed: int = 0,
                  high: int = 30) -> dict[int, np.ndarray]:
    """Values for every input: normal floats, integers in 0 .. high-1."""
    rng = np.random.default_rng(seed)
    out = {}
    for slot, spec in enumerate(graph.inputs):
        shape = tuple(size_of(d, sizes or {}) for d in spec.shape)
        if spec.dtype.is_float:
            out[slot] = rng.standard_normal(shape).astype(spec.dtype.numpy)
        else:
            out[slot] = rng.integers(0, 2 if spec.dtype.kind == "bool" else high,
                                     shape).astype(spec.dtype.numpy)
    return out


def check_results(outputs: Sequence[Node], got: Sequence[np.ndarray], inputs: Arrays,
                  sizes: Sizes | None = None, slack: float = 1.0, what: str = "") -> None:
    """Compare what a kernel wrote with what the oracle gives on the same inputs, by the kit's
    tolerances times ``slack``. what: said in the error, as which kernel it was.

    Raises AssertionError that names the output, the sizes and how far it is off.
    """
    with np.errstate(all="ignore"):
        wanted = evaluate(outputs, inputs, sizes or {})
    assert len(got) == len(outputs), f"{what}: {len(got)} results of {len(outputs)} outputs"
    for i, (g, w, node) in enumerate(zip(got, wanted, outputs)):
        why = close(g, w, node.dtype, slack)
        assert why is None, (f"output {i}, {node.op.name}, at {dict(sizes or {})}"
                             f"{', ' + what if what else ''}: {why}")


class Placed:
    """The buffers of a kernel in the order in which it takes them (inputs, outputs, temporaries),
    each beside pages that cannot be touched. What is to be written holds a pattern.

    at_end: whether memory ends, or begins, at such a page. inplace: output -> input slot whose
    memory it is. To be used by ``with``.
    """

    def __init__(self, code: KernelCode, graph: Graph, outputs: Sequence[Node], inputs: Arrays,
                 sizes: Sizes | None = None, at_end: bool = True,
                 inplace: Mapping[int, int] | None = None) -> None:
        first = len(graph.inputs)
        specs = [*((s.shape, s.dtype) for s in graph.inputs),
                 *((n.shape, n.dtype) for n in outputs),
                 *(((t.size,), t.dtype) for t in code.temporaries)]
        self._memory: list[Guarded] = []
        self._arrays: list[np.ndarray] = []
        self._outputs = slice(first, first + len(outputs))
        for slot, (shape, dtype) in enumerate(specs):
            shared = (inplace or {}).get(slot - first)
            if shared is not None:
                self._memory.append(self._memory[shared])
                self._arrays.append(self._arrays[shared])
                continue
            self._arrays.append(self._new(tuple(size_of(d, sizes or {}) for d in shape), dtype,
                                          at_end))
            if slot < first:
                self._arrays[-1][...] = inputs[slot]

    def _new(self, shape: tuple[int, ...], dtype: DType, at_end: bool) -> np.ndarray:
        memory = Guarded(int(np.prod(shape)) * dtype.itemsize, at_end)
        ctypes.memset(memory.address, PATTERN, memory.size)
        self._memory.append(memory)
        return memory.array(shape, dtype)

    @property
    def addresses(self) -> list[int]:
        """Where each buffer begins."""
        return [m.address for m in self._memory]

    def results(self) -> list[np.ndarray]:
        """Copies of the outputs."""
        return [a.copy() for a in self._arrays[self._outputs]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._arrays.clear()
        for m in self._memory:
            m.close()


class Kernels:
    """A kernel per fragment, built together for a target.

    Raises LoweringError where the target does not take a fragment as one kernel.
    """

    def __init__(self, target: Target, fragments: Sequence[Fragment]) -> None:
        self.fragments = tuple(fragments)
        self.codes = [target.lower(f, f"k{i}", frozenset()) for i, f in enumerate(fragments)]
        buffers: list[Buffer] = []
        calls: list[Call] = []
        for i, (f, code) in enumerate(zip(self.fragments, self.codes)):
            memory = [*(("input", s.dtype, product(s.shape)) for s in f.graph.inputs),
                      *(("output", n.dtype, product(n.shape)) for n in f.outputs),
                      *(("arena", t.dtype, t.size) for t in code.temporaries)]
            first = len(buffers)
            buffers += [Buffer(kind, dtype, size, first + n)
                        for n, (kind, dtype, size) in enumerate(memory)]
            calls.append(Call(i, tuple(range(first, len(buffers))),
                              tuple(range(len(code.stages))), 0.0, "test"))
        self.symbols = tuple(sorted({s for code in self.codes for s in code.symbols}
                                    | {s.name for b in buffers for s in symbols(b.size)}))
        self.plan = Plan(self.codes, buffers, [], calls, [], [], self.symbols, 0.0, None)
        self.executable = target.build(self.plan)

    def run(self, inputs: Sequence[Arrays], sizes: Sizes | None = None,
            at_end: bool = True) -> list[list[np.ndarray]]:
        """The outputs of every kernel. ``at_end``: whether memory ends, or begins, at a page that
        cannot be touched."""
        sizes = sizes or {}
        with ExitStack() as stack:
            placed = [stack.enter_context(Placed(code, f.graph, f.outputs, given, sizes, at_end))
                      for code, f, given in zip(self.codes, self.fragments, inputs)]
            addresses = [a for p in placed for a in p.addresses]
            values = [sizes[s] for s in self.symbols]
            self.executable.run((ctypes.c_void_p * max(1, len(addresses)))(*addresses),
                                (ctypes.c_int64 * max(1, len(values)))(*values))
            return [p.results() for p in placed]
