"""One operand of a product on tensor cores: how its tiles come to shared memory and registers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.cuda.mma_forms import MmaTile
from tegg.backends.simt.evaluate import Evaluator, follows
from tegg.dim import Dim, exact_div
from tegg.dtype import DTYPES
from tegg.kernel.domain import spread
from tegg.kernel.index import Form, Var
from tegg.kernel.simt import THREADS
from tegg.kernel.value import Load, Val

_TURN = 8  # lines after which chunks are exchanged as in the first
_FOUR = 4  # neighbours that are computed together
LETTERS = {"f16": "h", "bf16": "g", "tf32": "t"}  # of the functions of a kind of product


@dataclass(frozen=True, slots=True)
class Operand:
    """The tiles of one side: ``size`` of its places by the depth of a tile.

    side: ``m`` or ``n``. vars: the loop variables of its places. k: those that are summed over.
    workers: threads that bring it, the first ones of a block.
    Tiles lie as lines of neighbours, along the depth where memory does and along the places
    otherwise, cut into chunks of 16 bytes. Halves are swizzled, so that the eight chunks that a
    matrix load reads at once are in different banks; wider elements have lines padded to that end.
    """

    tile: MmaTile
    side: str
    value: Val
    vars: tuple[Var, ...]
    k: tuple[Var, ...]
    depth: Dim
    workers: int = THREADS

    # ---- where things lie
    @property
    def name(self) -> str:
        return "left" if self.side == "m" else "right"

    @property
    def size(self) -> int:
        return self.tile.rows if self.side == "m" else self.tile.columns

    @property
    def half(self) -> bool:
        return self.tile.kind != "tf32"

    @property
    def type(self) -> str:
        """The C type of an element in shared memory."""
        return "uint16_t" if self.half else "float"

    @property
    def chunk(self) -> int:
        """Elements of 16 bytes."""
        return 8 if self.half else 4

    @property
    def along(self) -> bool:
        """Whether lines of neighbours go along the depth."""
        return follows(self.value, (self.k or (None,))[-1], (self.vars or (None,))[-1])

    @property
    def lines(self) -> int:
        return self.size if self.along else self.tile.depth

    @property
    def line(self) -> int:
        """Elements of a line."""
        return self.tile.depth if self.along else self.size

    @property
    def pitch(self) -> int:
        """Elements from one line to the next."""
        return self.line if self.half else self.line + (4 if self.along else 8)

    @property
    def line_step(self) -> int:
        """Elements from a chunk to that of the next line, eight lines further down as well."""
        return self.pitch

    @property
    def stage(self) -> int:
        """Elements of a tile in shared memory."""
        return self.lines * self.pitch

    @property
    def bytes(self) -> int:
        return self.stage * self.tile.stages * (2 if self.half else 4)

    def place(self, line: str, chunk: str) -> str:
        """The position of a chunk in a tile."""
        per = self.line // self.chunk
        if not self.half:
            return f"({line}) * {self.pitch} + ({chunk}) * {self.chunk}"
        turn = f"({line}) % 8" if per >= 8 else f"({line}) / {8 // per} % {per}"
        return f"(({line}) * {per} + (({chunk}) ^ ({turn}))) * {self.chunk}"

    # ---- how it comes there
    @property
    def source(self) -> Load | None:
        """What is copied as it is, 16 bytes at a time, or None where values are computed."""
        v = self.value
        if v.op == "Cast" and v.dtype.name == "f32":
            v = v.args[0]
        wanted = DTYPES["f32" if self.tile.kind == "tf32" else self.tile.kind]
        if v.op != "load" or v.dtype is not wanted or v.attr.guards or v.args:
            return None
        return v.attr if self._whole(v.attr.form, self.chunk) else None

    def _whole(self, form: Form, count: int) -> bool:
        """Whether ``count`` neighbours of a line lie side by side from a multiple of that."""
        inner = (self.k if self.along else self.vars)[-1:]
        if not inner or form.coefficient(inner[0]) != 1 or not self._even(count):
            return False
        rest = [k for atom, k in form.terms.items() if atom != inner[0]]
        return (all(exact_div(k, count) is not None for k in (form.const, *rest))
                and not any(inner[0] in Form(0, {a: 1}).vars()
                            for a in form.terms if a != inner[0]))

    def _even(self, count: int) -> bool:
        """Whether ``count`` neighbours of a line are all inside, or none."""
        inner = (self.k if self.along else self.vars)[-1:]
        return bool(inner) and exact_div(inner[0].extent, count) is not None

    @property
    def held(self) -> str:
        """The words of a chunk that is computed."""
        return f"held_{self.name}[c]"

    @property
    def chunks(self) -> int:
        """Chunks that a thread brings, the last one not for every thread."""
        return -(-self.lines * self.line // (self.chunk * self.workers))

    def copies(self, at: Evaluator, stage: str) -> None:
        """Start to copy the tile at ``m_from``, ``n_from``, ``k_from``."""
        source = self.source
        assert source is not None
        if self._straight(source.form):
            self._walk(at, stage, source)
            return
        p = at.p
        with self._each(at):
            p.line(f"const bool inside = {self._inside()};")
            at.unpack("inside ? at_k : 0", self.k)
            at.unpack(f"inside ? at_{self.side} : 0", self.vars)
            p.line(f"copy_start({self.name} + {stage} * {self.stage} + "
                   f"{self.place('line', 'chunk')}, b{source.slot} + {p.form(source.form)}, "
                   "inside ? 16 : 0);")

    def _straight(self, form: Form) -> bool:
        """Whether the lines that a thread copies lie a fixed step apart, in memory and in the tile:
        its chunks are then one address each way and numbers that a compiler knows."""
        one = len(self.vars) <= 1 and len(self.k) == 1
        apart, over = divmod(self.workers, self.line // self.chunk)
        return one and not over and apart % _TURN == 0 and not any(
            v in Form(0, {a: 1}).vars() for v in (*self.vars, *self.k)
            for a in form.terms if a is not v)

    def _walk(self, at: Evaluator, stage: str, source: Load) -> None:
        """The chunks of a thread, from the first one on."""
        p, index, per = at.p, at.p.dialect.index, self.line // self.chunk
        apart, total = self.workers // per, self.lines * per
        k, place = f"chunk * {self.chunk}", "line"
        k, place = (k, place) if self.along else (place, k)
        places, extent = spread(self.vars), {"k": self.depth, self.side: spread(self.vars)}
        tests = [s for s, n, whole in (("k", self.depth, self.tile.depth),
                                       (self.side, places, self.size))
                 if exact_div(n, whole) is None]
        goes = self.side if self.along else "k"  # along which lines follow one another
        outer = (self.vars if self.along else self.k)[-1:]
        step = source.form.coefficient(outer[0]) if outer else 0
        with p.braces(""):
            p.line(f"const int line = thread_id() / {per}, chunk = thread_id() % {per};")
            p.line(f"const {index} at_k = k_from + {k}, at_{self.side} = {self.side}_from + "
                   f"{place};")
            for s, vars in (("k", self.k), (self.side, self.vars)):
                at.unpack(f"at_{s} < {dim(extent[s])} ? at_{s} : 0" if s in tests else f"at_{s}",
                          vars)
            p.line(f"const {self.type} *const mine = b{source.slot} + {p.form(source.form)};")
            p.line(f"{self.type} *const there = {self.name} + {stage} * {self.stage} + "
                   f"{self.place('line', 'chunk')};")
            still = [f"at_{s} < {dim(extent[s])}" for s in tests if s != goes]
            if still:
                p.line(f"const bool inside = {still[0]};")
            p.line("UNROLL")
            with p.braces(f"for (int c = 0; c < {self.chunks}; c++)"):
                within = ["inside"] if still else []
                if goes in tests:
                    within.append(f"at_{goes} + {apart} * c < {dim(extent[goes])}")
                filled = f"{' && '.join(within)} ? 16 : 0" if within else "16"
                if total % self.workers:
                    p.line(f"if (thread_id() + {self.workers} * c < {total})")
                p.line(f"copy_start(there + {apart * self.line_step} * c, mine + c * (int64_t)("
                       f"{apart} * ({dim(step)})), {filled});")

    def fetch(self, at: Evaluator, batch: tuple[Var, ...]) -> None:
        """Compute this thread's chunks of a tile into registers, four words each."""
        with self._each(at):
            self._chunk(at, batch)

    def _chunk(self, at: Evaluator, batch: tuple[Var, ...]) -> None:
        """Compute one chunk."""
        count = _FOUR if self._even(_FOUR) else 2
        for first in range(0, self.chunk, count):
            self._values(at, batch, first, count)

    def _values(self, at: Evaluator, batch: tuple[Var, ...], first: int, count: int) -> None:
        """``count`` neighbours: at once where they are inside together, else one by one."""
        p, together = at.p, count == _FOUR
        words = count // 2 if self.half else count
        with p.braces(""):
            p.line(f"float some[{count}] = {{}};")
            step = "" if together else " + u"
            if not together:
                p.line("UNROLL")
            with p.braces("" if together else f"for (int u = 0; u < {count}; u++)"):
                moved = "at_k" if self.along else f"at_{self.side}"
                p.line(f"const {p.dialect.index} here = {moved} + {first}{step};")
                other = f"at_{self.side}" if self.along else "at_k"
                k, place = ("here", other) if self.along else (other, "here")
                with p.braces(f"if ({k} < {dim(self.depth)} && {place} < "
                              f"{dim(spread(self.vars))})"):
                    at.unpack(k, self.k)
                    at.unpack(place, self.vars)
                    inner = (self.k if self.along else self.vars)[-1:]
                    with p.wide(inner[0] if together else None, count):
                        at.ensure([self.value], (*batch, *self.vars, *self.k))
                        for u in range(count if together else 1):
                            p.line(f"some[{u if together else 'u'}] = {p.ref(self.value, u)};")
            for w in range(words):
                text = (f"two_{LETTERS[self.tile.kind]}(some[{2 * w}], some[{2 * w + 1}])"
                        if self.half else f"(uint32_t)__float_as_int(some[{w}])")
                p.line(f"{self.held}[{first // (2 if self.half else 1) + w}] = {text};")

    def put(self, at: Evaluator, stage: str) -> None:
        """Registers to shared memory."""
        with self._each(at, places=False):
            self._put(at, stage)

    def _put(self, at: Evaluator, stage: str) -> None:
        """One chunk."""
        held = ", ".join(f"(int){self.held}[{w}]" for w in range(4))
        at.p.line(f"*(int4 *)({self.name} + {stage} * {self.stage} + "
                  f"{self.place('line', 'chunk')}) = make_int4({held});")

    @contextmanager
    def _each(self, at: Evaluator, places: bool = True, unrolled: str = "UNROLL"):
        """A loop over the chunks of this thread."""
        p, total, per = at.p, self.lines * self.line // self.chunk, self.line // self.chunk
        k, place = f"chunk * {self.chunk}", "line"
        k, place = (k, place) if self.along else (place, k)
        p.line(unrolled)
        with p.braces(f"for (int c = 0; c < {self.chunks}; c++)"):
            p.line(f"const int e = thread_id() + {self.workers} * c, line = e / {per}, "
                   f"chunk = e % {per};")
            with p.braces(f"if (e < {total})" if total % self.workers else ""):
                if places:
                    p.line(f"const {p.dialect.index} at_k = k_from + {k}, at_{self.side} = "
                           f"{self.side}_from + {place};")
                yield

    def _inside(self) -> str:
        return f"at_k < {dim(self.depth)} && at_{self.side} < {dim(spread(self.vars))}"

    # ---- how it comes to registers
    def fragments(self, at: Evaluator, count: int, base: str) -> None:
        """Read the fragments of a warp, whose places begin at ``base``, at depth ``kk``."""
        if self.half:
            self._squares(at, count, base)
        else:
            self._words(at, count, base)

    def _squares(self, at: Evaluator, count: int, base: str) -> None:
        """Matrix loads of 16 places by 16 of the depth: one fragment of rows, two of columns."""
        left, lane = self.side == "m", "lane_id()"
        high, low = f"{lane} / 16 * 8", f"{lane} / 8 % 2 * 8"  # of squares: 2, 3 and 1, 3
        place, k = (low, high) if left else (high, low)
        eight = f"{lane} % 8"
        first = f"{base} + 16 * i"
        line, chunk = ((f"{first} + {place} + {eight}", f"(kk + {k}) / 8") if self.along else
                       (f"kk + {k} + {eight}", f"({first} + {place}) / 8"))
        x, turned = "x" if left else "y", "" if self.along else "_turned"
        n = count if left else count // 2
        at.p.line(f"uint32_t {x}[{n}][4];")
        at.p.line("UNROLL")
        at.p.line(f"for (int i = 0; i < {n}; i++)")
        at.p.line(f"  squares{turned}({x}[i], {self.name}_now + {self.place(line, chunk)});")

    def _words(self, at: Evaluator, count: int, base: str) -> None:
        """One element a register, as tensor cores take them."""
        left = self.side == "m"
        x, height, regs = ("x", 16, 4) if left else ("y", 8, 2)
        place = f"{base} + {height} * i + lane_id() / 4" + (" + r % 2 * 8" if left else "")
        k = "kk + lane_id() % 4 + " + ("r / 2 * 4" if left else "r * 4")
        line, inner = (place, k) if self.along else (k, place)
        at.p.line(f"uint32_t {x}[{count}][{regs}];")
        at.p.line("UNROLL")
        at.p.line(f"for (int i = 0; i < {count}; i++)")
        at.p.line("  UNROLL")
        at.p.line(f"  for (int r = 0; r < {regs}; r++)")
        at.p.line(f"    {x}[i][r] = f_to_t({self.name}_now[({line}) * {self.pitch} + {inner}]);")

    def fragment(self, i: str) -> str:
        """The registers of a fragment: of 16 rows, or of 8 columns."""
        if self.side == "m":
            return f"x[{i}]"
        return f"y[{i} / 2] + 2 * ({i} % 2)" if self.half else f"y[{i}]"
