"""Lowers fragments around contractions to kernels on tensor cores, with fused ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.backends.cexpr import dim
from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.mma_forms import PLAIN_SHARED, MmaTile
from tegg.backends.cuda.mma_operand import LETTERS, Operand
from tegg.backends.simt.ends import Ends
from tegg.backends.simt.evaluate import Evaluator, padded
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.products import Products, dealt_tiles, loads, nothing, products_of, stage
from tegg.dim import Dim
from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.accesses import NONE
from tegg.kernel.code import KernelCode, Temporary
from tegg.kernel.contraction_classify import Contraction, Group, Term
from tegg.kernel.domain import spread
from tegg.kernel.simt import THREADS

_SUMS = 128        # registers of a thread that sums may take
_COLUMNS = 8       # neighbours of a row that a lane gets together
_BAND = 2048       # rows of the result whose tiles follow one another column after column


def lower_mma(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
              language: CudaC, tile: MmaTile) -> KernelCode:
    """The kernel that computes ``outputs``, whose products are ``anchors``, on tensor cores.

    What lies below the anchors' operands is evaluated, and rounded, while tiles are loaded, what
    lies above while results are stored; reductions among it are made before.
    Raises LoweringError where the fragment has another form.
    """
    found = products_of(graph, outputs, anchors, name, language)
    if found is None:
        return nothing(name)
    check_sums(found.contraction, tile)
    return CoreKernel(name, found, tile, language).code()


def check_sums(c: Contraction, tile: MmaTile) -> None:
    """Whether the sums fit into registers. Raises LoweringError where they do not."""
    for g in c.groups:
        if len(g.terms) * tile.rows * tile.columns // THREADS > _SUMS:
            raise LoweringError(f"{len(g.terms)} products of one result take more than {_SUMS} "
                                f"registers of sums; a smaller tile, or kernels of their own")


@dataclass(slots=True)
class CoreKernel:
    """One kernel being written."""

    name: str
    products: Products
    tile: MmaTile
    language: CudaC

    @property
    def contraction(self) -> Contraction:
        return self.products.contraction

    def code(self) -> KernelCode:
        c, found, split = self.contraction, self.products, self.tile.parts > 1
        groups = [self.product(g) for g in c.groups]
        p = self._printer()
        asked = self._room(p, max(x.bytes for g in groups for x in g.rooms()))
        if len(groups) > 1:
            p.line(f"{self.index} dealt = 0;")
        for group in groups:
            group.write(Evaluator(c.propagation, self.language, p))
        sums = {self.partial(t): f32 for g in c.groups for t in g.terms} if split else {}
        ends = loads(found.results, found.sums)
        made = [stage(self.language, self.name, found.symbols, p.lines,
                      {**loads(found.operands), **({} if split else ends)}, sums or found.writes,
                      self._tiles(), blocks=1, shared=asked, index=self.index, beside=True)]
        if split:
            p = self._printer()
            for group in groups:
                group.total(Evaluator(c.propagation, self.language, p))
            made.append(stage(self.language, f"{self.name}_total", found.symbols, p.lines,
                              {**ends, **sums}, found.writes,
                              tuple((self._points(g), THREADS) for g in c.groups),
                              index=self.index))
        own = tuple(Temporary(f32, self.tile.parts * self._points(g))
                    for g in c.groups for _ in g.terms) if split else ()
        b = found.before
        return KernelCode(self.name, "\n".join([*b.sources, *(s for s, _ in made)]),
                          (*b.stages, *(s for _, s in made)), (*b.temporaries, *own),
                          found.symbols, found.work(own), (f"{self.tile}",))

    def product(self, group: Group) -> CoreProduct:
        """What writes the tiles of a group of results."""
        return CoreProduct(self, group)

    def _room(self, p: SimtPrinter, nbytes: int) -> int:
        """Declare shared memory; gives the bytes of it that only a launch can have."""
        asked = nbytes if nbytes > PLAIN_SHARED else 0
        p.line("ROOM(room);" if asked else f"__shared__ __align__(16) uint8_t room[{nbytes}];")
        return asked

    @property
    def index(self) -> str:
        """The type of what counts."""
        t = self.tile
        return self.products.index(max(t.rows, t.columns, t.depth * t.stages), t.parts)

    def _printer(self) -> SimtPrinter:
        return SimtPrinter(replace(self.language.dialect, index=self.index),
                           self.contraction.propagation.algebra)

    def partial(self, term: Term) -> int:
        """The slot of a term's partial sums."""
        terms = [t for g in self.contraction.groups for t in g.terms]
        return self.products.extra + terms.index(term)

    def _points(self, g: Group) -> Dim:
        c = self.contraction
        return spread(c.batch) * spread(c.m) * spread(g.n)

    def _tiles(self) -> tuple[tuple[Dim, int], ...]:
        """At least a block for each tile: of symbolic sizes, the tiles at the edges count whole."""
        c, t = self.contraction, self.tile
        return tuple((t.parts * spread(c.batch) * padded(spread(c.m), t.rows)
                      * padded(spread(g.n), t.columns), t.rows * t.columns) for g in c.groups)


@dataclass(slots=True)
class CoreProduct:
    """The tiles of one group of results."""

    kernel: CoreKernel
    group: Group

    def operands(self, term: Term) -> tuple[Operand, Operand]:
        c, tile = self.kernel.contraction, self.kernel.tile
        return (Operand(tile, "m", term.a, c.m, c.k, c.depth),
                Operand(tile, "n", term.b, self.group.n, c.k, c.depth))

    def rooms(self) -> list[_Room]:
        return [_Room(*self.operands(t)) for t in self.group.terms]

    def write(self, at: Evaluator) -> None:
        """All tiles, as many at a time as there are blocks."""
        c, t, p, index = self.kernel.contraction, self.kernel.tile, at.p, at.p.dialect.index
        m, n, batch = dim(spread(c.m)), dim(spread(self.group.n)), dim(spread(c.batch))
        i, j = t.fragments
        with p.braces(""):
            p.line(f"const {index} down = ({m} + {t.rows - 1}) / {t.rows}, "
                   f"across = ({n} + {t.columns - 1}) / {t.columns}, steps = "
                   f"({dim(c.depth)} + {t.depth - 1}) / {t.depth};")
            self._stand(at)
            with dealt_tiles(p, f"{t.parts} * {batch} * down * across", len(c.groups) > 1):
                p.line(f"const {index} item = tile / (down * across) % {batch};")
                at.unpack("item", c.batch)
                self._place(at)
                p.line(f"const {index} part = tile / (down * across) / {batch}, first = "
                       f"steps * part / {t.parts}, end = steps * (part + 1) / {t.parts};")
                for term in self.group.terms:
                    p.line(f"float sums{term.anchor}[{i}][{j}][4] = {{}};")
                    with p.braces(""):
                        self._sum(at, term)
                self._results(at)

    def _place(self, at: Evaluator) -> None:
        """Where a tile begins. They follow one another down bands of rows, so that those which run
        at a time read few of both operands' tiles, which a cache then holds."""
        t, p, index = self.kernel.tile, at.p, at.p.dialect.index
        band = max(1, _BAND // t.rows)
        p.line(f"const {index} place = tile % (down * across), band = place / ({band} * across) * "
               f"{band}, high = down - band < {band} ? down - band : {band}, "
               f"at_band = place % ({band} * across);")
        p.line(f"const {index} m_from = (band + at_band % high) * {t.rows}, "
               f"n_from = at_band / high * {t.columns};")

    def _stand(self, at: Evaluator) -> None:
        """Where the results of this warp begin in a tile."""
        across, (i, j) = self.kernel.tile.warps[1], self.kernel.tile.fragments
        at.p.line(f"const int warp_m = thread_id() / 32 / {across} * {16 * i}, "
                  f"warp_n = thread_id() / 32 % {across} * {8 * j};")

    def _sum(self, at: Evaluator, term: Term) -> None:
        """The products of one term, a pipeline of stages: copies run ahead by all but one of them,
        and what has to be computed is held in registers over the products of a step."""
        t, p, index = self.kernel.tile, at.p, at.p.dialect.index
        x, y = self.operands(term)
        held = [o for o in (x, y) if o.source is None]
        p.line(f"{x.type} *const left = ({x.type} *)room;")
        p.line(f"{y.type} *const right = ({y.type} *)(room + {x.bytes});")
        for o in held:
            p.line(f"uint32_t held_{o.name}[{o.chunks}][4];")
        with p.braces(f"for ({index} ahead = first; ahead < first + {t.stages - 1}; ahead++)"):
            with p.braces("if (ahead < end)"):
                self._bring(at, (x, y), "ahead")
                for o in held:
                    o.put(at, f"ahead % {t.stages}")
            p.line("copies_commit();")
        with p.braces(f"for ({index} step = first; step < end; step++)"):
            p.line(f"copies_wait({t.stages - 2});")
            p.line("__syncthreads();")
            p.line(f"const {index} ahead = step + {t.stages - 1};")
            with p.braces("if (ahead < end)"):
                self._bring(at, (x, y), "ahead")
            p.line("copies_commit();")
            self._multiply(at, x, y, term)
            if held:
                with p.braces("if (ahead < end)"):
                    for o in held:
                        o.put(at, f"ahead % {t.stages}")
        p.line("copies_wait(0);")
        p.line("__syncthreads();")

    def _bring(self, at: Evaluator, operands: Sequence[Operand], step: str) -> None:
        """Copies of a step's tiles start, values of others are computed."""
        t, batch, index = self.kernel.tile, self.kernel.contraction.batch, at.p.dialect.index
        at.p.line(f"const {index} k_from = {step} * {t.depth};")
        for o in operands:
            if o.source is not None:
                o.copies(at, f"{step} % {t.stages}")
            else:
                o.fetch(at, batch)

    def _multiply(self, at: Evaluator, x: Operand, y: Operand, term: Term) -> None:
        """All fragments of one step."""
        t, p = self.kernel.tile, at.p
        i, j = t.fragments
        for o in (x, y):
            p.line(f"const {o.type} *const {o.name}_now = {o.name} + step % {t.stages} * "
                   f"{o.stage};")
        p.line("UNROLL")
        with p.braces(f"for (int kk = 0; kk < {t.depth}; kk += {t.step})"):
            x.fragments(at, i, "warp_m")
            y.fragments(at, j, "warp_n")
            p.line("UNROLL")
            p.line(f"for (int i = 0; i < {i}; i++)")
            p.line("  UNROLL")
            p.line(f"  for (int j = 0; j < {j}; j++) mma_{LETTERS[t.kind]}("
                   f"sums{term.anchor}[i][j], {x.fragment('i')}, {y.fragment('j')});")

    # ---- results
    def _results(self, at: Evaluator) -> None:
        """Store what the sums become, or the sums of this part."""
        t, p, ends, index = self.kernel.tile, at.p, self.ends(at), at.p.dialect.index
        count, even = ends.together(_COLUMNS)
        if t.parts > 1:
            count = _COLUMNS
        if count == 1:
            self._single(at, ends)
            return
        i, j = t.fragments
        p.line("UNROLL")
        p.line(f"for (int i = 0; i < {i}; i++)")
        p.line("  UNROLL")
        with p.braces(f"  for (int j = 0; j < {j}; j += 2)"):
            p.line(f"const {index} at_m = m_from + warp_m + 16 * i + lane_id() / 2 % 2 * 8 + "
                   "lane_id() / 4;")
            for u in self.group.terms:
                p.line(f"float all{u.anchor}[{_COLUMNS}];")
                p.line(f"eight_columns(all{u.anchor}, sums{u.anchor}[i][j], "
                       f"sums{u.anchor}[i][j + 1]);")
            p.line("UNROLL")
            with p.braces(f"for (int c = 0; c < {_COLUMNS}; c += {count})"):
                p.line(f"const {index} from_n = n_from + warp_n + 8 * j + lane_id() % 2 * 8 + c;")
                if t.parts > 1:
                    ends.part([self.kernel.partial(u) for u in self.group.terms],
                              [f"all{u.anchor}[{{u}}]" for u in self.group.terms], "from_n",
                              count, "sf_word({})".format)
                else:
                    ends.store({u.sum.id: f"all{u.anchor}[c + {{u}}]" for u in self.group.terms},
                               "from_n", count, even)

    def _single(self, at: Evaluator, ends: Ends) -> None:
        """One result after the other, where neighbours in memory are not those of a row."""
        (i, j), p, index = self.kernel.tile.fragments, at.p, at.p.dialect.index
        for name, count in (("i", i), ("j", j), ("e", 4)):
            p.line("UNROLL")
            p.line(f"for (int {name} = 0; {name} < {count}; {name}++)")
        with p.braces(""):
            p.line(f"const {index} at_m = m_from + warp_m + 16 * i + e / 2 * 8 + lane_id() / 4, "
                   "from_n = n_from + warp_n + 8 * j + lane_id() % 4 * 2 + e % 2;")
            ends.store({u.sum.id: f"sums{u.anchor}[i][j][e]" for u in self.group.terms}, "from_n",
                       1, NONE)

    def ends(self, at: Evaluator) -> Ends:
        return Ends(at, self.kernel.contraction, self.group)

    def total(self, at: Evaluator) -> None:
        """What the sums of all parts become."""
        self.ends(at).total([(t, self.kernel.partial(t)) for t in self.group.terms],
                            self.kernel.tile.parts, "f")


@dataclass(frozen=True, slots=True)
class _Room:
    """The shared memory of one term."""

    left: Operand
    right: Operand

    @property
    def bytes(self) -> int:
        return self.left.bytes + self.right.bytes
