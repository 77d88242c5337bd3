"""Attention in one kernel for Metal, on the simulator: masks, heads, layouts, symbolic sizes."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tegg
from attentions import attention, causal, drawn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from profiles import examples
from tegg.testing.kernels import random_inputs
from simt import cases, fake_metal
from simt.cases import METAL
from simt.metal_rules import threadgroup_bytes
from simt.simulator import SimulatorError
from tegg.backends.metal.attention_matrices import AttentionMatrices
from tegg.backends.metal.emit import Msl
from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import Blocks
from tegg.backends.simt.attention_tiles import AttentionTiles
from test_cuda_attention import agree
from test_metal_kernels import unit

from tegg.errors import LoweringError
from tegg.testing.draw import Draw

PLAIN, FEW = Blocks("plain", 32, 32), Blocks("plain", 8, 64)
MATRICES = Blocks("matrix", 64, 32)


def lowered(name, d, blocks=PLAIN) -> cases.Case:
    how = AttentionTiles if blocks.kind == "plain" else AttentionMatrices
    code = lower_attention(d.g, d.outputs, d.anchors, name, Msl(), blocks, how)
    return cases.Case(d.g, d.outputs, {}, {}, code)


@pytest.mark.parametrize("blocks", (PLAIN, FEW, MATRICES), ids=str)
def test_drawn_fragments(blocks):
    @settings(max_examples=examples(1), deadline=None, suppress_health_check=list(HealthCheck),
              phases=[Phase.explicit, Phase.generate])
    @given(st.data())
    def run(data):
        found = []
        for number in range(6):
            symbolic = frozenset(data.draw(st.sampled_from(("", "s", "m", "ms"))))
            d = data.draw(drawn("f32", symbolic))
            try:
                c = lowered(f"k{number}", d, blocks)
            except LoweringError:
                continue
            found.append((d, c))
        module = unit([c for _, c in found])
        for number, (d, c) in enumerate(found):
            c.sizes = {"m": 37, "s": 45, "a": 2} if c.code.symbols else {}
            c.inputs = d.inputs(c.sizes, number)
            agree(module, c, number % 3)

    run()


def heads(g: Draw, n: int, depth: int, columns: int):
    q, k, v = g.x(2, n, depth), g.x(2, n, depth), g.x(2, n, columns)
    return attention(g, q, k, v, lambda scores: causal(g, g.mul(scores, 0.2)))


@pytest.mark.parametrize("blocks", (PLAIN, MATRICES), ids=str)
def test_masks_and_large_heads(blocks):
    """Several blocks of rows and keys; terms and values that pass through memory in slices."""
    found = []
    for number, (n, depth, columns) in enumerate(((150, 32, 32), (40, 128, 96), (40, 20, 130))):
        g = Draw()
        found.append(lowered(f"k{number}", heads(g, n, depth, columns), blocks))
        found[-1].inputs = random_inputs(g, {})
    module = unit(found)
    for c in found:
        for order in (0, 1, 2):
            agree(module, c, order)
    text = f"{cases.prelude(METAL)}\n" + "\n".join(c.code.source for c in found)
    assert max(threadgroup_bytes(text, c.code.name) for c in found) <= 32768


@pytest.mark.parametrize("name, blocks", [
    ("rows of other lanes", PLAIN), ("past the mask", PLAIN), ("no barrier", PLAIN),
    ("no barrier", MATRICES), ("no barrier of a simdgroup", MATRICES),
    ("sums are not moved", MATRICES)])
def test_seeded_bugs_are_found(name, blocks):
    wrong = {"rows of other lanes": (r"across\(top, d\)", "across(top, (2 * d))"),
             "past the mask": (r"at_key < to\[i\]", "at_key <= to[i]"),
             "no barrier": (r"\bthreadgroup_barrier\(mem_flags::mem_threadgroup\);", ""),
             "no barrier of a simdgroup": (r"simdgroup_barrier\(mem_flags::mem_threadgroup\);", ""),
             "sums are not moved": (r"= shrink\[0\]", "= 1")}
    g = Draw()
    c = lowered("k", heads(g, 70, 16, 16), blocks)
    c.inputs = random_inputs(g, {})
    body, count = re.subn(*wrong[name], c.code.source)
    assert count
    with pytest.raises((AssertionError, SimulatorError)):
        agree(METAL.unit(f"{cases.prelude(METAL)}{body}"), c, 0)


def test_what_has_no_room_is_refused():
    g = Draw()
    with pytest.raises(LoweringError, match="bytes of shared memory in blocks of 32 queries; "
                                            "there are 32768"):
        lowered("k", heads(g, 20, 250, 8))
    g = Draw()
    with pytest.raises(LoweringError, match="more than 40 matrices of a simdgroup"):
        lowered("k", heads(g, 20, 192, 136), MATRICES)


def test_rules_and_cost_reach_it():
    """A causal mask, from the front end, planned for a GPU."""
    q, k, v = (np.zeros((1, 8, 512, 64), np.float32) for _ in range(3))

    def f(q, k, v):
        return tegg.scaled_dot_product_attention(q, k, v, is_causal=True)

    with fake_metal.installed():
        program = tegg.compile(f, tegg.Generic(), device="metal", cache=False).program(q, k, v)
        assert "diagonal[" in program.source() and len(program.plan.kernels) == 1
