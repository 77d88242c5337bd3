"""Kernels emitted for Metal, run on the simulator in three orders of threads, against the oracle."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from contractions import CASES as PRODUCTS, SYMBOLIC
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from profiles import examples
from tegg.testing.kernels import random_inputs
from simt import cases
from simt.cases import METAL, METAL31, Kit
from simt.metal_front_end import judge, there
from simt.metal_module import ByClang
from simt.metal_rules import broken_rules
from simt.simulator import ORDERS, SimulatorError
from test_contraction_random import fragment
from test_cuda_contraction import SIZES
from test_cuda_kernels import WIDE, agree
from test_kernel_cases import CASES
from tegg.backends.metal.matrices import (HALVES, TILES as TILES_OF_MATRICES, MatrixSums,
                                         MatrixTile, matrix_tile)
from tegg.backends.metal.target import Metal
from tegg.backends.simt.contraction import lower_contraction
from tegg.backends.simt.templates import TILES, Tile

from tegg.dtype import DTYPES, bf16, f16, f32, i32
from tegg.errors import LoweringError
from tegg.ir.graph import Graph
from tegg.kernel.lower import lower
from tegg.kernel.simt import LIMITS
from tegg.rewrite.compiler import Bf16, Fp16, Generic, lowering
from tegg.rewrite.egraph import saturate
from tegg.testing.draw import Draw
from tegg.testing.rows import N
from tegg.testing.strategies import views

HERE = [d for d in DTYPES.values() if d.name != "f64"]
record = functools.partial(cases.case, kit=METAL)


def unit(found, front: bool = True, kit: Kit = METAL):
    """Kernels as one translation unit that keeps the rules of MSL, by two judges."""
    text = "\n".join([cases.prelude(METAL), *(c.code.source for c in found)])
    assert broken_rules(text) == []
    if front and there():
        judge(text, 230 if kit is METAL else 310)
    return kit.unit(text)


def alike(found, slack: float = 1.0, kit: Kit = METAL) -> None:
    module = unit(found, kit=kit)
    for number, c in enumerate(found):
        agree(module, c, number % 3, slack)


@pytest.mark.parametrize("part", range(2))
def test_cases(part):
    """The adversarial kernels that the CPU's printer is tested on."""
    found = []
    for name in sorted(CASES)[part::2]:
        g = Draw()
        found.append(record(f"k_{name}", g, CASES[name](g)))
    alike(found, 2.0)


def test_four_neighbours_move_at_once():
    found = []
    for name, draw in WIDE.items():
        g = Draw()
        found.append(record(f"k_{name}", g, [draw(g)]))
    alike(found)
    loads = {name for name, c in zip(WIDE, found) if "wide_load" in c.code.source}
    assert loads == {"added", "rows", "columns", "aligned", "numbers", "counted", "narrowed"}
    assert all("wide_store" in c.code.source for c in found)


def test_casts_and_reductions():
    found, rng = [], np.random.default_rng(3)
    for dtype in HERE:
        g = Draw()
        x, wide = g.x(N, dtype=dtype.name), g.x(3, 400, dtype=dtype.name)
        outputs = [g.op("Cast", x, to) for to in HERE if to is not dtype]
        outputs += [g.total(wide, 1), g.top(wide, 1), g.total(wide, 0), g.top(wide, 0, 1)]
        given_ = {0: np.abs(rng.integers(0, 100, N)).astype(dtype.numpy),
                  1: rng.integers(0, 3, (3, 400)).astype(dtype.numpy)}
        found.append(record(f"k_{dtype.name}", g, outputs, inputs=given_))
    alike(found)


# ---- products
def product(name, g, outputs, anchors, tile) -> cases.Case:
    code = lower_contraction(g, outputs, anchors, name, METAL.language, Tile(*tile))
    return cases.Case(g, outputs, {}, random_inputs(g, {}) if not code.symbols else {}, code)


def test_products():
    """Every fragment in one tile, in turn."""
    found = []
    for number, name in enumerate(sorted(n for n in PRODUCTS if "f64" not in n and n != "to_int")):
        g = Draw()
        found.append(product(f"k_{name}", g, *PRODUCTS[name](g), TILES[number % len(TILES)]))
    alike([c for c in found if c.code.work.iterations < 3e6], 4)


MATRICES = [c for c in sorted(PRODUCTS) if not any(
    word in c for word in ("f64", "to_int", "i32", "i64", "u8", "i8"))]


@pytest.mark.parametrize("tile", (*TILES_OF_MATRICES, *HALVES), ids=str)
def test_products_in_matrices(tile):
    """Sums in simdgroup matrices: every fragment of floats in one of the tiles, in turn; in halves
    those of float16, and others on values that a half holds."""
    found, tiles = [], HALVES if tile in HALVES else TILES_OF_MATRICES
    kit = METAL31 if tile in HALVES else METAL
    for name in MATRICES[tiles.index(tile)::len(tiles)]:
        g = Draw()
        outputs, anchors = PRODUCTS[name](g)
        try:
            code = lower_contraction(g, outputs, anchors, f"k_{name}", kit.language,
                                     matrix_tile(tile), MatrixSums)
        except LoweringError as e:
            assert re.search("of float32 here|bytes of threadgroup", str(e)), name
            continue
        found.append(cases.Case(g, outputs, {}, random_inputs(g, {}), code))
    alike([c for c in found if c.code.work.iterations < 3e6], 4000 if tile in HALVES else 4,
          kit)
    assert len(found) >= 8


def test_halves_are_multiplied_as_they_are():
    """Operands that come from float16 lose nothing, sums are of float32."""
    g = Draw()
    x, w = (g.op("Cast", g.x(*s, dtype="f16"), f32) for s in ((40, 70), (70, 33)))
    y = g.op("Contract", x, w, "a,k;k,b;a,b", (40, 33))
    code = lower_contraction(g, [y], [y], "k", METAL31.language, matrix_tile(HALVES[1]), MatrixSums)
    assert "SHARED half left_f[32][72]" in code.source and "simdgroup_half8x8 x0" in code.source
    c = cases.Case(g, [y], {}, random_inputs(g, {}), code)
    alike([c], kit=METAL31)
    with pytest.raises(SimulatorError, match="matrices of these types are not multiplied here"):
        unit([c], front=False)
    if there():
        with pytest.raises(SimulatorError, match="matrices of these types are not multiplied here"):
            judge(f"{cases.prelude(METAL)}{code.source}")
    with pytest.raises(LoweringError, match="from MSL 3.1 on; in 2.3, which metalcompute compiles"):
        MatrixSums(matrix_tile(HALVES[1]), METAL.language, "f", 1)


def test_products_of_symbolic_sizes():
    found = []
    for name in sorted(SYMBOLIC):
        g = Draw()
        found.append(product(f"k_{name}", g, *SYMBOLIC[name](g), TILES[-1]))
    module = unit(found)
    for number, c in enumerate(found):
        for sizes in SIZES:
            c.sizes, c.inputs = sizes, random_inputs(c.graph, sizes)
            agree(module, c, number % 3, 4)


FEW = {"max_examples": examples(2), "deadline": None, "suppress_health_check": list(HealthCheck),
       "phases": [Phase.explicit, Phase.generate]}


@settings(**FEW)
@given(st.data())
def test_random_products(data):
    found = []
    for number in range(10):
        g = Draw()
        dtype = data.draw(st.sampled_from(("f32", "f32", "f16", "i32", "u8")))
        outputs, anchor = data.draw(fragment(g, dtype, frozenset()))
        try:
            found.append(product(f"k{number}", g, outputs, [anchor],
                                 data.draw(st.sampled_from(TILES))))
        except LoweringError:
            continue
    alike(found, 4)


def simulate(drawn) -> None:
    """Programs of views as one translation unit, at their sizes."""
    found = []
    for number, v in enumerate(drawn):
        try:
            if all(n.dtype.name != "f64" for n in v.graph.reachable(v.outputs)):
                found.append((v, lower(v.graph, v.outputs, f"k{number}", METAL.language, LIMITS)))
        except LoweringError:
            continue
    found = [(v, code) for v, code in found if code.work.evaluations < 4e5]
    module = unit([cases.Case(v.graph, v.outputs, {}, {}, code) for v, code in found])
    for number, (v, code) in enumerate(found):
        for i, sizes in enumerate(v.runs if code.symbols else v.runs[:1]):
            if max(v.counts(sizes)) <= 20_000:
                c = cases.Case(v.graph, v.outputs, sizes, v.inputs(sizes, i), code)
                agree(module, c, (number + i) % 3, 8)


@settings(**FEW)
@given(st.lists(views(), min_size=8, max_size=10))
def test_random_constant_shapes(drawn):
    simulate(drawn)


@settings(**FEW)
@given(st.lists(views(symbolic=True), min_size=6, max_size=8))
def test_random_symbolic_shapes(drawn):
    simulate(drawn)


# ---- by another compiler
@pytest.mark.skipif(not there(), reason="ziglang is not installed")
def test_clang_makes_the_same_of_them():
    """Metal's own compiler is a clang: loops, rows and products, run as it reads and optimises them."""
    found = []
    for name in sorted(CASES)[::6]:
        g = Draw()
        found.append(record(f"k_{name}", g, CASES[name](g)))
    found.append(softmax())
    for name, tile, *sums in (("tiled", Tile(*TILES[-1])), ("matrix", MatrixTile(64, 64, 16), MatrixSums)):
        g = Draw()
        y = g.op("Contract", g.x(40, 70), g.x(70, 33), "a,k;k,b;a,b", (40, 33))
        code = lower_contraction(g, [y], [y], name, METAL.language, tile, *sums)
        found.append(cases.Case(g, [y], {}, random_inputs(g, {}), code))
    module = ByClang("\n".join([cases.prelude(METAL), *(c.code.source for c in found)]))
    for number, c in enumerate(found):
        agree(module, c, number % 3, 4)


# ---- bugs planted into what is really emitted
MUTANTS = {
    "no barrier before the total": ("room[at / 32] = x; \\\n    threadgroup_barrier(mem_flags::mem_threadgroup);",
                                    "room[at / 32] = x;"),
    "no barrier after the total": ("all = (T)s##L##_##OP(all, room[w]); \\\n    threadgroup_barrier(mem_flags::mem_threadgroup);",
                                   "all = (T)s##L##_##OP(all, room[w]);"),
    "a barrier of the wrong memory": ("mem_flags::mem_threadgroup", "mem_flags::mem_device"),
    "every lane writes": ("if (lane == 0) room", "if (lane >= 0) room"),
    "one lane too few": ("for (ushort d = 16;", "for (ushort d = 8;"),
    "one column too many": ("< 300) {", "<= 300) {"),
    "a row is skipped": ("point += block_count()", "point += 1 + block_count()"),
    "a wrong pointer": ("given[2]", "given[1]"),
    "the least float": ("0x7f800000 | hidden", "0x7f7fffff | hidden"),
}


def softmax():
    g = Draw()
    x = g.x(12, 1200)
    inputs = np.random.default_rng(0).standard_normal((12, 1200)).astype(np.float32)
    inputs[0] = -np.inf
    return record("k", g, [g.top(x, 1), g.softmax(x, 1), g.total(x, 1)], inputs={0: inputs})


@pytest.mark.parametrize("name", MUTANTS)
def test_bugs_in_emitted_kernels_are_found(name):
    c, (right, wrong) = softmax(), MUTANTS[name]
    text = f"{cases.prelude(METAL)}\n{c.code.source}"
    assert text.count(right) >= 1
    found = False
    want = cases.run(METAL.unit(text), c)
    module = METAL.unit(text.replace(right, wrong))
    for order in ORDERS:
        try:
            found |= not all(np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
                             for a, b in zip(cases.run(module, c, order), want))
        except SimulatorError:
            found = True
    assert found


# ---- matrices
@pytest.mark.parametrize("m, n, dtype, tiles", [
    (512, 512, f32, TILES_OF_MATRICES), (40, 33, f32, TILES_OF_MATRICES[1:]), (8, 512, f32, ()),
    (512, 512, i32, ()), (512, 512, f16, (*TILES_OF_MATRICES, *HALVES)),
    (40, 33, f16, (*TILES_OF_MATRICES[1:], *HALVES[1:])), (512, 512, bf16, TILES_OF_MATRICES)])
def test_matrices_are_offered_where_tiles_are_filled(m, n, dtype, tiles):
    g = Graph()
    x, y = g.input("x", (m, 64), dtype), g.input("y", (64, n), dtype)
    if dtype.is_float and dtype is not f32:
        x, y = g.op("Cast", x, f32), g.op("Cast", y, f32)
    g.outputs["y"] = g.op("Contract", x, y, "a,k;k,b;a,b", (m, n))
    for through in ("metal", "metalcompute"):
        classes = saturate(g, (Generic(), lowering(Metal("M1", through))), features=("metal",)).classes
        known = [t for t in tiles if through == "metal" or t[-1] == "f32"]
        assert {e.attrs[2:] for found in classes.nodes.values() for e in found
                if e.op.name == "MetalMatrix"} == set(known)


def test_others_are_rounded_to_halves_where_a_compiler_says_so():
    g = Graph()
    x, y = (g.op("Sin", g.input(name, (512, 512), f32)) for name in "xy")  # bounded
    g.outputs["y"] = g.op("Contract", x, y, "a,k;k,b;a,b", (512, 512))

    def found(*compilers, through="metal"):
        stack = (Generic(), *compilers, lowering(Metal("M1", through)))
        classes = saturate(g, stack, features=("metal",)).classes
        return {e.attrs[-1] for found in classes.nodes.values() for e in found
                if e.op.name == "MetalMatrix"}

    assert (found(), found(Fp16()), found(Bf16())) == ({"f32"}, {"f32", "f16"}, {"f32"})
    assert found(Fp16(), through="metalcompute") == {"f32"}


def test_matrices_are_of_floats_and_fit_threadgroup_memory():
    tile = matrix_tile(TILES_OF_MATRICES[0])
    assert len(MatrixSums(tile, METAL.language, "f", 2).shared()) == 3
    with pytest.raises(LoweringError, match="simdgroup matrices are of float32 here"):
        MatrixSums(tile, METAL.language, "i", 1)
    with pytest.raises(LoweringError, match="of 3 products take 37376 bytes of threadgroup memory"):
        MatrixSums(tile, METAL.language, "f", 3)


MATRIX_MUTANTS = {
    "no barrier after the first tiles": ("threadgroup_barrier(mem_flags::mem_threadgroup);\n        for (int step", "for (int step"),
    "no barrier after the next tiles": ("          threadgroup_barrier(mem_flags::mem_threadgroup);\n        }", "        }"),
    "no barrier before the next tiles": ("          threadgroup_barrier(mem_flags::mem_threadgroup);\n          UNROLL", "          UNROLL"),
    "no barrier before a strip is read": ("        simdgroup_barrier(mem_flags::mem_threadgroup);\n        for", "        for"),
    "a strip is written too early": ("        }\n        simdgroup_barrier(mem_flags::mem_threadgroup);\n      }", "        }\n      }"),
    "not transposed": ("ulong2(0, 0), true)", "ulong2(0, 0), false)"),
    "a wrong stride": (", 68, ulong2", ", 67, ulong2"),
    "a matrix beside its place": ("&strip0[group][8]", "&strip0[group][7]"),
    "beyond the result": ("if (at_m < 40", "if (at_m < 41"),
}


@pytest.mark.parametrize("name", MATRIX_MUTANTS)
def test_bugs_in_matrices_are_found(name):
    g = Draw()
    x, w = g.x(40, 70), g.x(70, 33)
    y = g.op("Contract", x, w, "a,k;k,b;a,b", (40, 33))
    code = lower_contraction(g, [y], [y], "k", METAL.language, MatrixTile(64, 64, 16), MatrixSums)
    c = cases.Case(g, [y], {}, random_inputs(g, {}), code)
    text, (right, wrong) = f"{cases.prelude(METAL)}\n{code.source}", MATRIX_MUTANTS[name]
    assert right in text
    agree(METAL.unit(text), c, 0, 4)
    module, found = METAL.unit(text.replace(right, wrong)), False
    for order in ORDERS:
        try:
            agree(module, c, order, 4)
        except (SimulatorError, AssertionError):
            found = True
    assert found
