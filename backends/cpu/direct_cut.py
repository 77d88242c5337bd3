"""A long row of windows as several short ones, of which a cache of a thread holds all channels."""

from __future__ import annotations

from dataclasses import replace

from tegg.backends.cpu.direct_forms import Direct, Slide
from tegg.backends.cpu.direct_held import words_of
from tegg.dim import hint
from tegg.kernel.contraction_classify import Contraction, Group, Term
from tegg.kernel.domain import moved
from tegg.kernel.index import Var, variable
from tegg.kernel.value import Val, reachable

CLOSE = 1 << 17   # elements that a band reads, which stay in L2


def cut(c: Contraction, tile: Direct) -> tuple[Contraction, Direct]:
    """The same with the places of its only slide in two variables, where one row of them is long,
    and whole tiles divide it into rows that are not."""
    place = c.groups[0].n[-1] if c.groups[0].n else None
    short = _short(c, tile)
    if len(tile.slides) > 1 or place is None or place.extent != tile.slides[0].places or not short:
        return c, tile
    (slide,), values, algebra = tile.slides, c.propagation.values, c.propagation.algebra
    many = slide.places // short
    taken = {v for x in reachable(c.read) for v in x.deps} | {*c.batch, *c.m, *c.k}
    high, low = _new(many, taken), _new(short, taken)
    by = {place: variable(high) * short + variable(low)}
    memo: dict[int, Val] = {}
    groups = []
    for g in c.groups:
        terms = tuple(Term(t.anchor, *(values.substitute(v, by, memo) for v in (t.sum, t.a, t.b)))
                      for t in g.terms)
        writes = tuple(moved(values, algebra, w, by, memo, tuple(
            x for v in w.vars for x in ((high, low) if v == place else (v,)))) for w in g.writes)
        groups.append(Group(writes, terms, (*g.n[:-1], high, low)))
    return (replace(c, groups=tuple(groups)),
            replace(tile, slides=(Slide(many, 1), replace(slide, places=short))))


def _short(c: Contraction, tile: Direct) -> int:
    """How many places of a row stay close: of those that divide it, in whole tiles, the most; 0
    where all do, or no number does."""
    slide = tile.slides[-1]
    deep = words_of(tile.held, hint(c.depth) // slide.taps)

    def near(places: int) -> bool:
        return deep * (slide.stride * (places - 1) + slide.dilation * (slide.taps - 1)) < CLOSE

    if near(slide.places):
        return 0
    tiles = range(slide.places // tile.rows, 0, -1)
    return next((n * tile.rows for n in tiles
                 if slide.places % (n * tile.rows) == 0 and near(n * tile.rows)), 0)


def _new(extent: int, taken: set[Var]) -> Var:
    """A variable that nothing has yet."""
    number = 0
    while Var(extent, number) in taken:
        number += 1
    taken.add(Var(extent, number))
    return Var(extent, number)
