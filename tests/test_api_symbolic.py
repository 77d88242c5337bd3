"""Public ops on symbolic sizes: the formula's values, or an error that says what is in the way."""

from __future__ import annotations


import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from profiles import examples

import tegg
from api_cases import CASES
from api_drawing import Call, Draw, filled, lay_out
from tegg.errors import TeggError
from tegg.ir.oracle import evaluate
from tegg.ops.public import PUBLIC
from test_api import agree


class Plain:
    """Every operand lies as it is."""

    def pick(self, layouts):
        return next(iter(layouts))


def shaped(bases: list[np.ndarray], n: int, first: int | None) -> list[tuple]:
    """Shapes with a symbol for the size n: everywhere, or on the axis ``first`` of one operand."""
    symbol = tegg.dim("n", min=2, max=64)
    if first is not None:
        own = tuple(symbol if i == first else k for i, k in enumerate(bases[0].shape))
        return [own, *(b.shape for b in bases[1:])]
    return [tuple(symbol if k == n else k for k in b.shape) for b in bases]


def with_symbol(name: str, laid: Call, bases: list[np.ndarray], shapes: list[tuple], n: int):
    """What an op gives on these shapes, or the text of its error."""
    graph = tegg.Graph()
    tensors = [graph.tensor(s, b.dtype) for s, b in zip(shapes, bases)]
    made = filled(laid, tensors)
    try:
        with graph.recording():
            out = PUBLIC[name].function(*made.args, **made.kwargs)
    except TeggError as e:
        return str(e)
    several = out if isinstance(out, tuple) else (out,)
    values = evaluate([t.node for t in several], dict(enumerate(bases)), {"n": n})
    return tuple(values) if isinstance(out, tuple) else values[0]


def check(name: str, given_: Call) -> bool:
    """Whether some size of the operands may be a symbol; every result is the formula's."""
    bases: list[np.ndarray] = []
    laid = lay_out(Plain(), given_, bases)  # type: ignore[arg-type]
    if not bases:
        return False
    worked = False
    for axis, n in enumerate(bases[0].shape):
        for first in (None, axis):
            if n < 2:  # a size of 1 repeats and is squeezed, which a symbol never is
                continue
            got = with_symbol(name, laid, bases, shaped(bases, n, first), n)
            if isinstance(got, str):
                assert got.startswith(f"{name}: ") and f"(at {__file__}:" in got, got
            else:
                agree(name, given_, got)
                worked = True
    return worked


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=examples(3), phases=[Phase.explicit, Phase.generate],
          suppress_health_check=list(HealthCheck))
def test_a_symbolic_size_gives_the_formula_or_says_why_not(name, data):
    check(name, CASES[name].sample(Draw(data)))
