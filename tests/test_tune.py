"""Measuring this machine: numbers that can be, and a fit that finds the profile behind times."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product as pairs
from pathlib import Path

import pytest

from tegg.backends.cpu.identity import _described, processor
from tegg.backends.cpu.instructions import BYTE_TILES, BYTES, PAIRS, TILES
from tegg.backends.cpu.target import Cpu
from tegg.backends.cpu.templates import READ_AS
from tegg.backends.cpu.tune import measure
from tegg.backends.cpu.tune.cases import cases
from tegg.backends.cpu.tune.fit import Traffic, fitted, levels_of
from tegg.backends.cpu.tune.kernels import Kernels, Memory, product
from tegg.backends.cpu.tune.machine import FRESH, MODES, Machine
from tegg.backends.tuning.case import chain, single, tiny
from tegg.backends.tuning.fitting import Timed, error
from tegg.errors import BackendError
from tegg.ir.classes import Fragment
from tegg.extract.cost import Level, load_costs
from tegg.kernel.registers import Registers

GENERIC = load_costs("cpu/generic", 2)
NARROW = (PAIRS, BYTES, TILES, BYTE_TILES)
SIZES = [2**i for i in range(14, 28)]


def best(sample, tries=5) -> float:
    return min(sample() for _ in range(tries))


@pytest.fixture(scope="module")
def machine():
    return Machine(4 << 20)


def test_traffic_takes_time_by_the_byte(machine):
    assert machine.sizes()[-1] <= 4 << 20
    for mode in MODES:
        small, large = (best(machine.traffic(n << 10, mode, 1)) for n in (16, 4096))
        assert 1e8 < (16 << 10) / small < 1e13
        assert large > 20 * small  # 256 times the bytes, from further away


def test_fresh_memory_takes_time(machine):
    assert 1e8 < FRESH / min(machine.fresh() for _ in range(3)) < 1e12


def test_multiply_adds_and_hand_offs(machine):
    for wide in (False, True):
        assert 1e8 < 2 / best(machine.multiply_add(wide, 1)) < 1e13
    assert best(machine.multiply_add(True, 1)) > best(machine.multiply_add(False, 1))
    assert 0 < best(machine.barrier(2)) < 0.1
    assert 0 < best(machine.start(1)) < best(machine.start(2)) < 0.1


def test_kernels_are_timed_alone_and_by_threads():
    cpu = Cpu()
    registers = cpu.language.registers
    given = [chain(4), chain(40), tiny(64), single("Softmax"),
             product("CpuPacked", (4, 2, 1), 32, 48, 64, registers=registers)]
    kernels = Kernels(given, cpu.lower, GENERIC, registers.width)
    seconds = [best(kernels.sample(i, 1)) for i in range(len(given))]
    assert all(1e-9 < s < 0.1 for s in seconds) and seconds[1] > 2 * seconds[0]
    assert 1e-9 < best(kernels.sample(4, 2)) < 0.1


def test_forms_of_a_product_read_their_weights_from_one_place():
    """Packed or not; what they write beside is their own."""
    cpu = Cpu()
    registers = cpu.language.registers
    given = [product("CpuDots", (1, 1, 1), 1, 48, 64, registers=registers, transposed=True),
             product("CpuPacked", (1, 2, 1), 1, 48, 64, registers=registers),
             product("CpuPacked", (1, 2, 1), 1, 96, 64, registers=registers),
             product("CpuPacked", (1, 2, 1), 1, 48, 64, registers=registers, still=False)]
    codes = [cpu.lower(Fragment(c.graph, c.outputs, c.anchors), f"k{i}", c.still)
             for i, c in enumerate(given)]
    memory = Memory(zip(given, codes))
    dots, packed, wider, each_time = map(memory.arrays, given, codes)
    one = dots[1].ctypes.data
    assert packed[1].ctypes.data == packed[3].ctypes.data == wider[3].ctypes.data == one
    assert len(each_time) == 3 and one not in {a.ctypes.data for a in each_time}
    assert len({a.ctypes.data for a in (*dots, *packed)}) == 5
    assert wider[3].size >= 96 * 64 and packed[0].shape == (64,)


# ---- the fit
def test_steps_of_bandwidth_are_found():
    def rate(size: int) -> float:
        return 2e11 if size <= 1 << 15 else 8e10 if size <= 1 << 20 else 1e10

    one = {s: s / rate(s) for s in SIZES}
    levels = levels_of(one, {s: t / 1.7 for s, t in one.items()})
    assert [v.thread for v in levels] == pytest.approx([2e11, 8e10, 1e10])
    assert [v.total for v in levels] == pytest.approx([3.4e11, 1.36e11, 1.7e10])
    assert 1 << 14 <= levels[0].size <= 1 << 15 and 1 << 19 <= levels[1].size <= 1 << 20
    assert levels[-1].size == math.inf
    flat = {s: s / 1e10 for s in SIZES}
    assert len(levels_of(flat, flat)) == 1


def simulated(truth, lanes, threads=2):
    """What would be measured where the model is right."""
    def read(n: int) -> dict[int, float]:
        return {s: truth.memory(s, n) for s in SIZES}

    copy = {n: {s: truth.memory(s, n) + truth.written(s, n) for s in SIZES} for n in (1, threads)}
    timed = [Timed(c, n, c.seconds(truth.with_threads(n), n))
             for c in cases(Registers(lanes), quick=False, has=NARROW).values() for n in (1, threads)]
    return Traffic({n: read(n) for n in (1, threads)}, copy, 1e-7, 5e9), timed


@pytest.mark.parametrize("quick", [False, True])
def test_the_profile_behind_the_times_is_found(quick):
    truth = replace(GENERIC, launch=2e-6, call=2e-7, overlap=0.6, loop_rate=6e10, pack=9.0,
                    product_rate=7e10, product_half=(4.0, 8.0, 40.0),
                    templates={"CpuRows": 2.0, "CpuPairs": 0.5, "CpuBytes": 0.2, "CpuTiles": 0.04,
                               "CpuDirectPairs": 0.6},
                    ops={"Sin": 31.0, "Exp2": 4.0, "Softmax": 20.0}, product_dtypes={
                        **GENERIC.product_dtypes, "f64": 3.0},
                    loop_dtypes={**GENERIC.loop_dtypes, "f64": 2.6},
                    levels=(Level(1 << 17, 2e11, 4e11), Level(1 << 21, 5e10, 9e10),
                            Level(math.inf, 8e9, 1.5e10)))
    traffic, timed = simulated(truth, 16)
    wanted = {c.name for c in cases(Registers(16), quick, NARROW).values()}
    found = fitted(GENERIC, 2, traffic, [t for t in timed if t.case.name in wanted])
    assert error(found, [t for t in timed if t.case.name in wanted]) < 0.15
    assert error(found, timed) < 0.5 * error(GENERIC, timed)
    assert found.loop_rate == pytest.approx(truth.loop_rate, rel=0.2)
    assert found.ops["Sin"] == pytest.approx(31.0, rel=0.25)
    assert found.product_rate == pytest.approx(truth.product_rate, rel=0.3)
    assert found.loop_dtypes["f64"] == pytest.approx(2.6, rel=0.2)
    assert found.fresh == 5e9
    assert found.threads == 2 and 1e-6 <= found.launch < 4e-6
    for name in ("CpuPairs", "CpuBytes", "CpuTiles", "CpuDirectPairs"):
        assert found.templates[name] == pytest.approx(truth.templates[name], rel=0.2)


def test_narrow_products_are_measured_where_the_machine_has_them():
    named = {op: [n for n in cases(Registers(16), True, NARROW) if n.endswith(op)]
             for op in ("CpuPairs", "CpuTiles", "CpuBytes", "CpuByteTiles", "CpuDirectPairs")}
    assert all(named.values())
    assert not {n for names in named.values() for n in names} & set(cases(Registers(16), True))


def test_who_follows_memory_better_is_found():
    """The hardware, or requests in order or side by side: they differ in nothing else."""
    reads = {"CpuDots": 1.3, "CpuRows": 1.0, "CpuDotsFollowed": 0.9, "CpuRowsFollowed": 1.4,
             "CpuDotsBeside": 1.1, "CpuRowsBeside": 0.8}
    traffic, timed = simulated(replace(GENERIC, call=1e-7, template_reads=reads), 16)
    found = fitted(GENERIC, 2, traffic, timed).template_reads
    for (op, _), name in READ_AS.items():
        assert found[name] / found.get(op, 1.0) == pytest.approx(reads[name] / reads[op], rel=0.1)


# Microseconds of one thread, where rows are soon, and panels sooner, and what its caches give.
ZEN4 = {"few rows": {"CpuRows": 21.3, "CpuPacked": 17.5, "CpuDots": 39.7},
        "few rows of many": {"CpuRows": 95.2, "CpuPacked": 72.8, "CpuDots": 165.4},
        "one row": {"CpuRows": 273.0, "CpuPacked": 231.0, "CpuDots": 290.0},
        "one row of many": {"CpuRows": 2070.0, "CpuPacked": 1640.0, "CpuDots": 2390.0}}
ZEN5 = {"few rows": {"CpuRows": 12.1, "CpuPacked": 8.7, "CpuDots": 20.8},
        "few rows of many": {"CpuRows": 65.2, "CpuPacked": 36.4, "CpuDots": 72.6},
        "one row": {"CpuRows": 188.5, "CpuPacked": 160.3, "CpuDots": 178.7},
        "one row of many": {"CpuRows": 2078.4, "CpuPacked": 1435.5, "CpuDots": 1533.8}}
CACHES = {"zen4": (Level(7e5, 1.16e11, 2.3e11), Level(1.2e7, 7.8e10, 1.5e11),
                   Level(2.4e7, 4.6e10, 9e10), Level(math.inf, 3.4e10, 4e10)),
          "zen5": (Level(2.3e4, 5.2e11, 9.6e11), Level(7e5, 1.98e11, 3.7e11),
                   Level(1.2e7, 1.25e11, 2.4e11), Level(2.4e7, 6.5e10, 1.27e11),
                   Level(math.inf, 4.5e10, 5.5e10))}


@pytest.mark.parametrize("caches, forms", [("zen4", ZEN4), ("zen5", ZEN5)])
def test_the_form_that_was_sooner_is_the_cheaper_one(caches, forms):
    """However far the times of all are from what the model can tell; packing was done before."""
    known = cases(Registers(16), quick=False)
    measured = {known[f"{name} {form}"].name: us * 1e-6
                for name, times in forms.items() for form, us in times.items()}
    truth = replace(GENERIC, call=2e-7, overlap=0.0, product_rate=3e11 if caches == "zen5" else
                    GENERIC.product_rate, levels=CACHES[caches])
    traffic, timed = simulated(truth, 16)
    timed = [replace(t, seconds=measured.get(t.case.name, t.seconds)) if t.threads == 1 else t
             for t in timed]
    found = replace(fitted(GENERIC, 2, traffic, timed), ahead=0.0, ahead_far=0.0)
    for name, threads in pairs(forms, (1, 2)):
        told = {form: known[f"{name} {form}"].seconds(found, threads) for form in forms[name]}
        assert min(told, key=told.__getitem__) == "CpuPacked", (name, threads, told)
        told_more, more = (of["CpuDots"] / of["CpuPacked"] - 1.0 for of in (told, forms[name]))
        assert 0.4 * more < told_more < 1.3 * more, (name, threads, told)


def test_pairs_are_priced_against_floats_of_their_form():
    """Both take longer than products in general: neither becomes dearer than the other."""
    traffic, timed = simulated(replace(GENERIC, call=1e-7, templates={
        **GENERIC.templates, "CpuDirectPairs": 0.6}), 16)
    slow = [replace(t, seconds=1.5 * t.seconds) if t.case.of.startswith("CpuDirect") else t
            for t in timed]
    found = fitted(GENERIC, 2, traffic, slow)
    assert found.templates["CpuDirectPairs"] == pytest.approx(0.6, rel=0.1)
    assert "CpuDirect" not in found.templates


def test_one_case_that_was_disturbed_moves_little():
    traffic, timed = simulated(replace(GENERIC, call=1e-7), 16)
    clean = fitted(GENERIC, 2, traffic, timed)
    dirty = [replace(t, seconds=30 * t.seconds) if t.case.name.startswith("CpuPacked") and i % 9 == 0
             else t for i, t in enumerate(timed)]
    found = fitted(GENERIC, 2, traffic, dirty)
    assert found.product_rate == pytest.approx(clean.product_rate, rel=0.35)


# ---- the whole
def test_a_profile_of_this_machine(monkeypatch):
    """With a handful of kernels, since each is compiled."""
    few = {c.name: c for c in (chain(8), chain(40), tiny(64), single("Exp2"))}
    monkeypatch.setattr(measure, "cases", lambda lanes, quick, has: few)
    monkeypatch.setattr(measure, "_LARGEST", {True: 1 << 20})
    monkeypatch.setattr(measure, "_ROUNDS", {True: 1})
    told: list[str] = []
    cpu = Cpu()
    made = cpu.tune(True, told.append)
    assert len(told) == cpu.tune_steps(True)
    assert made.machine == cpu.machine() and made.device == "cpu" and made.unrest == 0.0
    assert made.costs.name == "cpu/measured" and made.costs.ops["Exp2"] > 0.2
    assert 1e9 < made.costs.loop_rate < 1e13
    assert made.costs.product_rate == load_costs(cpu.shipped).product_rate  # nothing told of it
    assert made.figures["read 16 KiB 1T GB/s"] > 0.1
    assert made.figures["multiply-adds f32 1T GFLOP/s"] > 0.1


def test_threads_that_others_hold_are_named(monkeypatch):
    monkeypatch.setattr(measure, "_machine", lambda m, n: {("barrier",): lambda: 0.0})
    monkeypatch.setattr(measure, "cases", lambda lanes, quick, has: {"chain": chain(8)})
    with pytest.raises(BackendError, match="other threads of this process .* process of its own"):
        Cpu().tune(True)


# ---- which processor
def test_a_processor_is_told_by_its_first_entry(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Fast  One\nmodel\t\t: 85\n\n"
                    "processor\t: 1\nmodel name\t: Slow\n")
    assert _described(path) == ["85", "Fast One"]
    assert len(_described(Path("/nonexistent"))) == 1
    assert "; " in processor(Cpu().toolchain)
    assert processor(Cpu().toolchain) == Cpu().machine() == Cpu().machine()


def test_sharing_a_stage_costs_more_than_handing_it_over():
    """What small kernels take in turns says nothing of what they read that other threads wrote."""
    traffic, timed = simulated(replace(GENERIC, launch=1e-8, call=1e-9), 16)
    found = fitted(GENERIC, 2, traffic, timed)
    assert found.call is not None and 1e-7 < found.call < found.launch
    assert found.launch > traffic.barrier
