"""Results of which a short innermost axis lies side by side: pairs of a complex number, the
pixels that one becomes, what is stacked last.

Lanes along so few would be few. Vectors run along the axis outside of it, wait in scratch, and are
written element by element of each in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.dim import hint
from tegg.kernel.domain import Write
from tegg.kernel.index import Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Array, Keep, Loop, Stmt, Store, Weave, arrays
from tegg.kernel.value import reachable

MOST = 7  # values of the axis inside


@dataclass(frozen=True, slots=True)
class Weaving:
    """The axis that vectors run along, and the short one inside of it."""

    along: Var
    inside: Var

    def order(self, vars: Sequence[Var]) -> tuple[Var, ...]:
        """The loops of the nest."""
        rest = tuple(v for v in vars if v not in (self.along, self.inside))
        return (*rest, self.along, self.inside)

    def woven(self, stmts: Sequence[Stmt], block: int) -> tuple[Stmt, ...]:
        """A nest in that order with its stores woven. block: elements of the vectors of one
        iteration."""
        number = max((a.number for a in arrays(stmts)), default=0)
        out: list[Stmt] = []
        for s in stmts:
            if not isinstance(s, Loop):
                out.append(s)
            elif s.var != self.inside or not any(isinstance(x, Store) for x in s.body):
                out.append(replace(s, body=self.woven(s.body, block)))
            else:
                stores = [x for x in s.body if isinstance(x, Store)]
                scratch = [Array(number + 1 + i, x.write.value.dtype, (self.inside,), block)
                           for i, x in enumerate(stores)]
                kept = dict(zip(map(id, stores), scratch))
                out.append(replace(s, body=tuple(
                    Keep(x.write.value, kept[id(x)]) if isinstance(x, Store) else x
                    for x in s.body)))
                out += [Weave(x.write, a, self.inside) for x, a in zip(stores, scratch)]
        return tuple(out)


def weaving(writes: Sequence[Write], lanes: Lanes) -> Weaving | None:
    """How an elementwise nest is woven whose stores all end in the same short axis."""
    vars = writes[0].vars
    values = reachable(v for w in writes for v in w.needs())
    if any(w.vars != vars or w.mode != "store" or w.guards or w.ordered for w in writes) or any(
            v.op in ("red", "scan") for v in values):
        return None

    def stride(v: Var) -> int | None:
        found = {lanes.coefficient(w.form, v) for w in writes}
        (only, *others) = found
        return only if not others and isinstance(only, int) else None

    inside = next((v for v in vars if isinstance(v.extent, int) and 2 <= v.extent <= MOST
                   and stride(v) == 1), None)
    along = next((v for v in vars if inside is not None and v is not inside
                  and stride(v) == inside.extent and hint(v.extent) >= lanes.width), None)
    if inside is None or along is None or any(along not in w.value.deps for w in writes):
        return None
    return Weaving(along, inside)
