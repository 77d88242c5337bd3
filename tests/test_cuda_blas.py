"""Products by cuBLAS: what is stated, priced, lowered and called, over a library that is played."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
import tegg
from contractions import matmul, product
from tegg.backends.cuda import cublas, driver, streams
from tegg.backends.cuda.blas import lower_blas
from tegg.backends.cuda.blas_forms import BlasForms, blas_row, kind_of
from tegg.backends.cuda.blas_calls import product_of
from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.target import Cuda

from tegg.dim import dim
from tegg.dtype import bf16, f16, f32, f64
from tegg.errors import ArgumentError, BackendError, LoweringError
from tegg.ir.classes import Fragment
from tegg.ir.oracle import evaluate
from tegg.ir.template import Extents
from tegg.kernel.gemm import Gemm, Matrix
from tegg.nn import Parameter
from tegg.runtime.driver import Options, plan_graph
from tegg.testing.draw import Draw
from tegg.testing.kernels import Kernels

RNG = np.random.default_rng(8)


class Dear(Cuda):
    """A device on which all products but the library's are dear."""

    def __init__(self, **options):
        super().__init__(90, blas=True, **options)

    def costs(self):
        found = super().costs()
        kept = {k: v for k, v in found.templates.items() if not k.startswith("BlasGemm")}
        return replace(found, templates={**kept, **dict.fromkeys(
            ("CudaTiled", "CudaRows", "CudaMma"), 1e6), "BlasGemm": 1e-4, "BlasGemm f32": 1e-2})


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def stack(*more, **options):
    return (tegg.Generic(), *more, tegg.Compiler(name="dear", target=Dear(**options)))


def compiled(f, *more, dims=None, **options):
    return tegg.compile(f, *stack(*more, **options), cache=False, **({"dims": dims} if dims else {}))


def labels(f, *args):
    return [c.label for c in f.program(*args).plan.run]


# ---- products, as their matrices lie
def lowered(graph, out, kind="f32", architecture=90):
    anchor = next(n for n in graph.reachable([out]) if n.op.name == "Contract")
    return lower_blas(graph, [out], [anchor], "k", CudaC(), kind, architecture)


def wide(g, d, *shape):
    return g.op("Cast", g.x(*shape, dtype=d), f32)


FORMS = {
    "plain": lambda g: matmul(g, g.x(5, 7), g.x(7, 6)),
    "right turned": lambda g: product(g, g.x(5, 7), g.x(6, 7), "a,k;b,k;a,b", 5, 6),
    "left turned": lambda g: product(g, g.x(7, 5), g.x(7, 6), "k,a;k,b;a,b", 5, 6),
    "both turned": lambda g: product(g, g.x(7, 5), g.x(6, 7), "k,a;b,k;a,b", 5, 6),
    "result turned": lambda g: product(g, g.x(5, 7), g.x(7, 6), "a,k;k,b;b,a", 6, 5),
    "moved after": lambda g: g.permute(matmul(g, g.x(5, 7), g.x(7, 6)), (1, 0)),
    "batch": lambda g: product(g, g.x(3, 5, 7), g.x(3, 7, 6), "c,a,k;c,k,b;c,a,b", 3, 5, 6),
    "batch inside": lambda g: product(g, g.x(5, 3, 7), g.x(6, 3, 7), "a,c,k;b,c,k;c,a,b", 3, 5, 6),
    "two batches": lambda g: product(g, g.x(2, 3, 5, 7), g.x(2, 3, 7, 6),
                                     "d,c,a,k;d,c,k,b;d,c,a,b", 2, 3, 5, 6),
    "shared right": lambda g: product(g, g.x(4, 5, 7), g.x(7, 6), "c,a,k;k,b;c,a,b", 4, 5, 6),
    "rows apart": lambda g: product(g, g.permute(g.x(5, 4, 7), (1, 0, 2)), g.x(7, 6),
                                    "c,a,k;k,b;c,a,b", 4, 5, 6),
    "slice": lambda g: matmul(g, g.op("Slice", g.x(9, 12), (2, 3), (7, 10), (1, 1)), g.x(7, 6)),
    "vector": lambda g: product(g, g.x(5, 7), g.x(7), "a,k;k;a", 5),
    "row": lambda g: product(g, g.x(1, 7), g.x(7, 6), "a,k;k,b;a,b", 1, 6),
    "inner": lambda g: product(g, g.x(7), g.x(7), "k;k;", ),
    "outer": lambda g: product(g, g.x(5, 1), g.x(1, 6), "a,k;k,b;a,b", 5, 6),
    "strided vector": lambda g: product(g, g.x(5, 7), g.permute(g.op(
        "Slice", g.x(7, 3), (0, 1), (7, 2), (1, 1)), (1, 0)), "a,k;b,k;a,b", 5, 1),
    "widened": lambda g: matmul(g, wide(g, "f16", 5, 7), wide(g, "f16", 7, 6)),
    "narrowed": lambda g: g.op("Cast", matmul(g, wide(g, "bf16", 5, 7), wide(g, "bf16", 7, 6)),
                               bf16),
    "doubles": lambda g: matmul(g, g.x(5, 7, dtype="f64"), g.x(7, 6, dtype="f64")),
    "empty": lambda g: matmul(g, g.x(0, 7), g.x(7, 6)),
}


def check_forms(target: Cuda) -> None:
    """Each form as a call of the library, on memory between pages that cannot be touched."""
    cases = []
    for name, build in FORMS.items():
        g = Draw()
        out = build(g)
        anchor = next(n for n in g.reachable([out]) if n.op.name == "Contract")
        kind = "f64" if anchor.dtype is f64 else "f32"
        row = {**g.table, "BlasGemm": blas_row()}
        g.table = row
        made = g.op("BlasGemm", *anchor.args, *anchor.attrs, kind)
        new = made if out is anchor else g.op(out.op.name, made, *out.attrs)
        cases.append((name, out, Fragment(g, (new,), (made,))))
    inputs = [{i: RNG.standard_normal(tuple(s.shape)).astype(s.dtype.numpy)
               for i, s in enumerate(f.graph.inputs)} for _, _, f in cases]
    got = Kernels(target, [f for _, _, f in cases]).run(inputs)
    for (name, out, _), given, (result,) in zip(cases, inputs, got):
        (want,) = evaluate([out], given)
        tolerance = 1e-2 if out.dtype is bf16 else 1e-5
        np.testing.assert_allclose(result.astype(np.float64), want.astype(np.float64), tolerance,
                                   tolerance, err_msg=name)


def test_every_way_that_matrices_lie(blas):
    check_forms(Cuda(90, blas=True))
    assert blas.count("products") == len(FORMS) - 1 and not blas.count("without workspace")


@pytest.mark.parametrize("build, text", [
    (lambda g: matmul(g, g.op("Sin", g.x(5, 7)), g.x(7, 6)), "this one is computed"),
    (lambda g: g.op("Sin", matmul(g, g.x(5, 7), g.x(7, 6))), "something is computed from these"),
    (lambda g: matmul(g, wide(g, "f16", 5, 7), g.x(7, 6)), "f16 and f32 in memory"),
    (lambda g: matmul(g, g.x(5, 0), g.x(0, 6)), "this one is computed"),
    (lambda g: matmul(g, g.x(5, dim("n", min=0)), g.x(dim("n", min=0), 6)), "sums of no terms"),
    (lambda g: product(g, g.permute(g.x(2, 5, 3, 7), (0, 2, 1, 3)), g.x(2, 3, 7, 6),
                       "d,c,a,k;d,c,k,b;d,c,a,b", 2, 3, 5, 6), "the batch of a library's"),
    (lambda g: matmul(g, g.op("Slice", g.x(5, 14), (0, 0), (5, 13), (1, 2)), g.x(7, 6)),
     "neighbours and do not overlap"),
    (lambda g: matmul(g, g.op("Window", g.x(9), 0, 5, 1, 1), g.x(5, 6)), "neighbours and do not"),
    (lambda g: matmul(g, g.x(2**32, 2), g.x(2, 6)), "more than cuBLAS counts"),
])
def test_what_a_library_cannot_do_is_refused(build, text):
    g = Draw()
    with pytest.raises(LoweringError, match=text):
        lowered(g, build(g))


def test_old_devices_multiply_no_bfloat16():
    g = Draw()
    out = matmul(g, wide(g, "bf16", 5, 7), wide(g, "bf16", 7, 6))
    with pytest.raises(LoweringError, match=r"does not multiply bf16 on compute capability 7\.5"):
        lowered(g, out, architecture=75)


def test_two_products_are_two_calls():
    g = Draw()
    x = g.x(5, 7)
    a, b = matmul(g, x, g.x(7, 6)), matmul(g, x, g.x(7, 6))
    with pytest.raises(LoweringError, match="one product at a time"):
        lower_blas(g, [a, b], [a, b], "k", CudaC(), "f32")


# ---- rules, facts, prices
class _Like:
    def __init__(self, dtype):
        self.dtype, self.shape = dtype, (4, 4)


@pytest.mark.parametrize("architecture, dtype, kinds", [
    (90, f32, {"f32", "tf32", "f16", "bf16"}), (75, f32, {"f32", "f16"}), (90, f64, {"f64"}),
    (75, bf16, set()), (75, f16, {"f16"}), (90, tegg.i32, set())])
def test_which_kinds_there_are(architecture, dtype, kinds):
    forms = BlasForms(architecture)
    assert {k for _, k in forms.completions("cuda-blas", _Like(dtype), _Like(dtype), "")} == kinds
    own = [k for h, k in forms.completions("cuda-blas", _Like(dtype), _Like(dtype), "") if h == "own"]
    assert own == [dtype.name] * (dtype.name in kinds)
    assert not forms.completions("cuda-blas", _Like(dtype), _Like(tegg.i8), "")
    assert not forms.completions("may-multiply", _Like(f32), _Like(f32), "")


def test_prices_follow_the_shape_and_the_profile():
    def executes(m, n, k, kind="f16", batch=1):
        return blas_row().template(("a,k;k,b;a,b", (m, n), kind), Extents(batch, m, n, k, f32))

    large, few, deep = executes(4096, 4096, 4096), executes(4, 4096, 4096), executes(64, 64, 8192)
    assert (large.rate, few.rate) == ("BlasGemm f16", "BlasGemm f16 few")
    assert large.speed > 0.8 and deep.pieces == 16 and few.flops == 2 * 4 * 4096 * 4096
    assert executes(65, 64, 64).flops > executes(64, 64, 64).flops
    assert kind_of(("spec", (1,), "tf32")) == "tf32"
    costs = Cuda(90).costs()
    assert {"BlasGemm f32", "BlasGemm f16", "BlasGemm f16 few"} <= set(costs.templates)


def test_the_library_competes_and_prices_decide(blas):
    """Where the epilogue fuses into our own kernel the library has to be worth a kernel more."""
    x, w = floats(64, 64), floats(64, 64)
    ours = tegg.compile(lambda a, b: (a @ b).relu(), tegg.Generic(), tegg.Cuda(blas=True),
                        cache=False)
    assert labels(ours, x, w)[2:-1] == ["CudaTiled"]
    theirs = compiled(lambda a, b: (a @ b).relu())
    assert labels(theirs, x, w)[2:-1] == ["BlasGemm", "elementwise"]
    np.testing.assert_allclose(theirs(x, w), np.maximum(x @ w, 0), 1e-4, 1e-4)
    none = plan_graph(tegg_graph(), Options((tegg.Generic(), tegg.Compiler(
        name="t", target=Cuda(90))), cache=False))
    assert "BlasGemm" not in none.show()


def tegg_graph():
    g = Draw()
    g.outputs["y"] = matmul(g, g.x(512, 512), g.x(512, 512))
    return g


@pytest.mark.parametrize("more, dtype, kind", [
    ((), np.float32, "f32"), ((tegg.Tf32(),), np.float32, "tf32"),
    ((), np.float16, "f16"), ((), np.float64, "f64")])
def test_kinds_through_the_whole(blas, more, dtype, kind):
    x, w = floats(40, 48).astype(dtype), floats(48, 56).astype(dtype)
    f = compiled(lambda a, b: a @ b, *more)
    got, want = f(x, w), x.astype(np.float64) @ w.astype(np.float64)
    plan = f.program(x, w).plan
    assert blas.count("products") == 1
    assert any(f"cuBLAS {kind}" in k.notes for k in plan.kernels)
    tolerance = {"tf32": 3e-2, "f16": 2e-2}.get(kind, 1e-4)
    np.testing.assert_allclose(got.astype(np.float64), want, tolerance, tolerance)
    if kind == "tf32":  # rounded indeed
        assert np.abs(got - want).max() > 1e-4


def test_a_form_that_is_refused_gives_way_to_others(blas):
    """Heads of a batch of several: their matrices have no one step."""
    q = floats(2, 24, 3, 32)
    f = compiled(lambda a: a.permute(0, 2, 1, 3) @ a.permute(0, 2, 3, 1))
    want = q.transpose(0, 2, 1, 3) @ q.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(f(q), want, 1e-4, 1e-4)


# ---- runs
def mixed(x, w):
    h = (x @ w).softmax(-1)
    return (h @ w.T).sin().sum(-1)


def mixed_wanted(x, w):
    a = x @ w
    e = np.exp(a - a.max(-1, keepdims=True))
    return np.sin(e / e.sum(-1, keepdims=True) @ w.T).sum(-1)


@pytest.mark.parametrize("graph", (True, False))
def test_products_between_kernels(blas, gpu, graph):
    """Kernels and calls of the library, in order and on any stream."""
    f = compiled(mixed, graph=graph)
    for rows in (20, 20, 33):
        x, w = floats(rows, 24), floats(24, 40)
        np.testing.assert_allclose(f(x, w), mixed_wanted(x, w), 1e-4, 1e-4)
    made = blas.count("products")
    assert made == 6 and blas.count("cublasCreate_v2") == 1
    with driver.open_device().current():
        other = driver.open_device().stream()
    with streams.stream(other):
        np.testing.assert_allclose(f(x, w), mixed_wanted(x, w), 1e-4, 1e-4)
    changes = 4 if graph else 2  # a stream of its own takes products down, for either
    assert blas.count("cublasSetStream_v2") == blas.count("cublasSetWorkspace_v2") == changes
    assert not blas.count("without workspace")


def test_symbolic_sizes(blas):
    n = tegg.dim("n", min=1, max=64)
    f = compiled(lambda x, w: (x @ w).relu(), dims={"x": (n, 24)})
    w = floats(24, 40)
    for rows in (1, 5, 64):
        x = floats(rows, 24)
        np.testing.assert_allclose(f(x, w), np.maximum(x @ w, 0), 1e-4, 1e-4)
    assert blas.count("products") == 3


def test_weights_and_addresses_that_change(blas):
    w = Parameter(floats(24, 40))
    f = compiled(lambda x: (x @ w).sin())
    for _ in range(2):
        x = floats(20, 24)
        np.testing.assert_allclose(f(x), np.sin(x @ w.data), 1e-4, 1e-4)
        w.data = floats(24, 40)


def test_workspaces_belong_to_streams(blas, gpu, monkeypatch):
    monkeypatch.setattr(cublas, "STREAMS", 2)
    f = compiled(lambda a, b: a @ b)
    x, w = floats(20, 24), floats(24, 28)
    f(x, w)
    before = gpu.used
    device = driver.open_device()
    with device.current():
        kept = [device.stream() for _ in range(3)]
    for s in kept:
        with streams.stream(s):
            np.testing.assert_allclose(f(x, w), x @ w, 1e-4, 1e-4)
    assert gpu.used <= before + device.cublas()._nbytes
    with device.current():
        device.cublas().close()
        device.cublas().close()
    assert blas.count("cublasDestroy_v2") == 1


# ---- bad input
def test_without_the_library(gpu, monkeypatch):
    monkeypatch.setattr(cublas, "places", lambda: iter([]))
    cublas.library.cache_clear()
    with pytest.raises(BackendError, match=r"cuBLAS is not to be found.*pip install 'tegg\[cublas\]'"
                                           r".*blas=False"):
        tegg.Cuda(blas=True)
    tegg.Cuda()
    cublas.library.cache_clear()


def test_a_library_that_does_not_load(gpu, monkeypatch, tmp_path):
    bad = tmp_path / "libcublas.so.12"
    bad.write_text("no library")
    (tmp_path / "libcublasLt.so.12").write_text("nor this")
    monkeypatch.setattr(cublas, "places", lambda: iter([bad]))
    cublas.library.cache_clear()
    with pytest.raises(BackendError, match=r"not to be found \(.*invalid ELF|not to be found \(.*file"):
        cublas.library()
    cublas.library.cache_clear()


def test_where_it_is_looked_for(monkeypatch, tmp_path):
    for folder in ("toolkit/lib64", "site/nvidia/cublas/lib", "site/torch/lib"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "libcublas.so.12").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    found = [p.parent.parent.name for p in cublas.places()]
    assert found[:3] == ["toolkit", "cublas", "torch"] or found[0] == "toolkit"
    assert list(cublas.places())[-1].name == "libcublas.so.11"


def test_an_old_library(blas):
    blas.version(10, 2)
    cublas.library.cache_clear()
    with pytest.raises(BackendError, match=r"is of CUDA 10\.2, and 11\.0 is the oldest"):
        tegg.Cuda(blas=True)
    with pytest.raises(BackendError, match="has no cublasGetProperty: it is older than"):
        cublas.Library(ctypes.CDLL(None))


@pytest.mark.parametrize("call, status, text", [
    ("cublasCreate_v2", 3, "ALLOC_FAILED.*out of memory"),
    ("cublasCreate_v2", 1, "NOT_INITIALIZED.*does not start"),
    ("cublasGemmEx", 13, "EXECUTION_FAILED.*a kernel of its failed"),
    ("cublasGemmEx", 99, "status 99.*no reason"),
    ("cublasSetWorkspace_v2", 7, "INVALID_VALUE.*report"),
])
def test_refusals_say_what_to_do(blas, call, status, text):
    blas.fail(call, status)
    f, x = compiled(lambda a, b: a @ b), floats(24, 24)
    with pytest.raises(BackendError, match=rf"cuBLAS refuses a call \({call}: .*{text}.*blas=False"):
        f(x, x)
    np.testing.assert_allclose(f(x, x), x @ x, 1e-4, 1e-4)  # the next one finds it well


def test_sizes_that_the_calls_cannot_count():
    n = dim("n")
    g = Gemm("f32", 1, n, 4, 4, Matrix(0, f32, 0, 0, 4, 1), Matrix(1, f32, 0, 0, 4, 1),
             Matrix(2, f32, 0, 0, 4, 1))
    with pytest.raises(BackendError, match=r"a product of 4294967296 x 4 by 4 x 4 .*blas=False"):
        product_of(g, {"n": 2**32}, [0, 0, 0])
    assert product_of(g, {"n": 0}, [0, 0, 0]) is None


def test_options_are_checked(gpu):
    with pytest.raises(ArgumentError, match="blas= is True or False, not 'yes'"):
        tegg.Cuda(blas="yes")
    assert Cuda(90).identity() != Cuda(90, blas=True).identity()
    assert Cuda(90).identity() != Cuda(90, results="device").identity()
