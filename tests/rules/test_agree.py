"""Every e-class agrees on random graphs, with the promise of each precision."""

from __future__ import annotations

from hypothesis import given, settings

from profiles import examples
from tegg.testing.programs import Program, programs
from tegg.rewrite.compiler import Generic
from tegg.testing.agree import check_egraph


@settings(max_examples=examples(20))
@given(program=programs())
def test_the_same_bits(program: Program):
    check_egraph(program.graph, Generic(), program.inputs, program.sizes, "bitwise")


@settings(max_examples=examples(20))
@given(program=programs())
def test_the_same_reals(program: Program):
    """Slack, because a difference of one op may be amplified inside of a longer idiom."""
    check_egraph(program.graph, Generic(), program.inputs, program.sizes, slack=200.0)
