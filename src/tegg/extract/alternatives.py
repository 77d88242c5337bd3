"""What a program could be instead of its best cover: for a clock to judge.

A cover is the best under some e-nodes and some prices, so others are the best under others: without
a form that the best cover has (the next tile, the next template), without a kind of kernel (other
borders), or under prices that are wrong by random factors, as predictions are. Kernels that do the
same, in repeated layers, change together.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tegg.extract.cost import Costs
from tegg.ir.classes import EClasses, ENode, KernelSpec
from tegg.ir.op import PRODUCTS
from tegg.ir.template import form_of

WRONG = 0.35     # standard deviation of the logarithm of what is multiplied to prices
DEAREST = 3.0    # a cover that should take this many times as long as the best is not worth a try
DRAWS = 24       # of prices, at most


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many covers besides the best, in how many seconds; the seed of what is drawn."""

    count: int
    seconds: float
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Variation:
    """Under what another cover may be the best. without: labels of kernels that are not offered."""

    classes: EClasses
    costs: Costs
    without: frozenset[tuple] = frozenset()


def variations(classes: EClasses, costs: Costs, specs: Sequence[tuple[tuple, KernelSpec]],
               seed: int) -> Iterator[Variation]:
    """Variations of a problem whose best cover has these kernels, each with its structure."""
    rng = random.Random(seed)
    kinds: dict[tuple, list[KernelSpec]] = {}
    for structure, spec in specs:
        kinds.setdefault(structure, []).append(spec)
    dearest = sorted(kinds, key=lambda k: -sum(s.seconds for s in kinds[k]))
    for structure in dearest:
        forms = [(c, n) for s in kinds[structure] for c, n in s.body.items()
                 if n.op.kind in PRODUCTS]
        if forms:
            yield Variation(_without(classes, forms), costs)
    for structure in dearest:
        yield Variation(classes, costs, frozenset({structure}))
    templates = sorted({n.op.name for ns in classes.nodes.values() for n in ns
                        if n.op.kind in PRODUCTS})
    for _ in range(DRAWS):
        yield Variation(_drawn(classes, rng), _wrong(costs, templates, rng))


def _without(classes: EClasses, forms: Sequence[tuple[int, ENode]]) -> EClasses:
    """The classes without some forms of their contractions, where they have others."""
    gone: dict[int, set[tuple]] = {}
    for c, n in forms:
        gone.setdefault(c, set()).add(form_of(n))
    nodes = dict(classes.nodes)
    for c, out in gone.items():
        kept = [n for n in nodes[c] if n.op.kind not in PRODUCTS or form_of(n) not in out]
        if any(n.op.kind in PRODUCTS and n.op.template for n in kept) or not any(
                n.op.template for n in nodes[c]):
            nodes[c] = kept
    return replace(classes, nodes=nodes)


def _drawn(classes: EClasses, rng: random.Random) -> EClasses:
    """The classes with some forms of contractions left out, the same ones everywhere."""
    forms = sorted({form_of(n) for ns in classes.nodes.values() for n in ns if n.op.template},
                   key=repr)
    out = {f for f in forms if rng.random() < 0.3}
    found = [(c, n) for c, ns in classes.nodes.items() for n in ns
             if n.op.template and form_of(n) in out]
    return _without(classes, found)


def _wrong(costs: Costs, templates: Sequence[str], rng: random.Random) -> Costs:
    """Prices that are off by random factors, those of one kind by the same."""
    def factor() -> float:
        return rng.lognormvariate(0.0, WRONG)

    memory = factor()
    levels = tuple(replace(v, thread=v.thread * memory, total=v.total * memory)
                   for v in costs.levels)
    shares: Mapping[str, float] = {t: costs.templates.get(t, 1.0) * factor() for t in templates}
    return replace(costs, levels=levels, launch=costs.launch * factor() ** 2,
                   loop_rate=costs.loop_rate * factor(), pack=costs.pack * factor() ** 2,
                   product_rate=costs.product_rate * factor(), templates=shares)
