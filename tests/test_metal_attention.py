"""Attention in one kernel for Metal, on the simulator: masks, heads, layouts, symbolic sizes."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
import tegg
from attentions import attention, causal
from tegg.testing.kernels import random_inputs
from simt.attention_cases import check_drawn
from simt import cases, fake_metal
from simt.cases import METAL, METAL31
from simt.metal_rules import threadgroup_bytes
from simt.simulator import SimulatorError
from tegg.backends.metal.attention_matrices import AttentionMatrices
from tegg.backends.metal.target import Metal
from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import Blocks
from tegg.backends.simt.attention_tiles import AttentionTiles
from test_cuda_attention import agree
from test_metal_kernels import unit

from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.rewrite.compiler import Compiler
from tegg.testing.draw import Draw

PLAIN, FEW = Blocks("plain", 32, 32), Blocks("plain", 8, 64)
MATRICES, HALVES = Blocks("matrix", 64, 32), Blocks("half", 64, 32)
ROUNDED = 3000  # of what float32 may differ by, where operands are rounded to halves


def kit_of(blocks) -> cases.Kit:
    return METAL31 if blocks is HALVES else METAL


def lowered(name, d, blocks=PLAIN) -> cases.Case:
    how = AttentionTiles if blocks.kind == "plain" else AttentionMatrices
    code = lower_attention(d.g, d.outputs, d.anchors, name, kit_of(blocks).language, blocks, how)
    return cases.Case(d.g, d.outputs, {}, {}, code)


@pytest.mark.parametrize("blocks", (PLAIN, FEW, MATRICES, HALVES), ids=str)
def test_drawn_fragments(blocks):
    slack = ROUNDED if blocks is HALVES else 30
    check_drawn(lowered, partial(unit, kit=kit_of(blocks)), partial(agree, slack=slack), 1, [blocks])


def heads(g: Draw, n: int, depth: int, columns: int):
    q, k, v = g.x(2, n, depth), g.x(2, n, depth), g.x(2, n, columns)
    return attention(g, q, k, v, lambda scores: causal(g, g.mul(scores, 0.2)))


@pytest.mark.parametrize("blocks", (PLAIN, MATRICES, HALVES), ids=str)
def test_masks_and_large_heads(blocks):
    """Several blocks of rows and keys; terms and values that pass through memory in slices."""
    found = []
    for number, (n, depth, columns) in enumerate(((150, 32, 32), (40, 128, 96), (40, 20, 130))):
        g = Draw()
        found.append(lowered(f"k{number}", heads(g, n, depth, columns), blocks))
        found[-1].inputs = random_inputs(g, {})
    module = unit(found, kit=kit_of(blocks))
    for c in found:
        for order in (0, 1, 2):
            agree(module, c, order, ROUNDED if blocks is HALVES else 30)
    text = f"{cases.prelude(METAL)}\n" + "\n".join(c.code.source for c in found)
    assert max(threadgroup_bytes(text, c.code.name) for c in found) <= 32768


@pytest.mark.parametrize("name, blocks", [
    ("rows of other lanes", PLAIN), ("past the mask", PLAIN), ("no barrier", PLAIN),
    ("no barrier", MATRICES), ("no barrier of a simdgroup", MATRICES),
    ("sums are not moved", MATRICES), ("no barrier", HALVES), ("no barrier of a simdgroup", HALVES),
    ("weights of others", HALVES)])
def test_seeded_bugs_are_found(name, blocks):
    wrong = {"rows of other lanes": (r"across\(top, d\)", "across(top, (2 * d))"),
             "past the mask": (r"at_key < to\[i\]", "at_key <= to[i]"),
             "no barrier": (r"\bthreadgroup_barrier\(mem_flags::mem_threadgroup\);", ""),
             "no barrier of a simdgroup": (r"simdgroup_barrier\(mem_flags::mem_threadgroup\);", ""),
             "sums are not moved": (r"= shrink\[0\]", "= 1"),
             "weights of others": (r"rounded\[row \*", "rounded[(row ^ 1) *")}
    g = Draw()
    c = lowered("k", heads(g, 70, 16, 16), blocks)
    c.inputs = random_inputs(g, {})
    body, count = re.subn(*wrong[name], c.code.source)
    assert count
    with pytest.raises((AssertionError, SimulatorError)):
        agree(kit_of(blocks).unit(f"{cases.prelude(METAL)}{body}"), c, 0, 300)


def test_what_has_no_room_is_refused():
    g = Draw()
    with pytest.raises(LoweringError, match="bytes of shared memory in blocks of 32 queries; "
                                            "there are 32768"):
        lowered("k", heads(g, 20, 250, 8))
    g = Draw()
    with pytest.raises(LoweringError, match="take more than 80 registers of a thread"):
        lowered("k", heads(g, 20, 192, 136), MATRICES)
    g = Draw()
    assert "half8x8 q23" in lowered("k", heads(g, 20, 192, 136), HALVES).code.source
    d = heads(Draw(), 20, 16, 16)
    with pytest.raises(LoweringError, match="from MSL 3.1 on; in 2.3, which metalcompute compiles"):
        lower_attention(d.g, d.outputs, d.anchors, "k", METAL.language, HALVES, AttentionMatrices)


def halves(g: Draw, kind: str, n: int):
    return g.op("Cast", g.x(2, n, 32, dtype=kind), f32)


@pytest.mark.parametrize("kind, blocks", [("f16", HALVES), ("f16", MATRICES), ("bf16", MATRICES)])
def test_halves_are_read_as_they_rest(kind, blocks):
    """float16 is multiplied as it is, or as float32; bfloat16 is converted as it is loaded. Nothing
    is rounded but weights, between 0 and 1."""
    g = Draw()
    d = attention(g, *(halves(g, kind, n) for n in (70, 90, 90)), lambda s: causal(g, g.mul(s, 0.2), 20))
    c = lowered("k", d, blocks)
    c.inputs = random_inputs(g, {})
    agree(unit([c], kit=kit_of(blocks)), c, 1, 3000 if blocks is HALVES else 30)
    assert ("device half *" in c.code.source) == (kind == "f16")
    assert ("half8x8" in c.code.source) == (blocks is HALVES)


def test_rules_and_cost_reach_it():
    """A causal mask, from the front end, planned for a GPU."""
    q, k, v = (np.zeros((1, 8, 512, 64), np.float32) for _ in range(3))

    def f(q, k, v):
        return tegg.scaled_dot_product_attention(q, k, v, is_causal=True)

    with fake_metal.installed():
        program = tegg.compile(f, tegg.Generic(), device="metal", cache=False).program(q, k, v)
        assert "diagonal[" in program.source() and len(program.plan.kernels) == 1


class Planned:
    """A target that stops where a GPU would be needed."""

    def __init__(self, through: str, chip: str) -> None:
        self.target, self.plan = Metal(chip, through), None

    def __getattr__(self, name):
        return getattr(self.target, name)

    def build(self, plan):
        self.plan = plan
        raise StopIteration


def blocks_of(f, *shapes, dtype="f32", stack=(), through="metalcompute", chip="M2") -> list[str]:
    """What a plan's kernels say of themselves."""
    target = Planned(through, chip)
    given = [np.zeros(s, tegg.dtype(dtype).numpy) for s in shapes]
    with pytest.raises(StopIteration):
        tegg.trace(f, given).graph.compile(
            (tegg.Generic(), *stack, Compiler(name="metal", target=target)), cache=False)
    plan = target.plan
    return [" ".join(plan.kernels[c.kernel].notes) for c in plan.run]


@pytest.mark.parametrize("chip", ("M1", "M2 Max", "M4"))
@pytest.mark.parametrize("heads, keys, causal", [
    (8, 512, True), (2, 512, True), (2, 128, True), (2, 512, False), (1, 256, True)])
def test_grouped_heads_and_masks_reach_one_kernel_by_price(heads, keys, causal, chip):
    def f(q, k, v):
        return tegg.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    (one,) = blocks_of(f, (1, 8, keys, 64), *((1, heads, keys, 64),) * 2, chip=chip)
    assert "kind='matrix'" in one


@pytest.mark.parametrize("dtype, through, kind", [
    ("f16", "metal", "half"), ("f16", "metalcompute", "matrix"), ("bf16", "metal", "matrix")])
def test_attention_of_halves_is_one_kernel(dtype, through, kind):
    """Of halves where it is known that they are multiplied, else of float32."""
    def f(q, k, v):
        return tegg.scaled_dot_product_attention(q, k, v, is_causal=True)

    (one,) = blocks_of(f, *((1, 8, 512, 64),) * 3, dtype=dtype, through=through)
    assert f"kind='{kind}'" in one


@pytest.mark.parametrize("through, kind", [("metal", "half"), ("metalcompute", "matrix")])
def test_programs_that_may_round_to_halves_reach_it(through, kind):
    def f(x, *weights):
        q, k, v = ((x @ w).tanh().reshape(1, 256, 8, 64).permute(0, 2, 1, 3) for w in weights)
        return tegg.scaled_dot_product_attention(q, k, v, is_causal=True)

    *_, last = blocks_of(f, (256, 512), *((512, 512),) * 3, stack=(tegg.Fp16(),), through=through)
    assert f"Blocks(kind='{kind}'" in last
