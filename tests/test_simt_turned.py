"""Loads that run across the stores go through memory of the block, in tiles; all others do not."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from profiles import examples
from simt import cases, planted
from simt.simulator import ORDERS, Memory, SimulatorError
from test_cuda_kernels import agree
from test_simt_wide import instructions, simulate
from tegg.backends.simt.turned import _RUN
from tegg.testing.draw import Draw

from tegg.dim import Facts, dim
from tegg.dim import evaluate as size_of
from tegg.dtype import DTYPES
from tegg.ir.oracle import evaluate
from tegg.kernel.accesses import NONE
from tegg.kernel.domain import Write
from tegg.kernel.index import Algebra, Form, Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Let, Store
from tegg.kernel.turned import LEAST, turned
from tegg.kernel.value import Load, Val

N = dim("n", 0, 4096, hint=300)
FEW = {"max_examples": examples(2), "deadline": None, "suppress_health_check": list(HealthCheck),
       "phases": [Phase.explicit, Phase.generate]}


def t(g, x):
    """The last two axes exchanged."""
    last = len(x.shape) - 1
    return g.permute(x, (*range(last - 1), last, last - 1))


def lowered(record, kit=cases.CUDA, name="k"):
    g = Draw()
    return cases.case(name, g, [record(g)], inputs={}, kit=kit).code


def tiles(code) -> int:
    """How many loads have memory of the block."""
    return len(re.findall(r"^  (?:__shared__|SHARED) \w+ t\d+\[", code.source, re.MULTILINE))


# ---- what is turned
TURNED = {
    "transposed": (1, lambda g: t(g, g.x(70, 90))),
    "batches": (1, lambda g: t(g, g.x(3, 40, 50))),
    "first and last": (1, lambda g: g.permute(g.x(40, 3, 50), (2, 1, 0))),
    "moved to the front": (1, lambda g: g.permute(g.x(5, 40, 50), (2, 0, 1))),
    "beside another": (1, lambda g: g.named("Add", t(g, g.x(70, 90)), g.x(90, 70))),
    "beside a bias": (1, lambda g: g.named("Add", t(g, g.x(70, 90)), g.x(70))),
    "two": (2, lambda g: g.named("Mul", t(g, g.exp(g.x(70, 90))), t(g, g.x(70, 90)))),
    "one read twice": (1, lambda g: g.named("Mul", t(g, g.exp(x := g.x(70, 90))), t(g, x))),
    "a slice": (1, lambda g: t(g, g.slice(g.x(70, 90), (3, 65, 1), (5, 88, 1)))),
    "padded": (1, lambda g: t(g, g.padded(g.x(70, 90), (2, 1), (3, 5)))),
    "backwards": (1, lambda g: t(g, g.flip(g.x(70, 90), 1))),
    "upside down": (1, lambda g: t(g, g.flip(g.x(70, 90), 0))),
    "symbolic rows": (1, lambda g: t(g, g.x(N, 40))),
    "symbolic columns": (1, lambda g: t(g, g.x(40, N))),
    "more than there is room for": (4, lambda g: g.named("Add", t(g, g.x(64, 64)), g.named(
        "Add", t(g, g.mul(g.x(64, 64), 2)), g.named("Add", t(g, g.exp(g.x(64, 64))), g.named(
            "Add", t(g, g.exp(g.x(64, 64))), t(g, g.x(64, 64))))))),
}
AS_IT_IS = {
    "copied": lambda g: g.exp(g.x(70, 90)),
    "heads": lambda g: g.permute(g.x(2, 50, 4, 32), (0, 2, 1, 3)),
    "few columns": lambda g: t(g, g.x(500, LEAST - 1)),
    "few rows": lambda g: t(g, g.x(LEAST - 1, 500)),
    "every other": lambda g: g.slice(g.x(90, 200), (0, 90, 1), (0, 200, 2)),
    "one column for all": lambda g: g.named("Add", g.x(70, 90), g.x(70, 1)),
    "gathered": lambda g: t(g, g.op("Gather", g.x(70, 90), g.x(90, dtype="i32"), 1)),
    "summed": lambda g: g.total(t(g, g.x(70, 90)), 1),
}


@pytest.mark.parametrize("kit", (cases.CUDA, cases.METAL), ids=lambda k: k.name)
def test_what_runs_across_the_stores_is_turned(kit):
    for name, (count, record) in TURNED.items():
        code = lowered(record, kit)
        assert tiles(code) == count, f"{name}\n{code.source}"
        barriers = code.source.count("barrier(" if kit is cases.METAL else "__syncthreads();")
        assert barriers == 2 * code.source.count("for (int point"), name


@pytest.mark.parametrize("kit", (cases.CUDA, cases.METAL), ids=lambda k: k.name)
def test_what_does_not_is_read_as_it_is(kit):
    for name, record in AS_IT_IS.items():
        assert not tiles(lowered(record, kit)), name


# ---- how
@pytest.mark.parametrize("kind", sorted(DTYPES))
def test_both_ways_move_sixteen_bytes(kind):
    """In machine code too, for every dtype, with all of a tile's loads before its barrier."""
    code = lowered(lambda g: t(g, g.x(4096, 2048, dtype=kind)), name=f"k_{kind}")
    found = instructions([code])[code.stages[0].function]
    assert set(found.loads) == {128} and set(found.stores) == {128} and not found.spills, found.show()
    points, each = code.stages[0].launch.nests[0]
    assert each == 1 and 512 <= points <= 4096 * 2048 // 1024


def test_a_tile_is_as_square_as_its_loops_are():
    """It holds as many values where one of them is short, and fewer where loads are several."""
    def sides(rows, columns, kind="f32", operands=1):
        across, along = Var(columns, 0), Var(rows, 1)
        loads = [Val("load", (), DTYPES[kind], Load(n, Form(0, {along: columns, across: 1}), ()),
                     frozenset((along, across)), n) for n in range(operands)]
        return tile_of(along, across, loads)

    assert sides(4096, 4096) == (64, 64)
    assert sides(4096, 4096, "u8") == (128, 128)
    assert sides(4096, 4096, "f64") == (64, 32)
    assert sides(4096, 4096, operands=2) == (64, 32)
    assert sides(1 << 20, 16) == (256, 16)
    assert sides(16, 1 << 20) == (16, 256)
    assert sides(100, 100) == (32, 32)


def tile_of(along, across, loads):
    w = Write(9, (across, along), Form(0, {across: along.extent, along: 1}), loads[0])
    found = turned([*map(Let, loads), Store(w)], (across, along), Lanes(Algebra(Facts()), 4))
    assert found is not None and found.count(loads[0], NONE) > 1
    return found.columns, found.rows


@pytest.mark.parametrize("size, count", [(4, 4), (4, 1), (8, 2), (8, 1), (1, 16), (1, 4), (1, 1), (4, 8)])
def test_threads_of_a_warp_meet_in_few_banks(size, count):
    """Of the way into the tile and of that out of it: two at most, four for single bytes."""
    side = {8: 32, 4: 64, 1: 128}[size]
    pitch = side + max(1, 4 // size)
    beside = min(side // count, max(1, _RUN[size] // count))
    for lines in (lambda along, across: along * pitch + across, lambda along, across: across * pitch + along):
        worst = 0
        together = 32 if size <= 4 else 16  # doubles come in two halves of a warp
        for half in range(0, 32, together):
            banks: dict[int, set[int]] = {}
            for q in range(half, half + together):
                at = lines(q // beside % side, q % beside * count) * size
                for word in range(at // 4, (at + size + 3) // 4):
                    banks.setdefault(word % 32, set()).add(word)
            worst = max(worst, max(map(len, banks.values())))
        assert worst <= (4 if size == 1 else 2), (size, count, worst)


# ---- results
def test_turned_loads_give_what_the_oracle_says():
    for kit in (cases.CUDA, cases.METAL):
        found = []
        for name, (_, record) in {**TURNED, **{k: (0, r) for k, r in AS_IT_IS.items()}}.items():
            g = Draw()
            found.append(cases.case(f"k_{name.replace(' ', '_')}", g, [record(g)], {"n": 77}, kit=kit))
        unit = cases.module([c.code for c in found], kit=kit)
        for number, c in enumerate(found):
            agree(unit, c, number % 3, 2.0)


@pytest.mark.parametrize("sizes", [{"n": n, "m": m} for n, m in ((0, 5), (1, 1), (31, 65), (64, 64), (130, 48))])
def test_symbolic_sizes(sizes):
    """Those that divide, those that do not, and none at all."""
    m = dim("m", 0, 4096, hint=300)
    found = []
    for kind in ("f32", "f16", "i64", "u8"):
        g = Draw()
        out = [t(g, g.x(3, N, m, dtype=kind))]
        found.append(cases.case(f"k_{kind}", g, out, sizes))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number % 3)


@st.composite
def crossings(draw):
    """Views of which some run across, of any dtypes and lengths."""
    g = Draw()
    kind, other = (draw(st.sampled_from(sorted(DTYPES))) for _ in range(2))
    symbolic = draw(st.booleans())
    rows, n = (draw(st.sampled_from((16, 17, 24, 33, 40, 64, 76, 96, 130))) for _ in range(2))
    n = N if symbolic else n
    lead = (2,) if draw(st.booleans()) else ()
    x = g.x(*lead, rows, n, dtype=kind)
    axis = len(lead)
    match draw(st.sampled_from(("plain", "slice", "pad", "flip"))):
        case "slice":
            x = g.slice(x, *((0, d, 1) for d in lead), (3, rows, 1), (0 if symbolic else 1, n, 1))
        case "pad":
            x = g.padded(x, *((0, 0) for _ in lead), (draw(st.integers(0, 4)), 1), (0, 3))
        case "flip":
            x = g.flip(x, axis + draw(st.integers(0, 1)))
    x = t(g, x)
    match draw(st.sampled_from(("copy", "cast", "bias", "both"))):
        case "cast":
            x = g.op("Cast", x, DTYPES[other])
        case "bias" if kind != "bool":
            x = g.named("Add", x, g.x(x.shape[-1], dtype=kind))
        case "both":
            x = g.op("Select", t(g, g.x(*lead, x.shape[-1], x.shape[-2], dtype="bool")), x,
                     g.x(*x.shape, dtype=kind))
    x = g.op("Contiguous", x) if x.op.name == "Permute" else x
    sizes = [{"n": draw(st.sampled_from((1, 8, 16, 33, 64, 100)))} for _ in range(2)]
    return g, [x], sizes if symbolic else [{}]


@settings(**FEW)
@given(st.lists(crossings(), min_size=12, max_size=12))
def test_any_dtype_at_any_place(drawn):
    simulate(drawn)


def test_each_byte_moves_once():
    """The bytes that threads read and write are those that a plan counts on."""
    found, sizes = [], {"n": 301}
    for name in ("transposed", "batches", "beside another", "two", "one read twice", "symbolic rows"):
        g = Draw()
        found.append(cases.case(f"k_{name.replace(' ', '_')}", g, [TURNED[name][1](g)], sizes))
    unit = cases.module([c.code for c in found])
    for c in found:
        unit.moved = [0, 0]
        agree(unit, c, 0, 2.0)
        read, stored = (sum(size_of(np.prod(x.shape, dtype=object), sizes) * x.dtype.itemsize
                            for x in some) for some in (c.graph.inputs, c.outputs))
        assert unit.moved == [read, stored], c.code.name
        if not c.code.symbols:
            assert [c.code.work.loaded, c.code.work.stored] == [read, stored], c.code.name


@pytest.mark.parametrize("kit", (cases.CUDA, cases.METAL), ids=lambda k: k.name)
def test_what_lies_far_in_an_array_is_reached(kit):
    """Beyond 2^31 elements, of which only those bytes are there."""
    rows, columns = 1 << 16, 3 << 15
    g = Draw()
    x = g.slice(g.x(rows, columns), (rows - 20, rows, 1), (columns - 17, columns, 1))
    c = cases.case("k", g, [t(g, x)], inputs={}, kit=kit)
    assert tiles(c.code) == 1 and "for (int64_t point" in c.code.source
    values = np.arange(20 * columns, dtype=np.float32).reshape(20, columns)
    memory, out = Memory(values.nbytes, "the end of an array"), Memory(4 * 20 * 17, "result")
    memory.write(values)
    try:
        cases.launch(cases.module([c.code], kit=kit), c.code,
                     [memory.address - 4 * (rows - 20) * columns, out.address], {}, 0)
        np.testing.assert_array_equal(out.bytes.view(np.float32).reshape(17, 20), values[:, -17:].T)
    finally:
        memory.free()
        out.free()


def test_rows_and_tiles_of_one_kernel_share_the_memory_of_its_block():
    """Whatever kernels hold, it is no more than there is."""
    g = Draw()
    x = g.x(80, 20_000)
    out = [g.softmax(x, 1), g.op("Contiguous", t(g, x))]
    for kit in (cases.CUDA, cases.METAL):
        code = cases.case("k", g, out, inputs={}, kit=kit).code
        kept = sum(int(n) for n in re.findall(r"SHARED float \w+\[(\d+)\]", code.source)) * 4
        assert kept <= 32 << 10 and all(s.launch.shared <= 47 << 10 for s in code.stages)


def test_planted_bugs_are_found():
    """Each barrier that is left out, lines that are as long as others, and tiles that overlap."""
    g = Draw()
    c = cases.case("k", g, [g.named("Add", t(g, g.x(200, 150)), g.x(150, 200))])
    want = evaluate(c.outputs, c.inputs, {})
    wrong = {"pitch": (r"\* 33 \+", "* 32 +"), "tile": (r"\) \* 32;", ") * 31;"),
             "unturned": (r"\(i(\d) - i\1_tile\) \* 33 \+ i(\d) - i\2_tile\]",
                          r"(i\2 - i\2_tile) * 33 + i\1 - i\1_tile]")}
    bugs = [b for b in planted.planted(c.code) if b.kind in planted.ORDER]
    assert len(bugs) == 2
    for kind, (pattern, text) in wrong.items():
        m = re.search(pattern, c.code.source)
        assert m, kind
        start, end = m.span()
        source = c.code.source[:start] + m.expand(text) + c.code.source[end:]
        bugs.append(planted.Planted(kind, m[0], replace(c.code, source=source)))
    for b in bugs:
        unit = cases.module([b.code], extra="// a bug")
        assert any(_tells(unit, replace(c, code=b.code), want, order) for order in ORDERS), b


def _tells(unit, c, want, order) -> bool:
    try:
        got = cases.run(unit, c, order)
    except SimulatorError:
        return True
    return not all(np.array_equal(a, b) for a, b in zip(got, want))
