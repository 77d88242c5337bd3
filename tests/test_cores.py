"""The CPUs that this process may use: affinity, and quotas of control groups."""

from __future__ import annotations

import os

import pytest

from tegg.cores import affinity, available, quota, side_by_side


def test_one_at_least_and_no_more_than_the_affinity(monkeypatch):
    assert 1 <= available() <= len(affinity()) <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert affinity() == set(range(os.cpu_count() or 1))


@pytest.mark.parametrize("lines, files, cpus", [
    ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 2),
    ("0::/a\n", {"a/cpu.max": "50000 100000"}, 1),
    ("0::/a\n", {"a/cpu.max": "nonsense"}, 1 << 20),
    ("4:cpu,cpuacct:/x\n2:memory:/y\n", {"cpu/x/cpu.cfs_quota_us": "300000",
                                         "cpu/x/cpu.cfs_period_us": "100000"}, 3),
    ("4:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, 1 << 20),
    ("", {}, 1 << 20)])
def test_quotas(tmp_path, lines, files, cpus):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "own").write_text(lines)
    assert quota(tmp_path, tmp_path / "own") == cpus


def test_no_cgroups(tmp_path):
    assert quota(tmp_path, tmp_path / "missing") == 1 << 20


def test_side_by_side_keeps_the_order_and_tells_what_failed(monkeypatch):
    monkeypatch.setattr("tegg.cores.available", lambda: 3)
    assert side_by_side(lambda a, b: a - b, [5, 7, 9, 11], [1, 2, 3, 4]) == [4, 5, 6, 7]
    assert side_by_side(str, []) == []
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda a: 1 // a, [1, 0, 2])
