"""Reductions that a contraction's operands and results need: made before it, read from memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.backends.simt.language import SimtC
from tegg.kernel.code import Stage, Temporary
from tegg.kernel.contraction_classify import AnchoredPropagation, Contraction, Group, Term
from tegg.kernel.domain import Write, spread
from tegg.kernel.fuse import fuse
from tegg.kernel.index import variable
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Function
from tegg.kernel.order import nests
from tegg.kernel.partial import exchanged
from tegg.kernel.place import Placer
from tegg.kernel.simt import LIMITS
from tegg.kernel.value import Val, reachable
from tegg.kernel.vectorise import Vectoriser
from tegg.kernel.work import bytes_read, bytes_written


@dataclass(frozen=True, slots=True)
class Before:
    """What runs before a contraction: kernels, the memory that they fill, bytes that they move."""

    sources: tuple[str, ...]
    stages: tuple[Stage, ...]
    temporaries: tuple[Temporary, ...]
    loaded: int = 0
    stored: int = 0


def stored_reductions(c: Contraction, name: str, language: SimtC, symbols: tuple[str, ...],
                      first: int) -> tuple[Contraction, Before]:
    """A contraction whose own products are its only reductions, and what makes the others.

    ``first``: the slot of the first temporary.
    """
    p, memo = c.propagation, {}
    sources, stages, temporaries, writes = [], [], [], []
    for v in _reductions(c):
        slot = first + len(temporaries)
        vars = tuple(sorted(v.deps, key=lambda x: (x.number, str(x.extent))))
        form = p.algebra.flatten(tuple(map(variable, vars)), tuple(x.extent for x in vars))
        writes.append(Write(slot, vars, form, v))
        source, stage = _stage(p, writes[-1], f"{name}_before{len(stages)}", language, symbols)
        sources.append(source)
        stages.append(stage)
        temporaries.append(Temporary(v.dtype, spread(vars)))
        memo[v.id] = p.values.load(slot, v.dtype, form)
    groups = tuple(_exchanged(p, g, memo) for g in c.groups) if memo else c.groups
    loaded = sum(bytes_read(w.needs(), p.graph) for w in writes)
    return replace(c, groups=groups), Before(tuple(sources), tuple(stages), tuple(temporaries),
                                             loaded, bytes_written(writes))


def _reductions(c: Contraction) -> list[Val]:
    """The outermost reductions, but for the sums of the contraction."""
    sums = {t.sum.id for g in c.groups for t in g.terms}
    todo = [c.a, *(t.b for g in c.groups for t in g.terms),
            *(v for g in c.groups for w in g.writes for v in w.needs())]
    found: dict[int, Val] = {}
    seen: set[int] = set()
    while todo:
        v = todo.pop()
        if v.id in seen or v.id in sums:
            continue
        seen.add(v.id)
        if v.op == "red":
            found[v.id] = v
        else:
            todo.extend(v.args)
    return [found[i] for i in sorted(found)]


def _exchanged(p: AnchoredPropagation, g: Group, memo: dict[int, Val]) -> Group:
    """A group that reads what has been stored; a sum that changes is another value."""
    terms = tuple(Term(t.anchor, p.values.exchange(t.sum, memo), p.values.exchange(t.a, memo),
                       p.values.exchange(t.b, memo)) for t in g.terms)
    return Group(tuple(exchanged(p, w, memo) for w in g.writes), terms, g.n)


def _stage(p: AnchoredPropagation, w: Write, name: str, language: SimtC,
           symbols: Sequence[str]) -> tuple[str, Stage]:
    """One kernel that stores one value."""
    vectors = Vectoriser(Lanes(p.algebra, language.width))
    body = fuse([s for nest in nests([w], lambda: Placer(p.values, vectors, LIMITS))
                 for s in nest.body])
    reads = {v.attr.slot: v.dtype for v in reachable(w.needs()) if v.op == "load"}
    f = Function(name, body, dict(sorted({**reads, w.slot: w.value.dtype}.items())),
                 tuple(symbols))
    return language.function(p.algebra, f), Stage(
        name, frozenset(reads), frozenset({w.slot}), True, language.launch(p.algebra, f))
