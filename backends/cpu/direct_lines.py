"""What a direct convolution puts in place at once: a line of one channel, or of all of them where
these lie side by side in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tegg.backends.cpu.c_templates import template
from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_hooks import Hooks
from tegg.dim import hint
from tegg.kernel.contraction_classify import Term
from tegg.kernel.index import Var
from tegg.kernel.lane import Lanes
from tegg.kernel.value import reachable


@dataclass(frozen=True, slots=True)
class Lines:
    """Along what the vectors of a line are evaluated: ``_n``, its places, or ``_k``, its taps where
    places are apart; ``_apart``, places that taps put apart. together: no vector is, but vectors of
    channels, which are turned into the lines of all of them."""

    kind: str
    together: bool = False

    def operand_b(self, h: Hooks, params: str, term: Term, column: Axis,
                  channels: tuple[Var, ...]) -> None:
        """The functions that evaluate vectors of a line."""
        if self.together:
            h.hook(f"b{term.anchor}_c", params, [column, h.k], [term.b], (),
                   Axis("c", channels, 0), False, {})
            return
        suffix = "_n" if self.kind == "_apart" else self.kind
        h.operand_b(params, term, column, (suffix, f"{suffix}_left"))

    def words(self, words: Mapping[str, str], channels: tuple[Var, ...], long: int,
              width: int) -> dict[str, str]:
        """What the templates say of it, for lines of ``long`` elements."""
        if not self.together:
            line = template(f"direct_line{self.kind}").substitute(words)
            return dict(line=line, line_params=words["channel_params"], line_of=words["group_of"],
                        each=f"for (int64_t c = 0; c < {words['C']}; c++) ", read_of="a channel",
                        of_channel=" + c * plane")
        moving, still = words["n_across"], words["tap_across"]
        if self.kind == "_k":
            moving, still = still, moving
        line = template("direct_line_together").substitute(
            words, moving=moving, still=still, SOME=str(min(long, width)),
            channel_at=_starts(channels, width), VECTORS=str(_vectors(channels, width)))
        return dict(line=line, line_params="const int64_t plane, ", line_of="", each="",
                    read_of="all channels, whose lines are `plane` elements apart", of_channel="",
                    place_args="plane, ")


def lines_of(h: Hooks, term: Term, channels: tuple[Var, ...], along: Var | None,
             kind: str) -> Lines:
    """Lines of a kind: of all channels at a time where these fill vectors of what is read and
    ``along`` the line lanes would be gathered one by one."""
    if kind == "_apart" or along is None or not channels:
        return Lines(kind)
    width, inner = h.dialect.width, channels[-1]
    full = isinstance(inner.extent, int) and inner.extent >= width
    lanes = Lanes(h.contraction.propagation.algebra, width)
    return Lines(kind, full and _gathered(lanes, term, along) and not _gathered(lanes, term, inner))


def _gathered(lanes: Lanes, term: Term, v: Var) -> bool:
    """Whether something that lanes along a variable read does not lie side by side."""
    loads = [x.attr for x in reachable([term.b]) if x.op == "load"]
    return any(lanes.coefficient(f, v) not in (0, 1)
               for x in loads for f in (x.form, *(g.form for g in x.guards)))


def _vectors(channels: tuple[Var, ...], width: int) -> int:
    """How many vectors hold all channels: each has channels of one innermost variable."""
    *outer, inner = (hint(v.extent) for v in channels)
    return math.prod(outer) * -(-inner // width)


def _starts(channels: tuple[Var, ...], width: int) -> str:
    """Declaration of the first channel of a vector. The last one of a variable is full too, of
    some channels that the one before has: no mask is needed."""
    inner = hint(channels[-1].extent)
    many = -(-inner // width)
    at = f"vector % {many} * {width}" if len(channels) > 1 else f"vector * {width}"
    if inner % width:
        at = f"({at} > {inner - width} ? {inner - width} : {at})"
    if len(channels) > 1:
        at = f"vector / {many} * {inner} + {at}"
    return f"const int64_t c = {at};"


def turn(name: str, width: int) -> str:
    """The function that turns a block of vectors: lane i of the first, of the second, and so on."""
    halves = {word: ", ".join(str(i // 2 + at + width * (i % 2)) for i in range(width))
              for word, at in (("low_halves", 0), ("high_halves", width // 2))}
    return template("transpose").substitute(k=name, V="vf", W=str(width), **halves)
