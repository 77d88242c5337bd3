"""Cumulative ops as loops: a value carried along the innermost axis, with what is made of it.

A long row that nothing else can share among threads goes in two passes: the totals of fixed blocks,
what stands before each of them, and the blocks again from there. The blocks are the same for any
number of threads, and so are the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

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
        self.whole, self.rest = divmod(n, BLOCK)
        self.totalled = self.whole - (self.rest == 0)  # blocks that another one comes after
        self.lead = self.shape[:self.axis]
        self.kind = KINDS[node.op.name]
        self.dtype = widened(node.dtype, self.kind, doubles)  # of totals

    @property
    def size(self) -> Dim:
        """Elements of the totals, and of what stands before blocks."""
        return product(self.lead) * self.totalled

    def _index(self, before: Index, b: Form, j: Form) -> Index:
        return (*before, b * BLOCK + j, *(ZERO for _ in self.shape[self.axis + 1:]))

    def _total(self, p: Propagation, before: Index, b: Form) -> Form:
        """Where the total of a block lies."""
        return p.algebra.flatten((*before, b), (*self.lead, self.totalled))

    def totals(self, p: Propagation, slot: int) -> list[Write]:
        """The total of each block that another one comes after."""
        outer, before = p.bind(self.lead, ())
        block, (b,) = p.bind((self.totalled,), outer)
        inside, (j,) = p.bind((BLOCK,), outer + block)
        term = p.widened(p.at(self.node.args[0], self._index(before, b, j)), self.kind)
        total = p.values.reduce(self.kind, inside, term, term.dtype)
        return [Write(slot, outer + block, self._total(p, before, b), total)]

    def starts(self, p: Propagation, totals: int, slot: int) -> list[Write]:
        """What stands before the block after each, itself included: a scan of the totals."""
        outer, before = p.bind(self.lead, ())
        block, (b,) = p.bind((self.totalled,), outer)
        form = self._total(p, before, b)
        total = p.values.load(totals, self.dtype, form)
        value = p.values.scan(self.kind, block, form, total)
        return [Write(slot, outer + block, form, value, ordered=block)]

    def _start(self, p: Propagation, starts: int, before: Index, b: Form) -> Val:
        """What a block starts from: the identity in the first one."""
        dtype, first = self.dtype, (Guard(b, 1, self.totalled),)
        form = self._total(p, before, b - 1)
        return p.values.make("Select", (
            p.values.cond(first), p.values.load(starts, dtype, form, first),
            p.values.const(identity(self.kind, dtype), dtype)), dtype)

    def writes(self, p: Propagation, starts: int, targets: Sequence[Target]) -> list[Write]:
        """The blocks again, each from what stands before it: whole ones, and what is left."""
        outer, before = p.bind(self.lead, ())
        block, (b,) = p.bind((self.whole,), outer)
        out = self._block(p, starts, targets, (outer, before), block, b, BLOCK)
        if self.rest:
            last = self._block(p, starts, targets, (outer, before), block, ZERO + self.whole,
                               self.rest)
            out += [replace(w, vars=tuple(v for v in w.vars if v not in block)) for w in last]
        return out

    def _block(self, p: Propagation, starts: int, targets: Sequence[Target],
               rows: tuple[tuple[Var, ...], Index], block: tuple[Var, ...], b: Form,
               length: int) -> list[Write]:
        """``length`` elements of each block b."""
        outer, before = rows
        inside, (j,) = p.bind((length,), outer + block)
        index = self._index(before, b, j)
        form = p.algebra.flatten(index, self.shape)
        term = p.widened(p.at(self.node.args[0], index), self.kind)
        value = p.values.scan(self.kind, inside, form, term, self._start(p, starts, before, b))
        p.scanned[self.node.id, index] = p.narrowed(value, self.node.dtype)
        return [Write(slot, outer + block + inside, form, p.at(o, index), ordered=inside)
                for slot, o in targets]
