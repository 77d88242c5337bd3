"""Tensor: a value of a graph with PyTorch's and NumPy's methods and operators.

Every method is the function of the same name in ``tegg.ops``: ``x.softmax(-1)`` is
``tegg.softmax(x, -1)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from tegg.bits import value_of
from tegg.dim import Dim, Shape
from tegg.dtype import DType
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.ir.graph import Graph, Node
from tegg.ops import compare, elementwise, linalg, movement, powers
from tegg.ops.getitem import getitem
from tegg.ops.methods import Methods
from tegg.ops.protocol import array_ufunc, refuse
from tegg.ops.value import Operand, fail
from tegg.shape import show
from tegg.watching import Tolerance, Watcher, compared, printed, watch


class Tensor(Methods):
    """One value of a graph. It has a shape and a dtype, and no data until the graph is run."""

    __slots__ = ("graph", "node")

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
        name = f", name={self.name!r}" if self.name else ""
        return f"Tensor({show(self.shape)}, {self.dtype.name}{name}, {self._made()})"

    def _made(self) -> str:
        """What it is made of: ``%3 = SumReduce(x, axis=1)``."""
        of = [_called(self.graph, a) for a in self.node.args]
        of += [f"{name}={value}" for (name, _), value in zip(self.node.op.attrs, self.node.attrs)
               if name in ("axis", "perm")]
        made = f"({', '.join(of)})" if of else ""
        return f"%{self.node.id} = {self.node.op.name}{made}"

    def output(self, name: str) -> Tensor:
        """Mark it as an output of its graph. Raises ArgumentError where the name is taken."""
        if not isinstance(name, str):
            fail(ArgumentError, f"the name of an output is a text, not {name!r}")
        if name in self.graph.outputs:
            fail(ArgumentError, f"the graph has an output {name!r} already")
        self.graph.outputs[name] = self.node
        return self

    # ---- seen while a function runs
    def watch(self, callback: Watcher) -> Tensor:
        """Hand its value to a function after each run; see ``tegg.watch``."""
        return watch(self, callback)

    def print(self, label: str = "value") -> Tensor:
        """Print its value after each run of the function that is being compiled; gives itself."""
        return printed(self, label)

    def diff(self, saved: Any, rtol: Tolerance = 1e-5, atol: Tolerance = 1e-8
             ) -> Tensor:
        """Print after each run how far its value is from a saved one (an array, or the path of a
        ``.npy`` file of its shape): how many elements differ by more than ``atol + rtol |saved|``,
        and the worst. Gives itself."""
        return compared(self, saved, rtol, atol)

    # ---- what it cannot be
    def __bool__(self) -> bool:  # noqa: PLE0304 - it always raises
        fail(ArgumentError, f"{self!r} has no value while it is recorded, so it cannot decide an "
                            f"if or while; use tegg.where")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        fail(ArgumentError, f"{self!r} has no value while it is recorded, so NumPy cannot take it; "
                            f"use the functions of tegg")

    def _number(self) -> NoReturn:
        fail(ArgumentError, f"{self!r} has no value while it is recorded, so it is no number of "
                            f"Python's; keep it a tensor, or return it and convert the result")

    __int__ = __float__ = __index__ = __complex__ = _number

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return array_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        refuse(function.__name__)

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
        return powers.pow(self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return powers.pow(other, self)

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
        return getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        fail(ArgumentError, f"{self!r} is a value and cannot be changed in place; "
                            f"x.index_put(...), x.scatter(...) and tegg.where(...) give one that "
                            f"differs")

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

    # ---- methods whose function takes its operands in another order
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


def _called(graph: Graph, node: Node) -> str:
    """A node as an operand: an input's name, a constant's value, or its number."""
    if node.op.name == "Input":
        return graph.inputs[node.attrs[0]].name
    constant = node
    while constant.op.name in ("Expand", "Reshape"):
        constant = constant.args[0]
    return (f"{value_of(constant.attrs[2], constant.dtype):.6g}" if constant.op.name == "Full"
            else f"%{node.id}")


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
