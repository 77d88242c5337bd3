"""Random graphs over the op table, with inputs to evaluate them on."""

from __future__ import annotations

import numpy as np

from tegg.bits import bits_of
from tegg.dim import Dim, dim, evaluate, product
from tegg.dtype import bool_, f32, f64, i32
from tegg.dtype import dtype as as_dtype
from tegg.errors import TeggError
from tegg.ir.graph import Graph, Node
from tegg.testing.property import st

UNARY = ("Exp2", "Sin", "Sqrt", "Recip", "Log2", "Contiguous")
# Named ops round differently from their expansions, so they are not drawn together with ops that
# amplify that: comparisons, casts to integers, poles.
SMOOTH = ("Sin", "Contiguous")
NAMED = ("Neg", "Sigmoid", "Tanh", "Silu", "Gelu", "Relu", "Abs")
ROWS = ("Softmax", "LogSoftmax", "Mean")
SIZES = (1, 2, 3, 4, 6)


class Program:
    """A graph, the sizes of its symbols, and an array per input slot."""

    def __init__(self, graph: Graph, sizes: dict[str, int], inputs: dict[int, np.ndarray],
                 dims: list[Dim]) -> None:
        self.graph, self.sizes, self.inputs, self.dims = graph, sizes, inputs, dims

    def bind(self) -> dict[int, np.ndarray]:
        """The inputs, with weights bound to theirs, and every symbol the size of an input's axis:
        what compiling the graph needs. Call it once."""
        inputs = {i: np.array(v) for i, v in self.inputs.items()}
        for i, spec in enumerate(self.graph.inputs):
            if spec.kind == "weight":
                spec.source = inputs[i]
        if self.sizes:
            inputs[len(self.graph.inputs)] = np.zeros(tuple(self.sizes.values()), np.float32)
            self.graph.input("sizes", tuple(self.dims), "f32")
        return inputs

    def __repr__(self) -> str:
        g = self.graph
        lines = [f"%{n.id} = {n.op.name}{[a.id for a in n.args]} {list(n.attrs)} {n.dtype.name}"
                 f"{list(n.shape)}" for n in g.reachable()]
        ends = {k: n.id for k, n in g.outputs.items()}
        return "\n".join(["", *lines, f"idioms {g.idioms}",
                          f"outputs {ends} updates { {s: n.id for s, n in g.updates.items()} }",
                          f"sizes {self.sizes}"])


class _Recorder:
    def __init__(self, draw, symbolic: bool, named: bool, doubles: bool) -> None:
        self.draw, self.g, self.named = draw, Graph(), named
        self.wide = (f64,) if doubles else ()
        self.dims: list[Dim] = list(SIZES)
        self.sizes: dict[str, int] = {}
        if symbolic:
            self.dims += [dim("s", min=1, max=6, hint=4), dim("u", min=1, max=6)]
            self.sizes = {"s": draw(st.integers(1, 6)), "u": draw(st.integers(1, 6))}
        self.pool: list[Node] = []

    def pick(self, values):
        return self.draw(st.sampled_from(list(values)))

    def node(self, dtype=None) -> Node:
        found = [n for n in self.pool if dtype is None or n.dtype is dtype]
        return self.pick(found[-6:] if self.draw(st.booleans()) else found) if found else \
            self.source(dtype or f32)

    def source(self, dtype=None) -> Node:
        dtype = dtype or self.pick((f32, f32, f32, *self.wide, i32))
        shape = tuple(self.pick(self.dims) for _ in range(self.draw(st.integers(0, 3))))
        kind = self.pick(("arg", "arg", "weight"))
        n = self.g.input(f"x{len(self.g.inputs)}", shape, dtype, kind)
        self.pool.append(n)
        return n

    def step(self) -> None:
        """Record one op; a drawing that the op refuses records nothing."""
        kinds = ["unary", "binary", "binary", "binary", "reduce", "reduce", "move", "move", "move",
                 "gather", "constant"]
        kinds += ["named", "named", "row", "row", "product"] if self.named else [
            "less", "select", "cast"]
        try:
            n = getattr(self, "_" + self.pick(kinds))()
        except TeggError:
            return
        if product(n.shape) != 0 and _small(n.shape, self.sizes) and len(n.shape) <= 5:
            self.pool.append(n)

    def _unary(self):
        return self.g.op(self.pick(SMOOTH if self.named else UNARY), self.node())

    def _named(self):
        return self.g.idiom(self.pick(NAMED), self.node())

    def _binary(self):
        x = self.node()
        y = self.pick([n for n in self.pool if n.dtype is x.dtype])
        return self.pick((self.g.add, self.g.mul))(x, y)

    def _less(self):
        x = self.node()
        return self.g.less(x, self.pick([n for n in self.pool if n.dtype is x.dtype]))

    def _select(self):
        c, x = self.node(bool_), self.node()
        if c.dtype is not bool_:
            c = self.g.less(x, 0)
        return self.g.select(c, x, self.pick([n for n in self.pool if n.dtype is x.dtype]))

    def _cast(self):
        return self.g.cast(self.node(), self.pick((f32, *self.wide, i32, bool_)))

    def _constant(self):
        if self.draw(st.booleans()):
            return self.g.full(self.pick((0, 1, -2, 3)), self.pick((f32, i32)),
                               (self.pick(self.dims),))
        return self.g.iota(self.pick(self.dims), self.pick((f32, i32)))

    def _axis(self, x):
        return self.draw(st.integers(0, max(0, len(x.shape) - 1)))

    def _row(self):
        x = self.node()
        if not x.shape:
            return x
        name = self.pick((*ROWS, "Normalize", "RmsNormalize"))
        eps = (bits_of(1e-3, f32),) if name.endswith("Normalize") else ()
        return self.g.idiom(name, x, self._axis(x), *eps)

    def _reduce(self):
        x = self.node()
        r = self.g.op(self.pick(("SumReduce", "MaxReduce")), x, self._axis(x))
        return self.g.expand(r, x.shape) if self.draw(st.booleans()) else r

    def _gather(self):
        x = self.node()
        return self.g.op("Gather", x, self.node(i32), self._axis(x))

    def _product(self):
        """A product of what two values have in common on their last axis."""
        x = self.node()
        if not x.shape:
            return x
        k = x.shape[-1]
        x = self.g.reshape(x, (product(x.shape[:-1]), k))
        n = self.pick((2, 3, 5))
        w = self.g.input(f"x{len(self.g.inputs)}", (n, k), x.dtype, self.pick(("arg", "weight")))
        return self.g.idiom("Contract", x, w, "m,k;n,k;m,n", (x.shape[0], n))

    def _move(self):
        g, x = self.g, self.node()
        kind = self.pick(("permute", "reshape", "expand", "narrow", "pad", "flip", "window",
                          "concat"))
        rank, axis = len(x.shape), self._axis(x)
        if kind == "permute":
            return g.permute(x, tuple(self.draw(st.permutations(range(rank)))))
        if kind == "reshape":
            return g.reshape(x, self.pick(((product(x.shape),), (*x.shape, 1), (1, *x.shape))))
        if kind == "expand":
            return g.expand(x, (self.pick(SIZES[:3]), *x.shape))
        if kind == "pad":
            widths = tuple(self.draw(st.integers(0, 2)) for _ in range(2 * rank))
            return g.pad(x, widths[:rank], widths[rank:], self.pick((0, 1)))
        if kind == "narrow":
            return g.narrow(x, axis, 1, x.shape[axis] - 1) if rank else x
        if kind == "flip":
            return g.op("Flip", x, axis)
        if kind == "window":
            return g.op("Window", x, axis, 2, 1, 1)
        return g.concat([x, x], axis) if rank else x


def _small(shape, sizes) -> bool:
    return int(np.prod([evaluate(d, sizes) for d in shape], dtype=np.int64)) <= 600


@st.composite
def programs(draw, steps: int = 18, symbolic: bool | None = None,
             doubles: bool = True) -> Program:
    """A random program with one to three outputs and sometimes one or two states. ``doubles``:
    whether float64 may occur in it."""
    symbolic = draw(st.booleans()) if symbolic is None else symbolic
    r = _Recorder(draw, symbolic, draw(st.booleans()), doubles)
    r.source(f32)
    for _ in range(draw(st.integers(steps // 3, steps))):
        r.step()
    g = r.g
    for i in range(draw(st.integers(1, 3))):
        g.outputs[f"y{i}"] = r.pool[-1] if i == 0 else r.node()
    args = [s for s, spec in enumerate(g.inputs) if spec.kind == "arg"]
    for s in args[:2]:
        new = [n for n in r.pool if n.shape == g.inputs[s].shape and n.dtype is g.inputs[s].dtype]
        if new and draw(st.booleans()):
            g.inputs[s].kind = "state"
            g.updates[s] = draw(st.sampled_from(new))
    rng = np.random.default_rng(draw(st.integers(0, 2 ** 16)))
    inputs = {s: _values(rng, spec, r.sizes) for s, spec in enumerate(g.inputs)}
    return Program(g, r.sizes, inputs, r.dims[len(SIZES):])


def _values(rng, spec, sizes):
    shape = tuple(evaluate(d, sizes) for d in spec.shape)
    dtype = as_dtype(spec.dtype)
    if dtype.kind == "int":
        return rng.integers(-3, 6, shape).astype(dtype.numpy)
    return (rng.integers(-8, 9, shape) / 4).astype(dtype.numpy)
