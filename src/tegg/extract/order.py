"""One topological order of the classes; e-nodes that go against it are dropped.

Every candidate kernel reads classes that come before all those that it writes. So no choice of
kernels can wait for itself, and the program that is solved needs no constraints about time.
"""

from __future__ import annotations

from tegg.extract.prune import Nodes, derivations


def ordered(nodes: Nodes) -> tuple[Nodes, dict[int, int]]:
    """The e-nodes whose operands come before their class, and the place of each class.

    Classes in no cycle stand by their longest path from the sources. In a cycle (a permutation
    and its inverse, a double negation) they stand by their shortest derivation, so that each
    class keeps an e-node.
    """
    operands = {c: list({a for n in ns for a in n.args}) for c, ns in nodes.items()}
    depth = derivations(nodes)
    level: dict[int, int] = {}
    for inside in _components(operands):
        below = [level[a] for c in inside for a in operands[c] if a in level]
        base = 1 + max(below, default=-1)
        for i, c in enumerate(sorted(inside, key=lambda c: (depth[c], c))):
            level[c] = base + i
    rank = {c: i for i, c in enumerate(sorted(nodes, key=lambda c: (level[c], c)))}
    kept: Nodes = {}
    for c, own in rank.items():
        ns = nodes[c]
        after = {a for a in operands[c] if rank[a] >= own}
        kept[c] = [n for n in ns if after.isdisjoint(n.args)] if after else list(ns)
    return kept, rank


def _components(operands: dict[int, list[int]]) -> list[list[int]]:
    """Strongly connected components, operands first (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    closed: set[int] = set()
    found: list[list[int]] = []
    stack: list[int] = []
    place: dict[int, int] = {}  # where in the stack
    for start, first in operands.items():
        if start in index:
            continue
        index[start] = low[start] = len(index)
        place[start] = len(stack)
        stack.append(start)
        walk = [(start, iter(first))]
        while walk:
            c, rest = walk[-1]
            for a in rest:
                if a not in index:
                    index[a] = low[a] = len(index)
                    place[a] = len(stack)
                    stack.append(a)
                    walk.append((a, iter(operands[a])))
                    break
                if a not in closed and index[a] < low[c]:
                    low[c] = index[a]
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[c])
                if low[c] == index[c]:
                    found.append(stack[place[c]:])
                    del stack[place[c]:]
                    closed.update(found[-1])
    return found
