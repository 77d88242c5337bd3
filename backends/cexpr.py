"""Expressions of C-family source: indices, loads, constants and operations, scalar or by lanes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tegg.bits import value_of
from tegg.dim import Dim, Poly, upper_bound
from tegg.dtype import DType
from tegg.kernel.index import Algebra, Form, Gathered, Guard, Quotient, Var
from tegg.kernel.lane import Lanes
from tegg.kernel.loops import Array
from tegg.kernel.value import Val

# How each dtype lives in a register: one letter names its scalar and vector types and functions.
REGISTER = {"f32": "f", "f64": "d", "f16": "f", "bf16": "f", "i32": "i", "i64": "l", "u8": "u",
            "i8": "c", "bool": "b"}
# How each dtype lives in memory: the prefix of its load and store functions.
MEMORY = {"f32": "f", "f64": "d", "f16": "h", "bf16": "g", "i32": "i", "i64": "l", "u8": "u",
          "i8": "c", "bool": "b"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The spellings in which C-family languages differ.

    width: lanes of a vector. scalar, vector: register letter -> type. memory: memory letter ->
    type of an element. ops: ``(op name, class) -> template`` with ``{0}`` .. for operands,
    ``{v}`` for the prefix of functions, ``{m}`` for that of vector mathematics, ``{f}`` for the
    suffix of float literals; the class is ``float``, ``int`` or ``bool``. gathers: the memory
    letters of which a vector can be read from positions in vectors; nears: those of which positions
    that lie near each other are read sooner. pairs: those of which two vectors are stored at once.
    index: the type of what counts.
    """

    width: int
    scalar: Mapping[str, str]
    vector: Mapping[str, str]
    memory: Mapping[str, str]
    ops: Mapping[tuple[str, str], str]
    gathers: frozenset[str] = frozenset()
    nears: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    index: str = "int64_t"

    @property
    def native(self) -> frozenset[str]:
        """Named ops that need no expansion."""
        return frozenset(name for name, _ in self.ops)


@dataclass(slots=True)
class Context:
    """Where printing stands: the vector loop, if any, and names given from outside. ``further``:
    those of a value's further copies, by value and copy, where they have names of their own."""

    vector: Var | None = None
    copies: int = 1               # vectors that are printed side by side
    masked: bool = False          # the last of them ends short
    given: Mapping[int, str] = field(default_factory=dict)
    further: Mapping[tuple[int, int], str] = field(default_factory=dict)


def number(x: int) -> str:
    """An integer literal. Its type is as wide as its digits need, in every dialect."""
    if x == -2 ** 63:
        return "(-9223372036854775807 - 1)"
    return f"{x}" if x >= 0 else f"({x})"


def dim(x: Dim) -> str:
    """A dim as an expression over the sizes ``S_name``."""
    if not isinstance(x, Poly):
        return number(x)
    terms = []
    for m, c in sorted(x.terms.items(), key=lambda t: (-len(t[0]), t[0])):
        parts = [f"S_{s.name}" for s in m]
        terms.append(" * ".join(parts + ([number(c)] if c != 1 or not m else [])))
    return terms[0] if len(terms) == 1 and "*" not in terms[0] else f"({' + '.join(terms)})"


def constant(bits: int, dtype: DType) -> str:
    """A literal that reads back to exactly the value in its dtype."""
    value = value_of(bits, dtype)
    if dtype.kind == "bool":
        return str(int(value))
    if dtype.kind == "int":
        wrapped = int(np.array(value, np.int64).astype(dtype.numpy))
        return number(wrapped)
    with np.errstate(over="ignore"):
        x = float(dtype.numpy.type(value))
    suffix = "" if dtype.name == "f64" else "f"
    if math.isnan(x):
        return f"__builtin_nan{suffix}(\"\")"
    if math.isinf(x):
        return f"{'-' if x < 0 else ''}__builtin_inf{suffix}()"
    text = repr(x if dtype.name == "f64" else _shortest(x))
    text += "" if any(c in text for c in ".e") else ".0"
    return f"({text}{suffix})" if text.startswith("-") else text + suffix


def _shortest(x: float) -> float:
    """The number of fewest digits that is a float32's as one. NumPy would print it too, and keep
    46 KB for that in each thread."""
    return next(y for digits in range(1, 10)
                if ctypes.c_float(y := float(f"{x:.{digits}g}")).value == x)


class Expressions:
    """Prints values. Loop variables are named by the caller through ``names``."""

    def __init__(self, dialect: Dialect, algebra: Algebra) -> None:
        self.dialect = dialect
        self.algebra = algebra
        self.lanes = Lanes(algebra, dialect.width)
        self.names: dict[Var, str] = {}
        self.scopes: list[set[int]] = [set()]  # the values that have a name, by open brace
        self.at = Context()

    # ---- names
    def name(self, v: Var) -> str:
        return self.names.setdefault(v, f"i{len(self.names)}")

    def is_vector(self, v: Val) -> bool:
        """Whether a value has lanes where printing stands."""
        return self.at.vector is not None and self.at.vector in v.deps

    def ref(self, v: Val, copy: int = 0, lanes: bool = False) -> str:
        """A value that is known here; ``lanes`` spreads a scalar over a vector."""
        text = self.at.given.get(v.id)
        if text is None and self.is_vector(v):
            return f"v{v.id}_{copy}"
        if text is not None and self.is_vector(v):
            return self.at.further.get((v.id, copy), text)
        if text is None:
            text = constant(v.attr, v.dtype) if v.op == "const" else f"v{v.id}"
        return f"v{REGISTER[v.dtype.name]}_splat({text})" if lanes else text

    # ---- indices
    def form(self, f: Form, copy: int = 0, lane: int = 0) -> str:
        """An index, at one lane of one copy of the vector loop."""
        terms = []
        for atom, k in f.terms.items():
            text = self._atom(atom, copy, lane)
            terms.append(text if k == 1 else f"{text} * {dim(k)}")
        if f.const != 0 or not terms:
            terms.append(dim(f.const))
        return terms[0] if len(terms) == 1 and " " not in terms[0] else f"({' + '.join(terms)})"

    def _atom(self, atom: object, copy: int, lane: int) -> str:
        if isinstance(atom, Var):
            offset = self.dialect.width * copy + lane if atom == self.at.vector else 0
            return f"({self.name(atom)} + {offset})" if offset else self.name(atom)
        if isinstance(atom, Gathered):
            text = self.ref(atom.value, copy)
            if self.is_vector(atom.value):
                text = f"{text}[{lane}]"
            return (f"clamp_index({text}, {dim(atom.extent)})" if atom.clamped
                    else f"(int64_t){text}")
        inner = self.form(atom.form, copy, lane)
        low = self.algebra.range(atom.form)[0]
        floor = low is None or not self.algebra.facts.nonnegative(low)
        by = dim(atom.divisor)
        if not self.algebra.facts.nonnegative(atom.divisor - 1):
            by = f"nonzero({by})"  # its loop may be empty, and the quotient hoisted out of it
        if floor:
            return f"{'floor_div' if isinstance(atom, Quotient) else 'floor_mod'}({inner}, {by})"
        return f"({inner} {'/' if isinstance(atom, Quotient) else '%'} {by})"

    def condition(self, guards: tuple[Guard, ...], copy: int = 0, lane: int = 0) -> str:
        """The conjunction of guards at one lane; what is proven is not tested."""
        tests = []
        for g in guards:
            text, (low, high) = self.form(g.form, copy, lane), self.algebra.range(g.form)
            if low is None or not self.algebra.facts.nonnegative(low - g.low):
                tests.append(f"{text} >= {dim(g.low)}")
            if high is None or not self.algebra.facts.nonnegative(g.high - high):
                tests.append(f"{text} <= {dim(g.high)}")
        return f"({' && '.join(tests)})" if tests else "1"

    def tail(self, copy: int) -> bool:
        """Whether a vector ends short."""
        return self.at.masked and copy == self.at.copies - 1

    def _in_lanes(self, lane: int) -> str:
        """Whether a lane of the vector that ends short exists."""
        return f"{lane} < left"

    def each(self, v: DType, text: object) -> str:
        """A vector from an expression per lane."""
        kind = self.dialect.vector[REGISTER[v.name]]
        return f"({kind}){{{', '.join(text(k) for k in range(self.dialect.width))}}}"

    # ---- values
    def multiply_add(self, product: Val, term: str, copy: int, lanes: bool) -> str:
        """A product and a sum, rounded once where the machine can."""
        a, b = (self.ref(x, copy, lanes) for x in product.args)
        return f"{'v' if lanes else 's'}{REGISTER[product.dtype.name]}_fma({a}, {b}, {term})"

    def value(self, v: Val, copy: int = 0, fused: Val | None = None,
              stored: bool = False) -> str:
        """The expression that computes a value from its operands; loads are said elsewhere.
        fused, stored: as a Let has them."""
        lanes = self.is_vector(v)
        if fused is not None:
            term = next(a for a in v.args if a is not fused)
            return self.multiply_add(fused, self.ref(term, copy, lanes), copy, lanes)
        if v.op == "index":
            return self._vector_index(v, copy) if lanes else self._cast_scalar(
                self.form(v.attr), v.dtype)
        if v.op == "cond":
            return self._vector_condition(v.attr, copy) if lanes else self.condition(v.attr)
        if v.op == "size":
            return self._cast_scalar(dim(v.attr), v.dtype)
        args = [self.ref(a, copy, lanes) for a in v.args]
        if v.op == "Cast":
            return self.cast(args[0], v.args[0].dtype, v.dtype, lanes, stored)
        return self.operation(v, args, lanes)

    def operation(self, v: Val, args: list[str], lanes: bool) -> str:
        """An elementwise op by its template; the class is that of the operands."""
        of = v.args[-1].dtype
        kind = "float" if of.is_float else of.kind
        letter = REGISTER[of.name]
        prefix = f"v{letter}_" if lanes else f"s{letter}_"
        maths = prefix.replace("f", "")  # float32 functions carry no letter
        suffix = "" if of.name == "f64" else "f"
        text = self.dialect.ops[(v.op, kind)].format(*args, v=prefix, m=maths, f=suffix)
        if v.dtype.kind == "bool" and kind != "bool" and v.op != "Select":
            return f"{prefix}test({text})"
        if not lanes and kind == "int" and of.itemsize == 1:
            return f"({self.dialect.scalar[letter]}){text}"  # C computes small integers in int
        return text

    def _cast_scalar(self, text: str, d: DType) -> str:
        if d.kind == "bool":
            return f"({text} != 0)"
        return f"({self.dialect.scalar[REGISTER[d.name]]}){text}"

    def cast(self, x: str, source: DType, to: DType, lanes: bool, stored: bool = False) -> str:
        """A conversion; to a half it rounds, unless a store will, and stays float32 in its
        register."""
        a, b = REGISTER[source.name], REGISTER[to.name]
        prefix = "v" if lanes else "s"
        if to.kind == "bool":
            return x if a == "b" else f"{prefix}{a}_test({x} != 0)"
        out = x if a == b else f"{prefix}{a}_to_{b}({x})"
        if to.is_float and to.itemsize == 2 and source is not to and not stored:
            return f"{prefix}{MEMORY[to.name]}_round({out})"
        return out

    # ---- vectors of indices and conditions
    def _fits(self, f: Form, reach: Dim) -> bool:
        """Whether a form stays inside 32 bits, a vector further included."""
        low, high = self.algebra.range(f)
        if low is None or high is None:
            return False
        low, high = upper_bound(-1 * low), upper_bound(high)
        margin = abs(reach) * self.dialect.width * 4 if isinstance(reach, int) else 2 ** 31
        return (low is not None and high is not None and low + margin < 2 ** 31
                and high + margin < 2 ** 31)

    def _vector_form(self, f: Form, copy: int) -> tuple[str, str]:
        """A vector of index values, with the register letter of its integers."""
        k = self.lanes.coefficient(f, self.at.vector)
        if k is None:
            lanes = (self.form(f, copy, i) for i in range(self.dialect.width))
            return f"({self.dialect.vector['l']}){{{', '.join(lanes)}}}", "l"
        letter = "i" if self._fits(f, k) else "l"
        kind = self.dialect.scalar[letter]
        base = f"v{letter}_splat(({kind}){self.form(f, copy)})"
        return f"({base} + v{letter}_iota() * ({kind}){dim(k)})", letter

    def _vector_index(self, v: Val, copy: int) -> str:
        text, letter = self._vector_form(v.attr, copy)
        to = REGISTER[v.dtype.name]
        if to == "b":
            return f"v{letter}_test({text} != 0)"
        text = text if to == letter else f"v{letter}_to_{to}({text})"
        half = v.dtype.is_float and v.dtype.itemsize == 2
        return f"v{MEMORY[v.dtype.name]}_round({text})" if half else text

    def _vector_condition(self, guards: tuple[Guard, ...], copy: int) -> str:
        tests = []
        for g in guards:
            k = self.lanes.coefficient(g.form, self.at.vector)
            if k == 0:
                tests.append(f"vb_splat({self.condition((g,), copy)})")
            elif k in (1, -1):
                at, (low, high) = self.form(g.form, copy), (g.low, g.high)
                ends = ((f"{dim(low)} - {at}", f"{dim(high)} - {at}") if k == 1 else
                        (f"{at} - {dim(high)}", f"{at} - {dim(low)}"))
                tests.append(f"lane_range({ends[0]}, {ends[1]})")
            else:
                text, letter = self._vector_form(g.form, copy)
                kind = self.dialect.scalar[letter]
                tests.append(f"v{letter}_test(({text} >= ({kind}){dim(g.low)}) & "
                             f"({text} <= ({kind}){dim(g.high)}))")
        return f"({' & '.join(tests)})" if len(tests) > 1 else tests[0]

    # ---- scratch
    def element(self, a: Array) -> Form:
        """The position in a scratch array at the open loops."""
        if a.strip is not None:
            return Form(0, {a.vars[0]: 1, a.strip.var: -1})
        return self.algebra.flatten(
            tuple(Form(0, {v: 1}) for v in a.vars), tuple(v.extent for v in a.vars))
