"""Attention in one kernel for CUDA, on the simulator: masks, heads, layouts, symbolic sizes."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
import tegg
from attentions import SYMBOLS, attention, causal, positions
from tegg.testing.kernels import check_results, random_inputs
from simt.attention_cases import check_drawn
from simt import machine_code, cases, fake_driver
from simt.assembled import assembled
from simt.simulator import Module, SimulatorError
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.attention_mma import AttentionCores
from tegg.backends.cuda.disassembly import disassembler, instructions_of
from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.resources import resources_of
from tegg.backends.cuda.target import Cuda
from tegg.backends.simt.attention import lower_attention
from tegg.backends.simt.attention_forms import Blocks
from tegg.backends.simt.attention_tiles import AttentionTiles

from tegg.dtype import DTYPES, f32
from tegg.errors import BackendError, LoweringError
from tegg.runtime.driver import Options, plan_graph
from tegg.testing.draw import Draw
from tegg.trace import ArraySpec, trace

PLAIN, CORES = Blocks("plain", 32, 32), Blocks("f16", 128, 64)
LARGE, LARGE_WIDE = Blocks("plain", 64, 64), Blocks("plain", 64, 32)
DOUBLE = Blocks("plain", 16, 16)
WIDE, WIDER = Blocks("f16", 128, 32), Blocks("f16", 64, 16)
FEW, PARTS = Blocks("plain", 8, 64, 3), Blocks("f16", 128, 32, 4)


def lowered(name, d, blocks=PLAIN) -> cases.Case:
    how = AttentionTiles if blocks.kind == "plain" else AttentionCores
    code = lower_attention(d.g, d.outputs, d.anchors, name, CudaC(), blocks, how)
    return cases.Case(d.g, d.outputs, {}, {}, code)


def agree(unit, c, order, slack=30.0):
    check_results(c.outputs, cases.run(unit, c, order), c.inputs, c.sizes, slack, c.code.name)


def unit_of(found):
    return cases.module([c.code for c in found])


@pytest.mark.parametrize("blocks", (PLAIN, LARGE, DOUBLE, CORES, FEW, PARTS), ids=str)
def test_drawn_fragments(blocks):
    slack = 3000 if blocks in (CORES, PARTS) else 30
    with machine_code.spills_allowed():
        check_drawn(lowered, unit_of, partial(agree, slack=slack), 2 if blocks.parts == 1 else 1,
                    [blocks], "f64" if blocks is DOUBLE else "f32")


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


@pytest.mark.parametrize("kind, size, blocks", [
    ("f32", 64, PLAIN), ("f32", 128, PLAIN), ("f32", 256, PLAIN), ("f32", 64, LARGE),
    ("f32", 128, LARGE_WIDE), ("f32", 256, LARGE_WIDE), ("f16", 128, WIDE), ("f16", 256, WIDER)])
def test_the_largest_heads_spill_nothing(kind, size, blocks):
    g = Draw()
    q, k, v = (halves(g, kind, 4, 512, size) for _ in range(3))
    c = lowered("k", attention(g, q, k, v, lambda s: causal(g, g.mul(s, 0.1))), blocks)
    for architecture in (75, 90) if blocks.rows != 64 or kind != "f32" else (80, 90):
        assert (assembled([c.code], architecture) or (set(), 0))[1] == 0


def test_large_heads():
    """Of 160 to 256, of scores and of values: what passes through shared memory in slices, and what
    warps share."""
    found = []
    for number, (kind, depth, columns, blocks) in enumerate((
            ("f32", 160, 40, PLAIN), ("f32", 30, 256, PLAIN), ("f32", 160, 160, Blocks("f16", 64, 16)),
            ("f32", 256, 64, LARGE), ("f32", 70, 250, LARGE_WIDE),
            ("f16", 192, 128, WIDE), ("f16", 256, 64, CORES),  # with no room for as many queries
            ("f16", 256, 250, WIDER), ("f16", 192, 128, Blocks("f16", 64, 32)))):
        g = Draw()
        q, k, v = (halves(g, kind, 1, n, e) for n, e in ((70, depth), (50, depth), (50, columns)))
        found.append(lowered(f"k{number}", attention(g, q, k, v, partial(causal, g)), blocks))
        found[-1].inputs = random_inputs(g, {}, high=2)
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number % 3, 30 if number < 2 else 4000)


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


def of_halves(name, kind, blocks, m, n, size, columns):
    """Attention of two heads whose operands and result rest in 16 bits."""
    g = Draw()
    q, k, v = (halves(g, kind, 2, *shape) for shape in ((m, size), (n, size), (n, columns)))
    d = attention(g, q, k, v, lambda scores: causal(g, scores) if m == n else scores)
    d.outputs[0] = g.op("Cast", d.outputs[0], DTYPES[kind])
    c = lowered(name, d, blocks)
    c.inputs = random_inputs(g, {})
    return c


def test_halves_of_any_size():
    """Whole tiles and parts of them, heads of whole and of odd chunks, with and without parts."""
    found = [("f16", CORES, 150, 150, 32, 32), ("f16", PARTS, 40, 300, 24, 24),
             ("bf16", Blocks("bf16", 128, 64), 37, 45, 20, 20), ("f16", CORES, 33, 70, 40, 21),
             ("f16", PLAIN, 70, 70, 64, 64), ("f16", PLAIN, 33, 40, 20, 72),
             ("bf16", PLAIN, 21, 33, 35, 33), ("f16", Blocks("plain", 8, 64, 2), 1, 200, 64, 64)]
    made = [of_halves(f"k{n}", *given) for n, given in enumerate(found)]
    unit = cases.module([c.code for c in made])
    for number, (c, (kind, *_)) in enumerate(zip(made, found)):
        agree(unit, c, number % 3, 4000 if kind == "f16" else 30000)


@pytest.mark.parametrize("kind", ("f16", "bf16"))
def test_halves_move_sixteen_bytes_at_once(kind):
    """As machine code has it: every load, every copy, and the stores of results."""
    try:
        disassembler()
    except BackendError:
        pytest.skip("nvdisasm is not installed")
    if nvrtc.find() is None:
        pytest.skip("NVRTC is not installed")
    forms = [PLAIN, Blocks("plain", 8, 64), Blocks(kind, 128, 64), Blocks(kind, 128, 32)]
    found = [of_halves(f"k{n}", kind, b, *((1, 512) if b.few else (512, 512)),
                       *(2 * (128 if b.keys == 32 and b.rows == 128 else 64,)))
             for n, b in enumerate(forms)]
    for architecture in (75, 80, 90):
        mine = found if kind == "f16" or architecture >= 80 else found[:2]
        code, log = nvrtc.find().compile(
            "\n".join([cases.prelude(), *(c.code.source for c in mine)]), architecture)
        assert not any(r.spill_stores for r in resources_of(log))
        for made in instructions_of(code):
            told = (architecture, made.show())
            assert set(made.loads) | set(made.copies) == {128} == set(made.stores), told
            assert bool(made.tensor) == (made.kernel in ("k2", "k3")), told


@pytest.mark.parametrize("architecture", (75, 80, 90))
def test_halves_are_on_tensor_cores(architecture):
    """From the front end, by rules and cost; bfloat16 has none on 7.5."""
    def f(q, k, v):
        return tegg.scaled_dot_product_attention(q, k, v, is_causal=True)

    words = ("wgmma_h_64<", "wgmma_g_64<") if architecture == 90 else ("mma_h(s[j]", "mma_g(s[j]")
    for kind, since, word in zip(("f16", "bf16"), (75, 80), words):
        traced = trace(f, (ArraySpec((1, 4, 512, 64), DTYPES[kind]),) * 3)
        stack = (tegg.Generic(), tegg.Compiler(name="t", target=Cuda(architecture)))
        plan = plan_graph(traced.graph, Options(stack, cache=False))
        sources = [plan.kernels[c.kernel].source for c in plan.run]
        assert any(word in s for s in sources) == (architecture >= since)


@pytest.mark.parametrize("kind", ("f16", "f32"))
@pytest.mark.parametrize("architecture", (75, 80, 90))
@pytest.mark.parametrize("depth, columns", [(192, 128), (256, 64), (64, 128), (256, 256)])
def test_heads_of_two_sizes_have_a_form(kind, architecture, depth, columns):
    """Scores of more terms than values have columns, and of fewer."""
    q, v = (ArraySpec((2, 8, 512, n), DTYPES[kind]) for n in (depth, columns))
    traced = trace(partial(tegg.scaled_dot_product_attention, is_causal=True), (q, q, v))
    stack = (tegg.Generic(), tegg.Compiler(name="t", target=Cuda(architecture)))
    plan = plan_graph(traced.graph, Options(stack, cache=False))
    assert any("Attention" in c.label for c in plan.run)


@pytest.mark.parametrize("compilers, words", [((), "queries["), ((tegg.Bf16(),), "wgmma_g_64<")])
def test_rules_and_cost_reach_it(compilers, words):
    """Grouped heads and a causal mask, from the front end, planned for a GPU."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, h, 512, 32), np.float32) for h in (64, 32, 32))

    def f(q, k, v):
        return tegg.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    with fake_driver.installed():
        on_gpu = tegg.compile(f, tegg.Generic(), *compilers, device="cuda", cache=False)
        program = on_gpu.program(q, k, v)
        source = program.source()
    assert words in source[source.index("KERNEL(256"):]
    assert sum(not k.moves for k in program.plan.kernels) == 1


@pytest.mark.parametrize("blocks", (FEW, Blocks("plain", 8, 32, 5), PARTS), ids=str)
def test_parts_of_the_keys(blocks):
    """A step of decoding: a cache of symbolic length of which a row sees what the mask says, and
    parts that see nothing."""
    g, kind = Draw(), "f64" if blocks.keys == 32 and blocks is not PARTS else "f32"
    n, seen = SYMBOLS["s"], g.x(1, dtype="i64")
    q, k, v = (g.x(2, m, 32, dtype=kind) for m in (3, n, n))

    def mask(scores):
        key = positions(g, scores)[1]
        return g.select(g.less(key, g.expand(g.reshape(seen, (1, 1, 1)), scores.shape)), scores,
                        g.full(-np.inf, scores.dtype, scores.shape))

    d = attention(g, q, k, v, mask)
    d.outputs = [g.mul(d.outputs[0], 2.0)]
    c = lowered("k", d, blocks)
    assert [s.function for s in c.code.stages] == ["k", "k_total"]
    unit = cases.module([c.code])
    for order, (size, count) in enumerate(((700, 500), (300, 1), (70, 70))):
        c.sizes, c.inputs = {"s": size}, random_inputs(g, {"s": size})
        c.inputs[0] = np.array([count])
        agree(unit, c, order, 3000 if blocks is PARTS else 30)
    assert (assembled([c.code], 80) or (set(), 0))[1] == 0


@pytest.mark.parametrize("blocks", (PLAIN, CORES), ids=str)
def test_bounds_beyond_32_bits(blocks):
    """Where positions fit 32 bits, what a mask compares them with need not."""
    g, kind = Draw(), "f32" if blocks is PLAIN else "f16"
    ends = [g.x(1, dtype="i64") for _ in range(2)]
    q, k, v = (halves(g, kind, 2, n, 16) for n in (20, 70, 70))

    def mask(scores):
        key = positions(g, scores)[1]
        low, high = (g.expand(g.reshape(x, (1, 1, 1)), scores.shape) for x in ends)
        nothing = g.full(-np.inf, scores.dtype, scores.shape)
        seen = g.select(g.less(key, high), scores, nothing)
        return g.select(g.less(key, low), nothing, seen)

    c = lowered("k", attention(g, q, k, v, mask), blocks)
    assert "int from[" in c.code.source and "to[i]) to[i] =" in c.code.source
    assert "from[i]) from[i] =" in c.code.source
    unit, far = cases.module([c.code]), 1 << 40
    for order, found in enumerate(((-far, far), (7, far + 9), (-far - 3, 40), (far, far), (0, -far))):
        c.inputs = random_inputs(g, {})
        c.inputs[0], c.inputs[1] = (np.array([n]) for n in found)
        agree(unit, c, order % 3, 30 if blocks is PLAIN else 3000)


@pytest.mark.parametrize("keys, parts, index", [(1 << 20, 4, "int"), (1 << 26, 32, "int64_t")])
def test_parts_of_many_keys_are_counted_in_64_bits(keys, parts, index):
    """Steps times parts need not fit 32 bits where every address does."""
    g = Draw()
    d = attention(g, g.x(1, 8, 1), g.x(1, keys, 1), g.x(1, keys, 1))
    assert f"const {index} first_key" in lowered("k", d, Blocks("plain", 8, 64, parts)).code.source


def test_parts_of_the_keys_win_where_queries_are_few():
    """One query of eight heads leaves most of a GPU idle, unless keys are shared out."""
    q, k, v = (np.zeros((1, 8, n, 64), np.float32) for n in (1, 8192, 8192))
    with fake_driver.installed():
        program = tegg.compile(tegg.scaled_dot_product_attention, tegg.Generic(), device="cuda",
                               cache=False).program(q, k, v)
    (kernel,) = (k for k in program.plan.kernels if not k.moves)
    assert len(kernel.stages) == 2 and "rows=8, keys=64, parts=" in str(kernel)


def test_what_has_no_room_is_refused():
    g = Draw()
    with pytest.raises(LoweringError, match="room for 256 of each"):
        lowered("k", attention(g, g.x(1, 20, 260), g.x(1, 30, 260), g.x(1, 30, 8)))
    g = Draw()
    q = g.x(1, 20, 16)
    d = attention(g, g.softmax(q, 2), g.x(1, 30, 16), g.x(1, 30, 8))
    with pytest.raises(LoweringError, match="a reduction beside an attention"):
        lowered("k", d)


@pytest.mark.parametrize("kind", ("f16", "bf16"))
def test_halves_take_tensor_cores_and_store_no_scores(kind):
    """From the front end, without a licence: scores and weights are float32, the result is not."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 64, 160, 32)).astype(DTYPES[kind].numpy) for _ in range(3))
    f = partial(tegg.scaled_dot_product_attention, is_causal=True)
    with fake_driver.installed():
        on_gpu = tegg.compile(f, tegg.Generic(), device="cuda", cache=False)
        program = on_gpu.program(q, k, v)
        (kernel,) = (k for k in program.plan.kernels if not k.moves)
        letter = {"f16": "h", "bf16": "g"}[kind]
        assert f"wgmma_{letter}_64<" in kernel.source and f"wgmma_{letter}_held_" in kernel.source
        got = on_gpu(q, k, v)
    assert got.dtype == q.dtype
    wide = [np.asarray(a, np.float64) for a in (q, k, v)]
    scores = np.where(np.tri(160, dtype=bool), wide[0] @ wide[1].swapaxes(2, 3) / 32 ** 0.5, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights @ wide[2] / weights.sum(-1, keepdims=True)
    on_cpu = tegg.compile(f, tegg.Generic(), device="cpu", cache=False)(q, k, v)
    ulp = {"f16": 2.0 ** -11, "bf16": 2.0 ** -8}[kind]
    most = np.abs(wide[2]).max()
    assert np.abs(np.asarray(got, np.float64) - want).max() <= 2 * ulp * most
    assert np.abs(np.asarray(on_cpu, np.float64) - want).max() <= 0.51 * ulp * most


def test_what_is_read_in_float32_is_not_rounded_on_its_way():
    """A result that rests in float32, and operands that hold more than halves: as they are."""
    half, whole = (np.zeros((2, 8, 1024, 64), t) for t in (np.float16, np.float32))

    def wide(q, k, v):
        return attend(q.cast("f32"), k.cast("f32"), v.cast("f32"))

    def mixed(q, k, v):
        return attend(q, k, v).cast("f16")

    attend = partial(tegg.scaled_dot_product_attention, is_causal=True)

    with fake_driver.installed():
        for f, arrays in ((wide, (half, half, half)), (mixed, (half, whole, half))):
            program = tegg.compile(f, tegg.Generic(), device="cuda", cache=False).program(*arrays)
            source = program.source()[program.source().index("KERNEL(256"):]
            assert "mma_h(sums[j]" not in source and "wgmma_h_held_" not in source


@pytest.mark.parametrize("heads, keys, rows, size, kind", [
    (8, 2, 512, 64, "f16"), (16, 2, 256, 64, "bf16"), (4, 2, 70, 16, "f16"), (8, 1, 128, 64, "f16")])
def test_grouped_heads_of_halves_are_cast_by_no_kernel(heads, keys, rows, size, kind):
    """What is copied to the device costs its readers nothing more than what is cast from it."""
    halves = [ArraySpec((1, n, rows, size), tegg.dtype(kind)) for n in (heads, keys, keys)]
    graph = trace(lambda q, k, v: tegg.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True), tuple(halves)).graph
    stack = (tegg.Generic(), tegg.Compiler(name="t", target=Cuda(90)))
    plan = plan_graph(graph, Options(stack, cache=False))
    (label,) = [c.label for c in plan.run if c.stages]
    product, attends = sorted(label.split("+"), key=lambda text: "Attention" in text)
    assert product in ("CudaMma", "CudaWgmma")
    assert attends in ("CudaAttention", "CudaWgmmaAttention", "CudaTurnsAttention")
