"""Forms of products with operands in 8 and 16 bits: what offers them, which wins, what they compute."""

from __future__ import annotations

import dataclasses

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from profiles import examples

from tegg.backends.cpu.instructions import BYTE_TILES, BYTES, PAIRS, TILES
from tegg.backends.cpu.target import Cpu
from tegg.dim import dim
from tegg.extract import extract
from tegg.extract.cost import load_costs
from tegg.ir.graph import Graph
from tegg.ir.oracle import evaluate
from tegg.rewrite.compiler import Bf16, Compiler, Fp16, Generic
from tegg.rewrite.egraph import saturate
from tegg.rewrite.rulefile import read_rules
from tegg.runtime.driver import Options, compile_graph, plan_graph, resolve

NARROW = ("CpuHalves", "CpuPairs", "CpuTiles", "CpuBytes", "CpuByteTiles")


class Having(Cpu):
    """A CPU with some instructions, real or played in C; maybe of one form alone."""

    def __init__(self, has=(), only: str = "", lanes: int | None = None) -> None:
        super().__init__(lanes, has)
        self.only = only

    def identity(self) -> str:
        return f"{super().identity()} {self.only}"

    def costs(self):
        base = load_costs("cpu/generic", 2)
        others = {op.name: 1e6 for op in self.ops if op.name != self.only}
        return dataclasses.replace(base, templates=others) if self.only else base


def matmul(m, n, k, dtype="f32", weight=False, other=None, turned=False, bounded=False
           ) -> Graph:
    g = Graph()
    x = g.input("x", (m, k), dtype)
    w = g.input("w", (k, n), other or dtype, "weight" if weight else "input")
    if bounded:
        x, w = g.op("Sin", x), g.op("Sin", w)
    if dtype in ("u8", "i8"):
        x, w = g.cast(x, "i32"), g.cast(w, "i32")
    elif other:
        w = g.cast(w, dtype)
    body = g.mul(g.expand(g.reshape(x, (m, k, 1)), (m, k, n)),
                 g.expand(g.reshape(w, (1, k, n)), (m, k, n)))
    y = g.op("SumReduce", body, 1)
    y = g.reshape(y, (m, n))
    g.outputs["y"] = g.permute(y, (1, 0)) if turned else y
    return g


def offered(graph: Graph, target: Cpu, *more: Compiler) -> set[str]:
    stack, _ = resolve(Options((Generic(), *more, Compiler(target=target, name="having"))))
    classes = saturate(graph, stack, features=("cpu", *target.features)).classes
    return {n.op.name for nodes in classes.nodes.values() for n in nodes} & set(NARROW)


def chosen(graph: Graph, target: Cpu, *more: Compiler) -> set[str]:
    stack, _ = resolve(Options((Generic(), *more, Compiler(target=target, name="having"))))
    classes = saturate(graph, stack, features=("cpu", *target.features)).classes
    cover = extract(classes, target.costs(), lowerable=target.unsupported)
    return {n.op.name for k in cover.kernels for n in k.body.values() if n.op.template}


def options(target: Cpu, *more: Compiler) -> Options:
    return Options((Generic(), *more, Compiler(target=target, name="having")), cache=False)


VECTORS = (PAIRS, BYTES)
ALL = (*VECTORS, TILES, BYTE_TILES)


def of(form: str) -> tuple[str, ...]:
    """Instructions among which a form is offered at all sizes; all, where it is of tiles."""
    return ALL if "Tiles" in form or not form else VECTORS


def test_float32_is_rounded_only_where_a_compiler_says_so():
    assert offered(matmul(64, 96, 80), Having(ALL)) == set()
    assert offered(matmul(64, 96, 80), Having(VECTORS), Bf16()) == {"CpuHalves", "CpuPairs"}
    assert offered(matmul(64, 96, 80), Having(ALL), Fp16()) == set()  # may be out of range
    assert offered(matmul(64, 96, 80, bounded=True), Having(ALL), Fp16()) == {"CpuHalves"}
    assert offered(matmul(64, 96, 80, "f64"), Having(ALL), Bf16()) == set()


LICENCE = """;; Products that may be rounded.
;;
;; ruleset:  licence
;; class:    rounds 2^-7
;; phase:    lower
;; uses:     -
;; grows:    no
;; targets:  any

(ruleset licence)

;; e  =>  e, of operands in bfloat16
(rule ((= e (Contract x y i s))) ((may-multiply x y i "bf16")) :ruleset licence :name "licence/all")
"""


def test_a_rule_may_say_so():
    said = Compiler(read_rules(LICENCE, "licence.egg"), rounds=True)
    assert offered(matmul(64, 96, 80), Having(VECTORS), said) == {"CpuHalves", "CpuPairs"}
    assert offered(matmul(64, 96, 80), Having(ALL), said) == {"CpuTiles"}


def test_without_a_licence_no_form_that_rounds_is_stated():
    def stated(dtype: str, *more: Compiler, has=ALL, bounded=False) -> int:
        target = Having(has)
        stack, _ = resolve(Options((Generic(), *more, Compiler(target=target, name="having"))))
        report = saturate(matmul(64, 96, 80, dtype, bounded=bounded), stack,
                          features=("cpu", *target.features)).report
        return report.phases[-1].provided["cpu narrow forms"]

    assert stated("f32") == 0
    assert stated("f32", Bf16()) > 0 and stated("bf16") > 0
    # nor of another dtype than the one that is licensed: each has as many register tiles
    halves = stated("f32", Bf16(), has=(), bounded=True)
    assert stated("f32", Fp16(), has=(), bounded=True) == halves > 0
    assert stated("f32", Bf16(), Fp16(), has=(), bounded=True) == 2 * halves


def test_what_holds_sixteen_bits_needs_no_permission():
    assert offered(matmul(64, 96, 80, "bf16"), Having(VECTORS)) == {"CpuHalves", "CpuPairs"}
    assert offered(matmul(64, 96, 80, "bf16"), Having(ALL)) == {"CpuTiles"}
    assert offered(matmul(64, 96, 80, "f16"), Having(ALL)) == {"CpuHalves"}
    assert offered(matmul(64, 96, 80, other="bf16"), Having(ALL)) == set()


@pytest.mark.parametrize("dtypes", (("u8", "i8"), ("i8", "u8")))
def test_bytes_are_multiplied_as_they_are(dtypes):
    g = matmul(64, 96, 80, dtypes[0], other=dtypes[1])
    assert offered(g, Having(VECTORS)) == {"CpuBytes"}
    assert offered(g, Having(ALL)) == {"CpuByteTiles"}
    assert offered(matmul(64, 96, 80, "u8", other="u8"), Having(ALL)) == set()


def test_what_a_machine_lacks_is_never_offered():
    assert offered(matmul(64, 96, 80), Having(), Bf16()) == {"CpuHalves"}
    assert offered(matmul(64, 96, 80), Having((PAIRS,)), Bf16()) == {"CpuHalves", "CpuPairs"}
    assert offered(matmul(64, 96, 80, "u8", other="i8"), Having()) == set()
    assert offered(matmul(64, 96, 80, "u8", other="i8"), Having((BYTES,))) == {"CpuBytes"}
    assert Cpu(8).features & set(ALL) <= {TILES, BYTE_TILES}


@pytest.mark.parametrize("m, n, k", ((15, 96, 80), (64, 15, 80), (64, 96, 31), (33, 33, 65)))
def test_vectors_are_priced_where_tiles_would_be_half_empty(m, n, k):
    everything = {"CpuHalves", "CpuPairs", "CpuTiles"}
    assert offered(matmul(m, n, k), Having(ALL), Bf16()) == everything
    assert offered(matmul(16, 16, 32), Having(ALL), Bf16()) == {"CpuTiles"}
    rows = dim("m", 1, 4096, hint=128)  # of which a run may have one
    assert offered(matmul(rows, n, k), Having(ALL), Bf16()) == everything


@pytest.mark.parametrize("m, n, k", ((15, 96, 80), (64, 15, 80), (64, 96, 63), (33, 33, 129)))
def test_so_are_those_of_bytes(m, n, k):
    assert offered(matmul(m, n, k, "u8", other="i8"), Having(ALL)) == {"CpuBytes", "CpuByteTiles"}
    assert offered(matmul(16, 16, 64, "u8", other="i8"), Having(ALL)) == {"CpuByteTiles"}


def test_sums_of_nothing_keep_their_forms():
    assert offered(matmul(64, 96, 1), Having(ALL), Bf16()) == set()


def test_one_row_is_offered_what_streams_its_panels():
    assert offered(matmul(1, 96, 80), Having(ALL), Bf16()) == {"CpuHalves"}
    assert offered(matmul(1, 96, 80, "u8", other="i8"), Having(ALL)) == {"CpuBytes"}


def test_one_row_reads_a_weight_as_a_stream_of_its_few_bits():
    weight, here = dict(weight=True), Having(lanes=16)
    # bfloat16 is read where it lies, as soon as from panels, which would be a second copy
    assert chosen(matmul(1, 4096, 4096, "bf16", **weight), here, Bf16()) == {"CpuRows"}
    wide = matmul(1, 4096, 4096, **weight)
    assert chosen(wide, here, Bf16()) == {"CpuRows"}
    plan = plan_graph(wide, options(here, Bf16()))
    assert [c.label for c in plan.ahead] == ["convert"]
    assert {b.dtype.name for b in plan.buffers if b.kind == "ahead"} == {"bf16"}
    assert chosen(matmul(1, 4096, 4096, "u8", other="i8", **weight),
                  Having((BYTES,), lanes=16)) == {"CpuBytes"}
    # what is no weight would be packed for a single use
    assert chosen(matmul(1, 4096, 4096), Having(lanes=16), Bf16()) == {"CpuRows"}


def test_the_cheapest_wins():
    wide = matmul(512, 768, 768, weight=True)
    assert chosen(wide, Having(ALL), Bf16()) == {"CpuTiles"}
    assert chosen(wide, Having(ALL)) == {"CpuPacked"}
    assert chosen(wide, Having(), Bf16()) <= {"CpuPacked", "CpuHalves"}
    assert chosen(matmul(512, 768, 768, "u8", other="i8"), Having((BYTES,))) == {"CpuBytes"}


def test_panels_of_weights_that_no_cache_holds_are_kept_narrow():
    assert chosen(matmul(20, 8192, 2048, weight=True), Having(lanes=16), Bf16()) == {"CpuHalves"}


@pytest.mark.parametrize("lanes", (None, *(pytest.param(n, marks=pytest.mark.long)
                                           for n in (8, 4))))
@pytest.mark.parametrize("form, sizes", (
    *((f, s) for f in ("CpuHalves", "CpuPairs", "CpuTiles") for s in ((64, 96, 80), (33, 17, 71))),
    ("CpuHalves", (2, 1, 9)), ("CpuHalves", (1, 65, 33))))
def test_products_of_rounded_operands(form, sizes, lanes):
    m, n, k = sizes
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=s).astype(np.float32) for s in ((m, k), (k, n)))
    run = compile_graph(matmul(m, n, k), options(Having(of(form), form, lanes), Bf16()))
    assert form in run.explain()
    got = run(x, w)["y"]
    near = [a.astype(ml_dtypes.bfloat16).astype(np.float64) for a in (x, w)]
    assert np.abs(got - near[0] @ near[1]).max() <= 0.02 * np.sqrt(k)
    size = np.abs(x).astype(np.float64) @ np.abs(w)
    assert (np.abs(got - x.astype(np.float64) @ w) <= 2.0 ** -7 * size + 2.0 ** -8).all()


@pytest.mark.parametrize("turned", (False, True))
@pytest.mark.parametrize("dtypes", (("u8", "i8"), ("i8", "u8")))
@pytest.mark.parametrize("form, m", (("CpuBytes", 70), ("CpuByteTiles", 70), ("CpuBytes", 1)))
def test_products_of_bytes_are_exact(form, m, dtypes, turned):
    rng = np.random.default_rng(0)
    x, w = (rng.integers(np.iinfo(d).min, np.iinfo(d).max + 1, s).astype(d) for d, s in zip(
        ("uint8" if t == "u8" else "int8" for t in dtypes), ((m, 130), (130, 50))))
    g = matmul(m, 50, 130, dtypes[0], other=dtypes[1], turned=turned)
    run = compile_graph(g, options(Having(of(form), form)))
    assert form in run.explain()
    want = x.astype(np.int32) @ w.astype(np.int32)
    assert np.array_equal(run(x, w)["y"], want.T if turned else want)


def test_rows_that_are_a_symbol():
    m = dim("m", 1, 4096, hint=128)
    g = Graph()
    x, w = g.input("x", (m, 80), "f32"), g.input("w", (80, 64), "f32")
    g.outputs["y"] = g.op("Contract", x, w, "a,k;k,n;a,n", (m, 64))
    run = compile_graph(g, options(Having(ALL, "CpuTiles"), Bf16()))
    rng = np.random.default_rng(0)
    w = rng.integers(-8, 9, (80, 64)).astype(np.float32)
    for rows in (1, 5, 16, 33, 200):
        x = rng.integers(-8, 9, (rows, 80)).astype(np.float32)
        assert np.array_equal(run(x, w)["y"], x @ w)


# ---- sizes at borders of tiles, groups and vectors, against the oracle
BORDERS = st.sampled_from(sorted({max(0, n + d) for n in (0, 2, 16, 32, 48, 64, 96)
                                  for d in (-1, 0, 1)}))
STACKS = {"bf16": (Bf16(),), "f16": (Fp16(),), "both": (Fp16(), Bf16())}
ERROR = {"bf16": 2.0 ** -7, "f16": 2.0 ** -10, "both": 2.0 ** -7}  # of the sum of absolute terms


def agrees(graph: Graph, run, stack: str, x: np.ndarray, w: np.ndarray, sizes=None) -> None:
    """A product, whose operands may have been rounded, is as far from the oracle as it may be."""
    (node,), inputs = graph.outputs.values(), {0: x, 1: w}
    got = run(*(inputs[i] for i, spec in enumerate(graph.inputs) if spec.kind != "weight"))["y"]
    want = evaluate([node], inputs, sizes or {})[0]
    size = np.matmul(*(np.abs(np.sin(a) if stack == "f16" else a).astype(np.float64)
                       for a in (x, w)))
    assert got.shape == want.shape and got.dtype == want.dtype
    assert (np.abs(got.astype(np.float64) - want) <= 1.01 * ERROR[stack] * size + 1e-6).all()


def drawn(m: int, k: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands of several magnitudes, with zeros."""
    rng = np.random.default_rng(seed)
    x, w = (rng.normal(size=s) * 10.0 ** rng.integers(-2, 3, s) * (rng.random(s) < 0.9)
            for s in ((m, k), (k, n)))
    return x.astype(np.float32), w.astype(np.float32)


@settings(max_examples=examples(6), deadline=None)
@given(BORDERS, BORDERS, BORDERS, st.sampled_from(sorted(STACKS)), st.booleans(),
       st.sampled_from(("", "CpuHalves", "CpuPairs", "CpuTiles")))
def test_products_of_any_known_size(m, n, k, stack, weight, form):
    x, w = drawn(m, k, n, m + 100 * n + 10_000 * k)
    g = matmul(m, n, k, weight=weight, bounded=stack == "f16")
    if weight:
        g.inputs[1].source = w
    run = compile_graph(g, options(Having(of(form), form), *STACKS[stack]))
    agrees(g, run, stack, x, w)


def _symbolic(form: str, stack: str) -> tuple:
    """A product whose three sizes only a run knows."""
    m, n, k = (dim(name, 0, 4096, hint=hint) for name, hint in (("m", 64), ("n", 96), ("k", 128)))
    g = Graph()
    x, w = g.input("x", (m, k), "f32"), g.input("w", (k, n), "f32")
    if stack == "f16":
        x, w = g.op("Sin", x), g.op("Sin", w)
    g.outputs["y"] = g.op("Contract", x, w, "a,k;k,n;a,n", (m, n))
    run = compile_graph(g, options(Having(ALL, form), *STACKS[stack]))
    assert form in run.explain()
    return g, run


SYMBOLIC = {key: _symbolic(*key) for key in (
    ("CpuHalves", "bf16"), ("CpuHalves", "f16"), ("CpuPairs", "bf16"), ("CpuTiles", "bf16"))}


@settings(max_examples=examples(40), deadline=None)
@given(BORDERS, BORDERS, BORDERS, st.sampled_from(sorted(SYMBOLIC)))
def test_products_of_sizes_that_only_a_run_knows(m, n, k, key):
    x, w = drawn(m, k, n, m + 100 * n + 10_000 * k)
    agrees(*SYMBOLIC[key], key[1], x, w, {"m": m, "n": n, "k": k})
