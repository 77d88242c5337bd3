"""Tiled transposes: loads across the lanes are turned in squares, whatever shape and type."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from profiles import examples
from tegg.testing.draw import Draw
from hypothesis import given, settings
from kernels import build, check
from tegg.backends.cpu.emit import C

from tegg.dim import dim
from tegg.kernel.lower import lower

TILED = "tiled a transpose"
DTYPES = ("f32", "f64", "f16", "bf16", "i64", "i32", "u8", "i8", "bool")


def swapped(g, *shape, dtype="f32"):
    """An input of a shape, with its last two axes exchanged."""
    axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    return g.permute(g.x(*shape, dtype=dtype), axes)


def channels_last(g, dtype="f32"):
    return g.permute(g.x(2, 40, 9, 11, dtype=dtype), (0, 2, 3, 1))


def channels_first(g, dtype="f32"):
    return g.permute(g.x(2, 9, 11, 40, dtype=dtype), (0, 3, 1, 2))


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_width(dtype, width):
    g = Draw()
    code = check(g, [swapped(g, 3, 50, 203, dtype=dtype)], width=width)
    assert width == 4 or TILED in code.notes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [channels_last, channels_first])
def test_layouts_of_images(layout, dtype):
    g = Draw()
    assert TILED in check(g, [layout(g, dtype)]).notes


@pytest.mark.parametrize("dtype", ["f32", "f16", "i64", "u8"])
def test_a_transposed_operand_of_an_elementwise_body(dtype):
    g = Draw()
    x, y = g.x(70, 90, dtype=dtype), swapped(g, 90, 70, dtype=dtype)
    code = check(g, [g.add(g.mul(x, g.x(90, dtype=dtype)), y), g.mul(x, y)])
    assert TILED in code.notes
    (stage,) = code.stages
    assert (stage.reads, stage.writes) == ({0, 1, 2}, {3, 4})  # what is turned is read, too


def test_what_is_not_along_the_strip_is_gathered():
    """Two operands across, along different axes: one is turned, the other gathered."""
    g = Draw()
    x = g.permute(g.x(40, 30, 20), (2, 0, 1))
    y = g.permute(g.x(30, 20, 40), (1, 2, 0))
    code = check(g, [g.add(g.add(x, y), g.x(20, 40, 30))])
    assert TILED in code.notes


def test_dear_values_stay_where_they_belong():
    """A value of the lanes alone is computed once each, not once a strip."""
    g = Draw()
    bias = g.op("Gelu", g.expand(g.x(100), (300, 100)))
    code = check(g, [g.mul(swapped(g, 100, 300), bias)])
    assert TILED in code.notes and code.work.evaluations == 300 * 100 + 100


def test_the_work_is_that_of_a_copy():
    g = Draw()
    work = lower(g, [swapped(g, 203, 101)], "k", C(16)).work
    assert (work.evaluations, work.iterations) == (0, 203 * 101)
    assert work.loaded == work.stored == 4 * 203 * 101


def test_large_outputs_are_written_past_the_caches():
    g = Draw()
    source = lower(g, [swapped(g, 203, 101)], "k", C(16)).source
    assert "vf_stream(" in source and source.rstrip().endswith("stream_fence();\n  }\n}")
    check(g, [swapped(g, 1600, 1600)])  # above the limit
    check(g, [swapped(g, 1500, 1999, dtype="f16")])
    check(g, [swapped(g, 2900, 2910, dtype="u8")])


@pytest.mark.parametrize("shape", [(203, 15), (15, 203), (2, 2, 2), (1, 1000)])
def test_short_axes_are_not_tiled(shape):
    g = Draw()
    assert TILED not in check(g, [swapped(g, *shape)]).notes


def test_reductions_are_not_tiled():
    g = Draw()
    assert TILED not in check(g, [g.total(swapped(g, 50, 60), 1)]).notes


def flipped(g, *axes, dtype="f32"):
    x = swapped(g, 50, 203, dtype=dtype)
    for axis in axes:
        x = g.flip(x, axis)
    return x


BACKWARDS = {f"{axes}": lambda g, axes=axes: [flipped(g, *axes)] for axes in ((0,), (1,), (0, 1))}


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_rows_and_strips_may_be_walked_backwards(axes, dtype, width):
    """Also where the last strip, or the last vector, is short."""
    g = Draw()
    assert TILED in check(g, [flipped(g, *axes, dtype=dtype)], width=width).notes


def _symbolic():
    g = Draw()
    b, m, n = (dim(name, 0, 4096, hint=hint) for name, hint in (("b", 3), ("m", 200), ("n", 300)))
    outputs = [g.add(g.permute(g.x(b, m, n), (0, 2, 1)), g.x(b, n, m))]
    code = lower(g, outputs, "k", C(16))
    assert TILED in code.notes
    return code, build(code, 16), g, outputs


SYMBOLIC = _symbolic()


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 3), st.integers(0, 150), st.integers(0, 150))
def test_sizes_that_only_a_run_knows(b, m, n):
    code, library, g, outputs = SYMBOLIC
    check(g, outputs, {"b": b, "m": m, "n": n}, code=code, library=library, threads=(1, 3),
          seed=m + n)


@settings(max_examples=examples(12), deadline=None)
@given(st.permutations(range(4)), st.tuples(*[st.sampled_from((1, 3, 16, 17, 40))] * 4),
       st.sampled_from(("f32", "f16", "f64", "u8")))
def test_any_permutation(axes, shape, dtype):
    g = Draw()
    check(g, [g.mul(g.permute(g.x(*shape, dtype=dtype), tuple(axes)), 2)])
