"""The reductions of one kernel: which are one, into how many parts they go, how they end."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tegg.ir.demand import Values, axis_of
from tegg.ir.neighbours import VECTOR, Axes, stored
from tegg.ir.split import parts


class Reductions:
    """Reductions of one kind that follow one another in a kernel are one: the last of them.

    chained: those that are part of another one.
    """

    def __init__(self, values: Values, body: Mapping) -> None:
        self.values, self.body = values, body
        self.chained = {a for n in body.values() if n.op.kind == "reduce" for a in n.args
                        if a in body and body[a].op is n.op}

    def parts(self, c: int, node) -> int:
        """Into how many parts one is split, which threads share."""
        if c in self.chained:
            return 1
        a, axes = self._chain(node)
        return parts(self.values.shape[a], axes)

    def closed(self, c: int, node, beside: Mapping[int, Axes], close: float,
               gather: float) -> float:
        """Operations of a result beside those of its elements: ``close``, to add lanes up, where
        elements lie side by side along what is reduced alone. Few of them are gathered, if that is
        less (``gather`` each): then lanes are results. beside: of values of the kernel."""
        if c in self.chained:
            return 0.0
        a, axes = self._chain(node)
        shape = self.values.shape[a]
        axes = {i % max(1, len(shape)) for i in axes}
        if len(shape) - 1 not in axes:
            return 0.0
        lanes = beside[a] if a in beside else stored(shape)
        if any(shape[i] >= VECTOR for i in lanes - axes):
            return 0.0
        return min(close, gather * math.prod(shape[i] for i in axes) or close)

    def _chain(self, node) -> tuple[int, set[int]]:
        """What one reduces, and along which axes."""
        (a, *_), axes = node.args, {axis_of(node)}
        while node.op.kind == "reduce" and a in self.body and self.body[a].op is node.op:
            axes.add(axis_of(self.body[a]))
            (a,) = self.body[a].args
        return a, axes
