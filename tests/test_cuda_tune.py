"""What measures a GPU: its kernels run and compile, and the profile tells what was timed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from simt import fake_cublas
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.cubin import cubin
from tegg.backends.cuda import cublas, driver
from tegg.backends.cuda.driver import open_device
from tegg.backends.cuda.program import prelude, source_of
from tegg.backends.cuda.target import Cuda, target
from tegg.backends.cuda.tune import figures, measure
from tegg.backends.cuda.tune.cases import FULL, QUICK, Sizes, cases
from tegg.backends.cuda.tune.figures import Figures, shown
from tegg.backends.cuda.tune.fit import fitted, from_figures
from tegg.backends.tuning.fitting import Timed, error

import tegg
from tegg.dtype import f32
from tegg.cli import main
from tegg.errors import LoweringError
from tegg.extract.cost import load_costs
from tegg.ir.graph import Graph
from tegg.runtime import search
from tegg.runtime.driver import Options, compile_graph, plan_graph

SMALL = Sizes((4, 12), 256, ("f32", "f64"), 256, 3, ("Exp2",),
              {"product": (40, 72, 64), "row": (1, 64, 128)}, ("f16",), ())
FOUND = Figures(3e-6, 2e12, 6e12, 40e12, 400e12, 20e12, 9e-6, 12e9, 6e9, 25e9)


# ---- figures of the machine
@pytest.mark.parametrize("major, minor", [(7, 0), (9, 0)])
def test_figures(gpu, major, minor):
    gpu.set(major=major, minor=minor)
    told, device = [], open_device()
    code = cubin(prelude() + figures.source(10 * major + minor), 10 * major + minor).code
    found = figures.figures(device, code, quick=True, far=4096, rounds=2, step=told.append)
    assert told == list(figures.STEPS) and (found.tensor > 0) == (major > 7)
    assert all(v > 0 for n, v in shown(found).items() if n != "tensor")
    names = {name for name, _, _ in gpu.launched}
    assert names == {"empty", "fill", "copy", "multiply_add", "shared", *["tensor"] * (major > 7)}
    # events are 0.25 ms apart on the played device: a copy reads and writes 4096 bytes once
    assert found.memory == pytest.approx(2 * 4096 / 0.25e-3)


@pytest.mark.parametrize("architecture", [75, 80, 90])
def test_they_compile(architecture):
    if nvrtc.find() is None:
        pytest.skip("NVRTC is not installed")
    _, log = nvrtc.find().compile(prelude() + figures.source(architecture), architecture)
    assert "'tensor'" in log


def test_a_profile_of_figures():
    made = from_figures(load_costs("cuda/generic"), FOUND, 100, 50 << 20)
    assert made.launch == 3e-6 and made.threads == 100
    assert [level.total for level in made.levels] == [6e12, 2e12]
    assert made.levels[0].size == 25 << 20 and made.levels[1].size == float("inf")
    assert made.name == "cuda/measured" and made.product_rate > made.loop_rate
    assert made.copy == 9e-6 and made.copy_rate == pytest.approx(8e9), "as much in as out"


def test_copies_are_timed_by_the_host(gpu, monkeypatch):
    """A clock that each copy moves on by what a device of known prices would take."""
    clock, device = [0.0], open_device()
    start, rates = 10e-6, {"upload": 12e9, "download": 6e9}
    pinned = []

    def moving(name):
        real = getattr(driver.Device, name)

        def move(self, to, source, nbytes, stream=0):
            fast = 25e9 if {to, source} & {p.address for p in pinned} else rates[name]
            clock[0] += start + nbytes / fast
            real(self, to, source, nbytes, stream)
        return move
    for name in rates:
        monkeypatch.setattr(driver.Device, name, moving(name))
    real = driver.Device.pinned
    monkeypatch.setattr(driver.Device, "pinned",
                        lambda self, n: pinned.append(real(self, n)) or pinned[-1])
    monkeypatch.setattr(figures.time, "perf_counter", lambda: clock[0])
    found = figures.copies(device, 1 << 20, 2)
    assert found == pytest.approx((start, 12e9, 6e9, 25e9), rel=1e-2)
    count = gpu.count("cuMemFreeHost")
    pinned.clear()
    assert gpu.count("cuMemFreeHost") == count + 1


# ---- our kernels
def test_every_form_of_a_product_is_a_case():
    made = cases(Cuda(90), SMALL)
    forms = {c.of for c in made if c.anchors}
    assert {"CudaTiled", "CudaMma", "CudaRows", "CudaWgmma"} <= forms
    assert [c.name for c in made] == [c.name for c in cases(Cuda(90), SMALL)]
    assert not any("f16" in c.name and c.of == "CudaMma" for c in cases(Cuda(70), SMALL))
    assert "CudaWgmma" in {c.of for c in cases(measure.with_all_forms(Cuda(90)), SMALL)}
    loops = {c.of for c in cases(Cuda(90), replace(SMALL, ops=None)) if not c.anchors}
    assert {"Exp2", "Sin", "Sqrt", "f64", "start"} <= loops


def test_what_the_target_refuses_is_left_out(monkeypatch):
    made = cases(Cuda(90), SMALL)
    lower = Cuda.lower

    def refusing(self, fragment, name, constant):
        if fragment.anchors and fragment.anchors[0].op.name == "CudaMma":
            raise LoweringError("no")
        return lower(self, fragment, name, constant)
    monkeypatch.setattr(Cuda, "lower", refusing)
    plan, taken = measure.plan_of(made, Cuda(90))
    assert len(taken) == len(plan.kernels) == sum(c.of != "CudaMma" for c in made) < len(made)
    assert [k.name for k in plan.kernels] == [f"tune{i}" for i in range(len(taken))]


@pytest.mark.parametrize("architecture, products", [
    *(pytest.param(n, tuple(QUICK.products), marks=pytest.mark.long) for n in (75, 80, 90)),
    (90, ("medium", "one row"))])  # a large one has no other forms than one of medium size
def test_the_kernels_compile(architecture, products):
    if nvrtc.find() is None:
        pytest.skip("NVRTC is not installed")
    small = replace(SMALL, products={n: QUICK.products[n] for n in products})
    plan, made = measure.plan_of(cases(Cuda(architecture), small), Cuda(architecture))
    code, _ = nvrtc.find().compile(source_of(plan), architecture)
    assert code and len(made) > 8


def test_times_are_told_again():
    """From times that a device of known costs would take, the fit finds these costs. Loops that are
    faster than loads are as fast as these."""
    base = from_figures(load_costs("cuda/sm_90"), FOUND, 132, 50 << 20)
    truth = replace(base, loop_rate=base.own_rate / 4 * 0.7, product_rate=base.product_rate * 0.6,
                    ops={"Exp2": 9.0, "Sin": 30.0}, loop_dtypes={**base.loop_dtypes, "f64": 3.0},
                    templates={"CudaMma": 0.05, "CudaRows": 2.0, "CudaWgmma": 0.03},
                    product_dtypes={**base.product_dtypes, "f64": 5.0})
    sizes = replace(QUICK, ops=("Exp2", "Sin"), slow=("f64",))
    added = 2e-6  # what events add to each
    made = cases(Cuda(90, wgmma=True), sizes)
    timed = [Timed(c, 132, c.seconds(truth, 132) + added) for c in made]
    found = fitted(base, timed)
    clean = [replace(t, seconds=t.seconds - added) for t in timed]
    assert error(found, clean) < 0.12 < 0.5 * error(base, clean)
    assert found.loop_rate == pytest.approx(truth.loop_rate, rel=0.1)
    assert found.product_rate == pytest.approx(truth.product_rate, rel=0.2)
    assert found.ops["Sin"] == pytest.approx(30.0, rel=0.15)
    assert found.templates["CudaMma"] == pytest.approx(0.05, rel=0.3)
    assert found.templates["CudaWgmma"] == pytest.approx(0.03, rel=0.3)
    assert found.product_dtypes["f64"] == pytest.approx(5.0, rel=0.3)
    assert found.loop_dtypes["f64"] == pytest.approx(3.0, rel=0.2)
    fast = replace(truth, loop_rate=base.own_rate)
    assert fitted(base, [Timed(c, 132, c.seconds(fast, 132)) for c in made]).loop_rate \
        == base.own_rate / 4


def test_prices_of_the_library_are_told_again():
    """Each kind and shape class of its own; other forms and dtypes are not moved by them."""
    base = from_figures(load_costs("cuda/sm_90"), FOUND, 132, 50 << 20)
    rates = {"BlasGemm f32": 0.4, "BlasGemm tf32": 0.1, "BlasGemm f16": 0.02,
             "BlasGemm f16 few": 6.0, "BlasGemm f16 deep": 0.5, "BlasGemm f64": 0.3}
    truth = replace(base, templates={**base.templates, "CudaMma": 0.06, "CudaRows": 2.0, **rates},
                    product_dtypes={**base.product_dtypes, "f64": 5.0})
    sizes = replace(QUICK, dtypes=("f32",), ops=("Exp2",), slow=("f64",),
                    products={n: FULL.products[n] for n in ("large", "medium", "one row", "deep")})
    made = cases(Cuda(90, blas=True), sizes)
    assert {c.of for c in made} >= {*rates, "BlasGemm f32 few", "BlasGemm f32 deep"}
    timed = [Timed(c, 132, c.seconds(truth, 132)) for c in made]
    found = fitted(base, timed)
    for name, value in rates.items():
        assert found.templates[name] == pytest.approx(value, rel=0.35), name
    assert found.product_dtypes["f64"] == pytest.approx(5.0, rel=0.3)
    assert found.templates["CudaMma"] == pytest.approx(0.06, rel=0.3)
    kept = fitted(base, [t for t in timed if not t.case.of.startswith("BlasGemm")])
    assert kept.templates["BlasGemm f16"] == base.templates["BlasGemm f16"], "none was timed"


def chosen(costs):
    """The forms of a product of halves by these costs."""
    class Priced(Cuda):
        def costs(self):
            return costs
    g = Graph()
    x, w = (g.op("Cast", g.input(n, (4096, 4096), "f16"), f32) for n in "xw")
    g.outputs["y"] = g.op("Contract", x, w, "a,k;k,b;a,b", (4096, 4096))
    stack = (tegg.Generic(), tegg.Compiler(name="t", target=Priced(90, blas=True)))
    return [c.label for c in plan_graph(g, Options(stack, cache=False)).run]


def test_measured_prices_decide():
    base = load_costs("cuda/sm_90")
    for price, wanted in ((0.005, "BlasGemm"), (3.0, "CudaWgmma")):
        library = {k: price for k in base.templates if k.startswith("BlasGemm")}
        costs = replace(base, templates={**base.templates, **library})
        assert wanted in chosen(costs), price


# ---- the whole
@pytest.fixture
def quick(gpu, monkeypatch):
    """The played device, few small cases, and figures of a device that is not played. A library that
    is installed here has no such device."""
    monkeypatch.setattr(cublas, "places", lambda: iter(()))
    cublas.library.cache_clear()
    monkeypatch.setattr(measure, "QUICK", SMALL)
    monkeypatch.setattr(measure, "figures", lambda device, code, quick, step: (
        [step(s) for s in figures.STEPS], FOUND)[1])
    yield gpu
    cublas.library.cache_clear()


def test_tuning(quick, monkeypatch):
    """On the played device, where all takes as long; what is written is then in use."""
    before = target().costs()
    assert before.name == "cuda/sm_90"

    def run(*args):
        done = CliRunner().invoke(main, ["tune", "--device", "cuda", *args])
        assert done.exit_code == 0, done.output
        return done.output
    assert "shipped; tegg tune --device cuda measures this machine" in " ".join(
        run("--show").split())
    told = json.loads(run("--quick", "--json"))
    assert told["machine"] == "Simulated GPU, sm_90" and told["profile"]["name"] == "cuda/measured"
    assert told["figures"]["tensor"] == FOUND.tensor
    made = target().costs()
    assert made.name == "cuda/measured" and made.launch == FOUND.launch and made.threads == 1
    assert Cuda(90).costs() == before, "a plan for no GPU in particular takes what is shipped"
    assert "measured on" in run("--show")
    monkeypatch.setenv("TEGG_COSTS", "cuda/generic")
    assert target().costs().name == "cuda/generic"


def test_the_library_is_timed_where_it_is(quick, monkeypatch):
    monkeypatch.setattr(measure, "QUICK", replace(SMALL, dtypes=("f32",), halves=(),
                                                  products={"product": (40, 72, 64)}))
    plain = measure.with_all_forms(Cuda(90))
    with fake_cublas.installed() as blas:
        assert measure.with_all_forms(Cuda(90)).blas and not plain.blas
        target().tune(True)
        assert blas.count("products") > 4 and not blas.count("without workspace")


def test_each_step_is_told(quick):
    told: list[str] = []
    target().tune(True, told.append)
    assert len(told) == target().tune_steps(True)
    assert {name for name, _, _ in quick.launched} >= {"tune0_0"}


# ---- search="measure"
def test_plans_are_timed_by_events(gpu, monkeypatch):
    """The played device's events tell how many runs stand between them, not how long they took."""
    monkeypatch.setattr(search, "PLANS", 3)
    monkeypatch.setattr(search, "RUNS", 2)
    w = np.random.default_rng(0).normal(size=(48, 40)).astype(np.float32)
    x = np.random.default_rng(1).normal(size=(33, 48)).astype(np.float32)
    f = tegg.compile(lambda x: tegg.softmax(x @ w, -1), device="cuda", search="measure",
                     search_s=60.0)
    np.testing.assert_allclose(f(x).sum(-1), 1.0, atol=1e-5)
    tried = f.plan.tried
    assert len(tried) >= 2 and all(t.seconds == pytest.approx(0.25e-3) for t in tried)
    assert tried[0].note == "chosen", "none is clearly faster than the first"


def test_one_copy_for_many_runs(gpu):
    """States change with every run; arrays of the host are copied once."""
    g = Graph()
    x = g.input("x", (64,), "f32")
    g.outputs["y"] = g.op("Add", x, x)
    program = compile_graph(g, Options(device="cuda"))
    a = np.arange(64, dtype=np.float32)
    bound = program.bind(a)
    before = gpu.count("cuMemcpyHtoDAsync_v2")
    assert bound.timed(5) == pytest.approx([0.25e-3] * 5)
    assert gpu.count("cuMemcpyHtoDAsync_v2") == before + 1
    np.testing.assert_array_equal(bound.outputs["y"], 2 * a)


def test_the_cpu_has_no_clock_of_its_own():
    g = Graph()
    x = g.input("x", (64,), "f32")
    g.outputs["y"] = g.op("Add", x, x)
    assert compile_graph(g, Options()).bind(np.zeros(64, np.float32)).timed(3) is None
