"""``search="measure"``: the best plans by prediction are run against each other on the device.

They take turns, so that what disturbs the machine disturbs all. A plan whose results differ from
what the program means is not chosen, however fast it is: from the oracle's, or, where the oracle
would take too long, from those of the first plan, which is the best by prediction. The plan that is
chosen says which (``stats["oracle"]``, ``explain()``).
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from tegg.dim import evaluate, hint, product
from tegg.dtype import dtype as as_dtype
from tegg.errors import TeggError
from tegg.ir.graph import Graph, Node
from tegg.ir.oracle import evaluate as meant
from tegg.planning.plan import Plan, Tried
from tegg.progress import progress
from tegg.runtime.bound import Bound
from tegg.runtime.compiled import Compiled

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
ORACLE = 1 << 24   # elements that the oracle may hold and compute: a second or so
_SPAN = 8          # integers are drawn below this where nothing is looked up by them


@dataclass(slots=True)
class _Runner:
    """One plan, what its kernels are, and the program that was built of it."""

    plan: Plan
    kernels: tuple[str, ...]
    program: Compiled | None = None
    run: Bound | None = None
    times: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def seconds(self) -> float | None:
        return statistics.median(self.times) if self.times else None


def fastest(graph: Graph, plans: Sequence[tuple[Plan, tuple[str, ...]]],
            build: Callable[[Plan], Compiled], *, deadline: float, seed: int, coarse: bool,
            weights: Mapping[int, np.ndarray] = MappingProxyType({})) -> Plan:
    """The plan that runs fastest; its ``tried`` says what was measured.

    plans: with what their kernels are, the best by prediction first, which is always built and
    timed. deadline: in monotonic time. coarse: whether the stack rounds what rests in memory.
    weights: arrays by input slot. Raises what building the first one raises.
    """
    runners = [_Runner(*p) for p in plans]
    budget = max(0.0, deadline - time.monotonic())
    judge = _Judge(graph, weights, seed, coarse)
    last_build = time.monotonic() + budget * BUILDING / (1.0 - CHOOSING)
    with progress("measuring plans", len(runners) + ROUNDS) as step:
        for i, r in enumerate(runners):
            if i == 0 or time.monotonic() < last_build:
                _built(r, build, judge, r is runners[0], time.monotonic() < last_build)
            else:
                r.note = "no time was left to compile it"
            step(f"plan {i}")
        _timed([r for r in runners if r.run is not None and not r.note], deadline, step)
    chosen = _chosen(runners)
    chosen.note = f"{chosen.note}; chosen, as no other is right" if chosen.note else "chosen"
    chosen.plan.tried = [Tried(r.kernels, r.plan.seconds, r.seconds, r.note) for r in runners]
    chosen.plan.stats.update(plans_measured=sum(bool(r.times) for r in runners),
                             oracle=float(judge.by_oracle))
    return chosen.plan


@dataclass(slots=True)
class _Judge:
    """What results are compared with: the oracle's, or those of the first plan."""

    graph: Graph
    weights: Mapping[int, np.ndarray]
    seed: int
    coarse: bool
    wanted: list[np.ndarray] | None = None
    by_oracle: bool = False

    def prepare(self, program: Compiled, arrays: Sequence[np.ndarray]) -> None:
        """Ask the oracle, where it can answer soon. ``arrays``: the arguments, not yet used."""
        signature = program.signature
        sizes = {s.name: s.hint for s in signature.symbols}
        nodes = [*self.graph.outputs.values(), *(self.graph.updates[a.slot]
                                                 for a in signature.arguments
                                                 if a.slot in self.graph.updates)]
        held = sum(hint(product(n.shape)) for n in self.graph.reachable(nodes))
        here = all(isinstance(w, (np.ndarray, np.generic)) for w in self.weights.values())
        if held > ORACLE or not here or not set(self._slots(nodes)) <= {
                *self.weights, *(a.slot for a in signature.arguments)}:
            return
        given = {a.slot: v for a, v in zip(signature.arguments, arrays)}
        self.wanted = [np.array(v) for v in meant(nodes, {**self.weights, **given}, sizes)]
        self.by_oracle = True

    def _slots(self, nodes: Sequence[Node]) -> list[int]:
        return [n.attrs[0] for n in self.graph.reachable(nodes) if n.op.name == "Input"]

    def verdict(self, results: list[np.ndarray]) -> str | None:
        """Why results are others than they should be; the first ones are, if there is no oracle."""
        if self.wanted is None:
            self.wanted = results
        return differs(results, self.wanted, self.coarse)

    @property
    def of(self) -> str:
        return "the oracle" if self.by_oracle else "the first plan"


def _built(r: _Runner, build: Callable[[Plan], Compiled], judge: _Judge, first: bool,
           time_left: bool) -> None:
    """Compile a plan, run it once, and have its results judged."""
    try:
        r.program = build(r.plan)
        arrays = drawn(judge.graph, r.program, judge.seed)
        if first and time_left:
            judge.prepare(r.program, arrays)
        bound = r.program.bind(*arrays)
        bound()
    except TeggError as e:
        if first:
            raise
        r.note = f"it cannot be built: {e}"
        return
    states = [a for spec, a in zip(r.program.signature.arguments, arrays)
              if spec.slot in judge.graph.updates]
    r.run = bound
    why = judge.verdict([v.copy() for v in (*bound.outputs.values(), *states)])
    if why is not None:
        r.note = f"its results differ from those of {judge.of}: {why}"
        warnings.warn(f"a plan that was measured gives other results than {judge.of}, and is not "
                      f"used if another one does not: {why}; please report this", RuntimeWarning,
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
    for r in range(ROUNDS if runners else 0):
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
