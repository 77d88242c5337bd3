"""Which kernels to run so that all that is read or wanted is written, in numbers alone."""

from __future__ import annotations


class Covering:
    """Kernels read keys and write keys, by number; a value that is given is no key.

    cost: what a kernel counts. wanted: keys that must be written. rank: of keys; a kernel reads
    only what stands below all that it writes. groups: keys that are one value in several forms.
    sizes: how much a kernel evaluates.
    """

    def __init__(self, reads: list[tuple[int, ...]], writes: list[tuple[int, ...]],
                 cost: list[float], wanted: list[int], rank: list[int], groups: list[int],
                 sizes: list[int]) -> None:
        self.reads, self.writes, self.cost = reads, writes, cost
        self.wanted, self.rank, self.groups, self.sizes = wanted, rank, groups, sizes
        self.writers: list[list[int]] = [[] for _ in rank]
        for i, ws in enumerate(writes):
            for w in ws:
                self.writers[w].append(i)

    def total(self, used: list[int]) -> float:
        """Seconds that a choice of kernels counts."""
        return sum(self.cost[k] for k in used)

    def writer_of(self, used: list[int]) -> dict[int, int]:
        """Which of the chosen kernels writes each key."""
        writer: dict[int, int] = {}
        for k in sorted(used, key=lambda k: (-len(self.writes[k]), self.cost[k], k)):
            for w in self.writes[k]:
                writer.setdefault(w, k)
        return writer

    def needed(self, used: list[int]) -> list[int]:
        """The chosen kernels that something needs, in an order that can run.

        Operands first, and depth first, so that a value is read soon after it is written.
        """
        writer = self.writer_of(used)
        order: dict[int, None] = {}
        for root in self.wanted:
            stack = [(writer[root], iter(self.reads[writer[root]]))]
            while stack:
                k, rest = stack[-1]
                below = next((writer[r] for r in rest if writer[r] not in order), None)
                if below is None:
                    order.setdefault(k)
                    stack.pop()
                else:
                    stack.append((below, iter(self.reads[below])))
        return list(order)

    def covers(self, used: list[int]) -> bool:
        """Whether every key that is read or wanted is written."""
        written = {w for k in used for w in self.writes[k]}
        return written.issuperset(self.wanted) and all(
            written.issuperset(self.reads[k]) for k in used)
