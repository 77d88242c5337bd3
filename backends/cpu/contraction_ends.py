"""Products whose loops are compiled apart from what they are made of and what becomes of them.

Most of what a compiler takes for a product are its loops: packing, blocks, register tiles. Between
programs these differ by sizes and strides alone, so they are a text of their own (the *core*), one
for all programs, which takes them when it is called. The *ends* are the program's own: how rows of
A are computed where they are not read as they lie, and what becomes of a tile of sums. The core is
handed them as functions, and calls them once a tile or once a block. Of few rows that meet a B
which is read as it lies, it has the loops over a batch as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.backends.cexpr import dim
from tegg.backends.cpu.c_templates import indented, template
from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_extents import depth_of_blocks
from tegg.backends.cpu.contraction_hooks import Hooks
from tegg.backends.cpu.contraction_text import Text
from tegg.backends.cpu.contraction_tiles import asked_rows, in_tiles
from tegg.backends.cpu.contraction_words import Words
from tegg.backends.cpu.objects import anonymous
from tegg.cache import content_key
from tegg.dim import Dim, Poly, Symbol, product
from tegg.dtype import DType, widens
from tegg.ir.graph import Graph
from tegg.kernel.code import KernelCode
from tegg.kernel.contraction_classify import AnchoredPropagation, Contraction, Group, Term
from tegg.kernel.contraction_memory import spacing
from tegg.kernel.contraction_shape import GemmParams, GemmShape, of_many_rows
from tegg.kernel.domain import Write, spread
from tegg.kernel.index import Form, Var
from tegg.kernel.loops import Ahead
from tegg.kernel.value import Reduction, Val

# Elements of the second operand, and the depth, from which loops that know no size are as fast.
_LARGE, _DEEP = 1 << 15, 64
_A, _B, _ENDS, FIRST = range(4)  # the core's buffers; the first of its panels
_LEAST = -(1 << 40)        # of strides: views may run backwards
_COMPUTED = 12.0          # operations of an element of A that ends compute, for threads' shares


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand that is read as it lies: element (z, i, p), of an item z of the batch, a row or
    column i and a step p of the depth, is ``at + batch * z + free * i + depth * p`` elements into a
    buffer. dtype: of its elements, which become as wide as sums are when they are read."""

    slot: int
    dtype: DType
    at: Dim
    batch: Dim
    free: Dim
    depth: Dim


@dataclass(frozen=True, slots=True)
class Core:
    """The loops of a product without its ends. ``a``: None where the ends compute its rows.
    given: what its symbols are in the program. on: how far on B is asked for, where it is; turns:
    whether it is asked for where its rows are told."""

    contraction: Contraction
    shape: GemmShape
    params: GemmParams
    a: Matrix | None
    b: Matrix
    symbols: tuple[str, ...]
    given: tuple[Dim, ...]
    on: Dim | None
    turns: bool


def core_of(text: Text) -> Core | None:
    """The core of a product whose text is about to be written; None where its loops depend on more
    than sizes and strides, or where it is small."""
    c, shape, params = text.hooks.contraction, text.shape, text.params
    if not _is_single(c, shape, params) or _beside(text):
        return None
    (term,), n = c.groups[0].terms, c.groups[0].n
    a, b = _matrix(c.a, c, c.m, shape), _matrix(term.b, c, n, shape)
    if b is None:
        return None
    if params.form == "packed":
        return None if a is None and params.in_place else _core(text, a, b)
    if 1 != (b.free if params.form == "rows" else b.depth):
        return None
    return _core(text, None if a is None or a.depth != 1 else a, b)


def _is_single(c: Contraction, shape: GemmShape, params: GemmParams) -> bool:
    """Whether it is one large product in one piece of known columns and depth, or, where panels
    are not packed, a batch of them."""
    terms = [t for g in c.groups for t in g.terms]
    columns, depth = shape.n[0], shape.k
    return (params.parts == 1 and not params.symmetric and len(terms) == 1 and bool(c.k)
            and (params.form != "packed" or not c.batch and shape.batch == 1)
            and bool(c.groups[0].n) and isinstance(columns, int) and isinstance(depth, int)
            and columns * depth >= _LARGE and depth >= _DEEP)


def _beside(text: Text) -> bool:
    """Whether something is computed once a row for the results, or once for all rows of several,
    or for more rows than ends have room for."""
    results = text.result_rows(text.hooks.contraction.groups[0])
    once = "m" if text.hooks.contraction.m else "batch"  # of a single row
    room = text.params.form == "packed" or isinstance(text.shape.m, int)
    return (bool(results) or any(r.side != once for r in text.hooks.rows)
            or bool(text.hooks.rows) and not room)


def _matrix(v: Val, c: Contraction, free: Sequence[Var], shape: GemmShape) -> Matrix | None:
    """A value as a matrix with one contiguous side; None where it is none."""
    load = _read(v)
    if load.op != "load" or load.attr.guards or v.dtype is not shape.accumulator:
        return None
    form: Form = load.attr.form
    if not set(form.terms) <= {*c.batch, *free, *c.k}:
        return None
    apart, across, down = (spacing(form, side) for side in (c.batch, free, c.k))
    if apart is None or across is None or down is None or 1 not in (across, down):
        return None
    return Matrix(load.attr.slot, load.dtype, form.const, apart, across, down)


def _read(v: Val) -> Val:
    """What is read for an element: of a float that is held in fewer bits, what is made wide."""
    return v.args[0] if v.op == "Cast" and widens(v.args[0].dtype, v.dtype) else v


def _core(text: Text, a: Matrix | None, b: Matrix) -> Core:
    c, shape, params = text.hooks.contraction, text.shape, text.params
    given: dict[str, Dim] = {}

    def symbol(name: str, value: Dim, least: int = 0) -> Dim:
        given[name] = value
        return Poly({(Symbol(name, least),): 1})

    # Few rows stay in the text, but for whole tiles, which go the same way through any number.
    few = isinstance(shape.m, int) and shape.m <= params.mr and not in_tiles(params.held)
    rows = shape.m if few else symbol("rows", shape.m)
    m = () if rows == 1 else (Var(rows, 0),)
    n, k = Var(symbol("columns", spread(c.groups[0].n)), 1), Var(symbol("depth", c.depth), 2)
    z = () if params.form == "packed" else (Var(symbol("batch", shape.batch), 3),)
    deep = text.hooks.k if a is None else Axis("k", (k,), k.extent)  # ends fill whole outer steps
    steps, row = depth_of_blocks(deep, params, shape.accumulator, text.hooks.dialect.width)
    symbol("steps", int(steps) * _inner(deep))
    symbol("row", int(row))
    symbol("span", params.span)

    def load(slot: int, name: str, at: Matrix | None, free: Sequence[Var]) -> Val:
        """An operand at a new slot, with a symbol for the stride that is not 1."""
        along_k = at is None or at.depth == 1 and not (at.free == 1 and slot == _B)
        unit, far = ([k], free) if along_k else (free, [k])
        stride = 0 if at is None else at.free if along_k else at.depth
        step = symbol(f"{name}_step", stride, _LEAST)
        item = [symbol(f"{name}_item", 0 if at is None else at.batch, _LEAST) for _ in z]
        form = Form(0, {**dict.fromkeys(unit, 1), **dict.fromkeys(far, step), **dict(zip(z, item))})
        held = shape.accumulator if at is None else at.dtype
        read = propagation.values.load(slot, held, form)
        return read if held is shape.accumulator else propagation.values.make(
            "Cast", (read,), shape.accumulator)

    propagation = AnchoredPropagation(Graph(), frozenset())
    x, y = load(_A, "a", a, m), load(_B, "b", b, (n,))
    body = propagation.values.make("Mul", (x, y), shape.accumulator, 0)
    total = propagation.values.make("red", (body,), shape.accumulator, Reduction("sum", (k,)))
    write = Write(_ENDS, (*z, *m, n), Form(0, {n: 1}), total)
    made = Contraction(propagation, z, m, (k,), k.extent,
                       (Group((write,), (Term(0, total, x, y),), (n,)),))
    far = text.hooks.further(c.groups[0], params)
    on = None if far is None else symbol("on", far, _LEAST)
    general = replace(
        shape, batch=spread(z), m=rows, n=(n.extent,), k=k.extent, a_plain=params.in_place,
        b_plain=params.lying,
        a_unit="k" if _read(x).attr.form.coefficient(k) == 1 else "free",
        b_units=("free" if _read(y).attr.form.coefficient(n) == 1 else "k",),
        a_cost=_COMPUTED if a is None else 1.0, b_cost=1.0, out_cost=0.0)
    if params.form == "packed":
        params = of_many_rows(params, shape.accumulator)
    h = text.hooks
    turns = params.form != "packed" and bool(h.turning(
        c.groups[0].terms[0], h.columns[0], params))
    return Core(made, general, params, a, b, tuple(given), tuple(given.values()), on, turns)


def _inner(k: Axis) -> int:
    """Steps of the depth in one of its outer variable, which are known where the depth is."""
    return int(product(k.extents[1:]))


# ---- the text of a core
@dataclass(slots=True)
class CoreHooks(Hooks):
    """Of what a core evaluates itself. ``computed``: the ends compute A. on, turns: as of the
    core."""

    computed: bool = False
    on: Dim | None = None
    turns: bool = False

    def operand_a(self, params: str, along_m: bool, turned: bool = True) -> None:
        if not self.computed:
            Hooks.operand_a(self, params, along_m, turned)

    def coming(self, term: Term, axis: Axis, lanes: Axis | None,
               tile: GemmParams) -> Sequence[Ahead]:
        if self.on is None or lanes is None:
            return ()
        read = _read(term.b)
        return [Ahead(_B, read.attr.form + self.on, read.dtype, "run")]

    def turning(self, term: Term, axis: Axis, tile: GemmParams) -> Sequence[Ahead]:
        read = _read(term.b)
        return [Ahead(_B, read.attr.form, read.dtype, "run")] if self.turns else []

    def result(self, params: str, number: int, group: Group, axis: Axis) -> None:
        """The ends' own."""

    def ask(self, params: str, number: int, group: Group, axis: Axis) -> None:
        """The ends' own."""


class CoreText(Text):
    """Calls the ends where they are met."""

    __slots__ = ()

    def _words(self) -> dict[str, str]:
        return Words._words(self) | {"KO": "S_steps", "AS": "S_row", "SPAN": "S_span",
                                     "ends": str(_ENDS)}

    def operand_a(self, along_m: bool) -> str:
        assert isinstance(self.hooks, CoreHooks)
        return self.fill("core_fill") if self.hooks.computed else Text.operand_a(self, along_m)

    def lines_of_a(self, row: str, depth: str) -> tuple[str, str]:
        assert isinstance(self.hooks, CoreHooks)
        return ("", "") if self.hooks.computed else Text.lines_of_a(self, row, depth)

    def result(self, number: int, group: Group, axis: Axis) -> str:
        return self.fill("core_finish", g=str(number))

    def asks(self, number: int, group: Group, axis: Axis) -> str:
        return self.fill("core_ask", **asked_rows(self.params))


def declared() -> str:
    """The type of ends, once in a unit."""
    return template("ends").template


# ---- the text of ends
@dataclass(frozen=True, slots=True)
class Ends:
    """The text of a product's own part. ``text``: of the whole product."""

    text: Text
    core: Core

    def source(self, params: str, over: KernelCode, functions: Sequence[str],
               panels: Sequence[int]) -> str:
        """``functions`` call those of ``over``; ``panels``: slots of what is packed."""
        text, h = self.text, self.text.hooks
        (group,), axis = h.contraction.groups, h.columns[0]
        own = [self._rows_of_a(params)] if self.core.a is None else []
        h.result(params, 0, group, axis)
        h.ask(params, 0, group, axis)
        own += [text.result(0, group, axis), text.fill("ends_finish", g="0"), self._ask(axis)]
        table = f"void (*{h.name}_at[{len(functions)}])(void *const *, const int64_t *, int, int);"
        stages = [self._stage(i, f, panels) for i, f in enumerate(functions)]
        below = f"// Over {content_key(anonymous(over))}."
        return "\n".join([below, declared(), *h.lines, *own, table, *stages])

    def _rows_of_a(self, params: str) -> str:
        text, h = self.text, self.text.hooks
        packed = text.params.form == "packed"
        along_m = packed and text.shape.a_unit == "free"
        h.operand_a(params, along_m)
        rows = h.rows_in([h.contraction.a])
        most = self.core.params.rows if packed else text.shape.m
        room = dim(most + h.dialect.width)
        arrays = [f"{h.scalar(r.value.dtype)} {r.name}[{room}];" for r in rows]
        kept = filter(None, [text.batch_arrays(rows), text.row_arrays(rows)])
        adapter = text.fill("ends_fill", inner=str(_inner(h.k)), arrays=indented(arrays, 2),
                            row_arrays="\n".join(kept), row_pointers=text.row_pointers(rows))
        return "\n".join([text.transpose() if along_m else "", text.operand_a(along_m), adapter])

    def _ask(self, axis: Axis) -> str:
        h = self.text.hooks
        line = h.asked(h.contraction.groups[0], axis)
        return "" if not line else self.text.fill(
            "ends_ask", g="0", n_args_end=axis.args.rstrip(", "), line=str(line),
            n_last=axis.names[-1], m_of=h.m.of("row + r"))

    def _stage(self, number: int, function: str, panels: Sequence[int]) -> str:
        name, line = self.text.hooks.name, self._ask(self.text.hooks.columns[0])
        taken = [_address(self.core.a), _address(self.core.b), "(void *)&ends",
                 *(f"buffers[{p}]" for p in panels)]
        return self.text.fill(
            "ends_stage", function=function, number=str(number), taken=", ".join(taken),
            fill="0" if self.core.a else f"{name}_fills", ask=f"{name}_asks" if line else "0",
            given=", ".join(map(dim, self.core.given)))


def _address(at: Matrix | None) -> str:
    return "(void *)0" if at is None else f"(void *)(b{at.slot} + {dim(at.at)})"
