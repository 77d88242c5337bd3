"""The words of the templates where operands are held in 8 and 16 bits, or as their sums are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from tegg.backends.cexpr import MEMORY, REGISTER, dim
from tegg.backends.cpu.contraction_hooks import Hooks
from tegg.backends.cpu.contraction_tiles import in_tiles
from tegg.dim import Dim, product
from tegg.dtype import DType, bf16
from tegg.kernel.contraction_held import Held
from tegg.kernel.contraction_shape import WIDE, GemmParams, GemmShape, pieces_of
from tegg.kernel.value import Val, holds

_PAGE = 4096     # bytes
_CLOSE = 1 << 16  # bytes of panels that stay in the nearest cache


def room(depth: Dim, held: Held | None) -> Dim:
    """The depth of what is packed, at most."""
    if held is None or held.grain == 1:
        return depth
    return -(-depth // held.grain) * held.grain if isinstance(depth, int) else (
        depth + (held.grain - 1))


def deep(depth: Dim, held: Held | None) -> str:
    """The depth of what is packed, in C."""
    if held is None or held.grain == 1 or isinstance(depth, int):
        return dim(room(depth, held))
    return f"(({dim(depth)} + {held.grain - 1}) / {held.grain} * {held.grain})"


def products_of(held: Held | None) -> str:
    """The template of the inner loop."""
    return "product" if held is None else f"product_{held.multiply}"


def span(p: GemmParams, rows: Dim) -> str:
    """Panels per pass where sums are set aside. Of rows of A for tiles, which are many, a call may
    bring far fewer: then it is as many panels more, and all rows are evaluated less often."""
    if isinstance(rows, int) or not in_tiles(p.held):
        return str(p.span)
    tall = f"({dim(rows)} + {p.mr - 1}) / {p.mr} * {p.mr}"
    return f"({p.span * p.rows} / ({tall} < {p.rows} ? {tall} : {p.rows}))"


def piece(p: GemmParams, columns: Sequence[Dim]) -> tuple[str, int]:
    """Panels that are packed together, and how many that are at most. In fewer bits they follow
    from the columns that a call brings."""
    few, many = pieces_of(p.nr)
    if (p.held is None or p.passing or p.piece not in (few, many) or len(columns) > 1
            or isinstance(columns[0], int)):
        return str(p.piece), p.piece
    return f"({dim(columns[0])} < {WIDE} ? {few} : {many})", many


def shares(p: GemmParams, sums: DType) -> dict[str, str]:
    """LINES of a panel in a step; A_MORE: rows of A that scratch has room for beyond a block."""
    size = p.held.itemsize * p.held.group if p.held else sums.itemsize
    return dict(LINES=str(max(1, p.nr * size // 64)),
                A_MORE=str(p.mr if in_tiles(p.held) else 0))


@cache
def _text(name: str) -> str:
    return files("tegg.backends.cpu").joinpath(name).read_text()


def once(p: GemmParams, shape: GemmShape) -> bool:
    """Whether each panel is read once, for one tile holds all rows."""
    return isinstance(shape.m, int) and shape.m <= p.mr


def ask(p: GemmParams, shape: GemmShape) -> str:
    """What a step of a product asks for: of the coming panel while further rows meet this one;
    else what comes a page on, for some hardware follows a panel that is read once to a page's end
    only (``fetch_run``)."""
    if p.lying:
        size = p.lanes * shape.accumulator.itemsize
        return (f'_Pragma("GCC unroll 8") for (int j = 0; j < NV * {size}; j += 64) '
                f"__builtin_prefetch(next + j, 0, 3); "
                f"next += step * {shape.accumulator.itemsize};")
    if not once(p, shape):
        return "__builtin_prefetch(next, 0, 2); next += pace;"
    size = p.held.itemsize if p.held else shape.accumulator.itemsize
    elements = shape.k * sum(shape.n, 0)  # of sizes that are not known nothing is near
    if isinstance(elements, int) and elements * size <= _CLOSE:
        return ""
    panels = ["b", *(f"b + {u} * apart" for u in range(1, p.panels))]
    lines = range(0, int(shares(p, shape.accumulator)["LINES"]) * 64, 64)
    return " ".join(f"fetch_run((const char *)({b} + p * {p.nr}) + {_PAGE + line});"
                    for b in panels for line in lines)


def beside(p: GemmParams, terms: int) -> dict[str, str]:
    """Words of a product for vector j of several panels, as many elements ``apart`` as the last
    argument says: which of them (``beside``), the vector in it, and where its sums go (``on``)."""
    if p.lying:
        return dict(also=", or rows of B `step` elements apart", beside="", j="j", on="",
                    pace="step", STEP="step")
    if p.panels == 1:
        return dict(also="", beside="", j="j", on="", pace="pace", STEP=str(p.nr))
    return dict(STEP=str(p.nr), also=f", from {p.nv} vectors on the next one, `apart` elements on",
                beside=f" + j / {p.nv} * apart", j=f"(j % {p.nv})",
                on=f" + j / {p.nv} * {terms * p.mr * p.nr}", pace="apart")


def header(held: Held | None) -> str:
    """What the inner loop is written over, once in a unit."""
    if held is None:
        return ""
    names = {"widen": ("narrow.h",), "dot": ("narrow.h", "dots.h"),
             "tiles": ("narrow.h", "tiles.h")}[held.multiply]
    return "".join(_text(n) for n in names)


def held_words(held: Held | None, hooks: Hooks, sums: DType) -> dict[str, str]:
    """TA, TB: elements of rows of A and of panels of B in memory; how A is stored; how a group is
    put into a panel."""
    letter, scalar = REGISTER[sums.name], hooks.scalar(sums)
    if held is None:
        return dict(TA=scalar, TB=scalar, STORE_A=f"v{letter}_store", PUT_A=f"s{letter}_store",
                    G="1", GRAIN="1", tails="", SET="", group_rows="", group_lanes="",
                    DOT="", WIDEN="", FILLED=f"(ko1 - ko0) * ({_inner(hooks)})")
    rows = held.rows or sums
    memory = hooks.dialect.memory
    kind = MEMORY[held.panel.name]
    tails = ("" if held.rows is None or held.grain == 1 else
             "  const int64_t end = (ko1 - ko0) * (" + _inner(hooks) + ");\n"
             f"  if (end % {held.grain})\n"
             f"    for (int64_t r = 0; r < i; r++) memset(o + r * as + end, 0, "
             f"({held.grain} - end % {held.grain}) * sizeof(*o));")
    a = MEMORY[rows.name]
    put_a = "keep" if keeps(hooks.contraction.a, rows) else "store"
    return dict(
        TA=memory[a], TB=memory[kind], G=str(held.group), GRAIN=str(held.grain), tails=tails,
        STORE_A=f"v{a}_{put_a}" if rows.is_float else f"vi_store_{a}", PUT_A=f"s{a}_{put_a}",
        SET=f"s{kind}_store",
        group_rows=", ".join(f"v{letter}_load(row[{g}] + at)" for g in range(held.group)),
        group_lanes=", ".join(f"r[j + {g}]" for g in range(held.group)),
        DOT=f"dot_{a}{kind}", WIDEN=f"widen_{kind}",
        FILLED="as" if held.rows else f"(ko1 - ko0) * ({_inner(hooks)})")


def keeps(v: Val, d: DType) -> bool:
    """Whether a number of ``d`` is put where it belongs as it is: it is a bfloat16 already."""
    return d is bf16 and holds(v, d)


def put_of(held: Held | None, *values: Val) -> str:
    """What puts a group of such values into a panel."""
    if held is None:
        return ""
    put = "keep" if all(keeps(v, held.panel) for v in values) else "put"
    return f"{put}_{MEMORY[held.panel.name]}{held.group}"


def _inner(hooks: Hooks) -> str:
    return dim(product(hooks.k.extents[1:]))
