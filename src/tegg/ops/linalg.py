"""Products: matmul of any rank and its kin. Each is one contraction, recorded by its expansion."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

from tegg.contraction import Spec
from tegg.dim import Dim, Shape
from tegg.dtype import DType, f32
from tegg.errors import DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, operands, wrap
from tegg.shape import broadcast, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


@public()
def matmul(x: Operand, y: Operand) -> Tensor:
    """x @ y as in NumPy: (..., m, k) @ (..., k, n), the leading axes broadcast; a 1-D operand is a
    row before (x) or a column after (y), and its axis is dropped from the result.

    Integers stay in their dtype and wrap; halves accumulate in float32 and round once. Raises
    ShapeError where the inner sizes differ, naming both shapes, and for rank 0.
    """
    graph, (a, b) = operands("matmul", x, y)
    if not a.shape or not b.shape:
        fail(ShapeError, f"matmul: {show(a.shape)} @ {show(b.shape)} needs at least one axis each; "
                         f"use *")
    inner = b.shape[-2] if len(b.shape) > 1 else b.shape[0]
    if graph.facts.canonical(a.shape[-1]) != graph.facts.canonical(inner):
        fail(ShapeError, f"matmul: {show(a.shape)} @ {show(b.shape)}: the inner sizes "
                         f"{a.shape[-1]} and {inner} differ")
    m, n = len(a.shape) > 1, len(b.shape) > 1
    lead = _broadcast(graph, a.shape[:-2], b.shape[:-2])
    letters = ascii_lowercase[:len(lead)]
    spec = Spec((*_leading(a.shape[:-2], lead, letters), *("x" if m else ""), "z"),
                (*_leading(b.shape[:-2], lead, letters), "z", *("y" if n else "")),
                (*(c if d != 1 else "" for c, d in zip(letters, lead)),
                 *("x" if m else ""), *("y" if n else "")))
    shape = (*lead, *(a.shape[-2:-1] if m else ()), *(b.shape[-1:] if n else ()))
    return wrap(graph, contraction(graph, "matmul", a, b, spec, shape))


def _broadcast(graph: Graph, a: Shape, b: Shape) -> Shape:
    try:
        return broadcast([a, b], graph.facts)
    except ShapeError as e:
        fail(ShapeError, f"matmul: leading {e}")


def _leading(shape: Shape, lead: Shape, letters: str) -> tuple[str, ...]:
    """A letter for each leading axis; none for one of size 1."""
    return tuple("" if n == 1 else c
                 for n, c in zip(shape, letters[len(lead) - len(shape):]))


def contraction(graph: Graph, op: str, a: Node, b: Node, spec: Spec, shape: tuple[Dim, ...],
                dtype: DType | None = None) -> Node:
    """The sum of products that ``spec`` says, as the expansion of the row ``Contract``; halves are
    multiplied as float32. The result is in ``dtype``, or in that of the first operand."""
    if a.dtype.kind == "bool":
        fail(DTypeError, f"{op}: needs numbers, not bool; write x.cast('f32')")
    x, y = (graph.cast(n, f32) if n.dtype.is_float and n.dtype.itemsize == 2 else n
            for n in (a, b))
    return graph.cast(graph.expansion("Contract", x, y, str(spec), shape), dtype or a.dtype)


@public(keywords={"tensor": "y"})
def dot(x: Operand, y: Operand) -> Tensor:
    """The inner product of two 1-D tensors."""
    _, (a, b) = operands("dot", x, y)
    if len(a.shape) != 1 or len(b.shape) != 1:
        fail(ShapeError, f"dot: takes two 1-D tensors, not {show(a.shape)} and {show(b.shape)}")
    return matmul(x, y)


def _ranked(op: str, x: Operand, y: Operand, *ranks: int) -> Tensor:
    """matmul of operands of given ranks."""
    _, nodes = operands(op, x, y)
    if tuple(len(n.shape) for n in nodes) != ranks:
        fail(ShapeError, f"{op}: takes {ranks[0]} and {ranks[1]} axes, not {show(nodes[0].shape)} "
                         f"and {show(nodes[1].shape)}")
    if len(set(ranks)) == 1 == len({n.shape[:-2] for n in nodes}) - 1:
        fail(ShapeError, f"{op}: the batches of {show(nodes[0].shape)} and {show(nodes[1].shape)} "
                         f"differ")
    return matmul(x, y)


@public(keywords={"mat2": "y"})
def mm(x: Operand, y: Operand) -> Tensor:
    """(m, k) @ (k, n)."""
    return _ranked("mm", x, y, 2, 2)


@public(keywords={"mat2": "y"})
def bmm(x: Operand, y: Operand) -> Tensor:
    """(b, m, k) @ (b, k, n); nothing broadcasts."""
    return _ranked("bmm", x, y, 3, 3)


@public(keywords={"vec": "y"})
def mv(x: Operand, y: Operand) -> Tensor:
    """(m, k) @ (k,)."""
    return _ranked("mv", x, y, 2, 1)


@public(keywords={"vec2": "y"})
def outer(x: Operand, y: Operand) -> Tensor:
    """The products of the elements of two 1-D tensors: (m,), (n,) -> (m, n)."""
    graph, (a, b) = operands("outer", x, y)
    if len(a.shape) != 1 or len(b.shape) != 1:
        fail(ShapeError, f"outer: takes two 1-D tensors, not {show(a.shape)} and {show(b.shape)}")
    return wrap(graph, graph.broadcast("Mul", graph.reshape(a, (*a.shape, 1)), b))


@public(keywords={"mat1": "a", "mat2": "b"})
def addmm(x: Operand, a: Operand, b: Operand, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha a @ b: x broadcasts to (m, n). Where beta is 0, x is left out."""
    return _added("addmm", x, mm(a, b), beta, alpha)


@public(keywords={"batch1": "a", "batch2": "b"})
def baddbmm(x: Operand, a: Operand, b: Operand, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha bmm(a, b): x broadcasts to (b, m, n). Where beta is 0, x is left out."""
    return _added("baddbmm", x, bmm(a, b), beta, alpha)


def _added(op: str, x: Operand, product: Tensor, beta: float, alpha: float) -> Tensor:
    graph, (a, p) = operands(op, x, product)
    scaled = graph.mul(p, alpha) if alpha != 1 else p
    out = scaled if beta == 0 else graph.add(graph.mul(a, beta) if beta != 1 else a, scaled)
    if tuple(map(graph.facts.canonical, out.shape)) != tuple(map(graph.facts.canonical, p.shape)):
        fail(ShapeError, f"{op}: {show(a.shape)} does not broadcast to {show(p.shape)}")
    return wrap(graph, out)


@public(method=False)
def linear(x: Operand, weight: Operand, bias: Operand | None = None) -> Tensor:
    """x weight^T + bias: (..., k), (n, k), (n,) -> (..., n), as in PyTorch.

    Raises ShapeError where k or n do not agree.
    """
    graph, (a, w) = operands("linear", x, weight)
    if not a.shape or len(w.shape) != 2:
        fail(ShapeError, f"linear: takes (..., k) and (n, k), not {show(a.shape)} and "
                         f"{show(w.shape)}")
    if graph.facts.canonical(a.shape[-1]) != graph.facts.canonical(w.shape[1]):
        fail(ShapeError, f"linear: {show(a.shape)} and weight {show(w.shape)}: the inner sizes "
                         f"{a.shape[-1]} and {w.shape[1]} differ")
    letters = ascii_lowercase[:len(a.shape) - 1]
    spec = Spec((*letters, "z"), ("y", "z"), (*letters, "y"))
    shape = (*a.shape[:-1], w.shape[0])
    out = contraction(graph, "linear", a, w, spec, shape)
    return wrap(graph, out) if bias is None else _biased(graph, out, bias, w.shape[0])


def _biased(graph: Graph, out: Node, bias: Operand, n: Dim) -> Tensor:
    _, (total, b) = operands("linear", wrap(graph, out), bias)
    if tuple(map(graph.facts.canonical, b.shape)) != (graph.facts.canonical(n),):
        fail(ShapeError, f"linear: the bias has shape {show(b.shape)}, not {show((n,))}")
    return wrap(graph, graph.add(total, b))
