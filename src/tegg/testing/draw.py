"""Short names for recording graphs in tests of kernels."""

from __future__ import annotations

from tegg.bits import bits_of
from tegg.dim import Dim
from tegg.ir.graph import Graph, Node
from tegg.shape import broadcast


class Draw(Graph):
    """A graph with the operations that tests of kernels write often."""

    def x(self, *shape: Dim, dtype: str = "f32") -> Node:
        """A new input."""
        return self.input(f"x{len(self.inputs)}", shape, dtype)

    def named(self, name: str, *args) -> Node:
        """A named op on operands that are broadcast."""
        nodes = [a if isinstance(a, Node) else self.full(a, args[0].dtype) for a in args]
        return self.op(name, *(self.expand(n, broadcast([m.shape for m in nodes], self.facts))
                              for n in nodes))

    def sub(self, a, b):
        return self.add(a, self.mul(b, -1)) if isinstance(b, Node) else self.add(a, -b)

    def div(self, a, b):
        return self.mul(a, self.op("Recip", b))

    def exp(self, a):
        return self.op("Exp", a)

    def total(self, x: Node, *axes: int, keep: bool = False, op: str = "SumReduce") -> Node:
        """A reduction over axes, which go away unless kept."""
        axes = tuple(a % len(x.shape) for a in axes)
        for a in axes:
            x = self.op(op, x, a)
        return x if keep else self.reshape(x, tuple(n for i, n in enumerate(x.shape)
                                                    if i not in axes))

    def top(self, x: Node, *axes: int, keep: bool = False) -> Node:
        return self.total(x, *axes, keep=keep, op="MaxReduce")

    def softmax(self, x: Node, axis: int) -> Node:
        axis %= len(x.shape)
        e = self.exp(self.sub(x, self.op("MaxReduce", x, axis)))
        return self.div(e, self.op("SumReduce", e, axis))

    def slice(self, x: Node, *ranges: tuple) -> Node:
        starts, stops, steps = zip(*ranges)
        return self.op("Slice", x, starts, stops, steps)

    def padded(self, x: Node, *widths: tuple[Dim, Dim], fill: float = 0) -> Node:
        low, high = zip(*widths)
        return self.op("Pad", x, low, high, bits_of(fill, x.dtype))

    def flip(self, x: Node, axis: int) -> Node:
        return self.op("Flip", x, axis)

    def window(self, x: Node, axis: int, size: int, stride: int = 1, dilation: int = 1) -> Node:
        return self.op("Window", x, axis, size, stride, dilation)

    def along(self, n: Dim, axis: int, rank: int, dtype: str = "i64") -> Node:
        """0, 1, 2, ... along one axis of a rank."""
        return self.reshape(self.iota(n, dtype), tuple(n if a == axis else 1 for a in range(rank)))

    def norm(self, x: Node, axis: int, eps: float = 1e-5) -> Node:
        n = x.shape[axis]
        assert isinstance(n, int), "norm is for axes of known size"
        d = self.sub(x, self.mul(self.op("SumReduce", x, axis), 1.0 / n))
        var = self.mul(self.op("SumReduce", self.mul(d, d), axis), 1.0 / n)
        return self.mul(d, self.op("Rsqrt", self.add(var, eps)))

    def matmul(self, a: Node, b: Node) -> Node:
        """[..., m, k] @ [..., k, n] by the primops."""
        *lead, m, k = a.shape
        n = b.shape[-1]
        left = self.expand(self.reshape(a, (*lead, m, k, 1)), (*lead, m, k, n))
        right = self.expand(self.reshape(b, (*b.shape[:-2], 1, k, n)), (*lead, m, k, n))
        return self.total(self.mul(left, right), len(lead) + 1)
