"""The kernels that measure a GPU: they run, compile for every architecture, and make a profile."""

from __future__ import annotations

import pytest
from simt import fake_driver
from tegg.backends.cuda import measure, nvrtc
from tegg.backends.cuda.driver import open_device
from tegg.backends.cuda.measure import Figures, fitted, shown

from tegg.extract.cost import load_costs


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    with fake_driver.installed() as fake:
        yield fake


def test_figures(gpu):
    gpu.set(major=7, minor=5)
    told = []
    found = measure.figures(open_device(), quick=True, far=4096, rounds=2, step=told.append)
    assert told == list(measure.STEPS) and found.tensor == 0
    assert all(v > 0 for n, v in shown(found).items() if n != "tensor")
    names = {name for name, _, _ in gpu.launched}
    assert names == {"empty", "fill", "copy", "multiply_add", "shared"}
    # events are 0.25 ms apart on the played device: a copy reads and writes 4096 bytes once
    assert found.memory == pytest.approx(2 * 4096 / 0.25e-3)


def test_a_profile(gpu):
    device = open_device()
    shipped = load_costs("cuda/generic")
    made = fitted(shipped, Figures(3e-6, 2e12, 6e12, 40e12, 400e12, 20e12), device)
    assert made.launch == 3e-6 and made.threads == device.multiprocessors == 1
    assert [level.total for level in made.levels] == [6e12, 2e12]
    assert made.levels[0].size == device.l2_bytes / 2 and made.levels[1].size == float("inf")
    assert made.name == "cuda/Simulated GPU" and made.product_rate > made.loop_rate


@pytest.mark.parametrize("architecture", [75, 80, 90])
def test_it_compiles(architecture):
    if nvrtc.find() is None:
        pytest.skip("NVRTC is not installed")
    _, log = nvrtc.find().compile(measure.source(architecture), architecture)
    assert ("'tensor'" in log) == (architecture >= 80)
