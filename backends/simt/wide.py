"""One thread, several neighbouring elements: what is contiguous moves as 16 bytes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

from tegg.backends.cexpr import MEMORY, Dialect, dim
from tegg.backends.cstyle import Printer
from tegg.kernel.domain import Write
from tegg.kernel.index import Algebra, Gathered, Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Let, Stmt
from tegg.kernel.simt import WIDE, moves_whole
from tegg.kernel.value import Load, Val


class WidePrinter(Printer):
    """Prints values that follow a loop once for each of the ``WIDE`` elements of a thread.

    ``v7_2`` is value 7 of the third element. Everything is a scalar; only memory moves in fours.
    """

    def __init__(self, dialect: Dialect, algebra: Algebra) -> None:
        super().__init__(replace(dialect, width=1), algebra)
        self.lanes = Lanes(algebra, dialect.width)

    @contextmanager
    def wide(self, v: Var | None):
        """Inside, a thread has as many elements along ``v``; one where there is none."""
        self.at.vector, self.copies = v, WIDE if v is not None else 1
        yield
        self.at.vector, self.copies = None, 1

    def ref(self, v: Val, copy: int = 0, lanes: bool = False) -> str:
        return super().ref(v, copy, False)

    def multiply_add(self, product: Val, term: str, copy: int, lanes: bool) -> str:
        return super().multiply_add(product, term, copy, False)

    def operation(self, v: Val, args: list[str], lanes: bool) -> str:
        return super().operation(v, args, False)

    def cast(self, x: str, source, to, lanes: bool) -> str:
        return super().cast(x, source, to, False)

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

    def statement(self, s: Stmt) -> None:
        if (isinstance(s, Let) and s.value.op == "load" and self.is_vector(s.value)
                and not s.value.attr.guards and self._whole_at(s.value.attr.form, s.value)):
            v = s.value
            kind, four = self._type(v.dtype, False), f"w{v.id}"
            self.line(f"const wide_{MEMORY[v.dtype.name]} {four} = "
                      f"wide_load(b{v.attr.slot} + {self.form(v.attr.form)});")
            for u, field in enumerate("xyzw"):
                self.line(f"const {kind} v{v.id}_{u} = {four}.{field};")
            return
        super().statement(s)

    def _whole_at(self, form, value: Val) -> bool:
        return self.at.vector is not None and moves_whole(form, self.at.vector, value.dtype)

    def _store(self, w: Write, past: bool) -> None:
        if self.at.vector is None:
            super()._store(w, past)
        elif (w.mode == "store" and not w.guards and self._whole_at(w.form, w.value)):
            values = ", ".join(self.ref(w.value, u) for u in range(self.copies))
            self.line(f"wide_store(b{w.slot} + {self.form(w.form)}, {values});")
        else:
            for u in range(self.copies):
                tests = [self.condition(w.guards, u)] if w.guards else []
                self._update(w, MEMORY[w.value.dtype.name], f"b{w.slot} + {self.form(w.form, u)}",
                             self.ref(w.value, u), tests)
