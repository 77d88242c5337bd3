"""The suite against peers: its contenders are right, and its tables say what was measured."""

from __future__ import annotations

import importlib
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks" / "peers"


@pytest.fixture(scope="module")
def peers():
    """The modules of the suite, which is a folder of scripts."""
    names = ("workloads", "worker", "report", "page", "contender", "run", "in_tegg", "in_numpy")
    sys.path.insert(0, str(FOLDER))
    try:
        yield {n: importlib.import_module(n) for n in names}
    finally:
        sys.path.remove(str(FOLDER))
        for n in names:
            sys.modules.pop(n, None)


def built(peers, tmp_path, name: str, contender: str) -> dict:
    w = peers["workloads"].SUITE[name]
    np.savez(tmp_path / "reference.npz", *w.reference())
    session = peers["worker"].Session(peers["worker"].find(contender)(1))
    said = session.build(name, str(tmp_path / "reference.npz"), 0.0)
    said["timed"] = session.time(name, 0.001, 0.0) if not said.get("skipped") else None
    return said


@pytest.mark.parametrize("option, known", [("--weigh", "numpy"), ("--peers", "numpy"),
                                           ("--only", "softmax")])
def test_names_that_nobody_has_are_refused(option, known) -> None:
    told = subprocess.run([sys.executable, str(FOLDER / "run.py"), option, f"{known},nobody"],
                          capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert f"{option} {known},nobody: nobody is none of" in told.stderr and known in told.stderr


@pytest.mark.parametrize("name", ("tiny", "conv3x3", "decode", "train_mlp"))
@pytest.mark.parametrize("contender", ("tegg", "numpy"))
def test_contenders_compute_the_reference(peers, tmp_path, name, contender) -> None:
    said = built(peers, tmp_path, name, contender)
    assert said["good"] and said["first_s"] > 0
    assert 0 < said["timed"]["best"] <= said["timed"]["median"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_all_that_a_process_holds_is_read_and_nothing_is_added_to_it(peers) -> None:
    memory, awake = peers["worker"]._memory, peers["worker"]._pages_awake
    half = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    half.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, 32 << 20, mmap.PAGESIZE):
        half[at] = 1
    before = memory("RssAnon")
    read = awake()
    assert before > 32 << 20 and read > 0.95 * before
    assert memory("RssAnon") < before + (8 << 20)
    half.close()


@pytest.mark.parametrize("name, held", (("softmax", 32), ("attention", 6)))
def test_the_memory_of_a_workload_is_what_it_holds(tmp_path, name, held) -> None:
    """Inputs and results, and little else, in a process of its own."""
    code = ("import sys, workloads, worker, pathlib\n"
            "name, place = sys.argv[1:]\n"
            "workloads.write_inputs(pathlib.Path(place), name)\n"
            "session = worker.Session(worker.find('tegg')(1))\n"
            "print(session.weigh(name, place)['peak_bytes'])\n")
    said = subprocess.run([sys.executable, "-c", code, name, str(tmp_path)], cwd=FOLDER, text=True,
                          env=os.environ | {"TEGG_THREADS": "1"}, capture_output=True, check=True)
    assert 0.9 * held < int(said.stdout) / 2**20 < held + 3


def test_what_a_contender_does_not_do_is_skipped(peers, tmp_path) -> None:
    assert built(peers, tmp_path, "tiny", "tegg.winograd")["skipped"]


def test_bfloat16_is_right_within_its_bound(peers, tmp_path) -> None:
    said = built(peers, tmp_path, "matmul_64", "tegg.bf16")
    assert said["good"] and said["error"] <= peers["contender"].BF16


def test_a_wrong_result_is_seen(peers) -> None:
    error = peers["worker"].error
    ones = np.ones(3)
    assert error((ones,), (ones,)) == 0
    assert error((ones * 2,), (ones,)) == 1
    assert error((ones * np.nan,), (ones,)) == float("inf")


def test_first_calls_are_the_median_of_several_processes(peers, monkeypatch, tmp_path) -> None:
    answers = iter([{"ok": True, "first_s": 5.0}, {"ok": False}, {"ok": True, "first_s": 2.0}])
    stopped = []

    class Fake:
        def __init__(self, name, threads, log):
            assert (name, threads) == ("tegg", 2)

        def ask(self, **command):
            assert command["do"] == "build" and command["name"] == "w"
            return next(answers)

        def stop(self):
            stopped.append(self)

    monkeypatch.setattr(peers["run"], "Peer", Fake)
    said = {"w": {"tegg": {"ok": True, "first_s": 1.0}}, "v": {"tegg": {"ok": False}}, "u": {}}
    peers["run"].compiled_again("tegg", 4, 2, said, tmp_path, None)
    assert said["w"]["tegg"]["first_s"] == 2.0 and len(stopped) == 3
    assert said["v"] == {"tegg": {"ok": False}} and said["u"] == {}


def test_who_is_near_the_fastest_is_timed_in_further_rounds(peers) -> None:
    near = peers["run"].near

    def times(**medians: float) -> dict[str, list[dict]]:
        return {n.replace("_", "."): [{"median": m, "best": m}] for n, m in medians.items()}

    assert near(times(tegg=1.1, a=1.0, b=1.19, c=1.3)) == {"tegg", "a", "b"}
    assert near(times(tegg=1.0, a=1.3)) == near(times(tegg=1.3, a=1.0, b=1.1)) == set()
    # Winograd's form is no rival of the direct one, and bfloat16 is compared with bfloat16.
    assert near(times(tegg=1.0, tegg_winograd=0.4, a=1.1)) == {"tegg", "a"}
    assert near(times(tegg=1.0, tegg_bf16=0.5, a=2.0, a_bf16=0.55)) == {"tegg.bf16", "a.bf16"}
    assert near({}) == near(times(tegg=1.0)) == set()


def test_rows_compare_the_fastest_of_ours_with_the_fastest_rival(peers) -> None:
    said = {"w": {n: {"ok": True, "first_s": 1.0, "error": 0.0, "peak_bytes": 2**20, "good": True}
                  for n in ("tegg", "tegg.winograd", "a", "b")} | {"c": {"ok": False, "why": "-"}}}
    times = {"w": {n: [{"median": m, "best": m / 2}] * 3 for n, m in
                   (("tegg", 4.0), ("tegg.winograd", 2.0), ("a", 8.0), ("b", 5.0))}}
    (row,) = peers["report"].rows_of(said, times, {"w": 0.5})
    assert row.ours() == "tegg.winograd" and row.rival("tegg") == "b"
    assert row.ratio() == row.ratio("best") == 0.4 and row.fraction == 0.25 and row.memory == 1
    text = peers["report"].table([row], "a machine")
    assert "0.40" in text and "first call, s" in text and "peak memory, MB" in text
    assert row.record()["rival"] == "b"


def test_ratios_are_of_the_same_round(peers) -> None:
    """A machine that is slow in some rounds is so for both; who died has fewer rounds."""
    said = {"w": {n: {"ok": True, "first_s": 1.0, "error": 0.0} for n in ("tegg", "a", "b")}}
    times = {"w": {n: [{"median": m, "best": m} for m in ms] for n, ms in (
        ("tegg", (1.0, 9.0, 1.0, 9.0, 9.0)), ("a", (2.0, 18.0, 2.0, 2.0, 18.0)), ("b", (3.0,)))}}
    (row,) = peers["report"].rows_of(said, times, {"w": 0.5})
    assert row.median["tegg"] > row.median["a"] == 2.0
    assert row.paired == {"tegg": {"a": 0.5, "b": 1 / 3}}
    assert row.rival("tegg") == "a" and row.ratio() == 0.5 and row.ratio("best") == 0.5
    plain = peers["report"].Row("w", 0.5, row.median, row.best, {}, {}, {})
    assert plain.ratio() == row.median["tegg"] / row.median["a"]  # records of before have no ratios


def test_a_rival_is_near_the_fastest(peers) -> None:
    """Ratios of few rounds, which those who are far have, are no measure."""
    row = peers["report"].Row("w", 0.5, {"tegg": 1.0, "a": 1.0, "b": 1.2, "c": 1.3}, {}, {}, {}, {},
                              {"tegg": {"a": 1.0, "b": 1.05, "c": 1.4}})
    assert row.rival("tegg") == "b" and row.ratio() == 1.05


def test_bfloat16_is_compared_with_bfloat16(peers) -> None:
    said = {"w": {n: {"ok": True, "first_s": 1.0, "error": 0.0, "peak_bytes": b, "good": True}
                  for n, b in (("tegg", 6 << 20), ("tegg.bf16", 3 << 20), ("a", 8 << 20),
                               ("a.bf16", 2 << 20))}}
    times = {"w": {n: [{"median": m, "best": m}] for n, m in
                   (("tegg", 4.0), ("tegg.bf16", 1.0), ("a", 8.0), ("a.bf16", 2.0))}}
    (row,) = peers["report"].rows_of(said, times, {"w": 0.5})
    assert row.ours() == "tegg" and row.ours(bf16=True) == "tegg.bf16"
    assert row.ratio() == 0.5 and row.ratio(bf16=True) == 0.5 and row.memory == 0.75
    assert "in bf16" in peers["report"].table([row], "a machine")


@pytest.mark.parametrize("page, record, table", [
    ("README.md", "peers", "page"), ("docs/measured.md", "peers", "halves"),
    ("docs/measured.md", "peers-zen4", "page"), ("docs/measured.md", "peers-zen4", "halves"),
    ("docs/measured.md", "peers-xeon", "page"),
    ("docs/measured.md", "peers-xeon-amx", "page"), ("docs/measured.md", "peers-xeon-amx", "halves")])
def test_tables_of_pages_are_those_of_records(peers, page, record, table) -> None:
    path = peers["page"].RECORD.with_stem(record)
    text = (FOLDER.parent.parent / page).read_text(encoding="utf-8")
    assert getattr(peers["page"], table)(json.loads(path.read_text(encoding="utf-8"))) in text


def test_the_least_time_is_that_of_the_scarcer_resource(peers) -> None:
    sys.path.insert(0, str(FOLDER))
    try:
        limits = importlib.import_module("limits")
    finally:
        sys.path.remove(str(FOLDER))
    w = peers["workloads"].SUITE["matmul_1024"]
    assert limits.Limits(1e9, {w.bytes: 1e12}).seconds(w) == w.flops / 1e9
    assert limits.Limits(1e15, {w.bytes: 1e6}).seconds(w) == w.bytes / 1e6
