"""Which bodies are one kernel: one template or one row space, and no reduction above a product."""

from __future__ import annotations

from collections.abc import Mapping

from tegg.classes import EClasses, ENode
from tegg.dim import product
from tegg.extract.limits import Limits
from tegg.work import WorkModel, axis_of

Space = tuple


class Legality:
    """Judges bodies (operands before users); what an e-node asks for is worked out once."""

    def __init__(self, classes: EClasses, work: WorkModel, limits: Limits) -> None:
        self.classes, self.work, self.limits = classes, work, limits
        self.rows: dict[str, bool] = {}
        self.spaces: dict[tuple[int, tuple[int, ...]], Space] = {}

    def reduces(self, c: int, node: ENode) -> bool:
        """Whether an e-node works along rows."""
        if node.op.kind == "reduce":
            return True
        if node.op.kind != "composite":
            return False
        name = node.op.name
        if name not in self.rows:
            self.rows[name] = self.work.footprint(c, node).passes > 0
        return self.rows[name]

    def allows(self, root: int, body: Mapping[int, ENode]) -> bool:
        """Whether a cone can be one kernel."""
        rows, products = [], []
        for c, n in body.items():
            kind = n.op.kind
            if kind == "contract":
                products.append(c)
            elif kind == "reduce" or (kind == "composite" and self.reduces(c, n)):
                rows.append(c)
            elif n.op.name == "Scatter" and c != root:
                return False
        if len(products) > 1:
            return False
        if not rows:
            return not products or body[root].op.name != "Scatter"
        if body[root].op.name == "Scatter":
            return False
        if products:
            if not self.limits.prologue_rows:
                return False
            inside = below(products[0], body)
            if any(c not in inside for c in rows):
                return False
        return len(rows) == 1 or self._one_space(rows, body)

    def _one_space(self, rows: list[int], body: Mapping[int, ENode]) -> bool:
        """Reductions share a kernel where they close the same axes of the same rows.

        A reduction whose only readers are reductions of its kind is part of theirs: a sum over
        two axes is one sum.
        """
        readers: dict[int, list[int]] = {}
        for c, n in body.items():
            for a in n.args:
                readers.setdefault(a, []).append(c)
        first: Space | None = None
        for c in rows:
            over = readers.get(c)
            if over and all(body[u].op is body[c].op and body[c].op.kind == "reduce"
                            for u in over):
                continue
            space = self._space(c, body)
            if first is None:
                first = space
            elif space != first:
                return False
        return True

    def _space(self, c: int, body: Mapping[int, ENode]) -> Space:
        """Runs of kept and reduced axes of a chain of reductions, with their sizes."""
        axes = []
        node = body[c]
        while True:
            axes.append(axis_of(node))
            (a, *_) = node.args
            if node.op.kind == "reduce" and a in body and body[a].op is node.op:
                node = body[a]
                continue
            break
        key = (a, tuple(axes))
        if key not in self.spaces:
            shape = self.classes.shape[a]
            reduced = {i % len(shape) for i in axes} if shape else set()
            runs: list[tuple[bool, list]] = []
            for i, d in enumerate(shape):
                if d == 1:
                    continue
                if runs and runs[-1][0] == (i in reduced):
                    runs[-1][1].append(d)
                else:
                    runs.append((i in reduced, [d]))
            self.spaces[key] = tuple((flag, product(tuple(ds))) for flag, ds in runs)
        return self.spaces[key]


def below(c: int, body: Mapping[int, ENode]) -> set[int]:
    """The classes of a body that a class is computed from, itself included."""
    seen: set[int] = set()
    todo = [c]
    while todo:
        i = todo.pop()
        if i in body and i not in seen:
            seen.add(i)
            todo.extend(body[i].args)
    return seen


def products(body: Mapping[int, ENode]) -> list[int]:
    """The classes that contractions compute."""
    return [c for c, n in body.items() if n.op.kind == "contract"]
