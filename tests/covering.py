"""Coverings drawn at random: harder to choose from than those of small programs."""

from __future__ import annotations

from random import Random

from tegg.extract.covering import Covering


def covering(rng: Random, keys: int) -> Covering:
    """Every key has a writer that reads its neighbours, and some that compute more at once."""
    base = [rng.uniform(1, 10) for _ in range(keys)]
    below = [sorted(rng.sample(range(k), min(k, rng.randrange(1, 4)))) for k in range(keys)]
    reads, writes, cost, sizes = [], [], [], []
    for k in range(keys):
        for i in range(rng.randrange(2, 6)):
            body, leaves = _cone(rng, k, below, 0 if i == 0 else rng.randrange(1, 6))
            inner = [b for b in sorted(body - {k}) if i and all(a < b for a in leaves)
                     and rng.random() < 0.3]
            outs = (k, *inner[:2])
            reads.append(tuple(sorted(leaves)))
            writes.append(outs)
            cost.append(1e-6 * (1.0 + sum(base[b] for b in body) * rng.uniform(0.7, 1.0)
                                + 0.5 * (len(leaves) + len(outs))))
            sizes.append(len(body))
    wanted = [keys - 1, *([keys // 2] if rng.random() < 0.5 else [])]
    return Covering(reads, writes, cost, wanted, list(range(keys)), list(range(keys)), sizes)


def _cone(rng: Random, k: int, below: list[list[int]], depth: int) -> tuple[set[int], set[int]]:
    body, leaves = {k}, set(below[k])
    for _ in range(depth):
        if leaves:
            taken = rng.choice(sorted(leaves))
            body.add(taken)
            leaves = (leaves | set(below[taken])) - body
    return body, leaves
