"""Kernels emitted for CUDA, run on the simulator in three orders of threads, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from profiles import examples
from simt import cases
from test_kernel_cases import CASES
from tegg.backends.cuda.emit import CudaC

from tegg.dtype import DTYPES, f32
from tegg.errors import LoweringError
from tegg.kernel.lower import lower
from tegg.kernel.simt import LIMITS
from tegg.testing.draw import Draw
from tegg.testing.kernels import check_results
from tegg.testing.rows import N
from tegg.testing.strategies import views


def agree(unit, c, order: int, slack: float = 1.0) -> None:
    """A case gives what the oracle says."""
    check_results(c.outputs, cases.run(unit, c, order), c.inputs, c.sizes, slack,
                  f"{c.code.name}, order {order}")


@pytest.mark.parametrize("part", range(4))
def test_cases(part):
    """The adversarial kernels that the CPU's printer is tested on."""
    found = []
    for name in sorted(CASES)[part::4]:
        g = Draw()
        found.append(cases.case(f"k_{name}", g, CASES[name](g)))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number % 3, 2.0)


WIDE = {
    "added": lambda g: g.named("Add", g.op("Exp2", g.x(40, 76)), g.x(76)),
    "rows": lambda g: g.op("Gather", g.x(40, 76), g.x(40, dtype="i32"), 0),
    "columns": lambda g: g.op("Gather", g.x(40, 76), g.x(8, dtype="i32"), 1),
    "padded": lambda g: g.padded(g.x(40, 76), (2, 1), (3, 1)),
    "aligned": lambda g: g.slice(g.x(40, 76), (0, 40, 1), (4, 72, 1)),
    "shifted": lambda g: g.slice(g.x(40, 76), (0, 40, 1), (1, 73, 1)),
    "flipped": lambda g: g.flip(g.x(5, 8), 1),
    "numbers": lambda g: g.mul(g.x(4, 8, dtype="i32"), 3),
    "counted": lambda g: g.add(g.x(16), g.op("Iota", f32, (16,))),
    "narrowed": lambda g: g.op("Cast", g.x(4, 8, dtype="f16"), f32),
}


def test_four_neighbours_move_at_once():
    """Where memory is contiguous from a multiple of 16 bytes, and one by one where it is not."""
    found = []
    for name, record in WIDE.items():
        g = Draw()
        found.append(cases.case(f"k_{name}", g, [record(g)]))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number % 3)
    loads = {name for name, c in zip(WIDE, found) if "wide_load" in c.code.source}
    stores = {name for name, c in zip(WIDE, found) if "wide_store" in c.code.source}
    assert loads == {"added", "rows", "columns", "aligned", "numbers", "counted", "narrowed"}
    assert stores == set(WIDE)


def test_casts_and_reductions():
    found, rng = [], np.random.default_rng(3)
    for dtype in DTYPES.values():
        g = Draw()
        x, wide = g.x(N, dtype=dtype.name), g.x(3, 400, dtype=dtype.name)
        outputs = [g.op("Cast", x, to) for to in DTYPES.values() if to is not dtype]
        outputs += [g.total(wide, 1), g.top(wide, 1), g.total(wide, 0), g.top(wide, 0, 1)]
        given_ = {0: np.abs(rng.integers(0, 100, N)).astype(dtype.numpy),
                  1: rng.integers(0, 3, (3, 400)).astype(dtype.numpy)}
        found.append(cases.case(f"k_{dtype.name}", g, outputs, inputs=given_))
    unit = cases.module([c.code for c in found])
    for number, c in enumerate(found):
        agree(unit, c, number % 3)


def simulate(drawn) -> None:
    """Programs of views as one translation unit, at their sizes."""
    found = []
    for number, v in enumerate(drawn):
        try:
            code = lower(v.graph, v.outputs, f"k{number}", CudaC(), LIMITS)
        except LoweringError:
            continue
        if code.work.evaluations < 4e5:
            found.append((v, code))
    unit = cases.module([code for _, code in found])
    for number, (v, code) in enumerate(found):
        for i, sizes in enumerate(v.runs if code.symbols else v.runs[:1]):
            if max(v.counts(sizes)) <= 20_000:
                c = cases.Case(v.graph, v.outputs, sizes, v.inputs(sizes, i), code)
                agree(unit, c, (number + i) % 3, 8)


FEW = {"max_examples": examples(3), "deadline": None, "suppress_health_check": list(HealthCheck),
       "phases": [Phase.explicit, Phase.generate]}


@settings(**FEW)
@given(st.lists(views(), min_size=8, max_size=10))
def test_random_constant_shapes(drawn):
    simulate(drawn)


@settings(**FEW)
@given(st.lists(views(symbolic=True), min_size=6, max_size=8))
def test_random_symbolic_shapes(drawn):
    simulate(drawn)
