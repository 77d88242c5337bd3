"""Lowers fragments around contractions to kernels on tensor cores, with fused ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.cuda.emit import CudaC
from tegg.backends.cuda.mma_forms import MmaTile
from tegg.backends.cuda.mma_operand import LETTERS, Operand
from tegg.backends.simt.contraction_before import Before, stored_reductions
from tegg.backends.simt.evaluate import Evaluator, padded
from tegg.backends.simt.printer import SimtPrinter
from tegg.dim import Dim, hint
from tegg.dtype import DType, f32
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Launch, Stage, Temporary, Work
from tegg.kernel.contraction_classify import Contraction, Group, Term, classify
from tegg.kernel.domain import spread
from tegg.kernel.flops import flops
from tegg.kernel.loops import Store
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.simt import THREADS
from tegg.kernel.value import Val

_ROOM = 48 << 10   # bytes of shared memory of a block
_SUMS = 128        # registers of a thread that sums may take


def lower_mma(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
              language: CudaC, tile: MmaTile) -> KernelCode:
    """The kernel that computes ``outputs``, whose products are ``anchors``, on tensor cores.

    What lies below the anchors' operands is evaluated, and rounded, while tiles are loaded, what
    lies above while results are stored; reductions among it are made before.
    Raises LoweringError where the fragment has another form, or may not be rounded.
    """
    live = [o for o in outputs if 0 not in tuple(map(graph.facts.canonical, o.shape))]
    used = {n.id for n in graph.reachable(live)}
    first = max([len(graph.inputs)] + [n.attrs[0] + 1 for n in graph.reachable(outputs)
                                       if n.op.name == "Input"])
    slots = [first + i for i, o in enumerate(outputs) if o in live]
    if not live:
        return KernelCode(name, "", (), (), (), Work(0, 0, 0, 0))
    c = classify(graph, live, [a for a in anchors if a.id in used], language.native, slots)
    symbols = kernel_symbols(graph, outputs)
    c, before = stored_reductions(c, name, language, symbols, first + len(outputs))
    _check(c, tile)
    return _Kernel(name, c, tile, language, symbols, before,
                   first + len(outputs) + len(before.temporaries)).code()


def _check(c: Contraction, tile: MmaTile) -> None:
    """Whether the sums fit into registers, and the operands into their kind."""
    for g in c.groups:
        if len(g.terms) * tile.rows * tile.columns // THREADS > _SUMS:
            raise LoweringError(f"{len(g.terms)} products of one result take more than {_SUMS} "
                                f"registers of sums; a smaller tile, or kernels of their own")
    values = [c.a, *(t.b for g in c.groups for t in g.terms)]
    if tile.kind == "f16" and any(v.op == "load" and v.dtype is f32 for v in values):
        raise LoweringError("a float32 array of unknown range may be beyond float16; what rests "
                            "as float16, or is computed within bounds, can be multiplied as such")


@dataclass(slots=True)
class _Kernel:
    """One kernel being written. extra: the slot of the first array of partial sums."""

    name: str
    contraction: Contraction
    tile: MmaTile
    language: CudaC
    symbols: tuple[str, ...]
    before: Before
    extra: int

    def code(self) -> KernelCode:
        c, b = self.contraction, self.before
        products = [_Product(self, g) for g in c.groups]
        p = self._printer()
        room = max(x.bytes for g in products for x in g.rooms())
        p.line(f"__shared__ __align__(16) uint8_t room[{room}];")
        for product in products:
            product.write(Evaluator(c.propagation, self.language, p))
        sums = self._sums()
        stages = [self._stage(self.name, p, sums, self._tiles())]
        sources = [stages[0][0]]
        if self.tile.parts > 1:
            p = self._printer()
            for product in products:
                product.total(Evaluator(c.propagation, self.language, p))
            points = tuple((self._points(g), THREADS) for g in c.groups)
            stages.append(self._stage(f"{self.name}_total", p, sums, points))
            sources.append(stages[-1][0])
        temporaries = tuple(Temporary(f32, self.tile.parts * self._points(g))
                            for g in c.groups for t in g.terms) if self.tile.parts > 1 else ()
        return KernelCode(self.name, "\n".join([*b.sources, *sources]),
                          (*b.stages, *(s for _, s in stages)), (*b.temporaries, *temporaries),
                          self.symbols, self._work(), (f"{self.tile}",))

    def _printer(self) -> SimtPrinter:
        return SimtPrinter(self.language.dialect, self.contraction.propagation.algebra)

    def _stage(self, name: str, p: SimtPrinter, sums: dict[int, DType],
               nests: tuple[tuple[Dim, int], ...]) -> tuple[str, Stage]:
        """One function, of the lines that were printed, and how it is called."""
        c, split = self.contraction, self.tile.parts > 1
        last = not split or name != self.name
        operands = [c.a, *(t.b for g in c.groups for t in g.terms)]
        results = [v for g in c.groups for w in g.writes for v in w.needs()]
        taken = {t.sum.id for g in c.groups for t in g.terms}
        reads = _loads(operands, set()) if not split or not last else {}
        reads |= _loads(results, taken) if last else {}
        writes = {w.slot: w.value.dtype for g in c.groups for w in g.writes} if last else sums
        reads |= sums if split and last else {}
        buffers = dict(sorted({**reads, **writes}.items()))
        source = "\n".join([*self.language.head(name, buffers, self.symbols), *p.lines, "}"])
        return source + "\n", Stage(name, frozenset(reads), frozenset(writes), True,
                                    Launch(THREADS, nests, tuple(buffers)))

    def _sums(self) -> dict[int, DType]:
        """The slots of partial sums."""
        if self.tile.parts == 1:
            return {}
        return {self.partial(t): f32 for g in self.contraction.groups for t in g.terms}

    def partial(self, term: Term) -> int:
        """The slot of a term's partial sums."""
        terms = [t for g in self.contraction.groups for t in g.terms]
        return self.extra + terms.index(term)

    def _points(self, g: Group) -> Dim:
        c = self.contraction
        return spread(c.batch) * spread(c.m) * spread(g.n)

    def _tiles(self) -> tuple[tuple[Dim, int], ...]:
        """At least a block for each tile: of symbolic sizes, the tiles at the edges count whole."""
        c, t = self.contraction, self.tile
        return tuple((t.parts * spread(c.batch) * padded(spread(c.m), t.rows)
                      * padded(spread(g.n), t.columns), t.rows * t.columns) for g in c.groups)

    def _work(self) -> Work:
        c = self.contraction
        rows = hint(spread(c.batch)) * hint(spread(c.m))
        terms = sum(hint(spread(g.n)) * len(g.terms) for g in c.groups)
        depth = hint(c.depth)
        evaluations = rows * terms * depth * (2 + flops(c.a, frozenset()) // 16)
        size = 4 if self.tile.kind == "tf32" else 2
        return Work(int(evaluations), rows * terms * depth, size * depth * (rows + terms),
                    size * rows * terms)


def _loads(roots: Sequence[Val], taken: set[int]) -> dict[int, DType]:
    """What is read below some values; those ``taken`` are known."""
    todo, seen, out = [v for v in roots if v.id not in taken], set(), {}
    while todo:
        v = todo.pop()
        if v.id in seen:
            continue
        seen.add(v.id)
        if v.op == "load":
            out[v.attr.slot] = v.dtype
        todo.extend(a for a in v.args if a.id not in taken)
    return out


@dataclass(slots=True)
class _Product:
    """The tiles of one group of results."""

    kernel: _Kernel
    group: Group

    def operands(self, term: Term) -> tuple[Operand, Operand]:
        c, tile = self.kernel.contraction, self.kernel.tile
        return (Operand(tile, "m", term.a, c.m, c.k, c.depth),
                Operand(tile, "n", term.b, self.group.n, c.k, c.depth))

    def rooms(self) -> list[_Room]:
        return [_Room(*self.operands(t)) for t in self.group.terms]

    def write(self, at: Evaluator) -> None:
        """All tiles, as many at a time as there are blocks."""
        c, t, p = self.kernel.contraction, self.kernel.tile, at.p
        m, n, batch = dim(spread(c.m)), dim(spread(self.group.n)), dim(spread(c.batch))
        (down, across), (i, j) = t.warps, t.fragments
        with p.braces(""):
            p.line(f"const int64_t down = ({m} + {t.rows - 1}) / {t.rows}, "
                   f"across = ({n} + {t.columns - 1}) / {t.columns}, steps = "
                   f"({dim(c.depth)} + {t.depth - 1}) / {t.depth};")
            p.line(f"const int warp_m = thread_id() / 32 / {across} * {16 * i}, "
                   f"warp_n = thread_id() / 32 % {across} * {8 * j};")
            with p.braces(f"for (int64_t tile = block_id(); tile < {t.parts} * {batch} * down * "
                          "across; tile += block_count())"):
                p.line(f"const int64_t item = tile / (down * across) % {batch};")
                at.unpack("item", c.batch)
                p.line(f"const int64_t m_from = tile % down * {t.rows}, "
                       f"n_from = tile / down % across * {t.columns};")
                p.line(f"const int64_t part = tile / (down * across) / {batch}, first = "
                       f"steps * part / {t.parts}, end = steps * (part + 1) / {t.parts};")
                for term in self.group.terms:
                    p.line(f"float sums{term.anchor}[{i}][{j}][4] = {{}};")
                    with p.braces(""):
                        self._sum(at, term)
                self._results(at)

    def _sum(self, at: Evaluator, term: Term) -> None:
        """The products of one term, a pipeline of stages: copies run ahead by all but one of them,
        and what has to be computed is held in registers over the products of a step."""
        t, p = self.kernel.tile, at.p
        x, y = self.operands(term)
        held = [o for o in (x, y) if o.source is None]
        p.line(f"{x.type} *const left = ({x.type} *)room;")
        p.line(f"{y.type} *const right = ({y.type} *)(room + {x.bytes});")
        for o in held:
            p.line(f"uint32_t held_{o.name}[{o.chunks}][4];")
        with p.braces(f"for (int64_t ahead = first; ahead < first + {t.stages - 1}; ahead++)"):
            with p.braces("if (ahead < end)"):
                self._bring(at, (x, y), "ahead")
                for o in held:
                    o.put(at, f"ahead % {t.stages}")
            p.line("copies_commit();")
        with p.braces("for (int64_t step = first; step < end; step++)"):
            p.line(f"copies_wait({t.stages - 2});")
            p.line("__syncthreads();")
            p.line(f"const int64_t ahead = step + {t.stages - 1};")
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
        t, batch = self.kernel.tile, self.kernel.contraction.batch
        at.p.line(f"const int64_t k_from = {step} * {t.depth};")
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
            p.line(f"  for (int j = 0; j < {j}; j++) mma_{LETTERS[t.kind]}(sums{term.anchor}[i][j], "
                   f"{x.fragment('i')}, {y.fragment('j')});")

    # ---- results
    def _results(self, at: Evaluator) -> None:
        """Store what the sums become, or the sums of this part."""
        c, t, p = self.kernel.contraction, self.kernel.tile, at.p
        i, j = t.fragments
        m, n = dim(spread(c.m)), dim(spread(self.group.n))
        for name, count in (("i", i), ("j", j), ("e", 4)):
            p.line("UNROLL")
            p.line(f"for (int {name} = 0; {name} < {count}; {name}++)")
        with p.braces(""):
            p.line("const int64_t at_m = m_from + warp_m + 16 * i + e / 2 * 8 + lane_id() / 4, "
                   "at_n = n_from + warp_n + 8 * j + lane_id() % 4 * 2 + e % 2;")
            with p.braces(f"if (at_m < {m} && at_n < {n})"):
                if t.parts > 1:
                    for term in self.group.terms:
                        p.line(f"b{self.kernel.partial(term)}[((part * {dim(spread(c.batch))} + "
                               f"item) * {m} + at_m) * {n} + at_n] = sums{term.anchor}[i][j][e];")
                else:
                    self._ends(at, {u.sum.id: f"sums{u.anchor}[i][j][e]" for u in self.group.terms})

    def total(self, at: Evaluator) -> None:
        """The parts of each sum, always in the same order, and what the sums become."""
        c, p = self.kernel.contraction, at.p
        m, n = dim(spread(c.m)), dim(spread(self.group.n))
        points = dim(spread(c.batch) * spread(c.m) * spread(self.group.n))
        with p.braces(f"for (int64_t point = (int64_t)block_id() * {THREADS} + thread_id(); "
                      f"point < {points}; point += (int64_t)block_count() * {THREADS})"):
            p.line(f"const int64_t at_n = point % {n}, at_m = point / {n} % {m};")
            at.unpack(f"point / ({m} * {n})", c.batch)
            for t in self.group.terms:
                p.line(f"float sum{t.anchor} = 0;")
                p.line(f"for (int part = 0; part < {self.kernel.tile.parts}; part++) "
                       f"sum{t.anchor} += b{self.kernel.partial(t)}[part * {points} + point];")
            self._ends(at, {t.sum.id: f"sum{t.anchor}" for t in self.group.terms})

    def _ends(self, at: Evaluator, given: dict[int, str]) -> None:
        c = self.kernel.contraction
        needs = list(dict.fromkeys(v for w in self.group.writes for v in w.needs()))
        at.unpack("at_m", c.m)
        at.unpack("at_n", self.group.n)
        at.ensure(needs, (*c.batch, *c.m, *self.group.n), given)
        at.p.block([Store(w) for w in self.group.writes])
        at.p.at.given = {}


@dataclass(frozen=True, slots=True)
class _Room:
    """The shared memory of one term."""

    left: Operand
    right: Operand

    @property
    def bytes(self) -> int:
        return self.left.bytes + self.right.bytes
