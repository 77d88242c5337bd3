"""Cumulative ops as loops: a value carried along the innermost axis, with what is made of it.

A long row that nothing else can share among threads goes in two passes: the totals of fixed blocks,
what stands before each of them, and the blocks again from there. The blocks are the same for any
number of threads, and so are the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tegg.dim import Dim, hint, product
from tegg.ir.graph import Node
from tegg.kernel.domain import Write
from tegg.kernel.index import ZERO, Form, Guard, Var
from tegg.kernel.propagate import Index, Propagation, identity, widened
from tegg.kernel.value import Kind, Val

KINDS: dict[str, Kind] = {"CumSum": "sum", "CumProd": "prod", "CumMax": "max",
                          "LogCumSumExp": "logadd"}
Target = tuple[int, Node]  # a slot, and what is written there


def followers(node: Node, outputs: Sequence[Node], stored: Callable[[Node], bool]) -> list[Node]:
    """The outputs that are elementwise of a scan at its own index, and so stand in its nest."""
    return [o for o in outputs if not stored(o) and _follows(o, node, stored)]


def _follows(root: Node, node: Node, stored: Callable[[Node], bool]) -> bool:
    """Whether every way from a root down to a scan is elementwise, and no other scan is below."""
    found, todo, seen = False, [(root, True)], set()
    while todo:
        n, pointwise = todo.pop()
        if (n.id, pointwise) in seen:
            continue
        seen.add((n.id, pointwise))
        if n is node:
            if not pointwise:
                return False
            found = True
        elif stored(n):
            continue
        elif n.op.kind == "scan" or n.op.staged:
            return False
        else:
            here = pointwise and n.op.kind == "elementwise"
            todo += [(a, here) for a in n.args]
    return found


def scan_writes(p: Propagation, node: Node, targets: Sequence[Target]) -> list[Write]:
    """The stores of a scan and its followers: other axes outside, the scanned one innermost."""
    axis, shape, kind = node.attrs[0], p.shape(node), KINDS[node.op.name]
    if 0 in shape:
        return []
    outer, before = p.bind(shape[:axis], ())
    inner, after = p.bind(shape[axis + 1:], outer)
    along, (at,) = p.bind((shape[axis],), outer + inner)
    index = (*before, at, *after)
    form = p.algebra.flatten(index, shape)
    term = p.widened(p.at(node.args[0], index), kind)
    if not along:  # one element: nothing is carried
        value = term
    else:
        value = p.values.scan(kind, along, form, term)
    p.scanned[node.id, index] = p.narrowed(value, node.dtype)
    vars = outer + inner + along
    return [Write(slot, vars, form, p.at(o, index), ordered=along) for slot, o in targets]


# ---- one long row
BLOCK = 1 << 12    # elements that are one piece of work
_LONG = 1 << 15    # below, a second pass costs more than threads give
_SHARED = 16       # rows from which threads share rows


def blocked(node: Node, shape: Sequence[Dim]) -> bool:
    """Whether a scan goes in blocks: a known long axis, contiguous, in few rows."""
    axis = node.attrs[0]
    n = shape[axis]
    return (isinstance(n, int) and n >= _LONG and all(d == 1 for d in shape[axis + 1:])
            and hint(product(tuple(shape[:axis]))) < _SHARED)


class Blocks:
    """The writes of the three stages of a scan in blocks."""

    def __init__(self, node: Node, shape: Sequence[Dim], doubles: bool = True) -> None:
        self.node, self.shape, self.axis = node, tuple(shape), node.attrs[0]
        n = shape[self.axis]
        assert isinstance(n, int)
        self.size, self.count = n, -(-n // BLOCK)
        self.lead = self.shape[:self.axis]
        self.kind = KINDS[node.op.name]
        self.dtype = widened(node.dtype, self.kind, doubles)  # of totals

    def _place(self, p: Propagation) -> tuple[tuple[Var, ...], Index, tuple[Var, ...], Form]:
        """Variables of rows and blocks, and their index forms."""
        outer, before = p.bind(self.lead, ())
        block, (b,) = p.bind((self.count,), outer)
        return outer, before, block, b

    def _index(self, before: Index, b: Form, j: Form) -> Index:
        return (*before, b * BLOCK + j, *(ZERO for _ in self.shape[self.axis + 1:]))

    def totals(self, p: Propagation, slot: int) -> list[Write]:
        """The total of each block; the last one may read less, and nobody asks for it."""
        outer, before, block, b = self._place(p)
        inside, (j,) = p.bind((BLOCK,), outer + block)
        term = p.widened(p.at(self.node.args[0], self._index(before, b, j)), self.kind)
        total = p.values.reduce(self.kind, inside, term, term.dtype)
        form = p.algebra.flatten((*before, b), (*self.lead, self.count))
        return [Write(slot, outer + block, form, total)]

    def starts(self, p: Propagation, totals: int, slot: int) -> list[Write]:
        """What stands before each block, itself included: a scan of the totals."""
        outer, before, block, b = self._place(p)
        form = p.algebra.flatten((*before, b), (*self.lead, self.count))
        total = p.values.load(totals, self.dtype, form)
        value = p.values.scan(self.kind, block, form, total)
        return [Write(slot, outer + block, form, value, ordered=block)]

    def _start(self, p: Propagation, starts: int, before: Index, b: Form) -> Val:
        """What a block starts from: the identity in the first one."""
        dtype, first = self.dtype, (Guard(b, 1, self.count - 1),)
        form = p.algebra.flatten((*before, b - 1), (*self.lead, self.count))
        return p.values.make("Select", (
            p.values.cond(first), p.values.load(starts, dtype, form, first),
            p.values.const(identity(self.kind, dtype), dtype)), dtype)

    def writes(self, p: Propagation, starts: int, targets: Sequence[Target]) -> list[Write]:
        """The blocks again, each from what stands before it."""
        outer, before, block, b = self._place(p)
        inside, (j,) = p.bind((BLOCK,), outer + block)
        index = self._index(before, b, j)
        form = p.algebra.flatten(index, self.shape)
        term = p.widened(p.at(self.node.args[0], index), self.kind)
        value = p.values.scan(self.kind, inside, form, term, self._start(p, starts, before, b))
        p.scanned[self.node.id, index] = p.narrowed(value, self.node.dtype)
        guards = () if self.size % BLOCK == 0 else (
            Guard(b * BLOCK + j, 0, self.size - 1),)
        return [Write(slot, outer + block + inside, form, p.at(o, index), guards, ordered=inside)
                for slot, o in targets]
