"""Fact providers: Python that reads the e-graph between rounds and states what text cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from tegg.ir.graph import Graph
from tegg.rewrite.view import View

# A fact: the relation, then its arguments. A Tensor is a class of the view, an i64 an int, and
# a String a text or a tuple of dims or ints, which is encoded as attributes are.
Fact = tuple[Any, ...]


@runtime_checkable
class Provider(Protocol):
    """Something that states facts. Its facts must follow from the e-graph: rules trust them.

    relations: name -> sorts of the arguments, from ``Tensor``, ``String`` and ``i64``.
    """

    @property
    def name(self) -> str: ...

    @property
    def relations(self) -> Mapping[str, tuple[str, ...]]: ...

    def facts(self, view: View) -> Iterable[Fact]:
        """Facts that hold in this view; what was stated before may be stated again."""
        ...


@runtime_checkable
class Completing(Provider, Protocol):
    """A provider whose facts follow from their first ``known`` arguments. So rules that read them
    can be drawn and tested (``tegg.testing``): a Tensor is anything with a shape and a dtype."""

    @property
    def known(self) -> int: ...

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """The other arguments of every fact that starts with those given."""
        ...


@runtime_checkable
class Showing(Provider, Protocol):
    """A provider whose facts hold of programs that are too large to be drawn: it gives one."""

    def example(self) -> Graph:
        """A graph of which it states its facts."""
        ...


@runtime_checkable
class Standing(Provider, Protocol):
    """A provider whose facts hold whatever the program is: ``standing`` are all of them, of texts
    and numbers. They are declared once with the rules, and nobody asks for ``facts``."""

    @property
    def standing(self) -> tuple[Fact, ...]: ...


@runtime_checkable
class Weighing(Provider, Protocol):
    """A provider whose facts follow from what weights hold at most (``View.most``), where it
    ``weighs``: that is found out before rules run, and a program is compiled for it."""

    @property
    def weighs(self) -> bool: ...


@runtime_checkable
class Reading(Provider, Protocol):
    """A provider that heeds what rules state, and providers before it: ``reads`` are relations of
    its own whose first argument is a Tensor; ``View.stated`` has what these are stated of."""

    @property
    def reads(self) -> tuple[str, ...]: ...
