"""einsum: any equation over any number of operands, as contractions of two at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import TYPE_CHECKING

from tegg.contraction import Spec
from tegg.dim import Dim, hint
from tegg.dtype import bool_, f32
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.diagonals import diagonal_of
from tegg.ops.linalg import contraction
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, operands, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor

Labels = tuple[str, ...]  # per axis a letter, or "...k": the k-th from the end of "..."


@dataclass(frozen=True, slots=True)
class _Term:
    """An operand, with one label for each axis; no label twice, no axis of size 1."""

    node: Node
    labels: Labels


@public(method=False)
def einsum(equation: str, *tensors: Operand) -> Tensor:
    """The sum of products that an equation says, as NumPy's and PyTorch's: ``"bij,bjk->bik"``.

    Each operand has a letter for each axis; ``...`` stands for axes that broadcast. A letter twice
    in an operand takes the diagonal; letters that the result lacks are summed. Without ``->`` the
    result has the letters that stand once, in alphabetical order, after those of ``...``. Sizes of
    a letter are equal, or 1. Several operands are multiplied two at a time, those first whose
    product is smallest beside them. Any numbers; integers wrap, halves are computed in float32.
    Sizes may be symbolic. Raises ArgumentError for an equation that is none, ShapeError for
    operands that do not fit it.

    >>> tegg.einsum("bhqd,bhkd->bhqk", q, k)   # (2, 4, 9, 8), (2, 4, 7, 8)
    Tensor((2, 4, 9, 7), f32, ...)
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if not isinstance(equation, str) or not given:
        fail(ArgumentError, f"einsum: takes an equation and operands, not {equation!r} and "
                            f"{len(given)} operands")
    graph, nodes = operands("einsum", *given)
    inputs, out = _parsed(equation, nodes)
    dtype = nodes[0].dtype
    if dtype is bool_ and len(nodes) > 1:
        fail(DTypeError, "einsum: needs numbers, not bool; write x.cast('f32')")
    if dtype.is_float and dtype.itemsize == 2:
        nodes = tuple(graph.cast(n, f32) for n in nodes)
    sizes = _sizes(graph, equation, nodes, inputs)
    terms = [_simple(graph, n, labels) for n, labels in zip(nodes, inputs)]
    return wrap(graph, graph.cast(_multiplied(graph, terms, out, sizes), dtype))


# ---- the equation
def _parsed(equation: str, nodes: Sequence[Node]) -> tuple[list[Labels], Labels]:
    """Labels of the operands and of the result."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(nodes):
        fail(ArgumentError, f"einsum: {equation!r} has {len(parts)} operands, {len(nodes)} are "
                            f"given")
    inputs = [_labels(equation, p, len(n.shape)) for p, n in zip(parts, nodes)]
    every = [c for labels in inputs for c in labels]
    dots = sorted({c for c in every if c not in ascii_letters}, key=lambda c: -int(c[3:]))
    if not arrow:
        once = sorted({c for c in every if c in ascii_letters and every.count(c) == 1})
        return inputs, (*dots, *once)
    out = _labels(equation, right, len(dots) + len(right.replace("...", "")))
    wrong = [c for c in out if c not in every or out.count(c) > 1]
    if wrong:
        fail(ArgumentError, f"einsum: {wrong[0]!r} of the result of {equation!r} stands "
                            f"{'twice' if wrong[0] in every else 'in no operand'}")
    return inputs, out


def _labels(equation: str, part: str, rank: int) -> Labels:
    before, dots, after = part.partition("...")
    letters = before + after
    if not all(c in ascii_letters for c in letters):
        fail(ArgumentError, f"einsum: {equation!r} is no equation; letters, ',', '...' and '->' "
                            f"make one")
    extra = rank - len(letters)
    if extra < 0 or (extra and not dots):
        fail(ShapeError, f"einsum: {part!r} of {equation!r} does not name the {rank} axes of its "
                         f"operand")
    return (*before, *(f"...{extra - 1 - i}" for i in range(extra)), *after)


def _sizes(graph: Graph, equation: str, nodes: Sequence[Node], inputs: Sequence[Labels],
           ) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for node, labels in zip(nodes, inputs):
        twice = dict(zip(labels, node.shape))
        for c, n in zip(labels, node.shape):
            if graph.facts.canonical(twice[c]) != graph.facts.canonical(n):
                fail(ShapeError, f"einsum: {c!r} of {equation!r} names axes of {n} and {twice[c]} "
                                 f"of {show(node.shape)}")
            known = sizes.setdefault(c, n)
            if known == 1:
                sizes[c] = n
            elif n != 1 and graph.facts.canonical(known) != graph.facts.canonical(n):
                fail(ShapeError, f"einsum: {c!r} of {equation!r} is {known} and {n}; operands "
                                 f"{', '.join(show(v.shape) for v in nodes)}")
    return sizes


def _simple(graph: Graph, node: Node, labels: Labels) -> _Term:
    """Axes of size 1 dropped, and diagonals taken of labels that stand twice."""
    kept = [i for i, n in enumerate(node.shape) if n != 1]
    node, names = graph.reshape(node, tuple(node.shape[i] for i in kept)), [labels[i] for i in kept]
    while len(set(names)) < len(names):
        i = next(i for i, c in enumerate(names) if c in names[i + 1:])
        j = names.index(names[i], i + 1)
        node = diagonal_of("einsum", graph, node, i, j, 0)
        names = [c for k, c in enumerate(names) if k not in (i, j)] + [names[i]]
    return _Term(node, tuple(names))


# ---- the products
def _multiplied(graph: Graph, terms: list[_Term], out: Labels, sizes: dict[str, Dim]) -> Node:
    terms = [_summed(graph, t, {c for o in terms if o is not t for c in o.labels} | set(out))
             for t in terms]
    while len(terms) > 1:
        i, j = _cheapest(terms, out, sizes)
        a, b = terms[i], terms[j]
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        terms = [*rest, _product(graph, a, b, {c for t in rest for c in t.labels} | set(out))]
    last = _summed(graph, terms[0], set(out))
    order = [c for c in out if c in last.labels]
    node = graph.permute(last.node, tuple(last.labels.index(c) for c in order))
    node = graph.reshape(node, tuple(sizes[c] if c in order else 1 for c in out))
    return graph.expand(node, tuple(sizes[c] for c in out))


def _summed(graph: Graph, t: _Term, wanted: set[str]) -> _Term:
    """Labels that nobody else has are summed at once."""
    node = t.node
    for i, c in enumerate(t.labels):
        if c not in wanted:
            node = graph.op("SumReduce", node, i)
    kept = tuple(c for c in t.labels if c in wanted)
    shape = tuple(n for n, c in zip(node.shape, t.labels) if c in wanted)
    return _Term(graph.reshape(node, shape), kept)


def _cheapest(terms: Sequence[_Term], out: Labels, sizes: dict[str, Dim]) -> tuple[int, int]:
    """The pair whose product is smallest beside its operands; then the one with least work."""
    def count(labels: set[str]) -> int:
        total = 1
        for c in labels:
            total *= hint(sizes[c])
        return total

    def cost(i: int, j: int) -> tuple[int, int]:
        a, b = set(terms[i].labels), set(terms[j].labels)
        rest = {c for k, t in enumerate(terms) if k not in (i, j) for c in t.labels} | set(out)
        return count((a | b) & rest) - count(a) - count(b), count(a | b)

    pairs = [(i, j) for i in range(len(terms)) for j in range(i + 1, len(terms))]
    return min(pairs, key=lambda p: cost(*p))


def _product(graph: Graph, a: _Term, b: _Term, wanted: set[str]) -> _Term:
    """The product of two, summed over what only they have."""
    every = list(dict.fromkeys((*a.labels, *b.labels)))
    letter = dict(zip(every, ascii_letters))
    kept = [c for c in every if c in wanted]
    batch = [c for c in kept if c in a.labels and c in b.labels]
    labels = tuple(batch + [c for c in kept if c not in batch])
    size = dict(zip(a.labels, a.node.shape)) | dict(zip(b.labels, b.node.shape))
    spec = Spec(*(tuple(letter[c] for c in part) for part in (a.labels, b.labels, labels)))
    shape = tuple(size[c] for c in labels)
    return _Term(contraction(graph, "einsum", a.node, b.node, spec, shape), labels)
