"""Classes that are alike: what is found of one of them is what each would find by itself."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest
from eclass_graphs import classes_of, encoder
from extraction import Stages
from hypothesis import given
from tegg.testing.programs import programs

from tegg.extract import Limits
from tegg.extract.alike import Alike
from tegg.extract.cones import Cones

_NAMES = Alike.names


@contextmanager
def _each_by_itself():
    """No class is like another."""
    def names(self, c):
        found = _NAMES(self, c)
        return replace(found, key=(*found.key, -1 - c))
    Alike.names = names
    try:
        yield
    finally:
        Alike.names = _NAMES


def _cuts(cones: Cones) -> dict:
    return {c: [(z.leaves, list(z.body), [id(n) for n in z.body.values()], z.seconds)
                for z in found] for c, found in cones.cuts.items()}


def _same(classes, limits: Limits | None = None, costs=None) -> Cones:
    """The cones of classes, which are those that each would find by itself."""
    some = Stages(classes, *([] if costs is None else [costs]), limits=limits).cones
    with _each_by_itself():
        one = Stages(classes, *([] if costs is None else [costs]), limits=limits).cones
    assert _cuts(some) == _cuts(one) and some.flow == one.flow and some.inner == one.inner
    assert some.tried <= one.tried
    return some


@given(programs())
def test_programs(program):
    _same(classes_of(program.graph))


@given(programs())
def test_programs_under_tight_limits(program):
    """Where little fits, borders are set again."""
    _same(classes_of(program.graph), Limits(cuts=2, inputs=2, values=3, combinations=4))


@pytest.mark.parametrize("layers", [3, 6])
def test_layers_of_an_encoder_are_alike(layers):
    found = _same(classes_of(encoder(layers)))
    assert found.tried == _same(classes_of(encoder(layers + 1))).tried, "one more is enumerated"
    narrow = frozenset({"bf16"})
    graph = encoder(layers)
    _same(classes_of(graph, {n.id: narrow for n in graph.reachable() if n.dtype.is_float}))
