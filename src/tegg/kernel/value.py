"""Values: what a kernel computes per iteration, hash-consed with the loop variables they need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tegg.bits import bits_of
from tegg.dim import Dim, hint
from tegg.dtype import DType, bool_, widens
from tegg.errors import LoweringError
from tegg.kernel.index import Algebra, Form, Guard, Var, variable
from tegg.ir.op import OPS

# Scalar operations of values that are no op of the table.
_OWN = 8.0  # of an op that a third party brings: dear, so that it is not computed again
_COST = {"load": 1.0, "const": 0.0, "size": 0.0, "index": 0.5, "cond": 1.0}
_JOIN = {"sum": 1.0, "max": 1.0, "prod": 1.0, "logadd": 40.0}  # of a reduction or scan


Kind = Literal["sum", "max", "prod", "logadd"]


@dataclass(frozen=True, slots=True)
class Load:
    """An element of a buffer; 0 without touching memory where a guard fails."""

    slot: int
    form: Form
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduction:
    """A sum or maximum over all values of variables, which it binds.

    parts: of how many partial results it may be made, where few results would leave threads idle.
    part: a free variable; only that part of ``part.extent`` equal ones of ``split`` is summed.
    only: terms count where it holds, which says how many values of one of the variables do.
    """

    kind: Kind
    vars: tuple[Var, ...]
    parts: int = 1
    part: Var | None = None
    only: Guard | None = None

    @property
    def split(self) -> Var | None:
        """The variable whose range is cut into parts: the longest, the outer one of equals."""
        return max(self.vars, key=lambda v: hint(v.extent)) if self.part is not None else None

    def trips(self) -> int:
        """How many terms there are, at the hints of symbolic sizes."""
        n = counted(math.prod(hint(v.extent) for v in self.vars), self.only)
        return n if self.part is None else max(1, n // hint(self.part.extent))


def counted(n: int, only: Guard | None) -> int:
    """Of so many iterations those in which a guard of one variable holds."""
    if only is None:
        return n
    (v,) = only.form.vars()
    return n // hint(v.extent) * (hint(only.high) - hint(only.low) + 1)


@dataclass(frozen=True, slots=True)
class Scan:
    """A sum, maximum or product over all values so far of variables, the innermost loops.

    form: the position in the result. It keeps the value inside of all its loops.
    """

    kind: Kind
    vars: tuple[Var, ...]
    form: Form


@dataclass(frozen=True, slots=True, eq=False)
class Val:
    """One value. ``op`` is ``load const size index cond red scan`` or the name of an elementwise
    op.

    attr: Load, the bits of a constant, a Dim, a Form, a tuple of Guards, a Reduction, a Scan, or
      None. A Scan takes its term, and what it starts from where that is not the identity.
    args: operands, gathered indices inside ``attr`` included; their ids are smaller.
    deps: the free loop variables.
    """

    op: str
    args: tuple[Val, ...]
    dtype: DType
    attr: Any
    deps: frozenset[Var]
    id: int

    @property
    def cost(self) -> float:
        """Scalar operations of one evaluation, its operands not counted."""
        if isinstance(self.attr, (Reduction, Scan)):
            return _JOIN[self.attr.kind]
        known = _COST.get(self.op)
        if known is None:
            known = OPS[self.op].cost if self.op in OPS else _OWN
        return known

    def forms(self) -> tuple[Form, ...]:
        """The index expressions inside."""
        if isinstance(self.attr, Load):
            return (self.attr.form, *(g.form for g in self.attr.guards))
        if self.op == "cond":
            return tuple(g.form for g in self.attr)
        if isinstance(self.attr, Scan):
            return (self.attr.form,)
        return (self.attr,) if self.op == "index" else ()

    def __repr__(self) -> str:
        return f"v{self.id}:{self.op}"


def reachable(roots: Iterable[Val]) -> list[Val]:
    """The roots and all they are computed from, operands first."""
    todo, seen = list(roots), {}
    while todo:
        v = todo.pop()
        if v.id not in seen:
            seen[v.id] = v
            todo.extend(v.args)
    return [seen[i] for i in sorted(seen)]


def holds(v: Val, d: DType) -> bool:
    """Whether a value is a number of a dtype, whatever its own: one of it made wider, or 0."""
    if v.op == "Select":
        return all(holds(a, d) for a in v.args[1:])
    if v.op == "Cast":  # to it, which rounds, or to what is wider
        return v.dtype is d or (widens(d, v.dtype) and holds(v.args[0], d))
    if v.op == "const":
        return v.attr == bits_of(0, v.dtype)
    return v.op == "load" and v.dtype is d


@dataclass(slots=True)
class Values:
    """The table of hash-consed values. Raises LoweringError above ``limit`` values."""

    algebra: Algebra
    limit: int = 20_000
    _table: dict[tuple, Val] = field(default_factory=dict)

    def make(self, op: str, args: tuple[Val, ...], dtype: DType, attr: Any = None) -> Val:
        """The value of an op; for loads, indices and conditions the operands are found here."""
        key = (op, tuple(a.id for a in args), dtype.name, attr)
        v = self._table.get(key)
        if v is not None:
            return v
        if len(self._table) >= self.limit:
            raise LoweringError(f"the fragment needs more than {self.limit} distinct values per "
                                f"iteration; store an inner value and lower the parts")
        deps: frozenset[Var] = frozenset().union(*(a.deps for a in args))
        v = Val(op, args, dtype, attr, deps, len(self._table))
        if op in ("load", "index", "cond"):
            forms = v.forms()
            args = tuple(dict.fromkeys(x for f in forms for x in f.gathered()))
            deps = frozenset().union(*(f.vars() for f in forms))
            v = Val(op, args, dtype, attr, deps, v.id)
        elif isinstance(attr, Reduction):
            part = () if attr.part is None else (attr.part,)
            v = Val(op, args, dtype, attr, deps - frozenset(attr.vars) | frozenset(part), v.id)
        elif isinstance(attr, Scan):
            v = Val(op, args, dtype, attr, deps | attr.form.vars(), v.id)
        self._table[key] = v
        return v

    def const(self, value: float, dtype: DType) -> Val:
        return self.make("const", (), dtype, bits_of(value, dtype))

    def load(self, slot: int, dtype: DType, form: Form, guards: tuple[Guard, ...] = ()) -> Val:
        return self.make("load", (), dtype, Load(slot, form, guards))

    def index(self, form: Form, dtype: DType) -> Val:
        return self.make("index", (), dtype, form)

    def cond(self, guards: tuple[Guard, ...]) -> Val:
        return self.make("cond", (), bool_, guards)

    def size(self, dim: Dim, dtype: DType) -> Val:
        return self.const(dim, dtype) if isinstance(dim, int) else self.make("size", (), dtype, dim)

    def reduce(self, kind: Kind, vars: tuple[Var, ...], body: Val, dtype: DType,
               parts: int = 1, part: Var | None = None) -> Val:
        return (self.make("red", (body,), dtype, Reduction(kind, vars, parts, part)) if vars
                else body)

    def scan(self, kind: Kind, vars: tuple[Var, ...], form: Form, *args: Val) -> Val:
        return self.make("scan", args, args[0].dtype, Scan(kind, vars, form))

    # ---- substitution
    def substitute(self, root: Val, by: Mapping[Var, Form],
                   memo: dict[int, Val] | None = None) -> Val:
        """The value with free loop variables replaced. Bound variables are left alone."""
        memo = {} if memo is None else memo
        moved = frozenset(by)
        for v in self._inside(root, moved, memo):
            memo[v.id] = self._substituted(v, by, memo)
        return memo.get(root.id, root)

    def _inside(self, root: Val, moved: frozenset[Var], memo: Mapping[int, Val]) -> list[Val]:
        """Values that change, operands first, without entering reductions that bind a variable."""
        todo, found = [root], {}
        while todo:
            v = todo.pop()
            if v.id in found or v.id in memo or not v.deps & moved:
                continue
            found[v.id] = v
            if not (isinstance(v.attr, Reduction) and moved & set(v.attr.vars)):
                todo.extend(v.args)
        return [found[i] for i in sorted(found)]

    def _substituted(self, v: Val, by: Mapping[Var, Form], memo: dict[int, Val]) -> Val:
        if isinstance(v.attr, Reduction):
            return self._reduction(v, by, memo)

        def form(f: Form) -> Form:
            return self.algebra.substitute(f, by, lambda x: memo.get(x.id, x))

        def guards(gs: tuple[Guard, ...]) -> tuple[Guard, ...]:
            return tuple(Guard(form(g.form), g.low, g.high) for g in gs)

        attr = v.attr
        if isinstance(attr, Load):
            attr = Load(attr.slot, form(attr.form), guards(attr.guards))
        elif v.op == "cond":
            attr = guards(attr)
        elif v.op == "index":
            attr = form(attr)
        elif isinstance(attr, Scan):
            attr = Scan(attr.kind, attr.vars, form(attr.form))
        args = () if v.op in ("load", "index", "cond") else tuple(
            memo.get(a.id, a) for a in v.args)
        return self.make(v.op, args, v.dtype, attr)

    def _reduction(self, v: Val, by: Mapping[Var, Form], memo: dict[int, Val]) -> Val:
        """A bound variable shadows the map; one that would capture a new free one is renamed."""
        bound = v.attr.vars
        entering = frozenset().union(*(f.vars() for x, f in by.items() if x in v.deps))
        inner = {x: f for x, f in by.items() if x not in bound}
        renamed: dict[Var, Var] = {}
        for x in bound:
            if x in entering:
                taken = entering | set(bound) | v.args[0].deps | set(renamed.values())
                renamed[x] = next(w for k in range(len(taken) + 1)
                                  if (w := Var(x.extent, k)) not in taken)
        if not renamed and len(inner) == len(by):
            body = memo.get(v.args[0].id, v.args[0])
        else:
            inner.update({x: variable(w) for x, w in renamed.items()})
            body = self.substitute(v.args[0], inner)
        vars = tuple(renamed.get(x, x) for x in bound)
        only = v.attr.only
        if renamed and only is not None:
            only = replace(only, form=self.algebra.substitute(
                only.form, {x: variable(w) for x, w in renamed.items()}))
        # a sum over no variable stays one: it marks the product of a contraction of depth 1
        return self.make("red", (body,), v.dtype, replace(v.attr, vars=vars, only=only))

    def exchange(self, root: Val, memo: dict[int, Val]) -> Val:
        """The value with others in place of those whose ids ``memo`` holds (and comes to hold)."""
        for v in reachable([root]):
            if v.id not in memo and any(memo.get(a.id, a) is not a for a in v.args):
                memo[v.id] = self._exchanged(v, memo)
        return memo.get(root.id, root)

    def _exchanged(self, v: Val, memo: dict[int, Val]) -> Val:
        if v.op in ("load", "index", "cond"):
            return self._substituted(v, {}, memo)
        return self.make(v.op, tuple(memo.get(a.id, a) for a in v.args), v.dtype, v.attr)
