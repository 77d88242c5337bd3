"""Attention by products of four warps at once, on the simulator: masks, heads, layouts, parts, races
that it must see, and when rules and cost come to it."""

from __future__ import annotations

import heapq
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tegg
from attentions import SYMBOLS, attention, causal, positions
from simt.attention_cases import check_drawn
from simt import cases, fake_driver, machine_code, planted
from simt.simulator import ORDERS, SimulatorError
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.attention_turns import AttentionTurns
from tegg.backends.cuda.attention_wgmma import AttentionGroups
from tegg.backends.cuda.disassembly import disassembler, instructions_of
from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.program import prelude
from tegg.backends.cuda.resources import resources_of
from tegg.backends.cuda.target import Cuda
from tegg.backends.cuda.wgmma_forms import ATTENTION, COLUMNS, TURNS, WgmmaAttention
from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import Blocks
from tegg.dtype import DTYPES
from tegg.errors import BackendError, ExtractionError, LoweringError
from tegg.extract.cost import load_costs
from tegg.planning.plan import Plan
from tegg.runtime.driver import Options, plan_graph
from tegg.testing.draw import Draw
from tegg.testing.kernels import random_inputs
from tegg.trace import ArraySpec, trace
from test_cuda_attention import agree, halves, unit_of

BLOCKS = {kind: Blocks(kind, 128, 64) for kind in ("f16", "bf16")}
WIDE = {kind: replace(blocks, keys=128) for kind, blocks in BLOCKS.items()}
SLACK = {"f16": 4000, "bf16": 30000}
CAUSAL = partial(tegg.scaled_dot_product_attention, is_causal=True)


def lowered(name, d, blocks=BLOCKS["f16"], how=AttentionGroups) -> cases.Case:
    code = lower_attention(d.g, d.outputs, d.anchors, name, CudaC(), blocks, how)
    return cases.Case(d.g, d.outputs, {}, {}, code)


@pytest.mark.parametrize("how", (AttentionGroups, AttentionTurns))
def test_drawn_fragments(how):
    with machine_code.spills_allowed():
        check_drawn(partial(lowered, how=how), unit_of, partial(agree, slack=SLACK["bf16"]), 2,
                    [of[kind] for of in (BLOCKS, WIDE) for kind in sorted(of)])


@pytest.mark.parametrize("how", (AttentionGroups, AttentionTurns))
@pytest.mark.parametrize("kind", BLOCKS)
def test_heads_of_any_size(kind, how):
    """Whole tiles and parts of them, whole and odd chunks, what is longer than a line of 128 bytes;
    of what rests in 16 bits, and what is computed."""
    found = [(kind, 150, 64, 64), (kind, 150, 32, 32), (kind, 70, 20, 24), (kind, 33, 40, 21),
             (kind, 100, 128, 96), (kind, 70, 200, 128), ("f32", 70, 64, 64), ("f32", 45, 30, 21),
             ("f32", 40, 96, 100)]
    made = []
    for number, (dtype, n, size, columns) in enumerate(found):
        g = Draw()
        q, k, v = (halves(g, dtype, 2, n, s) for s in (size, size, columns))
        d = attention(g, q, k, v, lambda s, g=g: causal(g, g.mul(s, 0.2)))
        if dtype != "f32":
            d.outputs[0] = g.op("Cast", d.outputs[0], DTYPES[dtype])
        wide = columns > 64 and size <= 128
        made.append(lowered(f"k{number}", d, (WIDE if wide else BLOCKS)[kind], how))
        made[-1].inputs = random_inputs(g, {})
    unit = cases.module([c.code for c in made])
    for number, c in enumerate(made):
        agree(unit, c, number % 3, SLACK[kind])
    copied = ["copy_start" in c.code.source for c in made]
    assert copied == [dtype != "f32" for dtype, *_ in found]


@pytest.mark.parametrize("how", (AttentionGroups, AttentionTurns))
def test_operands_that_lie_across(how):
    """Queries and keys whose places lie side by side in memory, values whose keys do."""
    g = Draw()
    q, k = (g.permute(halves(g, "f16", 2, 64, 136), (0, 2, 1)) for _ in range(2))
    v = g.permute(halves(g, "f16", 2, 72, 136), (0, 2, 1))
    c = lowered("k", attention(g, q, k, v, lambda s: causal(g, s)), how=how)
    assert "wgmma_h_64<1, 1, 0>" in c.code.source and "wgmma_h_held_64<0>" in c.code.source
    c.inputs = random_inputs(g, {})
    unit = cases.module([c.code])
    for order in ORDERS:
        agree(unit, c, order, SLACK["f16"])


@pytest.mark.parametrize("how", (AttentionGroups, AttentionTurns))
def test_parts_of_the_keys(how):
    """A cache of symbolic length of which a row sees what the mask says, and parts that see nothing."""
    g, n = Draw(), SYMBOLS["s"]
    seen = g.x(1, dtype="i64")
    q, k, v = (halves(g, "f16", 2, m, 32) for m in (40, n, n))

    def mask(scores):
        key = positions(g, scores)[1]
        return g.select(g.less(key, g.expand(g.reshape(seen, (1, 1, 1)), scores.shape)), scores,
                        g.full(-np.inf, scores.dtype, scores.shape))

    d = attention(g, q, k, v, mask)
    c = lowered("k", d, replace(BLOCKS["f16"], parts=4), how)
    assert [s.function for s in c.code.stages] == ["k", "k_total"]
    unit = cases.module([c.code])
    for order, (size, count) in enumerate(((700, 500), (300, 1), (70, 70))):
        c.sizes, c.inputs = {"s": size}, random_inputs(g, {"s": size})
        c.inputs[0] = np.array([count])
        agree(unit, c, order, SLACK["f16"])


def test_the_longest_blocks_of_a_causal_mask_begin_first():
    """Of as many heads as a cache holds; with more, of those that come next."""
    def source(heads, size):
        g = Draw()
        q, k, v = (halves(g, "f16", heads, size, 64) for _ in range(3))
        return lowered("k", attention(g, q, k, v, lambda s: causal(g, s))).code.source

    assert "tile / (3 * down) * 3 + tile % 3" in source(3, 512)
    odd = source(70, 2048)
    assert "tile / (24 * down) * 24" in odd and "if (item >= 70) continue;" in odd
    assert "item = tile / down, place = tile % down;" in source(3, 1 << 17)


def finished(order, places=264) -> float:
    """When the last of some blocks ends, each of which takes the place that is free first."""
    ends = [0] * places
    for takes in order:
        heapq.heappush(ends, heapq.heappop(ends) + takes)
    return max(ends)


def test_no_long_block_is_left_for_the_end():
    """64 heads of 2048 queries on 132 multiprocessors: a block takes two steps for each 128 keys that
    its last row sees, and one to begin and end."""
    g, heads, down = Draw(), 64, 16
    q, k, v = (halves(g, "f16", heads, 2048, 64) for _ in range(3))
    source = lowered("k", attention(g, q, k, v, lambda s: causal(g, s))).code.source
    some = int(re.search(r"tile / \((\d+) \* down\) \* \1 \+ tile % \1, place = tile / \1 % down",
                         source)[1])
    tiles = range(heads * down)

    def takes(place):
        return 2 * (down - place) + 1

    ideal = sum(takes(t % down) for t in tiles) / 264
    assert 1.29 < finished([takes(t % down) for t in tiles]) / ideal < 1.31
    assert finished([takes(t // some % down) for t in tiles]) / ideal < 1.035


def several_blocks(how=AttentionGroups) -> cases.Case:
    """More rows and keys than a block has, and what is longer than a line."""
    g = Draw()
    q, k, v = (halves(g, "f16", 2, 330 if how is AttentionTurns else 200, size)
               for size in (80, 80, 96))
    c = lowered("k", attention(g, q, k, v, lambda s: causal(g, g.mul(s, 0.2))), how=how)
    c.inputs = random_inputs(g, {})
    return c


# What is wrong: where, what stands there instead, and what the machine says of it, if it must.
MUTANTS = {
    "copies are not waited for": (r"copies_wait\(0\);", "copies_wait(1);", "has not been waited for"),
    "no barrier before the products": (r"(shown_to_products\(\);\s*)__syncthreads\(\);", r"\1", "race"),
    "not shown to products": (r"shown_to_products\(\);", "", "not shown"),
    "no fences": (r"wgmma_fence\(\);", "", "no wgmma_fence"),
    "no fence of sums": (r"(settle<48>\(sums\[0\]\);\s*)wgmma_fence\(\);", r"\1", "no wgmma_fence"),
    "products are never committed": (r"wgmma_commit\(\);", "", "have not been waited for"),
    "products are not waited for": (r"wgmma_wait\(0\);", "", "sums are touched"),
    "scores are not waited for": (r"wgmma_wait\(0\);(\s*wgmma_settle<32>)", r"\1", "sums are touched"),
    "weights are made anew too early": (r"wgmma_wait\(0\);(\s*)wgmma_settle<48>\(sums\[0\]\);",
                                        r"x[0][0] = 0; wgmma_wait(0);\1wgmma_settle<48>(sums[0]);",
                                        "registers are written"),
    "the next come to the same tiles": (r"\(1 - turn\)", "turn", "products read that have not"),
    "tiles never change": (r"turn = 1 - turn;", "", ""),
    "scores go on from the last ones": (r"wgmma_h_64<0, 0, 0>", "wgmma_h_64<0, 0, 1>", ""),
    "keys turned": (r"wgmma_h_64<0, 0,", "wgmma_h_64<0, 1,", ""),
    "values not turned": (r"wgmma_h_held_64<1>", "wgmma_h_held_64<0>", ""),
    "the same columns twice": (r"sums\[8\], x\[(\d)\], v_now \+ 512", r"sums[8], x[\1], v_now + 0", ""),
    "other weights": (r"x\[1\], v_now", "x[2], v_now", ""),
    "both groups have the same queries": (r"left \+ group \* 4096", "left", ""),
    "chunks not exchanged": (r"\(chunk\) % 8 \^ \(line\) % 8", "(chunk) % 8", ""),
    "lines that begin anywhere": (r"whole_lines\(given\)", "given", ""),
    "weights of a lane alone": (r"total\[i\] \+= across\(total\[i\], d\)", "total[i] += 0", ""),
    "sums are not moved": (r"\*= shrink\[e / 2\]", "*= 1", ""),
    "past the mask": (r"at_key < to\[i\]", "at_key <= to[i]", ""),
    "one row tells for both": (r"both_to = [^;]*;", "both_to = to[1];", ""),
}


# The same of groups that take turns.
MIXED_UP = {
    "copies are not waited for": (r"(group == 0\) \{\s*)copies_wait\(0\);", r"\1", "has not been waited for"),
    "the first copies are not": (r"copies_wait\(0\);(\s*shown_to_products\(\);\s*__sync)", r"\1",
                                 "has not been waited for"),
    "no barrier before the first products": (r"(shown_to_products\(\);\s*)__syncthreads\(\);", r"\1", "race"),
    "not shown to products": (r"(group == 0\) \{\s*copies_wait\(0\);\s*)shown_to_products\(\);", r"\1",
                              "not shown"),
    "a turn is not waited for": (r"group_waits\(1 \+ group\);", "", "race|again|has not been waited for"),
    "turns are mixed up": (r"group_waits\(1 \+ group\)", "group_waits(2 - group)", "again|for ever|race"),
    "no turn to begin with": (r"if \(group == 1\) group_came\(1\);", "", "wait for ever"),
    "no turn is given": (r"if \(group == 0 \|\| more\) group_came\(2 - group\);", "", "wait for ever"),
    "one turn too many": (r"group == 0 \|\| more", "true", "nobody waits at|again"),
    "a turn is given before the products": (
        r"(group_waits\(1 \+ group\);)([\s\S]*)if \(group == 0 \|\| more\) group_came\(2 - group\);",
        r"if (group == 0 || more) group_came(2 - group); \1\2", "race|again|not been waited"),
    "nobody knows that tiles were read": (
        r"if \(at > begin\) group_waits\(4 - turn\);|if \(group == 1 && then\) group_came\(3 \+ turn\);", "",
        "read by products|products read that"),
    "told before products have read": (
        r"wgmma_wait\(0\);(\s*wgmma_settle<48>\(sums\[0\]\);\s*)(if \(group == 1 && then\) group_came\(3 \+ turn\);)",
        r"\2 wgmma_wait(0);\1", "read by products|products read that"),
    "the tiles that are read are copied to": (r"\(1 - turn\) \* 32768 \+ 16384", "turn * 32768 + 16384",
                                              "products read that"),
    "the next keys but one take the place of the next": (r"room \+ 32768 \+ turn \* 32768\)",
                                                         "room + 32768 + (1 - turn) * 32768)", "products read that"),
    "scores of the last keys again": (r"k_at \+ \(1 - turn\)", "k_at + turn", ""),
    "values of the next keys": (r"v_at \+ turn", "v_at + (1 - turn)", ""),
    "tiles never change": (r"turn = 1 - turn;", "", ""),
    "products are never committed": (r"wgmma_commit\(\);", "", "have not been waited for"),
    "products are not waited for": (r"wgmma_wait\(0\);", "", "touched|have not been waited"),
    "no fence of sums": (r"(group_waits\(1 \+ group\);\s*)wgmma_fence\(\);", r"\1", "no wgmma_fence"),
    "weights of the keys before": (r"const int key_from = at \+ 64;", "const int key_from = at;", ""),
    "sums are not moved": (r"\*= shrink\[e / 2\]", "*= 1", ""),
    "threads of one group copy as if all did": (r"thread_id\(\) \+ 128 \* c", "thread_id() + 256 * c", ""),
}


@pytest.mark.parametrize("how, bugs", [(AttentionGroups, MUTANTS), (AttentionTurns, MIXED_UP)])
def test_seeded_bugs_are_found(how, bugs):
    assert planted.unseen(several_blocks(how), bugs, rtol=2e-2, atol=2e-3) == []


def test_shared_memory_is_what_the_launch_says():
    c = several_blocks()
    (stage,) = c.code.stages
    queries, keys, values = 2 * 128 * 128, 2 * 64 * 128, 2 * 64 * 128
    assert stage.launch.shared == queries + 2 * (keys + values) + 1024
    less = replace(stage, launch=replace(stage.launch, shared=stage.launch.shared - 1040))
    c.code = replace(c.code, stages=(less,))
    with pytest.raises(SimulatorError, match="shared memory|belongs to nobody|out of bounds|outside"):
        cases.run(cases.module([c.code], "// less\n"), c)


def test_what_has_no_room_is_refused():
    g = Draw()
    q, k, v = (halves(g, "f16", 1, 70, size) for size in (64, 64, COLUMNS + 8))
    with pytest.raises(LoweringError, match="values of 136 columns.*sums of 128"):
        lowered("k", attention(g, q, k, v))


@pytest.mark.parametrize("how", (AttentionGroups, AttentionTurns))
@pytest.mark.parametrize("size, blocks", [(32, BLOCKS), (64, BLOCKS), (128, BLOCKS), (128, WIDE)])
def test_machine_code(size, blocks, how):
    """None spilled, none made to wait for one another; of small heads two blocks at a time."""
    compiler = nvrtc.find()
    if compiler is None:
        pytest.skip("NVRTC is not installed")
    g = Draw()
    q, k, v = (halves(g, "bf16", 8, 512, size) for _ in range(3))
    c = lowered("k", attention(g, q, k, v, lambda s: causal(g, g.mul(s, 0.1))), blocks["bf16"], how)
    code, log = compiler.compile(prelude() + c.code.source, 90)
    (used,) = resources_of(log)
    assert "sm_90a" in log and "serialized" not in log
    assert used.spill_stores == used.spill_loads == used.stack_bytes == 0
    assert used.registers <= (128 if size <= 64 else 255)
    try:
        disassembler()
    except BackendError:
        return
    (found,) = instructions_of(code)
    turns = how is AttentionTurns  # the first scores apart, and a group of no products
    assert turns == ("group_waits(" in c.code.source)
    assert found.tensor == size // 16 * (1 + turns) + turns + blocks["bf16"].keys // 16
    assert set(found.copies) == {128} and not found.spills


# ---- when it is chosen
def planned(target, shape, kind="f16") -> Plan:
    graph = trace(CAUSAL, (ArraySpec(shape, tegg.dtype(kind)),) * 3).graph
    stack = (tegg.Generic(), tegg.Compiler(name="t", target=target))
    return plan_graph(graph, Options(stack, cache=False))


def labels(target, shape, kind="f16") -> list[str]:
    return [c.label for c in planned(target, shape, kind).run if c.stages]


class Priced(Cuda):
    """The target with other prices; without a template whose price is None."""

    def __init__(self, **prices) -> None:
        super().__init__(90)
        self.prices = prices

    def costs(self):
        costs = load_costs("cuda/sm_90")
        found = {**costs.templates, **self.prices}
        return replace(costs, templates={k: v for k, v in found.items() if v is not None})


@pytest.mark.parametrize("kind, size", [("f16", 64), ("bf16", 128)])
def test_a_form_is_chosen_by_price_and_only_where_one_is_measured(kind, size):
    shape = (4, 16, 2048, size)
    for prices, expected in (({}, TURNS), ({TURNS: None}, ATTENTION), ({TURNS: 10.0}, ATTENTION),
                             ({TURNS: None, ATTENTION: None}, "CudaAttention"),
                             ({TURNS: 10.0, ATTENTION: 10.0}, "CudaAttention")):
        assert any(expected in text for text in labels(Priced(**prices), shape, kind)), prices
    assert any("CudaAttention" in text for text in labels(Cuda(80), shape, kind))


def test_blocks_of_keys_are_larger_where_values_have_more_columns():
    for kind, size, keys in (("f16", 64, 64), ("bf16", 128, 128)):
        plan = planned(Priced(**{TURNS: None}), (4, 16, 2048, size), kind)
        assert str(Blocks(kind, 128, keys)) in [n for k in plan.kernels for n in k.notes]


def test_what_has_no_price_is_offered_to_be_measured():
    unpriced = Priced(**{TURNS: None, ATTENTION: None})
    assert not unpriced.offers_wgmma_attention() and not unpriced.offers_turns()
    assert Cuda(90).offers_wgmma_attention() and Cuda(90).offers_turns()
    assert unpriced.complete().offers_wgmma_attention() and unpriced.complete().offers_turns()
    assert not {ATTENTION, TURNS} & {op.name for op in Cuda(80).complete().ops}


def test_groups_of_a_kernel_take_turns():
    plan = planned(Cuda(90), (4, 16, 2048, 128), "bf16")
    (call,) = [c for c in plan.run if c.stages]
    assert "group_waits(" in plan.kernels[call.kernel].source


class Without(Cuda):
    """The target without any product but attention's own."""

    def unsupported(self, op, dtype):
        if op.name in ("CudaAttention", TURNS, "CudaMma", "CudaTiled", "CudaWgmma"):
            return "it is left out"
        return super().unsupported(op, dtype)


def test_what_stands_in_no_kernel_is_told():
    """Attention whose scores no product makes."""
    with pytest.raises(ExtractionError, match="no kernel can be made of CudaWgmmaAttention"):
        labels(Without(90), (2, 4, 90, 72), "bf16")


def test_values_of_too_many_columns_take_another_form():
    forms = WgmmaAttention("cuda-wgmma", frozenset({"f32"}), lambda: True)
    assert {b.kind for b in forms.matrices(COLUMNS)} == set(BLOCKS)
    assert {b.keys for b in forms.matrices(COLUMNS)} == {64, 128}
    assert {b.keys for b in forms.matrices(64)} == {64}
    assert forms.matrices(COLUMNS + 1) == [] and forms.plain("f32", 1, 64) == []
    assert any("CudaAttention" in label for label in labels(Cuda(90), (4, 16, 512, 256)))


def test_a_program_is_right():
    """Over the stand-in for a GPU of compute capability 9.0, from the graph to the result."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 40, 150, 64)).astype("float16") for _ in range(3))
    with fake_driver.installed():
        f = tegg.compile(CAUSAL, tegg.Generic(), tegg.Compiler(name="t", target=Cuda(90)),
                         cache=False)
        got = f(q, k, v)
        assert "wgmma_h_held_64" in f.program(q, k, v).source()
    wide = [np.asarray(a, np.float64) for a in (q, k, v)]
    scores = np.where(np.tri(150, dtype=bool), wide[0] @ wide[1].swapaxes(2, 3) / 8, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights @ wide[2] / weights.sum(-1, keepdims=True)
    assert got.dtype == np.float16
    assert np.abs(np.asarray(got, np.float64) - want).max() <= 2.0 ** -10 * np.abs(wide[2]).max()
