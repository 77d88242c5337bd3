"""What is joined, mirrored, rolled, padded, turned and cut, any of it after any other, against NumPy:
the same elements, whatever loops and lanes they are moved by."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from profiles import examples

import tegg
from tegg.dtype import DTYPES

LONGEST = {1: 3000, 2: 150, 3: 40, 4: 14}  # axes, by their number
NAMES = ("f32", "u8", "bool", "i8", "f64", "i64", "f16")
MODES = {"constant": "constant", "reflect": "reflect", "circular": "wrap", "replicate": "edge"}


def around(a, axis, low, high):
    """Pairs of widths, of one axis."""
    return [(low, high) if i == axis else (0, 0) for i in range(len(a.shape))]


class Numpy:
    """The steps, of arrays."""

    cat, flip, stack = np.concatenate, np.flip, np.stack
    roll, turn = np.roll, np.transpose

    @staticmethod
    def pad(a, axis, low, high, mode):
        return np.pad(a, around(a, axis, low, high), MODES[mode])


class Tegg:
    """The steps, of tensors."""

    cat, flip, stack = tegg.concat, tegg.flip, tegg.stack
    roll, turn = tegg.roll, tegg.permute

    @staticmethod
    def pad(a, axis, low, high, mode):
        return tegg.pad(a, around(a, axis, low, high), mode)


def part(a, axis, low, high):
    return a[(slice(None),) * axis + (slice(low, high),)]


def moved(how, a, steps):
    """An array, or a tensor, after some steps."""
    for step in steps:
        a = after(how, a, *step)
    return a


def after(how, a, name, axis, *rest):
    """The same after one: its name, its axis, and what else it takes."""
    match name:
        case "cat":
            return how.cat([part(a, axis, 0, *rest), a, how.flip(a, axis)], axis)
        case "cut":
            return part(a, axis, *rest)
        case "flip":
            return how.flip(a, axis)
        case "pad":
            return how.pad(a, axis, *rest)
        case "roll":
            return how.roll(a, *rest, axis)
        case "stack":
            return how.stack([a, how.flip(a, 0)], axis)
        case "turn":
            return how.turn(a, *rest)
    raise ValueError(name)


@st.composite
def programs(draw, most: int = 200_000):
    """A shape, and steps whose sizes fit what they are given."""
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(2, LONGEST[rank])) for _ in range(rank))
    first, steps = shape, []
    for _ in range(draw(st.integers(1, 5))):
        axis = draw(st.integers(0, len(shape) - 1))
        n, name = shape[axis], draw(st.sampled_from(("cat", "flip", "roll", "pad", "turn", "cut", "stack")))
        step = (name, axis)
        if name == "cat":
            step += (draw(st.integers(1, n)),)
            n = 2 * n + step[2]
        elif name == "roll":
            step += (draw(st.integers(-n, n)),)
        elif name == "pad":
            low, high = (draw(st.integers(0, min(5, n - 1))) for _ in range(2))
            step += (low, high, draw(st.sampled_from(sorted(MODES))))
            n += low + high
        elif name == "cut":
            low = draw(st.integers(0, n - 1))
            step += (low, draw(st.integers(low + 1, n)))
            n = step[3] - low
        elif name == "turn":
            step += (tuple(draw(st.permutations(range(len(shape))))),)
        wider = (*shape[:axis], n, *shape[axis + 1:])
        if name == "turn":
            wider = tuple(shape[i] for i in step[2])
        elif name == "stack":
            wider = (*shape[:axis], 2, *shape[axis:])
        if prod(wider) <= most and len(wider) <= 4:
            shape = wider
            steps.append(step)
    return first, tuple(steps)


def check(shape, steps, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-100, 100, shape).astype(DTYPES[dtype].numpy)
    f = tegg.compile(lambda x: moved(Tegg, x, steps), cache=False)
    np.testing.assert_array_equal(f(x), moved(Numpy, x, steps))


@settings(max_examples=examples(16))
@given(programs(), st.sampled_from(NAMES))
def test_any_steps(program, dtype) -> None:
    check(*program, dtype)


@pytest.mark.parametrize(("shape", "steps", "dtype"), (
    ((20, 3), (("pad", 0, 2, 0, "reflect"), ("roll", 1, -3)), "i8"),  # rows shorter than lanes of bytes
    ((8, 6, 5, 4), (("cat", 0, 8), ("flip", 2)), "i8"),
    ((12, 70), (("pad", 1, 1, 2, "constant"),), "bool"),  # 0 was no bool
), ids=str)
def test_what_was_wrong_once(shape, steps, dtype) -> None:
    check(shape, steps, dtype)
