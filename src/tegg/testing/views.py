"""Random graphs of adversarial views: slices, pads, flips, windows, splits, at symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tegg.dim import Dim, Poly, dim, evaluate as size_of, exact_div, hint, product
from tegg.dtype import DTYPES
from tegg.errors import ShapeError
from tegg.ir.graph import Graph, Node
from tegg.testing.draw import Draw
from tegg.testing.property import st

S, B, P = dim("s", 0, 64, hint=20), dim("b", 0, 64, hint=3), dim("p", 1, 64, hint=20)
DIMS: tuple[Dim, ...] = (0, 1, 1, 2, 3, 5, 16, 17, 20, S, S, B, P, P + S, 2 * S, 4 * B)
RUNS = ({"s": 0, "b": 1, "p": 1}, {"s": 1, "b": 0, "p": 5}, {"s": 17, "b": 3, "p": 16},
        {"s": 5, "b": 4, "p": 15})
NAMED = ("Maximum", "Tanh", "Sigmoid")
LARGEST = 30_000  # elements of a node, at the hints


class _Recorder:
    """A graph that grows by drawn steps; a step that cannot be recorded draws nothing."""

    def __init__(self, draw: Callable[..., Any], dims: tuple[Dim, ...], dtype: str,
                 named: bool) -> None:
        self.g, self.draw, self.dims, self.dtype = Draw(), draw, dims, dtype
        self.op = self.g.op if named else self.g.idiom  # named ops, or their expansions
        self.pool: list[Node] = [self.fresh(tuple(self.pick(dims) for _ in range(
            self.number(0, 4))))]

    def pick(self, options: Iterable[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def number(self, low: int, high: int) -> int:
        drawn: int = self.draw(st.integers(low, high))
        return drawn

    def fresh(self, shape: tuple[Dim, ...]) -> Node:
        return self.g.x(*shape, dtype=self.dtype)

    def step(self) -> None:
        x = self.pick(self.pool[-3:])
        try:
            y = getattr(self, self.pick(STEPS))(x)
        except ShapeError:
            return
        if y is not None and len(y.shape) <= 8 and hint(product(y.shape)) <= LARGEST:
            self.pool.append(y)

    def _axis(self, x: Node) -> int | None:
        return self.number(0, len(x.shape) - 1) if x.shape else None

    def permute(self, x: Node) -> Node:
        return self.g.permute(x, tuple(self.draw(st.permutations(range(len(x.shape))))))

    def slice(self, x: Node) -> Node | None:
        ranges = []
        for n in x.shape:
            low, cut = self.pick((0, 0, 1, S)), self.pick((0, 0, 1, P))
            step = self.pick((1, 1, 2, 3)) if isinstance(n, int) else 1
            fits = self.g.facts.nonnegative(n - cut - low) and self.g.facts.nonnegative(n - cut)
            ranges.append((low, n - cut, step) if fits and not (
                step > 1 and isinstance(low, Poly)) else (0, n, 1))
        return self.g.slice(x, *ranges) if ranges else None

    def pad(self, x: Node) -> Node | None:
        widths = [(self.pick((0, 0, 1, 3, S)), self.pick((0, 0, 2, B))) for _ in x.shape]
        return self.g.padded(x, *widths, fill=self.pick((0, 2, -1))) if widths else None

    def flip(self, x: Node) -> Node | None:
        axis = self._axis(x)
        return None if axis is None else self.g.flip(x, axis)

    def grow(self, x: Node) -> Node:
        shape = tuple(self.pick((1, 4, 18, S)) if n == 1 else n for n in x.shape)
        return self.g.expand(x, (self.pick((1, 2)), *shape))

    def merge(self, x: Node) -> Node | None:
        if len(x.shape) < 2:
            return None
        i = self.number(0, len(x.shape) - 2)
        return self.g.reshape(x, (*x.shape[:i], x.shape[i] * x.shape[i + 1], *x.shape[i + 2:]))

    def split(self, x: Node) -> Node | None:
        axis = self._axis(x)
        if axis is None:
            return None
        d = self.pick((2, 3, 4, S, B, P))
        e = exact_div(x.shape[axis], d)
        if e is None:
            return None
        pair = self.pick(((d, e), (e, d)))
        return self.g.reshape(x, (*x.shape[:axis], *pair, *x.shape[axis + 1:]))

    def window(self, x: Node) -> Node | None:
        axis = self._axis(x)
        size = self.number(1, 4)
        return None if axis is None else self.g.window(x, axis, size, self.pick((1, 1, 2)),
                                                       self.pick((1, 2)))

    def sum(self, x: Node) -> Node | None:
        if not x.shape:
            return None
        axes = self.draw(st.sets(st.integers(0, len(x.shape) - 1), min_size=1))
        y = self.g.total(x, *sorted(axes), keep=self.pick((True, False)))
        return self.g.mul(y, 0.25) if DTYPES[self.dtype].is_float else y

    def max(self, x: Node) -> Node | None:
        axis = self._axis(x)
        if axis is None:
            return None
        y = self.g.top(x, axis, keep=self.pick((True, False)))
        low = self.g.full(-30, y.dtype, y.shape)  # the maximum of nothing
        return self.op("Maximum", y, low)

    def centre(self, x: Node) -> Node | None:
        axis = self._axis(x)
        return None if axis is None else self.g.sub(x, self.g.op("MaxReduce", x, axis))

    def arithmetic(self, x: Node) -> Node:
        y = self.g.mul(x, self.pick((2, -1)))
        return self.op("Maximum", y, x) if self.pick((True, False)) else self.g.add(y, x)

    def smooth(self, x: Node) -> Node | None:
        if not DTYPES[self.dtype].is_float:
            return None
        return self.op(self.pick(("Tanh", "Sigmoid")), self.g.mul(x, 0.5))

    def add(self, x: Node) -> Node:
        return self.g.add(x, self.fresh(x.shape))

    def reuse(self, x: Node) -> Node:
        return self.g.add(x, self.pick(self.pool))

    def gather(self, x: Node) -> Node | None:
        axis = self._axis(x)
        if axis is None:
            return None
        index = self.g.x(self.pick((1, 3, 17, S)), dtype=self.pick(("i32", "i64")))
        return self.g.op("Gather", x, index, axis)

    def mask(self, x: Node) -> Node | None:
        axis = self._axis(x)
        if axis is None:
            return None
        at = self.g.along(x.shape[axis], axis, len(x.shape))
        limit = self.g.size(self.pick((5, S, P)), at.dtype)
        return self.g.select(self.g.less(at, limit), x, self.g.full(-1, x.dtype))

    def concat(self, x: Node) -> Node | None:
        axis = self._axis(x)
        if axis is None:
            return None
        n = self.pick(self.dims)
        other = self.fresh((*x.shape[:axis], n, *x.shape[axis + 1:]))
        return self.g.concat([x, other], axis)


STEPS = ("permute", "slice", "pad", "flip", "grow", "merge", "split", "window", "sum", "max",
         "centre", "arithmetic", "smooth", "add", "reuse", "gather", "mask", "concat")


class Views:
    """Nodes of a graph of views. ``runs``: the sizes of its symbols to run it at."""

    def __init__(self, graph: Graph, outputs: tuple[Node, ...],
                 runs: tuple[dict[str, int], ...]) -> None:
        self.graph, self.outputs, self.runs = graph, outputs, runs

    def bind(self) -> Graph:
        """The graph with its outputs named, and every symbol the size of an input's axis: what
        compiling it needs. Call it once."""
        self.graph.outputs = {f"y{i}": n for i, n in enumerate(self.outputs)}
        self.graph.input("sizes", (S, B, P), "bool")
        return self.graph

    def counts(self, sizes: dict[str, int]) -> list[int]:
        """The number of elements of each node."""
        return [size_of(product(n.shape), sizes) for n in self.graph.reachable(self.outputs)]

    def inputs(self, sizes: dict[str, int], seed: int = 0) -> dict[int, np.ndarray]:
        """Values for every input; indices also lie outside of what they index."""
        rng = np.random.default_rng(seed)
        out = {}
        for slot, spec in enumerate(self.graph.inputs):
            shape = tuple(size_of(d, sizes) for d in spec.shape)
            out[slot] = (rng.standard_normal(shape).astype(spec.dtype.numpy)
                         if spec.dtype.is_float else
                         rng.integers(-3, 40, shape).astype(spec.dtype.numpy))
        return out

    def __repr__(self) -> str:
        lines = [f"%{n.id} = {n.op.name}{[a.id for a in n.args]} {list(n.attrs)} {n.dtype.name}"
                 f"{list(n.shape)}" for n in self.graph.reachable(self.outputs)]
        return "\n".join(["", *lines, f"outputs {[n.id for n in self.outputs]}"])


@st.composite
def views(draw: Callable[..., Any], symbolic: bool = False, named: bool = True,
          steps: int = 9, doubles: bool = True) -> Views:
    """One or two outputs that are computed through many movements of one array. ``named``: whether
    named ops are recorded as they are, or as their expansions. ``doubles``: whether it may be of
    float64."""
    dims = DIMS if symbolic else tuple(d for d in DIMS if isinstance(d, int))
    dtypes = ("f32", "f32", "i32", "u8", *(("f64",) if doubles else ()))
    dtype = "f32" if symbolic else draw(st.sampled_from(dtypes))
    r = _Recorder(draw, dims, dtype, named)
    for _ in range(draw(st.integers(2, steps))):
        r.step()
    outputs = [r.pool[-1], *({r.pick(r.pool[:-1])} if r.pool[:-1] else ())]
    return Views(r.g, tuple(outputs), RUNS)
