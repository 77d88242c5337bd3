"""Several hints of a dim are buckets: a plan for each, and the nearest one runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tegg.dim import Claim, Dim, Facts, Poly, Symbol, substitute
from tegg.errors import ArgumentError
from tegg.ir.graph import Graph, Idiom, InputSpec, Node
from tegg.runtime.bound import Bound
from tegg.runtime.compiled import Compiled
from tegg.ir.signature import Signature

MOST = 16  # plans for one program


def hinted(graph: Graph, signature: Signature) -> Iterator[tuple[dict[str, int], Graph]]:
    """A copy of the graph per combination of hints, whose costs assume those.

    Raises ArgumentError for more than 16 combinations.
    """
    choices = [[(s, h) for h in s.hints] for s in signature.symbols if len(s.hints) > 1]
    if math.prod(map(len, choices)) > MOST:
        raise ArgumentError(f"the hints make {math.prod(map(len, choices))} combinations, and each "
                            f"is compiled; {MOST} are the most")
    for chosen in itertools.product(*choices):
        rebound = {s: Poly({(replace(s, hints=(h,)),): 1}) for s, h in chosen}
        yield {s.name: h for s, h in chosen}, _rebound(graph, rebound)


def _swapped(by: Mapping[Symbol, Dim], x: Any) -> Any:
    """An attribute with symbols replaced."""
    if isinstance(x, tuple):
        return tuple(_swapped(by, y) for y in x)
    return substitute(x, by) if isinstance(x, Poly) else x


def _rebound(graph: Graph, by: Mapping[Symbol, Dim]) -> Graph:
    """The graph with symbols replaced."""
    swap = partial(_swapped, by)
    facts = Facts()
    for claim in graph.facts.claims:
        facts.assume(Claim(swap(claim)))
    for s, d in graph.facts.equal.items():
        facts.same(swap(Poly({(s,): 1})), swap(d))
    out = Graph(table=graph.table, facts=facts)
    new: dict[int, Node] = {}
    for n in graph.nodes:
        new[n.id] = out.op(n.op.name, *(new[a.id] for a in n.args), *map(swap, n.attrs))
        if n.id in graph.scopes:
            out.scopes[new[n.id].id] = graph.scopes[n.id]
    out.inputs = [InputSpec(s.name, swap(s.shape), s.dtype, s.kind, s.source, s.most)
                  for s in graph.inputs]
    out.outputs = {k: new[n.id] for k, n in graph.outputs.items()}
    out.updates = {k: new[n.id] for k, n in graph.updates.items()}
    out.idioms = [Idiom(new[i.node.id], i.op, tuple(new[a.id] for a in i.args), swap(i.attrs))
                  for i in graph.idioms]
    return out


class Buckets:
    """Programs of one signature, each planned for its own sizes. Used as a ``Compiled`` is."""

    def __init__(self, programs: list[tuple[dict[str, int], Compiled]]) -> None:
        self._programs = programs
        self.signature = programs[0][1].signature

    @property
    def programs(self) -> list[Compiled]:
        """One program per combination of hints."""
        return [p for _, p in self._programs]

    def at(self, sizes: Mapping[str, int]) -> Compiled:
        """The program whose hints are nearest, by ratio, to these sizes."""
        def distance(hints: Mapping[str, int]) -> float:
            return sum(abs(math.log(max(sizes[n], 1) / max(h, 1))) for n, h in hints.items())

        return min(self._programs, key=lambda p: distance(p[0]))[1]

    def _of(self, args: tuple, kwargs: Mapping[str, Any]) -> tuple[Compiled, list]:
        values = self.signature.by_name(args, kwargs)
        arrays = [self.signature.array(a, v) for a, v in zip(self.signature.arguments, values)]
        return self.at(self.signature.sizes(arrays)), values

    def attempt(self, args: tuple) -> tuple[np.ndarray, ...] | None:
        """See ``Compiled.attempt``: only the nearest program has memory prepared for a size."""
        for _, p in self._programs:
            done = p.attempt(args)
            if done is not None:
                return done
        return None

    def __call__(self, *args: Any, out: Mapping[str, np.ndarray] | None = None,
                 **kwargs: Any) -> dict[str, np.ndarray]:
        """See ``Compiled.__call__``."""
        program, values = self._of(args, kwargs)
        return program(*values, out=out)

    def bind(self, *args: Any, out: Mapping[str, np.ndarray] | None = None,
             **kwargs: Any) -> Bound:
        """See ``Compiled.bind``."""
        program, values = self._of(args, kwargs)
        return program.bind(*values, out=out)

    def profile(self, *args: Any, repeats: int = 5, **kwargs: Any) -> list[dict[str, Any]]:
        """See ``Compiled.profile``."""
        program, values = self._of(args, kwargs)
        return program.profile(*values, repeats=repeats)

    def refresh(self) -> None:
        """See ``Compiled.refresh``."""
        for p in self.programs:
            p.refresh()

    def explain(self) -> str:
        """See ``Compiled.explain``."""
        return "\n\n".join(f"at {hints}\n{p.explain()}" for hints, p in self._programs)

    def source(self) -> str:
        """See ``Compiled.source``."""
        return "\n".join(f"/* at {hints} */\n{p.source()}" for hints, p in self._programs)

    @property
    def plan(self):
        """The plan of the first hints; ``programs`` has them all."""
        return self.programs[0].plan

    @property
    def stats(self) -> dict[str, float]:
        """The counts of the first hints; ``programs`` has them all."""
        return self.programs[0].stats

