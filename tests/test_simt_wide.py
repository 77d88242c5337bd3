"""What a thread moves at once, and what it keeps: results on the simulator, bytes, machine code."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from profiles import examples
from contractions import matmul
from simt import cases
from test_cuda_kernels import agree
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.mma import lower_mma
from tegg.backends.cuda.mma_forms import MmaTile
from tegg.backends.simt.contraction import lower_contraction
from tegg.backends.simt.templates import Tile
from tegg.backends.cuda.disassembly import Instructions, disassembler, instructions_of
from tegg.testing.draw import Draw

from tegg.dim import dim
from tegg.dim import evaluate as size_of
from tegg.dtype import DTYPES, f32
from tegg.errors import BackendError

N = dim("n", 0, 4096, hint=300)
FEW = {"max_examples": examples(2), "deadline": None, "suppress_health_check": list(HealthCheck),
       "phases": [Phase.explicit, Phase.generate]}
EXTENTS = (1, 2, 3, 4, 6, 8, 12, 15, 16, 17, 24, 33, 40, 64, 76)


@st.composite
def movements(draw):
    """An elementwise fragment or a view of one or two axes, of any dtypes, at any place."""
    g = Draw()
    kind, other = (draw(st.sampled_from(sorted(DTYPES))) for _ in range(2))
    symbolic = draw(st.booleans())
    rows, n = draw(st.integers(1, 5)), draw(st.sampled_from(EXTENTS))
    last = N if symbolic else n
    shape = (rows, last) if draw(st.booleans()) else (last,)
    x = g.x(*shape, dtype=kind)
    match draw(st.sampled_from(("copy", "cast", "bias", "slice", "pad", "two"))):
        case "cast":
            x = g.op("Cast", x, DTYPES[other])
        case "bias" if kind != "bool":
            x = g.named("Add", x, g.x(last, dtype=kind))
        case "slice":
            low = draw(st.integers(0, 0 if symbolic else n - 1))
            x = g.slice(x, *((0, d, 1) for d in shape[:-1]), (low, last, 1))
        case "pad":
            x = g.padded(x, *((0, 1) for _ in shape[:-1]), (draw(st.integers(0, 4)), 0))
        case "two":
            x = g.op("Select", g.x(*shape, dtype="bool"), x, g.x(*shape, dtype=kind))
    x = g.op("Contiguous", x) if x.op.name != "Cast" else x
    sizes = [{"n": draw(st.sampled_from(EXTENTS))} for _ in range(2)] if symbolic else [{}]
    return g, [x], sizes


def simulate(drawn, slack: float = 1.0) -> None:
    """Fragments as one translation unit, at their sizes."""
    made = [(g, o, sizes, cases.case(f"k{i}", g, o, inputs={}).code)
            for i, (g, o, sizes) in enumerate(drawn)]
    unit = cases.module([code for *_, code in made])
    for number, (g, outputs, sizes, code) in enumerate(made):
        for at in sizes:
            inputs = cases.random_inputs(g, at)
            agree(unit, cases.Case(g, outputs, at, inputs, code), number % 3, slack)


@settings(**FEW)
@given(st.lists(movements(), min_size=20, max_size=20))
def test_any_dtype_at_any_place(drawn):
    simulate(drawn)


def normalised(g, x, how):
    last = len(x.shape) - 1
    if x.dtype is not f32:
        x = g.op("Cast", x, f32)
    if how == "softmax":
        return g.softmax(x, last)
    square = g.total(g.mul(x, x), last, keep=True)
    if how == "rms":
        return g.mul(x, g.op("Rsqrt", g.add(g.mul(square, 0.01), 1e-5)))
    d = g.sub(x, g.mul(g.op("SumReduce", x, last), 0.01))
    return g.mul(d, g.op("Rsqrt", g.add(g.total(g.mul(d, d), last, keep=True), 1e-5)))


@st.composite
def rows(draw):
    """Norms of rows: short ones of a thread, those of a warp and of a block, of any length."""
    g = Draw()
    symbolic = draw(st.booleans())
    n = N if symbolic else draw(st.sampled_from((7, 24, 32, 60, 130, 256, 999, 1500)))
    count = draw(st.sampled_from((2, 20)))
    x = normalised(g, g.x(count, n, dtype=draw(st.sampled_from(("f32", "f16", "bf16")))),
                   draw(st.sampled_from(("softmax", "rms", "norm"))))
    if draw(st.booleans()):
        x = g.op("Cast", x, DTYPES[draw(st.sampled_from(("f16", "bf16")))])
    return g, [x], [{"n": k} for k in (8, draw(st.integers(1, 700)))] if symbolic else [{}]


@settings(**FEW)
@given(st.lists(rows(), min_size=6, max_size=6))
def test_rows_of_any_length(drawn):
    simulate(drawn, 8.0)


MOVED_ONCE = {
    "softmax": lambda g: normalised(g, g.x(20, 256), "softmax"),
    "halves": lambda g: g.op("Cast", normalised(g, g.x(20, 256, dtype="f16"), "norm"),
                             DTYPES["f16"]),
    "block": lambda g: normalised(g, g.x(2, 1500), "norm"),
    "short": lambda g: normalised(g, g.x(300, 8), "softmax"),
    "symbolic": lambda g: normalised(g, g.x(3, N), "rms"),
    "added": lambda g: g.add(g.x(5, 77), g.x(5, 77)),
    "narrowed": lambda g: g.op("Cast", g.x(5, 80, dtype="u8"), f32),
}


def test_each_byte_moves_once():
    """Rows that fit into registers are read once, however many passes there are over them: the
    bytes that threads read and write are those that a plan counts on."""
    found, sizes = [], {"n": 301}
    for name, draw in MOVED_ONCE.items():
        g = Draw()
        found.append(cases.case(f"k_{name}", g, [draw(g)], sizes))
    unit = cases.module([c.code for c in found])
    for c in found:
        unit.moved = [0, 0]
        agree(unit, c, 0, 8.0)
        read = sum(size_of(np.prod(s.shape, dtype=object), sizes) * s.dtype.itemsize
                   for s in c.graph.inputs)
        stored = sum(size_of(np.prod(o.shape, dtype=object), sizes) * o.dtype.itemsize
                     for o in c.outputs)
        assert unit.moved == [read, stored], c.code.name
        if not c.code.symbols:
            assert [c.code.work.loaded, c.code.work.stored] == [read, stored], c.code.name


def test_rows_too_long_for_a_block_are_read_again():
    """The first values of each thread stay, the others are read once for each pass."""
    g = Draw()
    c = cases.case("k_long", g, [normalised(g, g.x(1, 40_000), "rms")])
    unit = cases.module([c.code])
    agree(unit, c, 2, 8.0)
    assert 4 * 40_000 < unit.moved[0] < 8 * 40_000 - 4 * 19_000


def test_sums_that_need_another_are_shared_out_too():
    """Of few long rows each part joins the maximum again, and no thread sums a part by itself."""
    g = Draw()
    c = cases.case("k_few", g, [normalised(g, g.x(3, 22_000), "softmax")])
    unit = cases.module([c.code])
    agree(unit, c, 1, 8.0)
    assert [s.launch.nests for s in c.code.stages] == [((24, 1),), ((24, 1),), ((3, 1),)]


# kernel -> bits of the widest loads and stores
WIDEST = {
    "f16": (lambda g: g.exp(g.x(64, 512, dtype="f16")), 128, 128),
    "bf16": (lambda g: g.add(g.x(64, 512, dtype="bf16"), g.x(512, dtype="bf16")), 128, 128),
    "u8": (lambda g: g.op("Contiguous", g.x(64, 512, dtype="u8")), 128, 128),
    "i8": (lambda g: g.add(g.x(64, 512, dtype="i8"), g.x(64, 512, dtype="i8")), 128, 128),
    "bool": (lambda g: g.op("Select", g.x(512, dtype="bool"), g.x(512, dtype="bool"),
                            g.x(512, dtype="bool")), 128, 128),
    "f64": (lambda g: g.add(g.x(64, 512, dtype="f64"), g.x(64, 512, dtype="f64")), 128, 128),
    "i64": (lambda g: g.add(g.x(64, 512, dtype="i64"), g.x(64, 512, dtype="i64")), 128, 128),
    "mixed": (lambda g: g.op("Cast", g.x(64, 512, dtype="u8"), f32), 64, 128),
    "symbolic": (lambda g: g.add(g.x(64, N, dtype="f16"), g.x(N, dtype="f16")), 128, 128),
    "flat": (lambda g: g.exp(g.x(3, N, dtype="f16")), 128, 128),
    "softmax": (lambda g: g.op("Cast", normalised(g, g.x(64, 512, dtype="f16"), "softmax"),
                               DTYPES["f16"]), 128, 128),
    "rows": (lambda g: normalised(g, g.x(64, N), "norm"), 128, 128),
}


def instructions(codes) -> dict[str, Instructions]:
    """Of each function, by NVIDIA's compiler and disassembler."""
    try:
        disassembler()
    except BackendError:
        pytest.skip("nvdisasm is not installed")
    compiler = nvrtc.find()
    if compiler is None:
        pytest.skip("NVRTC is not installed")
    source = "\n".join([cases.prelude(), *(c.source for c in codes)])
    return {i.kernel: i for i in instructions_of(compiler.compile(source, 90)[0])}


@pytest.fixture(scope="module")
def machine_code():
    codes = []
    for name, (draw, *_) in WIDEST.items():
        g = Draw()
        codes.append(cases.case(f"k_{name}", g, [draw(g)], inputs={}).code)
    made = instructions(codes)
    return {name: made[c.stages[0].function] for name, c in zip(WIDEST, codes)}


@pytest.mark.parametrize("name", WIDEST)
def test_machine_code_moves_sixteen_bytes(machine_code, name):
    _, load, store = WIDEST[name]
    found = machine_code[name]
    assert max(found.loads) == load and max(found.stores) == store and not found.spills, found.show()
    if name not in ("symbolic", "flat", "rows"):
        assert set(found.loads) == {load} and set(found.stores) == {store}, found.show()


def products(n):
    """x @ w + residual, in tiles of plain cores, shared out, and of tensor cores."""
    for name, tile in (("tiled", Tile(64, 64, 16)), ("parts", Tile(32, 32, 32, 2)),
                       ("mma", MmaTile("f16", 64, 64, 32, 4)),
                       ("mma_parts", MmaTile("f16", 64, 64, 32, 4, 2))):
        g = Draw()
        half = "mma" in name
        x, w = ((g.op("Cast", g.x(*s, dtype="f16"), f32) if half else g.x(*s))
                for s in ((70, 128), (128, n)))
        anchor = matmul(g, x, w)
        residual = g.op("Cast", g.x(70, n, dtype="f16"), f32)
        out = g.op("Cast", g.add(anchor, residual), DTYPES["f16"])
        lowered = lower_mma if half else lower_contraction
        yield name, g, out, lowered(g, [out], [anchor], f"k_{name}", CudaC(), tile)


@pytest.mark.parametrize("n, width", [(72, 128), (68, 64), (69, 16)])
def test_results_of_tiles_are_stored_together(n, width):
    """As are the arrays that they are added to; odd columns one by one."""
    found = list(products(n))
    unit = cases.module([code for *_, code in found])
    for number, (_, g, out, code) in enumerate(found):
        agree(unit, cases.Case(g, [out], {}, cases.random_inputs(g, {}), code), number % 3, 8000)
    for name, *_, code in found:
        last = instructions([code])[code.stages[-1].function]
        widest = {"tiled": min(width, 64)}.get(name, width)  # a thread has four columns there
        assert max(last.stores) == widest and not last.spills, (name, last.show())
        assert max(last.loads) >= widest


def test_results_of_symbolic_width():
    """Together where all rows begin at a multiple of 16 bytes, which is found out at run time."""
    found = list(products(N))
    unit = cases.module([code for *_, code in found])
    for columns in (12, 13, 48):
        at = {"n": columns}
        for number, (_, g, out, code) in enumerate(found):
            c = cases.Case(g, [out], at, cases.random_inputs(g, at), code)
            agree(unit, c, number % 3, 8000)
    assert all(re.search(r"S_n % \d == 0", code.source) and "wide_store" in code.source
               for *_, code in found)
