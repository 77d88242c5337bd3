"""Operand shapes and attributes that make an op give a wanted shape: for drawing instances."""

from __future__ import annotations

import math
from random import Random

from tegg.bits import bits_of
from tegg.dtype import DType, f64
from tegg.ir.graph import Node
from tegg.ir.op import PRODUCTS, Op
from tegg.testing.guards import Miss

Choice = tuple[list[tuple], list]  # shapes of the operands, values of the attributes


def choose(op: Op, shape: tuple, dtype: DType, bound: list, below: list[Node | None],
           rng: Random) -> Choice:
    """Shapes for the operands and values for the attributes. ``bound``: attributes that are
    fixed, or None; ``below``: operands that are fixed, or None. Raises Miss."""
    if op.name in _BY_NAME:
        return _BY_NAME[op.name](shape, dtype, bound, below, rng)
    if op.kind == "elementwise" or op.name == "Rope":
        return [shape] * op.arity, [dtype if b is None else b for b in bound]
    if op.name in ("SumReduce", "MaxReduce", "Mean"):
        return _reduce(shape, dtype, bound, below, rng)
    if op.kind in PRODUCTS:
        return _contract(shape, dtype, bound, rng)
    if op.kind == "composite":
        axis = _axis(bound[0], range(len(shape)), rng)
        eps = [bits_of(1e-3, dtype) if b is None else b for b in bound[1:]]
        return [shape] * op.arity, [axis, *eps]
    raise Miss


def _axis(bound: int | None, axes, rng: Random) -> int:
    axes = list(axes)
    if not axes or (bound is not None and bound not in axes):
        raise Miss
    return rng.choice(axes) if bound is None else bound


_SIZES = (0, *(1, 2, 3) * 5)


def _reduce(shape, dtype, bound, below, rng) -> Choice:
    if below and below[0] is not None:
        old = below[0].shape
        return [old], [_axis(bound[0], (i for i in range(len(old))
                                        if old[:i] + (1,) + old[i + 1:] == shape), rng)]
    axis = _axis(bound[0], (i for i, n in enumerate(shape) if n == 1), rng)
    n = rng.choice(_SIZES)
    return [shape[:axis] + (n,) + shape[axis + 1:]], [axis]


def _contract(shape, dtype, bound, rng) -> Choice:
    """Each axis of the result stands in one operand or in both; one more is summed, and stands
    anywhere. Attributes of a template come after the spec and the shape, and must be bound."""
    if dtype.kind == "bool" or any(b is None for b in bound[2:]) or bound[0] is not None:
        raise Miss
    letters = ["" if n == 1 else "abcdefg"[i] for i, n in enumerate(shape)]
    owners = {a: rng.choice(("x", "y", "xy")) for a in letters if a}
    axes = [[a for a in owners if side in owners[a]] for side in "xy"]
    for side in axes:
        side.insert(rng.randrange(len(side) + 1), "k")
    size = {**{a: n for a, n in zip(letters, shape) if a}, "k": rng.choice((1, 2, 3))}
    spec = ";".join(",".join(a) or "-" for a in (*axes, letters))
    return [tuple(size[a] for a in side) for side in axes], [spec, shape, *bound[2:]]


_VALUES = (0.5, 2.0, -1.5, 0.0, -0.0, 1e-3, math.nan, *(1.0 / n for n in range(1, 10)))


def _full(shape, dtype, bound, below, rng) -> Choice:
    if dtype.is_float:
        value = rng.choice(_VALUES)
    else:
        value = rng.choice((0, 1) if dtype.kind == "bool" else (0, 1, 3, 5))
        if dtype.name == "i64":  # patterns that would mean something else in a float
            value = rng.choice((value, bits_of(1.0, f64), bits_of(0.5, f64), bits_of(0.25, f64)))
    return [], [dtype if bound[0] is None else bound[0], shape if bound[1] is None else bound[1],
                bits_of(value, dtype) if bound[2] is None else bound[2]]


def _size(shape, dtype, bound, below, rng) -> Choice:
    return [], [dtype, (rng.choice((1, 2, 3, 4, 6)),) if bound[1] is None else bound[1]]


def _expand(shape, dtype, bound, below, rng) -> Choice:
    if below[0] is not None:
        return [below[0].shape], [shape]
    return [tuple(1 if rng.random() < 0.5 else n for n in shape)], [shape]


def _reshape(shape, dtype, bound, below, rng) -> Choice:
    """The same shape, one with axes of 1 put in or left out, two axes joined, or a flat one."""
    kind = rng.randrange(8)
    if kind == 0:
        return [shape], [shape]
    if kind == 1:
        return [tuple(n for n in shape if n != 1)], [shape]
    if kind == 2:
        at = rng.randrange(len(shape) + 1)
        return [shape[:at] + (1,) + shape[at:]], [shape]
    if kind > 3 and len(shape) > 1:
        at = rng.randrange(len(shape) - 1)
        return [shape[:at] + (shape[at] * shape[at + 1],) + shape[at + 2:]], [shape]
    return [(math.prod(shape),)], [shape]


def _permute(shape, dtype, bound, below, rng) -> Choice:
    perm = bound[0] or tuple(rng.sample(range(len(shape)), len(shape)))
    if sorted(perm) != list(range(len(shape))):
        raise Miss
    old = [0] * len(shape)
    for n, p in zip(shape, perm):
        old[p] = n
    return [tuple(old)], [perm]


def _flip(shape, dtype, bound, below, rng) -> Choice:
    return [shape], [_axis(bound[0], range(len(shape)), rng)]


def _slice(shape, dtype, bound, below, rng) -> Choice:
    """Half of the last axis and all of the others, as often as any range of each axis."""
    old = below[0].shape if below[0] is not None else None
    if old is not None and (len(old) != len(shape) or any(n > m for n, m in zip(shape, old))):
        raise Miss
    if shape and rng.random() < 0.5:
        old = old or (*shape[:-1], 2 * shape[-1])
        start = rng.choice((0, old[-1] - shape[-1]))
        starts = (*(0,) * (len(shape) - 1), start)
        return [old], [starts, tuple(a + n for a, n in zip(starts, shape)), (1,) * len(shape)]
    steps = tuple(rng.choice((1, 2)) for _ in shape)
    if old is not None:
        steps = tuple(k if k * (n - 1) < m else 1 for k, n, m in zip(steps, shape, old))
    spans = tuple((n - 1) * k + 1 if n else 0 for n, k in zip(shape, steps))
    starts = tuple(rng.randrange(3 if old is None else old[i] - span + 1)
                   for i, span in enumerate(spans))
    stops = tuple(a + span for a, span in zip(starts, spans))
    loose = tuple(b + rng.randrange(k) if n else b for b, n, k in zip(stops, shape, steps))
    if old is None:
        return [tuple(b + rng.randrange(2) for b in loose)], [starts, loose, steps]
    return [old], [starts, tuple(map(min, loose, old)), steps]


def _pad(shape, dtype, bound, below, rng) -> Choice:
    low = tuple(rng.randrange(n) if n else 0 for n in shape)
    high = tuple(rng.randrange(n - a) if n else 0 for n, a in zip(shape, low))
    fill = bound[2] if bound[2] is not None else bits_of(rng.choice((0, 1)), dtype)
    return [tuple(n - a - b for n, a, b in zip(shape, low, high))], [low, high, fill]


def _window(shape, dtype, bound, below, rng) -> Choice:
    axis = _axis(bound[0], range(len(shape) - 1), rng)
    positions, size = shape[axis], shape[axis + 1]
    stride, dilation = rng.choice((1, 2)), rng.choice((1, 2))
    n = (positions - 1) * stride + (size - 1) * dilation + 1
    return [shape[:axis] + (n,) + shape[axis + 2:]], [axis, size, stride, dilation]


def _gather(shape, dtype, bound, below, rng) -> Choice:
    axis = _axis(bound[0], range(len(shape)), rng)
    return [shape[:axis] + (rng.choice((1, 2, 3)),) + shape[axis + 1:], (shape[axis],)], [axis]


def _scatter(shape, dtype, bound, below, rng) -> Choice:
    axis, n = _axis(bound[0], range(len(shape)), rng), rng.choice((1, 2, 3))
    mode = bound[1] if bound[1] is not None else rng.choice(("last", "add", "max"))
    return [shape, (n,), shape[:axis] + (n,) + shape[axis + 1:]], [axis, mode]


_BY_NAME = {"Full": _full, "Size": _size, "Expand": _expand, "Reshape": _reshape,
            "Permute": _permute, "Flip": _flip, "Slice": _slice, "Pad": _pad, "Window": _window,
            "Gather": _gather, "Scatter": _scatter}
