"""Where rows of the first operand lie in memory, if nothing has to be done to read them."""

from __future__ import annotations

from tegg.backends.cexpr import Expressions, dim
from tegg.backends.cpu.contraction_hooks import Hooks
from tegg.kernel.ahead import PAGE
from tegg.kernel.contraction_held import Held
from tegg.kernel.contraction_memory import in_rows
from tegg.kernel.contraction_shape import GemmParams
from tegg.kernel.value import Load, Val

_WIDE = 16  # lanes, from which a row is sooner read than copied though it shares a set with others


def in_place(h: Hooks, p: GemmParams) -> str:
    """The rows at hand of an A that products read where it lies."""
    if not p.in_place:
        return ""
    a = h.contraction.a
    at, stride = _row(h, a.attr, "row")
    return (f"        {whole_rows(h, p)} const int64_t stride = {stride};\n"
            f"        const {h.scalar(a.dtype)} *const in = {at};")


def whole_rows(h: Hooks, p: GemmParams) -> str:
    """How many of the rows at hand products read where they lie: whole tiles of them, and with
    narrower vectors none where rows are pages apart and so share few sets of a cache."""
    a = h.contraction.a
    _, stride = _row(h, a.attr, "row")
    tiles = f"rows / {p.mr} * {p.mr}"
    if h.dialect.width >= _WIDE:
        return f"const int64_t whole = {tiles};"
    return f"const int64_t whole = {stride} * {a.dtype.itemsize} % {PAGE} ? {tiles} : 0;"


def lines_of(h: Hooks, held: Held | None, row: str, depth: str) -> tuple[str, str]:
    """Where a row of A lies from a depth on, if ``held`` has it as memory does, and the elements to
    the next row; nothing for any other A."""
    a = h.contraction.a
    read = a.args[0] if a.op == "Cast" else a
    if (held is None or read.op != "load" or read.dtype is not held.rows
            or not in_rows(h.contraction, read.attr)):
        return "", ""
    return _row(h, read.attr, row, depth)


def columns_of(h: Hooks, b: Val) -> tuple[str, str]:
    """Where rows of a B that is read where it lies have their first column, at the depth ko0, and
    the elements to the next row."""
    e = Expressions(h.dialect, h.contraction.propagation.algebra)
    form, outer, inner = b.attr.form, h.k.vars[0], h.k.vars[-1]
    e.names.update({**dict.fromkeys(form.terms, "0"), **h.batch.named(), outer: "ko0"})
    return f"b{b.attr.slot} + {e.form(form)}", dim(form.coefficient(inner))


def _row(h: Hooks, read: Load, row: str, depth: str = "ko0") -> tuple[str, str]:
    """Where a row has that depth, and how far away the next row is."""
    e = Expressions(h.dialect, h.contraction.propagation.algebra)
    e.names.update({**h.batch.named(), **dict.fromkeys(h.m.vars, row),
                    **dict.fromkeys(h.k.vars, "0"), h.k.vars[0]: depth})
    stride = dim(read.form.coefficient(h.m.vars[0])) if h.m.vars else "0"
    return f"b{read.slot} + {e.form(read.form)}", stride
