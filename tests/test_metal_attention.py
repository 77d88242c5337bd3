"""Attention in one kernel for Metal, on the simulator: masks, heads, layouts, symbolic sizes."""

from __future__ import annotations

import re

import pytest
from attentions import attention, causal, drawn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernels import random_inputs
from simt import cases
from simt.cases import METAL
from simt.metal_rules import threadgroup_bytes
from simt.simulator import SimulatorError
from tegg.backends.metal.emit import Msl
from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import Blocks
from test_cuda_attention import agree
from test_metal_kernels import unit

from tegg.errors import LoweringError
from tegg.testing.draw import Draw

PLAIN, FEW = Blocks("plain", 32, 32), Blocks("plain", 8, 64)


def lowered(name, d, blocks=PLAIN) -> cases.Case:
    code = lower_attention(d.g, d.outputs, d.anchors, name, Msl(), blocks)
    return cases.Case(d.g, d.outputs, {}, {}, code)


@pytest.mark.parametrize("blocks", (PLAIN, FEW), ids=str)
def test_drawn_fragments(blocks):
    @settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck),
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


def test_masks_and_large_heads():
    """Several blocks of rows and keys; terms and values that pass through memory in slices."""
    found = []
    for number, (n, depth, columns) in enumerate(((150, 32, 32), (40, 128, 96), (40, 20, 130))):
        g = Draw()
        found.append(lowered(f"k{number}", heads(g, n, depth, columns)))
        found[-1].inputs = random_inputs(g, {})
    module = unit(found)
    for c in found:
        for order in (0, 1, 2):
            agree(module, c, order)
    text = f"{cases.prelude(METAL)}\n" + "\n".join(c.code.source for c in found)
    assert max(threadgroup_bytes(text, c.code.name) for c in found) <= 32768


@pytest.mark.parametrize("name", ("rows of other lanes", "past the mask", "no barrier"))
def test_seeded_bugs_are_found(name):
    wrong = {"rows of other lanes": (r"across\(top, d\)", "across(top, (2 * d))"),
             "past the mask": (r"at_key < to\[i\]", "at_key <= to[i]"),
             "no barrier": (r"threadgroup_barrier\(mem_flags::mem_threadgroup\);", "")}
    g = Draw()
    c = lowered("k", heads(g, 70, 16, 16))
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
