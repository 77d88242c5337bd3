"""Every rule states what is true in NumPy, and fires on its own left side."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tegg.compiler import Generic, stack
from tegg.egraph import saturate
from tegg.testing.soundness import check_rule

STACK = stack(Generic())
HOME = {r.name: (r, s) for s in STACK.rule_sets for r in s.rules}


@pytest.mark.parametrize("name", HOME)
@settings(max_examples=60)
@given(rng=st.randoms(use_true_random=True))
def test_both_sides_mean_the_same(name, rng):
    check_rule(*HOME[name], STACK, rng)
