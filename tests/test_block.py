"""Parts of descriptions lie in few blocks, each where it was put."""

from __future__ import annotations

import ctypes

from tegg.backends.cpu.block import Block


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int32), ("b", ctypes.c_void_p)]


def test_parts_stay_as_they_were_put():
    block, found = Block(), []
    for n in (0, 1, 3, 200, 1000, 2, 0, 400):  # some are larger than a block
        found += [(ctypes.c_int32, -n, n, block.int32s([-n] * n)),
                  (ctypes.c_int64, n - 2**40, n, block.int64s([n - 2**40] * n)),
                  (ctypes.c_void_p, 2**63 + n, n, block.pointers([2**63 + n] * n))]
    for kind, value, n, start in found:
        assert list((kind * n).from_address(start)) == [value] * n
    assert len({start for *_, start in found}) == len(found)
    assert all(start % 8 == 0 for *_, start in found)


def test_structures_are_copied():
    block, pairs = Block(), [Pair(i, 8 * i + 8) for i in range(300)]
    start = block.structures(pairs)
    pairs[0].a = 7
    assert [(p.a, p.b) for p in (Pair * 300).from_address(start)] == [
        (i, 8 * i + 8) for i in range(300)]
    assert block.structures([]) != block.structures([]) != 0


def test_many_small_parts_share_a_block():
    block = Block()
    for _ in range(100):
        block.int64s([1, 2])
    assert len(block._kept) == 1
