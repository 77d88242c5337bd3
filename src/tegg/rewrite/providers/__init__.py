"""Fact providers: Python that reads the e-graph between rounds and states what text cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

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
