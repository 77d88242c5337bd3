"""How nests are dealt out: who takes a point, which loops become points, how kernels are started."""

from __future__ import annotations

import pytest
from tegg.testing.draw import Draw
from tegg.backends.cuda.emit import CudaC

from tegg.dim import dim
from tegg.kernel.code import Launch
from tegg.kernel.lower import lower
from tegg.kernel.simt import LIMITS, THREADS, WARP, WIDE

N = dim("n", 0, 4096, hint=300)


def launches(record):
    g = Draw()
    outputs = record(g)
    code = lower(g, outputs if isinstance(outputs, list) else [outputs], "k", CudaC(), LIMITS)
    return [s.launch for s in code.stages], code.source


@pytest.mark.parametrize("record, points, team", [
    (lambda g: g.exp(g.x(41, 75)), 3075, 1),                    # a thread each
    (lambda g: g.exp(g.x(40, 75)), 3000 // WIDE, 1),            # four neighbours are a thread's
    (lambda g: g.slice(g.x(40, 77), (0, 40, 1), (1, 77, 1)), 3040 // WIDE, 1),
    (lambda g: g.permute(g.x(40, 76), (1, 0)), 3040, 1),
    (lambda g: g.total(g.x(500, 8), 1), 500, 1),                # short rows: a thread makes one
    (lambda g: g.total(g.x(500, 100), 1), 500, WARP),           # rows: a warp each
    (lambda g: g.softmax(g.x(500, 100), 1), 500, WARP),
    (lambda g: g.softmax(g.x(500, 5000), 1), 500, THREADS),     # long rows: a block each
    (lambda g: g.softmax(g.x(3, 500), 1), 3, THREADS),          # few rows: a block each
    (lambda g: g.total(g.x(100, 5000), 0), 5000, 1),            # columns: neighbours side by side
    (lambda g: g.total(g.x(700), 0), 1, THREADS),
    (lambda g: g.op("CumSum", g.x(50, 60), 1), 50, 1),          # carried along its axis
    (lambda g: g.exp(g.x(N, 10)), 10 * N, 1),
    (lambda g: g.softmax(g.x(5, N), 1), 5, THREADS),
])
def test_teams(record, points, team):
    (launch,), _ = launches(record)
    assert launch.nests == ((points, THREADS // team),)


def test_a_long_sum_is_made_of_parts():
    first, second = launches(lambda g: g.total(g.x(1 << 20), 0))[0]
    assert first.nests[0][0] > 1 and second.nests == ((1, 1),)


def test_what_is_stored_outside_of_inner_loops_is_stored_once():
    def both(g):
        x = g.x(40, N)
        return [g.top(x, 1), g.softmax(x, 1)]

    _, source = launches(both)
    assert "if (thread_id() == 0) {" in source or "if (lane_id() == 0) {" in source


def test_blocks_cover_the_points_up_to_what_the_device_takes():
    launch = Launch(256, ((N * 2, 256), (3, 1)), (0, 1))
    assert [launch.blocks({"n": n}, 50) for n in (0, 128, 1000, 100_000)] == [3, 3, 8, 50]
    assert Launch(256, ((N, 8),), ()).blocks({"n": 0}, 50) == 0
