"""The whole way: random programs compiled for the CPU agree with the oracle, on several stacks."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from kernels import close
from random_graphs import programs
from tegg.ir import oracle
from tegg.rewrite.compiler import Compiler, Generic
from tegg.dtype import f32, f64
from tegg.runtime.driver import Options, compile_graph

STACKS = {
    "no rules": Options((Compiler(name="nothing"),), cache=False),
    "generic": Options((Generic(),), cache=False),
    "generic, bitwise": Options((Generic(),), precision="bitwise", cache=False),
    "generic, heuristic": Options((Generic(),), budget_s=0, cache=False),
}


def agree(program, options, fast=True):
    """A program compiled with these options gives what the oracle says, by each way to call it."""
    g, program.inputs = program.graph, {i: np.array(v) for i, v in program.inputs.items()}
    for i, spec in enumerate(g.inputs):
        if spec.kind == "weight":
            spec.source = program.inputs[i]
    if program.sizes:  # every symbol is the size of some axis
        program.inputs[len(g.inputs)] = np.zeros(tuple(program.sizes.values()), np.float32)
        g.input("sizes", tuple(program.dims), "f32")
    names, updates = list(g.outputs), list(g.updates)
    want = oracle.evaluate([*g.outputs.values(), *g.updates.values()], program.inputs,
                           program.sizes)
    compiled = compile_graph(g, options)
    calls = [lambda a: compiled(**a)]
    if fast:
        calls.append(lambda a: dict(zip(names, compiled.attempt(tuple(a.values())))))
    for call in calls:
        arrays = {s.name: program.inputs[i].copy() for i, s in enumerate(g.inputs)
                  if s.kind != "weight"}
        got = call(arrays)
        results = [got[n] for n in names] + [arrays[g.inputs[s].name] for s in updates]
        for name, node, r, w in zip([*names, *updates],
                                    [*g.outputs.values(), *g.updates.values()], results, want):
            # a float64 that was computed from float32 is as exact as those
            narrow = node.dtype is f64 and any(n.dtype is f32 for n in g.reachable([node]))
            wrong = close(r, w, f32 if narrow else node.dtype)
            assert wrong is None, (options, name, wrong)


@pytest.mark.parametrize("stack", STACKS)
@given(program=programs())
@settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_compiled_programs_equal_the_oracle(stack, program):
    agree(program, STACKS[stack])
