"""Indices are of 32 bits where all that is counted and addressed fits them, and only there."""

from __future__ import annotations

import numpy as np
import pytest
from simt import cases
from simt.simulator import Memory
from tegg.testing.draw import Draw

from tegg.dim import dim

SMALL, LARGE = dim("n", 0, 4096, hint=300), dim("n", 0, 1 << 31, hint=300)
GREAT = 1 << 15


def source(record, kit=cases.METAL) -> str:
    g = Draw()
    return cases.case("k", g, [record(g)], inputs={}, kit=kit).code.source


@pytest.mark.parametrize("record", [
    lambda g: g.exp(g.x(40, 75)),
    lambda g: g.softmax(g.x(40, 500), 1),
    lambda g: g.permute(g.x(40, 76), (1, 0)),
    lambda g: g.exp(g.x(SMALL, 10)),
    lambda g: g.op("Gather", g.x(40, 76), g.x(40, dtype="i32"), 0),
    lambda g: g.flip(g.x(5, 8), 1),
    lambda g: g.op("CumSum", g.x(50, 60), 1),
])
def test_what_fits_is_narrow(record):
    text = source(record)
    assert "for (int point" in text and "const int64_t i" not in text
    assert "for (int64_t point" in source(record, cases.CUDA)


@pytest.mark.parametrize("record", [
    lambda g: g.mul(g.x(2 * GREAT, GREAT), 2),                                   # positions
    lambda g: g.total(g.x(2 * GREAT, GREAT), 1),                                 # addresses
    lambda g: g.exp(g.x(LARGE)),                                                 # a size
    lambda g: g.slice(g.x(2 * GREAT, GREAT), (2 * GREAT - 4, 2 * GREAT, 1), (0, 8, 1)),  # an offset
])
def test_what_does_not_is_wide(record):
    assert "for (int64_t point" in source(record)


# ---- arrays of more than 2^31 elements, of which only the bytes that are touched are there
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
