"""Attention in one kernel for CUDA, on the simulator: masks, heads, layouts, symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from attentions import attention, causal, drawn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernels import random_inputs
from simt import cases
from test_cuda_kernels import compiled
from tegg.backends.cuda.attention import lower_attention
from tegg.backends.cuda.attention_forms import Blocks
from tegg.backends.cuda.emit import CudaC

from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.ir.oracle import evaluate
from tegg.testing.draw import Draw
from tegg.testing.tolerance import close

PLAIN = Blocks("f32", 32, 32)


def lowered(name, d, blocks=PLAIN) -> cases.Case:
    code = lower_attention(d.g, d.outputs, d.anchors, name, CudaC(), blocks)
    return cases.Case(d.g, d.outputs, {}, {}, code)


def agree(unit, c, order, slack=30.0):
    with np.errstate(all="ignore"):
        wanted = evaluate(c.outputs, c.inputs, c.sizes)
    for got, want, node in zip(cases.run(unit, c, order), wanted, c.outputs):
        assert (why := close(got, want, node.dtype, slack)) is None, f"{c.code.name}: {why}"


@pytest.mark.parametrize("blocks", (PLAIN,), ids=str)
def test_drawn_fragments(blocks):
    @settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck),
              phases=[Phase.explicit, Phase.generate])
    @given(st.data())
    def run(data):
        found = []
        for number in range(8):
            symbolic = frozenset(data.draw(st.sampled_from(("", "s", "m", "ms"))))
            d = data.draw(drawn("f32", symbolic))
            try:
                c = lowered(f"k{number}", d, blocks)
            except LoweringError:
                continue
            found.append((d, c))
        unit = cases.module([c.code for _, c in found])
        for number, (d, c) in enumerate(found):
            c.sizes = {"m": 37, "s": 45, "a": 2} if c.code.symbols else {}
            c.inputs = d.inputs(c.sizes, number)
            agree(unit, c, number % 3)

    run()


def test_causal_masks_leave_out_blocks_of_keys():
    g = Draw()
    q, k, v = (g.x(2, 70, 20) for _ in range(3))
    d = attention(g, q, k, v, lambda scores: causal(g, scores))
    c = lowered("k", d)
    assert "block_max_l" in c.code.source
    c.inputs = random_inputs(g, {})
    unit = cases.module([c.code])
    for order in (0, 1, 2):
        agree(unit, c, order)
    compiled([c.code])
