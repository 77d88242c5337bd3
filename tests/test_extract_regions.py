"""Long regions of elementwise values: cut into pieces, each of which one kernel may compute."""

from __future__ import annotations

import numpy as np
import pytest
from cover_runs import check_cover
from eclass_graphs import classes_of
from extraction import COSTS, Stages
from hypothesis import given
from hypothesis import strategies as st

import tegg
from tegg.extract import Limits, extract
from tegg.ir.graph import Graph, Node

ROWS = 1 << 16


def lorenz(steps: int, n: int = ROWS) -> Graph:
    """Steps of Euler's method, of 17 values each, written out: three states, all read by others."""
    g = Graph()
    x, y, z = (g.input(name, (n,), "f32") for name in "xyz")
    for _ in range(steps):
        dx = g.mul(g.add(y, g.mul(x, -1.0)), 10.0)
        dy = g.add(g.mul(x, g.add(g.mul(z, -1.0), 28.0)), g.mul(y, -1.0))
        dz = g.add(g.mul(x, y), g.mul(z, -2.5))
        x, y, z = (g.add(a, g.mul(d, 0.01)) for a, d in ((x, dx), (y, dy), (z, dz)))
    g.outputs.update(x=x, y=y, z=z)
    return g


def drawn(g: Graph, n: int) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(n)
    return {i: rng.standard_normal(n).astype(np.float32) for i in range(len(g.inputs))}


@pytest.mark.parametrize("steps", [8, 30])
def test_a_loop_that_is_written_out_takes_few_kernels(steps):
    """Each holds several steps, and passes on the states and nothing else."""
    classes = classes_of(lorenz(steps))
    cover = extract(classes, COSTS)
    assert cover.stats["missed_budget"] == 0 and cover.gap == 0.0
    assert len(cover.kernels) <= steps / 2
    assert all(len(k.writes) <= 5 for k in cover.kernels)


def test_one_step_more_is_as_much_to_look_at():
    few, more, most = (extract(classes_of(lorenz(n)), COSTS).stats for n in (20, 40, 60))
    for what in ("candidates", "cones"):
        assert most[what] - more[what] <= 1.5 * (more[what] - few[what])
    assert most["tried"] <= 1.5 * few["tried"]  # steps are alike


def test_what_a_region_computes_is_right():
    n = 16
    graph = lorenz(9, n)
    classes = classes_of(graph)
    check_cover(extract(classes, COSTS), classes, drawn(graph, n), {})


def newton(steps: int) -> Graph:
    """The inverse of square roots by Newton's method: steps of 4 values, one of which three read."""
    g = Graph()
    a, y = (g.input(name, (ROWS,), "f32") for name in "ay")
    for _ in range(steps):
        y = g.mul(y, g.add(g.mul(g.mul(a, y), y), 1.5))
    g.outputs["y"] = y
    return g


def test_a_region_that_one_kernel_holds_is_one_piece():
    stages = Stages(classes_of(newton(15)))
    (end,) = stages.roles.roots
    assert stages.borders.together == ((end,),)
    assert [c for c in stages.roles.nodes if stages.cones.storable(c)] == [end]
    assert len(extract(stages.classes, COSTS).kernels) == 1


def test_where_few_values_are_shared_all_borders_are_looked_at():
    stages = Stages(classes_of(lorenz(2)))
    assert not stages.borders.together and any(
        c not in stages.roles.roots for c in stages.roles.nodes if stages.cones.storable(c))


def test_a_chain_without_other_readers_is_not_cut():
    g = Graph()
    x = g.input("x", (ROWS,), "f32")
    for _ in range(200):
        x = g.op("Sin", x)
    g.outputs["y"] = x
    assert not Stages(classes_of(g)).borders.together


def _steps(g: Graph, x: Node, y: Node, between) -> None:
    for _ in range(12):
        x, y = g.add(g.mul(x, y), g.mul(x, x)), g.add(g.mul(y, y), g.mul(x, 0.5))
        x, y = between(x), between(y)
    g.outputs.update(x=x, y=y)


def _summed(g: Graph, x: Node) -> Node:
    return g.add(x, g.expand(g.op("SumReduce", x, 0), x.shape))


def _flipped(g: Graph, x: Node) -> Node:
    return g.op("Flip", x, 0)


@pytest.mark.parametrize("between", [_summed, _flipped], ids=["reduced", "moved"])
def test_regions_end_at_what_no_kernel_holds_with_them(between):
    """What reads values otherwise than where they lie is no part of their region."""
    g = Graph()
    _steps(g, *(g.input(name, (64,), "f32") for name in "xy"), lambda v: between(g, v))
    stages = Stages(classes_of(g), limits=Limits(values=16))
    assert not stages.borders.together
    cover = extract(stages.classes, COSTS, limits=stages.limits)
    check_cover(cover, stages.classes, drawn(g, 64), {})


def test_what_a_piece_gives_is_written_by_one_kernel():
    """Also what the others are not computed from, and what one value reads, of the next piece."""
    g = Graph()
    x, y = (g.input(name, (ROWS,), "f32") for name in "xy")
    total = x
    for _ in range(30):
        x, y = g.add(g.mul(x, x), g.mul(y, -0.5)), g.add(g.mul(x, y), g.mul(y, y))
        total = g.add(total, g.mul(x, y))
    g.outputs["total"] = total
    stages = Stages(classes_of(g))
    for piece in stages.borders.together:
        assert all(map(stages.cones.storable, piece))
    assert len(extract(stages.classes, COSTS).kernels) == len(stages.borders.together)


def test_what_waits_for_a_part_of_its_own_piece_is_no_kernel_with_it():
    g = Graph()
    x = g.input("x", (8,), "f32")
    for i in range(20):
        x = g.mul(x, g.add(x, 0.5))
        if i == 10:
            part = g.op("Sin", g.narrow(x, 0, 0, 4))  # of another size, and stored
            x = g.add(g.mul(x, x), g.pad(part, (0,), (4,)))
    g.outputs["y"] = x
    classes = classes_of(g)
    assert Stages(classes).borders.together
    check_cover(extract(classes, COSTS), classes, drawn(g, 8), {})


def test_what_is_read_elsewhere_can_be_stored():
    """A value in the midst of a piece that is an output, or that a sum reads."""
    g = lorenz(10)
    mid = next(n for n in g.nodes[60:] if n.op.name == "Mul")
    other = next(n for n in g.nodes[mid.id + 1:] if n.op.name == "Mul")
    g.outputs["mid"] = mid
    g.outputs["sum"] = g.op("SumReduce", other, 0)
    stages = Stages(classes_of(g))
    assert stages.borders.together
    assert stages.cones.storable(mid.id) and stages.cones.storable(other.id)


@st.composite
def webs(draw) -> Graph:
    """Elementwise programs most of whose values have several readers."""
    g = Graph()
    made = [g.input(name, (8,), "f32") for name in "xyz"]
    for _ in range(draw(st.integers(20, 60))):
        near = made[-draw(st.integers(4, 10)):]
        a, b = (near[draw(st.integers(0, len(near) - 1))] for _ in "ab")
        match draw(st.integers(0, 9)):
            case 0:
                made.append(g.op("Sin", a))
            case 1:
                made.append(g.add(a, g.pad(g.op("Sin", g.narrow(b, 0, 0, 4)), (0,), (4,))))
            case 2 | 3 | 4 | 5:
                made.append(g.mul(a, b))
            case _:
                made.append(g.add(a, g.mul(b, 0.5)))
        if draw(st.integers(0, 12)) == 0:
            g.outputs[f"o{len(made)}"] = made[-1]
    g.outputs.update(last=made[-1], before=made[-2])
    return g


@given(webs(), st.sampled_from([(64, 12), (16, 2), (8, 1), (3, 1)]))
def test_webs_of_values(graph, limits):
    values, cuts = limits
    classes = classes_of(graph)
    cover = extract(classes, COSTS, limits=Limits(values=values, cuts=cuts))
    check_cover(cover, classes, drawn(graph, 8), {})


def _rk4(f, x, v):
    """A pendulum by the method of Runge and Kutta."""
    def speed(x, v):
        return v, -f.sin(x) - 0.1 * v

    for _ in range(6):
        a, b = speed(x, v)
        c, d = speed(x + 0.05 * a, v + 0.05 * b)
        e, g = speed(x + 0.05 * c, v + 0.05 * d)
        h, i = speed(x + 0.1 * e, v + 0.1 * g)
        x = x + 0.1 / 6 * (a + 2 * c + 2 * e + h)
        v = v + 0.1 / 6 * (b + 2 * d + 2 * g + i)
    return x, v


def _julia(f, x, y):
    """How many of 25 squares of a complex number, each plus another, stay small."""
    count = x * 0
    for _ in range(25):
        x, y = x * x - y * y - 0.8, 2 * x * y + 0.156
        count = count + f.where(x * x + y * y < 4, 1.0, 0.0)
        x, y = f.clip(x, -9, 9), f.clip(y, -9, 9)
    return (count,)


def _halley(f, x, y):
    """Cube roots, with divisions, which have several forms."""
    for _ in range(8):
        cube = y * y * y
        y = y * (cube + 2 * x) / (2 * cube + x)
    return (y,)


@pytest.mark.parametrize("loop", [_rk4, _julia, _halley])
def test_loops_as_users_write_them(loop):
    rng = np.random.default_rng(3)
    x, y = (rng.uniform(0.2, 1.0, (3, 37)).astype(np.float32) for _ in "xy")
    f = tegg.compile(lambda x, y: loop(tegg, x, y), cache=False)
    for got, wanted in zip(f(x, y), loop(np, x.astype(np.float64), y.astype(np.float64)),
                           strict=True):
        assert np.mean(np.isclose(got, wanted, rtol=1e-4, atol=1e-4)) > 0.98  # counts may differ
    assert f.stats["missed_budget"] == 0
