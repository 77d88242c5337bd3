"""Results that end in a short axis: vectors along the axis outside of it, woven."""

from __future__ import annotations

import pytest
from kernels import build, check
from tegg.backends.cpu.emit import C
from tegg.testing.draw import Draw

import tegg
from tegg.dim import dim
from tegg.kernel.lower import lower

WOVEN = "wove results"
DTYPES = ("f32", "f64", "f16", "bf16", "i64", "i32", "u8", "i8", "bool")


def repeated(g, *shape, times=2, dtype="f32"):
    """Each element so many times, side by side."""
    return g.expand(g.x(*shape, 1, dtype=dtype), (*shape, times))


@pytest.mark.parametrize("width", (4, 8, 16))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("times", (2, 3, 4))
def test_every_dtype_and_width(times, dtype, width) -> None:
    g = Draw()
    y = repeated(g, 5, 99, times=times, dtype=dtype)
    code = check(g, [y], width=width)
    assert WOVEN in code.notes or 4 == times >= (code.lanes or width)  # which fill a vector


def rows_and_columns(g):
    """Of an image each pixel four times."""
    return [g.expand(g.x(3, 20, 1, 33, 1), (3, 20, 2, 33, 2))]


def of_two(g):
    """What is stacked last."""
    a, b = (g.tensor((60, 50), name=name) for name in "ab")
    return [tegg.stack([a.exp(), b], 2).node]


def two_results(g):
    x = g.x(300, 1)
    return [g.mul(g.expand(x, (300, 2)), g.x(2)), g.add(g.expand(x, (300, 2)), g.x(300, 2))]


CASES = {f.__name__: f for f in (rows_and_columns, of_two, two_results)}


@pytest.mark.parametrize("width", (4, 8, 16))
@pytest.mark.parametrize("name", CASES)
def test_results(name, width) -> None:
    g = Draw()
    code = check(g, CASES[name](g), width=width, threads=(1, 2, 3))
    assert WOVEN in code.notes
    (stage,) = code.stages
    assert len(stage.writes) == (2 if name == "two_results" else 1)


def test_sizes_known_at_run_time() -> None:
    n = dim("n", 0, 4096, hint=500)
    g = Draw()
    outputs = [repeated(g, 3, n)]
    code = lower(g, outputs, "k", C(8))
    assert WOVEN in code.notes
    library = build(code, 8)
    for size in (0, 1, 7, 8, 9, 31, 32, 33, 100):
        check(g, outputs, {"n": size}, width=8, code=code, library=library)


@pytest.mark.parametrize("make", (
    lambda g: repeated(g, 5, 99, times=9),               # long enough for lanes of its own
    lambda g: g.x(5, 2),                                 # nothing outside to run along
    lambda g: g.total(repeated(g, 40, 50, times=2), 0),  # a reduction
    lambda g: g.expand(g.x(2), (500, 2)),                # the same everywhere
))
def test_what_is_not_woven(make) -> None:
    g = Draw()
    assert WOVEN not in check(g, [make(g)], width=8).notes


def test_the_work_is_what_is_written() -> None:
    g = Draw()
    work = lower(g, [repeated(g, 64, 100)], "k", C(8)).work
    assert (work.loaded, work.stored) == (4 * 6400, 4 * 12800)
