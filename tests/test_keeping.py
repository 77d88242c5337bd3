"""Where rows stay between passes: each form, which of them is cheapest, and that prices decide."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import pytest
import tegg
from simt import cases
from simt.cases import CUDA, Case
from tegg.backends.cuda.keeping import keeping_of
from tegg.backends.cuda.target import Cuda
from test_simt_kept import ROWS, agree, kernel

from tegg.dim import dim
from tegg.kernel.keeping import Keeping, Kept, Row
from tegg.runtime.driver import Options, plan_graph
from tegg.trace import ArraySpec, trace

# A multiprocessor of round numbers: memory takes a nanosecond a byte, a cache a third of that.
DEVICE = Keeping(registers=65536, shared=128 << 10, most=126 << 10, blocks=8, far=1e-9, near=3e-10,
                 cache=0.0, own=1e-11, flight=8192.0, overlap=1.0)


def row(turns: int, **other: int) -> Row:
    """A softmax of float32, four neighbours a turn."""
    given = dict(turns=turns, count=4, live=1, each=16, first=16, again=32, moved=64, room=126 << 2,
                 most=64, some=32)
    return Row(**{**given, **other})


def test_forms():
    found = set(DEVICE.forms(row(40)))
    assert Kept(0, 0, False) in found and Kept(8, 0, False) in found  # nothing, and some registers
    assert Kept(16, 24, True) in found and Kept(8, 31, False) in found  # shared memory for the rest
    assert Kept(16, 0, True) in DEVICE.forms(row(16))  # registers for all
    assert all(k.turns + k.beyond <= 40 and k.whole == (k.turns + k.beyond == 40) for k in found)
    assert all(k.turns == 16 or not k.whole or k.turns + k.beyond == 40 for k in found)
    assert not any(k.beyond for k in DEVICE.forms(row(40, room=0)))


@pytest.mark.parametrize("device, turns, wanted", [
    (DEVICE, 16, Kept(16, 0, True)),                    # registers hold it
    (DEVICE, 40, Kept(16, 24, True)),                   # and shared memory the rest
    (replace(DEVICE, own=1e-7), 40, Kept(8, 0, False)),  # which costs more than to read again
    (replace(DEVICE, registers=16384, cache=1e9, near=1e-12), 16, Kept(0, 0, False)),
    (replace(DEVICE, flight=16384.0), 64, Kept(8, 15, False)),  # two blocks, rather than all of one
    (DEVICE, 46, Kept(16, 30, True)),                   # one block is enough for memory
])
def test_the_cheapest_form_follows_the_device(device, turns, wanted):
    assert device.cheapest(row(turns)) == wanted


def test_seconds_by_hand():
    """Forty turns of 16 bytes, of which eight stay: the other 32 are read twice again."""
    k = Kept(8, 0, False)
    assert DEVICE.at_once(row(40), k) == 3
    assert DEVICE.seconds(row(40), k) == pytest.approx(40 * 16e-9 + 32 * 32e-9)
    cached = replace(DEVICE, cache=1e9)
    assert cached.seconds(row(40), k) == pytest.approx(40 * 16e-9 + 32 * 32 * 3e-10)
    slow = replace(DEVICE, flight=4 * 8192.0)  # three blocks ask for three quarters of that
    assert slow.seconds(row(40), k) == pytest.approx((40 * 16e-9 + 32 * 32e-9) / 0.75)
    both = replace(DEVICE, overlap=0.5)
    assert both.seconds(row(40), Kept(16, 24, True)) == pytest.approx(
        40 * 16e-9 + 0.5 * 24 * 64 * 1e-11)
    assert replace(DEVICE, registers=8192).seconds(row(40), Kept(16, 24, True)) == float("inf")


def forms_of(c: Case) -> tuple[int, int, bool]:
    """Turns in registers, turns in memory of the block, and whether there are others."""
    source = c.code.source
    registers = re.search(r"k\d+\[(\d+)\]\[", source)
    beyond = re.search(r"UNROLL_BY\(2\)\s*for \(int g = 0; g < (\d+); g\+\+\)", source)
    return (int(registers[1]) if registers else 0, int(beyond[1]) if beyond else 0,
            re.search(r"; q\d+ \+= 256\)", source) is not None)


def priced(**other) -> object:
    """The dialect, with prices of the device above and others."""
    return replace(CUDA.language, keeping=replace(DEVICE, **other))


FORMS = {
    "registers": (dict(), 16_384, (16, 0, False)),
    "shared memory": (dict(), 20_002, (8, 12, False)),  # rows begin at eight bytes: two at a time
    "a part of it": (dict(flight=16384.0), 60_000, (8, 15, True)),
    "some registers": (dict(own=1e-7), 20_000, (8, 0, True)),
    "nothing": (dict(registers=16384, cache=1e9, near=1e-12), 16_384, (0, 0, True)),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_right(name):
    """On the simulator: bounds, races, what was not written, results; and the bytes that move."""
    other, n, wanted = FORMS[name]
    c = kernel(CUDA, "k", ROWS, n, language=priced(**other))
    if name != "shared memory":
        assert forms_of(c) == wanted, c.code.source
    unit = cases.module([c.code])
    unit.moved = [0, 0]
    agree(unit, c, 1)
    again = unit.moved[0] - c.code.work.loaded
    assert (again > 0) == wanted[2] and unit.moved[1] == c.code.work.stored
    if name == "nothing":
        assert again == 2 * c.code.work.loaded


def test_a_bound_that_is_not_reached():
    n = dim("n", 1, 20_000, hint=18_000)
    c = kernel(CUDA, "k", ROWS, n, sizes={"n": 16_601}, language=priced())
    agree(cases.module([c.code]), c)


@pytest.mark.parametrize("architecture, shared, blocks", [
    (60, 96, 8), (75, 64, 4), (80, 164, 8), (86, 100, 6), (89, 100, 6), (90, 228, 8), (120, 228, 8)])
def test_a_device_by_its_profile(architecture, shared, blocks):
    target = Cuda(architecture)
    costs = target.costs()
    made = keeping_of(architecture, costs)
    assert (made.shared, made.blocks) == (shared << 10, blocks) and made.most < made.shared
    assert made.far > made.near > made.own > 0 and 0 < made.flight < 64 << 10
    faster = keeping_of(architecture, replace(costs, own_rate=costs.own_rate * 2))
    assert faster.own == made.own / 2


@pytest.mark.parametrize("architecture, n, wanted", [
    (75, 16_384, (16, 0, False)), (75, 30_000, (16, 14, False)), (75, 45_000, (8, 15, True)),
    (80, 45_000, (16, 28, False)), (86, 45_000, (8, 24, True)), (90, 45_000, (16, 28, False)),
    (90, 60_000, (8, 28, True))])
def test_what_devices_choose(architecture, n, wanted):
    c = kernel(CUDA, "k", ROWS, n, language=Cuda(architecture).priced)
    assert forms_of(c) == wanted
    (stage,) = c.code.stages
    assert stage.launch.shared == 4096 * wanted[1]


@pytest.mark.parametrize("rate, shared", [("210e9", 14 * 4096), ("1e7", 0)])
def test_programs_are_lowered_by_the_profile(monkeypatch, tmp_path, rate, shared):
    """Where memory of a block is slow nothing is put there."""
    shipped = files("tegg.backends").joinpath("cuda", "costs", "sm_90.toml").read_text()
    path = tmp_path / "costs.toml"
    path.write_text(re.sub(r"own_rate = \S+", f"own_rate = {rate}", shipped))
    monkeypatch.setenv("TEGG_COSTS", str(path))
    traced = trace(lambda x: tegg.softmax(x, -1), (ArraySpec((ROWS, 30_000), tegg.f32),))
    stack = (tegg.Generic(), tegg.Compiler(name="t", target=Cuda(90)))
    plan = plan_graph(traced.graph, Options(stack, cache=False))
    assert max(s.launch.shared for k in plan.kernels for s in k.stages if s.launch) == shared
