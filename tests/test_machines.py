"""Kernels under AddressSanitizer and UBSan, on NEON under qemu, and on narrower x86."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from contractions import BYTES, CASES as PRODUCTS, FORMS, NARROW, SYMBOLIC, by_itself
from hypothesis import HealthCheck, given, settings
from profiles import examples
from standalone import FLAGS, Fragment, Standalone

from test_attention import heads
from test_contraction_narrow import bytes_product, extreme, whole
from test_direct import CASES as CONVOLUTIONS, convolution, tiled
from test_direct_places import CASES as PLACED, turned
from test_kernel_cases import CASES as KERNELS
from test_kernel_jam import CASES as JAMMED
from test_kernel_segments import CASES as SEGMENTS
from test_kernel_strips import CASES as STRIPS
from test_kernel_tile import BACKWARDS
from test_kernel_weave import CASES as WOVEN
from test_kernel_widths import HALVED, SMALL, kernel
from test_winograd import SIZES as TRANSFORMED, SLACK, convolution as same_size
from attentions import causal

from tegg.backends.cpu.attention import lower_attention
from tegg.backends.cpu.attention_forms import Blocks
from tegg.backends.cpu.contraction import lower_contraction
from tegg.backends.cpu.direct import lower_direct
from tegg.backends.cpu.direct_templates import direct_tiles
from tegg.backends.cpu.emit import BYTES as LANES_OF_BYTES, C
from tegg.backends.cpu.library import prelude
from tegg.backends.cpu.winograd import lower_winograd
from tegg.backends.cpu.winograd_forms import Tiles
from tegg.dim import dim
from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.kernel.contraction_held import HELD, Held
from tegg.kernel.contraction_shape import Tile
from tegg.kernel.registers import register_tiles
from tegg.kernel.lower import lower
from tegg.testing.draw import Draw
from tegg.testing.views import views

SANITISED = ("-O1", "-march=native", "-fsanitize=address,undefined",
             "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
ARM = ("aarch64-linux-gnu-gcc", "-O2", "-static")
QEMU = ("qemu-aarch64", "qemu-aarch64-static")
LARGEST = 60_000  # elements of a value: emulation is slow
CUT = {"strips": STRIPS, "segments": SEGMENTS, "woven": WOVEN, "backwards": BACKWARDS,
       "jammed": JAMMED}


def _runs(*command: str) -> bool:
    """Whether a compiler makes a program that runs."""
    with tempfile.TemporaryDirectory() as folder:
        text, program = Path(folder) / "t.c", Path(folder) / "t"
        text.write_text("int main(void) { return 0; }\n")
        done = subprocess.run([*command, str(text), "-o", str(program)], capture_output=True,
                              check=False)
        return done.returncode == 0 and (command[0].startswith("aarch64") or subprocess.run(
            [str(program)], capture_output=True, check=False).returncode == 0)


@cache
def sanitised() -> tuple[str, ...]:
    if shutil.which("gcc") is None or not _runs("gcc", *SANITISED):
        pytest.skip("gcc with AddressSanitizer and UBSan is not here (Debian: libasan8, libubsan1, "
                    "which gcc brings)")
    return ("gcc", *SANITISED)


@cache
def arm() -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = next((q for q in QEMU if shutil.which(q)), None)
    if shutil.which(ARM[0]) is None or found is None or not _runs(*ARM):
        pytest.skip("a compiler for ARM and qemu-user are not here (Debian: apt install "
                    "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)")
    return ARM, (found,)


# ---- kernels
def loops(names, width: int, cases=KERNELS) -> list[Fragment]:
    out = []
    for i, name in enumerate(names):
        g = Draw()
        outputs = cases[name](g)
        out.append(Fragment(g, outputs, lower(g, outputs, f"k{i}", C(width))))
    return out


def other_lanes(cases, width: int) -> list[Fragment]:
    return [Fragment(*kernel(*cases[name], width=width, name=f"k{i}"))
            for i, name in enumerate(cases)]


def products(names, forms: dict[str, Tile], width: int) -> list[Fragment]:
    out = []
    for name in names:
        for tile in forms.values():
            g = Draw()
            outputs, anchors = {**PRODUCTS, **SYMBOLIC}[name](g)
            try:
                code = lower_contraction(g, outputs, anchors, f"k{len(out)}", C(width), tile)
            except LoweringError:
                continue
            out.append(Fragment(g, outputs, code))
    return out


def byte_products(width: int) -> list[Fragment]:
    out = []
    for tile in BYTES.values():
        for sizes in ((33, 65, 17), (1, 1, 1), (5, 0, 4)):
            g = Draw()
            c = bytes_product(g, *sizes)
            out.append(Fragment(g, [c], lower_contraction(g, [c], [c], f"k{len(out)}", C(width),
                                                          tile)))
    return out


def convolutions(width: int, held: Held | None = None) -> list[Fragment]:
    out = []
    for n, c, o, size, taps, stride, dilation, pad, rows, vectors in CONVOLUTIONS:
        g = Draw()
        y = convolution(g, n, c, o, size, taps, stride, dilation, pad)
        how = replace(tiled(y, taps, stride, dilation, width, rows, vectors), held=held)
        out.append(Fragment(g, [y], lower_direct(g, [y], [y], f"k{len(out)}", C(width), how)))
    return out


def few_filters(width: int) -> list[Fragment]:
    """Convolutions with vectors of places."""
    out = []
    for n, c, o, size, taps, stride, dilation, pad, rows, vectors in PLACED:
        g = Draw()
        y = convolution(g, n, c, o, size, taps, stride, dilation, pad)
        how = turned(y, taps, stride, dilation, width, rows, min(vectors, y.shape[-1] // width))
        language = C(width, neon=width == 4)
        out.append(Fragment(g, [y], lower_direct(g, [y], [y], f"k{len(out)}", language, how)))
    return out


def transformed(width: int) -> list[Fragment]:
    """Convolutions in transformed tiles."""
    out = []
    for sizes in TRANSFORMED:
        g = Draw()
        y = same_size(g, *sizes)
        how = Tiles(5, 2, width, *y.shape[-2:])
        out.append(Fragment(g, [y], lower_winograd(g, [y], [y], f"k{len(out)}", C(width), how)))
    return out


ATTENTIONS = ((0, 24, 256, causal), (1, 5, 300, lambda g, x: x),
              (1, 13, 70, lambda g, x: causal(g, x, 9)),
              (0, 9, 33, lambda g, x: g.add(x, g.expand(g.x(9, 33), x.shape))))
BLOCKS = {"rows": (Blocks("rows", 4, 64), Blocks("rows", 3, 512)),
          "plain": (Blocks("plain", 12, 64), Blocks("plain", 5, 32)),
          "pairs": (Blocks("pairs", 12, 64), Blocks("pairs", 5, 32)),
          "tiles": (Blocks("tiles", 32, 64), Blocks("tiles", 16, 32))}


def attentions(width: int, kind: str = "plain") -> list[Fragment]:
    out = []
    for which, rows, keys, between in ATTENTIONS:
        d, blocks = heads(rows, keys, between), BLOCKS[kind][which]
        language = C(width, neon=width == 4)
        code = lower_attention(d.g, d.outputs, d.anchors, f"k{len(out)}", language, blocks)
        out.append(Fragment(d.g, d.outputs, code))
    return out


def check_narrow_attentions(kind: str, width: int, compiler, runner=()) -> None:
    """Of whole numbers, with equal scores: weights are powers of e^0, which bfloat16 holds."""
    made = Standalone(attentions(width, kind), width, compiler, runner)
    for i, f in enumerate(made.fragments):
        inputs = whole(f.graph, {})
        inputs = {n: x if n == 2 else np.zeros_like(x) for n, x in inputs.items()}
        for threads in (1, 3):
            made.check(i, threads=threads, off=8 if runner == () else 0, inputs=inputs, slack=4.0)


def sorts(width: int) -> list[Fragment]:
    """Whole rows and the first of each, side by side in memory and apart; long ones by wide digits."""
    out = []
    for dtype, shape, axis, kept in (
            ("f32", (5, 300), 1, 300), ("f32", (3, 700, 7), 1, 5), ("f64", (4, 90), 1, 90),
            ("f16", (2, 65, 3), 1, 65), ("bf16", (2000,), 0, 9), ("i64", (7, 41), 1, 41),
            ("i32", (9000,), 0, 9000), ("f32", (40_001, 2), 0, 20_000), ("u8", (3, 500), 1, 2), ("i8", (1, 1), 1, 1),
            ("bool", (50, 2), 0, 50)):
        for descending in (0, 1):
            for name in ("ArgSort", "Sort"):
                g = Draw()
                y = g.op(name, g.x(*shape, dtype=dtype), axis, (kept,), descending)
                out.append(Fragment(g, [y], lower(g, [y], f"k{len(out)}", C(width))))
    return out


SYMMETRIC = (  # batch, rows, depth, whether rows are summed, parts
    (1, 77, 50, False, 1), (2, 70, 130, True, 1), (1, 40, 1100, False, 1), (1, 33, 90, True, 3),
    (3, 1, 5, False, 1))


def symmetric(width: int) -> list[Fragment]:
    """Matrices by themselves turned."""
    out = []
    for batch, m, k, along, parts in SYMMETRIC:
        g = Draw()
        x = g.x(batch, k, m) if along else g.x(batch, m, k)
        c = by_itself(g, x, along)
        y = g.add(c, g.x(batch, m, m))
        tile = Tile("packed", 5, 2, parts, symmetric=True)
        out.append(Fragment(g, [y], lower_contraction(g, [y], [c], f"k{len(out)}", C(width), tile)))
    return out


OTHERS = {"symmetric": (symmetric, 1.0), "few filters": (few_filters, 1.0), "transformed": (transformed, SLACK),
          "attentions": (attentions, 4.0),
          "attentions of few": (partial(attentions, kind="rows"), 4.0),
          "sorts": (sorts, 1.0)}


def check_others(kind: str, width: int, compiler, runner=()) -> None:
    make, slack = OTHERS[kind]
    made = Standalone(make(width), width, compiler, runner)
    for i in range(len(made.fragments)):
        for threads in (1, 3):
            made.check(i, threads=threads, off=8 if runner == () else 0, slack=slack)


def check_all(made: Standalone, threads=(1, 3), off: int = 0) -> None:
    """Every kernel against the oracle; on any number of threads the same bits."""
    for i, f in enumerate(made.fragments):
        runs = ([dict(m=m, b=b, s=s) for m, b, s in ((0, 1, 0), (7, 3, 1), (9, 1, 17))]
                if f.code.symbols else [{}])
        for sizes in runs:
            inputs = whole(f.graph, sizes)
            first, *others = (made.check(i, sizes, nt, off, inputs) for nt in threads)
            for other in others:
                assert all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
                           for a, b in zip(first, other))


COMPARED = ("plain", "transposed_b", "transposed_a", "sliced", "padded", "convolution",
            "projections", "heads", "stored_thrice", "no_depth", "symbolic_reshaped",
            "symbolic_depth")
ALL_FORMS = {**FORMS, **NARROW}


@pytest.mark.long
@pytest.mark.parametrize("off", (0, 8))
@pytest.mark.parametrize("name", COMPARED)
def test_products_touch_only_their_memory(name: str, off: int) -> None:
    """A third of the forms each: what sanitizers add takes compilers long."""
    forms = dict(list(ALL_FORMS.items())[(COMPARED.index(name) + off // 8) % 3::3])
    check_all(Standalone(products([name], forms, 16), 16, sanitised()), off=off)


@pytest.mark.long
@pytest.mark.parametrize("part", range(6))
def test_loops_touch_only_their_memory(part: int) -> None:
    check_all(Standalone(loops(list(KERNELS)[part::6], 16), 16, sanitised()), off=8)


@pytest.mark.long
@pytest.mark.parametrize("width", (16, 8))
@pytest.mark.parametrize("cases", CUT)
def test_what_is_cut_touches_only_its_memory(cases: str, width: int) -> None:
    check_all(Standalone(loops(CUT[cases], width, CUT[cases]), width, sanitised()), off=8)


@pytest.mark.long
@pytest.mark.parametrize("width", (16, 8))
def test_loops_of_half_as_many_lanes_touch_only_their_memory(width: int) -> None:
    check_all(Standalone(other_lanes(HALVED, width), width // 2, sanitised()), off=8)


@pytest.mark.long
def test_loops_of_bytes_touch_only_their_memory() -> None:
    check_all(Standalone(other_lanes(SMALL, 8), LANES_OF_BYTES, sanitised()), off=8)


@pytest.mark.long
@pytest.mark.parametrize("held", (None, HELD["pairs"]), ids=("floats", "pairs"))
@pytest.mark.parametrize("width", (16, 8))
def test_convolutions_touch_only_their_memory(width: int, held: Held | None) -> None:
    check_all(Standalone(convolutions(width, held), width, sanitised()), off=8)


@pytest.mark.long
@pytest.mark.parametrize("width", (16, 8))
@pytest.mark.parametrize("kind", ("pairs", "tiles"))
def test_narrow_attentions_touch_only_their_memory(kind: str, width: int) -> None:
    check_narrow_attentions(kind, width, sanitised())


@pytest.mark.long
def test_bytes_touch_only_their_memory() -> None:
    made = Standalone(byte_products(16), 16, sanitised())
    for i, f in enumerate(made.fragments):
        made.check(i, inputs=extreme(f.graph), threads=2)


@pytest.mark.long
@pytest.mark.parametrize("kind", OTHERS)
def test_other_templates_touch_only_their_memory(kind: str) -> None:
    check_others(kind, 16, sanitised())


@pytest.mark.long
@settings(max_examples=examples(1), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=views(symbolic=True))
def test_views_touch_only_their_memory(case) -> None:
    sanitised()
    try:
        code = lower(case.graph, case.outputs, "k0", C(16))
    except LoweringError:
        return
    if code.work.evaluations > 1e7:
        return
    made = Standalone([Fragment(case.graph, case.outputs, code)], 16, sanitised())
    for i, sizes in enumerate(case.runs):
        if all(n <= LARGEST for n in case.counts(sizes)):
            made.run(0, case.inputs(sizes, i), sizes, 2, 8)


def test_a_byte_too_far_is_seen() -> None:
    g = Draw()
    outputs = KERNELS["elementwise"](g)
    code = lower(g, outputs, "k0", C(16))
    broken = code.source.replace("37", "38")
    assert broken != code.source
    made = Standalone([Fragment(g, outputs, _with(code, broken))], 16, sanitised())
    with pytest.raises(AssertionError, match="AddressSanitizer: heap-buffer-overflow"):
        made.check(0)


def _with(code, source: str):
    return replace(code, source=source)


# ---- other processors
@pytest.mark.long
@pytest.mark.parametrize("name", COMPARED)
def test_products_on_neon(name: str) -> None:
    compiler, runner = arm()
    check_all(Standalone(products([name], ALL_FORMS, 4), 4, compiler, runner))


@pytest.mark.long
@pytest.mark.parametrize("part", range(3))
def test_loops_on_neon(part: int) -> None:
    compiler, runner = arm()
    check_all(Standalone(loops(list(KERNELS)[part::3], 4), 4, compiler, runner), threads=(2,))


@pytest.mark.long
def test_loops_of_bytes_on_neon() -> None:
    compiler, runner = arm()
    check_all(Standalone(other_lanes(SMALL, 4), LANES_OF_BYTES, compiler, runner), threads=(2,))


@pytest.mark.long
@pytest.mark.parametrize("cases", CUT)
def test_what_is_cut_on_neon(cases: str) -> None:
    compiler, runner = arm()
    check_all(Standalone(loops(CUT[cases], 4, CUT[cases]), 4, compiler, runner), threads=(2,))


@pytest.mark.long
@pytest.mark.parametrize("held", (None, HELD["pairs"]), ids=("floats", "pairs"))
def test_convolutions_on_neon(held: Held | None) -> None:
    compiler, runner = arm()
    check_all(Standalone(convolutions(4, held), 4, compiler, runner))


@pytest.mark.long
@pytest.mark.parametrize("kind", ("pairs", "tiles"))
def test_narrow_attentions_on_neon(kind: str) -> None:
    check_narrow_attentions(kind, 4, *arm())


@pytest.mark.long
def test_bytes_on_neon() -> None:
    compiler, runner = arm()
    made = Standalone(byte_products(4), 4, compiler, runner)
    for i, f in enumerate(made.fragments):
        made.check(i, inputs=extreme(f.graph), threads=2)


@pytest.mark.long
@pytest.mark.parametrize("kind", OTHERS)
def test_other_templates_on_neon(kind: str) -> None:
    check_others(kind, 4, *arm())


def _loops_of(assembly: str) -> list[list[str]]:
    """Innermost loops of a program for ARM, each from its label to the branch back."""
    found, begun = [], {}
    lines = [line.split("//")[0].rstrip() for line in assembly.splitlines()]
    for i, line in enumerate(lines):
        if label := re.match(r"(\.L\w+):", line):
            begun = {label[1]: i}
        elif (to := re.match(r"\tb\.?(?:ne|any|gt|lt|hi)\t(\.L\w+)$", line)) and to[1] in begun:
            found.append(lines[begun[to[1]]:i])
    return found


@pytest.mark.long
def test_sums_stay_in_registers_on_neon(tmp_path: Path) -> None:
    """Of the tiles that fill them, with the factors of all their rows."""
    (cc, *_), _ = arm()
    language, sources = C(4, neon=True), []
    registers = language.registers
    for rows, vectors in register_tiles(dim("m"), 512, f32, registers):
        g = Draw()
        c = g.op("Contract", g.x(240, 512), g.x(512, 480), "a,k;k,b;a,b", (240, 480))
        code = lower_contraction(g, [c], [c], "k", language, Tile("packed", rows, vectors))
        sources.append((code.core.source, rows * vectors))
    for rows, vectors in direct_tiles(1000, 64, registers):
        g = Draw()
        c = convolution(g, 1, 64, 64, (9, 90), (3, 3))
        how = replace(tiled(c, (3, 3), width=4, vectors=vectors), rows=rows)
        sources.append((lower_direct(g, [c], [c], "k", language, how).source, rows * vectors))
    for source, sums in sources:
        text = tmp_path / "k.c"
        text.write_text(f"{prelude(4)}\n{source}")
        done = subprocess.run([cc, "-O3", "-mcpu=neoverse-v1", *FLAGS, "-S", "-o", "-", str(text)],
                              check=True, capture_output=True, text=True)
        products = [p for p in _loops_of(done.stdout)
                    if sum("fmla" in line for line in p) >= max(sums, 16)]
        assert products and not [line for p in products for line in p if "[sp" in line], (sums, products)


@pytest.mark.parametrize("lanes, flags", (
    (8, "-march=haswell"), (16, "-march=haswell"), pytest.param(4, "-march=x86-64", marks=pytest.mark.long)))
def test_narrower_x86(lanes: int, flags: str) -> None:
    if not _runs("gcc", flags):
        pytest.skip("this is no x86-64 with AVX2")
    made = loops(("elementwise", "flat", "movement"), lanes)
    made += _renamed(products(("transposed_a", "heads"), {k: ALL_FORMS[k] for k in (
        "packed", "bf16", "tiles")}, lanes), len(made))
    check_all(Standalone(made, lanes, ("gcc", "-O1", flags)))


def _renamed(fragments: list[Fragment], by: int) -> list[Fragment]:
    """The same kernels under names of their own."""
    out = []
    for i, f in enumerate(fragments):
        def new(text: str, i=i) -> str:
            return re.sub(rf"\bk{i}(?![0-9])", f"k{i + by}", text)
        code = replace(f.code, name=new(f.code.name), source=new(f.code.source), stages=tuple(
            replace(s, function=new(s.function)) for s in f.code.stages))
        out.append(Fragment(f.graph, f.outputs, code))
    return out
