"""Random graphs of adversarial views, constant and symbolic, against the oracle."""

from __future__ import annotations

import numpy as np
from strategies import examples
from draw import Draw
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from kernels import build, call, close
from tegg.backends.cpu.emit import C

from tegg.dim import Dim, Poly, dim, exact_div, hint, product
from tegg.dim import evaluate as size_of
from tegg.dtype import DTYPES
from tegg.errors import LoweringError, ShapeError
from tegg.ir.graph import Node
from tegg.kernel.lower import lower
from tegg.ir.oracle import evaluate

S, B, P = dim("s", 0, 64, hint=20), dim("b", 0, 64, hint=3), dim("p", 1, 64, hint=20)
DIMS: tuple[Dim, ...] = (0, 1, 1, 2, 3, 5, 16, 17, 20, S, S, B, P, P + S, 2 * S, 4 * B)
RUNS = ({"s": 0, "b": 1, "p": 1}, {"s": 1, "b": 0, "p": 5}, {"s": 17, "b": 3, "p": 16},
        {"s": 5, "b": 4, "p": 15})
LARGEST = 30_000  # elements of a node, at the hints


class Program:
    """A graph that grows by drawn steps; a step that cannot be recorded draws nothing."""

    def __init__(self, data: st.DataObject, dims: tuple[Dim, ...], dtype: str) -> None:
        self.g, self.data, self.dims, self.dtype = Draw(), data, dims, dtype
        self.pool: list[Node] = [self.fresh(tuple(self.pick(dims) for _ in range(
            self.number(0, 4))))]

    def pick(self, options):
        return self.data.draw(st.sampled_from(list(options)))

    def number(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

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
        return self.g.permute(x, tuple(self.data.draw(st.permutations(range(len(x.shape))))))

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
        axes = self.data.draw(st.sets(st.integers(0, len(x.shape) - 1), min_size=1))
        y = self.g.total(x, *sorted(axes), keep=self.pick((True, False)))
        return self.g.mul(y, 0.25) if DTYPES[self.dtype].is_float else y

    def max(self, x: Node) -> Node | None:
        axis = self._axis(x)
        if axis is None:
            return None
        y = self.g.top(x, axis, keep=self.pick((True, False)))
        low = self.g.full(-30, y.dtype, y.shape)  # the maximum of nothing
        return self.g.op("Maximum", y, low)

    def centre(self, x: Node) -> Node | None:
        axis = self._axis(x)
        return None if axis is None else self.g.sub(x, self.g.op("MaxReduce", x, axis))

    def arithmetic(self, x: Node) -> Node:
        y = self.g.mul(x, self.pick((2, -1)))
        return self.g.op("Maximum", y, x) if self.pick((True, False)) else self.g.add(y, x)

    def smooth(self, x: Node) -> Node | None:
        if not DTYPES[self.dtype].is_float:
            return None
        return self.g.op(self.pick(("Tanh", "Sigmoid")), self.g.mul(x, 0.5))

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


def compare(program: Program, width: int) -> None:
    """At several sizes, with one and two threads and both guard pages."""
    g = program.g
    outputs = [program.pool[-1], *({program.pick(program.pool[:-1])} if program.pool[:-1] else ())]
    try:
        code = lower(g, outputs, "k", C(width))
    except LoweringError:
        return
    note(code.source)
    if code.work.evaluations > 3e7:
        return
    library = build(code.source, width)
    runs = RUNS if code.symbols else RUNS[:1]
    for i, sizes in enumerate(runs):
        if any(size_of(product(n.shape), sizes) > 300_000 for n in g.reachable(outputs)):
            continue
        rng = np.random.default_rng(i)
        inputs = {}
        for slot, spec in enumerate(g.inputs):
            shape = tuple(size_of(d, sizes) for d in spec.shape)
            inputs[slot] = (rng.standard_normal(shape).astype(spec.dtype.numpy)
                            if spec.dtype.is_float else
                            rng.integers(-3, 40, shape).astype(spec.dtype.numpy))
        want = evaluate(outputs, inputs, sizes)
        for threads in (1, 2):
            got = call(library, code, g, outputs, inputs, sizes, threads, (i + threads) % 2 == 0)
            for a, b, node in zip(got, want, outputs):
                finite = b if not node.dtype.is_float else np.where(np.abs(b) < 1e30, b, 0)
                a = a if not node.dtype.is_float else np.where(np.abs(b) < 1e30, a, 0)
                why = close(a.astype(b.dtype), finite.astype(b.dtype), node.dtype, 8)
                assert why is None, f"{sizes}, {threads} threads: {why}"


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=examples(40), **COMMON)
@given(st.data())
def test_constant_shapes(data):
    dims = tuple(d for d in DIMS if isinstance(d, int))
    program = Program(data, dims, data.draw(st.sampled_from(("f32", "f32", "i32", "u8", "f64"))))
    for _ in range(data.draw(st.integers(2, 9))):
        program.step()
    compare(program, data.draw(st.sampled_from((16, 8, 4))))


@settings(max_examples=examples(40), **COMMON)
@given(st.data())
def test_symbolic_shapes(data):
    program = Program(data, DIMS, "f32")
    for _ in range(data.draw(st.integers(2, 9))):
        program.step()
    compare(program, 16)
