"""One thread, several neighbouring elements: what is contiguous moves as words, up to 16 bytes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

from tegg.backends.cexpr import MEMORY, Dialect, dim
from tegg.backends.cstyle import Printer
from tegg.kernel.accesses import NONE, Access, Even, multiple
from tegg.kernel.domain import Write
from tegg.kernel.index import Algebra, Gathered, Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Accumulate, Let, Stmt, Store
from tegg.kernel.value import Load, Val

_TWO = ("{}.x", "{}.y")
_FIELDS = {"4": (*_TWO, "{}.z", "{}.w"), "2": _TWO, "1": ("{}",), "d": _TWO, "l": _TWO}
_WORD = 4  # bytes; larger elements move in twos


class WidePrinter(Printer):
    """Prints values that follow a loop once for each of the neighbours that a thread has.

    ``v7_2`` is value 7 of the third of them. Everything is a scalar; only memory moves in words.
    """

    def __init__(self, dialect: Dialect, algebra: Algebra) -> None:
        super().__init__(replace(dialect, width=1), algebra)
        self.lanes = Lanes(algebra, dialect.width)
        self.even: Even = NONE  # what is so where printing stands
        self.stores = "wide_store"  # what functions that store words begin with

    @contextmanager
    def wide(self, v: Var | None, count: int):
        """Inside, a thread has ``count`` elements along ``v``; one where there is no loop."""
        saved = self.at.vector, self.at.copies
        self.at.vector, self.at.copies = (v, count) if v is not None and count > 1 else (None, 1)
        yield
        self.at.vector, self.at.copies = saved

    @contextmanager
    def neighbours(self, v: Var, count: int, first: str):
        """The code inside, for ``count`` neighbours from ``first``. Where there may be fewer, the
        caller prints what follows for single ones: see ``ragged``."""
        self.line(f"const {self.dialect.index} {self.name(v)} = {first};")
        with self.wide(v, count):
            yield

    def ragged(self, v: Var, count: int) -> bool:
        """Whether the last neighbours of a loop may be fewer than ``count``."""
        return not multiple(v.extent, count, self.even)

    def together(self, v: Var, count: int, first: str, body) -> None:
        """``body()`` for neighbours from ``first`` of a loop: at once, and one by one at its end.

        It is called with the number of the neighbour, None for all of them.
        """
        if count == 1 or not self.ragged(v, count):
            with self.neighbours(v, count, first):
                body(None)
            return
        n = dim(v.extent)
        with self.braces(f"if ({first} + {count} <= {n})"), self.neighbours(v, count, first):
            body(None)
        with self.braces("else"):
            self.line("UNROLL")
            with self.braces(f"for (int u = 0; u < {count - 1}; u++)"), \
                    self.neighbours(v, 1, f"{first} + u"), \
                    self.braces(f"if ({self.name(v)} < {n})"):
                body("u")

    def ref(self, v: Val, copy: int = 0, lanes: bool = False) -> str:
        return super().ref(v, copy, False).replace("{u}", str(copy))

    def multiply_add(self, product: Val, term: str, copy: int, lanes: bool) -> str:
        return super().multiply_add(product, term, copy, False)

    def operation(self, v: Val, args: list[str], lanes: bool) -> str:
        return super().operation(v, args, False)

    def cast(self, x: str, source, to, lanes: bool, stored: bool = False) -> str:
        return super().cast(x, source, to, False, stored)

    def _atom(self, atom: object, copy: int, lane: int) -> str:
        if isinstance(atom, Gathered):
            text = self.ref(atom.value, copy)
            return (f"clamp_index({text}, {dim(atom.extent)})" if atom.clamped
                    else f"(int64_t){text}")
        return super()._atom(atom, copy, lane)

    def _vector_index(self, v: Val, copy: int) -> str:
        return self._cast_scalar(self.form(v.attr, copy), v.dtype)

    def _vector_condition(self, guards, copy: int) -> str:
        return self.condition(guards, copy)

    def _vector_load(self, v: Val, copy: int) -> str:
        load: Load = v.attr
        text = f"s{MEMORY[v.dtype.name]}_load(b{load.slot} + {self.form(load.form, copy)})"
        return f"{self.condition(load.guards, copy)} ? {text} : 0" if load.guards else text

    # ---- words
    def _chunk(self, a: Access) -> int:
        """Elements of one access; 1 where they are read or written one by one."""
        v = self.at.vector
        return 1 if v is None else a.chunk(v, self.at.copies, self.even)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, Let) and s.value.op == "load" and self.is_vector(s.value):
            a = s.value.attr
            chunk = self._chunk(Access(a.form, a.guards, s.value.dtype, False))
            if chunk > 1:
                self._load_words(s.value, chunk)
                return
        super().statement(s)

    def _load_words(self, v: Val, chunk: int) -> None:
        """Neighbours of memory, as many words at a time as one access moves."""
        load, size = v.attr, v.dtype.itemsize
        letter, per = MEMORY[v.dtype.name], _WORD // size
        how = letter if size > _WORD else str(chunk * size // _WORD)
        kind = self._type(v.dtype, False)
        for first in range(0, self.at.copies, chunk):
            name = f"w{v.id}_{first}"
            text = f"wide_load_{how}(b{load.slot} + {self.form(load.form, first)})"
            if load.guards:
                text = f"{self.condition(load.guards)} ? {text} : wide_{how}()"
            self.line(f"const wide_{how} {name} = {text};")
            fields = [f.format(name) for f in _FIELDS[how]]
            for u in range(chunk):
                part = (fields[u] if size > _WORD else f"s{letter}_of({fields[u]})" if per == 1
                        else f"s{letter}_of({fields[u // per]}, {u % per})")
                self.line(f"const {kind} v{v.id}_{first + u} = {part};")

    def _store_words(self, w: Write, chunk: int) -> None:
        size, letter = w.value.dtype.itemsize, MEMORY[w.value.dtype.name]
        how = letter if size > _WORD else str(chunk * size // _WORD)
        test = f"if ({self.condition(w.guards)}) " if w.guards else ""
        per = _WORD // size
        for first in range(0, self.at.copies, chunk):
            given = [self.ref(w.value, first + u) for u in range(chunk)]
            if size <= _WORD:
                given = [f"s{letter}_word({', '.join(given[i:i + per])})"
                         for i in range(0, chunk, per)]
            self.line(f"{test}{self.stores}_{how}(b{w.slot} + {self.form(w.form, first)}, "
                      f"{', '.join(given)});")

    def _accumulate(self, s: Accumulate) -> None:
        """A thread's neighbours are summed one after the other."""
        if not self._across(s.value):
            super()._accumulate(s)
            return
        r = s.value
        for u in range(self.at.copies):
            self.line(f"a{r.id} = {self._joined(s, f'a{r.id}', u, False)};")

    def _store(self, s: Store) -> None:
        if self.at.vector is None:
            super()._store(s)
            return
        w = s.write
        chunk = self._chunk(Access(w.form, w.guards, w.value.dtype, True, w.mode == "store"))
        if chunk > 1:
            self._store_words(w, chunk)
            return
        for u in range(self.at.copies):
            tests = [self.condition(w.guards, u)] if w.guards else []
            self._update(w, MEMORY[w.value.dtype.name], f"b{w.slot} + {self.form(w.form, u)}",
                         self.ref(w.value, u), tests)
