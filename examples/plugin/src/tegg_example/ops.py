"""The toy's instructions as rows of the op table: a primop each, and copies to and from it."""

from __future__ import annotations

from dataclasses import replace

from tegg.extend import OPS, Op

COMPUTE = ("Log2", "Exp2", "Sin", "Sqrt", "Recip", "Add", "Mul", "Mod", "LessThan", "SumReduce",
           "MaxReduce", "Contiguous", "Cast", "IntDiv", "Select", "Gather", "Scatter")
MOVE = ("Reshape", "Permute", "Expand", "Slice", "Pad", "Flip", "Window")


def _instruction(name: str) -> Op:
    """A primop that computes on values in the toy's memory: all else is as the primop has it."""
    return replace(OPS[name], name=f"Toy{name}", doc=f"{name}, on the toy")


def _copy(name: str, doc: str) -> Op:
    """A copy: the same values, elsewhere."""
    return replace(OPS["Contiguous"], name=name, cost=4.0, doc=doc)


PUT = _copy("ToyPut", "copied to the toy")
GET = _copy("ToyGet", "copied back to the host")
ROWS = (PUT, GET, *map(_instruction, (*COMPUTE, *MOVE)))
