"""Copies between two memories, as a plan sees them: calls on the two sides of one buffer.

An argument, an output and a state have one buffer each, wherever they lie; on a device whose memory
is its own such a buffer has a side on the host and one there. A copy in a cover is a call that
brings one side to the other, so every other kernel is planned as if there were none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tegg.ir.classes import EClasses, ENode, KernelSpec


@dataclass(frozen=True, slots=True)
class Carried:
    """The kernels of a cover that compute, and the copies among them. home: a class that a copy
    writes -> the class that it reads."""

    kernels: tuple[KernelSpec, ...]
    copies: tuple[KernelSpec, ...]
    home: dict[int, int]

    @staticmethod
    def of(specs: Sequence[KernelSpec]) -> Carried:
        """The kernels of a cover, sorted."""
        copies = tuple(s for s in specs if any(n.op.kind == "copy" for n in s.body.values()))
        return Carried(tuple(s for s in specs if s not in copies), copies,
                       {s.outs[0]: s.leaves[0] for s in copies})

    def seen(self, c: int) -> int:
        """A class, copies seen through."""
        while c in self.home:
            c = self.home[c]
        return c

    def through(self, classes: EClasses) -> EClasses:
        """The classes where both sides of a copy are one."""
        return replace(classes, of={n: self.seen(c) for n, c in classes.of.items()})

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """A kernel on what copies leave."""
        if not self.home:
            return spec
        body = {self.seen(c): ENode(n.op, tuple(map(self.seen, n.args)), n.attrs)
                for c, n in spec.body.items()}
        return replace(spec, outs=tuple(map(self.seen, spec.outs)), body=body,
                       leaves=tuple(map(self.seen, spec.leaves)),
                       anchor=None if spec.anchor is None else self.seen(spec.anchor))

    def inward(self, classes: EClasses) -> Iterator[tuple[KernelSpec, int]]:
        """Copies of arguments, each with the class of the argument."""
        for s in self.copies:
            if any(n.op.name == "Input" for n in classes.nodes[s.leaves[0]]):
                yield s, s.leaves[0]

    def outward(self, classes: EClasses) -> Iterator[tuple[KernelSpec, str, int]]:
        """Copies of results, each with the buffer that it brings back: ``output`` and its number,
        or ``input`` and the slot of the state."""
        made = {s.outs[0]: s for s in self.copies}
        for number, root in enumerate(classes.outputs.values()):
            if root in made:
                yield made[root], "output", number
        for slot, root in classes.updates.items():
            if root in made:
                yield made[root], "input", slot
