"""The one printer of C-family source: the loop IR, statement by statement."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager

from tegg.backends.cexpr import REGISTER, Dialect, constant, dim, number
from tegg.backends.cmemory import Memory
from tegg.bits import bits_of
from tegg.dim import Dim, exact_div, upper_bound
from tegg.kernel.index import Algebra, Var
from tegg.kernel.loops import (
    Accumulate,
    Ahead,
    Array,
    Block,
    Fetch,
    Finish,
    Keep,
    Let,
    Loop,
    Rest,
    Resume,
    Start,
    Stmt,
    Store,
    Strip,
    Turn,
    Weave,
    arrays,
    walk,
    written_out,
)
from tegg.kernel.propagate import identity
from tegg.kernel.value import Val

_STACK = 1 << 16  # bytes of one scratch array up to which it stands on the stack


class Printer(Memory):
    """Prints statements into lines. One printer per function, or per hook body."""

    def __init__(self, dialect: Dialect, algebra: Algebra) -> None:
        super().__init__(dialect, algebra)
        self._ends: dict[Var, str] = {}  # loop in steps -> where this thread's share of it ends
        self._around: dict[int, Var | None] = {}  # reduction -> the vector loop that it starts in

    def block(self, stmts: Sequence[Stmt]) -> None:
        for s in stmts:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, Let) and s.value.op == "scan":
            self._scan(s.value)
        elif isinstance(s, Let):
            self._define(s.value, lambda u: self.value(s.value, u, s.fused, s.stored))
        elif isinstance(s, Fetch):
            self._define(s.value, lambda u: self._fetch(s.value, s.array, u))
        elif isinstance(s, Keep):
            self._keep(s)
        elif isinstance(s, Turn):
            self._turn(s)
        elif isinstance(s, Start):
            self._start(s)
        elif isinstance(s, Accumulate):
            self._accumulate(s)
        elif isinstance(s, Finish):
            self._finish(s)
        elif isinstance(s, Rest):
            self._rests(s)
        elif isinstance(s, Resume):
            self._resume(s)
        elif isinstance(s, Store):
            self._store(s)
        elif isinstance(s, Weave):
            self._weave(s)
        elif isinstance(s, Ahead):
            self._ahead(s)
        elif isinstance(s, Block):
            with self.braces("if (tid == 0)" if s.once else ""):
                _declare(self, arrays(s.body))
                self.block(s.body)
                if any(isinstance(inner, Store) and inner.past for inner, _ in walk(s.body)):
                    self.line("stream_fence();")
        else:
            self._loop(s)

    # ---- loops
    def _loop(self, s: Loop) -> None:
        if s.vector:
            self._vector_loop(s)
            return
        n, x, share = dim(s.var.extent), self.name(s.var), self._share(s)
        low, high, next_ = "0", n, f"{x}++"
        if s.strip is not None:
            low = self.name(s.strip.var)
            end = self._ends.get(s.strip.var, n)
            high = f"{end} - {low} < {s.strip.length} ? {end} : {low} + {s.strip.length}"
        elif share is not None:
            low, high = f"{n} * {share[0]} / {share[1]}", f"{n} * ({share[0]} + 1) / {share[1]}"
        if s.step > 1:
            next_ = f"{x} += {s.step}"
            if share is not None:
                low, high = self._steps(s, *share)
        if s.grain:
            self._ends[s.var] = f"{x}_end"
        head = f"for ({self.dialect.index} {x} = {low}, {x}_end = {high}; {x} < {x}_end; {next_})"
        if s.var in written_out(s.body):
            head = f'_Pragma("GCC unroll {n}") {head}'
        with self.braces(head):
            self.block(s.body)

    def _steps(self, s: Loop, share: str, of: str) -> tuple[str, str]:
        """The bounds of a share of a loop in steps: whole ones, or multiples of a grain."""
        n, grain = s.var.extent, s.grain or s.step
        if grain == 1:
            return f"{dim(n)} * {share} / {of}", f"{dim(n)} * ({share} + 1) / {of}"
        steps = (number(-(-n // grain)) if isinstance(n, int) else
                 f"({dim(n)} + {grain - 1}) / {grain}")
        low, high = (f"{steps} * {t} / {of} * {grain}" for t in (share, f"({share} + 1)"))
        if s.grain and exact_div(n, grain) is None:
            high = f"{high} < {dim(n)} ? {high} : {dim(n)}"
        return low, high

    def _share(self, s: Loop) -> tuple[str, str] | None:
        """Which share of a loop is done here, and of how many."""
        if s.part is not None:
            return self.name(s.part), dim(s.part.extent)
        return ("tid", "nt") if s.shared else None

    def _vector_loop(self, s: Loop) -> None:
        """Unrolled vectors, then what is left, of which the last may end short; the last share
        holds that."""
        n, width = s.var.extent, self.dialect.width
        block = width * s.unroll
        self._decide(s)
        if s.strip is not None:
            self._strip(s, s.strip, block)
            return
        if not _below(n, block):
            self._vectors(s, 0, block, s.unroll)
        if exact_div(n, block) is not None:
            return
        share = self._share(s)
        if share is not None:
            self.line(f"if ({share[0]} == {share[1]} - 1) {{")
            self.depth += 1
        self._left(s, block)
        if share is not None:
            self.depth -= 1
            self.line("}")

    def _left(self, s: Loop, block: int) -> None:
        """What is left beyond whole blocks."""
        n, width = s.var.extent, self.dialect.width
        if isinstance(n, int):
            self._rest(s, n % block)
            return
        if s.unroll > 1 and not _below(n, width):
            self._vectors(s, block, width, 1)
        if exact_div(n, width) is None:
            self._rest(s, None)

    def _strip(self, s: Loop, strip: Strip, block: int) -> None:
        """The vectors of a strip, which begins with a whole one; the last strip of all holds what
        is left."""
        n, x, first = s.var.extent, self.name(s.var), self.name(strip.var)
        left = f"({first}_end - {first} < {strip.length} ? {first}_end - {first} : {strip.length})"
        head = (f"for (int64_t {x} = {first}, {x}_end = {first} + {left} / {block} * {block}; "
                f"{x} < {x}_end; {x} += {block})")
        with self.braces(head), self._lanes(s.var, s.unroll, False):
            self.block(s.body)
        if exact_div(n, block) is None:
            end = dim(n)
            with self.braces(f"if ({first}_end == {end} && {first} + {strip.length} >= {end})"):
                self._left(s, block)

    def _vectors(self, s: Loop, done: int, step: int, copies: int) -> None:
        """Steps of ``step`` from what blocks of ``done`` have covered (0: from the start)."""
        n, x = s.var.extent, self.name(s.var)
        low, high = _whole(n, done) if done else "0", _whole(n, step)
        share = self._share(s)
        if share is not None and not done:
            steps = number(n // step) if isinstance(n, int) else f"{dim(n)} / {step}"
            low, high = (f"{steps} * {t} / {share[1]} * {step}"
                         for t in (share[0], f"({share[0]} + 1)"))
        head = f"for (int64_t {x} = {low}, {x}_end = {high}; {x} < {x}_end; {x} += {step})"
        with self.braces(head), self._lanes(s.var, copies, False):
            self.block(s.body)

    def _rest(self, s: Loop, rest: int | None) -> None:
        """The last elements, side by side: as many as are known, or those of a vector that ends
        short."""
        n, x, width = s.var.extent, self.name(s.var), self.dialect.width
        head = "" if rest is not None else f"if ({dim(n)} % {width})"
        copies, short = (-(-rest // width), rest % width) if rest is not None else (1, 1)
        with self.braces(head), self._lanes(s.var, copies, short > 0):
            at = _whole(n, width) if rest is None else number(n - rest)
            self.line(f"const int64_t {x} = {at};")
            if short:
                left = f"(int)({dim(n)} - {x})" if rest is None else number(short)
                self.line(f"const int left = {left}, mask = (int)((1u << left) - 1);")
                self.line(f"const {self.dialect.vector['b']} lanes = lane_range(0, left - 1);")
                self.line("(void)mask; (void)lanes;")
            self.block(s.body)

    @contextmanager
    def _lanes(self, v: Var, copies: int, masked: bool):
        saved = self.at.vector, self.at.masked, self.at.copies
        self.at.vector, self.at.masked, self.at.copies = v, masked, copies
        yield
        self.at.vector, self.at.masked, self.at.copies = saved

    # ---- reductions
    @staticmethod
    def _combine(r: Val) -> str:
        """The function that joins two values of a reduction, without its prefix."""
        if r.dtype.kind == "bool":
            return "and" if r.attr.kind == "prod" else "or"
        return {"sum": "add", "max": "max", "prod": "mul", "logadd": "logadd"}[r.attr.kind]

    def _identity(self, r: Val) -> str:
        return constant(bits_of(identity(r.attr.kind, r.dtype), r.dtype), r.dtype)

    def _scan(self, v: Val) -> None:
        """One term goes into the accumulators of a scan, which then are its value. A sum of
        exponentials is kept relative to the largest so far, and its logarithm is the value."""
        lanes, scaled = self.is_vector(v), v.attr.kind == "logadd"
        prefix = f"{'v' if lanes else 's'}{REGISTER[v.dtype.name]}"
        if self.at.vector in v.attr.vars:
            self._running(v, prefix)
            return
        for u in self._copies_of(v):
            copy = f"{v.id}_{u}" if lanes else f"{v.id}"
            term = self.ref(v.args[0], u, lanes)
            self.line(f"{prefix}_logsum(&a{copy}, &s{copy}, {term});" if scaled else
                      f"a{copy} = {prefix}_{self._combine(v)}(a{copy}, {term});")

        def value(u: int) -> str:
            copy = f"{v.id}_{u}" if lanes else f"{v.id}"
            return f"{prefix}_logged(a{copy}, s{copy})" if scaled else f"a{copy}"

        self._define(v, value)

    def _running(self, v: Val, prefix: str) -> None:
        """Lanes are consecutive: each vector goes on from the last lane of the one before."""
        self.scopes[-1].add(v.id)
        for u in self._copies_of(v):
            name = f"v{v.id}_{u}"
            self.line(f"const {self._type(v.dtype, True)} {name} = {prefix}_running_"
                      f"{self._combine(v)}(a{v.id}, {self.ref(v.args[0], u, True)});")
            self.line(f"a{v.id} = {name}[{self.dialect.width - 1}];")

    def _start(self, s: Start) -> None:
        r, first = s.value, self._identity(s.value)
        self._around[r.id] = self.at.vector
        lanes, letter = self.is_vector(r), REGISTER[r.dtype.name]
        given = r.args[1] if r.op == "scan" and len(r.args) > 1 else None
        for u in self._copies_of(r):
            if r.op == "scan" and r.attr.kind == "logadd":  # e^a is all of it: the sum is 1
                one = constant(bits_of(1, r.dtype), r.dtype)
                self.line(f"{self._type(r.dtype, lanes)} s{r.id}{f'_{u}' if lanes else ''} = "
                          f"{f'v{letter}_splat({one})' if lanes else one};")
            if given is not None:
                self.line(f"{self._type(r.dtype, lanes)} a{r.id}{f'_{u}' if lanes else ''} = "
                          f"{self.ref(given, u, lanes)};")
            elif lanes:
                self.line(f"{self._type(r.dtype, True)} a{r.id}_{u} = v{letter}_splat({first});")
            elif not s.partials:
                self.line(f"{self._type(r.dtype, False)} a{r.id} = {first};")
        for u in range(s.partials):
            self.line(f"{self._type(r.dtype, True)} p{r.id}_{u} = v{letter}_splat({first});")

    def _rests(self, s: Rest) -> None:
        r, letter = s.value, REGISTER[s.value.dtype.name]
        for u in self._copies_of(r):
            self._put(letter, self._address(s.array, u), f"a{r.id}_{u}", False)

    def _resume(self, s: Resume) -> None:
        r, letter = s.value, REGISTER[s.value.dtype.name]
        self._around[r.id] = self.at.vector
        for u in self._copies_of(r):
            self.line(f"{self._type(r.dtype, True)} a{r.id}_{u} = "
                      f"v{letter}_load({self._address(s.array, u)});")

    def _across(self, r: Val) -> bool:
        """Whether lanes hold terms of a reduction: it starts outside of the loop that they follow.
        Inside of it they hold results, also where the loop is over a variable of its own."""
        return self.at.vector is not None and self.at.vector != self._around[r.id]

    def _accumulate(self, s: Accumulate) -> None:
        if s.value.attr.only is None:
            self._add(s)
        else:
            with self.braces(f"if ({self.condition((s.value.attr.only,))})"):
                self._add(s)

    def _add(self, s: Accumulate) -> None:
        r, letter = s.value, REGISTER[s.value.dtype.name]
        if self._across(r):
            for u in range(self.at.copies):
                new = self._joined(s, f"p{r.id}_{u}", u, True)
                if self.tail(u):
                    new = f"v{letter}_sel(lanes, {new}, p{r.id}_{u})"
                self.line(f"p{r.id}_{u} = {new};")
        elif self.is_vector(r):
            for u in range(self.at.copies):
                self.line(f"a{r.id}_{u} = {self._joined(s, f'a{r.id}_{u}', u, True)};")
        else:
            self.line(f"a{r.id} = {self._joined(s, f'a{r.id}', 0, False)};")

    def _joined(self, s: Accumulate, so_far: str, copy: int, lanes: bool) -> str:
        """An accumulator with one more term. A maximum looks at its first operand for NaN: at the
        term, so that the next step does not wait for that."""
        if s.fused is not None:
            return self.multiply_add(s.fused, so_far, copy, lanes)
        letter, both = REGISTER[s.value.dtype.name], [so_far, self.ref(s.term, copy, lanes)]
        if s.value.attr.kind == "max":
            both.reverse()
        return f"{'v' if lanes else 's'}{letter}_{self._combine(s.value)}({', '.join(both)})"

    def _finish(self, s: Finish) -> None:
        r, letter = s.value, REGISTER[s.value.dtype.name]
        if not s.partials:
            lanes = self.is_vector(r)
            self._define(r, lambda u: f"a{r.id}_{u}" if lanes else f"a{r.id}")
            return
        parts = [f"p{r.id}_{u}" for u in range(s.partials)]
        while len(parts) > 1:
            parts = [f"v{letter}_{self._combine(r)}({a}, {b})"
                     for a, b in zip(parts[::2], parts[1::2])] + parts[len(parts) // 2 * 2:]
        self._define(r, lambda u: f"v{letter}_h{self._combine(r)}({parts[0]})")


def _whole(n: Dim, step: int) -> str:
    """What whole steps cover of an extent."""
    return number(n // step * step) if isinstance(n, int) else f"{dim(n)} / {step} * {step}"


def _below(n: Dim, block: int) -> bool:
    """Whether a loop never has a whole block."""
    top = upper_bound(n)
    return top is not None and top < block


def _declare(p: Printer, found: Sequence[Array]) -> None:
    """Declare scratch arrays: small ones on the stack, the others in one block of the thread."""
    heap: list[tuple[str, str, str]] = []
    for a in found:
        letter = REGISTER[a.dtype.name]
        kind = "uint8_t" if letter == "b" else p.dialect.scalar[letter]
        size = a.size + p.dialect.width  # the last vector may be written whole
        top = upper_bound(size)
        if top is not None and top * a.dtype.numpy.itemsize <= _STACK:
            p.line(f"{kind} t{a.number}[{top}] __attribute__((aligned(64)));")
        else:
            heap.append((f"t{a.number}", kind, f"({dim(size)} * sizeof({kind}) + 63) / 64 * 64"))
    if heap:
        p.line(f"char *scratch = rt_scratch({' + '.join(size for _, _, size in heap)});")
    for name, kind, size in heap:
        p.line(f"{kind} *const {name} = ({kind} *)scratch; scratch += {size};")
