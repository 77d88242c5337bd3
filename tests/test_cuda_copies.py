"""Copies between the host and the GPU: ops of the e-graph and calls of the plan, cancelled by rules."""

from __future__ import annotations

import numpy as np
import pytest
import tegg
from tegg.backends.cuda import driver
from tegg.backends.cuda.copies import copies, copy_rows, lower_copy
from tegg.backends.cuda.target import Cuda
from test_cuda_arrays import Foreign

from tegg.errors import ArgumentError
from tegg.extract.cost import checked_costs, load_costs
from tegg.ir.graph import Graph
from tegg.ir.op import OPS
from tegg.ir.places import copied
from tegg.planning.target import on_device
from tegg.rewrite.compiler import Compiler, Generic, lowering
from tegg.rewrite.egraph import saturate
from tegg.runtime.driver import Options, compile_graph, plan_graph
from tegg.testing.agree import check_egraph

TARGET = Cuda(90)
INWARD, OUTWARD = copy_rows()
TABLE = {**OPS, INWARD.name: INWARD, OUTWARD.name: OUTWARD}
RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def labels(plan):
    return [c.label for c in plan.run]


def planned(graph, *more, target=TARGET):
    stack = (Generic(), *more, Compiler(name="t", target=target))
    return plan_graph(graph, Options(stack, cache=False))


def chain(*ops, table=TABLE, shape=(4, 8)):
    """A program whose values go through ops of one operand."""
    g = Graph(table)
    node = g.input("x", shape, "f32")
    for op in ops:
        node = g.op(op, node)
    g.outputs["y"] = node
    return g


# ---- where copies stand
def test_they_stand_at_the_borders_and_nowhere_else():
    g = Graph()
    x, i = g.input("x", (4,), "f32"), g.input("i", (4,), "i64")
    w = g.input("w", (4,), "f32", "weight", np.ones(4, np.float32))
    total = g.input("s", (4,), "f32", "state")
    y = g.add(g.mul(x, w), g.op("Gather", total, i, 0))
    g.outputs["y"], g.outputs["w"] = y, w
    g.updates[3] = g.add(total, y)
    made = copied(g, copies(True))
    ops = [n.op.name for n in made.reachable()]
    assert ops.count("CopyToDevice") == 3 and ops.count("CopyToHost") == 3
    assert all(n.op is OUTWARD for n in (*made.outputs.values(), *made.updates.values()))
    assert not any(a.op.name == "Input" and made.inputs[a.attrs[0]].kind != "weight"
                   for n in made.reachable() if n.op is not INWARD for a in n.args)
    assert [n.op is OUTWARD for n in copied(g, copies(False)).outputs.values()] == [False, False]
    assert copied(g, copies(False)).updates[3].op is OUTWARD  # an argument is where it was


def test_a_device_without_a_memory_of_its_own_has_none():
    g = chain("Sqrt")
    assert on_device(g, type("Shared", (), {})()) is g
    assert on_device(g, TARGET) is not g


def test_what_was_recorded_meets_its_inverse():
    """A value that is sent to the host and computed with again stays on the device."""
    g = chain("Sqrt", OUTWARD.name, "Sin", INWARD.name, OUTWARD.name)
    made = copied(g, TARGET.copies)
    assert [n.op.name for n in made.reachable()] == [
        "Input", "CopyToDevice", "Sqrt", "CopyToHost", "CopyToDevice", "Sin", "CopyToHost",
        "CopyToDevice", "CopyToHost"]
    assert labels(planned(g)) == ["CopyToDevice", "elementwise", "CopyToHost"]


def test_two_programs_in_a_row_copy_at_the_ends_alone():
    """What one gives to the host, the other takes from there: as they would be by themselves."""
    g = Graph(TABLE)
    x = g.op(INWARD.name, g.input("x", (64, 64), "f32"))
    first = g.op(OUTWARD.name, g.op("Contract", x, x, "a,k;k,b;a,b", (64, 64)))
    again = g.op(INWARD.name, first)
    g.outputs["y"] = g.op(OUTWARD.name, g.op("Contract", again, again, "a,k;k,b;a,b", (64, 64)))
    g.outputs["first"] = first
    found = labels(planned(g))
    assert found.count("CopyToDevice") == 1 and found.count("CopyToHost") == 2
    assert len(found) == 5


def test_an_output_that_is_an_argument_never_leaves_the_host(gpu):
    g = Graph()
    x, y = g.input("x", (5,), "f32"), g.input("y", (5,), "f32")
    g.outputs["same"], g.outputs["sum"] = x, g.add(y, y)
    program = compile_graph(g, Options(device="cuda", cache=False))
    assert labels(program.plan) == ["CopyToDevice", "elementwise", "CopyToHost"]
    a, b = floats(5), floats(5)
    got = program(a, b)
    np.testing.assert_array_equal(got["same"], a)
    np.testing.assert_array_equal(got["sum"], b + b)
    assert gpu.count("cuMemcpyHtoDAsync_v2") == gpu.count("cuMemcpyDtoHAsync_v2") == 1
    there = Foreign(gpu, a)
    np.testing.assert_array_equal(program(there, b)["same"], a)  # from the device after all
    out = Foreign(gpu, np.zeros(5, np.float32))
    program(a, b, out={"same": out})
    np.testing.assert_array_equal(out.read(), a)
    program(there, b, out={"same": out})
    np.testing.assert_array_equal(out.read(), a)


def test_a_state_that_becomes_another_argument(gpu):
    g = Graph()
    x, s = g.input("x", (5,), "f32"), g.input("s", (5,), "f32", "state")
    g.outputs["y"], g.updates[1] = g.add(x, s), x
    program = compile_graph(g, Options(device="cuda", cache=False))
    a, b = floats(5), floats(5)
    for state in (b.copy(), Foreign(gpu, b)):
        np.testing.assert_array_equal(program(a, s=state)["y"], a + b)
        np.testing.assert_array_equal(state if isinstance(state, np.ndarray) else state.read(), a)


@pytest.mark.parametrize("there", ((), (0,), (1,), (0, 1)))
def test_states_that_change_places(there, gpu):
    """On the host, on the device, and one of each."""
    g = Graph()
    s, t = g.input("s", (5,), "f32", "state"), g.input("t", (5,), "f32", "state")
    g.outputs["y"], g.updates[0], g.updates[1] = g.add(s, s), t, s
    program = compile_graph(g, Options(device="cuda", cache=False))
    values = floats(5), floats(5)
    states = [Foreign(gpu, v) if i in there else v.copy() for i, v in enumerate(values)]
    np.testing.assert_array_equal(program(s=states[0], t=states[1])["y"], values[0] * 2)
    for state, value in zip(states, reversed(values), strict=True):
        np.testing.assert_array_equal(
            state if isinstance(state, np.ndarray) else state.read(), value)


def test_constants_and_movement_are_stored_before_they_are_copied(gpu):
    def f(x):
        return x.T, x[:, 1:3], tegg.full((3, 2), 7.0)

    x = floats(4, 6)
    for got, want in zip(tegg.compile(f, device="cuda", cache=False)(x),
                         (x.T, x[:, 1:3], np.full((3, 2), 7, np.float32))):
        np.testing.assert_array_equal(got, want)


# ---- rules see them
def test_rules_of_the_target_cancel_them_in_every_precision():
    g = chain("Sqrt", OUTWARD.name, INWARD.name, "Sin")
    for precision in ("bitwise", "reals"):
        done = saturate(on_device(g, TARGET), (Generic(), lowering(TARGET)), precision,
                        features=("cuda",))
        kinds = [n.op.name for ns in done.classes.nodes.values() for n in ns]
        assert kinds.count("CopyToHost") == 2, kinds  # of the middle, which nothing reads, and y
        assert done.report.rules["copies/device"].matches


def test_every_class_agrees_with_its_copies():
    g = on_device(chain("Sqrt", OUTWARD.name, INWARD.name, "Sin"), TARGET)
    check_egraph(g, (Generic(), lowering(TARGET)), features=("cuda",))


def test_a_rule_of_the_users_sees_them(tmp_path):
    """A result that the host widens may be narrow on the way: here by a rule of three lines."""
    rules = tmp_path / "narrow.egg"
    rules.write_text(""";; Results leave the device before they are widened, so that fewer bytes move.
;;
;; ruleset:  narrow
;; class:    bitwise
;; phase:    lower
;; uses:     -
;; grows:    no
;; targets:  cuda

(ruleset narrow)

;; host(x + x)  =>  host(2 x)      as a law that holds to the bit
(rewrite (CopyToHost (Add x x)) (CopyToHost (Mul x (Const 2.0)))
         :ruleset narrow :name "narrow/twice")
""")
    g = Graph()
    x = g.op("Sin", g.input("x", (64,), "f32"))
    g.outputs["y"] = g.add(x, x)
    done = saturate(on_device(g, TARGET), (Generic(), Compiler(rules), lowering(TARGET)),
                    features=("cuda",))
    assert done.report.rules["narrow/twice"].matches


# ---- the plan
def test_the_plan_has_them_with_a_price():
    plan = planned(chain("Sin", shape=(1 << 20,)))
    (inward, _, outward) = plan.run
    costs = TARGET.costs()
    assert inward.seconds == outward.seconds == costs.copied(4 << 20)
    assert costs.copied(4 << 20) == costs.copy + (4 << 20) / costs.copy_rate
    assert plan.seconds == pytest.approx(sum(c.seconds for c in plan.run))
    assert "CopyToDevice" in plan.show() and inward.stages == ()
    assert [plan.kernels[c.kernel].moves for c in (inward, outward)] == ["device", "host"]


def test_results_that_stay_there_are_not_copied_back(gpu):
    f = tegg.compile(lambda x: x.sin(), tegg.Generic(), tegg.Cuda(results="device"), cache=False)
    x = floats(64)
    assert labels(f.program(x).plan) == ["CopyToDevice", "elementwise"]
    np.testing.assert_allclose(f(x).numpy(), np.sin(x), 1e-5, 1e-6)
    out = np.zeros(64, np.float32)  # asked for on the host after all
    f.program(x)(x, out={f.program(x).signature.results[0].name: out})
    np.testing.assert_allclose(out, np.sin(x), 1e-5, 1e-6)


def test_resident_arguments_need_none(gpu):
    f = tegg.compile(lambda x, y: x @ y, device="cuda", cache=False)
    x, y = floats(8, 8), floats(8, 8)
    out = Foreign(gpu, np.zeros((8, 8), np.float32))
    program = f.program(x, y)
    name = program.signature.results[0].name
    program(Foreign(gpu, x), Foreign(gpu, y), out={name: out})
    assert gpu.count("cuMemcpyHtoDAsync_v2") == gpu.count("cuMemcpyDtoHAsync_v2") == 0
    with driver.open_device().current():
        driver.open_device().wait(0)
    np.testing.assert_allclose(out.read(), x @ y, 1e-4, 1e-5)
    rows = program.profile(x, y)
    assert [r["what"] for r in rows][::len(rows) - 1] == ["CopyToDevice", "CopyToHost"]
    assert all(r["seconds"] > 0 for r in rows)


def test_halves_do_not_pass_through_a_copy(gpu):
    """An argument and a result lie as they were given, whatever form values between take."""
    f = tegg.compile(lambda x, w: (x @ w).relu(), tegg.Generic(), tegg.Bf16(), tegg.Cuda(),
                     cache=False)
    x, w = floats(16, 32), floats(32, 16)
    np.testing.assert_allclose(f(x, w), np.maximum(x @ w, 0), 5e-2, 5e-2)


def test_lowering_and_costs():
    assert (lower_copy("k", INWARD).moves, lower_copy("k", OUTWARD).moves) == ("device", "host")
    assert load_costs("cpu/generic").copied(100) == 0.0
    with pytest.raises(ArgumentError, match="rates, sizes"):
        checked_costs({**_plain(), "copy_rate": 0.0}, "here")
    with pytest.raises(ArgumentError, match="rates, sizes"):
        checked_costs({**_plain(), "copy": -1.0}, "here")


def _plain():
    import tomllib
    from importlib.resources import files
    text = files("tegg.backends").joinpath("cuda", "costs", "generic.toml").read_text()
    return tomllib.loads(text)
