"""Lowers fragments around contractions to kernels of tiles in shared memory, with fused ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.simt.contraction_before import Before, stored_reductions
from tegg.backends.simt.language import SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.templates import Tile, register
from tegg.dim import Dim, hint
from tegg.dtype import DType
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Launch, Stage, Work
from tegg.kernel.contraction_classify import Contraction, Group, classify
from tegg.kernel.domain import spread
from tegg.kernel.flops import flops
from tegg.kernel.index import Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Store
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.place import Placer
from tegg.kernel.simt import LIMITS, THREADS
from tegg.kernel.value import Val, reachable
from tegg.kernel.vectorise import Vectoriser
from tegg.kernel.work import bytes_read, bytes_written

_PAD = 1  # a column more, so that a tile that is filled down its columns meets every bank


def lower_contraction(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                      language: SimtC, tile: Tile) -> KernelCode:
    """The kernel that computes ``outputs``, whose products are ``anchors``, by tiles.

    What lies below the anchors' operands is evaluated while tiles are loaded, what lies above
    while results are stored; reductions among it are made before, by kernels of their own.
    Raises LoweringError where the fragment has another form.
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
    return _Kernel(name, c, tile, language, symbols, before).code()


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    contraction: Contraction
    tile: Tile
    language: SimtC
    symbols: tuple[str, ...]
    before: Before

    def code(self) -> KernelCode:
        buffers = self._buffers()
        p = SimtPrinter(self.language.dialect, self.contraction.propagation.algebra)
        for group in self.contraction.groups:
            _Tiles(self, group, p).write()
        head = self.language.head(self.name, buffers, self.symbols)
        source = "\n".join([*head, *p.lines, "}"]) + "\n"
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
        tiles = tuple((spread(c.batch) * _padded(spread(c.m), t.rows)
                       * _padded(spread(g.n), t.columns), area) for g in c.groups)
        return Launch(THREADS, tiles, buffers)

    def _work(self) -> Work:
        c = self.contraction
        rows = hint(spread(c.batch)) * hint(spread(c.m))
        terms = sum(hint(spread(g.n)) * len(g.terms) for g in c.groups)
        evaluations = rows * terms * hint(c.depth) * (2 + flops(c.a, frozenset()) // 16)
        return Work(int(evaluations), rows * terms * hint(c.depth),
                    bytes_read(c.read, c.propagation.graph), bytes_written(c.writes))


def _padded(n: Dim, tile: int) -> Dim:
    return -(-n // tile) * tile if isinstance(n, int) else n + (tile - 1)


@dataclass(slots=True)
class _Tiles:
    """The tiles of one group of results."""

    kernel: _Kernel
    group: Group
    p: SimtPrinter

    @property
    def type(self) -> tuple[str, str]:
        """The letter and the type of sums."""
        letter = REGISTER[register(self.group.terms[0].sum.dtype).name]
        return letter, self.kernel.language.dialect.scalar[letter]

    def write(self) -> None:
        c, t, p = self.kernel.contraction, self.kernel.tile, self.p
        m, n = dim(spread(c.m)), dim(spread(self.group.n))
        (a, b), (_, kind) = t.mine, self.type
        with p.braces(""):
            p.line(f"{self.kernel.language.shared} {kind} left[{t.depth}][{t.rows + _PAD}], "
                   f"right[{t.depth}][{t.columns + _PAD}];")
            p.line(f"const int64_t down = ({m} + {t.rows - 1}) / {t.rows}, "
                   f"across = ({n} + {t.columns - 1}) / {t.columns};")
            p.line("const int row = thread_id() / 16, column = thread_id() % 16;")
            with p.braces(f"for (int64_t tile = block_id(); tile < {dim(spread(c.batch))} * down * "
                          "across; tile += block_count())"):
                self._unpack("tile / (down * across)", c.batch)
                p.line(f"const int64_t m_from = tile / across % down * {t.rows}, "
                       f"n_from = tile % across * {t.columns};")
                for term in self.group.terms:
                    p.line(f"{kind} sums{term.anchor}[{a}][{b}] = {{}};")
                    self._products(term.anchor, term.a, term.b)
                self._results()

    def _unpack(self, flat: str, vars: Sequence[Var]) -> None:
        """The variables of one side from their flat position, outermost first."""
        after: list[str] = []
        for i, v in reversed(list(enumerate(vars))):
            text = f"({flat})" if after or i else flat
            text += f" / ({' * '.join(after)})" if after else ""
            text += f" % {dim(v.extent)}" if i else ""
            self.p.line(f"const int64_t {self.p.name(v)} = {text};")
            after.insert(0, dim(v.extent))

    def _products(self, anchor: int, left: Val, right: Val) -> None:
        """All terms of the sums of one contraction, a depth of tiles at a time."""
        c, t, p = self.kernel.contraction, self.kernel.tile, self.p
        (a, b), (letter, kind) = t.mine, self.type
        with p.braces(f"for (int64_t k_from = 0; k_from < {dim(c.depth)}; k_from += {t.depth})"):
            self._load("left", left, c.m, "m", t.rows)
            self._load("right", right, self.group.n, "n", t.columns)
            p.line(self.kernel.language.barrier)
            with p.braces(f"for (int k = 0; k < {t.depth}; k++)"):
                p.line(f"{kind} x[{a}], y[{b}];")
                p.line(f"for (int i = 0; i < {a}; i++) x[i] = left[k][row + 16 * i];")
                p.line(f"for (int j = 0; j < {b}; j++) y[j] = right[k][column + 16 * j];")
                more = (f"s{letter}_fma(x[i], y[j], sums{anchor}[i][j])" if letter in "fd" else
                        f"s{letter}_add(sums{anchor}[i][j], s{letter}_mul(x[i], y[j]))")
                p.line(f"for (int i = 0; i < {a}; i++)")
                p.line(f"  for (int j = 0; j < {b}; j++) sums{anchor}[i][j] = {more};")
            p.line(self.kernel.language.barrier)

    def _load(self, where: str, operand: Val, vars: tuple[Var, ...], letter: str,
              size: int) -> None:
        """A tile of an operand; beyond its edges there are zeros. Neighbours read side by side."""
        c, t, p = self.kernel.contraction, self.kernel.tile, self.p
        with p.braces(f"for (int e = thread_id(); e < {size * t.depth}; e += {THREADS})"):
            if self._along_depth(operand, vars):
                p.line(f"const int d = e % {t.depth}, s = e / {t.depth};")
            else:
                p.line(f"const int d = e / {size}, s = e % {size};")
            p.line(f"const int64_t at_k = k_from + d, at_{letter} = {letter}_from + s;")
            p.line(f"{self.type[1]} value = 0;")
            with p.braces(f"if (at_k < {dim(c.depth)} && at_{letter} < {dim(spread(vars))})"):
                self._unpack("at_k", c.k)
                self._unpack(f"at_{letter}", vars)
                self._ensure([operand], (*c.batch, *vars, *c.k), {})
                p.line(f"value = {p.ref(operand)};")
            p.line(f"{where}[d][s] = value;")

    def _along_depth(self, operand: Val, vars: Sequence[Var]) -> bool:
        """Whether memory is contiguous along what is summed."""
        k = self.kernel.contraction.k
        forms = [v.attr.form for v in reachable([operand]) if v.op == "load"]
        along = sum(f.coefficient(k[-1]) == 1 for f in forms) if k else 0
        return along > (sum(f.coefficient(vars[-1]) == 1 for f in forms) if vars else 0)

    def _ensure(self, wanted: Sequence[Val], scope: Iterable[Var], given: dict[int, str]) -> None:
        """Compute values where these variables are known, and these values."""
        c = self.kernel.contraction
        p = c.propagation
        placer = Placer(p.values, Vectoriser(Lanes(p.algebra, self.kernel.language.width)), LIMITS)
        placer.open, placer.known = list(scope), [set(given)]
        stmts = placer.ensure([v for v in wanted if v.id not in given])
        self.p.at.given = given
        self.p.block(stmts)

    def _results(self) -> None:
        """Store what the sums become."""
        c, p = self.kernel.contraction, self.p
        a, b = self.kernel.tile.mine
        given = {t.sum.id: f"sums{t.anchor}[i][j]" for t in self.group.terms}
        needs = list(dict.fromkeys(v for w in self.group.writes for v in w.needs()))
        with p.braces(f"for (int i = 0; i < {a}; i++)"), p.braces(
                f"for (int j = 0; j < {b}; j++)"):
            p.line("const int64_t at_m = m_from + row + 16 * i, at_n = n_from + column + 16 * j;")
            with p.braces(f"if (at_m < {dim(spread(c.m))} && at_n < {dim(spread(self.group.n))})"):
                self._unpack("at_m", c.m)
                self._unpack("at_n", self.group.n)
                self._ensure(needs, (*c.batch, *c.m, *self.group.n), given)
                p.block([Store(w) for w in self.group.writes])
        p.at.given = {}
