"""Lowers fragments around contractions to kernels of tiles in shared memory, with fused ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.simt.ends import Ends
from tegg.backends.simt.evaluate import Evaluator, follows, padded
from tegg.backends.simt.language import SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.products import Products, loads, nothing, products_of, stage
from tegg.backends.simt.sums import Sums
from tegg.backends.simt.templates import Tile, register
from tegg.dim import Dim
from tegg.dtype import DType
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Stage, Temporary
from tegg.kernel.contraction_classify import Contraction, Group, Term
from tegg.kernel.domain import spread
from tegg.kernel.index import Var
from tegg.kernel.simt import THREADS
from tegg.kernel.value import Val


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
                      parts if split else found.writes, self._tiles(), blocks=1,
                      index=self.index)]
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
            with p.braces(f"for ({index} tile = block_id(); tile < {t.parts} * batches * down * "
                          "across; tile += block_count())"):
                p.line(f"const {index} item = tile / (down * across) % batches, "
                       "part = tile / (down * across) / batches;")
                self.at.unpack("item", c.batch)
                p.line(f"const {index} m_from = tile / across % down * {t.rows}, "
                       f"n_from = tile % across * {t.columns};")
                for term in self.group.terms:
                    for line in self.sums.start(term.anchor):
                        p.line(line)
                    self._products(term.anchor, term.a, term.b)
                self._results()

    def _products(self, anchor: int, left: Val, right: Val) -> None:
        """The terms of this part of the sums of one contraction, a depth of tiles at a time."""
        c, t, p, index = self.kernel.contraction, self.kernel.tile, self.p, self.p.dialect.index
        with p.braces(f"for ({index} step = steps * part / {t.parts}; "
                      f"step < steps * (part + 1) / {t.parts}; step++)"):
            p.line(f"const {index} k_from = step * {t.depth};")
            self._load(f"left_{self.sums.letter}", left, c.m, "m", t.rows)
            self._load(f"right_{self.sums.letter}", right, self.group.n, "n", t.columns)
            p.line(self.kernel.language.barrier)
            for line in self.sums.multiply(anchor):
                p.line(line)
            p.line(self.kernel.language.barrier)

    def _load(self, where: str, operand: Val, vars: tuple[Var, ...], letter: str,
              size: int) -> None:
        """A tile of an operand; beyond its edges there are zeros. Neighbours read side by side."""
        c, t, p, index = self.kernel.contraction, self.kernel.tile, self.p, self.p.dialect.index
        with p.braces(f"for (int e = thread_id(); e < {size * t.depth}; e += {THREADS})"):
            if follows(operand, (c.k or (None,))[-1], (vars or (None,))[-1]):
                p.line(f"const int d = e % {t.depth}, s = e / {t.depth};")
            else:
                p.line(f"const int d = e / {size}, s = e % {size};")
            p.line(f"const {index} at_k = k_from + d, at_{letter} = {letter}_from + s;")
            p.line(f"{self.sums.type} value = 0;")
            with p.braces(f"if (at_k < {dim(c.depth)} && at_{letter} < {dim(spread(vars))})"):
                self.at.unpack("at_k", c.k)
                self.at.unpack(f"at_{letter}", vars)
                self.at.ensure([operand], (*c.batch, *vars, *c.k))
                p.line(f"value = {p.ref(operand)};")
            p.line(f"{where}[d][s] = ({self.sums.held})value;")

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
