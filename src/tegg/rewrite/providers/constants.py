"""Constant folding: values computed from Fulls alone are Fulls."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

import numpy as np

from tegg.bits import bits_of
from tegg.ir.classes import ENode
from tegg.ir.oracle import apply
from tegg.rewrite.providers import Fact
from tegg.rewrite.view import View


class Constants:
    """``(constant e v)``: every element of e is the value of pattern v, in e's own dtype.

    Only elementwise ops are folded, by their own meaning; movement of a Full is for rules. What
    gives a NaN is left to the run.
    """

    name = "constants"
    relations = MappingProxyType({"constant": ("Tensor", "i64")})

    def facts(self, view: View) -> Iterable[Fact]:
        known: dict[int, int] = {c: n.attrs[2] for c, n in view.having("Full")}
        ready = [(c, n) for c, nodes in view.nodes.items() if c not in known for n in nodes
                 if n.op.kind == "elementwise" and n.args]
        changed = True
        while changed:
            changed = False
            for c, n in ready:
                if c not in known and all(a in known for a in n.args):
                    bits = self._fold(n, c, known, view)
                    if bits is not None:
                        known[c] = bits
                        changed = True
                        yield ("constant", c, bits)

    @staticmethod
    def _fold(n: ENode, c: int, known: dict[int, int], view: View) -> int | None:
        full = view.table["Full"]
        args = [apply(full, [], (view.dtype[a], (), known[a]), (), view.dtype[a], {})
                for a in n.args]
        dtype = view.dtype[c]
        if n.op.name == "Cast" and dtype.kind == "int" and view.dtype[n.args[0]].is_float:
            low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
            if not low <= float(args[0]) <= high:  # undefined: left to the run
                return None
        value = apply(n.op, args, n.attrs, (), dtype, {})
        if dtype.is_float and np.isnan(value.astype(np.float64)):
            return None
        return bits_of(value.item(), dtype)
