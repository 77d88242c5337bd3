"""Horizontal merges: kernels of one iteration space that read the same values become one."""

from __future__ import annotations

from collections import defaultdict

from tegg.ir.classes import ENode
from tegg.extract.candidate import Body
from tegg.extract.cones import Cone, Cones
from tegg.extract.legal import below, products
from tegg.ir.template import form_of

Joined = tuple[tuple[int, ...], frozenset[int], Body]


def joined(cones: Cones, roots: list[int]) -> list[Joined]:
    """Outputs, leaves and body of every merge. Merging is n-ary: pairs would breed."""
    if cones.limits.siblings < 2:
        return []
    return [*_contractions(cones, roots), *_loops(cones, roots), *_together(cones, roots)]


def _contractions(cones: Cones, roots: list[int]) -> list[Joined]:
    """All contractions of one operand, with one prologue, whose epilogues read weights only.

    A kernel has one template: of the forms that all of its contractions have, the cheapest.
    """
    roles = cones.roles
    groups: dict[tuple, dict[int, Cone]] = defaultdict(dict)
    for c in roots:
        for z in cones.cuts[c]:
            anchors = products(z.body)
            if len(anchors) != 1:
                continue
            node = z.body[anchors[0]]
            x = node.args[0]
            prologue = below(x, z.body)
            reads = {a for q in prologue for a in z.body[q].args} | {x}
            if z.leaves - roles.still != (reads & z.leaves) - roles.still:
                continue
            key = (x, node.attrs[0], z.leaves & reads,
                   frozenset((q, id(z.body[q])) for q in prologue))
            best = groups[key].get(anchors[0])
            if best is None or len(z.body) > len(best.body):
                groups[key][anchors[0]] = z
    out: list[Joined] = []
    for (x, *_), group in groups.items():
        merged = _merge(cones, list(group.values()))
        if merged and (body := _one_form(cones, *merged)) is not None:
            outs, leaves, _ = merged
            out.append((outs, leaves, body))
            if cones.limits.store_prologue and x in body and cones.storable(x):
                out.append(((*outs, x), leaves, body))
    return out


def _one_form(cones: Cones, outs: tuple[int, ...], leaves: frozenset[int],
              body: Body) -> Body | None:
    """The body with all of its contractions in one form, or None where they share none."""
    anchors = products(body)
    forms = [{form_of(n): n for n in cones.roles.nodes[c]
              if n.op.kind == "contract" and not (n.op.staged or n.op.alone)
              and (n.args, n.attrs[0]) == (body[c].args, body[c].attrs[0])} for c in anchors]
    shared = [f for f in forms[0] if all(f in other for other in forms)]
    bodies = [{**body, **{c: own[f] for c, own in zip(anchors, forms)}} for f in shared]
    return min(bodies, key=lambda b: cones.pricer.price(outs, leaves, b)[0], default=None)


def _loops(cones: Cones, roots: list[int]) -> list[Joined]:
    """Loop nests over one shape that read the same activations."""
    groups: dict[tuple, dict[int, Cone]] = defaultdict(dict)
    for c in roots:
        for z in cones.cuts[c]:
            acts = z.leaves - cones.roles.still
            if acts and not products(z.body) and all(not n.op.staged
                                                     for n in z.body.values()):
                key = (cones.roles.classes.shape[c], acts)
                groups[key].setdefault(c, z)
    found = []
    for group in groups.values():
        merged = _merge(cones, list(group.values()))
        if merged and cones.legality.allows(merged[0][0], merged[2]):
            found.append(merged)
    return found


def _together(cones: Cones, roots: list[int]) -> list[Joined]:
    """What one loop nest may well compute, each class in the smallest way: one that another is
    computed from is stored as well. All that is waited for comes before all that is written."""
    rank = cones.roles.rank
    found: list[Joined] = []
    for group in cones.together:
        outs = tuple(sorted(set(group).intersection(roots), key=rank.__getitem__))
        parts = [min(cones.cuts[c], key=lambda z: (len(z.body), sorted(z.leaves))) for c in outs]
        leaves: frozenset[int] = frozenset().union(*(z.leaves for z in parts))
        body: dict[int, ENode] = {}
        for z in parts:
            body.update(z.body)
        if (1 < len(outs) <= cones.limits.siblings
                and all(z.body[c] is body[c] for z in parts for c in z.body)
                and all(n.op.kind in ("elementwise", "movement", "source") for n in body.values())
                and cones.roles.last(leaves, outs) < rank[outs[0]]):
            found.append((outs, leaves, body))
    return found


def _merge(cones: Cones, parts: list[Cone]) -> Joined | None:
    """The cones as one kernel, as far as they go together; None where fewer than two do."""
    outs: list[int] = []
    leaves: frozenset[int] = frozenset()
    body: dict[int, ENode] = {}
    for z in sorted(parts, key=lambda z: cones.roles.rank[z.root]):
        inside = z.root in body or any(o in z.body for o in outs)
        clash = any(body.get(k, v) is not v for k, v in z.body.items())
        mixed = not leaves.isdisjoint(z.body) or not z.leaves.isdisjoint(body)
        if inside or clash or mixed or len(outs) >= cones.limits.siblings:
            continue
        outs.append(z.root)
        leaves |= z.leaves
        body.update(z.body)
    return (tuple(outs), leaves, body) if len(outs) > 1 else None
