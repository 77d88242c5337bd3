"""Attention reached by rules and cost: through the front end, in an encoder, and where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from encoder import Encoder
from test_templates import Wide, chosen

import tegg
from tegg.backends.cpu.attention_forms import attention_row, blocks_of
from tegg.dim import dim
from tegg.dtype import f32
from tegg.ir.graph import Graph
from tegg.ir.masks import seen_share
from tegg.ir.template import Extents
from tegg.kernel.registers import Registers
from tegg.runtime.driver import Options, resolve
from tegg.testing.agree import check_egraph


def reference(q, k, v, seen=None) -> np.ndarray:
    groups = q.shape[-3] // k.shape[-3]
    k, v = (np.repeat(x, groups, -3).astype(np.float64) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf) if seen.dtype == bool else scores + seen
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape, np.float32)


CASES = {
    "heads": (draw(2, 3, 40, 16), draw(2, 3, 50, 16), draw(2, 3, 50, 8), None, {}),
    "grouped and causal": (draw(1, 4, 70, 16), draw(1, 2, 70, 16), draw(1, 2, 70, 16),
                           np.tril(np.ones((70, 70), bool)), {"is_causal": True}),
    "grouped, some keys": (draw(1, 6, 30, 16), draw(1, 3, 90, 16), draw(1, 3, 90, 16),
                           np.arange(90) < 71, {}),
    "a bias for each head": (draw(2, 3, 40, 16), draw(2, 3, 50, 16), draw(2, 3, 50, 8),
                             draw(3, 40, 50), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_front_end_reaches_it(name) -> None:
    q, k, v, seen, more = CASES[name]
    given = (q, k, v) if seen is None or more else (q, k, v, seen)
    f = tegg.compile(lambda *a: tegg.scaled_dot_product_attention(*a, enable_gqa=True, **more),
                     cache=False)
    np.testing.assert_allclose(np.asarray(f(*given)), reference(q, k, v, seen), atol=1e-5)
    assert "CpuAttention" in f.program(*given).explain()


# ---- which form wins
def names(graph: Graph) -> list[str]:
    return [spec.label for spec in chosen(graph, Wide())]


@pytest.mark.parametrize("tokens", [128, 512, dim("tokens", 1, 4096, hint=256)], ids=str)
def test_an_encoder_keeps_its_scores_in_cache(tokens) -> None:
    found = names(Encoder(2, 4, tokens, positions=4096).g)
    assert sum("CpuAttention" in n for n in found) == 2 and not any("Softmax" in n for n in found)


@pytest.mark.parametrize("queries, kinds", [(1, {"rows"}), (4, {"rows"}), (64, {"plain"})])
def test_few_queries_pack_neither_keys_nor_values(queries, kinds) -> None:
    """They read them where they lie."""
    g = Graph()
    q, k, v = (g.input(n, s, "f32") for n, s in (
        ("q", (8, queries, 64)), ("k", (8, 2048, 64)), ("v", (8, 2048, 64))))
    scores = g.idiom("Contract", q, k, "h,m,e;h,s,e;h,m,s", (8, queries, 2048))
    weights = g.table["Softmax"].expand(g, (scores,), (2,))
    g.outputs["y"] = g.idiom("Contract", weights, v, "h,m,s;h,s,n;h,m,n", (8, queries, 64))
    found = {blocks_of(n.attrs).kind for spec in chosen(g, Wide()) for n in spec.body.values()
             if n.op.name == "CpuAttention"}
    assert found == kinds


def test_what_others_read_is_stored() -> None:
    """Scores that are a result as well cannot stay in cache."""
    g = Graph()
    q, k, v = (g.input(n, (2, 128, 32), "f32") for n in "qkv")
    scores = g.idiom("Contract", q, k, "h,m,e;h,s,e;h,m,s", (2, 128, 128))
    weights = g.table["Softmax"].expand(g, (scores,), (2,))
    g.outputs["weights"] = weights
    g.outputs["y"] = g.idiom("Contract", weights, v, "h,m,s;h,s,n;h,m,n", (2, 128, 32))
    assert len(names(g)) > 1


def test_all_names_agree_on_rows_without_a_key() -> None:
    g = Graph()
    scores, v = g.input("scores", (2, 4, 5), "f32"), g.input("v", (2, 5, 3), "f32")
    weights = g.table["Softmax"].expand(g, (scores,), (2,))
    g.outputs["y"] = g.idiom("Contract", weights, v, "h,m,s;h,s,n;h,m,n", (2, 4, 3))
    inputs = {0: draw(2, 4, 5), 1: draw(2, 5, 3)}
    inputs[0][0, 1], inputs[0][1, :, 2:] = -np.inf, -np.inf
    done = check_egraph(g, resolve(Options())[0], inputs)
    found = {n.op.name for ns in done.classes.nodes.values() for n in ns}
    assert {"Attention", "CpuAttention"} <= found


# ---- what it costs
def test_the_row_says_what_it_executes() -> None:
    row = attention_row(Registers(16))
    attrs = ("h,m,s;h,s,n;h,m,n", (2, 100, 32), "plain", 24, 256)
    assert row.template is not None
    done = row.template(attrs, Extents(2, 100, 32, 300, f32))
    assert done.flops >= 2 * 2 * 100 * 32 * 300 and done.pieces == 2 * 5 and done.beside > 0
    assert blocks_of(attrs).rows == 24
    assert row.template(attrs[:2] + ("pairs", 24, 256), Extents(2, 100, 32, 300, f32)
                        ).rate == "CpuPairs"  # what was measured for the products prices it


def test_a_mask_of_positions_halves_the_price() -> None:
    spans = {}
    for causal in (False, True):
        f = tegg.compile(lambda q, causal=causal: tegg.scaled_dot_product_attention(
            q, q, q, is_causal=causal), cache=False)
        q = np.zeros((1, 2, 256, 16), np.float32)
        f(q)
        (line,) = [x for x in f.program(q).explain().splitlines() if x.startswith("predicted")]
        spans[causal] = float(line.split()[1])
    assert spans[True] < 0.8 * spans[False]
    assert seen_share({}) == 1.0
