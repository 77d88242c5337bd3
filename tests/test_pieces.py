"""Steps in pieces: each is done once, by whichever thread comes to it."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from tegg.backends.cpu import library, pieces, target
from tegg.backends.cpu.program import Program, steps_of, with_barriers

import tegg
from tegg.kernel.code import KernelCode, Stage, Work
from tegg.planning.plan import Call

HEAD = "void {name}(void *const *b, const int64_t *n, int tid, int nt) {{ {body} }}\n"
COUNT = """_Atomic int *o = b[0];
for (int64_t u = n[0] * tid / nt; u < n[0] * (tid + 1) / nt; u++) o[u]++;"""
OWN = """_Atomic int *o = b[0];
struct rt_pieces todo = rt_pieces(tid, nt, (int)n[1]);
for (int64_t p; (p = rt_next(&todo)) >= 0;)
  for (int64_t u = n[0] * p / (nt * n[1]); u < n[0] * (p + 1) / (nt * n[1]); u++) o[u]++;"""
ORDER = """int32_t *o = b[0];
for (int64_t u = n[0] * tid / nt; u < n[0] * (tid + 1) / nt; u++) o[1 + u] = o[0]++;"""
OWN_ORDER = """int32_t *o = b[0];
struct rt_pieces todo = rt_pieces(tid, nt, (int)n[1]);
for (int64_t p; (p = rt_next(&todo)) >= 0;) o[1 + p] = o[0]++;"""
# The first piece waits for all others, 20 s at most: its thread has more of them, which others do.
# Where nobody did, it counts for a thousand.
WAIT = """_Atomic int *o = b[0]; const struct rt_table *rt = tegg_rt; const double end = rt->now() + 20;
if (tid == 0) while (*o < nt - 1 && rt->now() < end) sched_yield();
*o += tid == 0 && *o < nt - 1 ? 1000 : 1;"""


def kernel(name, body, symbols, divisible):
    stage = Stage(name, frozenset(), frozenset({0}), divisible=divisible)
    return KernelCode(name, HEAD.format(name=name, body=body), (stage,), (), symbols,
                      Work(0, 0, 0, 0))


divided = kernel("divided", COUNT, ("m",), True)
own = kernel("own", OWN, ("m", "each"), False)
ordered = kernel("ordered", ORDER, ("m",), True)
own_order = kernel("own_order", OWN_ORDER, ("m", "each"), False)
waiting = kernel("waiting", "extern int sched_yield(void); " + WAIT, ("m",), True)


@pytest.fixture(scope="module")
def functions():
    return library.load([divided, own, ordered, own_order, waiting]).functions


def run(code, functions, sizes, threads, seconds, buffers, repeats=1, far=frozenset()):
    calls = [Call(0, (0,), (0,), seconds, "")] * repeats
    steps = with_barriers(steps_of([code], calls, code.symbols, 0.0, far), frozenset())
    made = Program(steps, functions, code.symbols)
    made.run((ctypes.c_void_p * 1)(buffers.ctypes.data), (ctypes.c_int64 * len(sizes))(*sizes),
             threads)
    return steps


@settings(max_examples=examples(40))
@given(st.integers(0, 300), st.integers(1, 6), st.integers(0, 40), st.integers(1, 3))
def test_each_call_of_a_step_is_made_once(functions, m, threads, cut, repeats):
    out = np.zeros(max(1, m), np.int32)
    run(divided, functions, (m,), threads, cut * pieces.SECONDS, out, repeats)
    np.testing.assert_array_equal(out[:m], repeats)


@settings(max_examples=examples(40))
@given(st.integers(0, 300), st.integers(1, 6), st.integers(1, 40), st.integers(1, 3))
def test_each_piece_that_a_function_asks_for_is_given_once(functions, m, threads, each, repeats):
    out = np.zeros(max(1, m), np.int32)
    run(own, functions, (m, each), threads, 1.0, out, repeats)
    np.testing.assert_array_equal(out[:m], repeats)


def test_queues_of_many_steps_lie_in_memory_of_their_own(functions):
    out = np.zeros(40, np.int32)
    run(divided, functions, (40,), 3, 4 * pieces.SECONDS, out, repeats=700)
    np.testing.assert_array_equal(out, 700)


@pytest.mark.parametrize("code", [ordered, own_order], ids=lambda k: k.name)
def test_every_other_step_goes_through_its_pieces_backwards(functions, code):
    first, second, third = range(4), range(7, 3, -1), range(8, 12)
    for repeats, order in enumerate((first, second, third), 1):
        out = np.zeros(5, np.int32)
        run(code, functions, (4, 4), 1, 4 * pieces.SECONDS, out, repeats)
        np.testing.assert_array_equal(out, [4 * repeats, *order])


@pytest.mark.parametrize("code", [ordered, own_order], ids=lambda k: k.name)
def test_a_step_that_reads_what_is_far_goes_through_its_pieces_in_order(functions, code):
    out = np.zeros(5, np.int32)
    reading = replace(code, stages=tuple(replace(s, reads=frozenset({0})) for s in code.stages))
    run(reading, functions, (4, 4), 1, 4 * pieces.SECONDS, out, 2, frozenset({0}))
    np.testing.assert_array_equal(out, [8, *range(4, 8)])


@pytest.mark.parametrize(("columns", "far"), [(16, False), (1200, True)])
def test_large_weights_are_far(monkeypatch, columns, far):
    seen, make = [], target.steps_of
    monkeypatch.setattr(target, "steps_of", lambda *a: seen.append(make(*a)) or seen[-1])
    w = np.ones((600, columns), np.float32)
    tegg.compile(lambda x: x @ w, cache=False)(np.ones((64, 600), np.float32))
    assert any(s.streams for steps in seen for s in steps) == far


@pytest.mark.parametrize("threads", [2, 3])
def test_what_a_late_thread_leaves_others_do(functions, threads):
    """Its own other pieces are done while it waits."""
    out = np.zeros(1, np.int32)
    (step,) = run(waiting, functions, (0,), threads, 8 * pieces.SECONDS, out)
    assert step.pieces == 8 and out[0] == 8 * threads


def test_without_a_program_a_thread_does_its_own_pieces(functions):
    out = np.zeros(12, np.int32)
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    prototype(functions["own"])((ctypes.c_void_p * 1)(out.ctypes.data),
                                (ctypes.c_int64 * 2)(12, 2), 1, 3)
    np.testing.assert_array_equal(out, [0] * 4 + [1] * 4 + [0] * 4)


def test_long_steps_are_cut_where_small_shares_cost_no_more():
    def cut(code, seconds):
        (step,) = steps_of([code], [Call(0, (0,), (0,), seconds, "")], code.symbols)
        return step.pieces

    assert [cut(divided, s * pieces.SECONDS) for s in (0, 0.5, 1.5, 9, 1e6, np.inf)] == [
        1, 1, 1, 9, pieces.MOST, pieces.MOST]
    assert cut(own, 1.0) == 1


def _attention(x):
    q = x.reshape(1, 8, -1, 64)
    return tegg.scaled_dot_product_attention(q, q, q, is_causal=True)


def _convolution(x):
    w = np.random.default_rng(1).standard_normal((64, 32, 3, 3), np.float32)
    return tegg.conv2d(x.reshape(1, 32, 64, 128), w, padding=1)


KERNELS = {
    "elementwise": lambda x: tegg.gelu(x) * x, "rows": lambda x: tegg.softmax(x, -1),
    "product": lambda x: x @ x.permute(1, 0), "few rows": lambda x: x[:2] @ x.permute(1, 0),
    "attention": _attention, "convolution": _convolution}


@pytest.mark.parametrize("compilers", [
    (), (tegg.Generic(), tegg.Winograd()), (tegg.Generic(), tegg.Bf16())],
    ids=("usual", "winograd", "bf16"))
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_results_are_the_same_backwards(monkeypatch, name, threads, compilers):
    """A step after another one has the bits that it has alone."""
    monkeypatch.setenv("TEGG_THREADS", str(threads))
    f, rng = KERNELS[name], np.random.default_rng(0)
    x, y = (rng.standard_normal((512, 512), np.float32) for _ in range(2))
    alone = tegg.compile(f, *compilers, cache=False)
    both = tegg.compile(lambda x, y: (f(x), f(y)), *compilers, cache=False)
    for got, array in zip(both(x, y), (x, y)):
        assert got.tobytes() == alone(array).tobytes()
