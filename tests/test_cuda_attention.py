"""Attention in one kernel for CUDA, on the simulator: masks, heads, layouts, symbolic sizes."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tegg
from attentions import attention, causal, drawn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tegg.testing.kernels import check_results, random_inputs
from simt import cases, fake_driver
from simt.assembled import assembled
from simt.simulator import Module, SimulatorError
from tegg.backends.cuda.attention_mma import AttentionCores
from tegg.backends.cuda.emit import CudaC
from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import Blocks
from tegg.backends.simt.attention_tiles import AttentionTiles

from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.testing.draw import Draw

PLAIN, CORES = Blocks("plain", 32, 32), Blocks("f16", 128, 64)
DOUBLE = Blocks("plain", 16, 16)


def lowered(name, d, blocks=PLAIN) -> cases.Case:
    how = AttentionTiles if blocks.kind == "plain" else AttentionCores
    code = lower_attention(d.g, d.outputs, d.anchors, name, CudaC(), blocks, how)
    return cases.Case(d.g, d.outputs, {}, {}, code)


def agree(unit, c, order, slack=30.0):
    check_results(c.outputs, cases.run(unit, c, order), c.inputs, c.sizes, slack, c.code.name)


@pytest.mark.parametrize("blocks", (PLAIN, DOUBLE, CORES), ids=str)
def test_drawn_fragments(blocks):
    @settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck),
              phases=[Phase.explicit, Phase.generate])
    @given(st.data())
    def run(data):
        found = []
        for number in range(6):
            symbolic = frozenset(data.draw(st.sampled_from(("", "s", "m", "ms"))))
            d = data.draw(drawn("f64" if blocks is DOUBLE else "f32", symbolic))
            try:
                c = lowered(f"k{number}", d, blocks)
            except LoweringError:
                continue
            found.append((d, c))
        unit = cases.module([c.code for _, c in found])
        for number, (d, c) in enumerate(found):
            c.sizes = {"m": 37, "s": 45, "a": 2} if c.code.symbols else {}
            c.inputs = d.inputs(c.sizes, number)
            agree(unit, c, number % 3, 3000 if blocks is CORES else 30)

    run()


def halves(g: Draw, kind: str, *shape: int):
    return g.x(*shape) if kind == "f32" else g.op("Cast", g.x(*shape, dtype=kind), f32)


@pytest.mark.parametrize("kind, blocks", [("f32", PLAIN), ("f16", CORES),
                                          ("bf16", Blocks("bf16", 128, 64))])
def test_causal_masks_leave_out_blocks_of_keys(kind, blocks):
    """Several blocks of rows and keys; what rests in 16 bits is copied as it is."""
    g = Draw()
    q, k, v = (halves(g, kind, 2, n, 32) for n in (150, 150, 150))
    d = attention(g, q, k, v, lambda scores: causal(g, g.mul(scores, 0.2)))
    c = lowered("k", d, blocks)
    assert ("copy_start" in c.code.source) == (kind != "f32")
    c.inputs = random_inputs(g, {})
    unit = cases.module([c.code])
    for order in (0, 1, 2):
        agree(unit, c, order, 30 if kind == "f32" else 4000 if kind == "f16" else 30000)
    if (made := assembled([c.code], 90)) is not None:
        assert made == (set() if kind == "f32" else {"HMMA", "LDSM", "LDGSTS"}, 0)


@pytest.mark.parametrize("kind, blocks", [("f32", PLAIN), ("f16", Blocks("f16", 128, 32))])
def test_the_largest_heads_spill_nothing(kind, blocks):
    g = Draw()
    q, k, v = (halves(g, kind, 4, 512, 128) for _ in range(3))
    c = lowered("k", attention(g, q, k, v, lambda s: causal(g, g.mul(s, 0.1))), blocks)
    for architecture in (75, 90):
        assert (assembled([c.code], architecture) or (set(), 0))[1] == 0


@pytest.mark.parametrize("name", ("sums are not moved", "rows of other lanes", "past the mask",
                                  "no wait", "no barrier"))
def test_seeded_bugs_are_found(name):
    wrong = {"sums are not moved": (r"\*= shrink\[e / 2\]", "*= 1"),
             "rows of other lanes": (r"across\(top, d\)", "across(top, 4 * d)"),
             "past the mask": (r"at_key < to\[i\]", "at_key <= to[i]"),
             "no wait": (r"copies_wait\(0\);", ""), "no barrier": (r"__syncthreads\(\);", "")}
    g = Draw()
    q, k, v = (halves(g, "f16", 1, 130, 16) for _ in range(3))
    d = attention(g, q, k, v, lambda scores: causal(g, scores))
    c = lowered("k", d, CORES)
    c.inputs = random_inputs(g, {})
    body, count = re.subn(*wrong[name], c.code.source)
    assert count
    unit = Module(f"{cases.prelude()}{body}")
    with pytest.raises((AssertionError, SimulatorError)):
        agree(unit, c, 0, 4000)


@pytest.mark.parametrize("compilers, words", [((), "queries["), ((tegg.Bf16(),), "mma_g(s[j]")])
def test_rules_and_cost_reach_it(compilers, words):
    """Grouped heads and a causal mask, from the front end, planned for a GPU."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, h, 512, 32), np.float32) for h in (4, 2, 2))

    def f(q, k, v):
        return tegg.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    with fake_driver.installed():
        on_gpu = tegg.compile(f, tegg.Generic(), *compilers, device="cuda", cache=False)
        program = on_gpu.program(q, k, v)
        source = program.source()
    assert words in source[source.index("KERNEL(256)"):] and len(program.plan.kernels) == 1


def test_what_has_no_room_is_refused():
    g = Draw()
    with pytest.raises(LoweringError, match="room for 256 of each"):
        lowered("k", attention(g, g.x(1, 20, 260), g.x(1, 30, 260), g.x(1, 30, 8)))
    g = Draw()
    q = g.x(1, 20, 16)
    d = attention(g, g.softmax(q, 2), g.x(1, 30, 16), g.x(1, 30, 8))
    with pytest.raises(LoweringError, match="a reduction beside an attention"):
        lowered("k", d)
