"""What kernels execute, asserted: a recomputation bug leaves every value right."""

from __future__ import annotations

import numpy as np
import pytest
import tegg
from tegg.testing.draw import Draw
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.target import Cpu
from tegg.dim import Facts
from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.kernel.domain import Write
from tegg.kernel.index import Algebra, Var, variable
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Let, Loop, Store
from tegg.kernel.lower import lower
from tegg.kernel.propagate import Propagation
from tegg.kernel.value import Values
from tegg.kernel.work import price
from tegg.rewrite.compiler import Compiler, Generic


def work(g, *outputs):
    return lower(g, list(outputs), "k", C(16)).work


def test_elementwise_once_per_element():
    g = Draw()
    w = work(g, g.add(g.mul(g.x(32, 64), g.x(64)), 1.0))
    assert (w.evaluations, w.iterations) == (2 * 2048, 2048)
    assert (w.loaded, w.stored) == ((2048 + 64) * 4, 2048 * 4)


def test_softmax_keeps_its_exponentials():
    """Maximum; exp(x - m) in base 2 with its sum; one product: 1 + (3 + 1) + 1 per element."""
    g = Draw()
    w = work(g, g.op("Softmax", g.x(64, 128), 1))
    assert w.evaluations == 64 * (128 * 6 + 2)
    assert w.iterations == 64 * 128 * 3
    assert (w.loaded, w.stored) == (64 * 128 * 4, 64 * 128 * 4)


def test_softmax_over_columns_is_no_dearer():
    g = Draw()
    rows = work(g, g.op("Softmax", g.x(128, 64), 0))
    assert rows.evaluations <= 64 * (128 * 6 + 2) + 1000


def test_layernorm_three_passes():
    """Sum; square of the difference, with its sum; difference, scale, gain and bias."""
    g = Draw()
    x = g.x(64, 128)
    y = g.add(g.mul(g.op("Normalize", x, 1, 4532020583610935537), g.x(128)), g.x(128))
    w = work(g, y)
    assert w.evaluations <= 64 * (128 * (1 + 3 + 4) + 8)
    assert w.iterations == 64 * 128 * 3


def test_row_sum_times_column_sum():
    """Both sums once: each is hoisted out of the loops that it does not depend on."""
    g = Draw()
    x = g.x(128, 128)
    w = work(g, g.mul(g.total(x, 1, keep=True), g.total(x, 0, keep=True)))
    assert w.evaluations == 3 * 128 * 128


def test_columns_of_a_sum_inside_a_row_sum():
    g = Draw()
    x = g.x(96, 80)
    w = work(g, g.total(g.mul(x, g.total(x, 0, keep=True)), 1))
    assert w.evaluations == 3 * 96 * 80


def test_shared_subexpressions_are_values():
    """h*h + h eight deep: sixteen operations an element."""
    g = Draw()
    h = g.x(100)
    for _ in range(8):
        h = g.add(g.mul(h, h), h)
    assert work(g, h).evaluations == 1600


def test_a_thousand_operations_deep():
    g = Draw()
    h = g.x(16)
    for _ in range(1000):
        h = g.add(g.mul(h, h), h)
    assert work(g, h).evaluations == 32_000


def test_cumulative_sum_is_a_sum_per_element():
    g = Draw()
    p = g.padded(g.x(3, 64), (0, 0), (63, 0))
    w = work(g, g.total(g.window(p, 1, 64), 2))
    assert w.evaluations == 3 * 64 * 64
    assert "each" not in lower(g, [g.total(g.window(p, 1, 64), 2)], "k", C(16)).source


def test_column_norms():
    g = Draw()
    x = g.x(96, 80)
    w = work(g, g.mul(x, g.op("Rsqrt", g.total(g.mul(x, x), 0, keep=True))))
    assert w.evaluations == 96 * 80 * 3 + 80


def test_columns_then_rows():
    """Both norms: squares and sums twice, two products, one row of scales per axis."""
    g = Draw()
    x = g.x(64, 64)
    h = g.mul(x, g.op("Rsqrt", g.total(g.mul(x, x), 0, keep=True)))
    w = work(g, g.mul(h, g.op("Rsqrt", g.total(g.mul(h, h), 1, keep=True))))
    assert w.evaluations <= 64 * 64 * 7 + 128


def test_bias_activation_is_hoisted():
    g = Draw()
    y = g.mul(g.x(60, 64), g.op("Sigmoid", g.expand(g.x(64), (60, 64))))
    assert work(g, y).evaluations == 60 * 64 + 64


def test_statistics_ride_on_the_rows():
    """Row maximum and row sum are stored on the way; nothing is computed for them again."""
    g = Draw()
    x = g.x(64, 128)
    m = g.op("MaxReduce", x, 1)
    e = g.exp(g.sub(x, m))
    s = g.op("SumReduce", e, 1)
    w = work(g, g.div(e, s), m, s)
    assert w.evaluations == 64 * (128 * 5 + 2)


def test_nested_reductions_share_a_pass():
    """Sum and maximum of a row that do not need each other are one pass."""
    g = Draw()
    x = g.x(64, 128)
    w = work(g, g.add(g.total(x, 1), g.top(x, 1)))
    assert w.iterations == 64 * 128


def test_matmul_by_loops():
    g = Draw()
    w = work(g, g.matmul(g.x(32, 48), g.x(48, 64)))
    assert w.evaluations == 2 * 32 * 48 * 64


def test_expanded_reduction_inside_attention():
    g = Draw()
    q, k, v = g.x(2, 32, 16), g.x(2, 48, 16), g.x(2, 48, 16)
    w = work(g, g.matmul(g.softmax(g.matmul(q, g.permute(k, (0, 2, 1))), 2), v))
    scores = 2 * 32 * 48
    assert w.evaluations <= scores * (2 * 16 + 2 * 16 + 8) * 1.1


def test_doubling_values_are_refused():
    """Even and odd halves, twenty deep, are a million different loads."""
    g = Draw()
    h = g.x(1 << 20)
    n = 1 << 20
    for _ in range(20):
        even, odd = g.slice(h, (0, n, 2)), g.slice(h, (1, n, 2))
        h, n = g.mul(g.add(even, odd), 0.5), n // 2
    with pytest.raises(LoweringError, match="more than 20000 distinct values|pairs of node"):
        work(g, h)


def test_long_chains_of_movement_are_refused():
    g = Draw()
    y = g.x(4)
    for _ in range(100):
        y = g.flip(y, 0)
    p = Propagation(g, frozenset(), limit=20)
    with pytest.raises(LoweringError, match="more than 80 pairs of node and index; store an inner "
                                            "value and lower the parts"):
        p.at(y, p.bind(y.shape, ())[1])


def test_scatter_inside_a_nest_is_refused():
    g = Draw()
    y = g.op("Scatter", g.x(4, 5), g.x(2, dtype="i32"), g.x(2, 5), 0, "last")
    p = Propagation(g, frozenset())
    with pytest.raises(LoweringError, match="Scatter cannot stand inside a loop nest"):
        p.at(y, p.bind(y.shape, ())[1])


def test_stores_that_go_from_page_to_page_are_dear():
    """An index of the lanes alone is not worth a walk over all images for each vector of a row: of
    eight lanes, for rows of these are nine vectors."""
    x = np.zeros((256, 64, 64), np.float32)
    f = tegg.compile(lambda x: tegg.pad(x, (2, 2, 2, 2), "circular"), Generic(),
                     Compiler(target=Cpu(8), name="eight lanes"), cache=False)
    source = f.program(x).source()
    outermost = source[source.index("for (int64_t", source.index("void k0_0(")):]
    assert outermost.startswith("for (int64_t i0 = 256 * tid")


def test_memory_that_a_loop_reads_again_is_dear_where_it_did_not_stay_near():
    """Of four copies side by side, those that a row is written to at once cost least."""
    prices = {}
    for rows in (4, 4096):
        x = Values(Algebra(Facts()))
        i, j, k = Var(4, 0), Var(rows, 1), Var(64, 2)
        load = x.load(0, f32, variable(j) * 64 + variable(k))
        store = Store(Write(1, (i, j, k), variable(j) * 256 + variable(i) * 64 + variable(k), load))
        for name, order in (("again", (i, j, k)), ("once", (j, i, k))):
            body: tuple = (Let(load), store)
            for n, var in enumerate(reversed(order)):
                body = (Loop(var, body, vector=n == 0),)
            prices[name, rows] = price(body, Lanes(Algebra(Facts()), 16))
    assert prices["again", 4] <= prices["once", 4]
    assert prices["again", 4096] > 1.5 * prices["once", 4096]
