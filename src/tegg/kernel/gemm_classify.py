"""Reads a plain product off index maps, for libraries that take matrices by their strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.dim import Dim, Facts, hint
from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.kernel.contraction_classify import Contraction
from tegg.kernel.domain import Write
from tegg.kernel.gemm import Gemm, Matrix
from tegg.kernel.index import Form, Var
from tegg.kernel.value import Load, Val


@dataclass(frozen=True, slots=True)
class _Axis:
    """Neighbouring loop variables as one: its extent, and its step in each of three forms."""

    extent: Dim
    steps: tuple[Dim, Dim, Dim]


_ONE = _Axis(1, (0, 0, 0))


def plain_gemm(c: Contraction, kind: str) -> Gemm:
    """The one product of a contraction whose operands and result lie in memory as they are.

    Raises LoweringError where something is computed beside it, or where its matrices have no
    steps of their own that libraries take.
    """
    if len(c.groups) != 1 or len(c.groups[0].terms) != 1 or len(c.groups[0].writes) != 1:
        raise LoweringError("a library makes one product at a time")
    (group,) = c.groups
    (term,), (write,) = group.terms, group.writes
    x, y = _loaded(term.a), _loaded(term.b)
    if x.dtype is not y.dtype:
        raise LoweringError(f"a library multiplies operands of one dtype, and these are "
                            f"{x.dtype.name} and {y.dtype.name} in memory")
    facts = c.propagation.graph.facts
    if not facts.nonnegative(c.depth - 1):
        raise LoweringError("sums of no terms are left to kernels")
    forms = (x.attr.form, y.attr.form, _stored(write, term.sum))
    batch, m, n, k = (_merged(vars, forms) for vars in (c.batch, c.m, group.n, c.k))
    if not batch and len(m) == 2:  # the outer one is a batch that shares the other operand
        batch, m = m[:1], m[1:]
    elif not batch and len(n) == 2:
        batch, n = n[:1], n[1:]
    axes = []
    for name, found in (("batch", batch), ("rows", m), ("columns", n), ("depth", k)):
        if len(found) > 1:
            raise LoweringError(f"the {name} of a library's product have one step, and these have "
                                f"{len(found)}")
        axes.append(found[0] if found else _ONE)
    b, rows, columns, depth = axes
    made = Gemm(kind, b.extent, rows.extent, columns.extent, c.depth,
                Matrix(x.attr.slot, x.dtype, forms[0].const, b.steps[0], rows.steps[0],
                       depth.steps[0]),
                Matrix(y.attr.slot, y.dtype, forms[1].const, b.steps[1], depth.steps[1],
                       columns.steps[1]),
                Matrix(write.slot, write.value.dtype, forms[2].const, b.steps[2], rows.steps[2],
                       columns.steps[2]))
    return _checked(_across(made), facts)


def _loaded(v: Val) -> Val:
    """The load of an operand: itself, or what is widened to float32 as it is multiplied."""
    if v.op == "Cast" and v.dtype is f32 and v.args[0].dtype.name in ("f16", "bf16"):
        (v,) = v.args
    if not isinstance(v.attr, Load) or v.attr.guards or not _affine(v.attr.form):
        raise LoweringError("a library reads operands as they lie, and this one is computed")
    return v


def _stored(w: Write, total: Val) -> Form:
    """Where a result goes, rounded to 16 bits at most on the way."""
    value = w.value
    if value.op in ("Cast", "Held") and value.dtype.name in ("f16", "bf16"):
        (value,) = value.args
    if value is not total or w.guards or w.mode != "store" or not _affine(w.form):
        raise LoweringError("a library stores its sums as they are, and something is computed "
                            "from these")
    return w.form


def _affine(form: Form) -> bool:
    return all(isinstance(a, Var) for a in form.terms)


def _merged(vars: Sequence[Var], forms: tuple[Form, Form, Form]) -> list[_Axis]:
    """Variables as few axes, outermost first: neighbours that every form holds as one are one."""
    axes = [_Axis(v.extent, (forms[0].coefficient(v), forms[1].coefficient(v),
                             forms[2].coefficient(v))) for v in vars]
    axes.sort(key=lambda a: [-abs(hint(s)) for s in (a.steps[2], *a.steps[:2])])
    out: list[_Axis] = []
    for a in axes:
        if out and all(p == s * a.extent for p, s in zip(out[-1].steps, a.steps)):
            out[-1] = _Axis(out[-1].extent * a.extent, a.steps)
        else:
            out.append(a)
    return out


def _across(g: Gemm) -> Gemm:
    """The same product where columns of the result are neighbours: that of both transposed."""
    if g.out.column == 1 or g.n == 1:
        return g
    return Gemm(g.kind, g.batch, g.n, g.m, g.k, _turned(g.y), _turned(g.x), _turned(g.out))


def _turned(m: Matrix) -> Matrix:
    return replace(m, row=m.column, column=m.row)


def _checked(g: Gemm, facts: Facts) -> Gemm:
    """A product whose matrices have one side of neighbours, and rows (or columns) that do not
    overlap; of a side of length 1 any step will do."""
    return replace(g, x=_sided(g.x, g.m, g.k, facts), y=_sided(g.y, g.k, g.n, facts),
                   out=_sided(g.out, g.m, g.n, facts, turned=False))


def _sided(m: Matrix, rows: Dim, columns: Dim, facts: Facts, turned: bool = True) -> Matrix:
    if rows == 1:
        m = replace(m, row=columns if m.column == 1 or columns == 1 else 1)
    if columns == 1:
        m = replace(m, column=1)
    for step, unit, along in ((m.row, m.column, columns), (m.column, m.row, rows)):
        if unit == 1 and facts.nonnegative(step - along):
            return m
        if not turned:
            break
    raise LoweringError(f"a library takes matrices whose rows or columns are neighbours and do not "
                        f"overlap; this one steps by {m.row} and {m.column}")
