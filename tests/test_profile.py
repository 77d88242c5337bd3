"""Measured profiles: written whole, read back, refused with the remedy, used where they fit."""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

import tegg
from tegg.backends.cpu.target import Cpu
from tegg.errors import ArgumentError
from tegg.extract.cost import Level, load_costs
from tegg.extract.profile import Profile, measured_costs, read_profile, user_profile

BASE = load_costs("cpu/generic", 2)
HERE = 'a "CPU" \\ of\ttwo'


def profile(**more) -> Profile:
    costs = replace(BASE, name="cpu/measured", call=1e-7, ops={"Sin": 22.5}, levels=(
        Level(1e6, 9e10, 1.8e11, 1.5), Level(math.inf, 1e10, 2e10)))
    return Profile(replace(costs, **more), "cpu", HERE, 2, "2026-01-01", {"read GB/s": 12.5}, 0.25)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    monkeypatch.delenv("TEGG_COSTS", raising=False)
    return tmp_path


@given(st.floats(1e-9, 1e15), st.floats(0.01, 1e3), st.text())
def test_what_is_written_is_read_back(rate, weight, text):
    p = Profile(replace(profile().costs, loop_rate=rate, ops={"Sin": weight}), "cpu", text, 2)
    data = tomllib.loads(p.text())
    assert data["loop_rate"] == pytest.approx(rate, rel=1e-5)
    assert data["ops"]["Sin"] == pytest.approx(weight, rel=1e-5)
    assert data["measured"]["machine"] == text


def test_a_profile_is_kept_by_its_processor(cache):
    path = profile().write()
    assert path == user_profile("cpu", HERE) != user_profile("cpu", "another")
    assert read_profile(path, "cpu", HERE) == profile()
    assert measured_costs("cpu", HERE) == profile().costs
    assert measured_costs("cpu", "another") is None
    assert load_costs(path, threads=7) == profile().costs.with_threads(7)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("change, says", [
    (lambda t: t[:200] + "[[", "is not TOML"),
    (lambda t: t.split("[measured]")[0], r"no table \[measured\] with device, machine, date"),
    (lambda t: t.replace("version = 2", "version = 0"), "is of version 0, and this tegg reads"),
    (lambda t: t.replace('device = "cpu"', 'device = "abacus"'), "is for abacus on"),
    (lambda t: t.replace("overlap = 0.8", "overlap = 8.0"), "overlaps are 0 to 1"),
    (lambda t: t.replace("launch = ", "lunch = "), "launch.* is unknown or missing"),
])
def test_a_profile_that_cannot_be_used_is_passed_over_with_the_remedy(cache, change, says):
    path = profile().write()
    path.write_text(change(path.read_text()))
    with pytest.raises(ArgumentError, match=says) as error:
        read_profile(path, "cpu", HERE)
    assert "measure again by `tegg tune --device cpu`, or delete the file" in str(error.value)
    with pytest.warns(RuntimeWarning, match=f"(?s){says}.*tegg tune.*profile that is shipped"):
        assert measured_costs("cpu", HERE) is None


def test_a_missing_profile_is_named(tmp_path):
    with pytest.raises(ArgumentError, match="no cost profile .*No such file.*tegg tune"):
        read_profile(tmp_path / "none.toml", "cpu", HERE)


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path / "file"))
    with pytest.raises(ArgumentError, match=r"cannot be made .*set TEGG_CACHE .*--output"):
        profile().write()


def test_compile_takes_the_measured_profile_and_makes_new_plans(cache, monkeypatch):
    import numpy as np
    x = np.ones((4, 8), np.float32)
    before = tegg.compile(lambda x: tegg.softmax(x, -1))
    before(x)
    mine = Cpu()
    assert mine.costs().name == mine.shipped
    slow = replace(profile(), machine=mine.machine(), costs=replace(profile().costs, call=0.5,
                                                                    launch=0.5))
    slow.write()
    assert Cpu().costs() == slow.costs.with_threads(Cpu().costs().threads)
    after = tegg.compile(lambda x: tegg.softmax(x, -1))
    after(x)
    assert after.stats["predicted_seconds"] > 0.5 > before.stats["predicted_seconds"]
    monkeypatch.setenv("TEGG_COSTS", "cpu/generic")
    assert Cpu().costs().name == "cpu/generic"
    monkeypatch.setenv("TEGG_COSTS", str(os.path.join(cache, "none.toml")))
    with pytest.raises(ArgumentError, match="no cost profile"):
        Cpu().costs()


@pytest.mark.parametrize("features, name", [
    ({"zen", "avx512bf16"}, "cpu/zen4"), ({"zen", "avx512bf16", "avxvnni"}, "cpu/zen5"),
    ({"zen"}, "cpu/zen3"), ({"zen", "avxvnni"}, "cpu/zen3"), ({"avx512bf16"}, "cpu/generic"),
    ({"avx512bf16", "avxvnni"}, "cpu/generic")])
def test_what_is_shipped_is_of_the_kind_of_processor(monkeypatch, features, name):
    cpu = Cpu()
    cpu.toolchain = replace(cpu.toolchain, features=frozenset(features))
    assert cpu.shipped == name
    monkeypatch.delenv("TEGG_COSTS", raising=False)
    assert cpu.costs().name == name
