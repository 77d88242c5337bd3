"""The CPU as a target: which ops it lowers, what they cost, and plans as loaded programs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tegg.ir.classes import Fragment
from tegg.extract.cost import Costs, load_costs
from tegg.extract.profile import Profile, chosen_costs, measured_costs
from tegg.dim import Dim, Symbol
from tegg.dtype import DType, bf16
from tegg.kernel.code import KernelCode
from tegg.ir.code import code_of
from tegg.ir.op import PRODUCTS, Op
from tegg.planning.plan import Call, Plan
from tegg.planning.target import ArraySpec
from tegg.rewrite.providers.multiplying import Attending

from . import caller, toolchain
from .attention_forms import AttentionForms, attention_row
from .caller import Caller
from .direct_forms import DirectForms
from .direct_templates import direct_templates
from .emit import C
from .identity import processor
from .instructions import BYTE_TILES, BYTES, ESTIMATES, PAIRS, TILES, instructions
from .library import load, prelude
from .loop_forms import LoopForms, loops_row
from .near import near_rows
from .narrow_forms import NarrowForms, narrow_templates
from .plain import generalized, given
from .program import Program, Step, copy_step, steps_of, with_barriers
from .symmetric_forms import SymmetricForms, symmetric_row
from .templates import Forms, templates
from .threads import cores, threads
from .winograd_forms import WinogradForms, winograd_row

_STEADY = 2    # threads, where plans shall not depend on how many there are
_FAR = 1 << 20  # bytes of weights that a run reads from memory: between two runs caches hold others
_LONG = 20e-6  # seconds: a run this long lets other Python threads go on meanwhile


class Cpu:
    """Kernels in C, compiled by the compiler that is found. ``lanes``: float32 values of a vector,
    by default those of this machine. ``has``: its instructions for narrow numbers, in the words
    of ``instructions.py``; what the compiler knows no instruction for is done in C."""

    name = "cpu"
    begins = 1

    def __init__(self, lanes: int | None = None, has: Collection[str] | None = None) -> None:
        self.toolchain = toolchain.find()
        width = lanes or self.toolchain.lanes
        self.language = C(width, neon="neon" in self.toolchain.features)
        registers = self.language.registers
        has = instructions(self.toolchain.features, width) if has is None else has
        self.features = frozenset({f"lanes={width}", *has})
        estimates = ESTIMATES in self.features
        self.rules = ("lower.cpu", "lower.cpu_half", "lower.cpu_bytes",
                      *("lower.cpu_near",) * estimates)
        self.ops = (*templates(registers), *narrow_templates(width), attention_row(registers),
                    *direct_templates(width), loops_row(), winograd_row(width),
                    symmetric_row(registers), *(near_rows() if estimates else ()))
        self.providers = (Forms(registers), NarrowForms(registers, self.features),
                          AttentionForms(self.features), Attending((bf16,)),
                          DirectForms(registers, self.features), LoopForms(),
                          WinogradForms(registers), SymmetricForms(registers))

    def complete(self) -> Cpu:
        """With all instructions for narrow numbers."""
        return Cpu(self.language.width, (PAIRS, BYTES, TILES, BYTE_TILES, ESTIMATES))

    def identity(self) -> str:
        """Lanes decide the source, threads the costs; the shared object is keyed by its text."""
        has = " ".join(sorted(self.features))
        family = self.language.registers.family
        return f"cpu {has} {family} {threads()}\n{prelude(self.language.width)}"

    def costs(self) -> Costs:
        """``TEGG_COSTS``, what was measured on this processor, or the profile that is shipped."""
        chosen = chosen_costs(self.name, threads())
        if chosen is not None:
            return chosen
        found = measured_costs(self.name, self.machine())
        return load_costs(self.shipped, threads()) if found is None \
            else found.with_threads(threads())

    def steady_costs(self) -> Costs:
        """Those of a number of threads that ``TEGG_THREADS`` does not change."""
        return self.costs().with_threads(_STEADY)

    @property
    def shipped(self) -> str:
        """The profile that is shipped for this kind of processor."""
        has = self.toolchain.features
        if "zen" not in has:
            return "cpu/generic"
        if "avx512bf16" not in has:
            return "cpu/zen3"
        return "cpu/zen5" if "avxvnni" in has else "cpu/zen4"

    def machine(self) -> str:
        """The processor, in words: what its measured profile is kept by."""
        return processor(self.toolchain)

    def tune(self, quick: bool = False, step: Callable[[str], None] = lambda name: None) -> Profile:
        """Measure this machine. ``step`` is told what has been done, ``tune_steps`` times."""
        from .tune.measure import tune
        return tune(self, quick, step)

    def tune_steps(self, quick: bool = False) -> int:
        """How many steps ``tune`` tells of."""
        from .tune.measure import steps
        return steps(quick)

    def unsupported(self, op: Op, dtype: DType) -> str | None:
        if op.kind in PRODUCTS and op.template is None:
            return "it is lowered as one of its templates, which rules of lower.cpu name"
        code = code_of(op, "c")
        if op.kind == "kernel":
            if code is None:
                return "it is a kernel of its own, and its row brings no Code('c')"
            return None if dtype.name in code.dtypes else (
                f"its C is written for {', '.join(code.dtypes)}")
        if code or op.expand or op.kind != "elementwise" or op.name in (
                "Cast", "Contiguous", *self.language.native):
            return None
        return f"the C dialect has no spelling for {op.name}, and its row no expansion"

    def lower(self, fragment: Fragment, name: str, constant: frozenset[int]) -> KernelCode:
        from .lowering import lower_fragment  # a plan from the cache needs none of it
        general = generalized(fragment)
        if general is None:
            return lower_fragment(fragment, name, constant, self.language)
        return given(lower_fragment(general[0], name, constant, self.language), general[1])

    def build(self, plan: Plan) -> Loaded:
        return Loaded(plan, self.language.width, self.costs().serial)


class Loaded:
    """A plan whose kernels are loaded: one foreign call runs all of it."""

    def __init__(self, plan: Plan, lanes: int, serial: float) -> None:
        self.plan, self._serial = plan, serial
        self._library = load(plan.kernels, lanes=lanes)
        self._program = self._made(plan.run, plan.before, plan.after)
        self._ahead = self._made(plan.ahead)
        self._threads = threads() if self._program.shared else 1
        self._release = plan.seconds > _LONG

    def _made(self, calls: Sequence[Call], before: Sequence[tuple[int, int]] = (),
              after: Sequence[tuple[int, int]] = ()) -> Program:
        buffers = self.plan.buffers
        copies = [[copy_step(a, b, buffers[a].size * buffers[a].dtype.itemsize) for a, b in pairs]
                  for pairs in (before, after)]
        far = {i for i, b in enumerate(buffers) if b.kind in ("weight", "ahead")
               and isinstance(b.size, int) and b.bytes({}) >= _FAR}
        steps: list[Step] = [*copies[0], *steps_of(self.plan.kernels, calls, self.plan.symbols,
                                              self._serial, far),
                             *copies[1]]
        shared = {i for i, b in enumerate(buffers) if b.kind == "arena"}
        return Program(with_barriers(steps, shared), self._library.functions, self.plan.symbols)

    def run(self, buffers: Any, sizes: Any) -> None:
        self._program.run(buffers, sizes, self._threads)

    def run_ahead(self, buffers: Any, sizes: Any) -> None:
        # Once for a program, on all cores, as its C is compiled.
        if self._ahead.calls:
            self._ahead.run(buffers, sizes, max(threads(), cores()))

    def profile(self, buffers: Any, sizes: Any) -> list[float]:
        out = [0.0] * len(self.plan.run)
        for call, seconds in zip(self._program.calls,
                                 self._program.profile(buffers, sizes, self._threads)):
            if call >= 0:
                out[call] += seconds
        return out

    def source(self) -> str:
        return self._library.source

    def caller(self, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec],
               symbols: Sequence[Symbol], claims: Sequence[Dim]) -> Caller:
        """The fast call path of this program."""
        return Caller(self._program, inputs, outputs, symbols, claims)

    def prepare(self, fast: Caller, pointers: ctypes.Array, keep: object,
                sizes: Sequence[int]) -> None:
        """Give the fast path memory for a run at these sizes."""
        fast.prepare(pointers, keep, self._threads, self._release, sizes)

    def bound(self, pointers: ctypes.Array, sizes: Sequence[int], keep: object) -> Any:
        """A function of no arguments that runs on a table of buffers."""
        return caller.bind(self._program, pointers, sizes, keep, self._threads, self._release)


def target() -> Cpu:
    """The entry point ``tegg.backends: cpu``."""
    return Cpu()
