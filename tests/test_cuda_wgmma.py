"""Products of four warps at once on the simulator: every tile and way that operands come, races that
it must see, and what NVIDIA's compiler makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tegg
from contractions import CASES, SYMBOLIC, matmul
from tegg.testing.kernels import random_inputs
from simt import cases, fake_driver, planted
from simt.simulator import SimulatorError
from test_cuda_contraction import SIZES
from test_cuda_kernels import agree
from test_cuda_mma import FLOATS, FORMS, wide
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.cubin import cubin
from tegg.backends.cuda.disassembly import disassembler, instructions_of
from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.program import prelude
from tegg.backends.cuda.resources import resources_of
from tegg.backends.cuda.target import Cuda
from tegg.backends.cuda.wgmma import lower_wgmma
from tegg.backends.cuda.wgmma_forms import NAME, _TILES, WgmmaTile, wgmma_tiles

from tegg.cache import Cache
from tegg.dtype import f32
from tegg.errors import BackendError, LoweringError
from tegg.extract.cost import load_costs
from tegg.runtime.driver import Options, plan_graph
from tegg.testing.draw import Draw
from tegg.trace import ArraySpec, trace

SMALL = {"f16": WgmmaTile("f16", 64, 128, 64, 4), "bf16": WgmmaTile("bf16", 128, 128, 64, 3, 2)}


def lowered(name: str, g: Draw, outputs, anchors, tile) -> cases.Case:
    code = lower_wgmma(g, outputs, anchors, name, CudaC(), tile)
    return cases.Case(g, outputs, {}, random_inputs(g, {}) if not code.symbols else {}, code)


def anchor_of(g: Draw, out):
    return next(n for n in g.reachable([out]) if n.op.name == "Contract")


@pytest.mark.parametrize("kind", SMALL)
def test_forms(kind):
    """Operands in rows and in columns, odd sizes, batches, parts of the depth; copied where they rest
    as they are multiplied, computed elsewhere."""
    found = []
    for name, build in FORMS.items():
        g = Draw()
        out = build(g, kind)
        found.append(lowered(f"k_{name}", g, [out], [anchor_of(g, out)], SMALL[kind]))
    unit = cases.module([c.code for c in found])
    for number, (name, c) in enumerate(zip(FORMS, found)):
        agree(unit, c, number % 3, 4 if name != "before" else 4000)
    copied = {name for name, c in zip(FORMS, found) if "copy_start" in c.code.source}
    assert copied == set(FORMS) - {"uneven"}


def test_fragments():
    """What is evaluated before and after products, gathered, padded, batched, beside; symbolic sizes."""
    found = []
    for name in FLOATS[1::6]:
        g = Draw()
        outputs, anchors = CASES[name](g)
        if all(a.op.name == "Contract" and a.args[0].dtype is f32 for a in anchors):
            found.append(lowered(f"k_{name}", g, outputs, anchors, SMALL["bf16"]))
    for name in sorted(SYMBOLIC)[::3]:
        g = Draw()
        outputs, anchors = SYMBOLIC[name](g)
        found.append(lowered(f"k_{name}", g, outputs, anchors, SMALL["f16"]))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        for sizes in SIZES[:2] if c.code.symbols else ({},):
            if c.code.symbols:
                c.sizes, c.inputs = sizes, random_inputs(c.graph, sizes)
            if c.code.work.iterations < 2e6:
                agree(unit, c, number % 3, 8000)
    assert len(found) >= 6


@pytest.mark.parametrize("tile", _TILES)
def test_tiles(tile):
    """The launch asks for shared memory; a byte less, and the simulator sees accesses beyond its end."""
    g = Draw()
    out = g.op("Tanh", matmul(g, wide(g, "bf16", 136, 232), wide(g, "bf16", 232, 280)))
    c = lowered("k", g, [out], [anchor_of(g, out)], WgmmaTile("bf16", *tile))
    (stage,) = c.code.stages
    rows, columns, depth, stages = tile
    assert stage.launch.shared == 2 * depth * stages * (rows + columns) + 1024
    unit = cases.module([c.code])
    agree(unit, c, 2, 8000)
    less = replace(stage, launch=replace(stage.launch, shared=stage.launch.shared - 1040))
    c.code = replace(c.code, stages=(less,))
    with pytest.raises(SimulatorError, match="shared memory|belongs to nobody|out of bounds|outside"):
        cases.run(cases.module([c.code], "// less\n"), c)


def several_tiles() -> cases.Case:
    """A batch, an odd depth and more tiles than blocks, operands along and across the depth."""
    g = Draw()
    out = matmul(g, wide(g, "f16", 136, 328), wide(g, "f16", 328, 272))
    return lowered("k", g, [out], [out], WgmmaTile("f16", 128, 128, 64, 4))


# What is wrong: where, what stands there instead, and what the machine says of it, if it must.
MUTANTS = {
    "copies are not waited for": (r"copies_wait\(2\);", "copies_wait(3);", "has not been waited for"),
    "no barrier before the products": (r"(shown_to_products\(\);\s*)__syncthreads\(\);", r"\1", "race"),
    "no barrier after a tile": (r"(wgmma_wait\(0\);.*\n.*settle.*\n\s*)__syncthreads\(\);", r"\1",
                                "race|no barrier"),
    "no barrier before a stage is filled again": (r"(wgmma_wait\(1\);\s*)__syncthreads\(\);", r"\1",
                                                  "race|products read that"),
    "not shown to products": (r"shown_to_products\(\);", "", "not shown"),
    "shown after the barrier": (r"(shown_to_products\(\);)\s*(__syncthreads\(\);)", r"\2 \1", "not shown"),
    "shown before copies have come": (r"(copies_wait\(2\);)\s*(shown_to_products\(\);)", r"\2 \1",
                                      "not shown"),
    "no fence of sums": (r"wgmma_fence\(\);", "", "no wgmma_fence"),
    "products are never committed": (r"wgmma_commit\(\);", "", "have not been waited for"),
    "sums are not waited for": (r"wgmma_wait\(0\);", "", "sums are touched"),
    "operands are not waited for": (r"wgmma_wait\(1\);", "", "products read that have not been"),
    "a batch too few is waited for": (r"wgmma_wait\(1\);", "wgmma_wait(2);", "products read that"),
    "a stage too early": (r"ahead = step \+ 3", "ahead = step + 2", ""),
    "a stage too late": (r"ahead = step \+ 3", "ahead = step + 4", "products read that"),
    "the wrong lines": (r"32 \* \(328\)", "16 * (328)", ""),
    "lines past the last": (r" && at_k \+ 16 \* c < 328", "", ""),
    "tiles of another band": (r"down - band < 16 \? down - band : 16", "16", ""),
    "the wrong stage is multiplied": (r"step % 4", "(step + 1) % 4", "has not been waited for"),
    "chunks exchanged by other lines": (r"\(chunk\) \^ \(line\) % 8", "(chunk) ^ (line) / 2 % 8", ""),
    "chunks not exchanged": (r"\(chunk\) \^ \(line\) % 8", "(chunk)", ""),
    "half of them exchanged": (r"\(chunk\) % 8 \^ \(line\) % 8", "(chunk) % 8 ^ (line) % 4", ""),
    "eight lines elsewhere": (r"\+ kk, 0, 1024", "+ kk, 0, 2048", ""),
    "the next places elsewhere": (r"8192, 1024", "4096, 1024", ""),
    "the next terms elsewhere": (r"8192, 1024", "8192, 512", ""),
    "columns not turned": (r"<0, 1>", "<0, 0>", ""),
    "rows turned": (r"<0, 1>", "<1, 1>", ""),
    "lines that begin anywhere": (r"whole_lines\(given\)", "given", ""),
    "both groups have the same rows": (r"group_m = group / 1", "group_m = group / 2", "race"),
    "the wrong depth": (r"kk \* 64", "kk * 32", ""),
    "the wrong rows of a warp": (r"/ 32 % 4 \* 16", "/ 32 % 2 * 16", "race"),
    "past the depth": (r"at_k < 328", "at_k < 330", "out of bounds"),
    "not all warps of a group": (r"wgmma_fence\(\);", "if (thread_id() < 224) wgmma_fence();",
                                 ""),
}


def test_seeded_bugs_are_found():
    assert planted.unseen(several_tiles(), MUTANTS, rtol=1e-4, atol=1e-4) == []


# What kernels may not do, in a few lines each, and what the machine says.
START = """KERNEL(128) k(float *const b0) {
  ROOM(given);
  uint8_t *const room = whole_lines(given);
  for (int i = 0; i < 48; i++) ((int *)room)[thread_id() * 48 + i] = 0;
  shown_to_products();
  __syncthreads();
  float sums[32] = {};
  wgmma_fence();
"""
END = """  wgmma_commit();
  wgmma_wait(0);
  b0[thread_id()] = sums[3];
}
"""
CALL = "  wgmma_h_64<0, 0>(sums, matrix_at(room, 0, 1024), matrix_at(room + 8192, 0, 1024));\n"
WRONG = {
    "sums are touched": f"{CALL}  sums[1] += 1;\n",
    "no wgmma_fence": f"{CALL}  wgmma_commit();\n  wgmma_wait(0);\n  sums[1] += 1;\n{CALL}",
    "descriptors differ": CALL.replace("(room,", "(room + thread_id() / 32 * 64,"),
    "groups of 128 are not whole": CALL,
    "nobody has written": CALL.replace("8192", "24576"),
    "beyond the shared memory": CALL.replace("8192, 0, 1024", "8192, 0, 65536"),
    "does not know the descriptor": CALL.replace("matrix_at(room, 0, 1024)", "shared_address(room) >> 4"),
    "divergent group": f"  if (thread_id() / 32) wgmma_commit();\n{CALL}",
}


@pytest.mark.parametrize("says", WRONG)
def test_what_a_kernel_may_not_do(says):
    from simt.simulator import Memory, Module
    unit = Module(f"{cases.prelude()}\n{START}{WRONG[says]}{END}")
    out = Memory(512, "out")
    with pytest.raises(SimulatorError, match=says):
        unit.run("k", 1, 96 if "whole" in says else 128, [out.address], 0, 50 << 10)
    out.free()


NUMBERED = {
    "comes to barrier 3 again": "  group_came(3);\n  group_came(3);\n",
    "there is no barrier 16": "  group_came(16);\n",
    "have come to barrier 2, which nobody waits at": "  if (thread_id() < 64) group_came(2);\n",
    "wait for ever": "  if (thread_id() < 64) group_waits(2);\n",
    "race: two writes": "  room[64] = 1;\n  if (thread_id() < 64) group_came(2);\n  else group_waits(2);\n",
}


@pytest.mark.parametrize("says", NUMBERED)
def test_barriers_of_groups(says):
    """Where half of the threads only say that they have come, the others know what they have done."""
    from simt.simulator import Memory, Module
    text = "KERNEL(128) k(float *const b0) {{\n  ROOM(room);\n{}  b0[thread_id()] = room[{}];\n}}\n"
    right = ("  if (thread_id() < 64) { room[thread_id()] = 1; group_came(2); }\n"
             "  else group_waits(2);\n")
    wrong = "  room[thread_id()] = 1;\n" + NUMBERED[says]
    unit = Module(f"{cases.prelude()}\n{text.format(wrong, 'thread_id()')}")
    out = Memory(512, "out")
    with pytest.raises(SimulatorError, match=says):
        unit.run("k", 1, 128, [out.address], 0, 1 << 10)
    known = Module(f"{cases.prelude()}\n{text.format(right, 'thread_id() % 64')}")
    known.run("k", 1, 128, [out.address], 0, 1 << 10)
    unknown = text.format(right.replace("group_waits(2);", ";"), "thread_id() % 64")
    with pytest.raises(SimulatorError, match="race|nobody waits"):
        Module(f"{cases.prelude()}\n{unknown}").run("k", 1, 128, [out.address], 0, 1 << 10)
    out.free()


def test_addresses_are_those_of_memory_that_the_launch_says():
    from simt.simulator import Memory, Module
    text = """KERNEL(32) k(int *const b0) {
  __shared__ __align__(16) uint8_t room[64];
  b0[thread_id()] = (int)shared_address(room);
}
"""
    unit, out = Module(f"{cases.prelude()}\n{text}"), Memory(128, "out")
    with pytest.raises(SimulatorError, match="only memory that the launch says"):
        unit.run("k", 1, 32, [out.address])
    out.free()


# ---- NVIDIA's compiler
@pytest.mark.parametrize("tile", _TILES)
def test_machine_code(tile):
    """Four instructions of a step, 64 deep, none spilled, none made to wait for one another."""
    compiler = nvrtc.find()
    if compiler is None:
        pytest.skip("NVRTC is not installed")
    g = Draw()
    x, w = wide(g, "bf16", 512, 512), wide(g, "bf16", 512, 512)
    out = g.op("Tanh", g.add(matmul(g, x, w), g.expand(g.x(1, 512), (512, 512))))
    c = lowered("k", g, [out], [anchor_of(g, out)], WgmmaTile("bf16", *tile))
    code, log = compiler.compile(prelude() + c.code.source, 90)
    (used,) = resources_of(log)
    assert "sm_90a" in log and "serialized" not in log
    assert used.spill_stores == used.spill_loads == used.stack_bytes == 0
    assert used.registers <= 255
    try:
        disassembler()
    except BackendError:
        return
    (found,) = instructions_of(code)
    assert found.tensor == 4 and set(found.copies) == {128} and not found.spills


def test_other_architectures_are_refused(tmp_path):
    c = several_tiles()
    text = prelude() + c.code.source
    assert nvrtc.machine_of(text, 90) == "sm_90a"
    assert nvrtc.machine_of(prelude(), 90) == "sm_90"
    for architecture in (80, 100):
        with pytest.raises(BackendError, match="wgmma, which compute capability 9.0 alone has"):
            cubin(text, architecture, Cache(tmp_path, 1 << 20))


def test_what_has_no_room_is_refused():
    g = Draw()
    x = g.x(20, 32)
    terms = [matmul(g, x, g.x(32, 24)) for _ in range(2)]
    total = g.add(terms[0], terms[1])
    with pytest.raises(LoweringError, match="2 products of one result take more than 128 registers"):
        lowered("k", g, [total], terms, WgmmaTile("bf16", 128, 256, 64, 4))


# ---- when they are offered
def graph_of(m: int, n: int, k: int, dtype: str = "f16"):
    d = tegg.dtype(dtype)
    return trace(lambda x, w: x @ w, (ArraySpec((m, k), d), ArraySpec((k, n), d))).graph


class Priced(Cuda):
    """The target with a price for them."""

    rate = 0.01

    def costs(self):
        costs = load_costs("cuda/sm_90")
        return replace(costs, templates={**costs.templates, NAME: self.rate})


def planned(target: Cuda) -> str:
    stack = (tegg.Generic(), tegg.Compiler(name="t", target=target))
    plan = plan_graph(graph_of(1024, 1024, 1024), Options(compilers=stack, cache=False))
    return "\n".join(k.source for k in plan.kernels)


def test_they_are_chosen_by_price_and_only_where_one_is_measured():
    class Dear(Priced):
        rate = 10.0

    class Unknown(Cuda):
        def costs(self):
            costs = load_costs("cuda/sm_90")
            return replace(costs, templates={k: v for k, v in costs.templates.items() if k != NAME})

    assert "wgmma_h_" in planned(Cuda(90)) and "wgmma_h_" in planned(Priced(90))
    assert "wgmma_h_" not in planned(Dear(90)) and "wgmma_h_" not in planned(Unknown(90))
    assert not Unknown(90).offers_wgmma() and Cuda(90).offers_wgmma()
    assert Unknown(90).complete().offers_wgmma()
    assert NAME not in {op.name for a in (80, 100) for op in Cuda(a).complete().ops}


def test_what_many_tiles_multiply_is_made_once():
    """Each tile of results would evaluate it again: what the first product becomes is stored as the
    second takes it."""
    def f(x, a, b):
        return tegg.gelu(x @ a, approximate="tanh") @ b

    shapes = (512, 1024), (1024, 4096), (4096, 1024)
    graph = trace(f, [ArraySpec(shape, tegg.f16) for shape in shapes]).graph
    stack = (tegg.Generic(), tegg.Compiler(name="t", target=Cuda(90)))
    first, second = (k for k in plan_graph(graph, Options(stack, cache=False)).kernels if not k.moves)
    assert "s_sigmoid(" in first.source and "s_sigmoid(" not in second.source


def test_tiles_are_offered_where_a_product_fills_them():
    found = wgmma_tiles((4096, 4096), (4096, 4096), "a,k;k,b;a,b")
    assert [t[:4] for t in found] == list(_TILES)
    assert wgmma_tiles((16, 4096), (4096, 4096), "a,k;k,b;a,b") == [(*_TILES[-1], p) for p in (1, 4)]
    assert {t[4] for t in wgmma_tiles((128, 65536), (65536, 128), "a,k;k,b;a,b")} == {1, 64}


def test_a_program_is_right():
    """Over the stand-in for a GPU of compute capability 9.0, from the graph to the result."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("float16") for s in ((200, 264), (264, 152)))
    with fake_driver.installed():
        f = tegg.compile(lambda x, w: tegg.relu(x @ w), tegg.Generic(),
                         tegg.Compiler(name="t", target=Priced(90)), cache=False)
        got = f(x, w)
        assert "wgmma_h_" in f.program(x, w).source()
    want = np.maximum(x.astype(np.float64) @ w.astype(np.float64), 0)
    np.testing.assert_allclose(got, want, atol=2e-2 * np.max(want))
