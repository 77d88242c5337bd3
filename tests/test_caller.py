"""The fast call path: what it takes, what it leaves to the slow way, threads, lifetimes."""

import ctypes
import gc
import os
import sys
import threading
import time
import weakref

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tegg.backends.cpu import caller as module
from tegg.backends.cpu import library
from tegg.backends.cpu.caller import ArraySpec, Caller, bind
from tegg.backends.cpu.program import Program, steps_of, with_barriers
from tegg.backends.cpu.runtime import _is_as_expected, arrays_are_as_expected, runtime

from tegg.dim import dim, symbols
from tegg.kernel.code import KernelCode, Stage, Work
from tegg.planning.plan import Call

F32 = np.dtype(np.float32)
HEAD = "void {name}(void *const *b, const int64_t *n, int tid, int nt) {{ {body} }}\n"


def made(name, body, count, names=()):
    stage = Stage(name, frozenset(range(count - 1)), frozenset({count - 1}), False)
    k = KernelCode(name, HEAD.format(name=name, body=body), (stage,), (), names, Work(0, 0, 0, 0))
    steps = steps_of([k], [Call(0, tuple(range(count)), (0,), 0.0, "")], names)
    return Program(with_barriers(steps, set()), library.load([k]).functions, names)


def table(count, **given):
    out = (ctypes.c_void_p * count)()
    for i, a in given.items():
        out[int(i[1:])] = a.ctypes.data
    return out


@pytest.fixture(scope="module")
def add():
    """o = x + y for eight floats."""
    return made("add8", "for (int i = 0; i < 8; i++) "
                "((float *)b[2])[i] = ((float *)b[0])[i] + ((float *)b[1])[i];", 3)


def adder(program, **options):
    c = Caller(program, [ArraySpec("x", F32, (8,), (0,)), ArraySpec("y", F32, (8,), (1,))],
               [ArraySpec("o", F32, (8,), (2,))], **options)
    c.prepare(table(3), None, 1, False)
    return c


X, Y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)


def test_results_as_a_tuple_or_by_name(add):
    (got,) = adder(add).call(X, Y)
    np.testing.assert_array_equal(got, X + Y)
    named = adder(add, named=True).call(X, Y)
    assert list(named) == ["o"]
    np.testing.assert_array_equal(named["o"], X + Y)


def test_inputs_by_name(add):
    call = adder(add).call
    for got in (call(X, y=Y), call(x=X, y=Y), call(y=Y, x=X)):
        np.testing.assert_array_equal(got[0], X + Y)
    assert call(X, x=Y) is None and call(X, z=Y) is None and call(x=X) is None


def test_results_may_be_given(add):
    out = np.zeros(8, np.float32)
    assert adder(add).call(X, Y, out)[0] is out
    np.testing.assert_array_equal(out, X + Y)


def big_endian(a):
    return a.astype(a.dtype.newbyteorder(">"))


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def misaligned(a):
    raw = np.empty(a.nbytes + 1, np.uint8)[1:]
    raw[:] = a.view(np.uint8)
    return raw.view(a.dtype)


class Sub(np.ndarray):
    pass


ODD = {"strided": lambda a: np.repeat(a, 2)[::2], "reversed": lambda a: a[::-1],
       "float64": lambda a: a.astype(np.float64), "int32": lambda a: a.astype(np.int32),
       "big-endian": big_endian, "misaligned": misaligned, "matrix": lambda a: a.reshape(8, 1),
       "scalar": lambda a: a[0], "rank 0": lambda a: a[0].reshape(()), "short": lambda a: a[:7],
       "empty": lambda a: a[:0], "subclass": lambda a: a.view(Sub), "list": lambda a: a.tolist(),
       "none": lambda a: None, "number": lambda a: 3.5, "text": lambda a: "x",
       "bytes": lambda a: a.tobytes(), "view of memory": memoryview, "type": type,
       "masked": np.ma.masked_array}


@pytest.mark.parametrize("name", ODD)
def test_what_is_not_exactly_right_is_left_alone(add, name):
    call, odd = adder(add).call, ODD[name](X)
    assert call(odd, Y) is None and call(X, odd) is None and call(y=odd, x=X) is None
    out = ODD[name](np.full(8, 7, np.float32))
    assert call(X, Y, out) is None
    if isinstance(out, np.ndarray):
        assert (out == 7).all()


def test_an_input_may_be_read_only_and_a_result_not(add):
    call = adder(add).call
    np.testing.assert_array_equal(call(read_only(X), Y)[0], X + Y)
    assert call(X, Y, read_only(X)) is None


def test_a_wrong_number_of_arguments(add):
    call = adder(add).call
    for args in ((), (X,), (X, Y, X.copy(), X)):
        assert call(*args) is None


def test_memory_that_is_written_is_shared_with_nothing(add):
    call, base = adder(add).call, np.zeros(24, np.float32)
    assert call(X, base[:8], base[4:12]) is None
    assert call(base[:8], Y, base[:8]) is None
    assert call(base[:8], base[:8], base[8:16]) is not None  # inputs may be one and the same


def test_state_is_written_in_place():
    program = made("bump", "for (int i = 0; i < 8; i++) ((float *)b[0])[i] += 1;", 1)
    c = Caller(program, [ArraySpec("s", F32, (8,), (0,), writable=True)], [])
    c.prepare(table(1), None, 1, False)
    state = np.zeros(8, np.float32)
    assert c.call(state) == () and c.call(s=state) == ()
    assert (state == 2).all()
    assert c.call(read_only(state)) is None
    both = Caller(program, [ArraySpec("s", F32, (8,), (0,), writable=True),
                            ArraySpec("t", F32, (8,), ())], [])
    both.prepare(table(1), None, 1, False)
    assert both.call(state, state) is None and both.call(state, state.copy()) == ()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.bool_, np.int64, np.uint8])
def test_every_dtype(dtype):
    d = np.dtype(dtype)
    program = made("copy32", "__builtin_memcpy(b[1], b[0], n[0] * n[1]);", 2, ("c", "e"))
    c = Caller(program, [ArraySpec("x", d, (dim("c"), 1), (0,)),
                         ArraySpec("e", np.dtype(np.int8), (dim("e"),), ())],
               [ArraySpec("o", d, (dim("c"),), (1,))], _symbols(dim("c"), dim("e")))
    c.prepare(table(2), None, 1, False, (0, 0), (100, 100))
    x = np.arange(9).reshape(9, 1).astype(d)
    (got,) = c.call(x, np.zeros(d.itemsize, np.int8))
    assert got.dtype == d and (got == x[:, 0]).all()


# ---- sizes
def _symbols(*dims):
    return sorted({s for d in dims for s in symbols(d)}, key=lambda s: s.name)


m, n = dim("m", min=1, max=50), dim("n", min=0)


@pytest.fixture(scope="module")
def outer():
    """o[i, j] = x[i] * y[j], with its own shape written behind it."""
    program = made("outer", """for (int i = 0; i < n[0]; i++) for (int j = 0; j < n[1]; j++)
        ((float *)b[3])[i * n[1] + j] = ((float *)b[0])[i] * ((float *)b[1])[j];""", 4,
                   ("m", "n"))
    return lambda claims=(): Caller(
        program, [ArraySpec("x", F32, (m,), (0,)), ArraySpec("y", F32, (n,), (1,)),
                  ArraySpec("z", F32, (m * n + 1, 2), (2,))],
        [ArraySpec("o", F32, (m, n), (3,)), ArraySpec("p", F32, (2 * n,), ())],
        _symbols(m, n), claims)


@given(a=st.integers(0, 60), b=st.integers(0, 9), off=st.integers(-1, 1))
def test_sizes_are_bound_by_shapes_and_checked(outer, a, b, off):
    c = outer((n + 3 - m,))
    c.prepare(table(4), None, 1, False, (0, 0), (1000, 8))
    x, y = np.arange(a, dtype=np.float32), np.arange(b, dtype=np.float32)
    z = np.zeros((max(0, a * b + 1 + off), 2), np.float32)
    got = c.call(x, y, z)
    right = 1 <= a <= 50 and b <= 8 and len(z) == a * b + 1 and b + 3 - a >= 0
    assert (got is not None) == right
    if right:
        np.testing.assert_array_equal(got[0], np.outer(x, y))
        assert got[1].shape == (2 * b,)
        assert c.call(x, y, z, got[0], np.zeros(2 * b + 1, np.float32)) is None
        assert c.call(x, y, z, got[0], got[1])[1] is got[1]


def test_memory_is_prepared_for_exact_sizes(outer):
    c = outer()
    x, y, z = np.ones(2, np.float32), np.ones(3, np.float32), np.ones((7, 2), np.float32)
    assert c.call(x, y, z) is None
    c.prepare(table(4), None, 1, False, (2, 4))
    assert c.call(x, y, z) is None
    c.prepare(table(4), None, 1, False, (2, 3))
    assert c.call(x, y, z) is not None
    c.clear()
    assert c.call(x, y, z) is None


def test_a_symbol_that_no_axis_gives(add):
    c = Caller(made("free", "", 1, ("q",)), [ArraySpec("x", F32, (2 * dim("q"),), (0,))], [],
               _symbols(dim("q")))
    c.prepare(table(1), None, 1, False, (0,), (99,))
    assert c.call(np.zeros(4, np.float32)) is None


# ---- results that Python allocates
def test_an_allocator_that_raises(add):
    def refuse(shape, dtype):
        raise MemoryError(f"no room for {shape}")

    spec = ArraySpec("o", F32, (8,), (2,), allocate=refuse)
    c = Caller(add, [ArraySpec("x", F32, (8,), (0,)), ArraySpec("y", F32, (8,), (1,))], [spec])
    c.prepare(table(3), None, 1, False)
    for _ in range(2):
        with pytest.raises(MemoryError, match=r"no room for \(8,\)"):
            c.call(X, Y)


def test_an_allocator_that_gives_something_else(add):
    for other in (np.zeros(9, np.float32), np.zeros(8), None):
        spec = ArraySpec("o", F32, (8,), (2,), allocate=lambda shape, dtype, a=other: a)
        c = Caller(add, [ArraySpec("x", F32, (8,), (0,)), ArraySpec("y", F32, (8,), (1,))], [spec])
        c.prepare(table(3), None, 1, False)
        assert c.call(X, Y) is None and c.call(X, Y) is None


def test_a_call_inside_the_allocator_finds_the_memory_taken(add):
    inner = []

    def allocate(shape, dtype):
        inner.append(c.call(X, Y, np.empty(8, np.float32)))
        return np.empty(shape, dtype)

    spec = ArraySpec("o", F32, (8,), (2,), allocate=allocate)
    c = Caller(add, [ArraySpec("x", F32, (8,), (0,)), ArraySpec("y", F32, (8,), (1,))], [spec])
    c.prepare(table(3), None, 1, False)
    np.testing.assert_array_equal(c.call(X, Y)[0], X + Y)
    assert inner == [None]
    c.prepare(table(3), None, 1, False)  # twice prepared: two calls in flight
    c.call(X, Y)
    np.testing.assert_array_equal(inner[-1][0], X + Y)


# ---- threads, processes and lifetimes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_memory_that_a_parent_uses_is_free_in_its_child(add):
    status = []

    def allocate(shape, dtype):
        if not status:
            child = os.fork()
            if child == 0:
                got = c.call(X, Y, np.empty(8, np.float32))
                os._exit(0 if got is not None and (got[0] == X + Y).all() else 1)
            status.append(os.waitpid(child, 0)[1])
        return np.empty(shape, dtype)

    spec = ArraySpec("o", F32, (8,), (2,), allocate=allocate)
    c = Caller(add, [ArraySpec("x", F32, (8,), (0,)), ArraySpec("y", F32, (8,), (1,))], [spec])
    c.prepare(table(3), None, 1, False)
    np.testing.assert_array_equal(c.call(X, Y)[0], X + Y)
    assert status == [0]


@pytest.fixture(scope="module")
def gate():
    """Waits for the flag that it is given, in which it says that it runs."""
    return made("gate", """int *flag = b[0]; __atomic_store_n(flag, 1, 5);
        while (__atomic_load_n(flag, 5) != 2) {}""", 1)


def test_a_long_run_lets_other_threads_go_on(gate):
    flag, keep = np.zeros(1, np.int32), Sub(3)
    c = Caller(gate, [ArraySpec("f", flag.dtype, (1,), (0,), writable=True)], [])
    c.prepare(table(1), keep, 1, True)
    alive = weakref.ref(keep)
    del keep
    running = threading.Thread(target=c.call, args=(flag,))
    running.start()
    while flag[0] != 1:
        pass
    assert c.call(np.zeros(1, np.int32)) is None  # its memory is in use
    c.clear()
    gc.collect()
    assert alive() is not None  # and is kept until the run ends
    flag[0] = 2
    running.join(60)
    assert not running.is_alive() and alive() is None


def test_bound_runs_go_one_after_the_other(gate):
    flag = np.zeros(1, np.int32)
    run = bind(gate, table(1, b0=flag), (), flag, 1, True)
    running = [threading.Thread(target=run) for _ in range(3)]
    for thread in running:
        thread.start()
    end = time.monotonic() + 60
    while any(t.is_alive() for t in running) and time.monotonic() < end:
        if flag[0] == 1:
            flag[0] = 2
    assert not any(t.is_alive() for t in running)


def test_bound_arrays_and_sizes(outer):
    x, y = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32)
    z, o = np.zeros((13, 2), np.float32), np.zeros((3, 4), np.float32)
    run = bind(outer().program, table(4, b0=x, b1=y, b2=z, b3=o), (3, 4), (x, y, z, o), 1, False)
    assert run() is None
    np.testing.assert_array_equal(o, np.outer(x, y))
    with pytest.raises(TypeError):
        run(1)


def test_nothing_is_leaked(add):
    c, out = adder(add, named=True), np.zeros(8, np.float32)

    def rounds():
        for _ in range(200):
            c.call(X, Y)
            c.call(X, Y, out)
            c.call(X, Y[:7])
            c.call(y=Y, x=X)
        c.prepare(table(3), out, 1, False)
        c.clear()
        c.prepare(table(3), None, 1, False)
        bind(add, table(3, b0=X, b1=Y, b2=out), (), out, 1, False)()

    rounds()
    gc.collect()
    before = [sys.getrefcount(o) for o in (X, Y, out, F32, None)], sys.getallocatedblocks()
    for _ in range(5):
        rounds()
    gc.collect()
    after = [sys.getrefcount(o) for o in (X, Y, out, F32, None)], sys.getallocatedblocks()
    assert [abs(a - b) < 20 for a, b in zip(before[0], after[0])] == [True] * 5
    assert abs(after[1] - before[1]) < 100


def test_a_caller_outlives_its_maker(add):
    call = adder(add).call
    gc.collect()
    np.testing.assert_array_equal(call(X, Y)[0], X + Y)


# ---- where arrays keep their fields
def test_arrays_are_where_they_are_looked_for():
    assert arrays_are_as_expected() and runtime().reads_arrays
    assert not _is_as_expected(np.zeros(3).view(Sub))


def test_without_that_knowledge_every_call_goes_the_slow_way(add, monkeypatch):
    blind = type(runtime())(runtime().free, runtime().held, runtime().table, False)
    monkeypatch.setattr(module, "runtime", lambda: blind)
    c = adder(add)
    assert c.call(X, Y) is None
    c.clear()
