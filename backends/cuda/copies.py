"""Copies between the host and the GPU: rows of the op table, and what stands for them in plans."""

from __future__ import annotations

from functools import cache

from tegg.ir.op import OPS, Op
from tegg.ir.places import Copies
from tegg.kernel.code import KernelCode, Work

INWARD, OUTWARD = "CopyToDevice", "CopyToHost"


@cache
def copy_rows() -> tuple[Op, Op]:
    """The rows of both copies: the identity on values of any dtype."""
    def row(name: str, doc: str) -> Op:
        same = OPS["Contiguous"]
        return Op(name, "copy", 1, same.shape, same.dtype, same.meaning, domains=("any",),
                  cost=0.0, doc=doc)

    return row(INWARD, "copied to the GPU"), row(OUTWARD, "copied back to the host")


def copies(results: bool) -> Copies:
    """What stands at the borders of programs; ``results``: whether results are copied back."""
    inward, outward = copy_rows()
    return Copies(inward, outward, results)


def lower_copy(name: str, op: Op) -> KernelCode:
    """A copy as a call that the runtime makes: it has no source."""
    return KernelCode(name, "", (), (), (), Work(0, 0, 0, 0),
                      moves="device" if op.name == INWARD else "host")
