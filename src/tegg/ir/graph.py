"""The graph of primops: hash-consed nodes, shapes and dtypes checked as they are recorded."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tegg.bits import bits_of
from tegg.dim import Dim, Facts, Shape, product
from tegg.dtype import DType, dtype as as_dtype, i64
from tegg.errors import ArgumentError, TeggError
from tegg.ir.op import OPS, Op, OpTable
from tegg.shape import as_shape, broadcast, normal_axis

if TYPE_CHECKING:
    from tegg.tensor import Tensor

# The package, and what its decorators are made of: their frames are not the user's.
_OURS = (str(Path(__file__).parent.parent) + os.sep, contextmanager.__code__.co_filename)
_CURRENT: ContextVar[Graph | None] = ContextVar("tegg_graph", default=None)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value of a graph. Nodes are hash-consed in their graph: compare with ``is``."""

    op: Op
    args: tuple[Node, ...]
    attrs: tuple
    shape: Shape
    dtype: DType
    id: int  # its place in Graph.nodes, after its operands

    def __repr__(self) -> str:
        return f"%{self.id}:{self.op.name}{list(self.shape)}"


@dataclass(slots=True)
class InputSpec:
    """One input of a graph. ``kind``: ``arg`` (given at each call), ``weight`` (bound once,
    by reference) or ``state`` (given at each call and replaced in place). ``most``: of a weight,
    what no element's magnitude exceeds, where that is known; it is checked when it is bound."""

    name: str
    shape: Shape
    dtype: DType
    kind: str = "arg"
    source: Any = None  # for a weight: the NumPy array, or the object whose ``.data`` it is
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Idiom:
    """``node`` also is ``op(args)``: recorded with its expansion, put in one class at load."""

    node: Node
    op: Op
    args: tuple[Node, ...]
    attrs: tuple


def user_place() -> str:
    """``file:line`` of the nearest caller outside of tegg."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?"


@dataclass(eq=False)
class Graph:
    """A recorder of primops. ``outputs`` and ``updates`` say what a compiled program computes."""

    table: OpTable = field(default_factory=lambda: OPS)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[InputSpec] = field(default_factory=list)
    outputs: dict[str, Node] = field(default_factory=dict)
    updates: dict[int, Node] = field(default_factory=dict)  # input slot -> its new value
    watched: list[tuple[Node, Callable]] = field(default_factory=list)  # see tegg.watch
    idioms: list[Idiom] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    scopes: dict[int, str] = field(default_factory=dict)  # node id -> module path, for display
    path: str = ""  # the module path that is open
    module_paths: dict[int, str] = field(default_factory=dict)  # id of a module -> its path
    weight_names: dict[int, str] = field(default_factory=dict)  # id of a parameter -> its name
    kept: list[Any] = field(default_factory=list)  # what those ids belong to
    _memo: dict[tuple, Node] = field(default_factory=dict)
    _idioms: set[Idiom] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)
    _weights: dict[int, Node] = field(default_factory=dict)  # id of a source -> its Input

    # ---- recording
    def op(self, name: str, *operands: Node | Any) -> Node:
        """Record an op: operands first, then its attributes. Checks arity, dtypes and shapes.

        Raises ShapeError or DTypeError naming the op and the user's line.
        """
        row = self._row(name)
        args, attrs = tuple(operands[:row.arity]), tuple(operands[row.arity:])
        key = (name, tuple(a.id for a in args), attrs)
        node = self._memo.get(key)
        if node is None:
            assert len(args) == row.arity and len(attrs) == len(row.attrs), (name, operands)
            dtype = self._checked(row, lambda: row.dtype([a.dtype for a in args], attrs))
            shape = self._checked(row, lambda: row.shape([a.shape for a in args], attrs,
                                                         self.facts))
            node = Node(row, args, attrs, tuple(shape), dtype, len(self.nodes))
            self._memo[key] = node
            self.nodes.append(node)
            if self.path:
                self.scopes[node.id] = self.path
        return node

    def _row(self, name: str) -> Op:
        row = self.table.get(name)
        if row is None:
            near = difflib.get_close_matches(name, self.table, 1)
            raise ArgumentError(f"no op {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
                                + f" (at {user_place()})")
        return row

    @staticmethod
    def _checked(row: Op, rule):
        try:
            return rule()
        except TeggError as e:
            raise type(e)(f"{row.name}: {e} (at {user_place()})") from None

    def expansion(self, name: str, *operands: Node | Any) -> Node:
        """Record a named op as its expansion over simpler ops; rules find it again."""
        row, args, attrs = self._row_operands(name, operands)
        assert row.expand is not None
        node: Node = row.expand(self, args, attrs)
        return node

    def idiom(self, name: str, *operands: Node | Any) -> Node:
        """Record a named op through its expansion; both stand in one class of the e-graph."""
        row, args, attrs = self._row_operands(name, operands)
        assert row.expand is not None
        node: Node = row.expand(self, args, attrs)
        found = Idiom(node, row, args, attrs)
        if node not in args and found not in self._idioms:
            self._idioms.add(found)
            self.idioms.append(found)
        return node

    def _row_operands(self, name: str, operands: tuple) -> tuple[Op, tuple[Node, ...], tuple]:
        row = self._row(name)
        args, attrs = tuple(operands[:row.arity]), tuple(operands[row.arity:])
        self._checked(row, lambda: row.dtype([a.dtype for a in args], attrs))
        if row.kind == "elementwise":
            args = self._same_shape(row, args)
        self._checked(row, lambda: row.shape([a.shape for a in args], attrs, self.facts))
        return row, args, attrs

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Nodes recorded inside belong to the module ``name``, below the scopes already open."""
        outer = self.path
        self.path = f"{outer}.{name}" if outer and name else outer or name
        try:
            yield
        finally:
            self.path = outer

    @contextmanager
    def recording(self) -> Iterator[Graph]:
        """Inside, arrays and parameters that meet no tensor are recorded in this graph."""
        token = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(token)

    # ---- sources
    def input(self, name: str, shape: Shape, dtype: DType | str, kind: str = "arg",
              source: Any = None) -> Node:
        """An input. Raises ArgumentError where the name is taken."""
        if not isinstance(name, str):
            raise ArgumentError(f"the name of an input is a text, not {name!r} "
                                f"(at {user_place()})")
        if name in self._names:
            raise ArgumentError(f"the graph has an input {name!r} already (at {user_place()})")
        dtype, shape = as_dtype(dtype), as_shape(shape)
        node = self.op("Input", len(self.inputs), dtype, shape)
        self._names.add(name)
        self.inputs.append(InputSpec(name, shape, dtype, kind, source))
        return node

    def weight(self, key: object, shape: Shape, dtype: DType | str, name: str,
               source: Any = None) -> Node:
        """The input that is bound by reference to ``source``, an array or what has one as ``data``;
        one per ``key`` (an object that ``source`` keeps alive, by default ``source = key``)."""
        node, source = self._weights.get(id(key)), key if source is None else source
        if node is None:
            free, n = name, 0
            while free in self._names:
                n += 1
                free = f"{name}_{n}"
            node = self._weights[id(key)] = self.input(free, shape, dtype, "weight", source)
        return node

    def unbound(self) -> Graph:
        """The same program, whose weights are bound to nothing; for reading, not for recording: it
        lacks what finds a node again."""
        out = copy(self)
        out.inputs = [replace(s, source=None) for s in self.inputs]
        out.kept, out._memo, out._weights = [], {}, {}
        return out

    def tensor(self, shape: Shape, dtype: DType | str = "f32", name: str | None = None) -> Tensor:
        """An input as a Tensor, named ``x0``, ``x1``, ... by its place unless ``name`` is given.

        Raises ArgumentError where the name is taken, ShapeError for a shape that cannot be.
        """
        from tegg.tensor import Tensor
        return Tensor(self, self.input(name or f"x{len(self.inputs)}", shape, dtype))

    def full(self, value: float, dtype: DType | str, shape: Shape = ()) -> Node:
        dtype = as_dtype(dtype)
        return self.op("Full", dtype, as_shape(shape), bits_of(value, dtype))

    def iota(self, n: Dim, dtype: DType | str = i64) -> Node:
        return self.op("Iota", as_dtype(dtype), (n,))

    def size(self, n: Dim, dtype: DType) -> Node:
        """A dim as a value of rank 0."""
        return self.full(n, dtype) if isinstance(n, int) else self.op("Size", dtype, (n,))

    # ---- elementwise, with broadcasting and Python scalars
    def _same_shape(self, row: Op, args: Iterable[Node]) -> tuple[Node, ...]:
        args = tuple(args)
        if all(a.shape == args[0].shape for a in args):
            return args
        shape = self._checked(row, lambda: broadcast([a.shape for a in args], self.facts))
        return tuple(self.expand(a, shape) for a in args)

    def broadcast(self, name: str, *args: Node) -> Node:
        """Record an elementwise op on operands that are first expanded to one shape."""
        return self.op(name, *self._same_shape(self.table[name], args))

    def _pair(self, name: str, a: Node | float, b: Node | float) -> Node:
        dtype = next(x.dtype for x in (a, b) if isinstance(x, Node))
        return self.broadcast(name, *(x if isinstance(x, Node) else self.full(x, dtype)
                                      for x in (a, b)))

    def add(self, a: Node | float, b: Node | float) -> Node:
        return self._pair("Add", a, b)

    def mul(self, a: Node | float, b: Node | float) -> Node:
        return self._pair("Mul", a, b)

    def less(self, a: Node | float, b: Node | float) -> Node:
        return self._pair("LessThan", a, b)

    def select(self, condition: Node, a: Node, b: Node) -> Node:
        return self.broadcast("Select", condition, a, b)

    def cast(self, x: Node, dtype: DType | str) -> Node:
        dtype = as_dtype(dtype)
        return x if x.dtype is dtype else self.op("Cast", x, dtype)

    # ---- movement; each returns its operand where nothing moves
    def reshape(self, x: Node, shape: Shape) -> Node:
        shape = tuple(shape)
        return x if shape == x.shape else self.op("Reshape", x, shape)

    def permute(self, x: Node, perm: tuple[int, ...]) -> Node:
        perm = tuple(perm)
        return x if perm == tuple(range(len(x.shape))) else self.op("Permute", x, perm)

    def expand(self, x: Node, shape: Shape) -> Node:
        """NumPy broadcasting to ``shape``: leading axes are added, axes of 1 grow. A constant of
        rank 0 becomes one of that shape."""
        shape = tuple(shape)
        if x.op.name == "Full" and not x.shape:
            dtype, _, bits = x.attrs
            return self.op("Full", dtype, shape, bits)
        if len(x.shape) < len(shape):
            x = self.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape)
        return x if x.shape == shape else self.op("Expand", x, shape)

    def narrow(self, x: Node, axis: int, start: Dim, size: Dim) -> Node:
        """``size`` elements of an axis from ``start``."""
        axis = normal_axis(axis, len(x.shape))
        starts = tuple(start if i == axis else 0 for i in range(len(x.shape)))
        stops = tuple(start + size if i == axis else n for i, n in enumerate(x.shape))
        return x if stops == x.shape and not any(starts) else self.op(
            "Slice", x, starts, stops, (1,) * len(x.shape))

    def pad(self, x: Node, low: Shape, high: Shape, value: float = 0) -> Node:
        low, high = tuple(low), tuple(high)
        if all(d == 0 for d in (*low, *high)):
            return x
        return self.op("Pad", x, low, high, bits_of(value, x.dtype))

    def concat(self, parts: list[Node], axis: int) -> Node:
        """Parts one after the other along an axis: Selects over Pads (a sum would lose -0.0)."""
        rank = len(parts[0].shape)
        axis = normal_axis(axis, rank)
        total = parts[0].shape[axis]
        for p in parts[1:]:
            total = total + p.shape[axis]
        at = tuple(total if i == axis else 1 for i in range(rank))
        position = self.reshape(self.iota(total), at)
        out: Node | None = None
        start: Dim = 0
        for p in parts:
            stop = start + p.shape[axis]
            low = tuple(start if i == axis else 0 for i in range(rank))
            high = tuple(total - stop if i == axis else 0 for i in range(rank))
            here = self.pad(p, low, high)
            if out is None:
                out = here
            else:
                before = self.less(position, self.size(start, i64))
                out = self.select(before, out, here)
            start = stop
        assert out is not None
        return out

    # ---- reading
    def reachable(self, roots: Iterable[Node] | None = None) -> list[Node]:
        """Nodes that the outputs and updates (or ``roots``) need, operands first."""
        todo = list(roots) if roots is not None else [*self.outputs.values(),
                                                      *self.updates.values()]
        live: set[int] = set()
        while todo:
            n = todo.pop()
            if n.id not in live:
                live.add(n.id)
                todo.extend(n.args)
        return [self.nodes[i] for i in sorted(live)]

    def compile(self, compilers: Any = (), **options: Any) -> Any:
        """The program that computes the outputs: ``g.compile([tegg.Generic(), ...])``.

        Options are those of ``tegg.compile``: device, precision, budget_s, cache.
        """
        from tegg.jit import compile
        stack = compilers if isinstance(compilers, (list, tuple)) else (compilers,)
        return compile(self, *stack, **options)

    def display(self, path: str | os.PathLike[str] | None = None, scope: str | None = None,
                what: str = "graph", compilers: Any = ()) -> str:
        """Print what the outputs need, or write it to a .txt, .dot, .svg or .html file; see
        ``tegg.drawing.display``.

        what: ``"graph"`` as recorded, ``"egraph"`` (every way to compute each value, after a stack
          of compilers) or ``"plan"`` (the kernels that are chosen for the CPU).
        """
        from tegg.drawing import display
        if what == "graph":
            from tegg.display import of_graph
            return display(of_graph(self), path, scope)
        from tegg.runtime.driver import picture
        return display(picture(self, what, compilers), path, scope)

    def count(self, node: Node) -> Dim:
        """Number of elements of a node."""
        return product(node.shape)


def current_graph() -> Graph | None:
    """The graph that is being recorded in this thread of control, if any."""
    return _CURRENT.get()
