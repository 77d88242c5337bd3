"""Which computed classes may rest in memory between kernels."""

from __future__ import annotations

from dataclasses import dataclass

from tegg.ir.classes import ENode
from tegg.ir.op import PRODUCTS
from tegg.extract.legal import followed
from tegg.extract.limits import Limits
from tegg.extract.regions import cut, elementwise
from tegg.extract.roles import Roles
from tegg.ir.demand import Values

HEAVY = ("reduce", "scan", "composite", *PRODUCTS)  # at most one of a kind in a kernel


@dataclass(frozen=True, slots=True)
class _Least:
    """The smallest cone of a class: distinct values, activations read, reductions and products."""

    values: int
    leaves: frozenset[int]
    heavy: int


@dataclass(frozen=True, slots=True)
class Borders:
    """Where kernels may end. inner: computed classes that are never stored. together: sets of
    classes that one kernel may well store."""

    inner: frozenset[int]
    together: tuple[tuple[int, ...], ...]


def borders_of(roles: Roles, values: Values, limits: Limits) -> Borders:
    """The borders of a program: those of its classes one by one, and those of its long regions.

    A class that is inner moves the border to its user. A value with one elementwise user of its own
    size gains nothing by a border in between, unless the user's elements are wider, its kernel
    would outgrow the limits, or only the value can be computed ahead. What positions make is
    computed by every reader.
    """
    least: dict[int, _Least] = {}
    found: set[int] = set(roles.counted)
    for c in roles.nodes:
        if not roles.computed(c) and not (c in roles.moved and c in roles.roots):
            continue
        free = elementwise(roles, c)
        absorbed: set[int] = set()
        refused: set[int] = set()
        for n in roles.nodes[c]:
            mine = {b for b, _ in roles.references(n) if free and _joins(roles, values, b, c)
                    and _follows(roles, b, n, limits)} - refused
            while mine and not _fits(_least(roles, c, n, mine, least), limits):
                refused.add(max(mine, key=lambda b: (least[b].heavy, least[b].values, b)))
                mine -= refused
            absorbed |= mine
        absorbed -= refused
        found |= absorbed
        parts = [_least(roles, c, n, absorbed, least) for n in roles.nodes[c]]
        least[c] = max(parts, key=lambda p: (p.heavy, p.values, len(p.leaves)))
    pieces = cut(roles, values, limits)
    found.difference_update(*pieces.given)
    return Borders(frozenset(found | pieces.inside), pieces.given)


def _joins(roles: Roles, values: Values, b: int, user: int) -> bool:
    return (roles.computed(b) and roles.users[b] == [user] and b not in roles.roots
            and values.size[b] == values.size[user]
            and values.dtype[user].itemsize <= values.dtype[b].itemsize
            and (b in roles.ahead) == (user in roles.ahead)
            and all(not n.op.staged for n in roles.nodes[b]))


def _follows(roles: Roles, b: int, user: ENode, limits: Limits) -> bool:
    """Whether an e-node can be in the kernel of a value that it reads. What is heavy is read at one
    index, which a template follows: where parts of it are joined, as in what is rolled, each would
    be computed anew."""
    if all(n.op.kind not in HEAVY for n in roles.nodes[b]):
        return True
    ways = [way for base, way in roles.references(user) if base == b]
    in_order = any(n.op.in_order for n in roles.nodes[b])
    return len(ways) == 1 and all(
        followed(roles.classes, m, roles.nodes[m][0], in_order, limits) for m in ways[0])


def _least(roles: Roles, c: int, node: ENode, absorbed: set[int],
           least: dict[int, _Least]) -> _Least:
    """The smallest cone of an e-node; a value moved in two ways is evaluated twice."""
    count, heavy = 1, int(node.op.kind in HEAVY)
    leaves: frozenset[int] = frozenset()
    for b, _ in roles.references(node):
        if b in absorbed:
            count += least[b].values
            leaves |= least[b].leaves
        elif b not in roles.still and b not in roles.constant:
            leaves |= {b}
    heavy += sum(least[b].heavy for b in {b for b, _ in roles.references(node)} & absorbed)
    return _Least(count, leaves, heavy)


def _fits(part: _Least, limits: Limits) -> bool:
    return (part.heavy <= 1 and part.values <= limits.values // 2
            and len(part.leaves) <= limits.inputs // 2)
