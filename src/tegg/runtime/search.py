"""``search="measure"``: the best plans by prediction are run against each other on the device.

They take turns, so that what disturbs the machine disturbs all. A plan whose results differ from
those of the first one, which is the best by prediction, is not chosen, however fast it is.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from tegg.dim import evaluate, hint
from tegg.dtype import dtype as as_dtype
from tegg.errors import TeggError
from tegg.ir.graph import Graph
from tegg.planning.plan import Plan, Tried
from tegg.progress import progress
from tegg.runtime.compiled import Bound, Compiled

PLANS = 8          # at most, the first included
CHOOSING = 0.25    # share of the budget in which covers are looked for
BUILDING = 0.6     # share of the budget after which no further plan is compiled
ROUNDS = 15        # at most; medians over more change nothing
LEAST_ROUNDS = 3   # whatever the budget
SLOT = 0.03        # seconds that one plan runs in one round
RUNS = 10          # of one plan in one round, where the device has a clock of its own
HOPELESS = 1.5     # slower than the best by this factor after LEAST_ROUNDS: timed no more
BETTER = 0.02      # by how much a plan must beat the first one: less is noise
ROUNDING = MappingProxyType({"f64": 1e-9, "f32": 1e-3, "f16": 2e-2, "bf16": 5e-2})
COARSE = 5e-2      # the same where the stack rounds what rests in memory
_SPAN = 8          # integers are drawn below this where nothing is looked up by them


@dataclass(slots=True)
class _Runner:
    """One plan, what its kernels are, and the program that was built of it."""

    plan: Plan
    kernels: tuple[str, ...]
    program: Compiled | None = None
    run: Bound | None = None
    results: list[np.ndarray] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def seconds(self) -> float | None:
        return statistics.median(self.times) if self.times else None


def fastest(graph: Graph, plans: Sequence[tuple[Plan, tuple[str, ...]]],
            build: Callable[[Plan], Compiled], *, deadline: float, seed: int, coarse: bool) -> Plan:
    """The plan that runs fastest; its ``tried`` says what was measured.

    plans: with what their kernels are, the best by prediction first, which is always built and
    timed. deadline: in monotonic time. coarse: whether the stack rounds what rests in memory.
    Raises what building the first one raises.
    """
    runners = [_Runner(*p) for p in plans]
    budget = max(0.0, deadline - time.monotonic())
    last_build = time.monotonic() + budget * BUILDING / (1.0 - CHOOSING)
    with progress("measuring plans", len(runners) + ROUNDS) as step:
        for i, r in enumerate(runners):
            if i == 0 or time.monotonic() < last_build:
                _built(r, build, graph, seed, runners[0], coarse)
            else:
                r.note = "no time was left to compile it"
            step(f"plan {i}")
        _timed([r for r in runners if r.run is not None and not r.note], deadline, step)
    chosen = _chosen(runners)
    chosen.note = "chosen"
    chosen.plan.tried = [Tried(r.kernels, r.plan.seconds, r.seconds, r.note) for r in runners]
    chosen.plan.stats.update(plans_measured=sum(bool(r.times) for r in runners))
    return chosen.plan


def _built(r: _Runner, build: Callable[[Plan], Compiled], graph: Graph, seed: int, first: _Runner,
           coarse: bool) -> None:
    """Compile a plan, run it once, and compare its results with those of the first one."""
    try:
        r.program = build(r.plan)
        arrays = drawn(graph, r.program, seed)
        bound = r.program.bind(*arrays)
        bound()
    except TeggError as e:
        if r is first:
            raise
        r.note = f"it cannot be built: {e}"
        return
    states = [a for spec, a in zip(r.program.signature.arguments, arrays) if spec.state]
    r.run, r.results = bound, [v.copy() for v in (*bound.outputs.values(), *states)]
    why = None if r is first else differs(r.results, first.results, coarse)
    if why is not None:
        r.note = f"its results differ from those of the first plan: {why}"
        warnings.warn(f"a plan that was measured gives other results than the best one by "
                      f"prediction, and is not used: {why}; please report this", RuntimeWarning,
                      stacklevel=2)


def drawn(graph: Graph, program: Compiled, seed: int) -> list[np.ndarray]:
    """Arguments at the hints of symbolic sizes: normal floats, integers that look something up."""
    rng = np.random.default_rng(seed)
    span = min((hint(n.args[0].shape[n.attrs[0]]) for n in graph.nodes
                if n.op.kind == "index" and n.args[0].shape), default=_SPAN)
    sizes: Mapping[str, int] = {s.name: s.hint for s in program.signature.symbols}
    out = []
    for a in program.signature.arguments:
        shape = tuple(evaluate(d, sizes) for d in a.shape)
        high = 2 if a.dtype.kind == "bool" else max(1, min(span, 127))
        values = rng.standard_normal(shape) if a.dtype.is_float else rng.integers(0, high, shape)
        out.append(np.ascontiguousarray(values, a.dtype.numpy))
    return out


def differs(got: Sequence[np.ndarray], want: Sequence[np.ndarray], coarse: bool) -> str | None:
    """Why results differ by more than rounding, relative to the largest value of each; or None."""
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        name = as_dtype(b.dtype).name
        if name not in ROUNDING:
            if not np.array_equal(a, b):
                return f"result {i} has other {b.dtype} values"
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(y)
        if not np.array_equal(x[~finite], y[~finite], equal_nan=True) or not np.isfinite(
                x[finite]).all():
            return f"result {i} has NaN or inf elsewhere"
        scale = np.abs(y[finite]).max(initial=0.0) + 1e-30
        worst = np.abs(x[finite] - y[finite]).max(initial=0.0) / scale
        if worst > (COARSE if coarse else ROUNDING[name]):
            return f"result {i} is off by {worst:.1e} of its largest value"
    return None


def _timed(runners: list[_Runner], deadline: float, step: Callable[[str], None]) -> None:
    """Rounds in which every plan has its turn; hopeless ones drop out."""
    for r in range(ROUNDS):
        if len(runners) < 2 and r or r >= LEAST_ROUNDS and time.monotonic() >= deadline:
            break
        for runner in runners[r % len(runners):] + runners[:r % len(runners)]:
            assert runner.run is not None
            runner.times.append(_sample(runner.run))
        if r + 1 >= LEAST_ROUNDS:
            best = min(x.seconds or 0.0 for x in runners)
            runners = [x for x in runners if (x.seconds or 0.0) <= HOPELESS * best]
        step(f"round {r + 1}")


def _sample(run: Bound) -> float:
    """The best of a few runs by the device's clock, or of those that fit in a slot."""
    counted = run.timed(RUNS)
    return _best(run) if counted is None else min(counted)


def _best(run: Callable[[], None]) -> float:
    """The best of the runs that fit in a slot."""
    best, end = float("inf"), time.perf_counter() + SLOT
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - start)
        if now >= end:
            return best


def _chosen(runners: Sequence[_Runner]) -> _Runner:
    """The fastest, or the first where none is clearly faster."""
    first = runners[0]
    timed = [r for r in runners if r.times and not r.note]
    best = min(timed, key=lambda r: r.seconds or 0.0, default=first)
    if first.seconds is not None and (best.seconds or 0.0) > first.seconds * (1.0 - BETTER):
        return first
    return best
