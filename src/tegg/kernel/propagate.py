"""Index propagation: the value of a graph node at an index, with movement folded into indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tegg.dim import Dim, Facts, Poly, Shape, evaluate, exact_div, product, symbols
from tegg.dtype import DType, f32, f64
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.index import ZERO, Algebra, Form, Gathered, Guard, Var, variable
from tegg.kernel.positions import number, positions
from tegg.kernel.value import Kind, Val, Values
from tegg.ir.meaning import lowest
from tegg.ir.split import parts

Index = tuple[Form, ...]
Request = Generator[tuple[Node, Index], Any, Val]  # asks for operands, gives a value

REDUCTIONS: dict[str, Kind] = {"SumReduce": "sum", "MaxReduce": "max", "ProdReduce": "prod"}
# Whether it is summed over, and its extent -> divisors at which a flat variable is split.
Splits = dict[tuple[bool, Dim], set[Dim]]


def identity(kind: Kind, dtype: DType) -> float:
    """What a reduction of nothing is."""
    return {"sum": 0, "max": lowest(dtype), "prod": 1,
            "logadd": -math.inf}[kind]


def widened(dtype: DType, kind: Kind, doubles: bool = True) -> DType:
    """The dtype of the accumulator of products and running sums; doubles: there is float64."""
    return f64 if doubles and dtype is f32 and kind != "max" else dtype


def magnitude(d: Dim) -> int:
    """A dim at large sizes, by which divisors are ordered."""
    if not isinstance(d, Poly):
        return d
    return evaluate(d, {s.name: 10_007 + 2 * i for i, s in enumerate(sorted(symbols(d)))})


@dataclass(slots=True)
class Propagation:
    """Nodes of one graph turned into values. ``native``: names of elementwise ops with a spelling.

    Other named ops go through their expansion, which is recorded in the graph. ``stored`` maps
    node ids to buffer slots: such a node is loaded, as an Input is from its own slot.
    """

    graph: Graph
    native: frozenset[str]
    splits: Splits = field(default_factory=dict)
    stored: dict[int, int] = field(default_factory=dict)
    scanned: dict[tuple[int, Index], Val] = field(default_factory=dict)  # at their one index
    limit: int = 20_000
    doubles: bool = True  # whether the device has float64
    algebra: Algebra = None  # type: ignore[assignment]
    values: Values = None    # type: ignore[assignment]
    summed: dict[Var, set[bool]] = field(default_factory=dict)  # what each variable is bound for
    _memo: dict[tuple[int, Index], Val] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.algebra = self.algebra or Algebra(self.facts)
        self.values = self.values or Values(self.algebra, self.limit)

    @property
    def facts(self) -> Facts:
        return self.graph.facts

    def shape(self, node: Node) -> Shape:
        """The shape with every stated equality of dims substituted."""
        return tuple(map(self.facts.canonical, node.shape))

    # ---- loop variables
    def bind(self, shape: Shape, free: Iterable[Var],
             summed: bool = False) -> tuple[tuple[Var, ...], Index]:
        """Loop variables for a shape, and the index they make; ``summed``: of a reduction.

        Constant axes that are neighbours share one flat variable; a symbolic axis has its own. A
        variable is named by its extent and the smallest number not in ``free``, so equal
        computations get equal names.
        """
        taken = set(free)
        vars: list[Var] = []
        index: list[Form] = []
        run: list[int] = []

        def flush() -> None:
            if run:
                flat = self._flat(product(tuple(run)), taken, vars, summed)
                index.extend(self.algebra.unflatten(flat, tuple(run)))
                run.clear()

        for n in shape:
            if isinstance(n, int):
                run.append(n)
            else:
                flush()
                index.append(self._flat(n, taken, vars, summed))
        flush()
        return tuple(vars), tuple(index)

    def _flat(self, extent: Dim, taken: set[Var], vars: list[Var], summed: bool) -> Form:
        """One flat position, in mixed radix where the extent has splits."""
        flat, made = ZERO, []
        for n in self._radices(extent, summed):
            k = 0
            while Var(n, k) in taken:
                k += 1
            taken.add(Var(n, k))
            made.append(Var(n, k))
        for v in made:
            flat = flat * v.extent + variable(v)
            self.summed.setdefault(v, set()).add(summed)
        vars.extend(v for v in made if isinstance(v.extent, Poly) or v.extent > 1)
        return flat

    def _radices(self, n: Dim, summed: bool) -> list[Dim]:
        divisors = sorted(self.splits.get((summed, n), ()), key=magnitude)
        if not divisors:
            return [n]
        parts: list[Dim] = []
        previous: Dim = 1
        for d in [*divisors, n]:
            part = exact_div(d, previous)
            assert part is not None, "divisors are a chain"
            parts.append(part)
            previous = d
        return [r for part in reversed(parts) for r in self._radices(part, summed)]

    # ---- values
    def at(self, node: Node, index: Index) -> Val:
        """The value of a node at an index. Memoised; never recursive in Python."""
        memo = self._memo
        stack: list[tuple[tuple[int, Index], Request]] = []
        wanted: tuple[Node, Index] | None = (node, index)
        result: Val | None = None
        while True:
            if wanted is not None:
                key = (wanted[0].id, wanted[1])
                result = memo.get(key)
                if result is None:
                    stack.append((key, self._rule(*wanted)))
            if not stack:
                assert result is not None
                return result
            key, running = stack[-1]
            try:
                wanted = running.send(result)
            except StopIteration as done:
                stack.pop()
                result, wanted = done.value, None
                memo[key] = result
                if len(memo) > 4 * self.limit:
                    raise LoweringError(f"the fragment needs more than {4 * self.limit} pairs of "
                                        f"node and index; store an inner value and lower the "
                                        f"parts") from None

    def _rule(self, node: Node, index: Index) -> Request:
        if (node.id, index) in self.scanned:
            return self._known(self.scanned[node.id, index])
        if node.id in self.stored:
            return self._load(node, index, self.stored[node.id])
        if any(n == 0 for n in self.shape(node)):
            return self._constant(node, 0)  # no element exists, so no loop asks for one
        rule: Callable[[Propagation, Node, Index], Request] | None = _RULES.get(node.op.name)
        if rule is not None:
            return rule(self, node, index)
        if node.op.kind == "elementwise" and (node.op.name in self.native
                                              or node.op.expand is None):
            return self._elementwise(node, index)
        if node.op.expand is None:
            raise LoweringError(f"{node.op.name} cannot stand inside a loop nest; it is a stage "
                                f"of its own")
        return self._expanded(node, index)

    def _known(self, value: Val) -> Request:
        return value
        yield

    def _constant(self, node: Node, value: float) -> Request:
        return self.values.const(value, node.dtype)
        yield

    def _expanded(self, node: Node, index: Index) -> Request:
        assert node.op.expand is not None
        return (yield node.op.expand(self.graph, node.args, node.attrs), index)

    def _elementwise(self, node: Node, index: Index) -> Request:
        args = []
        for a in node.args:
            args.append((yield a, index))
        return self.values.make(node.op.name, tuple(args), node.dtype)

    def _select(self, node: Node, index: Index) -> Request:
        """One of two, where it is known which."""
        condition = yield node.args[0], index
        if condition.op == "const":
            return (yield node.args[1 if condition.attr else 2], index)
        first = yield node.args[1], index
        second = yield node.args[2], index
        return self.values.make("Select", (condition, first, second), node.dtype)

    def _less(self, node: Node, index: Index) -> Request:
        """A comparison of positions, or its result where that is the same at all of them."""
        a = yield node.args[0], index
        b = yield node.args[1], index
        first, second = _position(a), _position(b)
        if first is not None and second is not None:
            low, high = self.algebra.range(second - first)
            if low is not None and self.facts.nonnegative(low - 1):
                return self.values.const(1, node.dtype)
            if high is not None and self.facts.nonnegative(high * -1):
                return self.values.const(0, node.dtype)
        return self.values.make("LessThan", (a, b), node.dtype)

    def _guards(self, index: Index, shape: Shape) -> tuple[Guard, ...]:
        """What must be tested for an index to lie in a shape: of one position that was divided into
        several, the position. No index lies in an empty shape, whatever remainders say."""
        found = tuple(Guard(i, 0, n - 1) for i, n in zip(index, shape)
                      if not self.algebra.within(i, 0, n - 1))
        if 0 not in shape and any(g.form.divisors() for g in found):
            flat = self.algebra.flatten(index, shape)
            if not flat.divisors() and self.algebra.unflatten(flat, shape) == index:
                return (Guard(flat, 0, product(shape) - 1),)
        sizes = dict.fromkeys(d for i in index for d in i.divisors()) if found else ()
        return found + tuple(Guard(Form(d), 1, d) for d in sizes
                             if not self.algebra.within(Form(d), 1, d))

    # ---- sources
    def _load(self, node: Node, index: Index, slot: int) -> Request:
        shape = self.shape(node)
        return self.values.load(slot, node.dtype, self.algebra.flatten(index, shape),
                                self._guards(index, shape))
        yield

    def _input(self, node: Node, index: Index) -> Request:
        return self._load(node, index, node.attrs[0])

    def _full(self, node: Node, index: Index) -> Request:
        return self.values.make("const", (), node.dtype, node.attrs[2])
        yield

    def _size(self, node: Node, index: Index) -> Request:
        return self.values.size(self.facts.canonical(node.attrs[1][0]), node.dtype)
        yield

    def _iota(self, node: Node, index: Index) -> Request:
        if not index[0].terms and isinstance(index[0].const, int):
            return self.values.const(index[0].const, node.dtype)
        return self.values.index(index[0], node.dtype)
        yield

    # ---- movement
    def _contiguous(self, node: Node, index: Index) -> Request:
        return (yield node.args[0], index)

    def _reshape(self, node: Node, index: Index) -> Request:
        source = node.args[0]
        return (yield source, self.algebra.reshaped(index, self.shape(node), self.shape(source)))

    def _permute(self, node: Node, index: Index) -> Request:
        source: list[Form] = [ZERO] * len(index)
        for i, p in zip(index, node.attrs[0]):
            source[p] = i
        return (yield node.args[0], tuple(source))

    def _expand(self, node: Node, index: Index) -> Request:
        shape = self.shape(node.args[0])
        return (yield node.args[0], tuple(ZERO if n == 1 else i for i, n in zip(index, shape)))

    def _slice(self, node: Node, index: Index) -> Request:
        starts, _, steps = node.attrs
        return (yield node.args[0], tuple(i * step + self.facts.canonical(start)
                                          for i, start, step in zip(index, starts, steps)))

    def _flip(self, node: Node, index: Index) -> Request:
        axis = node.attrs[0]
        last = self.shape(node)[axis] - 1
        return (yield node.args[0], (*index[:axis], index[axis] * -1 + last, *index[axis + 1:]))

    def _window(self, node: Node, index: Index) -> Request:
        axis, _, stride, dilation = node.attrs
        at = self.algebra.recombine(index[axis] * stride + index[axis + 1] * dilation)
        return (yield node.args[0], (*index[:axis], at, *index[axis + 2:]))

    def _pad(self, node: Node, index: Index) -> Request:
        """A Select, so guards are no part of the memo key; the load itself where it gives 0."""
        low, _, fill = node.attrs
        source = tuple(i - self.facts.canonical(a) for i, a in zip(index, low))
        guards = self._guards(source, self.shape(node.args[0]))
        outside = self.values.make("const", (), node.dtype, fill)
        if any(map(self.algebra.outside, guards)) or 0 in self.shape(node.args[0]):
            return outside
        inside = yield node.args[0], source
        if not guards or inside is outside:
            return inside
        if fill == 0 and inside.op == "load" and set(guards) <= set(inside.attr.guards):
            return inside
        return self.values.make("Select", (self.values.cond(guards), inside, outside), node.dtype)

    # ---- the rest
    def _reduce(self, node: Node, index: Index) -> Request:
        """Nested reductions of one kind are one reduction over several axes."""
        inner, axes = node, set()
        while inner.op is node.op and inner.id not in self.stored or inner is node:
            axes.add(inner.attrs[0])
            inner = inner.args[0]
        kind = REDUCTIONS[node.op.name]
        shape, order = self.shape(inner), sorted(axes)
        extents = tuple(shape[a] for a in order)
        if 0 in extents:
            return self.values.const(identity(kind, node.dtype), node.dtype)
        vars, full = self._bound(order, extents, index)
        body = yield inner, tuple(full)
        if kind == "prod":
            body = self.widened(body, kind)
        cut = 1 if kind == "prod" else parts(shape, axes)
        return self.narrowed(self.values.reduce(kind, vars, body, body.dtype, cut), node.dtype)

    def _bound(self, axes: Sequence[int], extents: Shape,
               index: Index) -> tuple[tuple[Var, ...], list[Form]]:
        """Variables of axes that are reduced, those of neighbours as one, and the whole index."""
        vars: list[Var] = []
        full = list(index)
        free = frozenset().union(*(i.vars() for i in index))
        first = 0
        for n in range(1, len(axes) + 1):
            if n == len(axes) or axes[n] != axes[n - 1] + 1:
                made, at = self.bind(extents[first:n], free.union(vars), True)
                vars += made
                for axis, form in zip(axes[first:n], at):
                    full[axis] = form
                first = n
        return tuple(vars), full

    def widened(self, v: Val, kind: Kind) -> Val:
        """A value as products and running sums keep it: float32 in float64, where there is one."""
        wide = widened(v.dtype, kind, self.doubles)
        return v if wide is v.dtype else self.values.make("Cast", (v,), wide)

    def narrowed(self, v: Val, dtype: DType) -> Val:
        return v if v.dtype is dtype else self.values.make("Cast", (v,), dtype)

    def _gather(self, node: Node, index: Index) -> Request:
        """Indices are clamped; one that is a sum of positions is a form where it must fit."""
        x, which = node.args
        axis, rank = node.attrs[0], len(which.shape)
        n = self.shape(x)[axis]
        row = yield which, index[axis:axis + rank]
        at = positions(self.algebra, row, n)
        if at is None:
            at = Form(0, {Gathered(row, n): 1})
        return (yield x, (*index[:axis], at, *index[axis + rank:]))


def _position(v: Val) -> Form | None:
    """The form that an integer value equals everywhere: of bytes, which wrap around, none."""
    if v.dtype.kind != "int" or v.dtype.itemsize < 4:
        return None
    if v.op == "index":
        return v.attr
    n = number(v)
    return None if n is None else Form(n)


_RULES = {
    "Select": Propagation._select, "LessThan": Propagation._less,
    "Input": Propagation._input, "Full": Propagation._full, "Size": Propagation._size,
    "Iota": Propagation._iota, "Contiguous": Propagation._contiguous,
    "Reshape": Propagation._reshape, "Permute": Propagation._permute,
    "Expand": Propagation._expand, "Slice": Propagation._slice, "Flip": Propagation._flip,
    "Window": Propagation._window, "Pad": Propagation._pad, "Gather": Propagation._gather,
    **dict.fromkeys(REDUCTIONS, Propagation._reduce)}
