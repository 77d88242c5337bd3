"""``tegg tune --device cuda``: figures of the GPU, then our kernels timed by events, and a fit."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tegg.errors import BackendError, LoweringError
from tegg.extract.cost import load_costs
from tegg.extract.profile import Profile
from tegg.ir.classes import Fragment
from tegg.dim import product
from tegg.planning.plan import Buffer, Call, Plan

from ...tuning.case import Case, drawn
from ...tuning.fitting import Timed
from ..cublas import library
from ..cubin import cubin
from ..driver import open_device
from ..program import Loaded, prelude
from .cases import FULL, QUICK, cases
from .figures import STEPS, figures, shown, source
from .fit import fitted, from_figures

if TYPE_CHECKING:
    from ..target import Cuda

_ROUNDS = {False: 15, True: 5}
Step = Callable[[str], None]


def tune(target: Cuda, quick: bool = False, step: Step = lambda name: None) -> Profile:
    """The profile of a target's GPU. ``step`` is told what was done, ``steps(quick)`` times."""
    device = open_device(target.number)
    architecture = device.architecture
    found = figures(device, cubin(prelude() + source(architecture), architecture).code, quick,
                    step=step)
    target = with_all_forms(target)
    plan, made = plan_of(cases(target, QUICK if quick else FULL), target)
    program = Loaded(plan, device, graph=False)
    step("kernels are compiled")
    times = rounds(program, plan, _ROUNDS[quick], step)
    base = from_figures(load_costs(target.shipped()), found, device.multiprocessors,
                        device.l2_bytes)
    timed = [Timed(c, base.threads, statistics.median(t)) for c, t in zip(made, times)]
    return Profile(fitted(base, timed), "cuda", target.machine(), base.threads,
                   figures=shown(found), unrest=_unrest(times))


def with_all_forms(target: Cuda) -> Cuda:
    """The target with forms that have no price yet, and with the products of cuBLAS where it is
    there to be timed."""
    blas = target.blas
    try:
        library()
        blas = True
    except BackendError:
        pass
    return type(target)(target.architecture, target.number, target.results, target.graph,
                        target.model, blas, wgmma=True)


def steps(quick: bool) -> int:
    """How many steps ``tune`` tells of."""
    return len(STEPS) + 1 + _ROUNDS[quick]


def _unrest(times: Sequence[Sequence[float]]) -> float:
    """By how much the usual time is above the best."""
    return statistics.median(statistics.median(t) / min(t) - 1.0 for t in times)


def plan_of(wanted: Sequence[Case], target: Cuda) -> tuple[Plan, list[Case]]:
    """One plan that runs all cases in turn, a call for each, and those that are in it: forms that
    the target refuses are left out, as they are from programs. Operands are weights, of which
    those of equal shape and dtype are one; results share the arena."""
    plan = Plan([], [], [], [], [], [], (), 0.0, None)
    slots: dict[tuple, int] = {}
    made = []
    for case in wanted:
        number = len(plan.kernels)
        try:
            code = target.lower(Fragment(case.graph, case.outputs, case.anchors), f"tune{number}",
                                frozenset())
        except LoweringError:
            continue
        places = []
        for i, spec in enumerate(case.graph.inputs):
            key = (i, spec.shape, spec.dtype)
            if key not in slots:
                slots[key] = len(plan.buffers)
                plan.buffers.append(Buffer("weight", spec.dtype, product(spec.shape), slots[key]))
            places.append(slots[key])
        for dtype, size in (*((n.dtype, product(n.shape)) for n in case.outputs),
                            *((t.dtype, t.size) for t in code.temporaries)):
            places.append(len(plan.buffers))
            plan.buffers.append(Buffer("arena", dtype, size))
        plan.kernels.append(code)
        plan.run.append(Call(number, tuple(places), tuple(range(len(code.stages))), 0.0, case.name))
        made.append(case)
    return plan, made


def operands(plan: Plan) -> list[np.ndarray | None]:
    """Arrays for the weights of such a plan, where every op is at its usual."""
    return [drawn(b.dtype, b.bytes({}) // b.dtype.itemsize) if b.kind == "weight" else None
            for b in plan.buffers]


def rounds(program: Loaded, plan: Plan, count: int, step: Step) -> list[list[float]]:
    """Of each call its seconds, round after round; a first round, which warms up, is not kept."""
    arrays = operands(plan)
    pointers = (ctypes.c_void_p * len(arrays))(*(0 if a is None else a.ctypes.data
                                                 for a in arrays))
    sizes = (ctypes.c_int64 * 1)()
    program.run_ahead(pointers, sizes)
    program.profile(pointers, sizes)
    seen = []
    for r in range(count):
        seen.append(program.profile(pointers, sizes))
        step(f"round {r + 1} of {count}")
    return [list(t) for t in zip(*seen)]
