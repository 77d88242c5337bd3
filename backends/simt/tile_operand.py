"""One operand of tiles in shared memory: a thread has its share of the next tile in registers."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.simt.evaluate import Evaluator, follows
from tegg.backends.simt.sums import Sums
from tegg.dim import Dim, exact_div
from tegg.kernel.accesses import Access, neighbours
from tegg.kernel.domain import spread
from tegg.kernel.index import Var
from tegg.kernel.simt import THREADS
from tegg.kernel.value import Val, reachable

_MOST = 4    # neighbours that a thread reads at once, at most: 16 bytes of float32
_SECTOR = 8  # of the depth that neighbouring threads read: what memory brings at least, 32 bytes


@dataclass(frozen=True, slots=True)
class TileOperand:
    """The tiles of one side: ``size`` of its places by the depth of a tile.

    side: ``m`` or ``n``. vars: the loop variables of its places. k: those that are summed over, of
    ``depth`` terms. A thread computes some groups of ``count`` neighbours of a tile, along the
    depth where memory lies so and along the places otherwise.
    """

    side: str
    value: Val
    vars: tuple[Var, ...]
    k: tuple[Var, ...]
    depth: Dim
    sums: Sums

    @property
    def name(self) -> str:
        return "left" if self.side == "m" else "right"

    @property
    def size(self) -> int:
        return self.sums.tile.rows if self.side == "m" else self.sums.tile.columns

    @property
    def along(self) -> bool:
        """Whether neighbours lie along the depth."""
        return follows(self.value, (self.k or (None,))[-1], (self.vars or (None,))[-1])

    @property
    def inner(self) -> Var | None:
        """What neighbours lie along."""
        return ((self.k if self.along else self.vars) or (None,))[-1]

    @property
    def count(self) -> int:
        """Neighbours that are computed together, all of them inside or none."""
        if self.inner is None:
            return 1
        found = [Access(v.attr.form, v.attr.guards, v.dtype, False)
                 for v in reachable([self.value]) if v.op == "load"]
        count = min(_MOST, neighbours(found, self.inner))
        while exact_div(self.inner.extent, count) is None:
            count //= 2
        return count

    @property
    def groups(self) -> int:
        """Groups of neighbours of a tile."""
        return self.size * self.sums.tile.depth // self.count

    @property
    def turns(self) -> int:
        """Groups of one thread, the last one not of every thread."""
        return -(-self.groups // THREADS)

    # ---- code
    def declare(self, at: Evaluator) -> None:
        """Registers for what comes next."""
        at.p.line(f"{self.sums.type} next_{self.name}[{self.turns}][{self.count}] = {{}};")

    def fetch(self, at: Evaluator, batch: tuple[Var, ...]) -> None:
        """Compute this thread's share of tile number ``ahead``, if it is before ``end``, into
        registers; beyond the edges there are zeros."""
        p, index = at.p, at.p.dialect.index
        edges = self._edges()
        with self._each(at):
            p.line(f"const {index} at_k = k_from + d, at_{self.side} = {self.side}_from + s;")
            at.unpack(f"at_{self.side}", self.vars)  # before the test: it is the same in each step
            for u in range(self.count if edges else 0):
                p.line(f"next_{self.name}[c][{u}] = 0;")
            with p.braces(f"if ({' && '.join(['ahead < end', *edges])})"):
                at.unpack("at_k", self.k)
                with p.wide(self.inner, self.count):
                    at.ensure([self.value], (*batch, *self.vars, *self.k))
                    for u in range(self.count):
                        p.line(f"next_{self.name}[c][{u}] = {p.ref(self.value, u)};")

    def put(self, at: Evaluator, buffer: str) -> None:
        """What is in registers goes to shared memory."""
        tile = self.sums.tiles(self.name, buffer)
        with self._each(at):
            for u in range(self.count):
                more = f" + {u}" if self.count > 1 else ""
                place = f"[d{more}][s]" if self.along else f"[d][s{more}]"
                at.p.line(f"{tile}{place} = ({self.sums.held})next_{self.name}[c][{u}];")

    @contextmanager
    def _each(self, at: Evaluator):
        """A loop over the groups of this thread, which begin at depth ``d`` and place ``s``."""
        p = at.p
        p.line("UNROLL")
        with p.braces(f"for (int c = 0; c < {self.turns}; c++)"):
            p.line(f"const int e = thread_id() + {THREADS} * c, {self._place()};")
            with p.braces(f"if (e < {self.groups})") if self.groups % THREADS else nullcontext():
                yield

    def _place(self) -> str:
        """Where group ``e`` begins. Neighbouring threads read side by side; along the depth so much
        of it that what they write, four rows of shared memory apart, meets each bank once."""
        if not self.along:
            per = self.size // self.count
            return f"d = e / {per}, s = e % {per}{_times(self.count)}"
        per = _SECTOR // self.count
        deeper = f" + e / {per * self.size} * {_SECTOR}"
        return (f"d = e % {per}{_times(self.count)}"
                f"{deeper if self.sums.tile.depth > _SECTOR else ''}, s = e / {per} % {self.size}")

    def _edges(self) -> list[str]:
        """Tests of what tiles may be partly beyond."""
        places = spread(self.vars)
        found = ((f"at_k < {dim(self.depth)}", self.depth, self.sums.tile.depth),
                 (f"at_{self.side} < {dim(places)}", places, self.size))
        return [test for test, n, tile in found if exact_div(n, tile) is None]


def _times(count: int) -> str:
    return f" * {count}" if count > 1 else ""
