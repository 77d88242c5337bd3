"""Contraction kernels against the oracle, on guarded memory."""

from __future__ import annotations

import pytest

from contractions import CASES, SYMBOLIC
from tegg.testing.draw import Draw
from kernels import build, check
from tegg.backends.cpu.contraction import lower_contraction
from tegg.backends.cpu.emit import C

SIZES = [dict(m=m, b=b, s=s) for m, b, s in (
    (0, 1, 0), (1, 0, 5), (7, 3, 1), (9, 1, 17), (128, 2, 40), (300, 1, 131))]


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    g = Draw()
    outputs, anchors = CASES[name](g)
    check(g, outputs, code=lower_contraction(g, outputs, anchors, "k", C(16)))


@pytest.mark.parametrize("width", (8, 4))
@pytest.mark.parametrize("name", ("transposed_b", "transposed_a", "sliced", "rms_norm", "gated",
                                  "typed_f64_transposed", "typed_i8", "half_weights",
                                  "few_rows_transposed", "few_rows"))
def test_narrow_vectors(name: str, width: int) -> None:
    g = Draw()
    outputs, anchors = CASES[name](g)
    check(g, outputs, code=lower_contraction(g, outputs, anchors, "k", C(width)), width=width)


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name: str) -> None:
    g = Draw()
    outputs, anchors = SYMBOLIC[name](g)
    code = lower_contraction(g, outputs, anchors, "k", C(16))
    for sizes in SIZES:
        check(g, outputs, sizes, code=code, library=build(code.source, 16))
