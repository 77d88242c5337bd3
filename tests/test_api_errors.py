"""Whatever a public op is given, it records or raises our error: its name, shapes, this line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from profiles import examples

import tegg
from api_cases import CASES
from api_drawing import Call, Draw, Slot, filled, lay_out
from tegg.errors import DTypeError, ShapeError, TeggError
from tegg.ops.public import PUBLIC, names_of, methods_of
from tegg.shape import show

BAD = ["a", None, object, 1.5, float("nan"), 99, -99, 0, 10 ** 30, True, (), [], ["a"], (1, "a"),
       [None], (1.5, 2), (99, 99), (-1, -2), [[1], [2, 3]], {"a": 1}, slice(2), np.ones(2, complex),
       np.ones((3, 1, 2, 1, 2, 7), np.float32), np.zeros((0, 5), np.int32), np.array("text"),
       np.array([2.5]), np.array([True, False]), np.float32(3), np.bool_(True), tegg.dim("bad")]


def raised(name: str, given_: Call) -> str:
    """What is wrong with how an op takes a call; nothing where it records or raises ours."""
    try:
        PUBLIC[name].function(*given_.args, **given_.kwargs)
    except TeggError as e:
        text = str(e)
        good = text.startswith(f"{name}: ") and f"(at {__file__}:" in text
        if isinstance(e, (ShapeError, DTypeError)):  # what disagrees is there to be seen
            good &= all(show(t.shape) in text for t in given_.args if isinstance(t, tegg.Tensor))
        return "" if good else text
    except Exception as e:  # noqa: BLE001 - that is what must not happen
        return f"{type(e).__name__}: {e}"
    return ""


def spoilt(laid: Call) -> list[tuple[Any, Call]]:
    """A good call with one argument replaced by each bad one, and with one too few or many."""
    out: list = [("none", Call((), {})), ("fewer", Call(laid.args[1:], laid.kwargs)),
                 ("more", Call((*laid.args, *[1] * 9), laid.kwargs)),
                 ("unknown", Call(laid.args, {**laid.kwargs, "colour": 1}))]
    for bad in BAD:
        for i in range(len(laid.args)):
            out.append((f"{i}: {bad!r}", Call((*laid.args[:i], bad, *laid.args[i + 1:]),
                                              laid.kwargs)))
        for k in laid.kwargs:
            out.append((f"{k}={bad!r}", Call(laid.args, {**laid.kwargs, k: bad})))
        out += [(f"{k}={bad!r}", Call(laid.args[:1], {k: bad})) for k in ("dim", "keepdim")]
    return out


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=examples(2), phases=[Phase.explicit, Phase.generate],
          suppress_health_check=list(HealthCheck))
def test_bad_arguments_are_our_errors(name, data):
    d, bases = Draw(data), []
    laid = lay_out(d, CASES[name].sample(d), bases)
    g = tegg.Graph()
    tensors = [g.tensor(b.shape, b.dtype) for b in bases]
    wrong = {}
    with g.recording():
        for what, c in spoilt(laid):
            if said := raised(name, filled(c, tensors)):
                wrong[what] = said
    assert not wrong, "\n".join(f"{name} {k} -> {v}" for k, v in wrong.items())


@pytest.mark.parametrize("name", [n for n in CASES if n != "contiguous"])
@given(data=st.data())
@settings(max_examples=examples(2), phases=[Phase.explicit, Phase.generate],
          suppress_health_check=list(HealthCheck))
def test_operands_of_two_graphs(name, data):
    d, bases = Draw(data), []
    laid = lay_out(d, CASES[name].sample(d), bases)
    if len(bases) < 2 or not isinstance(laid.args[0], (Slot, list)):
        return
    graphs = [tegg.Graph() for _ in bases]
    tensors = [g.tensor(b.shape, b.dtype) for g, b in zip(graphs, bases)]
    given_ = filled(laid, tensors)
    with pytest.raises(tegg.ArgumentError, match=rf"^{name}: .*two different graphs"):
        PUBLIC[name].function(*given_.args, **given_.kwargs)


def test_names():
    assert all(hasattr(tegg, n) for op in PUBLIC.values() for n in names_of(op))
    assert all(hasattr(tegg.Tensor, n) for op in PUBLIC.values() for n in methods_of(op))
