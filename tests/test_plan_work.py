"""The work that whole plans execute, from functions to kernels: a recomputation, or a value that
goes through memory without need, leaves every result right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tegg
from tegg.backends.cpu.target import Cpu

from tegg.ir.signature import Signature
from tegg.kernel.code import Work
from tegg.runtime import driver
from tegg.runtime.driver import Options


def executed(monkeypatch, f: Callable, *shapes: tuple) -> tuple[int, Work]:
    """Kernels and work of one run of a function's plan; integers where a shape says so."""
    monkeypatch.setenv("TEGG_THREADS", "2")
    monkeypatch.setattr(driver, "find", lambda device: Cpu(16))
    g = tegg.Graph()
    with g.recording():
        made = [g.tensor(s[1:], s[0]) if isinstance(s[0], str) else g.tensor(s) for s in shapes]
        f(*made).output("y")
    stack, target = driver.resolve(Options())
    plan, _ = driver._make(g, Signature.of(g), stack, target, Options())
    works = [plan.kernels[c.kernel].work for c in plan.run]
    return len(plan.run), Work(*(sum(getattr(w, n) for w in works) for n in Work.__slots__))


ROWS = (64, 128)
N = 64 * 128
HEADS = (2, 4, 64, 32)
SCORES = 8 * 64 * 64

# evaluations, iterations, bytes read, bytes written
EXACT = {
    # maximum; exp(x - m) in base 2 with its sum; a product
    "softmax": (lambda x: x.softmax(-1), [ROWS], (N * 6 + 64 * 2, 3 * N, 4 * N, 4 * N)),
    # sum; square of the difference with its sum; difference, scale, gain, bias: a row has six more
    "layernorm": (lambda x, w, b: tegg.layer_norm(x, (128,), w, b), [ROWS, (128,), (128,)],
                  (N * 8 + 64 * 6, 3 * N, 4 * (N + 256), 4 * N)),
    "gelu of a biased value": (lambda x, b: (x + b).gelu(), [ROWS, (128,)],
                               (2 * N, N, 4 * (N + 128), 4 * N)),
    # the row of a table that an index names, clamped once for each block of lanes
    "gather": (lambda t, i: t[i], [(1000, 64), ("i32", 100)],
               (400, 6400, 4 * (6400 + 100), 4 * 6400)),
    # each part over its own elements alone, and nothing to choose
    "concat": (lambda a, b: tegg.concat([a * 2, b.exp()], 1), [ROWS, (64, 100)],
               (64 * 228, 64 * 228, 4 * 64 * 228, 4 * 64 * 228)),
    "scan with what surrounds it": (lambda x: (x * 2).cumsum(1) + 1, [ROWS],
                                    (5 * N, N, 4 * N, 4 * N)),
}


@pytest.mark.parametrize("name", EXACT)
def test_one_kernel_does_what_must_be_done(name, monkeypatch):
    f, shapes, want = EXACT[name]
    kernels, w = executed(monkeypatch, f, *shapes)
    assert kernels == 1
    assert (w.evaluations, w.iterations, w.loaded, w.stored) == want


@pytest.mark.parametrize("f, shape, each, reads, kernels", [
    (lambda x: (x * x).mean(), (1000, 1000), 2, 1, 2),
    (lambda x: x.exp2().sum(0), (30_000, 37), 2, 1, 1),
    (lambda x: x.softmax(-1), (1, 200_000), 9, 3, 1)])  # no scratch row lives across stages
def test_split_reductions_do_no_more_than_whole_ones(f, shape, each, reads, kernels, monkeypatch):
    """What parts add is their number, and a read of each."""
    n = shape[0] * shape[1]
    called, w = executed(monkeypatch, f, shape)
    assert called <= kernels
    assert n * each <= w.evaluations <= n * each * 1.03
    assert 4 * n * reads <= w.loaded <= 4 * n * reads * 1.05


def test_attention_keeps_its_scores_in_cache(monkeypatch):
    """Two products and what a score goes through; only operands and the result are in memory."""
    kernels, w = executed(monkeypatch, tegg.scaled_dot_product_attention, HEADS, HEADS, HEADS)
    assert kernels == 1
    assert w.evaluations == 2 * 2 * SCORES * 32 + 16 * SCORES
    values = 8 * 64 * 32
    assert (w.loaded, w.stored) == (4 * 3 * values, 4 * values)


@pytest.mark.parametrize("f, shapes, flops", [
    (lambda x, w, g, b: x + tegg.layer_norm(x, (128,), g, b) @ w,
     [ROWS, (128, 128), (128,), (128,)], 2 * N * 128),
    (lambda x, w: tegg.rms_norm(x, (128,)) @ w, [ROWS, (128, 64)], 2 * N * 64),
    (lambda x, w: x @ w, [ROWS, (128, 64)], 2 * N * 64)])
def test_a_norm_is_made_once_for_the_product_that_reads_it(f, shapes, flops, monkeypatch):
    kernels, w = executed(monkeypatch, f, *shapes)
    assert kernels == 1
    assert flops <= w.evaluations <= flops + 25 * N


def test_layers_of_a_network_write_what_lies_between_them_once(monkeypatch):
    kernels, w = executed(monkeypatch, lambda x, w, b, u: (x @ w + b).gelu() @ u,
                          ROWS, (128, 256), (256,), (256, 128))
    inner, flops = 64 * 256, 2 * 2 * 64 * 128 * 256
    assert kernels == 2
    assert flops <= w.evaluations <= flops + 40 * inner
    operands, bias = N + 2 * 128 * 256 + inner, 256
    assert w.loaded == 4 * (operands + bias)
    assert w.stored == 4 * (inner + N)


def test_what_a_product_is_joined_with_is_read(monkeypatch):
    _, w = executed(monkeypatch, lambda x, w, b, r: (x @ w + b) * r,
                    (64, 80), (80, 16), (16,), (64, 16))
    x, y, b, r = 64 * 80, 80 * 16, 16, 64 * 16
    assert w.loaded == 4 * (x + y + b + r)
    assert w.stored == 4 * r


def test_what_a_product_packs_is_written_and_read_back(monkeypatch):
    _, w = executed(monkeypatch, lambda x, w: x @ w.T, (64, 32), (16, 32))
    x, y, out = 64 * 32, 32 * 16, 64 * 16
    panels = w.stored // 4 - out
    assert panels >= y
    assert w.loaded == 4 * (x + y + panels)
