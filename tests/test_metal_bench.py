"""``make metal`` at a small scale on the simulator, and what the kernels look like that it measures."""

from __future__ import annotations

import importlib.util
import json
import platform
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from simt import fake_metal, fake_objc

import tegg
from tegg.backends.metal.target import Metal
from tegg.rewrite.compiler import Compiler
from tegg.testing.backend import check_backend

PATH = Path(__file__).parent.parent / "benchmarks" / "metal.py"
SPEC = importlib.util.spec_from_file_location("metal_bench", PATH)
bench = importlib.util.module_from_spec(SPEC)
sys.modules["metal_bench"] = bench
SPEC.loader.exec_module(bench)


@pytest.fixture
def gpu(monkeypatch, tmp_path, quick_cpu):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    with fake_metal.installed():
        yield


def test_it_checks_measures_and_reports(gpu, tmp_path, capsys, monkeypatch):
    path = tmp_path / "out.json"
    assert bench.main(["--scale", "0.01", "--only", "copy,matmul,half", "--models", "resnet", "--small", "--repeats", "1", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert set(report["errors"]) == {"copy", "matmul", "half", "resnet"}
    assert report["failures"] == {} and report["tegg"] == tegg.__version__
    assert report["times"]["resnet"]["seconds"] > 0
    assert report["times"]["matmul"]["flops_per_second"] > 0
    assert "copy at 85% of a copy" in report["targets"]
    said = capsys.readouterr().out
    assert "MISSED" in said or all(report["targets"].values())
    assert said.startswith("Apple M2 Pro, ") and "Is it right? 4 programs on the GPU" in said
    assert f"all of it is in {path}" in said


@pytest.mark.skipif(platform.machine() != "x86_64", reason="messages are played for x86-64 alone")
def test_it_runs_past_metalcompute(tmp_path, monkeypatch):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    path = tmp_path / "out.json"
    monkeypatch.setattr(bench.metal_models, "THROUGH", "metalcompute")  # and back afterwards
    with fake_objc.installed():
        assert bench.main(["--scale", "0.01", "--only", "softmax", "--models", "", "--repeats", "1", "--through", "metal", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert (report["through"], report["device"]) == ("metal", "Apple M2 Pro")


def test_what_is_wrong_is_not_measured(gpu, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench.metal_models, "check", lambda name: 0.5)
    path = tmp_path / "deep" / "out.json"
    assert bench.main(["--scale", "0.01", "--only", "copy", "--models", "encoder", "--json", str(path)]) == 1
    assert set(json.loads(path.read_text())["times"]) == {"copy"}
    assert "WRONG: encoder" in capsys.readouterr().out


def test_what_fails_is_kept_and_the_rest_goes_on(gpu, tmp_path, capsys, monkeypatch):
    def fails(name):
        raise tegg.BackendError("Metal does not compile kernels\n    1 #include")

    monkeypatch.setattr(bench.metal_models, "check", fails)
    path = tmp_path / "out.json"
    assert bench.main(["--scale", "0.01", "--only", "copy", "--models", "vit", "--json", str(path)]) == 1
    report, said = json.loads(path.read_text()), capsys.readouterr().out
    assert report["failures"] == {"vit": "BackendError: Metal does not compile kernels\n    1 #include"}
    assert set(report["times"]) == {"copy"} and "FAILED: vit" in said
    assert re.search(r"^vit +FAILED  BackendError: Metal does not compile kernels$", said, re.MULTILINE)


@pytest.mark.parametrize("option, words", [
    ("--only=softmax,coppy", "there is no 'coppy'; there are copy, gelu,"),
    ("--models=bert", "there is no 'bert'; there are encoder, gpt2,"),
    ("--through=cuda", "invalid choice: 'cuda'")])
def test_names_that_are_not_known(capsys, option, words):
    with pytest.raises(SystemExit):
        bench.main([option])
    assert words in capsys.readouterr().err


def test_a_machine_that_is_no_mac(capsys, monkeypatch):
    from tegg.backends.metal import driver
    driver.open_device.cache_clear()
    monkeypatch.setitem(sys.modules, "metalcompute", None)
    assert bench.main([]) == 2
    assert "runs on the GPU of a Mac: device 'metal'" in capsys.readouterr().err
    driver.open_device.cache_clear()


@pytest.mark.parametrize("names", [list(bench.FAMILIES)[part::4] for part in range(4)], ids=str)
def test_families_are_right(gpu, names):
    for name in names:
        family = bench.FAMILIES[name]
        assert bench.check(family, 0.015) < (2e-2 if family.dtype != "f32" else 1e-4), name


@pytest.mark.parametrize("name", bench.metal_models.MODELS)
def test_models(gpu, name):
    """Small ones: every kernel of a real model, through the runtime; of the language models a
    prompt and tokens after it, with what their caches hold."""
    assert bench.metal_models.check(name) < 1e-4


@pytest.mark.long
@pytest.mark.parametrize("name", ["gpt2", "encoder"])
def test_models_are_timed(gpu, name):
    assert all(t > 0 for t in bench.metal_models.measure(name, 1, small=True).values())


@pytest.mark.long  # its parts, a few examples of each, in every run: test_simulated.py
def test_the_property_kit():
    with fake_metal.installed():
        report = check_backend(Metal("M2"), examples=16)
    assert report.programs >= 12 and len(report.rows) > 40 and report.classes > 20


# ---- what kernels look like at full size, of which nothing runs here
class Planned:
    """A target that stops where a GPU would be needed."""

    def __init__(self, through):
        self.target = Metal("M2", through)
        self.plan = None

    def __getattr__(self, name):
        return getattr(self.target, name)

    def build(self, plan):
        self.plan = plan
        raise StopIteration


def planned(name, through="metalcompute"):
    """The plan of a family at full size."""
    target, family = Planned(through), bench.FAMILIES[name]
    stack = (tegg.Generic(), Compiler(name="metal", target=target))
    with pytest.raises(StopIteration):
        tegg.trace(family.fn, [np.empty(s, tegg.dtype(family.dtype).numpy) for s in family.shapes]
                   ).graph.compile(stack, cache=False)
    return target.plan


@pytest.mark.parametrize("name, most", [
    ("copy", 1), ("gelu", 1), ("transpose", 1), ("softmax", 1), ("norm", 1), ("row sums", 1),
    ("column sums", 2), ("sum", 2), ("half", 1), ("matmul", 1), ("mlp", 2), ("attention", 1),
    ("attention f16", 1), ("attention grouped", 1)])
def test_few_dispatches(name, most):
    plan = planned(name)
    assert sum(len(c.stages) for c in plan.run) <= most


@pytest.mark.parametrize("name", ["copy", "gelu", "softmax", "matmul"])
def test_bytes_are_those_of_the_arguments_and_results(name):
    """Each kernel of a family that is one moves every array once, as the plan says."""
    plan = planned(name)
    (call,) = plan.run
    given = sum(b.bytes({}) for b in plan.buffers if b.kind in ("input", "output"))
    work = plan.kernels[call.kernel].work
    assert work.loaded + work.stored == given


@pytest.mark.parametrize("name", ["copy", "gelu"])
def test_elementwise_kernels_move_sixteen_bytes(name):
    (kernel,) = planned(name).kernels
    assert "wide_load" in kernel.source and "wide_store" in kernel.source
    assert not re.search(r"\bsf_(load|store)\(", kernel.source)


@pytest.mark.parametrize("through", ["metalcompute", "metal"])
@pytest.mark.parametrize("name", ["matmul", "matmul f16", "matmul bf16", "mlp", "attention",
                                  "attention f16", "attention grouped"])
def test_products_are_made_in_simdgroup_matrices(name, through):
    """Of halves only past metalcompute, in MSL 3.1."""
    plan = planned(name, through)
    assert all("simdgroup_multiply_accumulate" in k.source for k in plan.kernels)
    assert all(("simdgroup_half8x8" in k.source) == ("f16" in name.split() and through == "metal")
               for k in plan.kernels)


@pytest.mark.parametrize("name", ["one row", "one row turned", "few rows f16"])
def test_few_rows_are_read_once(name):
    """No tile of them is padded: every element of the weights is loaded by one thread."""
    (kernel,) = planned(name).kernels
    assert "matrix" not in kernel.source and kernel.notes[0].startswith("rows ")
