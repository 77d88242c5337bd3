"""Every public op, recorded and compiled under several stacks, is what NumPy says it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import tegg
from api_cases import CASES, REFUSED, Case
from api_drawing import Call, Draw, filled, first_dtype, lay_out, wide
from profiles import examples, few
from tegg.ir.oracle import evaluate
from tegg.ops.public import PUBLIC
from tegg.rewrite.compiler import Compiler

TOLERANCE = {"f64": 1e-11, "f32": 1e-5, "f16": 4e-3, "bf16": 4e-2}
STACKS = {
    "no rules": dict(compilers=[Compiler(name="nothing")]),
    "generic": dict(compilers=[tegg.Generic()]),
    "generic, bitwise": dict(compilers=[tegg.Generic()], precision="bitwise"),
    "generic, heuristic": dict(compilers=[tegg.Generic()], budget_s=0),
}
GROUP = 24  # ops in one program


def test_every_public_op_has_a_row():
    assert set(CASES) | set(REFUSED) == set(PUBLIC) and not set(CASES) & set(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
@given(data=st.data())
@settings(max_examples=examples(2))
def test_what_cannot_be_says_why(name, data):
    d, bases = Draw(data), []
    sample, text = REFUSED[name]
    laid = lay_out(d, sample(d), bases)
    with pytest.raises(tegg.ArgumentError, match=rf"^{name}: {text}"):
        tegg.trace(recorded({name: laid}), (bases,))


def result_dtype(case: Case, given_: Call) -> tegg.DType:
    first = first_dtype(given_)
    if case.result == "same":
        return first
    if case.result == "sum":
        return first if first.is_float else tegg.i64
    if case.result == "second":
        return first_dtype(Call(given_.args[1:], given_.kwargs))
    return tegg.dtype(given_.args[1] if case.result == "given" else case.result)


def agree(name: str, given_: Call, got: Any) -> None:
    """The result of a call is the formula's."""
    case = CASES[name]
    with np.errstate(all="ignore"):
        of = wide(given_)
        want = case.formula(*of.args, **of.kwargs)
    results, wants = (v if isinstance(v, (tuple, list)) else (v,) for v in (got, want))
    assert len(results) == len(wants)
    for i, (r, w) in enumerate(zip(results, wants)):
        dtype = tegg.dtype(r.dtype)
        if i == 0:
            assert dtype is result_dtype(case, given_), (name, given_, dtype)
        with np.errstate(all="ignore"):
            w = np.asarray(w).astype(r.dtype)
        assert r.shape == w.shape, (name, given_, r.shape, w.shape)
        tol = TOLERANCE.get(dtype.name, 0) * case.slack
        kind = np.float64 if dtype.is_float else r.dtype
        np.testing.assert_allclose(r.astype(kind), w.astype(kind), rtol=tol, atol=tol,
                                   err_msg=f"{name} {given_}")


def recorded(calls: dict[str, Call]):
    """A function of base arrays that records laid out calls, by the keys' first words."""
    def program(bases):
        out = {}
        for name, c in calls.items():
            made = filled(c, bases)
            out[name] = PUBLIC[name.split(" ")[0]].function(*made.args, **made.kwargs)
        return out
    return program


def interpreted(program: Any, bases: list) -> dict[str, Any]:
    traced = tegg.trace(program, (bases,))
    graph = traced.graph
    values = dict(zip(traced.slots, bases))
    found = dict(zip(graph.outputs, evaluate(graph.outputs.values(), values)))
    return tegg.tree.unflatten(traced.outputs, list(found.values()))


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(few, phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
          suppress_health_check=[HealthCheck.too_slow])
def test_recorded_op_is_its_formula(name, data):
    d, bases = Draw(data), []
    given_ = CASES[name].sample(d)
    laid = lay_out(d, given_, bases)
    agree(name, given_, interpreted(recorded({name: laid}), bases)[name])


GROUPS = [list(CASES)[i:i + GROUP] for i in range(0, len(CASES), GROUP)]


@pytest.mark.parametrize("group", range(len(GROUPS)))
@pytest.mark.parametrize("stack", STACKS)
@given(data=st.data())
@settings(max_examples=max(1, few.max_examples // 12), phases=[Phase.explicit, Phase.generate],
          suppress_health_check=list(HealthCheck))
def test_compiled_ops_are_their_formulas(stack, group, data):
    d, bases = Draw(data), []
    calls = {name: CASES[name].sample(d) for name in GROUPS[group]}
    laid = {name: lay_out(d, c, bases) for name, c in calls.items()}
    options = dict(STACKS[stack])
    program = tegg.compile(recorded(laid), *options.pop("compilers"), cache=False, **options)
    for name, r in program(bases).items():
        agree(name, calls[name], r)


SPECIAL = {f"{name} {i}": c for name, case in CASES.items() for i, c in enumerate(case.special)}


def special_program():
    bases: list = []

    class Plain:
        def pick(self, layouts):
            return next(iter(layouts))

    laid = {k: lay_out(Plain(), c, bases) for k, c in SPECIAL.items()}  # type: ignore[arg-type]
    return recorded(laid), bases


def test_special_values():
    program, bases = special_program()
    for key, r in interpreted(program, bases).items():
        agree(key.split(" ")[0], SPECIAL[key], r)


@pytest.mark.parametrize("stack", ["no rules", "generic"])
def test_compiled_special_values(stack):
    program, bases = special_program()
    options = dict(STACKS[stack])
    compiled = tegg.compile(program, *options.pop("compilers"), cache=False, **options)
    for key, r in compiled(bases).items():
        agree(key.split(" ")[0], SPECIAL[key], r)
