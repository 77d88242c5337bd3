"""Products of few rows on the simulator, for CUDA and Metal: all fragments, both ways that memory lies."""

from __future__ import annotations

import functools

import pytest
from contractions import CASES, SYMBOLIC, matmul, product
from tegg.testing.kernels import random_inputs
from simt import cases
from test_cuda_contraction import SIZES
from simt.cases import CUDA, METAL, Kit
from simt.simulator import ORDERS, SimulatorError
from test_cuda_kernels import agree
from test_metal_kernels import unit as metal_unit
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.disassembly import disassembler, instructions_of
from tegg.backends.cuda.resources import resources_of
from tegg.backends.simt.rows import RowForms, lower_rows, rows_row
from tegg.dtype import DTYPES, f32
from tegg.errors import BackendError, LoweringError
from tegg.ir.template import Extents
from tegg.testing.draw import Draw


def lowered(name: str, g: Draw, outputs, anchors, rows: int = 4, kit: Kit = CUDA) -> cases.Case:
    code = lower_rows(g, outputs, anchors, name, kit.language, rows)
    return cases.Case(g, outputs, {}, random_inputs(g, {}) if not code.symbols else {}, code)


def module(found, kit: Kit):
    """All kernels together; each device's own judges have read them."""
    if kit is METAL:
        return metal_unit(found)
    return cases.module([c.code for c in found])


def alike(found, kit: Kit) -> None:
    unit = module(found, kit)
    for number, c in enumerate(found):
        if c.code.work.iterations < 1e6:
            agree(unit, c, number % 3, 4)


@pytest.mark.parametrize("half", (0, pytest.param(1, marks=pytest.mark.long)))
def test_fragments(half):
    found = []
    for name in sorted(CASES)[half::2]:
        g = Draw()
        found.append(lowered(f"k_{name}", g, *CASES[name](g), 4 + 4 * half))
    alike(found, CUDA)


@pytest.mark.parametrize("third", (0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))))
def test_fragments_for_metal(third):
    found = []
    names = sorted(n for n in CASES if "f64" not in n and n != "to_int")
    for number, name in enumerate(names[third::3]):
        g = Draw()
        found.append(lowered(f"k_{name}", g, *CASES[name](g), (1, 4, 8)[number % 3], METAL))
    alike(found, METAL)


@pytest.mark.parametrize("kit", (CUDA, METAL), ids=lambda k: k.name)
def test_symbolic_sizes(kit):
    found = []
    for name in sorted(SYMBOLIC):
        g = Draw()
        found.append(lowered(f"k_{name}", g, *SYMBOLIC[name](g), kit=kit))
    unit = module(found, kit)
    for number, c in enumerate(found):
        for sizes in SIZES:
            c.sizes, c.inputs = sizes, random_inputs(c.graph, sizes)
            agree(unit, c, number % 3, 4)


def test_a_warp_or_a_thread_for_each_column():
    g, h = Draw(), Draw()
    along = product(g, g.x(3, 300), g.x(70, 300), "a,k;n,k;a,n", 3, 70)
    across = matmul(h, h.x(3, 300), h.x(300, 70))
    a, b = lowered("a", g, [along], [along]), lowered("b", h, [across], [across])
    assert "warp_add_f" in a.code.source and "wide_load" in a.code.source
    assert "__shared__" in b.code.source and "warp_add" not in b.code.source


def halves(g: Draw, kind: str, *shape: int):
    return g.op("Cast", g.x(*shape, dtype=kind), f32)


def of_halves(name: str, kind: str, m: int, k: int, n: int, along: bool,
              kit: Kit = CUDA) -> cases.Case:
    """A product whose operands and result rest in 16 bits."""
    g = Draw()
    y = (product(g, halves(g, kind, m, k), halves(g, kind, n, k), "a,k;n,k;a,n", m, n) if along
         else matmul(g, halves(g, kind, m, k), halves(g, kind, k, n)))
    return lowered(name, g, [g.op("Cast", y, DTYPES[kind])], [y], 1 << (m - 1).bit_length(),
                   kit)


def test_halves_of_any_size():
    """Whole tiles, parts of them, and rows that begin anywhere."""
    sizes = [(1, 256, 96, False), (3, 264, 200, False), (8, 250, 72, False), (5, 77, 45, False),
             (1, 256, 40, True), (5, 264, 41, True), (3, 77, 40, True)]
    alike([of_halves(f"k{n}", ("f16", "bf16")[n % 2], *x) for n, x in enumerate(sizes)], CUDA)
    alike([of_halves(f"m{n}", "f16", *x, METAL) for n, x in enumerate(sizes[1:6:2])], METAL)


@pytest.mark.parametrize("kind", ("f16", "bf16"))
def test_halves_move_sixteen_bytes_at_once(kind):
    """As machine code has it: all loads, and the stores of results that lie side by side."""
    if nvrtc.find() is None or missing():
        pytest.skip("NVRTC or nvdisasm is not installed")
    found = [of_halves(f"k{m}{along}", kind, m, 4096, 4096, along)
             for m in (1, 8) for along in (False, True)]
    source = "\n".join([cases.prelude(), *(c.code.source for c in found)])
    for architecture in (75, 80, 90):
        code, log = nvrtc.find().compile(source, architecture)
        assert not any(r.spill_stores for r in resources_of(log))
        for made in instructions_of(code):
            assert set(made.loads) == {128}, (architecture, made.show())
            assert set(made.stores) == ({16} if "True" in made.kernel else {128}), made.show()


def missing() -> bool:
    try:
        disassembler()
    except BackendError:
        return True
    return False


def test_what_blocks_share_is_limited():
    g = Draw()
    x = g.x(3, 40)
    products = [matmul(g, x, g.x(40, 30)) for _ in range(5)]
    total = functools.reduce(g.add, products)
    with pytest.raises(LoweringError, match="5 products of 8 rows share 40960 bytes; there are 32768"):
        lowered("k", g, [total], products, 8)
    assert "room" in lowered("k", g, [total], products, 4).code.source


def test_few_rows_only():
    class Operand:
        def __init__(self, *shape):
            self.shape = shape

    def rows(m, y=(64, 300), spec="a,k;k,b;a,b"):
        return RowForms("metal").completions("metal-rows", Operand(m, 64), Operand(*y), spec)

    assert [rows(m) for m in (1, 3, 8, 16, 17)] == [[(1, 0)], [(4, 0)], [(8, 0)], [(8, 0)], []]
    assert rows(3, (300, 64, 1), "a,k;b,k,;a,b") == [(4, 1)]
    assert rows(300, (2, 64), "a,k;b,k;a,b") == [(2, 1)]


@pytest.mark.parametrize("along, blocks", [(1, 128), (0, 32)])
def test_what_shares_a_weight_is_priced_by_its_layout(along, blocks):
    """A warp for each column, eight to a block, or 32 columns side by side."""
    row = rows_row("Cuda")
    for m, n in ((1, 1024), (1024, 1)):
        spec = "a,k;b,k;a,b" if along else "k,a;k,b;a,b"
        found = row.template((spec, "f32", 1, along), Extents(1, m, n, 3072, f32))
        assert found.pieces == blocks


BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
MUTANTS = {
    "terms are left out": ("k_from += 128)", "k_from += 132)"),
    "no barrier before the total": (BARRIER + "      for (int e", "      for (int e"),
    "no barrier after the total": (BARRIER + "    }", "    }"),
    "beyond the columns": ("if (from_n + 4 <= 200", "if (from_n + 4 <= 204"),
    "beyond the terms": ("k_from + 4 <= 301", "k_from + 4 <= 304"),
    "a term too many at the end": ("k_from + u < 301", "k_from + u < 302"),
    "lanes that are not joined": ("d < 32; d *= 2", "d < 16; d *= 2"),
    "columns of another lane": ("here = n_from + lane_id() % 8 * 4", "here = n_from + lane_id() / 4 * 4"),
    "one part is left out": ("w < 8;", "w < 7;"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_bugs_in_metal_kernels_are_found(name):
    g = Draw()
    y = matmul(g, g.x(3, 301), g.x(301, 200))
    c = lowered("k", g, [y], [y], 4, METAL)
    text, (right, wrong) = f"{cases.prelude(METAL)}\n{c.code.source}", MUTANTS[name]
    assert right in text, c.code.source
    agree(METAL.unit(text), c, 0, 4)
    unit, found = METAL.unit(text.replace(right, wrong)), False
    for order in ORDERS:
        try:
            agree(unit, c, order, 4)
        except (SimulatorError, AssertionError):
            found = True
    assert found
