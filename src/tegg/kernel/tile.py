"""Tiled transposes: loads that run along another loop than the stores are turned in squares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.dim import hint
from tegg.kernel.domain import Write
from tegg.kernel.index import Form, Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Loop, Strip
from tegg.kernel.value import Val, reachable

_STRIP = 800_000  # number of the variable of a strip loop, which no loop variable has
_LINE = 64        # bytes of a cache line, of which all is read at once
_RUN = 256        # bytes that are written side by side
_COPIES = 8       # vectors of a run
_LIGHT = 12       # values of an iteration from which their registers crowd out runs


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a nest is tiled: vectors of ``lanes``, a strip of ``along``, then the strip's values one
    by one. So memory is read along as many rows as there are lanes, a line of each at a time, and
    written in runs. ``turned``: the loads that are contiguous in ``along``, forwards or
    backwards. ``copies``: vectors of an iteration: a run, or else a whole line.
    """

    lanes: Var
    along: Var
    strip: Strip
    turned: tuple[Val, ...]
    copies: int

    def cut(self, loop: Loop) -> Loop:
        """A loop of the nest as part of the tiling."""
        if loop.var == self.strip.var:
            return replace(loop, step=self.strip.length)
        return replace(loop, strip=self.strip) if loop.var == self.along else loop

    def order(self, vars: Sequence[Var]) -> tuple[Var, ...]:
        """The loops of the nest, the strip's included."""
        rest = tuple(v for v in vars if v not in (self.lanes, self.along))
        return (*rest, self.lanes, self.strip.var, self.along)


def tiling(writes: Sequence[Write], lanes: Lanes) -> Tiling | None:
    """The tiling of an elementwise nest with contiguous stores and loads that run across them."""
    vars = writes[0].vars
    values = reachable(v for w in writes for v in w.needs())
    if any(w.vars != vars or w.mode != "store" or w.guards or w.ordered for w in writes) or any(
            v.op == "red" for v in values):
        return None
    found = crossing([v for v in vars if hint(v.extent) >= lanes.width], [w.form for w in writes],
                     [v for v in values if v.op == "load" and not v.attr.guards
                      and not v.attr.form.gathered()], lanes)
    if found is None:
        return None
    inner, along, turned = found
    least = min(w.value.dtype.itemsize for w in writes)
    line = max(_LINE // v.dtype.itemsize for v in turned)
    strip = Strip(Var(along.extent, _STRIP), max(1, line // lanes.width) * lanes.width)
    light = sum(v.op != "const" for v in values) <= _LIGHT
    copies = min(_COPIES, (_RUN if light else _LINE) // (lanes.width * least),
                 -(-hint(inner.extent) // lanes.width))
    return Tiling(inner, along, strip, turned, max(1, copies))


def crossing(vars: Sequence[Var], stores: Sequence[Form], loads: Sequence[Val], lanes: Lanes,
             ) -> tuple[Var, Var, tuple[Val, ...]] | None:
    """The loop in which all stores are contiguous, that in which most of the loads are, forwards or
    backwards, which stride in the first, and these; None where there are none."""
    inner = next((v for v in vars if all(lanes.coefficient(f, v) == 1 for f in stores)), None)
    if inner is None:
        return None
    across = [v for v in loads
              if lanes.coefficient(v.attr.form, inner) not in (0, 1, -1, None)]
    found = Counter(a for v in across for a in vars if a != inner and lanes.unit(v, a))
    if not found:
        return None
    along = max(found, key=lambda a: (found[a], -vars.index(a)))
    return inner, along, tuple(v for v in across if lanes.unit(v, along))
