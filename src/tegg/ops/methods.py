"""The public ops as methods: ``x.softmax(-1)`` is ``tegg.softmax(x, -1)``."""

from __future__ import annotations

from typing import NoReturn

from tegg.ops.public import PUBLIC, methods_of, nearest
from tegg.ops.value import Value


class Methods(Value):
    """A Value with every public op as a method, under each of its names."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        """Only for names that do not exist: the nearest one is told."""
        known = [n for n in dir(type(self)) if not n.startswith("_")]
        raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}"
                             f"{nearest(name, known)}", name=name, obj=self)


for _op in PUBLIC.values():
    for _name in methods_of(_op):
        setattr(Methods, _name, _op.function)
del _op, _name
