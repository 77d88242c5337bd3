"""Rows made of pieces: each is read as it lies, by a nest of its own."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import check
from tegg.backends.cpu.emit import C
from tegg.testing.draw import Draw

import tegg
import tegg.kernel.segments
from tegg.dim import dim
from tegg.kernel.lower import lower

MASKS = ("lane_mask", "_sel(", "loadm(")


def masked(source: str) -> bool:
    return any(word in source for word in MASKS)


def joined(g, *widths, dtype="f32"):
    """Rows of so many elements each, side by side."""
    parts = [g.tensor((20, n), dtype, name=f"x{i}") for i, n in enumerate(widths)]
    return tegg.concat(parts, 1).node


def padded(g):
    return [g.pad(g.x(20, 64), (0, 64), (0, 32), 2.5)]


def turned_over(g):
    return [g.flip(joined(g, 64, 96), 1)]


def inside_of_more(g):
    """A rotary embedding by halves."""
    x = g.tensor((20, 128), name="x")
    half = tegg.concat([-x[:, 64:], x[:, :64]], 1)
    return [(x * g.tensor((128,), name="c") + half * g.tensor((128,), name="s")).node]


def of_different_lengths(g):
    return [joined(g, 32, 160, 64)]


def of_parts_of_rows(g):
    """Pieces that are none of an operand's own."""
    x = g.tensor((20, 256), name="x")
    return [tegg.concat([x[:, 7:71], x[:, 100:164] * 2.0], 1).node]


def whole_rows(g):
    """Rows that are flat memory."""
    return [g.pad(g.x(20, 64), (3, 0), (1, 0))]


def rolled(g):
    """Along two axes: quarters."""
    return [tegg.roll(g.tensor((3, 40, 50, 64)), (7, -9), (1, 2)).node]


def stacked(g):
    """Windows of one operand, side by side along an axis that is not the last."""
    x = g.tensor((4, 200, 24), name="x")
    return [tegg.stack([x[:, 32 * i:32 * i + 64] * 2.0 for i in range(5)], 1).node]


def joined_outside(g):
    """Of different lengths, and with nothing between two of them."""
    parts = [g.tensor((n, 40, 30), name=f"x{i}") for i, n in enumerate((1, 3, 2))]
    return [tegg.concat([parts[0], tegg.pad(parts[1], (0, 0, 0, 0, 1, 0)), parts[2]], 0).node]


def turned_beside(g):
    """Two of which one lies across."""
    x, y = g.tensor((64, 90), name="x"), g.tensor((40, 64), name="y")
    return [tegg.concat([x.transpose(0, 1), y], 0).node]


CASES = {f.__name__: f for f in (padded, whole_rows, turned_over, inside_of_more, of_different_lengths,
                                 of_parts_of_rows, rolled, stacked, joined_outside, turned_beside)}


@pytest.mark.parametrize("width", (4, 8, 16))
@pytest.mark.parametrize("name", CASES)
def test_results_without_masks(name, width) -> None:
    g = Draw()
    code = check(g, CASES[name](g), width=width, threads=(1, 2, 3))
    assert not masked(code.source)


@pytest.mark.parametrize("dtype", ("f32", "f64", "f16", "bf16", "i64", "i32", "u8", "i8", "bool"))
def test_every_dtype(dtype) -> None:
    """Also where vectors end short in each piece."""
    g = Draw()
    check(g, [joined(g, 33, 47, 35, dtype=dtype)], width=8)


def test_short_pieces_of_long_rows() -> None:
    """Beside so many elements a loop does not matter; few of them have masks."""
    g = Draw()
    code = check(g, [joined(g, 1, 80, 3, 64)], width=8)
    assert "_sel(" not in code.source and "lane_mask" not in code.source


def _sum(g):
    return g.total(g.mul(joined(g, 64, 64), g.x(128)), 1)


def _softmax(g):
    return g.softmax(joined(g, 64, 64), 1)


@pytest.mark.parametrize("make", (
    lambda g: joined(g, 32, 31),                       # short
    lambda g: joined(g, *(32,) * 9),                   # many
    lambda g: joined(g, 64, dim("n", 32, 64)),         # where one ends is not known
    lambda g: tegg.stack([g.tensor((4, 20), name=f"x{i}") for i in range(5)], 1).node,  # small
    lambda g: g.pad(g.x(6, 40, 60), (1, 0, 1), (2, 0, 1), 1.5),  # nothing is joined
    _sum, _softmax,                                    # rows are read again, or summed
))
def test_what_is_not_taken_apart(make, monkeypatch) -> None:
    g = Draw()
    outputs = [make(g)]
    code = check(g, outputs, {"n": 40}, width=8)
    monkeypatch.setattr(tegg.kernel.segments, "segments", lambda w: None)
    assert lower(g, outputs, "k", C(8)).source == code.source


def test_what_is_joined_of_many_is_no_operand_of_a_product() -> None:
    """Which would ask for each of them everywhere."""
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32)
            for s in ((8, 600, 64), (64, 64)))
    for parts, count in ((2, 1), (12, 2)):
        f = tegg.compile(lambda x, w, n=parts: tegg.stack(
            [x[:, 32 * i:32 * i + 64] for i in range(n)], 1) @ w, cache=False)
        want = np.stack([x[:, 32 * i:32 * i + 64] for i in range(parts)], 1) @ w
        np.testing.assert_allclose(f(x, w), want, atol=1e-4)
        assert len(f.plan.kernels) == count


def test_what_says_where_a_part_ends_is_no_kernel() -> None:
    x, y = np.ones((20, 64), np.float32), np.zeros((20, 64), np.float32)
    f = tegg.compile(lambda x, y: tegg.concat([x, y], 1))
    np.testing.assert_array_equal(f(x, y), np.concatenate([x, y], 1))
    assert len(f.plan.kernels) == 1 and not masked(f.source())


def test_positions_that_are_compared_are_known_where_they_must_be() -> None:
    """A comparison that comes out the same everywhere is none."""
    g = Draw()
    position = g.iota(100)
    always = g.select(g.less(position, g.size(100, tegg.i64)), g.x(100), g.x(100))
    never = g.select(g.less(position, g.size(0, tegg.i64)), g.x(100), g.x(100))
    some = g.select(g.less(position, g.size(40, tegg.i64)), g.x(100), g.x(100))
    sources = [check(g, [v], width=8).source for v in (always, never, some)]
    assert ["_less(" in s for s in sources] == [False, False, True]


def test_floats_that_are_compared_are_no_positions() -> None:
    g = Draw()
    x = g.tensor((100,), name="x")
    check(g, [tegg.where(x < np.inf, x, 0.0).node, tegg.where(x < -np.inf, x, 1.0).node], width=8)


def test_bytes_that_count_wrap_around() -> None:
    """What is at position 128 is -128: such positions are compared as they are."""
    g = Draw()
    position = g.op("Iota", tegg.i8, (200,))
    y = g.select(g.less(position, g.full(0, "i8")), g.x(200), g.full(0, "f32"))
    assert "_less(" in check(g, [y], width=8).source
