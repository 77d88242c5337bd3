"""Tensor: a value of a graph with PyTorch's and NumPy's methods and operators.

Every method is the function of the same name in ``tegg.ops``: ``x.softmax(-1)`` is
``tegg.softmax(x, -1)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from tegg.dim import Dim, Shape
from tegg.dtype import DType
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops import (activation, attention, circular, compare, counting, cumulative, diagonals,
                      distance, elementwise, exponential, extremum, index, linalg, movement,
                      padding, parts, reduce, repeats, scattering, sorting)
from tegg.ops.value import Operand, Value, fail
from tegg.shape import show


class Tensor(Value):
    """One value of a graph. It has a shape and a dtype, and no data until the graph is run."""

    __slots__ = ("graph", "node")
    __array_ufunc__ = None  # NumPy arrays on the left leave operators to us

    graph: Graph
    node: Node

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node

    def owner(self) -> Graph | None:
        return self.graph

    def on(self, graph: Graph) -> Node:
        return self.node

    # ---- what it is
    @property
    def shape(self) -> Shape:
        """The size of each axis: ints and symbolic dims."""
        return self.node.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.node.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.node.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return self.graph.count(self.node)

    def numel(self) -> Dim:
        """The number of elements, by PyTorch's name."""
        return self.size

    def dim(self) -> int:
        """The number of axes, by PyTorch's name."""
        return self.ndim

    @property
    def name(self) -> str | None:
        """The name under which it is an input or an output of its graph."""
        if self.node.op.name == "Input":
            return self.graph.inputs[self.node.attrs[0]].name
        return next((k for k, n in self.graph.outputs.items() if n is self.node), None)

    def __repr__(self) -> str:
        made = f"{self.node.op.name}({', '.join(f'%{a.id}' for a in self.node.args)})"
        name = f", name={self.name!r}" if self.name else ""
        return f"Tensor({show(self.shape)}, {self.dtype.name}{name}, %{self.node.id} = {made})"

    def output(self, name: str) -> Tensor:
        """Mark it as an output of its graph. Raises ArgumentError where the name is taken."""
        if name in self.graph.outputs:
            fail(ArgumentError, f"the graph has an output {name!r} already")
        self.graph.outputs[name] = self.node
        return self

    # ---- what it cannot be
    def __bool__(self) -> bool:  # noqa: PLE0304 - it always raises
        fail(ArgumentError, f"{self!r} has no value while it is recorded, so it cannot decide an "
                            f"if or while; use tegg.where")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        fail(ArgumentError, f"{self!r} has no value while it is recorded, so NumPy cannot take it; "
                            f"use the functions of tegg")

    __int__ = __float__ = __index__ = __array__

    def __len__(self) -> int:
        if not self.shape or not isinstance(self.shape[0], int):
            fail(ShapeError, f"len of {show(self.shape)}: the first axis has no known size")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    __hash__ = object.__hash__

    # ---- operators
    def __add__(self, other: Operand) -> Tensor:
        return elementwise.add(self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return elementwise.add(other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return elementwise.sub(self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return elementwise.sub(other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return elementwise.mul(self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return elementwise.mul(other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return elementwise.div(self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return elementwise.div(other, self)

    def __floordiv__(self, other: Operand) -> Tensor:
        return elementwise.floor_divide(self, other)

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return elementwise.floor_divide(other, self)

    def __mod__(self, other: Operand) -> Tensor:
        return elementwise.remainder(self, other)

    def __rmod__(self, other: Operand) -> Tensor:
        return elementwise.remainder(other, self)

    def __pow__(self, other: Operand) -> Tensor:
        return elementwise.pow(self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return elementwise.pow(other, self)

    def __matmul__(self, other: Operand) -> Tensor:
        return linalg.matmul(self, other)

    def __rmatmul__(self, other: Operand) -> Tensor:
        return linalg.matmul(other, self)

    def __neg__(self) -> Tensor:
        return elementwise.neg(self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return elementwise.abs(self)

    def __round__(self) -> Tensor:
        return elementwise.round(self)

    def __invert__(self) -> Tensor:
        return compare.logical_not(self)

    def __and__(self, other: Operand) -> Tensor:
        return compare.logical_and(self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return compare.logical_and(other, self)

    def __or__(self, other: Operand) -> Tensor:
        return compare.logical_or(self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return compare.logical_or(other, self)

    def __xor__(self, other: Operand) -> Tensor:
        return compare.logical_xor(self, other)

    def __rxor__(self, other: Operand) -> Tensor:
        return compare.logical_xor(other, self)

    def __lt__(self, other: Operand) -> Tensor:
        return compare.lt(self, other)

    def __le__(self, other: Operand) -> Tensor:
        return compare.le(self, other)

    def __gt__(self, other: Operand) -> Tensor:
        return compare.gt(self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return compare.ge(self, other)

    def __eq__(self, other: Operand) -> Tensor:  # type: ignore[override]
        return compare.eq(self, other)

    def __ne__(self, other: Operand) -> Tensor:  # type: ignore[override]
        return compare.ne(self, other)

    def __getitem__(self, key: Any) -> Tensor:
        return index.getitem(self, key)

    # ---- properties that move
    @property
    def T(self) -> Tensor:
        """All axes in reverse."""
        return movement.permute(self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Tensor:
        """The last two axes swapped."""
        return movement.transpose(self, -1, -2)

    # ---- PyTorch's casts
    def float(self) -> Tensor:
        """A cast to f32."""
        return elementwise.cast(self, "f32")

    def half(self) -> Tensor:
        """A cast to f16."""
        return elementwise.cast(self, "f16")

    def bool(self) -> Tensor:
        """A cast to bool: x != 0."""
        return elementwise.cast(self, "bool")

    # ---- the functions of tegg.ops
    add, sub, mul, div = elementwise.add, elementwise.sub, elementwise.mul, elementwise.div
    neg, abs, sign, square = elementwise.neg, elementwise.abs, elementwise.sign, elementwise.square
    fmod, remainder, pow = elementwise.fmod, elementwise.remainder, elementwise.pow
    floor_divide, reciprocal = elementwise.floor_divide, elementwise.reciprocal
    exp, exp2, log, log2 = elementwise.exp, elementwise.exp2, elementwise.log, elementwise.log2
    sqrt, rsqrt, sin, cos = elementwise.sqrt, elementwise.rsqrt, elementwise.sin, elementwise.cos
    sigmoid, tanh, silu, relu = (elementwise.sigmoid, elementwise.tanh, elementwise.silu,
                                 elementwise.relu)
    erf, gelu = elementwise.erf, elementwise.gelu
    log10, log1p, expm1 = exponential.log10, exponential.log1p, exponential.expm1
    sinh, cosh, logaddexp = exponential.sinh, exponential.cosh, exponential.logaddexp
    asinh, acosh, atanh = exponential.asinh, exponential.acosh, exponential.atanh
    tan, asin, acos = circular.tan, circular.asin, circular.acos
    atan, atan2, lerp = circular.atan, circular.atan2, activation.lerp
    floor, ceil, trunc, round = (elementwise.floor, elementwise.ceil, elementwise.trunc,
                                 elementwise.round)
    maximum, minimum, clamp = elementwise.maximum, elementwise.minimum, elementwise.clamp
    cast = to = type = astype = elementwise.cast
    contiguous, clip = elementwise.contiguous, elementwise.clamp

    lt, le, gt, ge = compare.lt, compare.le, compare.gt, compare.ge
    eq, ne, isnan = compare.eq, compare.ne, compare.isnan
    isinf, isfinite, nan_to_num = compare.isinf, compare.isfinite, compare.nan_to_num
    logical_and, logical_or = compare.logical_and, compare.logical_or
    logical_not, logical_xor = compare.logical_not, compare.logical_xor

    sum, mean, max, min = reduce.sum, reduce.mean, reduce.max, reduce.min
    amax, amin, var, std = reduce.amax, reduce.amin, reduce.var, reduce.std
    logsumexp, any, all = reduce.logsumexp, reduce.any, reduce.all

    reshape = view = movement.reshape
    permute, transpose, flatten = movement.permute, movement.transpose, movement.flatten
    movedim = moveaxis = movement.movedim
    swapaxes = movement.transpose
    squeeze, unsqueeze, flip = movement.squeeze, movement.unsqueeze, movement.flip
    expand, broadcast_to = movement.expand, movement.broadcast_to
    narrow, unfold, unflatten = movement.narrow, movement.unfold, movement.unflatten
    pad = padding.pad
    split, chunk, unbind = parts.split, parts.chunk, parts.unbind
    tensor_split = parts.tensor_split
    repeat, tile, roll, rot90 = repeats.repeat, repeats.tile, repeats.roll, repeats.rot90
    repeat_interleave = repeats.repeat_interleave
    diagonal, trace, diag = diagonals.diagonal, diagonals.trace, diagonals.diag
    tril, triu = diagonals.tril, diagonals.triu

    take, gather, index_select = index.take, index.gather, index.index_select
    take_along_dim = take_along_axis = index.take_along_dim
    index_add, index_copy = scattering.index_add, scattering.index_copy
    index_put = scattering.index_put
    scatter, scatter_add, scatter_reduce = (scattering.scatter, scattering.scatter_add,
                                            scattering.scatter_reduce)
    bincount, nonzero = counting.bincount, counting.nonzero

    argmax, argmin, prod = extremum.argmax, extremum.argmin, reduce.prod
    cumsum, cumprod, cummax = cumulative.cumsum, cumulative.cumprod, cumulative.cummax
    cummin, logcumsumexp = cumulative.cummin, cumulative.logcumsumexp
    sort, argsort, topk = sorting.sort, sorting.argsort, sorting.topk

    matmul, mm, bmm, mv = linalg.matmul, linalg.mm, linalg.bmm, linalg.mv
    dot, outer, addmm, baddbmm = linalg.dot, linalg.outer, linalg.addmm, linalg.baddbmm
    softmax, log_softmax = attention.softmax, attention.log_softmax
    norm, normalize = distance.norm, distance.normalize

    def expand_as(self, other: Tensor) -> Tensor:
        """``expand`` to another tensor's shape."""
        return movement.expand(self, other.shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        """``reshape`` to another tensor's shape."""
        return movement.reshape(self, other.shape)

    def where(self, condition: Operand, other: Operand) -> Tensor:
        """x where ``condition`` holds, ``other`` elsewhere."""
        return compare.where(condition, self, other)

    def masked_fill(self, mask: Operand, value: Operand) -> Tensor:
        """``value`` where ``mask`` holds, x elsewhere."""
        return compare.where(mask, value, self)


def state(old: Tensor, new: Tensor) -> Tensor:
    """Say that ``new`` replaces the input ``old`` in place when the graph is run; returns ``new``.

    ``old`` is an argument of the recorded function (or an input of the graph), given at each call
    and overwritten. Raises ArgumentError for anything else or a second replacement, ShapeError and
    DTypeError where the two differ.
    """
    if not isinstance(old, Tensor) or old.node.op.name != "Input":
        fail(ArgumentError, f"state: {old!r} is no input, so nothing can replace it")
    graph, slot = old.graph, old.node.attrs[0]
    if not isinstance(new, Tensor) or new.graph is not graph:
        fail(ArgumentError, f"state: {new!r} is no tensor of the same graph")
    spec = graph.inputs[slot]
    if spec.kind == "weight":
        fail(ArgumentError, f"state: {spec.name!r} is bound by reference; give it as an argument")
    if slot in graph.updates:
        fail(ArgumentError, f"state: {spec.name!r} is replaced already")
    canon = graph.facts.canonical
    if tuple(map(canon, old.shape)) != tuple(map(canon, new.shape)):
        fail(ShapeError, f"state: {spec.name!r} is {show(old.shape)}, its new value "
                         f"{show(new.shape)}")
    if old.dtype is not new.dtype:
        fail(DTypeError, f"state: {spec.name!r} is {old.dtype.name}, its new value "
                         f"{new.dtype.name}; write new.cast({old.dtype.name!r})")
    spec.kind = "state"
    graph.updates[slot] = new.node
    return new
