"""Sums, products, maxima and minima so far, along any axis.

Every function raises ShapeError for an axis outside the tensor. Results have the operand's shape;
each is one pass over memory, linear in the axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.dtype import DType, dtype as as_dtype, i64
from tegg.errors import DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops.movement import axis_of
from tegg.ops.reduce import reversed_order
from tegg.ops.public import public
from tegg.ops.value import Operand, fail, in_float32, one, wrap
from tegg.shape import show

if TYPE_CHECKING:
    from tegg.tensor import Tensor


def _axis(op: str, a: Node, dim: int | None) -> int:
    """The axis of a cumulative op; a tensor of one axis needs not name it."""
    if dim is None:
        if len(a.shape) != 1:
            fail(ShapeError, f"{op}: {show(a.shape)} has {len(a.shape)} axes; say which one: "
                             f"dim=0")
        return 0
    return axis_of(op, dim, len(a.shape))


def _summed(graph: Graph, a: Node, dtype: DType | str | None) -> Node:
    """Integers and bools are summed and multiplied in i64, unless a dtype is asked for."""
    want = as_dtype(dtype) if dtype is not None else a.dtype if a.dtype.is_float else i64
    return graph.cast(a, want)


@public()
def cumsum(x: Operand, dim: int | None = None, dtype: DType | str | None = None) -> Tensor:
    """Sums so far: out[i] = x[0] + ... + x[i] along an axis. Shape as x.

    Integers and bools are summed in i64, as in NumPy and PyTorch, unless ``dtype`` says otherwise;
    f32 accumulates in float64, halves in float32. NaN stays from where it stands on. ``dim`` may
    be left out for one axis.

        tegg.compile(lambda x: tegg.cumsum(x, 1))(np.ones((2, 3), np.float32))  # [[1, 2, 3], ...]
    """
    graph, a = one("cumsum", x)
    axis = _axis("cumsum", a, dim)
    return wrap(graph, graph.idiom("CumSum", _summed(graph, a, dtype), axis))


@public()
def cumprod(x: Operand, dim: int | None = None, dtype: DType | str | None = None) -> Tensor:
    """Products so far: out[i] = x[0] ... x[i] along an axis. Shape as x; dtypes as ``cumsum``.

    A symbolic axis needs an upper bound, else ShapeError.

        tegg.compile(lambda x: tegg.cumprod(x))(np.arange(1., 5))  # [1, 2, 6, 24]
    """
    graph, a = one("cumprod", x)
    axis = _axis("cumprod", a, dim)
    return wrap(graph, in_float32(graph, (_summed(graph, a, dtype),),
                                  lambda u: graph.idiom("CumProd", u, axis)))


@public()
def cummax(x: Operand, dim: int | None = None) -> Tensor:
    """The largest value so far (values only, as ``max``; NumPy's ``maximum.accumulate``). NaN
    stays from where it stands on. Shape and dtype as x; of bools it is ``any`` so far.

        tegg.compile(lambda x: tegg.cummax(x, 0))(np.array([1., 3, 2]))  # [1, 3, 3]
    """
    graph, a = one("cummax", x)
    return wrap(graph, graph.idiom("CumMax", a, _axis("cummax", a, dim)))


@public()
def cummin(x: Operand, dim: int | None = None) -> Tensor:
    """The smallest value so far (values only): ``cummax`` in the reversed order, exact. NaN stays
    from where it stands on. Shape and dtype as x; of bools it is ``all`` so far.

        tegg.compile(lambda x: tegg.cummin(x, 0))(np.array([3., 1, 2]))  # [3, 1, 1]
    """
    graph, a = one("cummin", x)
    axis = _axis("cummin", a, dim)
    turned = graph.idiom("CumMax", reversed_order(graph, a), axis)
    return wrap(graph, reversed_order(graph, turned))


@public()
def logcumsumexp(x: Operand, dim: int | None = None) -> Tensor:
    """log(e^x[0] + ... + e^x[i]) along an axis, each relative to the largest so far, so that
    nothing overflows. Shape as x; floats only, else DTypeError. -inf adds nothing; inf and NaN
    stay.

        tegg.compile(lambda x: tegg.logcumsumexp(x, 0))(np.zeros(3))  # log [1, 2, 3]
    """
    graph, a = one("logcumsumexp", x)
    if not a.dtype.is_float:
        fail(DTypeError, f"logcumsumexp: needs a float dtype, not {a.dtype.name}; write "
                         f"x.cast('f32')")
    axis = _axis("logcumsumexp", a, dim)
    return wrap(graph, in_float32(graph, (a,), lambda u: graph.idiom("LogCumSumExp", u, axis)))
