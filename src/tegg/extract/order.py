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
    component = _components(nodes)
    members: dict[int, list[int]] = {}
    for c in nodes:
        members.setdefault(component[c], []).append(c)
    depth = derivations(nodes)
    level: dict[int, int] = {}
    for k in sorted(members):  # components are numbered operands first
        inside = members[k]
        base = 1 + max((level[a] for c in inside for n in nodes[c] for a in n.args
                        if component[a] != k), default=-1)
        for i, c in enumerate(sorted(inside, key=lambda c: (depth[c], c))):
            level[c] = base + i
    rank = {c: i for i, c in enumerate(sorted(nodes, key=lambda c: (level[c], c)))}
    kept = {c: [n for n in nodes[c] if all(rank[a] < rank[c] for a in n.args)]
            for c in sorted(nodes, key=rank.__getitem__)}
    return kept, rank


def _components(nodes: Nodes) -> dict[int, int]:
    """Strongly connected components, numbered operands first (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    component: dict[int, int] = {}
    stack: list[int] = []
    count = 0
    for start in nodes:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        walk = [(start, iter([a for n in nodes[start] for a in n.args]))]
        while walk:
            c, rest = walk[-1]
            for a in rest:
                if a not in index:
                    index[a] = low[a] = len(index)
                    stack.append(a)
                    walk.append((a, iter([b for n in nodes[a] for b in n.args])))
                    break
                if a not in component:
                    low[c] = min(low[c], index[a])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[c])
                if low[c] == index[c]:
                    while True:
                        a = stack.pop()
                        component[a] = count
                        if a == c:
                            break
                    count += 1
    return component
