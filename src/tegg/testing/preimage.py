"""Operand shapes and attributes that make an op give a wanted shape: for drawing instances."""

from __future__ import annotations

import math

from tegg.bits import bits_of
from tegg.dim import Dim, product
from tegg.dtype import DType, f64
from tegg.ir.graph import Node
from tegg.ir.op import PRODUCTS, Op
from tegg.testing.guards import Miss
from tegg.testing.sizes import Sizes, at_least

Choice = tuple[list[tuple], list]  # shapes of the operands, values of the attributes


def choose(op: Op, shape: tuple, dtype: DType, bound: list, below: list[Node | None],
           sizes: Sizes) -> Choice:
    """Shapes for the operands and values for the attributes. ``bound``: attributes that are
    fixed, or None; ``below``: operands that are fixed, or None. Raises Miss."""
    if op.name in _BY_NAME:
        return _BY_NAME[op.name](shape, dtype, bound, below, sizes)
    if op.kind in ("elementwise", "copy") or op.name == "Rope":
        return [shape] * op.arity, [dtype if b is None else b for b in bound]
    if op.name in ("SumReduce", "MaxReduce", "Mean"):
        return _reduce(shape, dtype, bound, below, sizes)
    if op.kind in PRODUCTS:
        return _contract(shape, dtype, bound, sizes)
    if op.kind == "composite":
        axis = _axis(bound[0], range(len(shape)), sizes)
        eps = [bits_of(1e-3, dtype) if b is None else b for b in bound[1:]]
        return [shape] * op.arity, [axis, *eps]
    raise Miss


def _axis(bound: int | None, axes, sizes: Sizes) -> int:
    axes = list(axes)
    if not axes or (bound is not None and bound not in axes):
        raise Miss
    return sizes.rng.choice(axes) if bound is None else bound


def _reduce(shape, dtype, bound, below, sizes) -> Choice:
    if below and below[0] is not None:
        old = below[0].shape
        return [old], [_axis(bound[0], (i for i in range(len(old))
                                        if old[:i] + (1,) + old[i + 1:] == shape), sizes)]
    axis = _axis(bound[0], (i for i, n in enumerate(shape) if n == 1), sizes)
    n = sizes.any()
    return [shape[:axis] + (n,) + shape[axis + 1:]], [axis]


def _contract(shape, dtype, bound, sizes) -> Choice:
    """Each axis of the result stands in one operand or in both; one more is summed, and stands
    anywhere. Attributes of a template come after the spec and the shape, and must be bound."""
    if dtype.kind == "bool" or any(b is None for b in bound[2:]) or bound[0] is not None:
        raise Miss
    letters = ["" if n == 1 else "abcdefg"[i] for i, n in enumerate(shape)]
    owners = {a: sizes.rng.choice(("x", "y", "xy")) for a in letters if a}
    axes = [[a for a in owners if side in owners[a]] for side in "xy"]
    for side in axes:
        side.insert(sizes.rng.randrange(len(side) + 1), "k")
    size = {**{a: n for a, n in zip(letters, shape) if a}, "k": sizes.positive()}
    spec = ";".join(",".join(a) or "-" for a in (*axes, letters))
    return [tuple(size[a] for a in side) for side in axes], [spec, shape, *bound[2:]]


_VALUES = (0.5, 2.0, -1.5, 0.0, -0.0, 1e-3, math.nan, *(1.0 / n for n in range(1, 10)))


def _full(shape, dtype, bound, below, sizes) -> Choice:
    if dtype.is_float:
        value = sizes.rng.choice(_VALUES)
    else:
        value = sizes.rng.choice((0, 1) if dtype.kind == "bool" else (0, 1, 3, 5))
        if dtype.name == "i64":  # patterns that would mean something else in a float
            value = sizes.rng.choice((value, *(bits_of(x, f64) for x in (1.0, 0.5, 0.25))))
    return [], [dtype if bound[0] is None else bound[0], shape if bound[1] is None else bound[1],
                bits_of(value, dtype) if bound[2] is None else bound[2]]


def _size(shape, dtype, bound, below, sizes) -> Choice:
    return [], [dtype, (sizes.factor(),) if bound[1] is None else bound[1]]


def _expand(shape, dtype, bound, below, sizes) -> Choice:
    if below[0] is not None:
        return [below[0].shape], [shape]
    return [tuple(1 if sizes.rng.random() < 0.5 else n for n in shape)], [shape]


def _reshape(shape, dtype, bound, below, sizes) -> Choice:
    """The same shape, one with axes of 1 put in or left out, two axes joined, or a flat one."""
    kind = sizes.rng.randrange(8)
    if kind == 0:
        return [shape], [shape]
    if kind == 1:
        return [tuple(n for n in shape if n != 1)], [shape]
    if kind == 2:
        at = sizes.rng.randrange(len(shape) + 1)
        return [shape[:at] + (1,) + shape[at:]], [shape]
    if kind > 3 and len(shape) > 1:
        at = sizes.rng.randrange(len(shape) - 1)
        return [shape[:at] + (shape[at] * shape[at + 1],) + shape[at + 2:]], [shape]
    return [(product(shape),)], [shape]


def _permute(shape, dtype, bound, below, sizes) -> Choice:
    perm = bound[0] or tuple(sizes.rng.sample(range(len(shape)), len(shape)))
    if sorted(perm) != list(range(len(shape))):
        raise Miss
    old = [0] * len(shape)
    for n, p in zip(shape, perm):
        old[p] = n
    return [tuple(old)], [perm]


def _flip(shape, dtype, bound, below, sizes) -> Choice:
    return [shape], [_axis(bound[0], range(len(shape)), sizes)]


def _slice(shape, dtype, bound, below, sizes) -> Choice:
    """Half of the last axis and all of the others, as often as any range of each axis."""
    old = below[0].shape if below[0] is not None else None
    if old is not None and (len(old) != len(shape)
                            or not all(at_least(m, n) for n, m in zip(shape, old))):
        raise Miss
    if shape and sizes.rng.random() < 0.5:
        old = old or (*shape[:-1], 2 * shape[-1])
        start = sizes.rng.choice((0, old[-1] - shape[-1]))
        starts = (*(0,) * (len(shape) - 1), start)
        return [old], [starts, tuple(a + n for a, n in zip(starts, shape)), (1,) * len(shape)]
    ranges = [_range(n, old[i] if old is not None else None, sizes) for i, n in enumerate(shape)]
    whole, starts, stops, steps = (tuple(r[i] for r in ranges) for i in range(4))
    return [whole if old is None else old], [starts, stops, steps]


def _range(n: Dim, whole: Dim | None, sizes: Sizes) -> tuple[Dim, Dim, Dim, int]:
    """The size of an axis, unless it is known, and a range of it that gives n elements."""
    rng = sizes.rng
    step = rng.choice((1, 2))
    if not isinstance(n, int):  # the last step ends with the axis: then it divides at every size
        if whole is None:
            start, step = rng.randrange(3), rng.choice((1, 1, step))
            return start + n * step + rng.randrange(2), start, start + n * step, step
        first: Dim = rng.choice((0, sizes.below(whole - n + 1), whole - n))
        return whole, first, first + n, 1
    if isinstance(whole, int) and step * (n - 1) >= whole:
        step = 1
    span = (n - 1) * step + 1 if n else 0
    room = 2 if whole is None else sizes.below(whole - span + 1)
    start = rng.randrange(room + 1)
    stop = start + span + (rng.randrange(step) if n else 0)
    if whole is None:
        return stop + rng.randrange(2), start, stop, step
    return whole, start, min(stop, whole) if isinstance(whole, int) else start + span, step


def _pad(shape, dtype, bound, below, sizes) -> Choice:
    low = tuple(_width(n, sizes) for n in shape)
    high = tuple(_width(n - a, sizes) for n, a in zip(shape, low))
    fill = bound[2] if bound[2] is not None else bits_of(sizes.rng.choice((0, 1)), dtype)
    return [tuple(n - a - b for n, a, b in zip(shape, low, high))], [low, high, fill]


def _width(n: Dim, sizes: Sizes) -> Dim:
    """How much of an axis is padding, on one of its ends."""
    return sizes.below(n) if isinstance(n, int) else sizes.rng.choice((0, sizes.cut(n) or 0))


def _window(shape, dtype, bound, below, sizes) -> Choice:
    axis = _axis(bound[0], range(len(shape) - 1), sizes)
    positions, size = shape[axis], shape[axis + 1]
    if not isinstance(size, int) or not (isinstance(positions, int) or at_least(positions, 1)):
        raise Miss
    stride, dilation = sizes.rng.choice((1, 2)), sizes.rng.choice((1, 2))
    n = (positions - 1) * stride + (size - 1) * dilation + 1
    return [shape[:axis] + (n,) + shape[axis + 2:]], [axis, size, stride, dilation]


def _gather(shape, dtype, bound, below, sizes) -> Choice:
    axis = _axis(bound[0], range(len(shape)), sizes)
    return [shape[:axis] + (sizes.positive(),) + shape[axis + 1:], (shape[axis],)], [axis]


def _scatter(shape, dtype, bound, below, sizes) -> Choice:
    axis, n = _axis(bound[0], range(len(shape)), sizes), sizes.positive()
    mode = bound[1] if bound[1] is not None else sizes.rng.choice(("last", "add", "max"))
    return [shape, (n,), shape[:axis] + (n,) + shape[axis + 1:]], [axis, mode]


_BY_NAME = {"Full": _full, "Size": _size, "Expand": _expand, "Reshape": _reshape,
            "Permute": _permute, "Flip": _flip, "Slice": _slice, "Pad": _pad, "Window": _window,
            "Gather": _gather, "Scatter": _scatter}
