"""Kernels as a library, programs, and the thread pool: order, barriers, forks, busy pools."""

import ctypes
import multiprocessing
import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from tegg.backends.cpu import library, target
from tegg.backends.cpu.program import Program, Step, copy_step, encoded, steps_of, with_barriers
from tegg.backends.cpu.runtime import runtime, text

import tegg
from tegg.cache import Cache
from tegg.dim import dim, evaluate
from tegg.errors import BackendError
from tegg.kernel.code import KernelCode, Stage, Work
from tegg.planning.plan import Call

NO_WORK = Work(0, 0, 0, 0)
HEAD = "void {name}(void *const *b, const int64_t *n, int tid, int nt) {{ {body} }}\n"


def kernel(name, body, reads, writes, symbols=(), parallel=True):
    stage = Stage(name, frozenset(reads), frozenset(writes), parallel)
    return KernelCode(name, HEAD.format(name=name, body=body), (stage,), (), symbols, NO_WORK)


# o[i] = x[m - 1 - i] + 1, shared between threads by blocks: it reads what others wrote
TURN = """const int64_t m = n[0]; const double *x = b[0]; double *o = b[1];
for (int64_t i = m * tid / nt; i < m * (tid + 1) / nt; i++) o[i] = x[m - 1 - i] + 1;"""
turn = kernel("turn", TURN, {0}, {1}, ("m",))


class Memory:
    """Arrays as a table of pointers."""

    def __init__(self, *arrays):
        self.arrays = arrays
        self.pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


def sizes(*values):
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def program(kernels, calls, symbols, shared=frozenset(), extra=()):
    steps = [*steps_of(kernels, calls, symbols, serial=2e-6), *extra]
    return Program(with_barriers(steps, shared), library.load(kernels).functions, symbols)


def call(number, *buffers, seconds=1.0):
    return Call(number, buffers, (0,), seconds, "")


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("m", [0, 1, 7, 1000])
def test_steps_wait_for_one_another(threads, m):
    run = program([turn], [call(0, i, i + 1) for i in range(20)], ("m",))
    for _ in range(20):
        memory = Memory(np.arange(m, dtype=np.float64), *(np.zeros(m) for _ in range(20)))
        run.run(memory.pointers, sizes(m), threads)
        np.testing.assert_array_equal(memory.arrays[-1], np.arange(m) + 20.0)


def test_a_call_begins_where_it_is_told_to():
    run = program([turn], [Call(0, (0, 1), (0,), 1.0, "", (24, 0)),
                           Call(0, (0, 1), (0,), 1.0, "", (0, 40))], ("m",))
    x, y = np.arange(8.0), np.zeros(10)
    memory = Memory(x, y)
    for threads in (1, 2):
        run.run(memory.pointers, sizes(5), threads)
        np.testing.assert_array_equal(y, np.append(x[:2:-1], x[4::-1]) + 1)


def test_memory_is_given_again_to_later_buffers():
    """Buffers 1 and 3 lie in one place, which the plan says by calling them shared."""
    m = 4096
    first, second, last = np.zeros(m), np.zeros(m), np.zeros(m)
    x = np.arange(m, dtype=np.float64)
    table = (ctypes.c_void_p * 5)(*(a.ctypes.data for a in (x, first, second, first, last)))
    calls = [call(0, 0, 1), call(0, 1, 2), call(0, 0, 3), call(0, 3, 4)]
    shared = frozenset({1, 2, 3})
    run = program([turn], calls, ("m",), shared)
    steps = with_barriers(steps_of([turn], calls, ("m",)), shared)
    assert [s.barrier for s in steps] == [False, True, True, True]
    for _ in range(50):
        run.run(table, sizes(m), 3)
        np.testing.assert_array_equal(second, x + 2)
        np.testing.assert_array_equal(last, x + 2)


buffers = st.frozensets(st.integers(0, 5), max_size=2)
steps = st.lists(st.builds(
    lambda r, w, parallel, number: Step("f", (), r, w, parallel, call=number),
    buffers, buffers, st.booleans(), st.integers(0, 4)), max_size=8)


@given(steps, buffers)
def test_barriers_stand_where_they_must_and_only_there(found, shared):
    out = with_barriers(found, shared)

    def clash(i, j):
        """Whether it would do harm to run a pair of steps at once."""
        a, b = out[i], out[j]
        both = a.reads | a.writes
        alias = any(w in shared and t in shared and t not in b.writes
                    for w in b.writes for t in both)
        return (a.parallel or b.parallel) and bool(
            both & b.writes or a.writes & b.reads or alias or a.call == b.call)

    last = 0
    for j, step in enumerate(out):
        assert step.barrier == any(clash(i, j) for i in range(last, j))
        last = j if step.barrier else last


def test_small_and_serial_steps_run_on_one_thread():
    count = kernel("count", "__atomic_fetch_add((int64_t *)b[0], nt * 100 + 1, 0);", set(), {0})
    alone = kernel("alone", "__atomic_fetch_add((int64_t *)b[0], nt * 100 + 1, 0);", set(), {0},
                   parallel=False)
    for k, seconds, total in ((count, 1.0, 3 * 301), (count, 0.0, 3 * 301), (count, 1e-6, 101),
                              (alone, 1.0, 101)):
        memory = Memory(np.zeros(1, np.int64))
        program([k], [call(0, 0, seconds=seconds)], ()).run(memory.pointers, sizes(), 3)
        assert memory.arrays[0][0] == total


def test_symbols_are_given_in_the_order_of_the_kernel():
    k = kernel("take", "*(int64_t *)b[0] = n[0] * 1000 + n[1];", set(), {0}, ("q", "p"),
               parallel=False)
    memory = Memory(np.zeros(1, np.int64))
    program([k], [call(0, 0)], ("a", "p", "q")).run(memory.pointers, sizes(1, 2, 3), 1)
    assert memory.arrays[0][0] == 3002


s, t = dim("s"), dim("t")


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 2), st.integers(0, 2)), max_size=4),
       st.integers(0, 9), st.integers(0, 9))
def test_polynomials(terms, a, b):
    poly = sum((c * _power(s, i) * _power(t, j) for c, i, j in terms), 0)
    code = encoded(poly, ("s", "t"))
    value = ctypes.c_int64(-1)
    evaluate_c = runtime().free.rt_evaluate
    assert evaluate_c(sizes(*code), sizes(a, b), ctypes.byref(value))
    assert value.value == evaluate(poly, {"s": a, "t": b})


def _power(x, n):
    return 1 if n == 0 else x * _power(x, n - 1)


def test_a_polynomial_that_overflows_is_refused():
    value = ctypes.c_int64()
    for poly in (s * s * s, s * s + s * s + s * s):
        assert not runtime().free.rt_evaluate(sizes(*encoded(poly, ("s",))), sizes(2**31 + 2**30),
                                              ctypes.byref(value))


@pytest.mark.parametrize("threads", [1, 3])
@settings(max_examples=examples(25))
@given(m=st.integers(0, 700))
def test_copies(threads, m):
    x, o = np.random.default_rng(0).integers(0, 255, m + 8, np.uint8), np.zeros(m + 8, np.uint8)
    memory = Memory(x, o)
    Program([copy_step(0, 1, s + 3)], {}, ("s",)).run(memory.pointers, sizes(m), threads)
    np.testing.assert_array_equal(o[:m + 3], x[:m + 3])
    assert not o[m + 3:].any()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_profile_has_the_seconds_of_each_step(at, threads):
    """A step is charged what it takes, and all of them together no more than has passed."""
    wait = kernel("wait", "double end = tegg_rt->now() + 0.005; while (tegg_rt->now() < end) {}",
                  set(), {0})
    none = kernel("none", "", set(), {0})
    run = program([wait, none], [call(0 if i == at else 1, 0) for i in range(3)], ())
    begun = time.perf_counter()
    seconds = run.profile(Memory(np.zeros(1)).pointers, sizes(), threads)
    assert sum(seconds) <= time.perf_counter() - begun
    assert len(seconds) == 3 and min(seconds) >= 0 and seconds[at] >= 0.005


# ---- the pool
def test_threads_that_call_at_once_get_right_results():
    run = program([turn], [call(0, i, i + 1) for i in range(8)], ("m",))
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).random(513)
        memory = Memory(x, *(np.zeros(513) for _ in range(8)))
        for _ in range(150):
            memory.arrays[-1][:] = 0
            run.run(memory.pointers, sizes(513), 2)
            if not (np.abs(memory.arrays[-1] - x - 8) < 1e-12).all():
                wrong.append(seed)

    running = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in running)


def test_a_busy_pool_runs_the_task_where_it_is_called():
    """Two programs wait for each other: with the pool taken, the second runs at once, alone."""
    meet = kernel("meet", """if (tid) return; int *flag = b[0]; *(int *)b[1] = nt;
        __atomic_fetch_add(flag, 1, 5); while (__atomic_load_n(flag, 5) < 2) {}""", set(), {0, 1})
    run = program([meet], [call(0, 0, 1)], ())
    flag = np.zeros(1, np.int32)
    memories = [Memory(flag, np.zeros(1, np.int32)) for _ in range(2)]
    running = [threading.Thread(target=run.run, args=(m.pointers, sizes(), 2)) for m in memories]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert sorted(int(m.arrays[1][0]) for m in memories) == [1, 2]


def held(flag):
    """A program whose thread 0 notes its number of threads and then waits for a flag."""
    hold = kernel("hold", """if (tid) return; int *flag = b[0]; *(int *)b[1] = nt;
        while (!__atomic_load_n(flag, 5)) {}""", set(), {0, 1})
    memory = Memory(flag, np.zeros(1, np.int32))
    return program([hold], [call(0, 0, 1)], ()), memory


def started(run, memory, threads):
    """A thread that runs it, when it has noted its number."""
    thread = threading.Thread(target=run.run, args=(memory.pointers, sizes(), threads))
    thread.start()
    while not memory.arrays[1][0]:
        time.sleep(0.001)
    return thread


def test_callers_together_keep_no_more_threads_busy_than_one_would():
    flags = [np.zeros(1, np.int32) for _ in range(3)]
    (first, a), (second, b), (third, c) = map(held, flags)
    one = started(first, a, 3)            # has the pool
    two = started(second, b, 3)           # finds it busy
    flags[0][0] = 1
    one.join(60)
    three = started(third, c, 3)          # has the pool, but for the thread of the second
    assert [int(m.arrays[1][0]) for m in (a, b, c)] == [3, 1, 2]
    flags[1][0] = flags[2][0] = 1
    two.join(60)
    three.join(60)
    run, m = held(np.ones(1, np.int32))
    started(run, m, 3).join(60)
    assert m.arrays[1][0] == 3            # all of them again


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_callers_start_no_threads_beside_the_pool():
    run = program([turn], [call(0, 0, 1)], ("m",))

    def many(n, out):
        memory = Memory(np.zeros(1000), np.zeros(1000))
        for _ in range(50):
            run.run(memory.pointers, sizes(1000), 3)
        out.append(len(os.listdir("/proc/self/task")))

    many(0, counts := [])
    running = [threading.Thread(target=many, args=(i, counts)) for i in range(6)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert max(counts) <= counts[0] + len(running)


def test_idle_workers_sleep():
    run = program([turn], [call(0, 0, 1)], ("m",))
    memory = Memory(np.zeros(64), np.zeros(64))
    run.run(memory.pointers, sizes(64), 3)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.25)
    assert time.process_time() - before < 0.05
    run.run(memory.pointers, sizes(64), 3)  # and wake
    assert (memory.arrays[1] == 1).all()


linux = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")


def affinities():
    return {frozenset(os.sched_getaffinity(int(t))) for t in os.listdir("/proc/self/task")}


def become(allowed):
    """Whether threads soon may use these cores: those without a part in a round wake late."""
    end = time.monotonic() + 10
    while affinities() != allowed and time.monotonic() < end:
        time.sleep(0.01)
    return affinities() == allowed


@linux
@pytest.mark.skipif(hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < 2,
                    reason="needs two cores")
def test_a_woken_worker_runs_beside_who_woke_it():
    core = kernel("core", """extern int sched_getcpu(void); int *o = b[0]; o[tid] = sched_getcpu();
        double *x = b[1]; x += tid; for (int i = 0; i < 100000; i++) *x += 1 / (*x + i + 1);""",
                  set(), {0, 1})
    run = program([core], [call(0, 0, 1)], ())
    cores = np.zeros((24, 2), np.int32)
    whole = {frozenset(os.sched_getaffinity(0))}
    assert become(whole)  # none of an earlier round is still on its way
    for row in cores:
        time.sleep(0.03)  # long enough for a virtual machine to give its idle core away
        run.run(Memory(row, np.zeros(2)).pointers, sizes(), 2)
    assert (cores[:, 0] != cores[:, 1]).sum() >= 12  # on a busy machine some share one
    assert become(whole)


@linux
def test_threads_keep_the_cores_that_they_may_use():
    """Also where that is one: nothing is left beside its waker's."""
    run = program([turn], [call(0, 0, 1)], ("m",))
    memory = Memory(np.zeros(64), np.zeros(64))
    run.run(memory.pointers, sizes(64), 3)
    whole, one = os.sched_getaffinity(0), {min(os.sched_getaffinity(0))}
    assert become({frozenset(whole)})  # one that wakes late would lift what is set before that
    tasks = [int(t) for t in os.listdir("/proc/self/task")]
    try:
        for allowed in (one, whole):
            for task in tasks:
                os.sched_setaffinity(task, allowed)
            for _ in range(3):
                time.sleep(0.01)
                run.run(memory.pointers, sizes(64), 3)
            assert (memory.arrays[1] == 1).all()
            assert become({frozenset(allowed)})
    finally:
        for task in tasks:
            os.sched_setaffinity(task, whole)


def run_in_child(out):
    run = program([turn], [call(0, 0, 1), call(0, 1, 2)], ("m",))
    memory = Memory(np.zeros(64), np.zeros(64), np.zeros(64))
    run.run(memory.pointers, sizes(64), 3)
    out.put(float(memory.arrays[2].sum()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own():
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    stop = threading.Event()
    run = program([turn], [call(0, 0, 1)], ("m",))

    def keep_busy():
        memory = Memory(np.zeros(100_000), np.zeros(100_000))
        while not stop.is_set():
            run.run(memory.pointers, sizes(100_000), 2)

    running = threading.Thread(target=keep_busy)
    running.start()
    try:
        for _ in range(3):
            child = context.Process(target=run_in_child, args=(out,))
            child.start()
            assert out.get(timeout=60) == 128.0
            child.join(60)
            assert child.exitcode == 0
    finally:
        stop.set()
        running.join()


def test_scratch_is_aligned_and_of_each_thread():
    body = """double *p = rt_scratch(n[0] * 8); int64_t *o = b[0];
    for (int64_t i = 0; i < n[0]; i++) p[i] = tid;
    int64_t bad = (uintptr_t)p % 64 != 0;
    for (int64_t i = 0; i < n[0]; i++) bad += p[i] != tid;
    o[tid] = bad;"""
    run = program([kernel("own", body, set(), {0}, ("m",))], [call(0, 0)] * 3, ("m",))
    for m in (1, 1000, 10, 200_000):
        memory = Memory(np.ones(3, np.int64))
        run.run(memory.pointers, sizes(m), 3)
        assert not memory.arrays[0].any()


def places_of_scratch(m: int, threads: int) -> list[int]:
    """Where the blocks of so many bytes lie, of a team whose first thread is a fresh one."""
    body = "((int64_t *)b[0])[tid] = (uintptr_t)rt_scratch(n[0]);"
    run = program([kernel("large", body, set(), {0}, ("m",))], [call(0, 0)], ("m",))
    memory = Memory(np.zeros(threads, np.int64))
    fresh = threading.Thread(target=run.run, args=(memory.pointers, sizes(m), threads))
    fresh.start()
    fresh.join()
    return [int(x) for x in memory.arrays[0]]


def test_large_scratch_of_a_team_lies_side_by_side_in_huge_pages():
    first, second = places_of_scratch(5 << 20, 2)
    assert abs(first - second) == 5 << 20 and min(first, second) % (1 << 21) == 0


def test_scratch_that_would_leave_a_huge_page_half_empty_lies_in_small_ones():
    (alone,) = places_of_scratch((1 << 20) - (1 << 16), 1)
    (most,) = places_of_scratch((1 << 20) + (1 << 18), 1)
    assert alone % (1 << 21) != 0 and most % (1 << 21) == 0


def test_scratch_grows_and_is_given_back():
    """Blocks of regions and blocks of their own, in any order: each holds what was asked for."""
    body = "memset(rt_scratch(n[0]), 7, n[0]); *(int64_t *)b[0] += 1;"
    run = program([kernel("grown", body, set(), {0}, ("m",), parallel=False)], [call(0, 0)], ("m",))
    memory = Memory(np.zeros(1, np.int64))

    def work():
        for m in (100, 1 << 18, 1 << 19, 5000, 3 << 20, 1 << 20, 4 << 20):
            run.run(memory.pointers, sizes(m), 1)
    for _ in range(3):
        fresh = threading.Thread(target=work)
        fresh.start()
        fresh.join()
    assert memory.arrays[0][0] == 21


# ---- libraries
def test_kernels_that_differ_in_name_only_are_compiled_once():
    kernels = [kernel(n, "*(int *)b[0] += 1;", set(), {0}, parallel=False) for n in ("k1", "k12")]
    loaded = library.load(kernels)
    assert loaded.functions["k1"] == loaded.functions["k12"] and "k12" not in loaded.source
    memory = Memory(np.zeros(1, np.int32))
    program(kernels, [call(0, 0), call(1, 0)], ()).run(memory.pointers, sizes(), 1)
    assert memory.arrays[0][0] == 2


def test_many_kernels_are_dealt_to_several_units(monkeypatch):
    kernels = [kernel(f"k{i}", f"*(int *)b[0] += {i}; /*{'x' * 4000}*/", {0}, {0}, parallel=False)
               for i in range(12)]
    monkeypatch.setattr(library, "available", lambda: 3)
    groups = library._groups(kernels)
    assert len(groups) == 3 and sorted(k.name for g in groups for k in g) == sorted(
        k.name for k in kernels)
    memory = Memory(np.zeros(1, np.int32))
    program(kernels, [call(i, 0) for i in range(12)], ()).run(memory.pointers, sizes(), 1)
    assert memory.arrays[0][0] == sum(range(12))


def test_what_is_computed_ahead_takes_all_cores(monkeypatch):
    monkeypatch.setenv("TEGG_THREADS", "1")
    monkeypatch.setattr(target, "cores", lambda: 3)
    run, threads, w = Program.run, [], np.random.default_rng(0).random((96, 80), np.float32)

    def told(self, buffers, sizes, nt):
        threads.append(nt)
        run(self, buffers, sizes, nt)
    monkeypatch.setattr(Program, "run", told)
    x = np.random.default_rng(1).random((40, 96), np.float32)
    product = tegg.compile(lambda x: x @ w, cache=False)
    assert np.allclose(product(x), x @ w, rtol=1e-5) and threads == [3, 1]  # the run follows


def test_no_kernels_and_no_steps():
    program([], [], ()).run(Memory(np.zeros(1)).pointers, sizes(), 2)


def test_a_kernel_that_does_not_compile(tmp_path):
    with pytest.raises(BackendError, match="failed on kernels broken with status"):
        library.load([kernel("broken", "wrong;", set(), {0})], cache=Cache(tmp_path, 1 << 30))


def test_headers_are_put_in_place():
    assert '#include "' not in text("native/caller.c") and "struct rt_table" in text(
        "native/caller.c")
