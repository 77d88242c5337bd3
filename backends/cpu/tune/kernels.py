"""Cases that a profile is fitted to, compiled for this machine and timed; products among them."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tegg.dim import hint, product as elements
from tegg.dtype import DType, dtype as as_dtype, f32, i8, i32, u8
from tegg.extract.cost import Costs
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph
from tegg.ir.op import OPS
from tegg.kernel.code import KernelCode
from tegg.kernel.registers import Registers
from tegg.planning.plan import Call

from ...tuning.case import Case, drawn, empty
from ..direct_templates import Slide, direct_templates, first_tile
from ..library import Library, load
from ..narrow_forms import narrow_templates
from ..program import Program, steps_of, with_barriers
from ..templates import READ_AS, templates
from .machine import Sample

_SAMPLE = 3e-4    # seconds of one sample by its predicted time: a short one is rarely disturbed
_MOST = 2000      # runs of a kernel in one sample
_LONG = 1.0       # seconds: what every call is said to take, so that threads share it


class Kernels:
    """Cases, compiled as one library."""

    def __init__(self, cases: Sequence[Case], lower: Callable[..., KernelCode], costs: Costs,
                 lanes: int) -> None:
        self.cases = tuple(cases)
        self._codes = [lower(Fragment(c.graph, c.outputs, c.anchors), f"tune{i}", c.still)
                       for i, c in enumerate(self.cases)]
        self._library: Library = load(self._codes, lanes=lanes)
        self._costs = costs
        self._memory = Memory(zip(self.cases, self._codes))
        self._arrays: dict[int, list[np.ndarray]] = {}

    def sample(self, number: int, threads: int) -> Sample:
        """Seconds of one run of a case by so many threads, when its memory was touched before."""
        case, code = self.cases[number], self._codes[number]
        if number not in self._arrays:
            self._arrays[number] = self._memory.arrays(case, code)
        arrays = self._arrays[number]
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        sizes = (ctypes.c_int64 * 1)()
        early = _early(case, code)
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


class Memory:
    """Arrays of kernels. Those of one dtype read their weights, packed or not, from the same place:
    some memory of a machine is twice as fast as other, and forms are to be compared by the rest."""

    def __init__(self, kernels: Iterable[tuple[Case, KernelCode]]) -> None:
        self._most: dict[str, int] = {}  # elements of the largest weight, by dtype
        for case, code in kernels:
            for dtype, size, still in _buffers(case, code):
                if still:
                    self._most[dtype.name] = max(size, self._most.get(dtype.name, 0))
        self._weights: dict[str, np.ndarray] = {}

    def arrays(self, case: Case, code: KernelCode) -> list[np.ndarray]:
        """A kernel's inputs, drawn, then its results and temporaries. Packing overwrites what it
        packs, which changes no time."""
        given = len(case.graph.inputs)
        return [self._weight(dtype, size) if still else (drawn if i < given else empty)(dtype, size)
                for i, (dtype, size, still) in enumerate(_buffers(case, code))]

    def _weight(self, dtype: DType, size: int) -> np.ndarray:
        if dtype.name not in self._weights:
            self._weights[dtype.name] = drawn(dtype, self._most[dtype.name])
        return self._weights[dtype.name][:size]


def _buffers(case: Case, code: KernelCode) -> Iterator[tuple[DType, int, bool]]:
    """Of each array its dtype, its size, and whether it is known before a run."""
    packed = {b for i in _early(case, code) for b in code.stages[i].writes}
    sizes = [*((n.dtype, elements(n.shape)) for n in (*case.graph.inputs, *case.outputs)),
             *((t.dtype, t.size) for t in code.temporaries)]
    for i, (dtype, size) in enumerate(sizes):
        yield dtype, hint(size), i in case.still or i in packed


def _early(case: Case, code: KernelCode) -> list[int]:
    """Stages that read weights only: they are done before a run."""
    return [i for i, s in enumerate(code.stages) if s.reads and s.reads <= case.still]


def _count(case: Case, code: KernelCode) -> int:
    return len(case.graph.inputs) + len(case.outputs) + len(code.temporaries)


# ---- products
def product(op: str, own: Sequence[int], m: int, n: int, k: int, *, registers: Registers,
            still: bool = True, dtype: DType | str = f32, transposed: bool = False) -> Case:
    """A product of one form, which tells of that form, or of how its reads are asked for.
    ``still``: the second operand is a weight. ``dtype``: of the operands, but that ``u8`` is
    multiplied with ``i8``, and summed in 32 bits."""
    rows = {o.name: o for o in (*templates(registers), *narrow_templates(registers.width))}
    g = Graph(table={**OPS, **rows})
    kind = as_dtype(dtype)
    x = g.input("x", (m, k), kind)
    y = g.input("y", (n, k) if transposed else (k, n), i8 if kind is u8 else kind)
    if kind is u8:
        x, y = g.op("Cast", x, i32), g.op("Cast", y, i32)
    spec = "a,k;n,k;a,n" if transposed else "a,k;k,n;a,n"
    c = g.op(op, x, y, spec, (m, n), *own)
    weights = frozenset({1}) if still else frozenset()
    of = READ_AS.get((op, own[-1]), op)
    return Case(f"{op}{tuple(own)} {m}x{k} @ {k}x{n}{'' if still else ', packed each time'}", of,
                g, (c,), (c,), weights)


def convolution(op: str, channels: int, filters: int, across: int, *,
                registers: Registers) -> Case:
    """A convolution by 3 x 3 taps, of as many rows as each has places, in a direct form."""
    g = Graph(table={**OPS, **{o.name: o for o in direct_templates(registers.width)}})
    x = g.input("x", (channels, across + 2, across + 2), f32)
    w = g.input("w", (filters, channels, 3, 3), f32)
    for axis in (1, 3):
        x = g.op("Window", x, axis, 3, 1, 1)
    rows, vectors = first_tile(op, across, filters, registers)
    c = g.op(op, w, x, "a,d,e,f;d,b,e,c,f;a,b,c", (filters, across, across), 0,
             f"{Slide(across, 3)}/{Slide(across, 3)}", rows, vectors)
    return Case(f"{op}{(rows, vectors)} {filters} x {channels} x 3 x 3 at {across} x {across}", op,
                g, (c,), (c,), frozenset({1}))
