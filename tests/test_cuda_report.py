"""The report of compiled kernels: its page is what its record says, and it runs to its end."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.disassembly import disassembler

from tegg.errors import BackendError

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "benchmarks" / "results" / "cuda-kernels.json"


def page_of(record):
    spec = importlib.util.spec_from_file_location("page", ROOT / "tools" / "cuda_report_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.page(record)


def report(*argv):
    return subprocess.run([sys.executable, str(ROOT / "tools" / "cuda_report.py"), *argv],
                          capture_output=True, text=True, check=False)


def missing():
    try:
        disassembler()
    except BackendError:
        return True
    return nvrtc.find() is None


def test_the_page_is_what_the_record_says():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert page_of(record) == (ROOT / "docs" / "cuda-kernels.md").read_text(encoding="utf-8")


def test_what_the_record_shows():
    """No kernel of the bundle spills; rows move each byte once; products of halves are on tensor
    cores, with copies past registers; loads of contiguous memory are of 128 bits."""
    rows = {(r["program"], r["sm"]): r["kernels"] for r in json.loads(
        RECORD.read_text(encoding="utf-8"))["programs"]}
    assert {sm for _, sm in rows} == {75, 80, 90}
    assert not sum(k["spilled"] for kernels in rows.values() for k in kernels)
    for name in ("softmax", "log_softmax", "elementwise_wide", "reduce_all"):
        counted = [k for k in rows[name, 90] if "moved" in k]
        assert counted and all(k["moved"] == k["planned"] for k in counted), name
    for name in ("bench_matmul_f16_4096", "bench_attention_f16"):
        (kernel,) = rows[name, 90]
        assert kernel["tensor"] and set(kernel["copies"]) == {"128"}
    for name in ("bench_ew_gelu", "bench_softmax", "bench_layernorm", "bench_rmsnorm"):
        assert all(set(k["loads"]) == set(k["stores"]) == {"128"} for k in rows[name, 90])


def test_the_page_of_few_kernels():
    kernel = {"kernel": "k0", "is": "x", "threads": 256, "registers": 40, "shared": 8, "spilled": 4,
              "instructions": 9, "tensor": 2, "loads": {"128": 3, "32": 1}, "stores": {"64": 2},
              "planned": [2000, 10], "moved": [2400, 10]}
    text = page_of({"compiler": "12.9", "programs": [
        {"program": "p", "family": "rows", "sm": 90, "kernels": [kernel, {**kernel, "spilled": 0}]}]})
    assert "| sm_90 | 1 | 2 | 40 | 1 | 4 | 2 |" in text
    assert ("| p | 2 | 40 | 8 | 4 | 4 | 6 of 128, 2 of 32 | 4 of 64 |  | 4,800 / 4,000 | 20 / 20 |"
            in text)


@pytest.mark.skipif(missing(), reason="NVRTC or nvdisasm is not installed")
def test_a_report_of_one_program():
    done = report("--only", "softmax_short")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kernels, 0 of them spill" in done.stdout
    assert "384,000 / 384,000" in done.stdout


def test_what_tests_have_written(tmp_path):
    path = tmp_path / "rows"
    path.write_text("".join(json.dumps(
        {"test": f"t.py::f[{n}]", "sm": 90, "kernel": f"k{n}", "registers": 10 * n, "shared": n,
         "spilled": 8 * (n == 3)}) + "\n" for n in (1, 2, 3)))
    done = report("--tests", str(path))
    assert done.returncode == 0 and "3 kernels, 1 of them spill" in done.stderr
    assert json.loads(done.stdout) == [
        {"test": "t.py::f", "sm": 90, "kernels": 3, "registers": {"median": 20, "most": 30},
         "shared bytes": 3, "spilling": {"k3": 8}}]
    assert report("--tests", str(tmp_path / "nothing")).returncode == 2
