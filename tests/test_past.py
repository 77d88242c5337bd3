"""Results that are written past the caches: which, when, and that it changes no result."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st
from kernels import build, check
from profiles import examples
from scratch import cached
from tegg.backends.cpu.emit import C

from tegg.dim import dim
from tegg.ir.graph import Node
from tegg.kernel import past
from tegg.kernel.lower import lower
from tegg.testing.draw import Draw

HUGE = 1 << 50


def normed(g: Draw, x: Node) -> Node:
    mean = g.mul(g.op("SumReduce", g.mul(x, x), 1), 1 / 64)
    return g.mul(x, g.expand(g.op("Sqrt", mean), x.shape))


def softmax(g: Draw, x: Node) -> Node:
    top = g.expand(g.op("MaxReduce", x, 1), x.shape)
    e = g.op("Exp", g.sub(x, top))
    return g.op("Div", e, g.expand(g.op("SumReduce", e, 1), x.shape))


def how(g: Draw, y: Node) -> set[str]:
    """How the stores of a kernel come that may go past the caches."""
    return set(re.findall(r"PAST_(\w+)", lower(g, [y], "k", C(16)).source))


def test_rows_are_told_apart_by_which_pass_writes_them():
    g = Draw()
    x = g.x(2048, 1024)
    assert how(g, g.add(x, 1.0)) == how(g, normed(g, x)) == {"ALONG"}
    assert how(g, softmax(g, x)) == {"BURST"}


def test_what_caches_hold_or_the_cpu_waits_for_goes_through_them():
    g = Draw()
    assert how(g, g.add(g.x(512, 1024), 1.0)) == set()
    assert how(g, g.op("Gelu", g.op("Gelu", g.x(2048, 1024)))) == set()


def test_all_that_a_kernel_touches_counts():
    g = Draw()
    y = g.add(g.x(2048, 1024), g.expand(g.x(1, 1024), (2048, 1024)))
    source = lower(g, [y], "k", C(16)).source
    assert set(re.findall(r"PAST_ALONG\(b2 \+ [^,]*, (\d+)\)", source)) == {
        str(4 * (2 * 2048 * 1024 + 1024))}


def test_places_are_not_asked_for_where_they_are_written_past_the_caches():
    g = Draw()
    lines = [x.strip() for x in
             lower(g, [g.add(g.x(2048, 1024), 1.0)], "k", C(16)).source.splitlines()]
    near = next(i for i, x in enumerate(lines) if x.startswith("const int near"))
    assert "= !PAST_ALONG(b1 + 0, " in lines[near]
    name = lines[near].split()[2]
    asked = next(i for i, x in enumerate(lines) if x.startswith("fetch_write"))
    assert lines[asked - 1] == f"if ({name}) {{"
    assert all("fetch_read" not in x for x in lines[asked:lines.index("}", asked)])


@pytest.fixture
def everything(monkeypatch):
    """Results of any size may go past the caches."""
    monkeypatch.setattr(past, "LEAST", 0)


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("last", [0, HUGE])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8", "bool"])
@pytest.mark.parametrize("width", [4, 8, 16])
def test_results_are_the_same(last, dtype, width):
    """Rows that begin with a line and rows that do not, and one long one."""
    for shape in ((5, 128), (5, 100), (1000,)):
        g = Draw()
        x = g.x(*shape, dtype=dtype)
        y = g.op("LessThan", x, g.x(*shape, dtype=dtype)) if dtype == "bool" else g.add(x, x)
        with cached(last):
            code = check(g, [y], width=width)
        assert "PAST_ALONG" in code.source


@pytest.mark.usefixtures("everything")
@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 40), st.sampled_from((1, 15, 16, 64, 100, 128, 1024, 1040)),
       st.sampled_from((0, 40_000, HUGE)), st.sampled_from((normed, softmax)))
def test_rows_of_any_length(rows, columns, last, body):
    g = Draw()
    with cached(last):
        check(g, [body(g, g.x(rows, columns))], threads=(1, 3))


def _symbolic():
    g = Draw()
    m, n = (dim(name, 0, 4096, hint=2048) for name in ("m", "n"))
    outputs = [g.add(normed(g, g.x(m, n)), 1.0)]
    code = lower(g, outputs, "k", C(16))
    assert "PAST_ALONG" in code.source
    return code, build(code, 16), g, outputs


SYMBOLIC = _symbolic()


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 20), st.integers(0, 300), st.sampled_from((0, HUGE)))
def test_sizes_that_only_a_run_knows(m, n, last):
    code, library, g, outputs = SYMBOLIC
    with cached(last):
        check(g, outputs, {"m": m, "n": n}, code=code, library=library, threads=(1, 3), seed=m)
