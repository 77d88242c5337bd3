"""The caches of this machine: how large they are, and how threads share products by that."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest
from contractions import NARROW, lowered, product
from hypothesis import given, settings, strategies as st
from kernels import build, check
from profiles import examples
from scratch import cached
from tegg.backends.cpu.caches import UNKNOWN, last_cache, own_cache
from tegg.backends.cpu.runtime import runtime

from tegg.cores import affinity
from tegg.dim import dim
from tegg.kernel.code import KernelCode, Stage
from tegg.testing.draw import Draw

L2 = 2 << 20


def caches(root, *found: tuple[str, str]):
    for i, (level, size) in enumerate(found):
        folder = root / f"cpu{min(affinity())}" / "cache" / f"index{i}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    return root


@pytest.mark.parametrize("found, last, own", [
    ([("1", "32K"), ("1", "32K"), ("2", "1024K"), ("3", "32768K")], 32 << 20, 1 << 20),
    ([("3", "105M"), ("2", "2M")], 105 << 20, L2), ([("2", "1G")], 1 << 30, 1 << 30),
    ([("1", "4096")], 4096, UNKNOWN), ([], UNKNOWN, UNKNOWN), ([("3", "")], UNKNOWN, UNKNOWN),
    ([("?", "1K")], UNKNOWN, UNKNOWN), ([("1", "32K"), ("2", "x")], 32 << 10, UNKNOWN)])
def test_they_are_read_from_linux(tmp_path, found, last, own):
    assert last_cache(caches(tmp_path, *found)) == last
    assert own_cache(tmp_path) == own


def test_kernels_are_told_of_them():
    words = (ctypes.c_int64 * 8).from_address(runtime().table)
    assert words[6:] == [last_cache(), own_cache()]


# ---- how threads share a product
def _product(tile: str | None):
    g = Draw()
    m, k, n = (dim(name, 0, 4096) for name in ("m", "k", "n"))
    x, y = (g.x(*shape, dtype="bf16" if tile else "f32") for shape in ((m, k), (k, n)))
    if tile:
        x, y = g.cast(x, "f32"), g.cast(y, "f32")
    c = product(g, x, y, "a,k;k,n;a,n", m, n)
    return g, c, lowered(g, [c], [c], tile=NARROW[tile]) if tile else lowered(
        g, [c], [c], constant=(1,))  # else it is read where it lies


_GRID = """
void {k}_grid(void *const *buffers, const int64_t *s, int tid, int nt) {{
  const struct {k}_grid g = {k}_cut(1, s[0], s[1], s[2], s[3], s[4], nt);
  int64_t *const out = buffers[0];
  out[0] = g.tm, out[1] = g.tn;
}}
"""


def grid(code: KernelCode, own: int, m: int, k: int, n: int, mr: int, nr: int,
         threads: int) -> tuple[int, int]:
    """Into how many ranges of rows, and of columns, a kernel cuts a product for its threads."""
    code = code.core or code
    name = code.stages[-1].function
    told = replace(code, source=code.source + _GRID.format(k=name), stages=(
        *code.stages, Stage(f"{name}_grid", frozenset(), frozenset())))
    f = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)(
        build(told, 16).functions[f"{name}_grid"])
    out = (ctypes.c_int64 * 2)()
    with cached(own=own):
        f((ctypes.c_void_p * 1)(ctypes.addressof(out)),
          (ctypes.c_int64 * 5)(-(-m // mr), -(-n // nr), mr, nr, k), 0, threads)
    return out[0], out[1]


@pytest.mark.parametrize("m, k, n, own, cut", [
    (64, 2048, 2048, L2, (1, 2)),       # few rows, whose panels come from far away
    (64, 2048, 2048, UNKNOWN, (2, 1)),  # fewer are placed twice
    (128, 1024, 4096, L2, (1, 2)),
    (1024, 1024, 1024, L2, (2, 1)),     # they come in the time of the products
    (64, 512, 512, L2, (2, 1)),         # they stay where they are
    (32, 512, 512, L2, (1, 2))])        # a single tile of rows
def test_few_rows_by_many_panels_of_tiles_are_cut_by_columns(m, k, n, own, cut):
    assert grid(_product("tiles")[2], own, m, k, n, 32, 32, 2) == cut


@pytest.mark.parametrize("m, n, own, cut", [
    (28, 2048, L2, (1, 2)), (28, 2048, UNKNOWN, (2, 1)), (56, 2048, L2, (2, 1))])
def test_so_are_rows_of_a_single_register_tile(m, n, own, cut):
    code = _product(None)[2]
    assert grid(code, own, m, 2048, n, 14, 32, 2) == cut


TILES = _product("tiles")
LIBRARY = build(TILES[2], 16)


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 200), st.integers(0, 100), st.integers(0, 200),
       st.sampled_from((0, 10_000, UNKNOWN)))
def test_results_are_the_same(m, k, n, own):
    g, c, code = TILES
    with cached(own=own):
        check(g, [c], {"m": m, "k": k, "n": n}, code=code, library=LIBRARY, threads=(1, 2, 3),
              seed=m, slack=2.0)
