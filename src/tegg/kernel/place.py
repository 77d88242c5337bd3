"""Placement: from values and writes to a loop tree, driven by demand, a loop level at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tegg.dim import hint
from tegg.ir.work import NEAR
from tegg.kernel.domain import Write, spread
from tegg.kernel.flops import Evaluations
from tegg.kernel.index import Form, Var, variable
from tegg.kernel.loops import (
    Accumulate,
    Array,
    Comes,
    Fetch,
    Finish,
    Keep,
    Let,
    Loop,
    Past,
    Start,
    Stmt,
    Store,
    Turn,
)
from tegg.kernel.tile import Tiling
from tegg.kernel.value import Val, Values, reachable
from tegg.kernel.vectorise import Vectoriser

Scope = frozenset[Var]


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds of placement, in scalar operations and elements.

    keep: a value of an earlier pass is kept for a later one from this cost. thrice: one that three
    passes need, or more, already from this cost, in arrays of at most ``near`` elements, which stay
    in the first cache. hoist: a value gets a pass of its own before a loop it does not depend on
    from this cost. scratch: elements of the largest array. vector: whether loops are vectorised at
    all.
    """

    keep: float = 8.0
    thrice: float = 3.0
    near: int = NEAR
    hoist: float = 8.0
    scratch: int = 1 << 16
    vector: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """What a nest is for: values needed inside all of its loops, and what is done with them.

    riders: writes over fewer loops, done at the level where exactly theirs are open. parts: loops
    of which an iteration of another loop does its share.
    """

    bodies: tuple[Val, ...]
    leaf: Callable[[], list[Stmt]]
    stores: tuple[Form, ...] = ()
    riders: tuple[Write, ...] = ()
    parts: Mapping[Var, Var] = field(default_factory=dict)

    def wanted(self) -> tuple[Val, ...]:
        return self.bodies + tuple(v for w in self.riders for v in w.needs())

    def scans(self) -> list[Val]:
        """Values that are accumulated along the innermost loops."""
        return [v for v in reachable(self.bodies) if v.op == "scan"]


@dataclass(slots=True)
class _Kept:
    """A value with scratch; ``ready`` once the pass that fills it is over."""

    array: Array
    ready: bool = False
    filled: bool = False


@dataclass(slots=True)
class Placer:
    """Places one kernel function. The state is where the walk stands: open loops, known values."""

    values: Values
    vectors: Vectoriser
    limits: Limits = field(default_factory=Limits)
    open: list[Var] = field(default_factory=list)
    known: list[set[int]] = field(default_factory=lambda: [set()])
    kept: dict[int, _Kept] = field(default_factory=dict)
    vector: Var | None = None
    unroll: int = 1
    notes: list[str] = field(default_factory=list)
    tiled: Tiling | None = None
    _arrays: int = 0
    _fresh: int = 1_000  # numbers of renamed variables; binders use small ones
    _evaluations: Evaluations = field(default_factory=Evaluations)

    # ---- entry
    def place(self, writes: Sequence[Write], order: tuple[Var, ...], vector: Var | None,
              shared: Var | None) -> list[Stmt]:
        """One nest in the given order; writes over a prefix of it ride along."""
        loops = len(order) - (self.tiled is not None)
        mine = [w for w in writes if len(w.vars) == loops]
        riders = tuple(w for w in writes if len(w.vars) < loops)
        bodies = tuple(dict.fromkeys(v for w in mine for v in w.needs()))
        stores = tuple(w.form for w in writes)
        job = Job(bodies, lambda: [Store(w, self._past(w)) for w in mine], stores, riders)
        unroll = (self.tiled.copies if self.tiled is not None
                  else self.vectors.unroll(job.wanted(), vector))
        return self.nest(order, job, vector, unroll, shared)

    def _past(self, w: Write) -> Past | None:
        return None if self.tiled is None else \
            Past(Comes.TURNED, spread(w.vars) * w.value.dtype.itemsize)

    # ---- levels
    def nest(self, vars: tuple[Var, ...], job: Job, vector: Var | None = None, unroll: int = 1,
             shared: Var | None = None) -> list[Stmt]:
        """The loops over ``vars`` around a job, with everything placed that stands between them."""
        out: list[Stmt] = []
        here = [w for w in job.riders if len(w.vars) == len(self.open)]
        if vars:
            out += self._turned(vars[0])
            out += self._hoist(self._followed(vars[0]), job)
        needs = self._invariant(job.wanted()) + [v for w in here for v in w.needs()]
        out += self.ensure(needs, (vars, job.wanted()) if vars else None)
        out += [Store(w) for w in here]
        if not vars:
            return out + job.leaf()
        first, rest = vars[0], vars[1:]
        out += [Start(v, 0) for v in job.scans() if v.attr.vars[0] == first]
        riders = tuple(w for w in job.riders if w not in here)
        job = replace(job, riders=riders)
        with self._inside(first, first == vector, unroll):
            body = tuple(self.nest(rest, job, vector, unroll, shared))
        loop = Loop(first, body, first == vector, unroll if first == vector else 1,
                    first == shared, job.parts.get(first))
        out.append(loop if self.tiled is None else self.tiled.cut(loop))
        return out

    def _followed(self, v: Var) -> Var:
        """The variable that values follow: a loop of strips stands for the one that it cuts."""
        return self.tiled.along if self.tiled is not None and v == self.tiled.strip.var else v

    def _turned(self, first: Var) -> list[Stmt]:
        """Before a strip is walked: the loads along it are put where lanes can read them."""
        if self.tiled is None or first != self.tiled.along:
            return []
        out: list[Stmt] = []
        for v in self.tiled.turned:
            self._arrays += 1
            block = self.vectors.lanes.width * self.tiled.copies
            array = Array(self._arrays, v.dtype, (first,), block, self.tiled.strip)
            self.kept[v.id] = _Kept(array, ready=True)
            out.append(Turn(v, array, first))
        return out

    @contextmanager
    def _inside(self, v: Var, lanes: bool, unroll: int) -> Iterator[None]:
        """One loop deeper; scratch and values that are made inside die with the level."""
        saved = dict(self.kept)
        outer = self.vector, self.unroll
        self.open.append(v)
        self.known.append(set())
        if lanes:
            self.vector, self.unroll = v, unroll
        yield
        self.open.pop()
        self.known.pop()
        self.vector, self.unroll = outer
        if saved.keys() != self.kept.keys():
            self._evaluations.forget()
        self.kept = saved

    @property
    def scope(self) -> Scope:
        return frozenset(self.open)

    def _is_known(self, v: Val) -> bool:
        return v.op == "const" or any(v.id in level for level in self.known)

    def _ready(self, v: Val) -> bool:
        kept = self.kept.get(v.id)
        return kept is not None and kept.ready

    # ---- what is needed at a level
    def _invariant(self, roots: Iterable[Val]) -> list[Val]:
        """The largest values inside ``roots`` that depend on open loops only."""
        scope, out, seen, todo = self.scope, [], set(), list(roots)
        while todo:
            v = todo.pop()
            if v.id in seen or v.op == "const":
                continue
            seen.add(v.id)
            if v.deps <= scope:
                out.append(v)
            elif not self._ready(v):
                todo.extend(v.args)
        return sorted(out, key=lambda v: v.id)

    def _inputs(self, v: Val) -> Sequence[Val]:
        """What must be known at this level before a value can be computed."""
        if self._ready(v):
            return ()
        return self._invariant(v.args) if v.op == "red" else v.args

    def _needed(self, wanted: Iterable[Val]) -> dict[int, Val]:
        """All values to compute at this level, by id: operands first."""
        found: dict[int, Val] = {}
        todo = list(wanted)
        while todo:
            v = todo.pop()
            if v.id not in found and not self._is_known(v):
                found[v.id] = v
                todo.extend(self._inputs(v))
        return dict(sorted(found.items()))

    def ensure(self, wanted: Iterable[Val],
               following: tuple[tuple[Var, ...], Sequence[Val]] | None = None) -> list[Stmt]:
        """Make values known here. ``following``: the nest that comes after, which may share rows.

        Reductions over the same variables that do not need each other are one pass.
        """
        needed = self._needed(wanted)
        stage: dict[int, int] = {}
        for v in needed.values():
            below = max((stage.get(a.id, 0) for a in self._inputs(v)), default=0)
            stage[v.id] = below + (v.op == "red" and not self._ready(v))
        passes: dict[tuple[int, tuple[Var, ...], Var | None], list[Val]] = {}
        for v in needed.values():
            if v.op == "red" and not self._ready(v):
                passes.setdefault((stage[v.id], v.attr.vars, v.attr.part), []).append(v)
        bodies = [(vars, [r.args[0] for r in group])
                  for (_, vars, _), group in sorted(passes.items(), key=lambda p: p[0][0])]
        self._keep_between(bodies + ([following] if following else []))
        out: list[Stmt] = []
        for level in range(max(stage.values(), default=0) + 1):
            for (at, *_), group in passes.items():
                waiting = [r for r in group if not self._is_known(r)]
                if at == level and waiting:
                    out += self._reduce(waiting)
            for v in needed.values():
                if stage[v.id] == level and not self._is_known(v):
                    out += self._let(v)
        return out

    def _let(self, v: Val) -> list[Stmt]:
        self.known[-1].add(v.id)
        kept = self.kept.get(v.id)
        if kept is None:
            return [Let(v)]
        if kept.ready:
            return [Fetch(v, kept.array)]
        kept.filled = True
        return [Let(v), Keep(v, kept.array)]

    # ---- reductions
    def _reduce(self, group: list[Val]) -> list[Stmt]:
        """One pass over the variables of reductions that share them."""
        vars, bodies = group[0].attr.vars, [r.args[0] for r in group]
        split, part = group[0].attr.split, group[0].attr.part
        clash = [v for v in vars if v in self.open]
        fresh: dict[Var, Var] = {}
        if clash:
            fresh, bodies = self._rename(clash, bodies)
            vars = tuple(fresh.get(v, v) for v in vars)
        vector, unroll = None, 1
        if self.vector is None:
            vars = self.vectors.contiguous_last(vars, bodies)
            tested = {v for r in group if r.attr.only for v in r.attr.only.form.vars()}
            free = [v for v in vars if v not in tested]  # one test for all lanes
            vector = self.vectors.choose(free, bodies) if self.limits.vector else None
            unroll = self.vectors.unroll(bodies, vector)
        partials = unroll if vector is not None else 0
        leaf = [Accumulate(r, b) for r, b in zip(group, bodies)]
        out: list[Stmt] = [Start(r, partials) for r in group]
        parts = {} if part is None else {fresh.get(split, split): part}
        job = Job(tuple(bodies), lambda: list(leaf), parts=parts)
        out += self.nest(vars, job, vector, unroll)
        for kept in self.kept.values():
            if kept.filled and set(kept.array.vars) <= set(group[0].attr.vars):
                kept.ready = True
        for r in group:
            out.append(Finish(r, partials))
            self.known[-1].add(r.id)
            own = self.kept.get(r.id)
            if own is not None and not own.ready:
                own.filled = True
                out.append(Keep(r, own.array))
        return out

    def _rename(self, clash: list[Var], bodies: list[Val],
                ) -> tuple[dict[Var, Var], list[Val]]:
        """A reduction that lands inside a loop over its own variable gets another one."""
        fresh = {}
        for v in clash:
            self._fresh += 1
            fresh[v] = Var(v.extent, self._fresh)
        by = {v: variable(w) for v, w in fresh.items()}
        self.notes.append("a reduction's variable was renamed")
        return fresh, [self.values.substitute(b, by) for b in bodies]

    # ---- scratch
    def _cost(self, v: Val) -> float:
        """Operations of one evaluation at this level, reductions included; kept values are read."""
        return self._evaluations.of(v, self.scope, self.kept)

    def _array(self, v: Val, vars: Sequence[Var]) -> None:
        """Give a value scratch over variables, and forget costs that did not know of it."""
        follows = self.vector is not None and self.vector in v.deps
        block = self.vectors.lanes.width * self.unroll if follows else 1
        self._arrays += 1
        self.kept[v.id] = _Kept(Array(self._arrays, v.dtype, tuple(vars), block))
        self._evaluations.forget()

    def _fits(self, v: Val, vars: Sequence[Var]) -> bool:
        follows = self.vector is not None and self.vector in v.deps
        block = self.vectors.lanes.width * self.unroll if follows else 1
        return math.prod(hint(w.extent) for w in vars) * block <= self.limits.scratch

    def _keep_between(self, passes: Sequence[tuple[tuple[Var, ...], Sequence[Val]]]) -> None:
        """A dear value of one pass that a later pass over the same variables needs is kept."""
        scope = self.scope
        earlier: dict[Scope, Counter[int]] = {}  # of a value, the passes so far
        for vars, bodies in passes:
            over = frozenset(vars)
            before, now, todo = earlier.setdefault(over, Counter()), set(), list(bodies)
            while todo:
                v = todo.pop()
                if v.id in now or v.op == "const" or v.deps <= scope:
                    continue
                now.add(v.id)
                if v.id in self.kept:
                    continue
                if v.id in before and v.deps & over == v.deps - scope:
                    dims = [w for w in vars if w in v.deps]
                    if self._worth(v, dims, before[v.id] + 1) and self._fits(v, dims):
                        self._array(v, dims)
                        continue
                todo.extend(v.args)
            before.update(now)

    def _worth(self, v: Val, dims: Sequence[Var], passes: int) -> bool:
        """Whether keeping a value for later passes beats computing it in each."""
        limits, cost = self.limits, self._cost(v)
        return cost >= limits.keep or (passes > 2 and cost >= limits.thrice
                                       and math.prod(hint(w.extent) for w in dims) <= limits.near)

    def _hoist(self, first: Var, job: Job) -> list[Stmt]:
        """Dear values that do not depend on the loop being opened get a pass of their own."""
        scope, out = self.scope, []
        for v in self._hoistable(first, job):
            if self._ready(v):
                continue
            dims = tuple(sorted((w for w in v.deps if w not in scope),
                                key=lambda w: (hint(w.extent), w.number)))
            if v.id not in self.kept:
                self._array(v, dims)
            self.notes.append(f"hoisted {v.op}")
            vector, unroll = None, 1
            if self.vector is None and self.limits.vector:
                vector = self.vectors.choose(dims, [v], [])
                unroll = self.vectors.unroll([v], vector)
            out += self.nest(dims, Job((v,), list), vector, unroll)
            self.kept[v.id].ready = True
        return out

    def _hoistable(self, first: Var, job: Job) -> list[Val]:
        scope, found, seen, todo = self.scope, [], set(), list(job.wanted())
        if hint(first.extent) <= 1:
            return []
        while todo:
            v = todo.pop()
            if v.id in seen or v.op == "const" or v.deps <= scope or self._ready(v):
                continue
            seen.add(v.id)
            if first not in v.deps and self._cost(v) >= self.limits.hoist and self._fits(
                    v, [w for w in v.deps if w not in scope]):
                found.append(v)
            else:
                todo.extend(v.args)
        return sorted(found, key=lambda v: v.id)
