"""Gathers along the lanes: by the machine's instruction for 32 and 64 bits, tails and guards."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tegg.testing.draw import Draw
from kernels import build, check
from tegg.backends.cpu.emit import C

from tegg.dim import dim
from tegg.kernel.lower import lower

DTYPES = ("f32", "f64", "i32", "i64", "f16", "bf16", "i8", "u8", "bool")
# Both ways to gather are tried on every machine: that of AMD's processors, and that of others.
AMD = [f"__znver{n}__" for n in range(1, 6)]
WAYS = ((f"-D{AMD[0]}",), tuple(f"-U{m}" for m in AMD))



def indices(kind: str, count: int) -> np.ndarray:
    """Many inside of 0 .. 29, the ends of the dtype, and others outside."""
    info = np.iinfo(kind)
    x = np.random.default_rng(0).integers(max(info.min, -9), 39, count)
    x[:3] = info.min, info.max, 0
    return x.astype(kind)


@pytest.mark.parametrize("width", [16, 8, 4])
@pytest.mark.parametrize("index", ["int64", "int32", "int8", "uint8"])
def test_every_dtype_from_every_index(index, width):
    g, outputs, inputs = Draw(), [], {}
    for k, dtype in enumerate(DTYPES):
        x = g.x(30, dtype=dtype)
        i = g.x(77, dtype=np.dtype(index).name.replace("uint", "u").replace("int", "i"))
        outputs.append(g.op("Gather", x, i, 0))
        table = np.random.default_rng(k).integers(0, 2 if dtype == "bool" else 100, 30)
        inputs.update({2 * k: table.astype(x.dtype.numpy), 2 * k + 1: indices(index, 77)})
    code = check(g, outputs, inputs=inputs, width=width)
    for name in ("gather", "gatherm"):  # whole vectors, and what is left of the last one
        assert set(re.findall(rf"v([a-z])_{name}_", code.source)) == set("fdil")
    for flags in WAYS:
        check(g, outputs, inputs=inputs, code=code, library=build(code, width, flags))


@pytest.mark.parametrize("width", [16, 8, 4])
def test_rows_and_lanes_have_indices(width):
    """Take along an axis: positions are rows plus gathered values; columns of several rows. All
    that lanes have in common is no part of a vector."""
    g = Draw()
    x, i = g.x(6, 30), g.x(6, 41, dtype="i64")
    flat = g.add(g.mul(g.along(6, 0, 2), 30), i)
    along = g.op("Gather", g.reshape(x, (180,)), flat, 0)
    columns = g.op("Gather", x, g.x(41, dtype="i32"), 1)
    code = check(g, [along, columns], width=width)
    assert re.findall(r"vf_gather_i\(b\d \+ \(i\d \* 30\), \(vi_clamp", code.source)
    assert "_gather_l(" not in code.source
    for flags in WAYS:
        check(g, [along, columns], code=code, library=build(code, width, flags))


@pytest.mark.parametrize("width", [16, 8, 4])
def test_guards_follow_the_lanes(width):
    """A gather of what was padded reads no memory beside the table."""
    g = Draw()
    inner = g.padded(g.x(30), (3, 5), fill=0)
    check(g, [g.op("Gather", inner, g.x(50, dtype="i32"), 0),
              g.padded(g.op("Gather", g.x(30), g.x(37, dtype="i64"), 0), (2, 9), fill=1)],
          width=width)


def test_sizes_without_bounds_take_positions_of_64_bits():
    n, s = dim("n", min=1), dim("s")
    g = Draw()
    code = lower(g, [g.op("Gather", g.x(n), g.x(s, dtype="i32"), 0)], "k", C(16))
    assert "vf_gather_l(" in code.source
    for sizes in ({"n": 30, "s": 50}, {"n": 1, "s": 7}):
        check(g, [g.nodes[-1]], sizes, code=code)


def test_rows_are_copied_as_vectors():
    """An embedding: the lanes run along the row, which is contiguous."""
    g = Draw()
    code = check(g, [g.op("Gather", g.x(100, 384), g.x(9, dtype="i64"), 0)])
    assert "_gather_" not in code.source and "vf_load(b0 + " in code.source
    assert code.source.count("clamp_index(") == code.source.count("vf_load(")
