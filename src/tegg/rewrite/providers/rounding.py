"""Which values may rest in memory with fewer bits: a policy, not a proof."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from tegg.ir.classes import ENode
from tegg.rewrite.providers import Fact
from tegg.rewrite.view import View

KEEP = MappingProxyType({"keep-f32": ("Tensor",)})  # stated by rules, of what shall not round
EXACT = ("reduce", "composite", "index")  # what these give is summed up, normalised or looked up


class Rounding:
    """``(may-round t)``: rounding t where it is stored is a fair trade.

    Results of products and of elementwise work may round, and inputs that products read. Results
    of reductions, softmaxes and norms do not, nor statistics made of such results alone. Rules of
    a user's overrule it: by ``(keep-f32 t)`` of what shall not round, by ``(may-round t)`` of what
    may.
    """

    name = "rounding"
    relations = MappingProxyType({"may-round": ("Tensor",), **KEEP})
    reads = tuple(KEEP)

    def facts(self, view: View) -> Iterable[Fact]:
        exact = _exact(view) | kept(view)
        for c, nodes in view.nodes.items():
            kinds = {n.op.kind for n in nodes}
            if c not in exact and "source" not in kinds and kinds & {"elementwise", "contract"}:
                yield ("may-round", c)
        for c in sorted(_read_by_products(view) - kept(view)):
            if any(n.op.name == "Input" for n in view.nodes[c]):
                yield ("may-round", c)


def kept(view: View) -> AbstractSet[int]:
    """Classes that rules of a user's keep as they are."""
    return view.stated.get("keep-f32", {}).keys()


def _exact(view: View) -> set[int]:
    """Classes of reductions and idioms, and what is computed from those and constants alone."""
    still = {c for c, nodes in view.nodes.items() for n in nodes
             if n.op.kind == "source" and n.op.name != "Input"}
    exact = {c for c, nodes in view.nodes.items() if any(n.op.kind in EXACT for n in nodes)
             and all(n.op.kind != "contract" for n in nodes)}
    either, changed = exact | still, True
    while changed:
        changed = False
        for c, nodes in view.nodes.items():
            for known, every in ((still, still), (exact, either)):
                if c not in known and c not in still and any(_made_of(n, known, every)
                                                             for n in nodes):
                    known.add(c)
                    either.add(c)
                    changed = True
    return exact


def _made_of(n: ENode, some: set[int], every: set[int]) -> bool:
    return (n.op.kind in ("elementwise", "movement") and not some.isdisjoint(n.args)
            and every.issuperset(n.args))


def _read_by_products(view: View) -> set[int]:
    """Classes that contractions read, movement seen through."""
    todo = [a for nodes in view.nodes.values() for n in nodes if n.op.kind == "contract"
            for a in n.args]
    seen: set[int] = set()
    while todo:
        c = todo.pop()
        if c not in seen:
            seen.add(c)
            todo.extend(n.args[0] for n in view.nodes.get(c, ()) if n.op.kind == "movement")
    return seen
