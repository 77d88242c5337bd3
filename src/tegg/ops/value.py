"""Operands of the Tensor functions: tensors, parameters, NumPy arrays and scalars as nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Union

import numpy as np

from tegg.dim import Poly
from tegg.dtype import DType, bf16, bool_, dtype as as_dtype, f32, i64, promote
from tegg.errors import ArgumentError, DTypeError, TeggError
from tegg.ir.graph import Graph, Node, current_graph, user_place

if TYPE_CHECKING:
    from tegg.tensor import Tensor

Operand = Union["Tensor", np.ndarray, float, int, bool]


class Value(ABC):
    """What stands for a node of a graph. ``Tensor`` adds the methods."""

    __slots__ = ()

    @abstractmethod
    def owner(self) -> Graph | None:
        """The graph it belongs to; None where it joins any graph that uses it."""

    @abstractmethod
    def on(self, graph: Graph) -> Node:
        """Its node in ``graph``."""


def wrap(graph: Graph, node: Node) -> Tensor:
    """The Tensor of a node."""
    from tegg.tensor import Tensor
    return Tensor(graph, node)


def fail(kind: type[TeggError], message: str) -> NoReturn:
    """Raise ``kind`` with the user's line."""
    raise kind(f"{brief(message)} (at {user_place()})")


def brief(message: str) -> str:
    """A message without the inside of the large arrays that it shows."""
    line = " ".join(message.split()) if "\n" in message else message
    return line if len(line) <= 400 else f"{line[:250]} ... {line[-100:]}"


def is_scalar(x: object) -> bool:
    """Python and NumPy scalars, and symbolic dims: values that have no say in the dtype."""
    return isinstance(x, (bool, int, float, np.bool_, np.integer, np.floating, Poly)) or (
        isinstance(x, np.generic) and x.dtype == bf16.numpy)


def graph_of(op: str, values: tuple) -> Graph:
    """The graph of the operands. Raises ArgumentError for two graphs, or none."""
    found: Graph | None = None
    for v in values:
        graph = v.owner() if isinstance(v, Value) else None
        if graph is not None and found is not None and graph is not found:
            fail(ArgumentError, f"{op}: the operands are tensors of two different graphs")
        found = found or graph
    found = found or current_graph()
    if found is None:
        fail(ArgumentError, f"{op}: no operand is a tensor of a graph; call it inside a function "
                            f"given to tegg.compile, or within graph.recording()")
    return found


def node_of(op: str, graph: Graph, v: object) -> Node:
    """The node of a tensor, parameter or array; a large array is bound by reference."""
    if isinstance(v, Value):
        return v.on(graph)
    if not isinstance(v, np.ndarray):
        fail(ArgumentError, f"{op}: takes tensors, NumPy arrays and scalars, not "
                            f"{type(v).__name__}; write np.asarray(...)")
    try:
        dtype = as_dtype(v.dtype)
    except DTypeError as e:
        fail(DTypeError, f"{op}: {e}")
    if v.ndim == 0:
        return graph.full(v.item(), dtype)
    return graph.weight(v, v.shape, dtype, "constant")


def default_dtype(x: object) -> DType:
    """The dtype of a scalar that meets no tensor."""
    if isinstance(x, (bool, np.bool_)):
        return bool_
    return i64 if isinstance(x, (int, np.integer, Poly)) else f32


def _weakness(x: object) -> int:
    """Floats decide before integers, and those before bools, where scalars meet."""
    return ("float", "int", "bool").index(default_dtype(x).kind)


def weak_dtype(op: str, x: object, met: DType | None) -> DType:
    """The dtype in which a scalar and a tensor of dtype ``met`` are computed."""
    own = default_dtype(x)
    if met is None or (met.kind == "bool" and own.kind != "bool"):
        return own
    if own.kind == "float" and met.kind == "int":
        fail(DTypeError, f"{op}: the float {x!r} does not mix with {met.name}; "
                         f"write x.cast('f32') first")
    return met


def scalar_node(op: str, graph: Graph, x: Any, dtype: DType) -> Node:
    """A scalar or a symbolic dim as a constant of rank 0. Raises DTypeError out of range."""
    if isinstance(x, Poly):
        return graph.size(x, dtype)
    if dtype.kind == "int":
        info = np.iinfo(dtype.numpy)
        if not info.min <= int(x) <= info.max:
            fail(DTypeError, f"{op}: {x} does not fit {dtype.name} ({info.min}..{info.max})")
        return graph.full(int(x), dtype)
    return graph.full(float(x) if dtype.is_float else bool(x), dtype)


def operands(op: str, *values: Operand) -> tuple[Graph, tuple[Node, ...]]:
    """The graph and the nodes of operands, cast to the dtype in which they meet.

    Raises DTypeError where floats meet integers, ArgumentError for what is no operand.
    """
    graph = graph_of(op, values)
    nodes: list[Node | None] = [None if is_scalar(v) else node_of(op, graph, v) for v in values]
    met: DType | None = None
    for n in nodes:
        if n is not None:
            met = n.dtype if met is None else joined(op, met, n.dtype)
    for v in sorted(filter(is_scalar, values), key=_weakness):
        met = weak_dtype(op, v, met)
    assert met is not None
    return graph, tuple(scalar_node(op, graph, v, met) if n is None else graph.cast(n, met)
                        for v, n in zip(values, nodes))


def joined(op: str, a: DType, b: DType) -> DType:
    """``promote`` with the op and the user's line in its error."""
    try:
        return promote(a, b)
    except DTypeError as e:
        fail(DTypeError, f"{op}: {e}")


def one(op: str, x: Operand) -> tuple[Graph, Node]:
    """The graph and the node of a single operand."""
    graph, (node,) = operands(op, x)
    return graph, node


def in_float32(graph: Graph, nodes: tuple[Node, ...], record: Callable[..., Node]) -> Node:
    """Record an op of several steps; halves are computed in float32 and rounded once."""
    dtype = nodes[0].dtype
    if not (dtype.is_float and dtype.itemsize == 2):
        return record(*nodes)
    wide = (graph.cast(n, f32) if n.dtype is dtype else n for n in nodes)
    return graph.cast(record(*wide), dtype)


def named(name: str, *values: Operand, idiom: bool = False) -> Tensor:
    """A named op of several rounding steps: recorded as its expansion, and, where ``idiom``,
    as itself in the same class."""
    graph, nodes = operands(name, *values)
    record: Any = graph.idiom if idiom else graph.expansion
    return wrap(graph, in_float32(graph, nodes, lambda *n: record(name, *n)))


def exact(name: str, *values: Operand, idiom: bool = True) -> Tensor:
    """A named op whose expansion rounds nothing, so that halves stay halves."""
    graph, nodes = operands(name, *values)
    return wrap(graph, graph.idiom(name, *nodes) if idiom else graph.expansion(name, *nodes))


def primitive(name: str, *values: Operand) -> Tensor:
    """A primop on operands of one shape after broadcasting."""
    graph, nodes = operands(name, *values)
    return wrap(graph, graph.broadcast(name, *nodes))
