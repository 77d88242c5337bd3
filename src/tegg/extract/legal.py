"""Which bodies are one kernel: one template or one row space, and no reduction above a product."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tegg.ir.classes import EClasses, ENode
from tegg.contraction import Spec
from tegg.dim import Dim, Shape, hint, product
from tegg.extract.limits import Limits
from tegg.ir.op import PRODUCTS
from tegg.ir.demand import axis_of
from tegg.ir.work import WorkModel

Space = tuple
ONE_TO_ONE = ("Permute", "Reshape", "Flip")  # movement that reads each element, and reads it once


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
        rows, anchors, heads, scans = [], [], [], []
        for c, n in body.items():
            kind = n.op.kind
            if kind == "contract":
                anchors.append(c)
            elif kind == "attention":
                heads.append(c)
            elif kind == "reduce" or (kind == "composite" and self.reduces(c, n)):
                rows.append(c)
            elif kind == "scan":
                scans.append(c)
            elif kind == "copy" and len(body) > 1 or n.op.staged and c != root:
                return False
        if scans:
            return (not (rows or anchors or heads or body[root].op.staged)
                    and self._one_scan(scans, body))
        if not anchors and not rows and not heads:
            return True
        if anchors and body[anchors[0]].op.staged:
            return not rows and not heads and self._alone(anchors, body)
        if body[root].op.staged:
            return False
        if heads:
            return not rows and self._one_attention(heads, anchors, body)
        if anchors and not (self._one_template(root, anchors, body)
                            and self._packed_rows(anchors[0], rows, body)):
            return False
        return len(rows) < 2 or self._one_space(rows, body)

    def _one_template(self, root: int, anchors: list[int], body: Mapping[int, ENode]) -> bool:
        """Contractions of one operand over one space, whose sums the root reads at one index.

        What is computed from a sum stands in the template's epilogue: elementwise, and moved one
        to one.
        """
        first = body[anchors[0]]
        if len(anchors) > (1 if first.op.alone else self.limits.siblings) or any(
                body[c].args[0] != first.args[0] or body[c].op is not first.op
                or body[c].attrs != first.attrs for c in anchors):
            return False
        return self._moved(anchors, body) is not None

    def _alone(self, anchors: list[int], body: Mapping[int, ENode]) -> bool:
        """One product that is made by a function on arrays in memory: beside it there is movement,
        and casts, which such functions do on the way."""
        return (len(anchors) == 1 and self._moved(anchors, body) is not None
                and all(n.op.kind == "movement" or n.op.name in ("Cast", "Held")
                        for c, n in body.items() if c != anchors[0]))

    def _one_attention(self, heads: list[int], anchors: list[int],
                       body: Mapping[int, ENode]) -> bool:
        """Scores from one product, at one index, which nobody else reads; no sums of others."""
        if len(heads) > 1 or len(anchors) != 1:
            return False
        scores, values = body[heads[0]].args
        under = below(scores, body)
        inside = {c: n for c, n in body.items() if c in under}
        if (anchors[0] not in inside or anchors[0] in below(values, body)
                or body[anchors[0]].op.alone):
            return False
        made = self._moved(anchors, inside)
        return made is not None and self._moved(heads, {
            c: n for c, n in body.items() if c not in inside}, made) is not None

    def _moved(self, anchors: list[int], body: Mapping[int, ENode],
               closed: Mapping[int, object] = MappingProxyType({})) -> dict[int, tuple] | None:
        """How each value that is computed from anchors is moved against them; None where it is
        more than moved one to one. What is ``closed`` only an anchor may read."""
        index: dict[int, tuple] = dict.fromkeys(anchors, ())
        in_order = any(body[c].op.in_order for c in anchors)
        for c, n in body.items():
            if c not in index and any(a in closed for a in n.args):
                return None
            if c in index:
                if any(a in index for a in n.args):
                    return None  # a product of a product
                continue
            seen = {index[a] for a in n.args if a in index}
            if len(seen) > 1:
                return None
            if seen:
                (at,) = seen
                if n.op.kind == "elementwise":
                    index[c] = at
                elif followed(self.classes, c, n, in_order, self.limits):
                    index[c] = (*at, c)
                else:
                    return None
        return index

    def _one_scan(self, scans: list[int], body: Mapping[int, ENode]) -> bool:
        """One scan, and elementwise ops of it at its own index."""
        if len(scans) > 1:
            return False
        above = set(scans)
        for c, n in body.items():
            if not above.isdisjoint(n.args):
                if n.op.kind != "elementwise":
                    return False
                above.add(c)
        return True

    def _packed_rows(self, anchor: int, rows: list[int], body: Mapping[int, ENode]) -> bool:
        """Reductions below a product sum up what the product sums up, a value for each row."""
        if not rows:
            return True
        if not self.limits.prologue_rows:
            return False
        node = body[anchor]
        spec = Spec.parse(node.attrs[0])
        for a, axes in zip(node.args, (spec.x, spec.y)):
            inside = below(a, body)
            mine = [c for c in rows if c in inside]
            rows = [c for c in rows if c not in inside]
            if not mine:
                continue
            summed = [i for i, letter in enumerate(axes) if letter in spec.k and letter]
            if not summed or summed != list(range(summed[0], summed[-1] + 1)):
                return False
            run = _run(self.classes.shape[a], summed[0], summed[-1])
            if any(_run(self.classes.shape[body[c].args[0]], axis_of(body[c])) != run
                   for c in mine) or not self._in_place(a, mine, run, body):
                return False
        return not rows

    def _in_place(self, operand: int, rows: list[int], run: tuple[Dim, Dim],
                  body: Mapping[int, ENode]) -> bool:
        """Whether movement between reductions and an operand leaves what is summed where it is.

        Reshapes keep the order of elements, expansions add axes before it or inside it; a
        permutation must leave it as the last axis.
        """
        above, inside = set(rows), below(operand, body)
        for c, n in body.items():
            if c not in inside or c in rows or above.isdisjoint(n.args):
                continue
            above.add(c)
            if n.op.kind == "elementwise" or n.op.name in ("Expand", "Reshape"):
                continue
            if n.op.name != "Permute" or run[1] != 1 or n.attrs[0][-1] != len(n.attrs[0]) - 1:
                return False
        return True

    def _one_space(self, rows: list[int], body: Mapping[int, ENode]) -> bool:
        """Reductions share a kernel where they close the same axes of the same rows, cut into axes
        alike: of two shapes with as many elements, one would be walked across its rows.

        A reduction whose only readers are reductions of its kind is part of theirs: a sum over
        two axes is one sum.
        """
        readers: dict[int, list[int]] = {}
        for c, n in body.items():
            for a in n.args:
                readers.setdefault(a, []).append(c)
        spaces: list[Space] = []
        for c in rows:
            over = readers.get(c)
            if over and all(body[u].op is body[c].op and body[c].op.kind == "reduce"
                            for u in over):
                continue
            space = self._space(c, body)
            if not all(_alike(space, other) for other in spaces):
                return False
            spaces.append(space)
        return True

    def _space(self, c: int, body: Mapping[int, ENode]) -> Space:
        """Runs of kept and reduced axes of a chain of reductions; of each, how many elements its
        first axis has, its first two, and so on."""
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
            self.spaces[key] = tuple(
                (flag, tuple(product(tuple(ds[:i + 1])) for i in range(len(ds))))
                for flag, ds in runs)
        return self.spaces[key]


def followed(classes: EClasses, c: int, node: ENode, in_order: bool, limits: Limits) -> bool:
    """Whether what a template computes can be stored where an e-node moves it: each element once,
    and another axis last only where the template is not bound to an order, and where it leaves runs
    of some length (``Limits.runs``)."""
    if node.op.name != "Permute":
        return node.op.name in ONE_TO_ONE
    before, after = classes.shape[node.args[0]], classes.shape[c]
    last = max((i for i, d in enumerate(before) if d != 1), default=0)
    now = max((i for i, d in enumerate(after) if d != 1), default=0)
    return (not after or node.attrs[0][now] == last
            or not in_order and hint(after[now]) >= min(limits.runs, hint(before[last])))


def _alike(a: Space, b: Space) -> bool:
    """Whether two spaces differ at most in that axes of one are cut into several in the other."""
    return len(a) == len(b) and all(
        kept == also and one[-1] == other[-1] and (set(one) <= set(other) or set(other) <= set(one))
        for (kept, one), (also, other) in zip(a, b))


def _run(shape: Shape, first: int, last: int | None = None) -> tuple[Dim, Dim]:
    """Elements of an axis (or neighbours), and of the axes after it."""
    first %= len(shape)
    last = first if last is None else last
    return product(shape[first:last + 1]), product(shape[last + 1:])


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
    """The classes that a kernel's templates compute: contractions, or the attention above one."""
    found = {kind: [c for c, n in body.items() if n.op.kind == kind] for kind in PRODUCTS}
    return found["attention"] or found["contract"]
