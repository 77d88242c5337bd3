"""Random graphs of adversarial views as one kernel each, constant and symbolic, at every width."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from profiles import examples
from tegg.backends.cpu.target import Cpu

from tegg.testing.backend import check_view
from tegg.testing.strategies import views

COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.parametrize("lanes", (16, 8, 4))
@settings(max_examples=examples(14), **COMMON)
@given(case=views())
def test_constant_shapes(lanes, case):
    check_view(Cpu(lanes), case)


@settings(max_examples=examples(40), **COMMON)
@given(case=views(symbolic=True))
def test_symbolic_shapes(case):
    check_view(Cpu(16), case)
