"""Lowers fragments around contractions to kernels of tiles in shared memory, with fused ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.simt.ends import Ends
from tegg.backends.simt.evaluate import Evaluator, padded
from tegg.backends.simt.language import SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.products import Products, dealt_tiles, loads, nothing, products_of, stage
from tegg.backends.simt.sums import Sums
from tegg.backends.simt.templates import Tile, register
from tegg.backends.simt.tile_operand import TileOperand
from tegg.dim import Dim
from tegg.dtype import DType
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Stage, Temporary
from tegg.kernel.contraction_classify import Contraction, Group, Term
from tegg.kernel.domain import spread
from tegg.kernel.simt import THREADS

_TWICE = 256  # bytes of a thread's sums of which two blocks find room
_ARRAYS = 6   # and arrays that both operands are computed from: a norm's


def lower_contraction(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                      language: SimtC, tile: Tile, how: type[Sums] = Sums) -> KernelCode:
    """The kernel that computes ``outputs``, whose products are ``anchors``, by tiles.

    ``how`` says where sums are kept, and what multiplies.

    What lies below the anchors' operands is evaluated while tiles are loaded, what lies above
    while results are stored; reductions among it are made before, by kernels of their own.
    Raises LoweringError where the fragment has another form.
    """
    found = products_of(graph, outputs, anchors, name, language)
    if found is None:
        return nothing(name)
    return _Kernel(name, found, tile, language, how).code()


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    products: Products
    tile: Tile
    language: SimtC
    how: type[Sums]

    @property
    def contraction(self) -> Contraction:
        return self.products.contraction

    def code(self) -> KernelCode:
        c, found, split = self.contraction, self.products, self.tile.parts > 1
        p = self._printer()
        shared: dict[str, None] = {}
        if len(c.groups) > 1:
            p.line(f"{self.index} dealt = 0;")
        for group in c.groups:
            letter = REGISTER[group_register(group).name]
            sums = self.how(self.tile, self.language, letter, len(group.terms))
            shared |= dict.fromkeys(sums.shared())
            _Tiles(self, group, p, sums).write()
        ends = loads(found.results, found.sums)
        parts = {self.partial(t): group_register(g) for g in c.groups for t in g.terms}
        lines = [*(f"  {line}" for line in shared), *p.lines]
        made = [stage(self.language, self.name, found.symbols, lines,
                      {**loads(found.operands), **({} if split else ends)},
                      parts if split else found.writes, self._tiles(), blocks=self._blocks(),
                      index=self.index, beside=True)]
        if split:
            made.append(self._total(ends, parts))
        own = tuple(Temporary(group_register(g), self.tile.parts * Ends(self.at(p), c, g).points)
                    for g in c.groups for _ in g.terms) if split else ()
        b = found.before
        return KernelCode(self.name, "\n".join([*b.sources, *(s for s, _ in made)]),
                          (*b.stages, *(s for _, s in made)), (*b.temporaries, *own),
                          found.symbols, found.work(own), (f"{self.tile}",))

    def _total(self, reads: dict[int, DType], parts: dict[int, DType]) -> tuple[str, Stage]:
        """What the sums of all parts become."""
        c, p = self.contraction, self._printer()
        for group in c.groups:
            Ends(self.at(p), c, group).total([(t, self.partial(t)) for t in group.terms],
                                             self.tile.parts,
                                             REGISTER[group_register(group).name])
        points = tuple((Ends(self.at(p), c, g).points, THREADS) for g in c.groups)
        return stage(self.language, f"{self.name}_total", self.products.symbols, p.lines,
                     {**reads, **parts}, self.products.writes, points, index=self.index)

    @property
    def index(self) -> str:
        """The type of what counts."""
        t = self.tile
        return self.products.index(max(t.rows, t.columns, t.depth), t.parts)

    def _printer(self) -> SimtPrinter:
        return SimtPrinter(replace(self.language.dialect, index=self.index),
                           self.contraction.propagation.algebra)

    def at(self, p: SimtPrinter) -> Evaluator:
        """What prints values at places of the tiles."""
        return Evaluator(self.contraction.propagation, self.language, p)

    def partial(self, term: Term) -> int:
        """The slot of a term's partial sums."""
        return self.products.extra + [t for g in self.contraction.groups
                                      for t in g.terms].index(term)

    def _blocks(self) -> int:
        """Blocks that a multiprocessor shall hold: two, so that one multiplies while the other
        waits, where a thread's sums, and what it computes meanwhile, leave room for that."""
        groups, (a, b) = self.contraction.groups, self.tile.mine
        sums = max(a * b * len(g.terms) * group_register(g).itemsize for g in groups)
        arrays = max(len(loads([t.a, t.b])) for g in groups for t in g.terms)
        return 2 if sums <= _TWICE and arrays <= _ARRAYS else 1

    def _tiles(self) -> tuple[tuple[Dim, int], ...]:
        """At least a block for each tile: of symbolic sizes, the tiles at the edges count whole."""
        c, t = self.contraction, self.tile
        return tuple((t.parts * spread(c.batch) * padded(spread(c.m), t.rows)
                      * padded(spread(g.n), t.columns), t.rows * t.columns) for g in c.groups)


@dataclass(slots=True)
class _Tiles:
    """The tiles of one group of results."""

    kernel: _Kernel
    group: Group
    p: SimtPrinter
    sums: Sums

    @property
    def at(self) -> Evaluator:
        return self.kernel.at(self.p)

    def write(self) -> None:
        c, t, p, index = self.kernel.contraction, self.kernel.tile, self.p, self.p.dialect.index
        m, n = dim(spread(c.m)), dim(spread(self.group.n))
        with p.braces(""):
            p.line(f"const {index} down = ({m} + {t.rows - 1}) / {t.rows}, "
                   f"across = ({n} + {t.columns - 1}) / {t.columns};")
            p.line(self.sums.place())
            p.line(f"const {index} batches = {dim(spread(c.batch))}, steps = "
                   f"({dim(c.depth)} + {t.depth - 1}) / {t.depth};")
            with dealt_tiles(p, f"{t.parts} * batches * down * across", len(c.groups) > 1):
                p.line(f"const {index} item = tile / (down * across) % batches, "
                       "part = tile / (down * across) / batches;")
                self.at.unpack("item", c.batch)
                p.line(f"const {index} m_from = tile / across % down * {t.rows}, "
                       f"n_from = tile % across * {t.columns};")
                for term in self.group.terms:
                    for line in self.sums.start(term.anchor):
                        p.line(line)
                    with p.braces(""):
                        self._products(term)
                self._results()

    def _products(self, term: Term) -> None:
        """The products of this part of the sums of one contraction, a tile of the depth at a time.
        While those of one tile are summed, the next one is on its way to registers; where shared
        memory has room for two it goes beside the one that is read, else after it."""
        t, p, index = self.kernel.tile, self.p, self.p.dialect.index
        operands = self._operands(term)
        barrier, two = self.kernel.language.barrier, self.sums.buffers == 2
        p.line(f"const {index} first = steps * part / {t.parts}, "
               f"end = steps * (part + 1) / {t.parts};")
        for o in operands:
            o.declare(self.at)
        with p.braces(""):
            self._fetch(operands, "first")
            self._put(operands, "0")
        p.line(barrier)
        if two:
            p.line("int now = 0;")
        more = ", now = 1 - now" if two else ""
        with p.braces(f"for ({index} step = first; step < end; step++{more})"):
            self._fetch(operands, "step + 1")
            for line in self.sums.multiply(term.anchor):
                p.line(line)
            if not two:
                p.line(barrier)
            self._put(operands, "1 - now")
            p.line(barrier)

    def _operands(self, term: Term) -> tuple[TileOperand, TileOperand]:
        c = self.kernel.contraction
        return (TileOperand("m", term.a, c.m, c.k, c.depth, self.sums),
                TileOperand("n", term.b, self.group.n, c.k, c.depth, self.sums))

    def _fetch(self, operands: Sequence[TileOperand], tile: str) -> None:
        """This thread's share of a tile of both operands, to registers."""
        index = self.p.dialect.index
        self.p.line(f"const {index} ahead = {tile}, k_from = ahead * {self.kernel.tile.depth};")
        for o in operands:
            o.fetch(self.at, self.kernel.contraction.batch)

    def _put(self, operands: Sequence[TileOperand], buffer: str) -> None:
        for o in operands:
            o.put(self.at, buffer)

    def _results(self) -> None:
        """Store what the sums become, or the sums of this part."""
        ends, terms = Ends(self.at, self.kernel.contraction, self.group), self.group.terms
        count, even = ends.together(self.sums.together)
        split = self.kernel.tile.parts > 1
        count = self.sums.together if split else count
        with self.sums.results(self.p, [t.anchor for t in terms], count) as names:
            if split:
                word = f"s{self.sums.letter}_word({{}})" if self.sums.letter in "fi" else None
                ends.part([self.kernel.partial(t) for t in terms], names, "from_n", count,
                          word and word.format)
            else:
                ends.store({t.sum.id: name for t, name in zip(terms, names)}, "from_n", count,
                           even)


def group_register(group: Group) -> DType:
    """The dtype in which the sums of a group are kept."""
    return register(group.terms[0].sum.dtype)
