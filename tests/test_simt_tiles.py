"""How tiles come to shared memory: what is read at once, what is on its way while products are summed,
and that what they hold is right at every edge."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import reduce

import pytest
from contractions import CASES, M, S, matmul, product
from simt import cases
from simt.cases import CUDA, METAL
from simt.simulator import ORDERS, SimulatorError
from test_cuda_kernels import agree
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.disassembly import disassembler, instructions_of
from tegg.backends.cuda.emit import cuda_c
from tegg.backends.cuda.program import prelude
from tegg.backends.cuda.resources import resources_of
from tegg.backends.metal.matrices import MatrixSums, MatrixTile
from tegg.backends.simt.contraction import lower_contraction
from tegg.backends.simt.sums import Sums
from tegg.backends.simt.templates import TILES, Tile

from tegg.errors import BackendError
from tegg.kernel.simt import THREADS, WARP
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs

BIG = Tile(*TILES[0])


def has_disassembler() -> bool:
    try:
        return bool(disassembler())
    except BackendError:
        return False


def case(record, tile, name="k", kit=CUDA, sizes=None, how=Sums) -> cases.Case:
    g = Draw()
    outputs, anchors = record(g)
    code = lower_contraction(g, outputs, anchors, name, kit.language, tile, how)
    return cases.Case(g, outputs, sizes or {}, random_inputs(g, sizes or {}), code)


def one(record):
    """A fragment of one product."""
    def made(g):
        y = record(g)
        return [y], [y]
    return made


PLAIN = one(lambda g: matmul(g, g.x(140, 40), g.x(40, 136)))
TURNED = {
    "rows by rows": PLAIN,
    "right turned": one(lambda g: product(g, g.x(140, 40), g.x(136, 40), "a,k;n,k;a,n", 140, 136)),
    "left turned": one(lambda g: product(g, g.x(40, 140), g.x(40, 136), "k,a;k,n;a,n", 140, 136)),
    "both turned": one(lambda g: product(g, g.x(40, 140), g.x(136, 40), "k,a;n,k;a,n", 140, 136)),
}
# Of odd sizes, computed, in batches, of several products.
EDGES = {
    "odd": one(lambda g: matmul(g, g.x(131, 37), g.x(37, 129))),
    "in twos": one(lambda g: matmul(g, g.x(130, 38), g.x(38, 70))),
    "less than a tile": one(lambda g: matmul(g, g.x(3, 5), g.x(5, 7))),
    "computed": one(lambda g: matmul(g, g.mul(g.exp(g.x(60, 44)), g.expand(g.x(44), (60, 44))),
                                     g.op("Cast", g.x(44, 72, dtype="f16"), g.x(1).dtype))),
    "padded": one(lambda g: matmul(g, g.padded(g.x(60, 36), (2, 2), (4, 4)), g.x(44, 72))),
    "gathered": one(lambda g: matmul(g, g.op("Gather", g.x(40, 64), g.x(60, dtype="i32"), 0),
                                     g.x(64, 72))),
    "batches": one(lambda g: product(g, g.x(3, 20, 24), g.x(3, 36, 24), "b,a,k;b,n,k;b,a,n", 3, 20, 36)),
    "two axes": one(lambda g: product(g, g.x(5, 8, 20), g.x(5, 6, 8), "k,l,a;k,n,l;a,n", 20, 6)),
    "bytes": one(lambda g: matmul(g, g.x(40, 36, dtype="u8"), g.x(36, 40, dtype="u8"))),
    "doubles": one(lambda g: matmul(g, g.x(40, 36, dtype="f64"), g.x(36, 40, dtype="f64"))),
    "several": CASES["projections"], "gated": CASES["gated_and_deep"],
}


def loop(text: str) -> str:
    """The steps of the depth."""
    return text[text.index("for (int step"):text.index("const int at_m = m_from + row")]


@pytest.mark.parametrize("name", TURNED)
def test_operands_are_read_sixteen_bytes_at_a_time(name):
    """Along whichever axis memory is contiguous, in every tile."""
    found = [case(TURNED[name], Tile(*t), f"k{i}") for i, t in enumerate(TILES)]
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number % 3, 4)
        assert loop(c.code.source).count("wide_load_4") == 2 and "sf_load" not in c.code.source


def test_what_is_computed_is_read_so_too():
    """A row's scale beside it, and halves: four of them are eight bytes."""
    text = loop(case(EDGES["computed"], BIG).code.source)
    assert text.count("wide_load_4") == 2 and text.count("wide_load_2") == 1 and "_load(" not in text


def test_memory_that_is_not_aligned_is_read_in_smaller_words():
    text = [loop(case(EDGES[name], BIG).code.source) for name in ("odd", "in twos")]
    assert "wide_load" not in text[0] and text[0].count("sf_load") == 2
    assert text[1].count("wide_load_2") == 2 and "sf_load" not in text[1]


@pytest.mark.parametrize("kit", (CUDA, METAL), ids=lambda k: k.name)
def test_the_next_tile_is_on_its_way_while_one_is_multiplied(kit):
    """Loads, products, what goes to the other buffer, and one barrier."""
    text = loop(case(PLAIN, BIG, kit=kit).code.source)
    assert text.count("barrier(" if kit is METAL else "__syncthreads") == 1
    at = [text.index(word) for word in ("wide_load_4", "for (int k", "left_f[1 - now][d",
                                        kit.language.barrier)]
    assert at == sorted(at) and text.rindex("wide_load_4") < at[1]


def test_one_buffer_where_two_do_not_fit():
    """Matrices leave room for more blocks; integers of 64 bits take more than Metal has."""
    wide = one(lambda g: matmul(g, g.x(40, 36, dtype="i64"), g.x(36, 40, dtype="i64")))
    found = [case(PLAIN, MatrixTile(64, 64, 16), "k0", METAL, how=MatrixSums),
             case(wide, BIG, "k1", METAL)]
    unit = cases.module([c.code for c in found], kit=METAL)
    for number, c in enumerate(found):
        agree(unit, c, number, 4)
        assert c.code.source.count(METAL.language.barrier) == 3 and "now" not in c.code.source
    assert "left_l[2][8][132]" in case(wide, BIG).code.source


@pytest.mark.parametrize("tile", [BIG, Tile(32, 32, 32), Tile(64, 64, 16, 3)], ids=str)
@pytest.mark.parametrize("kit", (CUDA, METAL), ids=lambda k: k.name)
def test_every_edge(kit, tile):
    names = [n for n in EDGES if not (kit is METAL and n == "doubles")]
    found = [case(EDGES[name], tile, f"k{i}", kit) for i, name in enumerate(names)]
    unit = cases.module([c.code for c in found], kit=kit)
    for number, c in enumerate(found):
        agree(unit, c, number % 3, 4)


@pytest.mark.parametrize("sizes", [dict(m=0, s=3), dict(m=3, s=0), dict(m=1, s=1), dict(m=129, s=20)],
                         ids=str)
def test_symbolic_sizes_of_places_and_depth(sizes):
    found = [case(one(lambda g: matmul(g, g.x(M, 36), g.x(36, 72))), BIG, "k0", sizes=sizes),
             case(one(lambda g: matmul(g, g.x(M, S), g.x(S, 72))), Tile(64, 64, 16, 2), "k1", sizes=sizes)]
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number, 4)
    assert loop(found[0].code.source).count("wide_load_4") == 2


def test_whole_tiles_have_no_tests_of_edges():
    text = loop(case(one(lambda g: matmul(g, g.x(256, 64), g.x(64, 256))), BIG).code.source)
    assert re.findall(r"if \((.*)\) {", text) == ["ahead < end"] * 2


def test_two_blocks_share_a_multiprocessor_where_sums_leave_room():
    doubles = one(lambda g: matmul(g, g.x(40, 36, dtype="f64"), g.x(36, 40, dtype="f64")))
    assert [re.findall(r"KERNEL\(256, (\d)\) k\(", case(r, BIG).code.source) for r in (PLAIN, doubles)
            ] == [["2"], ["1"]]
    assert "KERNEL(256, 2) k(" in case(doubles, Tile(64, 64, 16)).code.source
    many = one(lambda g: matmul(g, reduce(g.add, [g.x(40, 36) for _ in range(6)]), g.x(36, 40)))
    assert "KERNEL(256, 1) k(" in case(many, BIG).code.source


def machine_code(record):
    g = Draw()
    outputs, anchors = record(g)
    code = lower_contraction(g, outputs, anchors, "k", cuda_c(90), BIG)
    return nvrtc.find().compile(prelude() + code.source, 90)


WHOLE = {spec: one(lambda g, s=spec, x=x, y=y: product(g, g.x(*x), g.x(*y), s, 512, 256))
         for spec, x, y in (("a,k;k,n;a,n", (512, 1024), (1024, 256)),
                            ("a,k;n,k;a,n", (512, 1024), (256, 1024)),
                            ("k,a;k,n;a,n", (1024, 512), (1024, 256)))}


@pytest.mark.skipif(nvrtc.find() is None, reason="NVRTC is not installed")
@pytest.mark.parametrize("spec", WHOLE)
def test_two_blocks_have_their_registers_and_spill_none(spec):
    (kernel,) = resources_of(machine_code(WHOLE[spec])[1])
    assert kernel.registers <= 128 and kernel.spill_stores == kernel.spill_loads == 0


@pytest.mark.skipif(nvrtc.find() is None or not has_disassembler(), reason="NVRTC or nvdisasm is not installed")
@pytest.mark.parametrize("spec", WHOLE)
def test_machine_code_loads_and_stores_sixteen_bytes(spec):
    """The first tile and the next ones of both operands; sums are most of all instructions."""
    (kernel,) = instructions_of(machine_code(WHOLE[spec])[0])
    assert kernel.loads == {128: 4} and kernel.stores == {128: 16}
    assert kernel.count < 1000 and kernel.spills == 0


# ---- banks of shared memory
def places(line: str, **known: int) -> dict[str, int]:
    """What a line of constants of C says."""
    for name, text in re.findall(r"(\w+) = ([^,;]+)", line):
        known[name] = eval(text.replace("/", "//").replace("thread_id()", str(known["t"])), {}, known)
    return known


def ways(words: list[int]) -> int:
    """How often the busiest of 32 banks is asked for different words."""
    return max(len({w for w in words if w % 32 == bank}) for bank in range(32))


@pytest.mark.parametrize("tile", [Tile(*t) for t in TILES], ids=str)
@pytest.mark.parametrize("name", ["right turned", "odd", "in twos"])
def test_what_goes_to_shared_memory_down_its_columns_meets_each_bank_once(tile, name):
    text = loop(case({**TURNED, **EDGES}[name], tile).code.source)
    line = re.search(r"const int e = .*;", text)[0]  # of the left tile, which lies along the depth
    for warp in range(0, THREADS, WARP):
        at = [places(line, t=t, c=0) for t in range(warp, warp + WARP)]
        assert ways([x["d"] * (tile.rows + 4) + x["s"] for x in at]) == 1


def test_threads_stand_at_every_place_and_read_without_conflicts():
    line = Sums(BIG, CUDA.language, "f", 1).place()
    at = [places(line, t=t) for t in range(THREADS)]
    assert len({(x["row"], x["column"]) for x in at}) == THREADS
    for warp in range(0, THREADS, WARP):
        for side, count in (("row", 4), ("column", 8)):
            found = {x[side] for x in at[warp:warp + WARP]}
            assert len(found) == count and ways([4 * x + u for x in found for u in range(4)]) == 1


# ---- bugs
WRONG = {
    "no barrier between steps": (r"__syncthreads\(\);(\n        }\n)", r"\1"),
    "no barrier before the first": (r"__syncthreads\(\);(\n        int now)", r"\1"),
    "the buffer that is read": (r"\[1 - now\]", "[now]"),
    "one tile too far": (r"ahead = step \+ 1", "ahead = step + 2"),
    "beyond the depth": (r"at_k < 37 && ", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_bugs_are_found(name):
    c = case(EDGES["odd"], Tile(32, 32, 32))
    text, count = re.subn(*WRONG[name], c.code.source)
    assert count
    unit, found = CUDA.unit(f"{cases.prelude()}\n{text}"), False
    for order in ORDERS:
        try:
            agree(unit, replace(c, code=replace(c.code, source=text)), order, 4)
        except (SimulatorError, AssertionError):
            found = True
    assert found
