"""Which rule makes an e-graph grow: what each adds by itself, from one state of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tegg.rewrite.engine import Engine


MARGIN = 16  # times the limit on e-nodes, beyond which a round is not begun


@dataclass(frozen=True, slots=True, order=True)
class Growth:
    """What a rule added: e-nodes, less those that its unions joined, and rows of other facts."""

    enodes: int = 0
    facts: int = 0

    def __str__(self) -> str:
        return f"{self.enodes} e-nodes" if self.enodes else f"{self.facts} facts"


def growth(engine: Engine, most: Mapping[str, int], ops: Iterable[str],
           facts: Iterable[str]) -> dict[str, Growth]:
    """What each of some rule sets adds in one round by itself, all from the state of the engine.

    most: rule set -> how many rows it can add at most; ``ops``, ``facts``: the functions whose rows
    are counted. A rule set that cannot add as much as another did is not tried.
    """
    ops, facts = tuple(ops), tuple(facts)
    before = engine.sizes()
    found: dict[str, Growth] = {}
    for name in sorted(most, key=lambda n: (-most[n], n)):
        if most[name] <= max((g.enodes for g in found.values()), default=0):
            break
        after = engine.sizes_after(name)
        enodes, other = (sum(after.get(f, 0) - before.get(f, 0) for f in group)
                         for group in (ops, facts))
        if enodes > 0 or other > 0:
            found[name] = Growth(max(enodes, 0), max(other, 0))
    return found


def explodes(sizes: Sequence[int], limit: int) -> bool:
    """Whether a next round would go far beyond a limit on e-nodes: ``sizes`` before the last rounds
    and now have grown by factors that grow themselves, as all pairs of something do."""
    if len(sizes) < 3 or not sizes[-3]:
        return False
    first, second = sizes[-2] / sizes[-3], sizes[-1] / sizes[-2]
    return first >= 2 and second >= 1.5 * first and sizes[-1] * second ** 2 > MARGIN * limit
