"""Plans and calls, with kernels run by the oracle: arguments, aliasing, states, arenas, threads."""

import gc
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from profiles import examples
from interpreted import classes_of, compiled

import tegg
from tegg.ir import oracle
from tegg.ir.classes import KernelSpec
from tegg.dim import dim
from tegg.errors import ArgumentError, BackendError, DTypeError, ExtractionError, ShapeError
from tegg.ir.graph import Graph
from tegg.nn import Parameter
from tegg.planning.plan import _pack
from tegg.planning.make import _order
from tegg.runtime import workspace
from tegg.runtime.workspace import address, aligned, result


def chain():
    """y = (x + 2w) * s; s becomes s + y; the old s and y twice are outputs."""
    g, b = Graph(), dim("b", 1, 64)
    x, s = g.input("x", (b, 8), "f32"), g.input("s", (b, 8), "f32")
    w = g.input("w", (8,), "f32", "weight", np.arange(8, dtype=np.float32))
    y = g.mul(g.add(x, g.mul(w, 2)), s)
    g.outputs.update(y=y, old=s, again=y)
    g.updates[1] = g.add(s, y)
    return g


def arrays(n=3, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, 8), dtype=np.float32),
            rng.standard_normal((n, 8), dtype=np.float32))


@pytest.mark.parametrize("n", [1, 3, 64])
def test_state_is_replaced_in_place_and_outputs_see_the_old_one(n):
    program = compiled(chain())
    x, s = arrays(n)
    before = s.copy()
    r = program(x, s=s)
    want = (x + 2 * np.arange(8, dtype=np.float32)) * before
    np.testing.assert_allclose(r["y"], want, 1e-6, 1e-6)
    np.testing.assert_array_equal(r["again"], r["y"])
    np.testing.assert_array_equal(r["old"], before)
    np.testing.assert_allclose(s, before + want, 1e-6, 1e-6)


@pytest.mark.parametrize("call, error, text", [
    (lambda p, x, s: p(x), ArgumentError, "missing input s"),
    (lambda p, x, s: p(x, s, s), ArgumentError, "takes 2 inputs (x, s), got 3 by position"),
    (lambda p, x, s: p(x, s, x=x), ArgumentError, "input 'x' was given twice"),
    (lambda p, x, s: p(x, S=s), ArgumentError, "there is no input 'S'; inputs are x, s"),
    (lambda p, x, s: p(x, s, out={"z": x}), ArgumentError, "out= names z; outputs are y, old"),
    (lambda p, x, s: p(x[:, :4], s), ShapeError, "input 'x' has shape (3, 4): axis 1 must be 8"),
    (lambda p, x, s: p(x, s[:2]), ShapeError, "axis 0 must be b = 3, not 2"),
    (lambda p, x, s: p(x[0], s), ShapeError, "of rank 1; the program takes (b, 8)"),
    (lambda p, x, s: p(np.zeros((65, 8), "f"), np.zeros((65, 8), "f")), ShapeError,
     "dim 'b' is 65, outside its bounds 1..64"),
    (lambda p, x, s: p(x[:0], s[:0]), ShapeError, "dim 'b' is 0, outside its bounds"),
    (lambda p, x, s: p(x.astype("f8"), s), DTypeError, "write x.astype('float32')"),
    (lambda p, x, s: p("no", s), DTypeError, "input 'x' takes f32, not str"),
    (lambda p, x, s: p([[1], [1, 2]], s), ArgumentError, "input 'x': setting an array element"),
    (lambda p, x, s: p(x, 3.0), ArgumentError, "state 's' is replaced in place: give a NumPy"),
    (lambda p, x, s: p(x, s[:, ::-1]), ArgumentError, "must be a writable, C-contiguous array"),
    (lambda p, x, s: p(x, s, out={"y": s[:2]}), ShapeError, "the result is (3, 8)"),
    (lambda p, x, s: p(x, s, out={"y": s.astype("f8")}), DTypeError, "must be an array of float32"),
    (lambda p, x, s: p(x, s, out={"y": np.broadcast_to(np.float32(0), (3, 8))}), ArgumentError,
     "out 'y' is read-only"),
    (lambda p, x, s: p(x, s, out=[s]), ArgumentError,
     "out= takes a dict of output names and arrays, not a list; outputs are y, old, again"),
    (lambda p, x, s: p(x, s, out={"y": x, "old": x}), ArgumentError,
     "out 'old' shares memory with the array of another output, of which one would be lost"),
    (lambda p, x, s: p.bind(x[:, ::-1], s), ArgumentError, "bind needs 'x' as a C-contiguous"),
    (lambda p, x, s: p.bind(s, s), ArgumentError, "apart from every state: a copy would not see"),
    (lambda p, x, s: p.bind(x, s, out={"y": x}), ArgumentError, "apart from every input"),
])
def test_bad_calls_say_what_where_and_what_to_do_and_write_nothing(call, error, text):
    program = compiled(chain())
    x, s = arrays()
    before = s.copy()
    with pytest.raises(error) as e:
        call(program, x, s)
    assert text in str(e.value)
    np.testing.assert_array_equal(s, before)


def test_inputs_that_need_a_copy_give_the_right_result():
    program = compiled(chain())
    x, s = arrays()
    want = program(x, s.copy())["y"]
    read_only = x.copy()
    read_only.flags.writeable = False
    for same in (np.asfortranarray(x), x.astype(">f4"), x.tolist(), read_only,
                 np.stack([x, x], 1)[:, 1]):
        np.testing.assert_array_equal(program(same, s.copy())["y"], want)


def test_out_is_written_even_where_it_overlaps_an_input():
    program = compiled(chain())
    x, s = arrays()
    want = program(x, s.copy())["y"]
    given_out = np.empty_like(x)
    assert program(x, s.copy(), out={"y": given_out})["y"] is given_out
    np.testing.assert_array_equal(given_out, want)
    program(x, s.copy(), out={"y": x})
    np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("rows", [(0, 0), (0, 1), (1, 0)])
def test_an_input_that_shares_memory_with_a_state_is_read_as_it_was(rows):
    memory = arrays(5)[0]
    x, s = (memory[r:r + 4] for r in rows)
    old_x, old_s = x.copy(), s.copy()
    state = old_s.copy()
    want = compiled(chain())(old_x, state)["y"]
    np.testing.assert_array_equal(compiled(chain())(x, s)["y"], want)
    np.testing.assert_array_equal(s, state)


def test_two_states_that_share_memory_are_refused():
    g = Graph()
    a, b = g.input("a", (4,), "f32"), g.input("b", (4,), "f32")
    g.updates.update({0: g.add(a, b), 1: g.mul(a, b)})
    memory = np.ones(6, np.float32)
    with pytest.raises(ArgumentError, match="states 'a' and 'b' share memory, and both are "
                                            "replaced; give each an array of its own"):
        compiled(g)(memory[:4], memory[2:])
    np.testing.assert_array_equal(memory, np.ones(6))


def squared(weight):
    """y = x + weight * weight."""
    g = Graph()
    k = g.input("w", (4,), "f32", "weight", weight)
    g.outputs["y"] = g.add(g.input("x", (4,), "f32"), g.mul(k, k))
    return compiled(g)


def test_weights_are_bound_by_reference_and_what_is_ahead_follows_their_version():
    class Weight:
        version, data = 0, np.ones(4, np.float32)

    w = Weight()
    program = squared(w)
    assert [c.label for c in program.plan.ahead] == ["elementwise"]
    x0 = np.zeros(4, np.float32)
    np.testing.assert_array_equal(program(x0)["y"], np.ones(4))
    w.data, w.version = np.full(4, 3, np.float32), 1
    np.testing.assert_array_equal(program(x0)["y"], np.full(4, 9))
    bound = program.bind(x0)
    w.data, w.version = np.full(4, 2, np.float32), 2
    bound()
    np.testing.assert_array_equal(bound.outputs["y"], np.full(4, 4))
    w.data[:] = 5
    program.refresh()
    bound()
    np.testing.assert_array_equal(bound.outputs["y"], np.full(4, 25))


def test_a_bound_program_of_plain_weights_follows_a_refresh():
    w, x0 = np.ones(4, np.float32), np.zeros(4, np.float32)
    program = squared(w)
    bound, other = program.bind(x0), program.bind(x0)
    direct = bound.__call__
    assert direct is bound._looking.run  # nothing of ours is between a caller and the run
    for value in (3, 5):
        w[:] = value
        program.refresh()
        for b in (bound, other):
            b()
            np.testing.assert_array_equal(b.outputs["y"], np.full(4, value * value))
    assert bound._looking.run is not direct


def test_a_refresh_while_arrays_are_bound_is_not_missed():
    w = np.ones(4, np.float32)
    program = squared(w)
    prepared = program._executable.bound

    def slow(*args):  # another thread refreshes before the program knows what is bound
        run = prepared(*args)
        if w[0] == 1:
            w[:] = 3
            program.refresh()
        return run

    program._executable.bound = slow
    bound = program.bind(np.zeros(4, np.float32))
    bound()
    np.testing.assert_array_equal(bound.outputs["y"], np.full(4, 9))


def test_arrays_are_bound_while_weights_are_refreshed():
    program, failed, done = compiled(chain()), [], threading.Event()

    def refresh():
        try:
            while not done.is_set():
                program.refresh()
        except RuntimeError as error:
            failed.append(error)

    other, interval = threading.Thread(target=refresh), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other.start()
    try:
        kept = [program.bind(*arrays()) for _ in range(200)]
    finally:
        done.set()
        other.join()
        sys.setswitchinterval(interval)
    assert not failed and len(kept) == 200


@pytest.mark.parametrize("refreshed", (False, True))
def test_a_bound_program_goes_when_nobody_holds_it(refreshed):
    program = compiled(chain())
    bound = program.bind(*arrays())
    if refreshed:
        program.refresh()
        bound()
    gone = weakref.ref(bound)
    gc.disable()
    try:
        del bound
        assert gone() is None
    finally:
        gc.enable()


def test_bind_reads_and_writes_the_same_arrays_each_time():
    program = compiled(chain())
    x, s = arrays()
    bound = program.bind(x, s)
    y = bound.outputs["y"]
    for _ in range(3):
        want = (x + 2 * np.arange(8, dtype=np.float32)) * s
        bound()
        np.testing.assert_allclose(y, want, 1e-6, 1e-6)
        x += 1


def test_calls_from_several_threads_do_not_share_memory():
    program = compiled(chain())
    wrong = []

    def work(seed):
        for i in range(20):
            x, s = arrays(1 + (seed + i) % 7, seed)
            want = (x + 2 * np.arange(8, dtype=np.float32)) * s
            if not np.allclose(program(x, s)["y"], want):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_profile_runs_on_copies_of_states():
    program = compiled(chain())
    x, s = arrays()
    before = s.copy()
    rows = program.profile(x, s, repeats=2)
    np.testing.assert_array_equal(s, before)
    assert len(rows) == len(program.plan.run) and abs(sum(r["share"] for r in rows) - 1) < 1e-6


def test_profile_counts_a_weight_that_is_packed_ahead_once():
    w = np.ones((256, 384), np.float32)  # panels of any width fill it
    program = tegg.compile(lambda x: x @ w, cache=False).program(np.ones((8, 256), np.float32))
    assert [c.label for c in program.plan.ahead] == ["pack"]
    (row,) = program.profile(np.ones((8, 256), np.float32))
    assert row["bytes"] == w.nbytes + 8 * (256 + 384) * 4


def test_a_plan_is_plain_data():
    program = compiled(chain())
    again = pickle.loads(pickle.dumps((program.plan, program.signature)))
    assert again[0].show() == program.plan.show() and again[1] == program.signature


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 9), st.integers(0, 5)), max_size=20))
@settings(max_examples=examples(100), deadline=None)
def test_arena_places_never_overlap_while_both_live(rows):
    life = {i: (first, first + more) for i, (_, first, more) in enumerate(rows)}
    layout = _pack([(i, size) for i, (size, _, _) in enumerate(rows)], life)
    for i, (a, _, _) in enumerate(rows):
        assert layout.offsets[i] % 64 == 0 and layout.offsets[i] + a <= layout.peak
        for j, (b, _, _) in enumerate(rows[:i]):
            if life[i][0] <= life[j][1] and life[j][0] <= life[i][1] and a and b:
                p, q = layout.offsets[i], layout.offsets[j]
                assert p + a <= q or q + b <= p
    assert layout.live <= layout.peak


def test_a_claim_and_an_equality_are_checked_at_each_call():
    n, k, m = dim("n"), dim("k"), dim("m")
    g = Graph()
    x, y = g.input("x", (n,), "f32"), g.input("y", (k,), "f32")
    z = g.input("z", (m,), "f32")
    g.facts.assume(n - k >= 0)
    g.facts.same(m, k)
    g.outputs["r"] = g.add(g.add(g.op("Slice", x, (0,), (k,), (1,)), y), z)
    program = compiled(g)
    v = lambda n: np.ones(n, np.float32)
    np.testing.assert_array_equal(program(v(5), v(3), v(3))["r"], np.full(3, 3))
    with pytest.raises(ShapeError, match="assumed that n-k >= 0; it is -1"):
        program(v(2), v(3), v(3))
    with pytest.raises(ShapeError, match="stated that"):
        program(v(5), v(3), v(2))


def test_a_symbol_that_no_axis_gives_is_named():
    n = dim("n")
    g = Graph()
    g.outputs["y"] = g.mul(g.input("x", (2 * n,), "f32"), 2)
    with pytest.raises(ShapeError, match="no input has an axis of exactly n"):
        compiled(g)


def test_scatter_into_a_state_is_a_slot_write():
    g = Graph()
    cache, i = g.input("cache", (4, 2), "f32"), g.input("i", (1,), "i32")
    row = g.input("row", (1, 2), "f32")
    g.updates[0] = g.op("Scatter", cache, i, row, 0, "last")
    program = compiled(g)
    assert not [b for b in program.plan.buffers if b.kind == "arena"]
    c = np.zeros((4, 2), np.float32)
    program(c, np.array([2], np.int32), np.ones((1, 2), np.float32))
    np.testing.assert_array_equal(c, [[0, 0], [0, 0], [1, 1], [0, 0]])


def test_a_permuted_update_goes_through_scratch():
    g = Graph()
    s = g.input("s", (3, 3), "f32")
    g.updates[0] = g.permute(s, (1, 0))
    program = compiled(g)
    a = np.arange(9, dtype=np.float32).reshape(3, 3)
    want = oracle.evaluate([g.updates[0]], {0: a})[0].copy()
    program(a)
    np.testing.assert_array_equal(a, want)


def test_lists_must_fit_the_dtype():
    g = Graph()
    g.outputs["y"] = g.input("x", (2,), "i8")
    with pytest.raises(DTypeError, match=r"input 'x': \[1, 300\] does not fit i8"):
        compiled(g)([1, 300])


def test_values_inside_are_not_too_large():
    g, b = Graph(), dim("b", 1)
    x = g.input("x", (b,), "f32")
    wide = g.expand(g.reshape(x, (b, *[1] * 6)), (b,) * 7)
    for axis in range(7):
        wide = g.op("MaxReduce", wide, axis)
    g.outputs["y"] = wide
    with pytest.raises(ShapeError, match="a value of shape .* is too large"):
        compiled(g)(np.ones(1024, np.float32))


def test_kernels_that_wait_for_one_another_are_refused():
    g = Graph()
    g.input("x", (2,), "f32")
    kernels = [KernelSpec((i,), (j,), {}, 0.0) for i, j in ((8, 9), (9, 8))]
    with pytest.raises(ExtractionError, match="the chosen kernels wait for one another; no order "
                                              "can run them"):
        _order(classes_of(g), kernels)


def test_memory_that_is_not_there_is_an_error_of_ours():
    for nbytes in (2**55, 2**63):
        with pytest.raises(BackendError, match=f"a run needs {nbytes:,} bytes for values between"):
            aligned(nbytes)


def test_a_refresh_in_the_middle_of_a_run_leaves_no_old_weights(monkeypatch):
    w = Parameter(np.ones(4, np.float32))
    program = tegg.compile(lambda x: x + w * w).program(np.zeros(4, np.float32))
    loaded, x = program._executable, np.zeros(4, np.float32)
    whole = type(loaded).run

    def run(self, buffers, sizes):
        whole(self, buffers, sizes)
        monkeypatch.undo()
        w.data[:] = 3
        program.refresh()

    monkeypatch.setattr(type(loaded), "run", run)
    assert next(iter(program(x).values())).tolist() == [1] * 4
    for _ in range(2):
        assert next(iter(program(x).values())).tolist() == [9] * 4


@pytest.mark.parametrize("system", ("has them", "has none"))
def test_what_fills_large_pages_begins_with_one(monkeypatch, system):
    asked = []
    if system == "has none":
        monkeypatch.setattr(workspace, "_madvise", lambda: None)
    else:
        monkeypatch.setattr(workspace, "_madvise", lambda: lambda *a: asked.append(a) or 0)
        for name, number in (("HUGEPAGE", 14), ("NOHUGEPAGE", 15)):
            monkeypatch.setattr(workspace.mmap, f"MADV_{name}", number, raising=False)
    page = 1 << 21
    for nbytes in (page - 1, page, 3 * page + 70_000):
        x = aligned(nbytes)
        assert x.nbytes == nbytes and address(x) % (page if nbytes >= page else 64) == 0
        x[-1] = 1
    sizes = [] if system == "has none" else [page, 3 * page]
    assert [n for _, n, wish in asked if wish == 14] == sizes
    assert [n + at for at, n, wish in asked if wish == 14] == [at for at, _, wish in asked if wish == 15]
    assert all(0 <= n <= 2 * page for _, n, wish in asked if wish == 15)


def test_large_outputs_begin_at_a_cache_line():
    for shape in ((1 << 18,), (600, 701), (3, 500, 400)):
        y = result(shape, np.dtype(np.float32))
        assert address(y) % 64 == 0 and y.shape == shape and y.dtype == np.float32
        assert y.flags.c_contiguous and y.flags.writeable
    assert result((0, 5), np.dtype(np.float32)).shape == (0, 5)
    assert result((), np.dtype(np.int64)).shape == ()
