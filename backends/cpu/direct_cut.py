"""A long row of windows as several short ones, of which a cache of a thread holds all channels."""

from __future__ import annotations

from dataclasses import replace

from tegg.backends.cpu.direct_templates import Direct, Slide
from tegg.backends.cpu.direct_held import words_of
from tegg.dim import hint
from tegg.kernel.contraction_classify import Contraction, Group, Term
from tegg.kernel.domain import moved
from tegg.kernel.index import Var, variable
from tegg.kernel.value import Val, reachable

CLOSE = 1 << 17   # elements that a band reads, which stay in L2
_FILLED = 1.1     # places of whole tiles, in those of a row, at most
_AGAIN = 0.5      # places whose multiplications take as long as reading all filters once more


def cut(c: Contraction, tile: Direct) -> tuple[Contraction, Direct]:
    """The same with the places of its only slide in two variables, where one row of them is long,
    and some number divides it into rows that are not."""
    group, short = c.groups[0], _short(c, tile)
    if (not short or len(tile.slides) > 1 or len(c.groups) > 1 or not group.n
            or group.n[-1].extent != tile.slides[0].places):
        return c, tile
    (slide,), place = tile.slides, group.n[-1]
    values, algebra = c.propagation.values, c.propagation.algebra
    many = slide.places // short
    taken = {v for x in reachable(c.read) for v in x.deps} | {*c.batch, *c.m, *c.k}
    high, low = _new(many, taken), _new(short, taken)
    by = {place: variable(high) * short + variable(low)}
    memo: dict[int, Val] = {}
    terms = tuple(Term(t.anchor, *(values.substitute(v, by, memo) for v in (t.sum, t.a, t.b)))
                  for t in group.terms)
    writes = tuple(moved(values, algebra, w, by, memo, tuple(
        x for v in w.vars for x in ((high, low) if v == place else (v,)))) for w in group.writes)
    return (replace(c, groups=(Group(writes, terms, (*group.n[:-1], high, low)),)),
            replace(tile, slides=(Slide(many, 1), replace(slide, places=short))))


def _short(c: Contraction, tile: Direct) -> int:
    """How many places of a row stay close: of those that divide it, and that tiles nearly fill, as
    many as are computed soonest; 0 where all do, or no number does."""
    slide = tile.slides[-1]
    deep = words_of(tile.held, hint(c.depth) // slide.taps)

    def near(places: int) -> bool:
        return deep * (slide.stride * (places - 1) + slide.dilation * (slide.taps - 1)) < CLOSE

    if near(slide.places):
        return 0
    most = min(slide.places // 2, CLOSE // max(1, deep) + 1)
    computed = {n: -(-n // tile.places) * tile.places for n in range(tile.places, most + 1)
                if slide.places % n == 0 and near(n)}
    return min((n for n, whole in computed.items() if whole <= _FILLED * n),
               key=lambda n: (computed[n] + _AGAIN) / n, default=0)


def _new(extent: int, taken: set[Var]) -> Var:
    """A variable that nothing has yet."""
    number = 0
    while Var(extent, number) in taken:
        number += 1
    taken.add(Var(extent, number))
    return Var(extent, number)
