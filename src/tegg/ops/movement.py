"""Movement: reshape, permute, expand, flip, pad, concat, windows. No value changes.

Symbolic dims work wherever the op allows them; sizes that must hold are proven from the symbols'
bounds and from what ``tegg.assume`` and ``tegg.same`` state. Errors are ShapeErrors that name both
shapes, the op and the user's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegg.dim import Dim, Shape, exact_div, product
from tegg.dtype import DType
from tegg.errors import ArgumentError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, graph_of, joined, node_of, one, wrap
from tegg.shape import as_int, as_shape, items, normal_axis, show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


def axis_of(op: str, axis: Any, rank: int) -> int:
    """An axis in 0 .. rank-1. Raises ShapeError with the op and the user's line."""
    try:
        return normal_axis(axis, rank)
    except ShapeError as e:
        fail(ShapeError, f"{op}: {e}")


def sizes_of(op: str, sizes: tuple) -> Shape:
    """Sizes given one by one or as one sequence."""
    given = items(sizes[0]) if len(sizes) == 1 else sizes
    try:
        return as_shape(given)
    except ShapeError as e:
        fail(ShapeError, f"{op}: {e}")


def whole(op: str, name: str, value: Any, least: int | None = None) -> int:
    """An int. Raises ArgumentError for anything else."""
    n = as_int(value)
    if n is None or (least is not None and n < least):
        bound = "" if least is None else f" of at least {least}"
        fail(ArgumentError, f"{op}: {name} is an int{bound}, not {value!r}")
    return n


@public(methods=("view",), keywords={"newshape": "shape"})
def reshape(x: Operand, *shape: Any) -> Tensor:
    """The same elements in row-major order. One size may be -1: the rest, divided exactly, also
    where sizes are symbolic. Sizes one by one or as one tuple."""
    graph, a = one("reshape", x)
    new = sizes_of("reshape", shape)
    if (unknown := new.count(-1)) > 1:
        fail(ShapeError, f"reshape: only one size may be -1, not {unknown}, in {show(new)}")
    if unknown:
        known = product(tuple(n for n in new if n != -1))
        canon = graph.facts.canonical
        rest = exact_div(canon(product(a.shape)), canon(known))
        if rest is None:
            fail(ShapeError, f"reshape: {show(a.shape)} does not divide into {show(new)}")
        new = tuple(rest if n == -1 else n for n in new)
    return wrap(graph, graph.reshape(a, new))


@public()
def permute(x: Operand, *dims: Any) -> Tensor:
    """Axis i of the result is axis ``dims[i]`` of x. Axes one by one or as one tuple."""
    graph, a = one("permute", x)
    given = items(dims[0]) if len(dims) == 1 else dims
    axes = tuple(axis_of("permute", d, len(a.shape)) for d in given)
    if sorted(axes) != list(range(len(a.shape))):
        fail(ShapeError, f"permute: {tuple(given)} does not name each axis of {show(a.shape)} once")
    return wrap(graph, graph.permute(a, axes))


@public(keywords={"axes": "dim0", "axis1": "dim0", "axis2": "dim1"})
def transpose(x: Operand, dim0: Any = None, dim1: int | None = None, *rest: int) -> Tensor:
    """x with two axes swapped, as in PyTorch; with none, one tuple, or more than two axes it is
    NumPy's transpose: all axes in reverse, or in the order that is given."""
    _, a = one("transpose", x)
    if dim1 is None or rest:
        given = tuple(range(len(a.shape)))[::-1] if dim0 is None else dim0
        return permute(x, given) if dim1 is None else permute(x, dim0, dim1, *rest)
    return swapaxes(x, dim0, dim1)


@public("swapdims", keywords={"axis1": "dim0", "axis2": "dim1"})
def swapaxes(x: Operand, dim0: int, dim1: int) -> Tensor:
    """x with two axes swapped."""
    graph, a = one("swapaxes", x)
    axes = list(range(len(a.shape)))
    i, j = (axis_of("swapaxes", d, len(axes)) for d in (dim0, dim1))
    axes[i], axes[j] = j, i
    return wrap(graph, graph.permute(a, tuple(axes)))


@public()
def t(x: Operand) -> Tensor:
    """A matrix with its axes swapped, as in PyTorch; x of rank 1 or 0 as it is."""
    _, a = one("t", x)
    if len(a.shape) > 2:
        fail(ShapeError, f"t: {show(a.shape)} has more than two axes; name two in transpose")
    return permute(x, tuple(range(len(a.shape)))[::-1])


@public("moveaxis")
def movedim(x: Operand, source: int, destination: int) -> Tensor:
    """x with one axis moved to another place."""
    graph, a = one("movedim", x)
    rank = len(a.shape)
    i, j = (axis_of("movedim", d, rank) for d in (source, destination))
    axes = [k for k in range(rank) if k != i]
    axes.insert(j, i)
    return wrap(graph, graph.permute(a, tuple(axes)))


@public("ravel")
def flatten(x: Operand, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes ``start_dim`` .. ``end_dim`` as one. A scalar becomes (1,)."""
    graph, a = one("flatten", x)
    if not a.shape:
        return wrap(graph, graph.reshape(a, (1,)))
    i, j = (axis_of("flatten", d, len(a.shape)) for d in (start_dim, end_dim))
    if i > j:
        fail(ShapeError, f"flatten: start_dim {start_dim} comes after end_dim {end_dim} "
                         f"in {show(a.shape)}")
    new = (*a.shape[:i], product(a.shape[i:j + 1]), *a.shape[j + 1:])
    return wrap(graph, graph.reshape(a, new))


@public()
def unflatten(x: Operand, dim: int, sizes: Any) -> Tensor:
    """One axis as several of the given sizes, of which one may be -1: the rest."""
    graph, a = one("unflatten", x)
    axis = axis_of("unflatten", dim, len(a.shape))
    new = sizes_of("unflatten", (sizes,))
    known = product(tuple(s for s in new if s != -1))
    rest = exact_div(a.shape[axis], known) if new.count(-1) == 1 else None
    full = tuple(rest if s == -1 and rest is not None else s for s in new)
    if -1 in full or not _equal(graph, (product(full),), a.shape[axis:axis + 1]):
        fail(ShapeError, f"unflatten: axis {axis} of {show(a.shape)} is not {show(new)}")
    return wrap(graph, graph.reshape(a, (*a.shape[:axis], *full, *a.shape[axis + 1:])))


@public()
def squeeze(x: Operand, dim: Any = None) -> Tensor:
    """x without the axes of size 1, or without the named ones. A named axis of another size raises
    ShapeError; a symbolic axis never counts as 1."""
    graph, a = one("squeeze", x)
    rank = len(a.shape)
    drop = ({i for i, n in enumerate(a.shape) if n == 1} if dim is None else
            {axis_of("squeeze", d, rank) for d in items(dim)})
    for i in drop:
        if a.shape[i] != 1:
            fail(ShapeError, f"squeeze: axis {i} of {show(a.shape)} has not size 1")
    return wrap(graph, graph.reshape(a, tuple(n for i, n in enumerate(a.shape) if i not in drop)))


@public("expand_dims")
def unsqueeze(x: Operand, dim: int) -> Tensor:
    """x with an axis of size 1 inserted at ``dim``."""
    graph, a = one("unsqueeze", x)
    i = axis_of("unsqueeze", dim, len(a.shape) + 1)
    return wrap(graph, graph.reshape(a, (*a.shape[:i], 1, *a.shape[i:])))


@public("broadcast_to", keywords={"size": "sizes", "shape": "sizes"})
def expand(x: Operand, *sizes: Any) -> Tensor:
    """x with axes of size 1 repeated, and new leading axes, as NumPy's broadcast_to; -1 keeps a
    size. A size decides by its place, never by its value."""
    graph, a = one("expand", x)
    new = sizes_of("expand", sizes)
    extra = len(new) - len(a.shape)
    if extra < 0:
        fail(ShapeError, f"expand: {show(a.shape)} has more axes than {show(new)}")
    new = tuple(a.shape[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(new))
    if -1 in new:
        fail(ShapeError, f"expand: a new axis of {show(new)} cannot be -1")
    return wrap(graph, graph.expand(a, new))


@public()
def flip(x: Operand, dim: Any = None) -> Tensor:
    """x with axes reversed; all of them by default."""
    graph, a = one("flip", x)
    named = range(len(a.shape)) if dim is None else items(dim)
    for i in sorted({axis_of("flip", d, len(a.shape)) for d in named}):
        a = graph.op("Flip", a, i)
    return wrap(graph, a)


@public()
def narrow(x: Operand, dim: int, start: Dim, length: Dim) -> Tensor:
    """``length`` elements of an axis from ``start``."""
    graph, a = one("narrow", x)
    start, length = sizes_of("narrow", (start, length))
    return wrap(graph, graph.narrow(a, axis_of("narrow", dim, len(a.shape)), start, length))


def _together(op: str, tensors: Sequence[Operand]) -> tuple[Graph, list[Node]]:
    """The parts of a concat or stack, cast to the dtype in which they meet."""
    if not isinstance(tensors, (tuple, list)):
        fail(ArgumentError, f"{op}: takes a tuple or list of tensors, not {tensors!r}")
    tensors = tuple(tensors)
    if not tensors:
        fail(ArgumentError, f"{op}: needs at least one tensor")
    graph = graph_of(op, tensors)
    nodes = [node_of(op, graph, t) for t in tensors]
    dtype: DType = nodes[0].dtype
    for n in nodes[1:]:
        dtype = joined(op, dtype, n.dtype)
    return graph, [graph.cast(n, dtype) for n in nodes]


@public("concat", "concatenate", method=False, keywords={"arrays": "tensors"})
def cat(tensors: Sequence[Operand], dim: int = 0) -> Tensor:
    """Tensors one after the other along an axis; the other axes must be equal.

    Recorded as Selects over Pads: adding would lose -0.0.
    """
    graph, nodes = _together("cat", tensors)
    first = nodes[0].shape
    axis = axis_of("cat", dim, len(first))
    for n in nodes[1:]:
        other = (*n.shape[:axis], *first[axis:axis + 1], *n.shape[axis + 1:])
        if len(n.shape) != len(first) or not _equal(graph, other, first):
            fail(ShapeError, f"cat: {show(first)} and {show(n.shape)} differ beside axis {axis}")
    return wrap(graph, graph.concat(nodes, axis))


def _equal(graph: Graph, a: Shape, b: Shape) -> bool:
    return tuple(map(graph.facts.canonical, a)) == tuple(map(graph.facts.canonical, b))


@public(method=False, keywords={"arrays": "tensors"})
def stack(tensors: Sequence[Operand], dim: int = 0) -> Tensor:
    """Tensors of one shape beside each other along a new axis."""
    graph, nodes = _together("stack", tensors)
    for n in nodes[1:]:
        if not _equal(graph, n.shape, nodes[0].shape):
            fail(ShapeError, f"stack: shapes {show(nodes[0].shape)} and {show(n.shape)} differ")
    return cat([unsqueeze(wrap(graph, n), dim) for n in nodes], dim)


@public(keywords={"dimension": "dim"})
def unfold(x: Operand, dim: int, size: int, step: int = 1, dilation: int = 1) -> Tensor:
    """Sliding windows of an axis, as PyTorch's Tensor.unfold: the axis becomes the positions, and
    a last axis of ``size`` elements is added, ``dilation`` apart. The rest that does not fill a
    window is left out."""
    graph, a = one("unfold", x)
    axis = axis_of("unfold", dim, len(a.shape))
    windows = graph.op("Window", a, axis, *sizes_of("unfold", (size, step, dilation)))
    rank = len(windows.shape)
    order = [i for i in range(rank) if i != axis + 1] + [axis + 1]
    return wrap(graph, graph.permute(windows, tuple(order)))
