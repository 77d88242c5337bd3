"""Memory maps that arrays lie in are known as long as they live."""

from __future__ import annotations

import gc
import mmap

import numpy as np
import tegg
from tegg.mapped import mapped, remember, start_of


def test_bytes_are_found_in_their_map():
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = start_of(pages)
    assert start % mmap.PAGESIZE == 0 and mapped(start, 8) is None
    remember(pages)
    assert mapped(start + 24, 8) == (pages, 24)
    assert mapped(start, len(pages)) == (pages, 0)
    assert mapped(start + 8, len(pages)) is None and mapped(start - 1, 4) is None
    del pages
    gc.collect()
    assert mapped(start, 8) is None


def test_tensors_of_a_file_lie_in_its_map(tmp_path):
    path = tmp_path / "w.safetensors"
    tegg.save_safetensors(path, {"a": np.arange(10, dtype=np.float32)})
    a = tegg.load_safetensors(path)["a"]
    found = mapped(a.ctypes.data, a.nbytes)
    assert found is not None and len(found[0]) == path.stat().st_size
    at = a.ctypes.data
    del a, found
    gc.collect()
    assert mapped(at, 40) is None
