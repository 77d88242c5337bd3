"""Values at places of a tile: flat positions become loop variables, and code for what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.simt.language import SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.dim import Dim, exact_div
from tegg.kernel.accesses import Access, neighbours
from tegg.kernel.contraction_classify import AnchoredPropagation
from tegg.kernel.index import Var
from tegg.kernel.lane import Lanes
from tegg.kernel.place import Placer
from tegg.kernel.simt import LIMITS
from tegg.kernel.value import Val, reachable
from tegg.kernel.vectorise import Vectoriser

NEIGHBOURS = 8  # of memory that a thread takes at once, at most: 16 bytes of halves


@dataclass(slots=True)
class Evaluator:
    """Prints, for one thread, values of one propagation."""

    propagation: AnchoredPropagation
    language: SimtC
    p: SimtPrinter

    def unpack(self, flat: str, vars: Sequence[Var]) -> None:
        """The variables of one side from their flat position, outermost first."""
        after: list[str] = []
        for i, v in reversed(list(enumerate(vars))):
            text = f"({flat})"
            text += f" / ({' * '.join(after)})" if after else ""
            text += f" % {dim(v.extent)}" if i else ""
            self.p.line(f"const {self.p.dialect.index} {self.p.name(v)} = {text};")
            after.insert(0, dim(v.extent))

    def ensure(self, wanted: Sequence[Val], scope: Iterable[Var],
               given: Mapping[int, str] | None = None) -> None:
        """Compute values where these variables are known, and these values under their names."""
        p, given = self.propagation, dict(given or {})
        placer = Placer(p.values, Vectoriser(Lanes(p.algebra, self.language.width)), LIMITS)
        placer.open, placer.known = list(scope), [set(given)]
        stmts = placer.ensure([v for v in wanted if v.id not in given])
        self.p.at.given = given
        self.p.block(stmts)


def follows(value: Val, inner: Var | None, other: Var | None) -> bool:
    """Whether memory below a value is contiguous along one variable rather than another."""
    forms = [v.attr.form for v in reachable([value]) if v.op == "load"]
    mine = sum(f.coefficient(inner) == 1 for f in forms) if inner else 0
    return mine > (sum(f.coefficient(other) == 1 for f in forms) if other else 0)


def together(values: Sequence[Val], vars: Sequence[Var]) -> int:
    """How many neighbours along the innermost of some loops one access of what is read has."""
    if not vars:
        return 1
    found = [Access(v.attr.form, v.attr.guards, v.dtype, False)
             for v in reachable(values) if v.op == "load"]
    count = min(NEIGHBOURS, neighbours(found, vars[-1]))
    while len(vars) > 1 and exact_div(vars[-1].extent, count) is None:
        count //= 2
    return count


def padded(n: Dim, tile: int) -> Dim:
    """An extent in whole tiles; of a symbolic one, at least that."""
    return -(-n // tile) * tile if isinstance(n, int) else n + (tile - 1)
