"""The cheapest cover of a program whose kernels a target can lower, and the plan of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tegg.extract import extract, fragment
from tegg.extract.cost import Costs
from tegg.ir.classes import Cover, EClasses, KernelSpec
from tegg.ir.op import PRODUCTS
from tegg.planning.make import KernelRefused, make_plan, structure
from tegg.planning.plan import Plan
from tegg.planning.target import Target

_PATIENCE = 3  # contractions for which a template is refused before a program goes without it


@dataclass(frozen=True, slots=True)
class Chosen:
    """A cover, its plan, and the classes that it is of: without forms that the target refused."""

    classes: EClasses
    cover: Cover
    plan: Plan


def choose(classes: EClasses, target: Target, costs: Costs, symbols: Sequence[str] = (),
           **how: Any) -> Chosen:
    """The cheapest cover whose kernels the target takes.

    symbols: names of the program's sizes, in the order in which runs are given them. ``how``:
    further arguments of ``extract``. Where the target cannot lower a kernel, the choice is made
    again: with another form for the contraction in it, or, where that has no other, without that
    kernel and all that are like it.
    """
    refused: dict[tuple, str] = {}
    templates: Counter[str] = Counter()

    def accepts(spec: KernelSpec) -> str | None:
        return refused.get(structure(fragment(spec, classes))) if refused else None

    while True:
        start = time.perf_counter()
        cover = extract(classes, costs, lowerable=target.unsupported, accepts=accepts,
                        target=target.name, **how)
        middle = time.perf_counter()
        try:
            plan = planned(classes, cover, target, symbols)
        except KernelRefused as e:
            others = _without_template(classes, e.spec, templates)
            if others is None:
                refused[e.structure] = e.reason
            else:
                classes = others
            continue
        plan.stats.update(extract_seconds=middle - start,
                          lower_seconds=time.perf_counter() - middle)
        return Chosen(classes, cover, plan)


def planned(classes: EClasses, cover: Cover, target: Target, symbols: Sequence[str] = ()) -> Plan:
    """The plan of a cover. Raises KernelRefused where the target cannot lower a kernel."""
    return make_plan(classes, cover, tuple(symbols), lambda s: fragment(s, classes), target.lower,
                     unit=getattr(target, "begins", 0))


def _without_template(classes: EClasses, spec: KernelSpec,
                      refused: Counter[str]) -> EClasses | None:
    """The classes without the form of a kernel's one contraction; None where it has none, or
    several, or no other form stands for it: one kernel is the only candidate that computes a value
    from some others, so that to take it out would take out its other forms too. A template that was
    ``refused`` often is left out everywhere, for each choice takes time."""
    anchors = [c for c, n in spec.body.items() if n.op.kind in PRODUCTS]
    if len(anchors) != 1:
        return None
    (c,) = anchors
    form = spec.body[c]
    name, nodes = form.op.name, dict(classes.nodes)
    refused[name] += 1
    often = refused[name] >= _PATIENCE
    for k in (c, *nodes) if often else (c,):
        kept = [n for n in nodes[k] if n.op.name != name or not often and n != form]
        if any(n.op.template and n.op.kind in PRODUCTS for n in kept):
            nodes[k] = kept
        elif k == c:
            return None
    return replace(classes, nodes=nodes)
