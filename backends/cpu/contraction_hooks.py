"""The parts of a contraction kernel that index propagation makes: operands, row values, results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tegg.backends.cexpr import MEMORY, REGISTER, Dialect
from tegg.backends.cfunction import print_hook
from tegg.backends.cpu.contraction_axis import Axis
from tegg.dim import Dim, product
from tegg.dtype import DType
from tegg.errors import LoweringError
from tegg.kernel.ahead import below, coming, later, turning
from tegg.kernel.contraction_classify import Contraction, Group, Term
from tegg.kernel.contraction_shape import GemmParams
from tegg.kernel.domain import Write
from tegg.kernel.index import Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Ahead, Stmt, Store, arrays
from tegg.kernel.place import Limits, Placer
from tegg.kernel.stored import left_to_stores
from tegg.kernel.value import Val, reachable
from tegg.kernel.vectorise import Vectoriser

_FAR = 1 << 20   # bytes of results that no cache of a thread keeps
LINE = 64       # bytes that caches move together


@dataclass(frozen=True, slots=True)
class RowValue:
    """A dear value of an operand that depends on one side only, kept in an array."""

    value: Val
    name: str
    side: str  # "batch", "m" or "n"


@dataclass(slots=True)
class Hooks:
    """Prints the hook functions of one kernel. ``lines`` collects their source.

    memory: the buffers, where they are more than the contraction alone shows.
    """

    name: str
    contraction: Contraction
    dialect: Dialect
    batch: Axis
    m: Axis
    k: Axis
    columns: tuple[Axis, ...]
    rows: tuple[RowValue, ...] = ()
    lines: list[str] = field(default_factory=list)
    memory: Mapping[int, tuple[DType, bool]] | None = None

    # ---- types and parameters
    def scalar(self, d: DType) -> str:
        return self.dialect.scalar[REGISTER[d.name]]

    def vector(self, d: DType) -> str:
        return self.dialect.vector[REGISTER[d.name]]

    def values(self) -> list[Val]:
        """Everything that the kernel computes."""
        groups = self.contraction.groups
        return reachable([self.contraction.a, *(t.b for g in groups for t in g.terms),
                          *(v for g in groups for w in g.writes for v in w.needs())])

    def buffers(self) -> dict[int, tuple[DType, bool]]:
        """Slot -> dtype and whether it is written."""
        if self.memory is not None:
            return dict(self.memory)
        out = {v.attr.slot: (v.dtype, False) for v in self.values() if v.op == "load"}
        out.update({w.slot: (w.value.dtype, True) for g in self.contraction.groups
                    for w in g.writes})
        return dict(sorted(out.items()))

    def params(self, symbols: Sequence[str]) -> str:
        """Buffers and sizes, which every function takes first."""
        parts = [f"{'' if written else 'const '}{self.dialect.memory[MEMORY[d.name]]} *const b{s}"
                 for s, (d, written) in self.buffers().items()]
        return ", ".join([*parts, *(f"const int64_t S_{s}" for s in symbols)])

    def args(self, symbols: Sequence[str]) -> str:
        return ", ".join([*(f"b{s}" for s in self.buffers()), *(f"S_{s}" for s in symbols)])

    def unpack(self, symbols: Sequence[str]) -> str:
        lines = [f"  const int64_t S_{s} = sizes[{i}]; (void)S_{s};" for i, s in enumerate(symbols)]
        for slot, (d, written) in self.buffers().items():
            kind = self.dialect.memory[MEMORY[d.name]]
            const = "" if written else "const "
            lines.append(f"  {const}{kind} *const b{slot} = ({const}{kind} *)buffers[{slot}];")
        return "\n".join(lines)

    # ---- placing and printing
    def _placed(self, wanted: Sequence[Val], scope: Iterable[Var], vector: Var | None,
                given: Iterable[int]) -> list[Stmt]:
        p = self.contraction.propagation
        limits = Limits(keep=math.inf, thrice=math.inf, hoist=math.inf)
        placer = Placer(p.values, Vectoriser(Lanes(p.algebra, self.dialect.width)), limits)
        placer.open = list(scope)
        placer.vector = vector
        placer.known = [set(given)]
        stmts = placer.ensure(wanted)
        assert not arrays(stmts), "a hook has no room for arrays"
        return stmts

    def _function(self, result: str, name: str, params: str, axes: Sequence[Axis],
                  extra: Sequence[tuple[str, str]], body: Sequence[str]) -> None:
        every = "".join(a.params for a in (self.batch, *axes))
        more = "".join(f"{kind} {n}, " for kind, n in extra)
        self.lines += [f"static inline __attribute__((always_inline)) {result} {self.name}_{name}("
                       f"{', '.join(filter(None, [params, (every + more).rstrip(', ')]))}) {{",
                       *body, "}"]

    def hook(self, name: str, params: str, axes: Sequence[Axis], wanted: Sequence[Val],
             write: Sequence[Write], lanes: Axis | None, masked: bool,
             given: Mapping[int, tuple[str, str]], first: Sequence[Stmt] = (),
             copies: int = 1) -> None:
        """One function; ``given``: value id -> its type and name as a parameter. ``first``: what it
        does before anything else. copies: vectors side by side; those of the second that are given
        follow all of the first."""
        vector = lanes.last if lanes else None
        named: dict[Var, str] = {}
        for a in (self.batch, *axes):
            named.update(a.named())
        stmts = [*first, *self._placed([v for v in wanted if v.id not in given], named, vector,
                                       given)]
        stmts += [Store(w) for w in write]
        lines, results = print_hook(
            self.dialect, self.contraction.propagation.algebra, left_to_stores(stmts),
            () if write else wanted, named, {i: n for i, (_, n) in given.items()}, vector, masked,
            copies)
        head = [] if not masked else [
            "  const int mask = (1 << left) - 1; (void)mask;",
            f"  const {self.dialect.vector['b']} lanes = lane_range(0, left - 1); (void)lanes;"]
        kind = "void"
        if not write:
            kind = (self.vector if lanes else self.scalar)(wanted[0].dtype)
            lines.append(f"  return {results[0]};")
        extra = list(dict.fromkeys(given.values()))
        vectors = [(t, n) for t, n in extra if t.split()[-1] in self.dialect.vector.values()]
        extra += [(t, f"{n}_{u}") for u in range(1, copies) for t, n in vectors]
        extra += [("const int", "left")] if masked else []
        self._function(kind, name, params, axes, extra, [*head, *lines])

    # ---- row values
    def row_values(self, params: str) -> None:
        """Find them in A and in the results, and print a function for each."""
        c = self.contraction
        sums = {t.sum.id for g in c.groups for t in g.terms}
        free = frozenset(self.batch.vars) | frozenset(self.m.vars)
        roots = [c.a, *(v for g in c.groups for w in g.writes for v in w.needs())]
        found = _dear(roots, free, sums, "rows of A")
        rows = [RowValue(v, f"r{i}", "m" if v.deps & frozenset(self.m.vars) else "batch")
                for i, v in enumerate(found)]
        for group, axis in zip(c.groups, self.columns):
            for t in group.terms:
                free = frozenset(self.batch.vars) | frozenset(axis.vars)
                for v in _dear([t.b], free, set(), "columns of B"):
                    if all(r.value is not v for r in rows):
                        side = "n" if v.deps & frozenset(axis.vars) else "batch"
                        rows.append(RowValue(v, f"r{len(rows)}", side))
        self.rows = tuple(rows)
        for r in self.rows:
            axes = self._axes_of(r)
            given = {e.value.id: ("const " + self.scalar(e.value.dtype), e.name)
                     for e in self.rows_below(r)}
            self.hook(r.name, params, axes, [r.value], (), None, False, given)

    def rows_below(self, r: RowValue) -> list[RowValue]:
        """The row values that one is computed from, which its function is given."""
        return [e for e in self.rows_in(r.value.args) if e is not r]

    def _axes_of(self, r: RowValue) -> list[Axis]:
        if r.side == "batch":
            return []
        if r.side == "m":
            return [self.m]
        return [next(a for a in self.columns if r.value.deps <= set(a.vars) | set(self.batch.vars))]

    def rows_in(self, roots: Iterable[Val]) -> list[RowValue]:
        """The row values that some values use."""
        sums = {t.sum.id for g in self.contraction.groups for t in g.terms}
        ids = {v.id for v in _above_sums(list(roots), sums)}
        return [r for r in self.rows if r.value.id in ids]

    def _given_rows(self, roots: Iterable[Val], vector: Var | None) -> dict[int, tuple[str, str]]:
        return {r.value.id: ("const " + (self.vector if vector in r.value.deps else self.scalar)(
            r.value.dtype), r.name) for r in self.rows_in(roots)}

    # ---- the operands and the results
    @property
    def taps(self) -> bool:
        """Whether the innermost terms of a sum are fewer than a vector has lanes, and more follow:
        as those of a window, which rows of A along memory are turned together with others."""
        inner = self.k.extents[-1]
        return (len(self.k.names) > 1 and isinstance(inner, int) and inner < self.dialect.width
                and not self.rows_in([self.contraction.a]))

    def operand_a(self, params: str, along_m: bool, turned: bool = True) -> None:
        """``turned``: rows along memory, of which some may be left, are turned in vectors."""
        a = self.contraction.a
        axes = [self.m, self.k]
        kinds = [("a_m", self.m, False), ("a", None, False)] if along_m else [
            ("a_k", self.k, False), ("a_k_left", self.k, True)]
        if along_m and turned and self.taps:
            kinds.append(("a_m_left", self.m, True))
        for name, lanes, masked in kinds:
            given = self._given_rows([a], lanes.last if lanes else None)
            self.hook(name, params, axes, [a], (), lanes, masked, given)

    def operand_b(self, params: str, term: Term, axis: Axis, kinds: Sequence[str],
                  tile: GemmParams | None = None) -> None:
        """``kinds``: suffixes of the wanted functions: ``_n _n_left _k`` or nothing. ``tile``: how
        much of a B that is read where it lies, once, is asked for."""
        for suffix in kinds:
            lanes = {"_n": axis, "_n_left": axis, "_k": self.k, "_k_left": self.k, "": None}[suffix]
            given = self._given_rows([term.b], lanes.last if lanes else None)
            asked = (self.coming(term, axis, lanes, tile)
                     if tile is not None and suffix in ("_n", "_k") else ())
            self.hook(f"b{term.anchor}{suffix}", params, [axis, self.k], [term.b], (), lanes,
                      suffix.endswith("left"), given, asked)
        turns = tile is not None and self.turning(term, axis, tile)
        if turns:
            self._asks(f"ask_b{term.anchor}", params, [axis, self.k], turns)

    def coming(self, term: Term, axis: Axis, lanes: Axis | None,
               tile: GemmParams) -> Sequence[Ahead]:
        """Requests for what is read later of a B that is read where it lies."""
        if not tile.ahead or lanes is None or len(axis.vars) != 1 or len(self.k.vars) != 1:
            return ()
        over = axis if lanes is self.k else self.k
        return coming(term.b, lanes.last, over.last, self._size(term, axis), tile.ahead,
                      not tile.beside)

    def turning(self, term: Term, axis: Axis, tile: GemmParams) -> Sequence[Ahead]:
        """Requests for runs of a B that is read where it lies, made where it is told."""
        if tile.ahead < 2 or len(axis.vars) != 1 or len(self.k.vars) != 1:
            return ()
        lanes, over = (self.k, axis) if tile.form == "dots" else (axis, self.k)
        return turning(term.b, lanes.last, over.last, self._size(term, axis), tile.ahead,
                       not tile.beside)

    def later(self, params: str, term: Term, axis: Axis) -> str:
        """A function that asks for B at a column and a k, of which it is read later, and its name;
        none where B stays close by or is not read in runs."""
        asked = later(term.b, axis.last, self.k.last, self._size(term, axis))
        if not asked:
            return ""
        self._asks(f"ask_b{term.anchor}", params, [axis, self.k], asked)
        return f"{self.name}_ask_b{term.anchor}"

    def _size(self, term: Term, axis: Axis) -> Dim:
        """Elements of a B."""
        batch = self.batch.count if term.b.deps & frozenset(self.batch.vars) else 1
        return product((batch, axis.count, self.k.count))

    def further(self, group: Group, params: GemmParams) -> Dim | None:
        """How far on B of a group's one term, which is read at one place, is asked for meanwhile;
        None where it is not."""
        (term,), (axis,) = group.terms, self.columns
        read = next(v for v in reachable([term.b]) if v.op == "load")
        asked = self.coming(term, axis, self.k if params.form == "dots" else axis, params)
        return (asked[0].form + read.attr.form * -1).const if asked else None

    def result(self, params: str, number: int, group: Group, axis: Axis,
               asked: Sequence[Ahead] = ()) -> None:
        """Store what the sums of a group become, from a vector of each sum. asked: what each asks
        for meanwhile."""
        for suffix, masked in (("_n", False), ("_n_left", True)):
            self._result(params, number, group, axis, suffix, masked, asked=asked)

    def result_of_two(self, params: str, number: int, group: Group, axis: Axis) -> None:
        """The same from two vectors of each sum, side by side."""
        self._result(params, number, group, axis, "_two", False, 2)

    def _result(self, params: str, number: int, group: Group, axis: Axis, suffix: str,
                masked: bool, copies: int = 1, asked: Sequence[Ahead] = ()) -> None:
        needs = list(dict.fromkeys(v for w in group.writes for v in w.needs()))
        given = self._given_rows(needs, axis.last)
        for t in group.terms:
            kind = (self.vector if axis.last in t.sum.deps else self.scalar)(t.sum.dtype)
            given[t.sum.id] = (f"const {kind}", f"s{t.anchor}")
        self.hook(f"out{number}{suffix}", params, [self.m, axis], needs, group.writes, axis, masked,
                  given, asked, copies)

    def stored_in_twos(self, group: Group, axis: Axis) -> bool:
        """Whether two vectors of a result, side by side, are stored in the time of one."""
        return any(MEMORY[w.value.dtype.name] in self.dialect.pairs and not w.guards
                   and w.mode == "store" and w.form.coefficient(axis.last) == 1
                   for w in group.writes)

    def flat(self, group: Group, axis: Axis) -> bool:
        """Whether the results of a row lie one after the other through all variables of its
        columns, and nothing else that they become depends on these: one counts them all."""
        every, writes = set(axis.vars), group.writes
        inner: Dim = 1
        for v in reversed(axis.vars):
            if any(w.form.coefficient(v) != inner for w in writes):
                return False
            inner = inner * v.extent
        becomes = _above_sums([v for w in writes for v in w.needs()],
                              {t.sum.id for t in group.terms})
        return (len(axis.vars) > 1
                and not any(w.guards or any(not isinstance(a, Var) for a in w.form.terms)
                            for w in writes)
                and all(t.sum.deps >= every for t in group.terms)
                and not any(v.attr is not None and v.deps & every for v in becomes))

    def asked(self, group: Group, axis: Axis) -> int:
        """Columns of a line of the results that are asked for before they are written; 0: none is,
        for they stay near, or do not lie in rows."""
        size = product((self.batch.count, self.m.count, axis.count))
        widest = max((w.value.dtype.itemsize for w in group.writes), default=1)
        near = isinstance(size, int) and size * widest < _FAR
        rows = len(axis.names) == 1 and all(
            not w.guards and w.form.coefficient(axis.last) == 1
            and all(isinstance(atom, Var) for atom in w.form.terms) for w in group.writes)
        return LINE // widest if rows and not near else 0

    def ask(self, params: str, number: int, group: Group, axis: Axis) -> None:
        """Ask for the lines that the results of a row and a column are computed from beside sums:
        these are waited for. Where there are none, for that which they go to."""
        if not self.asked(group, axis):
            return
        beside = _above_sums([v for w in group.writes for v in w.needs()],
                             {t.sum.id for t in group.terms})
        read = [Ahead(v.attr.slot, v.attr.form, v.dtype, "read") for v in beside
                if v.op == "load" and self._in_lines(v, axis)]
        self._asks(f"ask{number}", params, [self.m, axis], list(dict.fromkeys(read)) or [
            Ahead(w.slot, w.form, w.value.dtype, "write") for w in group.writes])

    def _in_lines(self, load: Val, axis: Axis) -> bool:
        """Whether what is read lies in rows as results do, each of its own."""
        form = load.attr.form
        return (not load.attr.guards and form.coefficient(axis.last) == 1
                and all(isinstance(atom, Var) for atom in form.terms)
                and any(form.coefficient(v) != 0 for v in self.m.vars))

    def below(self, group: Group, axis: Axis, over: Var, rows: int) -> list[Ahead]:
        """Requests for what results so many rows on read and write along their columns."""
        values = _above_sums([v for w in group.writes for v in w.needs()],
                             {t.sum.id for t in group.terms})
        return below(values, group.writes, axis.last, over, rows)

    def _asks(self, name: str, params: str, axes: Sequence[Axis], asked: Sequence[Ahead]) -> None:
        """A function that asks for memory at a place of some axes."""
        named: dict[Var, str] = {}
        for a in (self.batch, *axes):
            named.update(a.named())
        lines, _ = print_hook(self.dialect, self.contraction.propagation.algebra, asked, (), named,
                              {})
        self._function("void", name, params, axes, (), lines)


def _dear(roots: Sequence[Val], free: frozenset[Var], sums: set[int], what: str) -> list[Val]:
    """The largest values that hold a reduction and depend on ``free`` only.

    Raises LoweringError for a reduction that depends on more: it would be computed per element.
    """
    dear: set[int] = set()
    order = _above_sums(roots, sums)
    for v in order:
        if v.op == "red" or any(a.id in dear for a in v.args):
            dear.add(v.id)
    found: dict[int, Val] = {}
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        v = todo.pop()
        if v.id in seen or v.id in sums or v.id not in dear:
            continue
        seen.add(v.id)
        if v.deps <= free:
            found[v.id] = v
        elif v.op == "red":
            raise LoweringError(f"a reduction inside a contraction depends on more than the "
                                f"{what}; store it, and read it in the next kernel")
        else:
            todo.extend(v.args)
    return [found[i] for i in sorted(found)]


def _above_sums(roots: Sequence[Val], sums: set[int]) -> list[Val]:
    """Values that roots are computed from, sums of the contractions not entered."""
    todo, seen = list(roots), {}
    while todo:
        v = todo.pop()
        if v.id in seen or v.id in sums:
            continue
        seen[v.id] = v
        todo.extend(v.args)
    return [seen[i] for i in sorted(seen)]
