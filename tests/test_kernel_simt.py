"""How nests are dealt out: who takes a point, which loops become points, how kernels are started."""

from __future__ import annotations

import pytest
from tegg.testing.draw import Draw
from tegg.backends.cuda.emit import CudaC

from tegg.dim import dim
from tegg.dtype import f32
from tegg.kernel.code import Launch
from tegg.kernel.lower import lower
from tegg.kernel.simt import LIMITS, THREADS, WARP

N = dim("n", 0, 4096, hint=300)


def launches(record):
    g = Draw()
    outputs = record(g)
    code = lower(g, outputs if isinstance(outputs, list) else [outputs], "k", CudaC(), LIMITS)
    return [s.launch for s in code.stages], code.source


@pytest.mark.parametrize("record, values, team, wide", [
    (lambda g: g.exp(g.x(41, 75)), 3075, 1, 4),                 # neighbours are a thread's
    (lambda g: g.exp(g.x(40, 75, dtype="f16")), 3000, 1, 8),
    (lambda g: g.op("Neg", g.x(40, 75, dtype="i8")), 3000, 1, 16),
    (lambda g: g.op("Neg", g.x(40, 75, dtype="f64")), 3000, 1, 2),
    (lambda g: g.cast(g.x(40, 76, dtype="u8"), f32), 3040, 1, 8),
    (lambda g: g.slice(g.x(40, 77), (0, 40, 1), (1, 77, 1)), 3040, 1, 4),
    (lambda g: g.add(g.x(40, 76, dtype="f16"), g.x(76, dtype="f16")), 3040, 1, 4),
    (lambda g: g.add(g.x(40, 77), g.x(77)), 3080, 1, 1),        # rows begin anywhere
    (lambda g: g.permute(g.x(12, 75), (1, 0)), 900, 1, 1),      # too few to turn: stored across
    (lambda g: g.total(g.x(500, 8), 1), 500, 1, 1),             # short rows: a thread makes one
    (lambda g: g.total(g.x(500, 100), 1), 500, WARP, 1),        # rows: a warp each
    (lambda g: g.softmax(g.x(500, 100), 1), 500, WARP, 1),
    (lambda g: g.softmax(g.x(500, 5000), 1), 500, THREADS, 1),  # long rows: a block each
    (lambda g: g.softmax(g.x(3, 500), 1), 3, THREADS, 1),       # few rows: a block each
    (lambda g: g.total(g.x(100, 5000), 0), 5000, 1, 1),         # columns: neighbours side by side
    (lambda g: g.total(g.x(700), 0), 1, THREADS, 1),
    (lambda g: g.op("CumSum", g.x(50, 60), 1), 50, 1, 1),       # carried along its axis
    (lambda g: g.exp(g.x(N, 10)), 10 * N, 1, 4),
    (lambda g: g.softmax(g.x(5, N), 1), 5, THREADS, 1),
])
def test_teams(record, values, team, wide):
    (launch,), _ = launches(record)
    assert launch.nests == ((values, THREADS // team * wide),)


def test_blocks_take_tiles_of_what_is_turned():
    """Of symbolic sizes as many as there may be, a block for each."""
    (launch,), _ = launches(lambda g: g.permute(g.x(40, 75), (1, 0)))
    assert launch.nests == ((2 * 3, 1),)
    (launch,), _ = launches(lambda g: g.permute(g.x(40, N), (1, 0)))
    assert {launch.blocks({"n": n}, 1000) for n in (1, 32)} <= {2, 3, 4}
    assert launch.blocks({"n": 33}, 1000) >= 4 and launch.blocks({"n": 0}, 1000) <= 2


def test_rows_of_symbolic_length_have_two_forms():
    """One for lengths whose rows all begin at a multiple of 16 bytes, and one for all others."""
    (launch,), source = launches(lambda g: g.add(g.x(6, N), g.x(N)))
    assert launch.nests == ((6 * N, 4 * THREADS), (6 * N, THREADS))
    assert "if (S_n % 4 == 0) {" in source and source.count("wide_store_4") == 1


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
