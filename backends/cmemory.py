"""What C-family source says of memory: scratch arrays, squares that are turned, stores."""

from __future__ import annotations

from contextlib import contextmanager

from tegg.backends.cexpr import MEMORY, REGISTER, Dialect, dim
from tegg.backends.cload import Loads
from tegg.dtype import DType
from tegg.kernel.domain import Write
from tegg.kernel.index import Algebra, Form, variable
from tegg.kernel.loops import Ahead, Array, Comes, Keep, Loop, Past, Store, Turn, Weave
from tegg.kernel.value import Val

_LINE = 64  # bytes that move between caches together


class Memory(Loads):
    """Prints definitions, and what is moved between registers and memory, into lines."""

    def __init__(self, dialect: Dialect, algebra: Algebra) -> None:
        super().__init__(dialect, algebra)
        self.lines: list[str] = []
        self.depth = 1
        self.decided: dict[int, str] = {}  # what depends on the caches -> the answer's name

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def braces(self, head: str):
        """A block ``head { ... }``."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        self.scopes.append(set())
        yield
        self.scopes.pop()
        self.depth -= 1
        self.line("}")

    # ---- values
    def _type(self, d: DType, lanes: bool) -> str:
        return (self.dialect.vector if lanes else self.dialect.scalar)[REGISTER[d.name]]

    def _copies_of(self, v: Val) -> range:
        return range(self.at.copies if self.is_vector(v) else 1)

    def _define(self, v: Val, text) -> None:
        lanes = self.is_vector(v)
        self.scopes[-1].add(v.id)
        for u in self._copies_of(v):
            name = f"v{v.id}_{u}" if lanes else f"v{v.id}"
            self.line(f"const {self._type(v.dtype, lanes)} {name} = {text(u)};")

    # ---- scratch
    def _address(self, a: Array, copy: int, lane: int = 0) -> str:
        at = self.element(a)
        if a.block > 1:
            return f"t{a.number} + {self.form(at)} * {a.block} + {self.dialect.width * copy + lane}"
        return f"t{a.number} + {self.form(at, copy, lane)}"

    def _whole(self, a: Array, copy: int) -> bool:
        """Whether a vector of a scratch array may be moved whole, one that ends short too."""
        return a.block > 1 or not self.tail(copy) or len(a.vars) == 1

    def _unit(self, a: Array) -> bool:
        return a.block > 1 or self.lanes.coefficient(self.element(a), self.at.vector) == 1

    def _fetch(self, v: Val, a: Array, copy: int) -> str:
        letter = REGISTER[a.dtype.name]
        if not self.is_vector(v):
            return f"s{letter}_load({self._address(a, 0)})"
        if self._unit(a):
            if self._whole(a, copy):
                return f"v{letter}_load({self._address(a, copy)})"
            return f"v{letter}_loadm({self._address(a, copy)}, mask)"
        sign = "-" if letter == "b" else ""

        def lane(i: int) -> str:
            text = f"{sign}s{letter}_load({self._address(a, copy, i)})"
            return f"{self._in_lanes(i)} ? {text} : 0" if self.tail(copy) else text

        return self.each(v.dtype, lane)

    def _keep(self, s: Keep) -> None:
        v, a = s.value, s.array
        letter = REGISTER[a.dtype.name]
        if not self.is_vector(v):
            self.line(f"s{letter}_store({self._address(a, 0)}, {self.ref(v)});")
            return
        for u in range(self.at.copies):
            if self._unit(a):
                self._put(letter, self._address(a, u), self.ref(v, u), not self._whole(a, u))
            else:
                self._scatter(letter, v, u, lambda i, u=u: self._address(a, u, i), [])

    def _turn(self, s: Turn) -> None:
        """The squares of a strip, as many as there are. What lies backwards is read from its last
        element on, and put in scratch from the last row on."""
        load, array, width = s.value.attr, s.array, self.dialect.width
        assert array.strip is not None and self.at.vector is not None
        first, n = variable(array.strip.var), dim(s.along.extent)
        stride = self.lanes.coefficient(load.form, self.at.vector)
        backwards = self.lanes.coefficient(load.form, s.along) == -1
        for u in range(self.at.copies):  # of each row what lies in one line, one after the other
            for done in range(0, array.strip.length, width):
                at = first + done
                there = f"{n} - {self.form(at)}"
                test = f"if ({self.form(at)} < {n}) " if done else ""
                source = self.form(self.algebra.substitute(load.form, {s.along: at}), u)
                to, pitch = f"{done * array.block + u * width}", f"{array.block}"
                if backwards:
                    last = f"(({there} < {width} ? {there} : {width}) - 1)"
                    to, pitch = f"{to} + {last} * {pitch}", f"-{pitch}"
                    source = f"{source} - {last}"
                self.line(f"{test}v{MEMORY[s.value.dtype.name]}_turn("
                          f"t{array.number} + {to}, {pitch}, b{load.slot} + {source}, "
                          f"{dim(stride)}, {there}, {'left' if self.tail(u) else width});")

    def _weave(self, s: Weave) -> None:
        """Vectors of scratch, element by element of each in turn."""
        w, width = s.write, self.dialect.width
        form = self.algebra.substitute(w.form, {s.inside: Form(0)})
        for u in range(self.at.copies):
            self.line(f"v{MEMORY[w.value.dtype.name]}_weave(b{w.slot} + {self.form(form, u)}, "
                      f"t{s.array.number} + {u * width}, {s.array.block}, {s.inside.extent}, "
                      f"{'left' if self.tail(u) else width});")

    # ---- stores
    def _put(self, letter: str, address: str, value: str, masked: bool) -> None:
        self.line(f"v{letter}_storem({address}, {value}, mask);" if masked else
                  f"v{letter}_store({address}, {value});")

    def _scatter(self, letter: str, v: Val, copy: int, address, guards) -> None:
        """A vector stored lane by lane."""
        lane_of = "[{}] != 0" if letter == "b" else "[{}]"
        for i in range(self.dialect.width):
            tests = [self._in_lanes(i)] if self.tail(copy) else []
            tests += [self.condition(guards, copy, i)] if guards else []
            test = f"if ({' && '.join(tests)}) " if tests else ""
            value = self.ref(v, copy, True) + lane_of.format(i)
            self.line(f"{test}s{letter}_store({address(i)}, {value});")

    def _store(self, s: Store) -> None:
        """A write at its place; with lanes where its address or its value has them."""
        w = s.write
        letter, var = MEMORY[w.value.dtype.name], self.at.vector
        lanes = var is not None and any(var in f.vars() for f in w.forms())
        if not lanes:
            self._scalar_store(w, letter, s.asked)
            return
        k = self.lanes.coefficient(w.form, var)
        plain = all(var not in g.form.vars() for g in w.guards)
        for u in range(self.at.copies):
            if k == 1 and plain and (w.mode == "store" or not self.tail(u)):
                if not self._second(s, letter, u):
                    self._vector_store(s, letter, u)
            else:
                self._lane_stores(w, letter, u)

    def _paired(self, s: Store, letter: str, copy: int) -> bool:
        """Whether a vector and the next one, both whole, are stored at once."""
        return (letter in self.dialect.pairs and s.write.mode == "store" and copy % 2 == 0
                and copy + 1 < self.at.copies and not self.tail(copy + 1))

    def _second(self, s: Store, letter: str, copy: int) -> bool:
        """Whether a vector was stored with the one before it."""
        return copy % 2 == 1 and self._paired(s, letter, copy - 1)

    def _vector_store(self, s: Store, letter: str, copy: int) -> None:
        """A vector that lies along memory, or two of them."""
        w = s.write
        address = f"b{w.slot} + {self.form(w.form, copy)}"
        value, pair = self._combined(w, letter, address, copy), ""
        if self._paired(s, letter, copy):
            value, pair = f"{value}, {self.ref(w.value, copy + 1, True)}", "_pair"
        test = f"if ({self.condition(w.guards, copy)}) " if w.guards else ""
        if self.tail(copy):
            self.line(f"{test}v{letter}_storem({address}, {value}, mask);")
        elif s.past:
            past = self.decided.get(id(s)) or _past(s.past, w.slot, self.form(w.form))
            self.line(f"v{letter}_stream{pair}({address}, {value}, {past});")
        else:
            self.line(f"{test}v{letter}_store{pair}({address}, {value});")

    def _combined(self, w: Write, letter: str, address: str, copy: int) -> str:
        value = self.ref(w.value, copy, True)
        if w.mode == "store":
            return value
        mode = f"v{REGISTER[w.value.dtype.name]}_{self._mode(w)}"
        return f"{mode}(v{letter}_load({address}), {value})"

    @staticmethod
    def _mode(w: Write) -> str:
        return "or" if w.value.dtype.kind == "bool" else w.mode

    def _lane_stores(self, w: Write, letter: str, copy: int) -> None:
        if w.mode == "store":
            self._scatter(letter, w.value, copy,
                          lambda i: f"b{w.slot} + {self.form(w.form, copy, i)}", w.guards)
            return
        lane_of = "[{}] != 0" if letter == "b" else "[{}]"
        for i in range(self.dialect.width):
            tests = [self._in_lanes(i)] if self.tail(copy) else []
            tests += [self.condition(w.guards, copy, i)] if w.guards else []
            address = f"b{w.slot} + {self.form(w.form, copy, i)}"
            value = self.ref(w.value, copy, True) + lane_of.format(i)
            self._update(w, letter, address, value, tests)

    def _update(self, w: Write, letter: str, address: str, value: str, tests: list[str]) -> None:
        test = f"if ({' && '.join(tests)}) " if tests else ""
        if w.mode != "store":
            value = (f"s{REGISTER[w.value.dtype.name]}_{self._mode(w)}(s{letter}_load({address}), "
                     f"{value})")
        self.line(f"{test}s{letter}_store({address}, {value});")

    def _scalar_store(self, w: Write, letter: str, asked: bool) -> None:
        tests = [self.condition(w.guards)] if w.guards else []
        address = f"b{w.slot} + {self.form(w.form)}"
        if asked:
            self._ask(address, f"if ({tests[0]}) " if tests else "")
        self._update(w, letter, address, self.ref(w.value), tests)

    def _ask(self, address: str, test: str) -> None:
        """Ask for a place that is written next."""
        self.line(f"{test}fetch_write({address});")

    def _decide(self, row: Loop) -> None:
        """What goes past the caches, before a loop along a row: whether the row's lines are whole
        is seen where it begins."""
        for s in row.body:
            if isinstance(s, Store) and s.past is not None and s.past.comes is not Comes.TURNED:
                at = self.form(s.write.form + variable(row.var) * -1)
                self._name(s, "past", _past(s.past, s.write.slot, at))
            elif isinstance(s, Ahead) and s.past is not None:
                self._name(s, "near", "!" + _past(s.past, s.slot, "0"))

    def _name(self, s: Store | Ahead, word: str, test: str) -> None:
        name = self.decided[id(s)] = f"{word}{len(self.decided)}"
        self.line(f"const int {name} = {test};")

    def _ahead(self, s: Ahead) -> None:
        """One request a line."""
        elements = self.at.copies * self.dialect.width if self.at.vector is not None else 1
        line = max(1, _LINE // s.dtype.itemsize)
        asked = [f"fetch_{s.use}(b{s.slot} + {self.form(s.form + at)});"
                 for at in range(0, elements, line)]
        if id(s) in self.decided:
            with self.braces(f"if ({self.decided[id(s)]})"):
                self.lines += ["  " * self.depth + line for line in asked]
        else:
            self.lines += ["  " * self.depth + line for line in asked]


def _past(p: Past, slot: int, at: str) -> str:
    """Whether results go past the caches, and the first of them lie where a line begins."""
    return f"PAST_{p.comes.value}(b{slot} + {at}, {dim(p.bytes)})"
