"""The toy accelerator computes what the oracle says, and copies no more than it must."""

import numpy as np
import pytest
from tegg_example.simulator import Machine
from tegg_example.target import Toy

import tegg
from tegg.extend import Compiler, Fragment, Generic, Graph, KernelCode, LoweringError, Work
from tegg.testing import check_backend, check_compilers


def compiled(f, toy, **options):
    return tegg.compile(f, Generic(), Compiler(name="toy", target=toy), cache=False, **options)


def test_it_agrees_with_the_oracle():
    report = check_backend(Toy(), examples=2)
    assert {"ToyAdd", "ToySumReduce", "ToyPut"} <= report.rows
    assert report.programs == 2 and report.views == 4


@pytest.mark.long
def test_its_rules_are_sound():
    toy = Toy()
    report = check_compilers(Compiler(*toy.rules, ops=toy.ops, name="toy"), examples=2)
    assert len(report.rules) == 25


def test_copies_that_meet_are_cancelled():
    toy = Toy()
    run = compiled(lambda x, y: ((x + y) * y).sum(-1).sqrt(), toy)
    x = np.full((4, 8), 2, np.float32)
    np.testing.assert_allclose(run(x, x), np.full(4, 8), 1e-6)
    machine = toy.machine
    assert (machine.launches, machine.puts, machine.gets) == (1, 2, 1)


def test_values_stay_in_its_memory_between_launches():
    toy = Toy()

    def f(x, rows, y):
        return tegg.scatter(x, 0, rows, y, reduce="sum").softmax(-1)

    x, y = np.zeros((5, 3), np.float32), np.ones((2, 3), np.float32)
    run = compiled(f, toy)
    got = run(x, np.array([[1] * 3, [3] * 3]), y)
    np.testing.assert_allclose(got, np.full((5, 3), 1 / 3), 1e-6)


def test_symbolic_sizes_and_states():
    toy = Toy()
    n = tegg.dim("n", min=1, max=64)
    graph = tegg.Graph()
    x, total = graph.tensor((n, 3), name="x"), graph.tensor((3,), name="total")
    tegg.state(total, total + x.sum(0))
    run = graph.compile([Generic(), Compiler(name="toy", target=toy)], cache=False)
    kept = np.zeros(3, np.float32)
    for rows in (1, 5, 64):
        run(x=np.ones((rows, 3), np.float32), total=kept)
    assert kept.tolist() == [70, 70, 70]


def test_an_op_that_no_rule_maps_is_named():
    class Bare(Toy):
        rules = ()

    with pytest.raises(tegg.ExtractionError, match="Add has no lowering for f32 on toy: the toy "
                                                   "has no such instruction"):
        compiled(lambda x: x + x * x, Bare())(np.ones(3, np.float32))


def test_a_program_without_a_copy_is_stopped():
    text = """# bad
{"do": "load", "to": 0, "of": [], "shape": [2], "dtype": "f32", "buffer": 0, "place": "host"}
{"do": "sqrt", "to": 1, "of": [0], "shape": [2], "dtype": "f32"}"""
    code = KernelCode("bad", text, (), (), (), Work(0, 0, 0, 0))
    with pytest.raises(tegg.BackendError, match="the toy's sqrt reads register 0, which lies in "
                                                "the memory of the host; a rule lacks a copy"):
        Machine().launch(code, [np.ones(2, np.float32)], {})


def test_ops_of_the_host_are_no_instructions():
    graph = Graph()
    x = graph.input("x", (2,), "f32")
    with pytest.raises(LoweringError, match="Add is an op of the host"):
        Toy().lower(Fragment(graph, (graph.add(x, x),), ()), "k", frozenset())
