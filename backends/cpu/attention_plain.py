"""Attention of plain operands: one text for all sizes and strides, given when the kernel is called.

What is read and written, in the dtype of sums or in fewer bits, lies at
``offset + stride * variable + ...``, so that operands in place inside larger arrays, heads in any
order, heads that share keys and broadcast masks are numbers. What stays in the text is what the
inner loops are made of: the depth of both products, along what memory is contiguous, and what is
computed between the products. A mask that lets row i see keys up to i + c, and none at all, are
the same text too: a bound, its constant and its strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tegg.dim import Dim, Poly, Symbol
from tegg.dtype import i64, widens
from tegg.ir.graph import Graph
from tegg.kernel.attention_classify import Attention
from tegg.kernel.attention_mask import Bound
from tegg.kernel.contraction_classify import AnchoredPropagation, Contraction, Group, Term
from tegg.kernel.domain import Write, spread
from tegg.kernel.index import Form, Var
from tegg.kernel.value import Load, Reduction, Val, reachable

_LEAST = -(1 << 40)  # of strides and offsets: views may run backwards
_FEW_KEYS = 64  # as many are one panel, or a narrower one
_NAMES = {"batch": ("items", "heads"), "rows": ("shared", "queries")}  # outermost first
_NUMBERS = {n: i for i, n in enumerate(("columns", "items", "heads", "shared", "queries", "keys",
                                       "depth"))}  # equal extents are told apart by them


@dataclass(frozen=True, slots=True)
class General:
    """An attention whose sizes are symbols, what they are, and which of the fragment's buffers
    each of its buffers is."""

    attention: Attention
    symbols: tuple[str, ...]
    given: tuple[Dim, ...]
    takes: tuple[int, ...]


def generalized(a: Attention, rows: int) -> General | None:
    """The attention with symbols for its sizes and strides; None where its operands are not plain.

    rows: of a block. Fewer rows than that, and few keys, stay in the text: their register tiles are
    made for them.
    """
    return _General(a, rows).result() if _is_plain(a) else None


def _is_plain(a: Attention) -> bool:
    """Whether operands are read where they lie, results stored as they are, and each side is as
    many loops as the text has."""
    first, second = a.first, a.second
    (keys,), (values,), (write, *more) = (first.groups[0].terms, second.groups[0].terms,
                                          second.writes)
    columns = second.groups[0].n
    if [len(first.k), len(second.k), len(columns), len(more)] != [1, 1, 1, 0] \
            or max(len(first.batch), len(first.m)) > 2:
        return False
    depth, column = first.k[0], columns[0]
    if not isinstance(depth.extent, int) or not isinstance(column.extent, int) \
            or not all(map(_is_load, (first.a, keys.b, values.b))):
        return False
    forms = [_load(first.a).form, _load(values.b).form, write.form]
    within = reachable([first.a, keys.b, values.b, a.scores, *(b.value for b in a.bounds)])
    return (all(f.coefficient(v) == 1 for f, v in zip(forms, (depth, column, column)))
            and values.sum in (write.value, *(write.value.args if _rounds(write.value) else ()))
            and not write.guards and write.mode == "store"
            and all(isinstance(x, Var) for x in write.form.terms)
            and all(map(_is_affine, within)))


def _is_load(v: Val) -> bool:
    """Whether a value is read as it is, or in a wider dtype."""
    return v.op == "load" or v.op == "Cast" and v.args[0].op == "load"


def _rounds(v: Val) -> bool:
    """Whether a value is another in fewer bits of float."""
    return v.op in ("Cast", "Held") and widens(v.dtype, v.args[0].dtype)


def _load(v: Val) -> Load:
    found: Load = (v if v.op == "load" else v.args[0]).attr
    return found


def _is_affine(v: Val) -> bool:
    """Whether a value reads memory, and its position, at sums of loop variables only."""
    if v.op in ("cond", "size") or v.op == "load" and v.attr.guards:
        return False
    return all(isinstance(x, Var) for f in v.forms() for x in f.terms)


@dataclass(slots=True)
class _General:
    """One attention being written anew.

    given: name of a symbol -> what it is. takes: the fragment's buffer that each new one is.
    vars: loop variables -> the new ones. lanes: new ones that vectors may follow.
    """

    source: Attention
    rows: int
    given: dict[str, Dim] = field(default_factory=dict)
    takes: list[int] = field(default_factory=list)
    vars: dict[Var, Var] = field(default_factory=dict)
    lanes: frozenset[Var] = frozenset()
    made: dict[int, Val] = field(default_factory=dict)  # id of a value -> the new one
    propagation: AnchoredPropagation = field(
        default_factory=lambda: AnchoredPropagation(Graph(), frozenset()))

    def result(self) -> General:
        a, first, second = self.source, self.source.first, self.source.second
        batch = self._side("batch", first.batch)
        m = self._side("rows", first.m)
        keys = self._variable("keys", second.k[0], self._extent(
            "keys", second.depth, second.depth, _FEW_KEYS))
        depth = self._variable("depth", first.k[0], first.k[0].extent)
        column = self._variable("columns", second.groups[0].n[0], second.groups[0].n[0].extent)
        self.lanes = frozenset((keys, depth, column))
        q = self._operand("q", first.a, (*batch, *m))
        k = self._operand("k", first.groups[0].terms[0].b, (*batch, keys))
        v = self._operand("v", second.groups[0].terms[0].b, (*batch, keys))
        product = self._sum(a.product, (q, k), 0, depth)
        weights = self.propagation.values.const(0, a.scores.dtype)
        total = self._sum(second.groups[0].terms[0].sum, (weights, v), 1, keys)
        self.made[a.product.id] = product
        scores = self._value(a.scores, batch, m)
        bounds = tuple(self._bounds((*batch, *m)))
        result, narrow = total, second.writes[0].value
        if narrow is not second.groups[0].terms[0].sum:
            result = self.propagation.values.make(narrow.op, (total,), narrow.dtype, narrow.attr)
        write = Write(self._slot(second.writes[0].slot), (*batch, *m, column),
                      self._form("out", second.writes[0].form, (*batch, *m)), result)
        general = Attention(
            Contraction(self.propagation, batch, m, (depth,), depth.extent,
                        (Group((), (Term(0, product, q, k),), (keys,)),)),
            Contraction(self.propagation, batch, m, (keys,), keys.extent, (Group(
                (write,), (Term(1, total, weights, v),), (column,)),)),
            scores, bounds, tuple(self.made[c.id] for c in a.columns))
        return General(general, tuple(self.given), tuple(self.given.values()), tuple(self.takes))

    # ---- sizes and variables
    def _symbol(self, name: str, value: Dim, least: int = _LEAST) -> Dim:
        self.given[name] = value
        return Poly({(Symbol(name, least),): 1})

    def _extent(self, name: str, extent: Dim, of: Dim, few: int) -> Dim:
        """A symbol for an extent, or the extent where it is one of those that make up few."""
        return extent if isinstance(of, int) and of < few else self._symbol(name, extent, 0)

    def _side(self, side: str, vars: Sequence[Var]) -> tuple[Var, ...]:
        """The loops of a side. Of batch items there are always two, of which one may have one
        iteration; in rows, which are found by divisions, only what is there."""
        few = self.rows if side == "rows" else 0
        names = _NAMES[side][-max(1, len(vars)):] if side == "rows" else _NAMES[side]
        old = (*(Var(1, i) for i in range(len(names) - len(vars))), *vars)
        new = tuple(Var(self._extent(name, v.extent, spread(vars), few), _NUMBERS[name])
                    for v, name in zip(old, names, strict=True))
        self.vars.update(zip(old, new))
        return new

    def _variable(self, name: str, old: Var, extent: Dim) -> Var:
        new = self.vars[old] = Var(extent, _NUMBERS[name])
        return new

    def _form(self, name: str, form: Form, strided: Sequence[Var]) -> Form:
        """A form with symbols for its constant and its strides along ``strided``. Along a lane
        variable a stride of 0 or 1 stays: it says how vectors are read."""
        old = {self.vars[v]: k for v, k in form.terms.items()}
        names = {n: i for i, n in _NUMBERS.items()}
        terms = {v: self._symbol(f"{name}_{names[v.number]}", old.pop(v, 0))
                 for v in strided if v not in self.lanes}
        for v in sorted(old, key=lambda v: v.number):
            terms[v] = old[v] if old[v] in (0, 1) else self._symbol(
                f"{name}_{names[v.number]}", old[v])
        return Form(self._symbol(f"{name}_at", form.const), terms)

    def _slot(self, slot: int) -> int:
        """A new buffer for each operand: two that are the same array have the same text too."""
        self.takes.append(slot)
        return len(self.takes) - 1

    # ---- values
    def _operand(self, name: str, v: Val, strided: Sequence[Var]) -> Val:
        load = _load(v)
        at = self.propagation.values.load(
            self._slot(load.slot), (v if v.op == "load" else v.args[0]).dtype,
            self._form(name, load.form, strided))
        return at if v.op == "load" else self.propagation.values.make(v.op, (at,), v.dtype, v.attr)

    def _sum(self, old: Val, operands: tuple[Val, Val], number: int, over: Var) -> Val:
        body = self.propagation.values.make("Mul", operands, old.dtype, number)
        return self.propagation.values.make("red", (body,), old.dtype, Reduction("sum", (over,)))

    def _value(self, v: Val, strided: Sequence[Var], rows: Sequence[Var] = ()) -> Val:
        """What a score, or a bound, is computed from: operands in their order, so that the text
        depends on nothing else. ``rows``: variables along which only what differs has a stride."""
        if v.id in self.made:
            return self.made[v.id]
        values, name = self.propagation.values, f"x{len(self.made)}"
        if v.op in ("load", "index"):
            if {self.vars[x] for x in v.deps} & set(rows):
                strided = (*strided, *rows)
            form = self._form(name, v.forms()[0], strided)
            new = values.index(form, v.dtype) if v.op == "index" else values.load(
                self._slot(v.attr.slot), v.dtype, form)
        else:
            args = tuple(self._value(x, strided, rows) for x in v.args)
            new = values.make(v.op, args, v.dtype, v.attr)
        self.made[v.id] = new
        return new

    def _bounds(self, strided: Sequence[Var]) -> list[Bound]:
        """Keys before the first that a row does not see; where it sees all there is such a bound
        too, so that both are one text."""
        found = [Bound(self._value(b.value, strided), b.upper) for b in self.source.bounds]
        if found:
            return found
        all_keys = Form(self.source.second.depth)
        return [Bound(self.propagation.values.index(
            self._form(f"x{len(self.made)}", all_keys, strided), i64), True)]
