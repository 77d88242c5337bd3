"""The bundle for machines with a GPU: made here, and run by its own runner over the played driver."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from simt import fake_driver
from simt.simulator import built
from tegg.backends.cuda.program import prelude
from tegg.backends.cuda.tune.cases import Sizes

PRICES = Sizes((4, 12), 256, ("f32",), 256, 3, ("Exp2",), {"product": (40, 72, 64)}, ("f16",), ())

HERE = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def maker():
    with pytest.MonkeyPatch.context() as m:
        m.syspath_prepend(str(HERE / "gpu_bundle"))
        m.syspath_prepend(str(HERE))
        import make
        yield make
        for name in ("make", "cases", "arrays", "machine", "prices", "gpu_workloads"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def bundle(maker, tmp_path_factory):
    """A few small programs, and two workloads cut down, for the played device."""
    import cases
    import gpu_workloads
    wanted = {"softmax_short", "product_uneven", "gather", "symbolic", "elementwise_bf16"}
    found = [shrunk(c) for c in cases.FAMILIES if c.name in wanted]
    found += [c for c in gpu_workloads.cases() if c.name == "bench_tiny"]
    found += [small_workload(), cases.decoder_step(layers=1, size=32, slots=8, words=200)]
    folder = tmp_path_factory.mktemp("gpu") / "bundle"
    size = maker.make(folder, found, (90,), fake_driver.Compiler().compile, prices=PRICES)
    assert 10_000 < size < 8 << 20
    return folder


def small_workload():
    """A product of which there are several plans, under the name of a workload."""
    import cases
    return cases.Case("bench_matmul_f32_4096", "workloads", lambda x, w: x @ w,
                      (cases.Input((40, 64)), cases.Input((64, 72))), 1e-5, big=True)


def shrunk(case):
    """A case whose large axes are cut, for a device that is played."""
    import cases
    return replace(case, inputs=[
        cases.Input(tuple(min(n, 40 + n % 5) for n in x.shape), x.dtype, min(x.low, 40.0),
                    min(x.high, 40.0)) for x in case.inputs]) if case.name != "symbolic" else case


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A folder by which no process can import what a machine with a GPU may lack."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "sitecustomize.py").write_text(
        "import sys\nsys.modules |= dict.fromkeys(['egglog', 'ml_dtypes', 'highspy', 'platformdirs'])\n")
    return folder


@pytest.fixture(scope="module")
def run(bare):
    """A script of the bundle, over the played driver or what ``path`` has in its place."""
    def one(folder: Path, *argv: str, path: str | None = None,
            played: str = "") -> subprocess.CompletedProcess:
        libraries = str(fake_driver.library_path().parent) if path is None else path
        return subprocess.run([sys.executable, str(folder / argv[0]), *argv[1:]], check=False,
                              capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": libraries,
                                   "PLAYED_DEVICE": played, "PYTHONPATH": str(bare)})
    return one


def test_every_program_is_right(run, bundle, tmp_path):
    done = run(bundle, "run.py", "--json", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 of 7 programs are right" in done.stdout and "Simulated GPU, sm_90" in done.stdout
    rows = json.loads((tmp_path / "r.json").read_text())["programs"]
    assert {"product_uneven", "product_uneven__1", "decoder_step", "symbolic"} <= {
        r["name"] for r in rows}
    assert all(r["ok"] and r["machine code"] == 90 for r in rows)


def test_a_wrong_result_is_found(run, bundle, tmp_path):
    at = bundle / "programs" / "sm_90" / "gather" / "expected.npz"
    kept = at.read_bytes()
    values = dict(np.load(at))
    values["o0"][3] += 0.25
    np.savez_compressed(at, **values)
    try:
        done = run(bundle, "run.py", "--only", "gather")
    finally:
        at.write_bytes(kept)
    assert done.returncode == 1 and "FAIL gather" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("body, says", [
    ("b1[1 << 20] = 1;", "FAIL gather .*a kernel failed"),
    ("__builtin_trap();", "FAIL gather .*its process ended with status -4"),
    pytest.param("volatile int on = 1; while (on) {}", "FAIL gather .*no result in 20 s, and its pro",
                 marks=pytest.mark.long),
], ids=["a fault", "a process that dies", "a kernel without an end"])
def test_what_fails_does_not_end_the_rest(run, bundle, body, says):
    at = bundle / "programs/sm_90/gather"
    kept = (at / "sm_90.cubin").read_bytes()
    head = re.search(r"^KERNEL[^{]*{", (at / "kernels.cu").read_text(), re.MULTILINE)[0]
    path, _ = built(f"{prelude()}{head} {body} }}")
    (at / "sm_90.cubin").write_bytes(path.read_bytes())
    try:
        done = run(bundle, "run.py", "--only", "t", "--seconds", "20")
    finally:
        (at / "sm_90.cubin").write_bytes(kept)
    assert done.returncode == 1 and re.search(says, done.stdout), done.stdout + done.stderr
    assert "5 of 6 programs are right" in done.stdout
    assert done.stdout.index("FAIL gather") < done.stdout.index("ok   softmax_short")


def test_everything_in_one_command(run, bundle, tmp_path):
    done = run(bundle, "", path=str(tmp_path))  # python FOLDER
    assert done.returncode == 2 and "== run.py" in done.stdout, done.stdout + done.stderr
    assert "no program can run: NVIDIA's driver cannot be" in done.stdout
    assert "== tune.py" not in done.stdout


def test_what_is_missing_is_said(run, bundle, tmp_path):
    (tmp_path / "libcuda.so.1").write_text("no library")
    done = run(bundle, "run.py", path=str(tmp_path))
    assert done.returncode == 2 and "no program can run: NVIDIA's driver cannot be" in done.stdout
    done = run(bundle, "gpu.py", "--json", str(tmp_path / "r.json"), path=str(tmp_path))
    assert done.returncode == 2 and "nothing can be measured" in done.stdout


def test_a_gpu_that_the_bundle_is_not_for(run, bundle):
    done = run(bundle, "run.py", played="major=8 minor=6")
    assert done.returncode == 2
    assert "planned for [90], all newer than Simulated GPU, which is sm_86" in done.stdout


def test_which_machine_code_runs(bundle, maker, monkeypatch, tmp_path):
    import machine
    from tegg.errors import BackendError
    folder = bundle / "programs" / "sm_90" / "gather"
    code, architecture = machine.machine_code(folder, 90)
    assert architecture == 90 and code == (folder / "sm_90.cubin").read_bytes()
    monkeypatch.setattr(machine.nvrtc, "find", lambda: None)
    with pytest.raises(BackendError, match="machine code for .90., none runs on sm_100, and NVRTC"):
        machine.machine_code(folder, 100)
    monkeypatch.setattr(machine, "ROOT", bundle)
    monkeypatch.setattr(machine.nvrtc, "find", fake_driver.Compiler)
    code, architecture = machine.machine_code(folder, 100)
    assert architecture == 100 and code.startswith(b"\x7fELF")


def test_times_are_written(run, bundle, tmp_path):
    done = run(bundle, "gpu.py", "--json", str(tmp_path / "r.json"), "--copy-bytes", "65536",
               "--repeats", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "r.json").read_text())
    rows = {r["name"]: r for r in found["workloads"]}
    assert set(rows) == {"tiny", "matmul_f32_4096", "decoder_step"}
    tiny, product, model = (rows[n] for n in ("tiny", "matmul_f32_4096", "decoder_step"))
    assert tiny["ok"] and tiny["tegg"] > 0 and len(tiny["kernels"]) == 1 and not tiny["candidates"]
    assert found["ceilings"]["bandwidth"] > 0 and "fraction of bandwidth" in tiny
    assert product["ok"] and product["candidates"]
    assert all(c["ok"] and c["error"] < 1e-5 and c["predicted"] >= product["predicted"]
               for c in product["candidates"])
    assert "other plans" in done.stdout
    assert model["tegg"] > 0 and len(model["kernels"]) > 5


def test_other_plans_that_differ_are_found(run, bundle, tmp_path):
    at = bundle / "programs/sm_90/bench_matmul_f32_4096__1/program.json"
    kept = at.read_text()
    about = json.loads(kept)
    about["input"][0]["seed"] += 1
    at.write_text(json.dumps(about))
    try:
        done = run(bundle, "gpu.py", "--json", str(tmp_path / "r.json"), "--only", "matmul",
                   "--copy-bytes", "65536", "--repeats", "3")
    finally:
        at.write_text(kept)
    assert done.returncode == 1, done.stdout + done.stderr
    (row,) = json.loads((tmp_path / "r.json").read_text())["workloads"]
    assert row["ok"] and not row["candidates"][0]["ok"]


def test_a_profile_of_what_was_measured_there(run, bundle, maker, tmp_path):
    """The bundle times its kernels without tegg; here a profile is made of that."""
    import prices
    from tegg.extract.profile import read_profile
    done = run(bundle, "tune.py", "--json", str(tmp_path / "p.json"), "--rounds", "2", "--quick",
               played="major=9 minor=0")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "p.json").read_text())
    assert found["architecture"] == 90 and {c[0].split("(")[0] for c in found["cases"]} >= {
        "chain of 4 in f32", "3 x Exp2", "CudaTiled", "CudaMma"}
    assert all(s > 0 for _, s in found["cases"])
    # one that is installed here finds no GPU
    assert re.search("missing: cuBLAS|left out: BlasGemm.*cuBLAS refuses", done.stdout)
    made = prices.profile(found, PRICES)
    made.write(tmp_path / "sm.toml")
    again = read_profile(tmp_path / "sm.toml", "cuda", "Simulated GPU, sm_90")
    assert again.costs.name == "cuda/measured" and again.costs.ops["Exp2"] > 0
    told = prices.choices(found, again.costs, PRICES)
    assert told and all(ratio >= 1 for ratio in told.values())
    assert again.figures["memory"] == pytest.approx(found["figures"]["memory"], rel=1e-5)


def test_choices_are_told_by_times(maker):
    """Of the forms of one product that which costs choose, over the fastest; events add nothing."""
    import prices
    from tegg.backends.cuda.target import Cuda
    from tegg.backends.cuda.tune.cases import cases
    costs = Cuda(90).costs()
    made = cases(Cuda(90, model="x", blas=True, wgmma=True), PRICES)
    added = 1e-3
    found = {"architecture": 90, "device": "x", "multiprocessors": costs.threads, "cases": [
        [c.name, c.seconds(costs, costs.threads) + added] for c in made]}
    small = next(i for i, c in enumerate(made) if c.small)
    found["cases"][small][1] = costs.launch + added
    told = prices.choices(found, costs, PRICES)
    assert told and all(ratio == pytest.approx(1) for ratio in told.values())
    (product, *_) = told
    fast = min((s, n) for n, s in found["cases"] if n.endswith(product) and not n.startswith("Blas"))
    found["cases"] = [[n, s + (s - added) * (n == fast[1])] for n, s in found["cases"]]
    assert prices.choices(found, costs, PRICES)[product] > 1.0


def test_what_is_written_of_a_program(bundle):
    about = json.loads((bundle / "programs/sm_90/product_uneven/program.json").read_text())
    assert about["templates"] and about["resources"]["sm_90"]
    assert len(about["resources"]["sm_90"]) == len(about["run"]) + len(about["ahead"])
    other = json.loads((bundle / "programs/sm_90/product_uneven__1/program.json").read_text())
    assert not set(about["templates"]) & set(other["templates"])


def test_the_bundle_has_a_limit(maker, tmp_path, monkeypatch):
    import cases
    from tegg.errors import BackendError
    (tmp_path / "pycuda-1-py3.whl").write_bytes(b"x" * 100)
    monkeypatch.setattr(maker, "LIMIT", 50)
    with pytest.raises(BackendError, match="more than 0 MB; leave cases out"):
        maker.make(tmp_path / "out", [c for c in cases.FAMILIES if c.name == "argmax"], (90,), None,
                   tmp_path)
    assert (tmp_path / "out/wheels/pycuda-1-py3.whl").exists()
    assert (tmp_path / "out/programs/sm_90/argmax/kernels.cu").read_text()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "i64", "bool"])
def test_arrays_are_drawn_alike_everywhere(maker, dtype):
    import arrays
    spec = {"shape": [3, 1000], "dtype": dtype, "seed": 7, "low": -2.0, "high": 3.0}
    x = arrays.decoded(arrays.drawn(spec), dtype).astype(np.float64)
    assert x.shape == (3, 1000) and x.min() >= -2 and x.max() <= 3
    assert len(np.unique(x)) > {"bool": 1, "i32": 4, "i64": 4}.get(dtype, 300)
    if dtype == "f32":  # fixed for good: other machines draw these very bits
        np.testing.assert_array_equal(x[0, :3], FIRST)


FIRST = np.array([-1.7171869277954102, -0.5316011309623718, -0.5895338654518127])


def test_errors_are_against_the_largest(maker):
    import arrays
    d = arrays.difference
    inf, nan = np.inf, np.nan
    assert d(np.array([1.0, 2.0]), np.array([1.0, 2.5])) == 0.2
    assert d(np.array([inf, nan]), np.array([inf, nan])) == 0
    assert d(np.array([1.0, nan]), np.array([1.0, 1.0])) == inf
    assert d(np.array([1.0, 1.0]), np.array([1.0, inf])) == inf
    assert d(np.array([1.0]), np.array([1.0, 2.0])) == inf
    assert list(arrays.places(10, 20)) == list(range(10)) and len(arrays.places(1000, 20)) == 20


def test_other_forms_are_candidates(maker):
    """Each plan leaves out the templates of those before; products of four warps where the device has
    them."""
    import cases
    case = cases.Case("product", "contractions", lambda x, w: x @ w,
                      (cases.Input((80, 96), "f16"), cases.Input((96, 80), "f16")))
    for architecture in (80, 90):
        found = list(maker.candidates(case, architecture))
        assert [n for n, _ in found] == ["product", *(f"product__{i + 1}" for i in range(len(found) - 1))]
        used = [made.used for _, made in found]
        assert all(not a & b for a, b in combinations(used, 2))
        assert set().union(*used) - {"CudaWgmma"} == {"CudaMma", "CudaTiled"}
        assert ("CudaWgmma" in set().union(*used)) == (architecture == 90)
