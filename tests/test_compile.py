"""The whole way: random programs compiled for the CPU agree with the oracle, on several stacks."""

import pytest
from hypothesis import Phase, given, settings

from profiles import examples
from tegg.rewrite.compiler import Compiler, Generic
from tegg.runtime.driver import Options
from tegg.testing.backend import check_program
from tegg.testing.strategies import programs

STACKS = {
    "no rules": Options((Compiler(name="nothing"),), cache=False),
    "generic": Options((Generic(),), cache=False),
    "generic, bitwise": Options((Generic(),), precision="bitwise", cache=False),
    "generic, heuristic": Options((Generic(),), budget_s=0, cache=False),
}


@pytest.mark.parametrize("stack", STACKS)
@given(program=programs())
@settings(max_examples=examples(12), phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_compiled_programs_equal_the_oracle(stack, program):
    check_program(program, STACKS[stack])
