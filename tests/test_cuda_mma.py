"""Products on tensor cores on the simulator: every kind, tile and way that operands come."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import tegg
from contractions import CASES, SYMBOLIC, matmul, product
from tegg.testing.kernels import random_inputs
from simt import cases, fake_driver
from simt.assembled import assembled
from simt.simulator import Module, SimulatorError
from test_cuda_contraction import SIZES
from test_cuda_kernels import agree
from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.mma import lower_mma
from tegg.backends.cuda.mma_forms import _HALF, _LARGE, _WHOLE, MmaTile, mma_tiles
from tegg.backends.cuda.target import Cuda

from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.ir.oracle import evaluate
from tegg.nn import Parameter
from tegg.testing.draw import Draw

SMALL = {"f16": MmaTile("f16", 32, 64, 32, 4), "bf16": MmaTile("bf16", 32, 64, 32, 3, 2),
         "tf32": MmaTile("tf32", 32, 64, 16, 3)}


def lowered(name: str, g: Draw, outputs, anchors, tile) -> cases.Case:
    code = lower_mma(g, outputs, anchors, name, CudaC(), tile)
    return cases.Case(g, outputs, {}, random_inputs(g, {}) if not code.symbols else {}, code)


def wide(g: Draw, d: str, *shape: int):
    """A tensor that rests in 16 bits, and is float32 in a kernel; of TF32 one of float32."""
    return g.x(*shape) if d == "tf32" else g.op("Cast", g.x(*shape, dtype=d), f32)


KINDS = {"bf16": _HALF, "tf32": _WHOLE}
FORMS = {
    "rows": lambda g, d: matmul(g, wide(g, d, 40, 64), wide(g, d, 64, 72)),
    "columns": lambda g, d: product(g, wide(g, d, 64, 40), wide(g, d, 72, 64), "k,a;b,k;a,b", 40, 72),
    "uneven": lambda g, d: matmul(g, wide(g, d, 37, 51), wide(g, d, 51, 70)),
    "batch": lambda g, d: product(g, wide(g, d, 3, 17, 40), wide(g, d, 3, 40, 24),
                                  "c,a,k;c,k,b;c,a,b", 3, 17, 24),
    "before": lambda g, d: matmul(g, g.op("Sin", wide(g, d, 33, 48)), wide(g, d, 48, 40)),
    "after": lambda g, d: g.op("Sin", g.add(matmul(g, wide(g, d, 20, 32), wide(g, d, 32, 24)),
                                            g.expand(g.x(1, 24), (20, 24)))),
}


ARCHITECTURES = {"f16": (75, 80, 90), "bf16": (80, 90), "tf32": (80, 90)}


@pytest.mark.parametrize("kind", SMALL)
def test_forms(kind):
    """Where operands rest as they are multiplied they are copied; anything else is computed."""
    found = []
    for name, build in FORMS.items():
        g = Draw()
        out = build(g, kind)
        anchor = next(n for n in g.reachable([out]) if n.op.name == "Contract")
        found.append(lowered(f"k_{name}", g, [out], [anchor], SMALL[kind]))
    unit = cases.module([c.code for c in found])
    for number, (name, c) in enumerate(zip(FORMS, found)):
        agree(unit, c, number % 3, 4 if name != "before" and kind != "tf32" else 4000)
    copied = {name for name, c in zip(FORMS, found) if "copy_start" in c.code.source}
    assert copied == set(FORMS) - {"uneven"}
    for architecture in ARCHITECTURES[kind]:
        if (made := assembled([c.code for c in found], architecture)) is not None:
            wanted = {"HMMA"} | ({"LDSM"} if kind != "tf32" else set())
            assert made[0] == wanted | ({"LDGSTS"} if architecture >= 80 else set())


FLOATS = sorted(n for n in CASES if n not in ("integers", "halves"))


@pytest.mark.parametrize("kind", ("bf16", "tf32"))
def test_fragments(kind):
    """What is evaluated before and after products, gathered, padded, batched, beside: all cases."""
    found = []
    for name in FLOATS[::2] if kind == "tf32" else FLOATS[1::2]:
        g = Draw()
        outputs, anchors = CASES[name](g)
        if all(a.op.name == "Contract" and a.args[0].dtype is f32 for a in anchors):
            found.append(lowered(f"k_{name}", g, outputs, anchors, SMALL[kind]))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        if c.code.work.iterations < 2e6:
            agree(unit, c, number % 3, 8000)
    assert len(found) > 15


@pytest.mark.parametrize("rows, band", [(150, 64), (150, 96), (64, 64), (20, 64)])
def test_tiles_go_down_bands(monkeypatch, rows, band):
    """Of two tiles, of three, the last of fewer; of one that is all rows, and more than those."""
    monkeypatch.setattr("tegg.backends.cuda.mma._BAND", band)
    g = Draw()
    out = product(g, wide(g, "f16", 2, rows, 40), wide(g, "f16", 2, 40, 136),
                  "c,a,k;c,k,b;c,a,b", 2, rows, 136)
    c = lowered("k", g, [out], [out], MmaTile("f16", 32, 64, 32, 4))
    agree(cases.module([c.code]), c, 0, 4)


def test_symbolic_sizes():
    found = []
    for name in sorted(SYMBOLIC):
        g = Draw()
        outputs, anchors = SYMBOLIC[name](g)
        found.append(lowered(f"k_{name}", g, outputs, anchors, SMALL["bf16"]))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        for sizes in SIZES:
            c.sizes, c.inputs = sizes, random_inputs(c.graph, sizes)
            agree(unit, c, number % 3, 8000)


class Cheap(Cuda):
    """A device on which tensor cores are worth it for small products too."""

    def costs(self):
        found = super().costs()
        return replace(found, templates={**found.templates, "CudaMma": 0.01})


def compiled_text(dtype: str, *compilers) -> str:
    """The source of a product, over the stand-in for a GPU of compute capability 9.0."""
    x, w = (np.random.default_rng(0).standard_normal(s).astype(dtype) for s in ((48, 64), (64, 96)))
    with fake_driver.installed():
        f = tegg.compile(lambda x, w: tegg.exp2(x) @ (w * 2), tegg.Generic(), *compilers,
                         tegg.Compiler(name="t", target=Cheap(90)), cache=False)
        out = f(x, w)
        want = np.exp2(x.astype(np.float64)) @ (2 * w.astype(np.float64))
        assert np.max(np.abs(out - want)) < 2e-2 * np.max(np.abs(want))
        return f.program(x, w).source()


@pytest.mark.parametrize("compilers, letter", [((), ""), ((tegg.Bf16(),), "g"), ((tegg.Tf32(),), "t"),
                                               ((tegg.Fp16(),), "")])
def test_float32_is_rounded_only_where_a_compiler_says_so(compilers, letter):
    """2 w has no bound, so float16 is no choice either."""
    source = compiled_text("float32", *compilers)
    body = source[source.index("KERNEL(256"):]
    assert {n for n in "hgt" if f"mma_{n}(" in body} == set(letter)


def test_float16_multiplies_what_is_in_its_range():
    """Arguments may hold anything; a sine, and a weight that was checked, are in range."""
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32) for s in ((32, 64), (64, 96)))
    held = Parameter(w)
    with fake_driver.installed():
        for f, args, core in ((lambda x, w: x @ w, (x, w), False),
                              (lambda x: x.sin() @ held, (x,), True)):
            run = tegg.compile(f, tegg.Generic(), tegg.Fp16(), device="cuda", cache=False)
            want = (np.sin(x) if core else x) @ w
            np.testing.assert_allclose(run(*args), want, atol=2e-2)
            source = run.program(*args).source()
            assert ("mma_h(" in source[source.index("KERNEL(256"):]) == core


def test_halves_are_multiplied_as_they_are():
    body = compiled_text("float16")
    assert "mma_h(" in body[body.index("KERNEL(256"):]


def several_tiles() -> cases.Case:
    g = Draw()
    out = matmul(g, wide(g, "f16", 72, 152), wide(g, "f16", 152, 72))
    return lowered("k", g, [out], [out], SMALL["f16"])


MUTANTS = {
    "copies are not waited for": (r"copies_wait\(2\);", "copies_wait(3);"),
    "no barrier before the products": (r"(copies_wait\(2\);\s*)__syncthreads\(\);", r"\1"),
    "no barrier after a tile": (r"(copies_wait\(0\);\s*)__syncthreads\(\);", r"\1"),
    "a copy is never committed": (r"copies_commit\(\);(\s*const)", r"\1"),
    "the wrong stage": (r"ahead = step \+ 3", "ahead = step + 2"),
    "the wrong lane": (r"lane_id\(\) / 16 \* 8", "lane_id() / 8 * 8"),
    "the wrong row of a result": (r"% 2 \* 8 \+ lane_id\(\) / 4;", "% 2 * 8 + lane_id() % 8;"),
    "the wrong columns of a result": (r"lane_id\(\) % 2 \* 8 \+ c", "lane_id() / 2 % 2 * 8 + c"),
    "two columns exchanged": (r"\+ 2 \* \(j % 2\)", "+ 2 * (1 - j % 2)"),
    "swizzled on one side": (r"\^ \(\(line\) / 2 % 4\)", "^ ((line) % 4)"),
    "past the depth": (r"at_k < 152", "at_k < 160"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_seeded_bugs_are_found(name):
    c, (right, wrong) = several_tiles(), MUTANTS[name]
    body, count = re.subn(right, wrong, c.code.source)
    assert count >= 1, c.code.source
    unit = Module(f"{cases.prelude()}\n{body}")
    want = evaluate(c.outputs, c.inputs, {})[0]
    try:
        assert not np.allclose(cases.run(unit, c)[0], want, rtol=1e-4, atol=1e-4)
    except SimulatorError:
        pass


def test_what_has_no_room_is_refused():
    g = Draw()
    x = g.x(20, 32)
    terms = [matmul(g, x, g.x(32, 24)) for _ in range(3)]
    total = g.add(g.add(terms[0], terms[1]), terms[2])
    with pytest.raises(LoweringError, match="3 products of one result take more than 128 registers"):
        lowered("k", g, [total], terms, MmaTile("bf16", 128, 128, 32, 3))


@pytest.mark.parametrize("tile", _LARGE)
def test_tiles_of_more_shared_memory_than_comes_by_itself(tile):
    """The launch asks for it; a byte less, and the simulator sees accesses beyond its end."""
    g = Draw()
    out = g.op("Tanh", matmul(g, wide(g, "bf16", 136, 160), wide(g, "bf16", 160, 280)))
    anchor = next(n for n in g.reachable([out]) if n.op.name == "Contract")
    c = lowered("k", g, [out], [anchor], MmaTile("bf16", *tile))
    (stage,) = c.code.stages
    rows, columns, depth, stages = tile
    assert stage.launch.shared == 2 * depth * stages * (rows + columns) > 48 << 10
    unit = cases.module([c.code])
    agree(unit, c, 2, 8000)
    less = replace(stage, launch=replace(stage.launch, shared=stage.launch.shared - 16))
    c.code = replace(c.code, stages=(less,))
    with pytest.raises(SimulatorError, match="shared memory|belongs to nobody|out of bounds|outside"):
        cases.run(cases.module([c.code], "// less\n"), c)


def test_large_tiles_are_offered_where_there_is_work_for_them():
    large = [(*t, 1) for t in _LARGE]
    assert mma_tiles((4096, 4096), (4096, 4096), "a,k;k,b;a,b", "f16", 90)[:2] == large
    for m, kind, architecture in ((4096, "f16", 75), (4096, "tf32", 90), (256, "f16", 90)):
        found = mma_tiles((m, m), (m, m), "a,k;k,b;a,b", kind, architecture)
        assert not set(large) & set(found)


LARGE = [(k, t) for k, tiles in KINDS.items() for t in tiles[:2]] + [("f16", t) for t in _LARGE]


@pytest.mark.parametrize("kind, tile", LARGE)
def test_large_tiles_spill_nothing(kind, tile):
    g = Draw()
    x, w = wide(g, kind, 512, 512), wide(g, kind, 512, 512)
    out = g.op("Tanh", g.add(matmul(g, x, w), g.expand(g.x(1, 512), (512, 512))))
    anchor = next(n for n in g.reachable([out]) if n.op.name == "Contract")
    c = lowered("k", g, [out], [anchor], MmaTile(kind, *tile))
    assert (assembled([c.code], 80) or ({"HMMA"}, 0))[1] == 0
