"""Updates of arrays at indices, for CUDA and Metal on their simulators: many kernels to a unit."""

from __future__ import annotations

import pytest
from simt import cases
from simt.cases import CUDA, METAL
from test_cuda_kernels import agree
from test_kernel_scatter import MODES, scatter

from tegg.dim import dim
from tegg.testing.draw import Draw


def alike(kit, found) -> None:
    unit = cases.module([c.code for c in found], kit=kit)
    for number, c in enumerate(found):
        agree(unit, c, number % 3)


@pytest.mark.parametrize("kit", (CUDA, METAL), ids=lambda k: k.name)
@pytest.mark.parametrize("axis", (0, 1, 2))
def test_modes_axes_and_dtypes(kit, axis):
    """Whole slices, and one index for each element; indices repeat, and some lie outside. Modes take
    turns at dtypes with the axes."""
    found = []
    for number, dtype in enumerate(("f32", "f16", "i32", "u8", "bool")):
        g, shape, mode = Draw(), [4, 5, 20], MODES[(number + axis) % 3]
        base = g.x(*shape, dtype=dtype)
        shape[axis] = 9
        update = g.x(*shape, dtype=dtype)
        rows = scatter(g, base, g.add(g.x(9, dtype="i64"), -3), update, axis, mode)
        each = g.op("ScatterAlong", base, g.add(g.x(*shape, dtype="i32"), -3), update, axis, mode)
        for name, out in (("rows", rows), ("each", each)):
            found.append(cases.case(f"k_{name}_{mode}_{dtype}", g, [out], kit=kit))
    alike(kit, found)


@pytest.mark.parametrize("kit", (CUDA, METAL), ids=lambda k: k.name)
def test_what_is_computed_and_of_any_size(kit):
    found, n = [], dim("n", 0, 64, hint=8)
    for size, k in ((0, 1), (1, 0), (9, 30)):
        g, rows = Draw(), dim("k", 0, 64, hint=8)
        update = g.softmax(g.x(rows, 20), 1)
        out = scatter(g, g.exp(g.x(n, 20)), g.x(rows, dtype="i64"), update, 0, "add")
        found.append(cases.case(f"k{len(found)}", g, [out], {"n": size, "k": k}, kit=kit))
    alike(kit, found)
