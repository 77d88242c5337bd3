"""Lowers fragments around contractions to kernels of tiles in shared memory, with fused ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.simt.contraction_before import Before
from tegg.backends.simt.evaluate import Evaluator, follows, padded
from tegg.backends.simt.language import SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.products import nothing, printer_of, products_of
from tegg.backends.simt.sums import Sums
from tegg.backends.simt.templates import Tile, register
from tegg.dim import hint
from tegg.dtype import DType
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Launch, Stage, Work
from tegg.kernel.contraction_classify import Contraction, Group
from tegg.kernel.domain import spread
from tegg.kernel.flops import flops
from tegg.kernel.index import Var
from tegg.kernel.loops import Store
from tegg.kernel.simt import THREADS
from tegg.kernel.value import Val, reachable
from tegg.kernel.work import bytes_read, bytes_written

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
    return _Kernel(name, found.contraction, tile, language, found.symbols, found.before,
                   how).code()


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    contraction: Contraction
    tile: Tile
    language: SimtC
    symbols: tuple[str, ...]
    before: Before
    how: type[Sums]

    def code(self) -> KernelCode:
        buffers = self._buffers()
        p = printer_of(self.language, self.contraction)
        shared: dict[str, None] = {}
        for group in self.contraction.groups:
            letter = REGISTER[register(group.terms[0].sum.dtype).name]
            sums = self.how(self.tile, self.language, letter, len(group.terms))
            shared |= dict.fromkeys(sums.shared())
            _Tiles(self, group, p, sums).write()
        head = self.language.head(self.name, buffers, self.symbols)
        source = "\n".join([*head, *(f"  {line}" for line in shared), *p.lines, "}"]) + "\n"
        stage = Stage(self.name, frozenset(v.attr.slot for v in self._values() if v.op == "load"),
                      frozenset(w.slot for g in self.contraction.groups for w in g.writes), True,
                      self._launch(tuple(buffers)))
        b = self.before
        return KernelCode(self.name, "\n".join([*b.sources, source]), (*b.stages, stage),
                          b.temporaries, self.symbols, self._work(), (f"{self.tile}",))

    def _values(self) -> list[Val]:
        groups = self.contraction.groups
        return reachable([self.contraction.a, *(t.b for g in groups for t in g.terms),
                          *(v for g in groups for w in g.writes for v in w.needs())])

    def _buffers(self) -> dict[int, DType]:
        out = {v.attr.slot: v.dtype for v in self._values() if v.op == "load"}
        out.update({w.slot: w.value.dtype for g in self.contraction.groups for w in g.writes})
        return dict(sorted(out.items()))

    def _launch(self, buffers: tuple[int, ...]) -> Launch:
        """At least a block for each tile: of symbolic sizes, the tiles at the edges count whole."""
        c, t = self.contraction, self.tile
        area = t.rows * t.columns
        tiles = tuple((spread(c.batch) * padded(spread(c.m), t.rows)
                       * padded(spread(g.n), t.columns), area) for g in c.groups)
        return Launch(THREADS, tiles, buffers)

    def _work(self) -> Work:
        c = self.contraction
        rows = hint(spread(c.batch)) * hint(spread(c.m))
        terms = sum(hint(spread(g.n)) * len(g.terms) for g in c.groups)
        evaluations = rows * terms * hint(c.depth) * (2 + flops(c.a, frozenset()) // 16)
        return Work(int(evaluations), rows * terms * hint(c.depth),
                    bytes_read(c.read, c.propagation.graph), bytes_written(c.writes))


@dataclass(slots=True)
class _Tiles:
    """The tiles of one group of results."""

    kernel: _Kernel
    group: Group
    p: SimtPrinter
    sums: Sums

    @property
    def at(self) -> Evaluator:
        """What prints values at places of the tiles."""
        return Evaluator(self.kernel.contraction.propagation, self.kernel.language, self.p)

    def write(self) -> None:
        c, t, p = self.kernel.contraction, self.kernel.tile, self.p
        m, n = dim(spread(c.m)), dim(spread(self.group.n))
        with p.braces(""):
            p.line(f"const {p.index} down = ({m} + {t.rows - 1}) / {t.rows}, "
                   f"across = ({n} + {t.columns - 1}) / {t.columns};")
            p.line(self.sums.place())
            with p.braces(f"for ({p.index} tile = block_id(); tile < {dim(spread(c.batch))} * "
                          "down * across; tile += block_count())"):
                self.at.unpack("tile / (down * across)", c.batch)
                p.line(f"const {p.index} m_from = tile / across % down * {t.rows}, "
                       f"n_from = tile % across * {t.columns};")
                for term in self.group.terms:
                    for line in self.sums.start(term.anchor):
                        p.line(line)
                    self._products(term.anchor, term.a, term.b)
                self._results()

    def _products(self, anchor: int, left: Val, right: Val) -> None:
        """All terms of the sums of one contraction, a depth of tiles at a time."""
        c, t, p = self.kernel.contraction, self.kernel.tile, self.p
        with p.braces(f"for ({p.index} k_from = 0; k_from < {dim(c.depth)}; k_from += {t.depth})"):
            self._load(f"left_{self.sums.letter}", left, c.m, "m", t.rows)
            self._load(f"right_{self.sums.letter}", right, self.group.n, "n", t.columns)
            p.line(self.kernel.language.barrier)
            for line in self.sums.multiply(anchor):
                p.line(line)
            p.line(self.kernel.language.barrier)

    def _load(self, where: str, operand: Val, vars: tuple[Var, ...], letter: str,
              size: int) -> None:
        """A tile of an operand; beyond its edges there are zeros. Neighbours read side by side."""
        c, t, p = self.kernel.contraction, self.kernel.tile, self.p
        with p.braces(f"for (int e = thread_id(); e < {size * t.depth}; e += {THREADS})"):
            if follows(operand, (c.k or (None,))[-1], (vars or (None,))[-1]):
                p.line(f"const int d = e % {t.depth}, s = e / {t.depth};")
            else:
                p.line(f"const int d = e / {size}, s = e % {size};")
            p.line(f"const {p.index} at_k = k_from + d, at_{letter} = {letter}_from + s;")
            p.line(f"{self.sums.type} value = 0;")
            with p.braces(f"if (at_k < {dim(c.depth)} && at_{letter} < {dim(spread(vars))})"):
                self.at.unpack("at_k", c.k)
                self.at.unpack(f"at_{letter}", vars)
                self.at.ensure([operand], (*c.batch, *vars, *c.k))
                p.line(f"value = {p.ref(operand)};")
            p.line(f"{where}[d][s] = ({self.sums.held})value;")

    def _results(self) -> None:
        """Store what the sums become."""
        c, p = self.kernel.contraction, self.p
        needs = list(dict.fromkeys(v for w in self.group.writes for v in w.needs()))
        with self.sums.results(p, [t.anchor for t in self.group.terms]) as names:
            given = {t.sum.id: name for t, name in zip(self.group.terms, names)}
            with p.braces(f"if (at_m < {dim(spread(c.m))} && at_n < {dim(spread(self.group.n))})"):
                self.at.unpack("at_m", c.m)
                self.at.unpack("at_n", self.group.n)
                self.at.ensure(needs, (*c.batch, *c.m, *self.group.n), given)
                p.block([Store(w) for w in self.group.writes])
        p.at.given = {}
