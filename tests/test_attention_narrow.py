"""Attention whose products are of bfloat16: who is offered it, and how far it is from the oracle."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from attentions import Drawn, attention, causal, drawn
from hypothesis import given, settings, strategies as st
from kernels import build, call
from profiles import examples
from test_narrow_forms import ALL, Having, options
from tegg.testing.draw import Draw

from tegg import Bf16, Fp16
from tegg.backends.cpu.attention_forms import Blocks
from tegg.backends.cpu.instructions import PAIRS, TILES
from tegg.ir.graph import Graph
from tegg.ir.oracle import evaluate
from tegg.kernel.code import KernelCode
from tegg.rewrite.compiler import Compiler, Generic
from tegg.rewrite.egraph import saturate
from tegg.runtime.driver import Options, compile_graph, resolve

BLOCKS = {"pairs": (Blocks("pairs", 12, 64), Blocks("pairs", 5, 32)),
          "tiles": (Blocks("tiles", 32, 64), Blocks("tiles", 16, 96))}
KINDS = pytest.mark.parametrize("kind", BLOCKS)
# A weight's own rounding, and that of what a test's kernel makes of the result, three times it.
ERROR = 3 * 2.0 ** -8


def near(inputs: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Inputs that hold values of bfloat16, so that only weights are rounded."""
    return {i: x.astype(ml_dtypes.bfloat16).astype(x.dtype) if x.dtype.kind == "f" else x
            for i, x in inputs.items()}


def run(made: Drawn, code: KernelCode, inputs, width: int = 16, sizes=None, threads=(1, 3)):
    library = build(code, width)
    return [call(library, code, made.g, made.outputs, inputs, sizes or {}, n) for n in threads]


def agree(made: Drawn, seed: int, width: int, blocks: Blocks, sizes=None) -> None:
    """Weights add up to 1, so that their rounding moves a result by a share of the largest value."""
    inputs = near(made.inputs(sizes or {}, seed))
    once, again = run(made, made.lowered(width, blocks), inputs, width, sizes)
    values = [np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in inputs.values()
              if x.dtype.kind == "f"]
    for got, same, want in zip(once, again, evaluate(made.outputs, inputs, sizes or {})):
        assert np.array_equal(got, same, equal_nan=True)
        assert np.array_equal(np.isnan(got), np.isnan(want))
        off = np.abs(got.astype(np.float64) - want)[~np.isnan(want)]
        assert off.max(initial=0.0) <= 1.01 * ERROR * max(values, default=0.0)


@settings(max_examples=examples(20))
@given(st.data(), st.integers(0, 99), st.sampled_from((8, 16)), st.sampled_from(sorted(BLOCKS)))
def test_constant_sizes(data, seed, width, kind) -> None:
    agree(data.draw(drawn()), seed, width, data.draw(st.sampled_from(BLOCKS[kind])))


@KINDS
@pytest.mark.parametrize("halves", (False, True))
def test_weights_are_rounded_to_nearest(kind, halves) -> None:
    """Of values that are all 1 results are 1, in the mean of rows: were weights cut off instead,
    about 2^-9 less."""
    g = Draw()
    q, k, v = (g.cast(g.x(*s, dtype="bf16"), "f32") if halves else g.x(*s)
               for s in ((2, 40, 32), (2, 512, 32), (2, 512, 32)))
    made = attention(g, q, k, v)
    inputs = near(made.inputs({}, 0))
    inputs[2][...] = 1
    for (got,) in run(made, made.lowered(16, BLOCKS[kind][0]), inputs):
        assert np.abs(got.mean(dtype=np.float64) - 1) <= 2.0 ** -12


@settings(max_examples=examples(6))
@given(st.data(), st.integers(0, 99), st.sampled_from(sorted(BLOCKS)))
def test_symbolic_sizes(data, seed, kind) -> None:
    made = data.draw(drawn("f32", frozenset(data.draw(st.sampled_from(("m", "s", "ms", "msa"))))))
    for sizes in ({"m": 1, "s": 1, "a": 1}, {"m": 14, "s": 70, "a": 2}, {"m": 3, "s": 0, "a": 3},
                  {"m": 0, "s": 5, "a": 1}, {"m": 70, "s": 33, "a": 1}):
        agree(made, seed, 16, BLOCKS[kind][0], sizes)


def heads(m: int, s: int, between, e: int = 8, n: int = 6) -> Drawn:
    g = Draw()
    return attention(g, g.x(2, m, e), g.x(2, s, e), g.x(2, s, n), lambda x: between(g, x))


@KINDS
@pytest.mark.parametrize("offset", (-3, 0, 1, 17))
def test_every_row_sees_its_own_keys(kind, offset) -> None:
    """Sums of an odd depth end inside a pair, and inside a tile."""
    for blocks in BLOCKS[kind]:
        agree(heads(75, 140, lambda g, x: causal(g, x, offset), 33, 40), 1, 16, blocks)


@KINDS
def test_keys_after_the_last_query_are_skipped(kind) -> None:
    made = heads(24, 256, causal)
    inputs = made.inputs({}, 0)
    inputs[1][:, 64:], inputs[2][:, 64:] = np.nan, np.nan
    ((out,),) = run(made, made.lowered(16, BLOCKS[kind][0]), inputs, threads=(2,))
    assert np.isfinite(out).all()


@KINDS
def test_what_scratch_memory_held_before_is_no_weight(kind) -> None:
    """Rows of one block of keys end before those of the last: what follows them is 0, not NaN."""
    made = heads(40, 200, causal)
    code = made.lowered(16, BLOCKS[kind][0])
    inputs = near(made.inputs({}, 0))
    library = build(code, 16)
    bad = {i: np.full_like(x, np.nan) for i, x in inputs.items()}
    call(library, code, made.g, made.outputs, bad, {}, 1)
    (out,) = call(library, code, made.g, made.outputs, inputs, {}, 1)
    assert np.isfinite(out).all()


# ---- where it is offered
def graph(dtype: str = "f32", m: int = 128) -> Graph:
    g = Graph()
    q, k, v = (g.input(n, s, dtype) for n, s in (
        ("q", (8, m, 64)), ("k", (8, 256, 64)), ("v", (8, 256, 64))))
    q, k, v = (x if dtype == "f32" else g.cast(x, "f32") for x in (q, k, v))
    scores = g.idiom("Contract", q, k, "h,m,e;h,s,e;h,m,s", (8, m, 256))
    weights = g.table["Softmax"].expand(g, (scores,), (2,))
    out = g.idiom("Contract", weights, v, "h,m,s;h,s,n;h,m,n", (8, m, 64))
    g.outputs["y"] = out if dtype == "f32" else g.cast(out, dtype)
    return g


def kinds(g: Graph, has, *more: Compiler) -> set[str]:
    target = Having(has)
    stack, _ = resolve(Options((Generic(), *more, Compiler(target=target, name="having"))))
    classes = saturate(g, stack, features=("cpu", *target.features)).classes
    return {n.attrs[2] for nodes in classes.nodes.values() for n in nodes
            if n.op.name == "CpuAttention"}


def test_it_is_offered_where_operands_may_be_rounded_and_the_machine_has_it() -> None:
    assert kinds(graph(), ALL) == {"plain"}
    assert kinds(graph(), (PAIRS,), Bf16()) == {"plain", "pairs"}
    assert kinds(graph(), (TILES,), Bf16()) == {"plain", "tiles"}
    assert kinds(graph(), (), Bf16()) == kinds(graph(), ALL, Fp16()) == {"plain"}
    assert kinds(graph(m=1), ALL, Bf16()) == {"plain", "rows"}
    assert kinds(graph(m=4), ALL, Bf16()) == {"plain", "rows", "pairs", "tiles"}
    assert kinds(graph(m=16), ALL, Bf16()) == {"plain", "tiles"}  # which are filled


def test_of_values_of_bfloat16_only_weights_are_rounded() -> None:
    assert kinds(graph("bf16"), (PAIRS,)) == {"plain", "pairs"}
    assert kinds(graph("bf16"), (TILES,)) == {"plain", "tiles"}
    assert kinds(graph("f16"), ALL) == {"plain"}


class Soon(Having):
    """Where narrow products take a hundredth of the time that others take."""

    def costs(self):
        return dataclasses.replace(super().costs(), templates={"CpuPairs": 0.01, "CpuTiles": 0.01})


@KINDS
@pytest.mark.parametrize("dtype", ("f32", "bf16"))
def test_the_cheapest_is_taken(kind, dtype) -> None:
    target, g = Soon((PAIRS,) if kind == "pairs" else (TILES,)), graph(dtype)
    made = compile_graph(g, options(target, *(() if dtype == "bf16" else (Bf16(),))))
    (kernel,) = made.plan.kernels
    assert f"'{kind}'" in "".join(kernel.notes)
    inputs = near({i: x for i, x in enumerate(
        np.random.default_rng(0).standard_normal(s.shape, np.float32) for s in g.inputs)})
    if dtype == "bf16":
        inputs = {i: x.astype(ml_dtypes.bfloat16) for i, x in inputs.items()}
    (want,) = evaluate(list(g.outputs.values()), inputs, {})
    off = np.abs(made(*inputs.values())["y"].astype(np.float64) - want.astype(np.float64)).max()
    assert off <= ERROR * np.abs(inputs[2].astype(np.float64)).max()
