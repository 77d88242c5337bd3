"""Compiled kernels in the cache: once per machine, whatever program they are part of."""

from __future__ import annotations

import ctypes
import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tegg.backends.cpu import library, toolchain
from tegg.backends.cpu.objects import Objects, anonymous

import tegg
from tegg.cache import Cache
from tegg.errors import BackendError
from tegg.kernel.code import KernelCode, Stage, Work

NONE = frozenset[int]()


def kernel(name: str, value: int, more: str = "") -> KernelCode:
    """A kernel of two stages: helpers and a variable are called as kernels often are."""
    source = (f"static int {name}_value(void) {{ const int k0 = {value}, k0_[2] = {{k0}}; "
              f"return k0_[0]; }} {more}\n"
              f"void {name}_stage0(void *const *b, const int64_t *n, int tid, int nt) "
              f"{{ *(int *)b[0] = {name}_value(); }}\n"
              f"void {name}(void *const *b, const int64_t *n, int tid, int nt) "
              f"{{ *(int *)b[0] += {name}_value(); }}\n")
    stages = tuple(Stage(f, NONE, frozenset({0})) for f in (f"{name}_stage0", name))
    return KernelCode(name, source, stages, (), (), Work(0, 0, 0, 0))


def result(loaded: library.Library, name: str) -> int:
    """What both stages leave."""
    cell = ctypes.c_int()
    buffers = (ctypes.c_void_p * 1)(ctypes.addressof(cell))
    for f in (f"{name}_stage0", name):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)(
            loaded.functions[f])(ctypes.addressof(buffers), None, 0, 1)
    return cell.value


def load(kernels, cache: Cache) -> library.Library:
    loaded = library.load(kernels, cache=cache)
    for k in kernels:
        value = int(k.source.split("k0 = ")[1].split(",")[0])
        assert result(loaded, k.name) == 2 * value
    return loaded


@pytest.fixture
def cache(tmp_path) -> Cache:
    return Cache(tmp_path, 1 << 30)


@given(st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=30)
def test_a_kernel_is_the_same_under_every_name(a, b):
    assert anonymous(kernel(f"k{a}", 7)) == anonymous(kernel(f"k{b}", 7))
    assert anonymous(kernel(f"k{a}", 7)) != anonymous(kernel(f"k{b}", 8))


def test_programs_share_kernels(cache):
    first = load([kernel("k0", 1), kernel("k1", 2)], cache)
    assert (first.found, first.units) == (0, 1)
    again = load([kernel("k0", 2), kernel("k1", 3), kernel("k2", 1)], cache)
    assert (again.found, again.units) == (2, 1)  # one is new
    third = load([kernel("k5", 3), kernel("k6", 1)], cache)  # of two shared objects
    assert (third.found, third.units) == (2, 0)


def test_units_are_shared_objects_of_their_own(cache, monkeypatch):
    monkeypatch.setattr(library, "available", lambda: 3)
    kernels = [kernel(f"k{i}", i, f"/*{'x' * 12_000}*/") for i in range(6)]
    assert load(kernels, cache).units == 3 and len(list(cache.root.rglob("*.so"))) == 3
    assert load(kernels[2:4], cache).found == 2


@pytest.mark.parametrize("damage", [lambda p: p.unlink(), lambda p: p.write_bytes(b"half"),
                                    lambda p: p.write_bytes(p.read_bytes()[:-1] + b"?")])
def test_what_is_gone_or_damaged_is_compiled_again(cache, damage):
    load([kernel("k0", 1), kernel("k1", 2)], cache)
    (path,) = cache.root.rglob("*.so")
    copy = path.read_bytes()
    path.unlink()  # the process that runs keeps what it has loaded
    path.write_bytes(copy)
    damage(path)
    again = load([kernel("k3", 2)], cache)  # another unit: the old entry leads nowhere
    assert (again.found, again.units) == (0, 1)
    assert load([kernel("k0", 2)], cache).found == 1


def test_an_entry_that_is_damaged(cache):
    load([kernel("k0", 1)], cache)
    (path,) = cache.root.rglob("*.kernel")
    path.write_bytes(b"elsewhere k0")
    assert load([kernel("k0", 1)], cache).units == 1


def test_another_compiler_or_prelude_has_its_own(cache):
    found, head = toolchain.find(), lambda k: library.prelude(4)
    mine, k = Objects(cache, found, head), kernel("k0", 1)
    mine.compile([[k]], [f"{library._BINDING}{k.source}"], "a test")
    assert mine.find(k, anonymous(kernel("k9", 1))) is not None
    assert Objects(cache, found, lambda k: library.prelude(8)).find(k, anonymous(k)) is None
    other = toolchain.Toolchain(found.command, "gcc 1", found.flags, found.features, "")
    assert Objects(cache, other, head).find(k, anonymous(k)) is None


def test_one_that_does_not_compile_leaves_no_entry(cache, monkeypatch):
    monkeypatch.setattr(library, "available", lambda: 2)
    good = kernel("k0", 1, f"/*{'x' * 24_000}*/")
    with pytest.raises(BackendError, match="failed on kernels k0, k1 with status"):
        library.load([good, kernel("k1", 2, f"wrong wrong; /*{'x' * 24_000}*/")], cache=cache)
    assert not list(cache.root.rglob("*.kernel"))
    load([good], cache)


def raced(root, out) -> None:
    cache = Cache(root, 1 << 30)
    out.put([load([kernel("k0", v), kernel("k1", v + 1)], cache).functions.keys() >= {"k0"}
             for v in (1, 2, 3)])


def test_processes_and_threads_that_race(tmp_path):
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    running = [context.Process(target=raced, args=(tmp_path, out)) for _ in range(2)]
    for p in running:
        p.start()
    cache = Cache(tmp_path, 1 << 30)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda v: load([kernel("k0", v)], cache), (1, 2, 3, 4)))
    assert [out.get(timeout=120) for _ in running] == [[True] * 3] * 2
    for p in running:
        p.join()
    assert load([kernel("k7", v) for v in (4,)], cache).found == 1


def test_a_layer_that_stays_is_not_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    loaded = []
    monkeypatch.setattr("tegg.backends.cpu.target.load",
                        lambda *a, **k: loaded.append(library.load(*a, **k)) or loaded[-1])
    x, y = np.ones((8, 24), np.float32), np.ones(5, np.float32)
    tegg.compile(lambda x: tegg.softmax(x, -1), cache=False)(x)
    tegg.compile(lambda x, y: (tegg.softmax(x, -1), tegg.sin(y)), cache=False)(x, y)
    assert [(found.found, found.units) for found in loaded] == [(0, 1), (1, 1)]
