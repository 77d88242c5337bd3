"""Arrays of more than 2^31 elements, of which only the bytes that are touched are there."""

from __future__ import annotations

import numpy as np
import pytest
from simt import cases
from simt.simulator import Memory
from tegg.testing.draw import Draw

GREAT = 1 << 15
FAR = 3 << 30


@pytest.mark.parametrize("kit", (cases.CUDA, cases.METAL), ids=lambda k: k.name)
@pytest.mark.parametrize("record, at", [
    (lambda g: g.slice(g.x(FAR), (FAR - 8, FAR, 1)), FAR - 8),
    (lambda g: g.slice(g.x(2 * GREAT, 3 * GREAT), (2 * GREAT - 1, 2 * GREAT, 1), (3 * GREAT - 8, 3 * GREAT, 1)),
     6 * GREAT * GREAT - 8),
    (lambda g: g.total(g.slice(g.x(FAR), (FAR - 8, FAR, 1)), 0), FAR - 8),
], ids=("a slice", "a corner", "a sum"))
def test_what_lies_far_in_an_array_is_reached(kit, record, at):
    g = Draw()
    c = cases.case("k", g, [record(g)], inputs={}, kit=kit)
    values = np.arange(1, 9, dtype=np.float32)
    memory, out = Memory(values.nbytes, "the end of an array"), Memory(32, "result")
    memory.write(values)
    try:
        cases.launch(cases.module([c.code], kit=kit), c.code,
                     [memory.address - 4 * at, out.address], {}, 0)
        got = out.bytes.view(np.float32)
        np.testing.assert_array_equal(got[:1] if c.outputs[0].shape == () else got,
                                      values.sum() if c.outputs[0].shape == () else values)
    finally:
        memory.free()
        out.free()
