"""Loads of C-family source: of scalars, and of vectors by how their lanes lie in memory."""

from __future__ import annotations

from collections.abc import Mapping

from tegg.backends.cexpr import MEMORY, REGISTER, Dialect, Expressions, dim, number
from tegg.dim import Dim, upper_bound
from tegg.dtype import DType, i64
from tegg.kernel.index import Algebra, Form, Gathered, Guard
from tegg.kernel.lane import EVERY_OTHER
from tegg.kernel.straight import END, Straight, run
from tegg.kernel.value import Load, Val


class Loads(Expressions):
    """Prints loads, beside all other values."""

    def __init__(self, dialect: Dialect, algebra: Algebra) -> None:
        super().__init__(dialect, algebra)
        self.letters: dict[int, str] = {}  # slot -> how it lies in memory, where not as its dtype

    def _letter(self, v: Val) -> str:
        return self.letters.get(v.attr.slot, MEMORY[v.dtype.name])

    def value(self, v: Val, copy: int = 0, fused: Val | None = None,
              stored: bool = False) -> str:
        """The expression that computes a value from its operands."""
        if v.op == "load":
            return self._vector_load(v, copy) if self.is_vector(v) else self._scalar_load(v)
        return super().value(v, copy, fused, stored)

    def _scalar_load(self, v: Val) -> str:
        load: Load = v.attr
        text = f"s{self._letter(v)}_load(b{load.slot} + {self.form(load.form)})"
        return f"{self.condition(load.guards)} ? {text} : 0" if load.guards else text

    def _vector_load(self, v: Val, copy: int) -> str:
        load: Load = v.attr
        var, letter = self.at.vector, self._letter(v)
        k = self.lanes.coefficient(load.form, var)
        follow = [self.lanes.coefficient(g.form, var) for g in load.guards]
        if k == 1 and all(c in (0, 1) for c in follow):
            return self._contiguous_load(v, load, letter, follow, copy)
        if k == 2 and v.dtype.name in EVERY_OTHER and all(c in (0, 2) for c in follow):
            return self._every_other(v, load, letter, follow, copy)
        if k == -1 and not self.tail(copy) and all(c == 0 for c in follow):
            text = f"v{REGISTER[v.dtype.name]}_reverse(v{letter}_load(b{load.slot} + " \
                   f"{self.form(load.form, copy)} - {self.dialect.width - 1}))"
            return self._where(load.guards, follow, text, v.dtype, copy)
        found = run(self.lanes, load.form, var, self._named)
        if found is None or any(c not in (0, 1) for c in follow):
            return self._any_load(v, letter, copy)
        return (self._run(v, letter, follow, copy, found)
                + (self._near_load(load, letter, copy, found) or self._any_load(v, letter, copy)))

    def _any_load(self, v: Val, letter: str, copy: int) -> str:
        """Lanes from anywhere: gathered by the machine where it can, else one by one."""
        load: Load = v.attr
        if letter in self.dialect.gathers and (at := self._positions(load.form, copy)) is not None:
            first, positions, kind = at
            name, mask = f"v{letter}_gather", self._lanes_read(load, copy)
            where = f"b{load.slot}{first}, {positions}"
            return f"{name}m_{kind}({where}, {mask})" if mask else f"{name}_{kind}({where})"
        sign = "-" if v.dtype.kind == "bool" else ""

        def lane(i: int) -> str:
            tests = [self._in_lanes(i)] if self.tail(copy) else []
            if load.guards:
                tests.append(self.condition(load.guards, copy, i))
            text = f"{sign}s{letter}_load(b{load.slot} + {self.form(load.form, copy, i)})"
            return f"{' && '.join(tests)} ? {text} : 0" if tests else text

        return self.each(v.dtype, lane)

    def _contiguous_load(self, v: Val, load: Load, letter: str, follow: list[Dim | None],
                         copy: int) -> str:
        """What holds of all lanes or of none is a branch: a masked load of no lane is slow where
        its address is no memory."""
        address = f"b{load.slot} + {self.form(load.form, copy)}"
        masks = ["mask"] if self.tail(copy) else []
        for g, c in zip(load.guards, follow):
            if c != 0:
                at = self.form(g.form, copy)
                masks.append(f"lane_mask({dim(g.low)} - {at}, {dim(g.high)} - {at})")
        text = (f"v{letter}_loadm({address}, {' & '.join(masks)})" if masks
                else f"v{letter}_load({address})")
        return self._where(load.guards, follow, text, v.dtype, copy)

    def _where(self, guards: tuple[Guard, ...], follow: list[Dim | None], text: str, dtype: DType,
               copy: int) -> str:
        """A vector, or zeros where a guard that does not follow the lanes does not hold."""
        same = tuple(g for g, c in zip(guards, follow) if c == 0)
        zero = f"({self.dialect.vector[REGISTER[dtype.name]]}){{0}}"
        return f"{self.condition(same, copy)} ? {text} : {zero}" if same else text

    def _every_other(self, v: Val, load: Load, letter: str, follow: list[Dim | None],
                     copy: int) -> str:
        """Two vectors whose even lanes are one; lanes that are not read touch no memory."""
        masks = ["mask"] if self.tail(copy) else []
        for g, c in zip(load.guards, follow):
            if c != 0:
                at = self.form(g.form, copy)
                masks.append(f"lane_mask(-floor_div({at} - {dim(g.low)}, 2), "
                             f"floor_div({dim(g.high)} - {at}, 2))")
        text = (f"v{letter}_load_every_other(b{load.slot} + {self.form(load.form, copy)}, "
                f"{' & '.join(masks) or '-1'})")
        return self._where(load.guards, follow, text, v.dtype, copy)

    def _near_load(self, load: Load, letter: str, copy: int, found: Straight) -> str | None:
        """Lanes of one axis at an end of a run, which lie near one another: a load and a
        permutation. None where the axis is not one of neighbours, or a guard says what is read."""
        inside = [a for a in load.form.terms if isinstance(a, Gathered) and self.is_vector(a.value)]
        at = self._positions(load.form, copy)
        if letter not in self.dialect.nears or len(inside) != 1 or at is None or load.guards:
            return None
        (a,), (first, positions, kind) = inside, at
        base = load.form + Form(0, {a: -1})
        if load.form.terms[a] != 1 or kind == "l" or self.lanes.coefficient(
                base, self.at.vector) != 0:
            return None
        if kind == "n":
            positions = f"vl_to_i({positions})"
        start = self.form(found.form + base * -1, copy)
        where, axis = f"b{load.slot}{first}, {positions}", f"{start}, {dim(a.extent)}"
        return (f"v{letter}_nearm({where}, lanes, {axis})" if self.tail(copy)
                else f"v{letter}_near({where}, {axis})")

    def _run(self, v: Val, letter: str, follow: list[Dim | None], copy: int,
             found: Straight) -> str:
        """``all lanes are neighbours ? what they load :``, where most vectors are such a run."""
        load: Load = v.attr
        tests = [t for g in dict.fromkeys(found.guards) for t in self._in_all_lanes(g, copy)]
        straight = Load(load.slot, found.form, load.guards)
        text = self._contiguous_load(v, straight, letter, follow, copy)
        return f"{' && '.join(tests) or '1'} ? {text} : "

    def _named(self, v: Val) -> bool:
        return v.id in self.at.given or any(v.id in names for names in self.scopes)

    def _in_all_lanes(self, g: Guard, copy: int) -> list[str]:
        """Tests of a guard in the first lane and in the last one, between which it is linear. What
        is proven is not tested."""
        if self.algebra.within(g.form, g.low, g.high):
            return []
        k, first = self.lanes.coefficient(g.form, self.at.vector), self.form(g.form, copy)
        last = "(left - 1)" if self.tail(copy) else number(self.dialect.width - 1)
        ends = [first] if k == 0 else [first, f"{first} + {dim(k)} * {last}"]
        if g.high == END:
            return [f"{at} >= {dim(g.low)}" for at in ends]
        return [f"in_range({at}, {dim(g.low)}, {dim(g.high)})" for at in ends]

    def _lanes_read(self, load: Load, copy: int) -> str:
        """The mask of the lanes that a load reads; nothing where it reads them all."""
        masks = ["lanes"] if self.tail(copy) else []
        masks += [self._vector_condition(load.guards, copy)] if load.guards else []
        return " & ".join(masks)

    def _positions(self, f: Form, copy: int) -> tuple[str, str, str] | None:
        """What all lanes of a load have in common, a vector of positions from there of which some
        are gathered values, and the letter of its integers: n of 64 bits of which 32 would do.

        None where nothing is gathered from lane to lane, or a quotient follows the lanes.
        """
        var = self.at.vector
        inside = {a: k for a, k in f.terms.items() if isinstance(a, Gathered)
                  and self.is_vector(a.value)}
        base = Form(f.const, {a: k for a, k in f.terms.items() if a not in inside})
        step = self.lanes.coefficient(base, var)
        if not inside or step is None:
            return None
        near = self._near(inside, step)
        letter = "i" if near and any(a.value.dtype is not i64 for a in inside) else "l"
        kind = self.dialect.scalar[letter]
        first = f" + {self.form(base, copy)}" if base.terms or base.const != 0 else ""
        terms = [f"v{letter}_iota() * ({kind}){dim(step)}"] if step != 0 else []
        for a, k in inside.items():
            text = self._clamped(a, letter, copy)
            terms.append(text if k == 1 else f"{text} * ({kind}){dim(k)}")
        return first, f"({' + '.join(terms)})", "n" if near and letter == "l" else letter

    def _near(self, inside: Mapping[Gathered, Dim], step: Dim) -> bool:
        """Whether lanes that are read lie within 32 bits of what they have in common. Others, whose
        values a guard finds outside of their axis, may be anywhere."""
        reach: Dim = self.dialect.width * (abs(step) if isinstance(step, int) else 2 ** 31)
        for a, k in inside.items():
            reach = reach + a.extent * (abs(k) if isinstance(k, int) else 2 ** 31)
        bound = upper_bound(reach)
        return bound is not None and bound < 2 ** 31

    def _clamped(self, a: Gathered, letter: str, copy: int) -> str:
        """A vector of gathered values inside of their axis."""
        of, text = REGISTER[a.value.dtype.name], self.ref(a.value, copy)
        if of not in "il":
            of, text = "i", f"v{of}_to_i({text})"
        if a.clamped:
            text = f"v{of}_clamp({text}, {dim(a.extent)})"
        return text if of == letter else f"v{of}_to_{letter}({text})"
