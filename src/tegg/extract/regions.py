"""Long regions of elementwise values, cut where least is passed on.

A loop that was written out, as of a solver's steps, is one region, and more than a kernel may hold.
Most of its values have several readers, so that a kernel could end at each of them: that is more
covers than can be looked at. But between two places where little is passed on all that is read is
read by the kernels that end there, and no value in between is worth storing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tegg.extract.limits import Limits
from tegg.extract.roles import Roles
from tegg.ir.demand import Values


@dataclass(frozen=True, slots=True)
class Pieces:
    """What regions are cut into. inside: values that only their own piece reads; given: per piece
    the others, which it computes for those who read them."""

    inside: frozenset[int]
    given: tuple[tuple[int, ...], ...]


def elementwise(roles: Roles, c: int) -> bool:
    """Whether every way to compute a class works on its own elements alone."""
    return all(n.op.kind == "elementwise" for n in roles.nodes[c])


def cut(roles: Roles, values: Values, limits: Limits) -> Pieces:
    """The pieces of all regions with more values that several others read than a class has ways to
    be computed: in others any border may be looked at."""
    inside: set[int] = set()
    given: list[tuple[int, ...]] = []
    for region in _regions(roles):
        if sum(len(roles.users[c]) > 1 for c in region) <= limits.cuts:
            continue
        # what reads a piece may be in one kernel with it
        most = limits.values if len(region) <= limits.values else max(1, 3 * limits.values // 4)
        for piece in _pieces(_in_order(region, roles, values), most):
            here = set(piece)
            own = {c for c in piece if c not in roles.roots and region[c] <= here
                   and region[c].issuperset(roles.users[c])}
            inside |= own
            given.append(tuple(c for c in piece if c not in own))
    return Pieces(frozenset(inside), tuple(given))


Region = dict[int, set[int]]  # class -> those of the region that read it where it lies


def _regions(roles: Roles) -> list[Region]:
    """Classes that read one another, where these lie, and nothing that is computed from any of them
    otherwise, as by a reduction."""
    free = {c for c in roles.nodes if roles.computed(c) and c not in roles.counted
            and elementwise(roles, c) and not any(n.op.staged for n in roles.nodes[c])}
    after: dict[int, int] = {}            # how many others, one after the other, a class waits for
    joined = {c: c for c in free}         # a class that it is in one region with, or itself
    readers: Region = {c: set() for c in free}
    for c in sorted(roles.nodes, key=roles.rank.__getitem__):
        ways: dict[int, set[tuple[int, ...]]] = defaultdict(set)
        for n in roles.nodes[c]:
            for b, way in roles.references(n, every=True):
                ways[b].add(way)
        after[c] = max((after[b] + (roles.computed(b) and b not in free) for b in ways), default=0)
        for b, found in ways.items():
            if (b in free and c in free and found == {()} and after[b] == after[c]
                    and (b in roles.ahead) == (c in roles.ahead)):
                readers[b].add(c)
                joined[_first(joined, c)] = _first(joined, b)
    regions: dict[int, Region] = defaultdict(dict)
    for c in sorted(free, key=roles.rank.__getitem__):
        regions[_first(joined, c)][c] = readers[c]
    return list(regions.values())


def _first(joined: dict[int, int], c: int) -> int:
    """The class that stands for all that one is joined with."""
    while joined[c] != c:
        joined[c] = joined[joined[c]]
        c = joined[c]
    return c


def _in_order(region: Region, roles: Roles, values: Values) -> list[tuple[int, int]]:
    """The classes of a region as the program comes to them, operands first; each with the bytes of
    an element of all that is read after it."""
    named: dict[int, int] = {}
    for i, c in sorted(roles.classes.of.items()):
        named.setdefault(c, i)
    operands: dict[int, list[int]] = {c: [] for c in region}
    for c, readers in region.items():
        for u in readers:
            operands[u].append(c)
    order: dict[int, None] = {}
    for c in sorted((c for c in region if c in named), key=named.__getitem__):
        _visit(c, operands, order)
    for c in region:
        _visit(c, operands, order)
    size = {c: values.dtype[c].itemsize for c in region}
    left = {c: len(readers) for c, readers in region.items()}  # readers that are still to come
    out, waiting = [], 0
    for c in order:
        waiting += size[c] if left[c] else 0
        for a in operands[c]:
            left[a] -= 1
            waiting -= 0 if left[a] else size[a]
        out.append((c, waiting))
    return out


def _visit(c: int, operands: dict[int, list[int]], order: dict[int, None]) -> None:
    """Add a class to an order, after its operands."""
    todo = [c]
    while todo:
        c = todo[-1]
        missing = [a for a in operands[c] if a not in order]
        if missing and c not in order:
            todo += missing
        else:
            order[todo.pop()] = None


def _pieces(order: list[tuple[int, int]], most: int) -> list[list[int]]:
    """Parts of an order, of so many classes at most. In the later half of what it may be a part
    ends where least waits to be read, and of such places at the last."""
    out: list[list[int]] = []
    start = 0
    while start < len(order):
        end = len(order)
        if end - start > most:
            end = 1 + min(range(start + most // 2, start + most), key=lambda i: (order[i][1], -i))
        out.append([c for c, _ in order[start:end]])
        start = end
    return out
