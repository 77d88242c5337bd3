"""Products of a matrix with itself turned: what they ask of operands, and what their text adds.

``out[i, j]`` and ``out[j, i]`` sum the same products in the same order, so that a tile above the
diagonal is stored twice and none below it is summed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegg.errors import LoweringError
from tegg.kernel.contraction_shape import GemmParams
from tegg.kernel.index import variable

if TYPE_CHECKING:
    from tegg.backends.cpu.contraction_text import Text

TURNED = 32  # rows of sums that are turned at once: two lines of each row that they go to


def check(text: Text) -> None:
    """Raises LoweringError unless a kernel is one contraction, columns of whose second operand are
    the rows of its first, and nothing is kept for each row of results."""
    c = text.hooks.contraction
    (group, *more) = c.groups
    if more or len(group.terms) != 1:
        raise LoweringError("tiles below the diagonal are left out of a kernel of one product; "
                            "compute the others in kernels of their own")
    if [v.extent for v in c.m] != [v.extent for v in group.n]:
        raise LoweringError("rows and columns of a symmetric product are counted alike; these are "
                            "not")
    turned = c.propagation.values.substitute(
        c.a, {m: variable(n) for m, n in zip(c.m, group.n)})
    if turned is not group.terms[0].b:
        raise LoweringError("the second operand of a symmetric product is the first one turned; "
                            "this one is computed otherwise")
    if any(r.side != "batch" for r in text.result_rows(group)):
        raise LoweringError("results of a symmetric product are joined with what is computed once "
                            "for a row of them; store that, or the product")


def shares(p: GemmParams) -> dict[str, str]:
    """How threads share tiles: rows alone are cut, so that each has as many above the diagonal."""
    if not p.symmetric:
        return dict(columns="nt / (x * y) < np ? nt / (x * y) : np",
                    row_low="g.i * i / g.tm", row_high="g.i * (i + 1) / g.tm")
    low, high = (f"(int64_t)(g.i * (1 - __builtin_sqrt(1 - (double){i} / g.tm)))"
                 for i in ("i", "(i + 1)"))
    return dict(columns="1", row_low=low, row_high=high)


def highest(p: GemmParams) -> str:
    """The most row panels of a share."""
    return "row_panels" if p.symmetric else "(row_panels + grid.tm - 1) / grid.tm"


def in_tiles(text: Text, group: int) -> dict[str, str]:
    """What the loop over the tiles of a panel adds: the sums of all of them are kept until they are
    stored turned."""
    if not text.params.symmetric:
        one = text.most_terms() * text.params.nr
        return dict(above="", mirror="",
                    tile=f"tile + (i - turn) * {one}" if text.params.turns > 1 else "tile")
    p = text.params
    sums = f"blocks == 1 ? tile : sums + (q - c0) * (tall / {p.mr}) * {p.mr * p.nr}"
    return dict(above=_above(text, group, "row + i"), tile=f"tile + i * {p.nr}",
                mirror=f"\n          if (kb == blocks - 1)\n            "
                       f"{_call(text, group, sums)}")


def in_parts(text: Text, group: int) -> dict[str, str]:
    """What the loop over the tiles of a panel adds where parts of their sums are set aside."""
    return dict(above=_above(text, group, "row + i") if text.params.symmetric else "")


def in_whole(text: Text, group: int) -> dict[str, str]:
    """What is done for a tile whose parts are added up."""
    if not text.params.symmetric:
        return dict(above="", mirror="")
    return dict(above=_above(text, group, "row"), mirror=f"\n      {_call(text, group, 't')}")


def _above(text: Text, group: int, row: str) -> str:
    """Whether a tile that begins at a row is not all below the diagonal."""
    return f" && {row} < (q - from{group} + 1) * {text.params.nr}"


def _call(text: Text, group: int, sums: str) -> str:
    h = text.hooks
    kept = text.row_pointers(text.result_rows(h.contraction.groups[group]))
    return (f"{h.name}_mirror{group}({h.args(text.symbols)}, {h.batch.args}row, rows, col, cols, "
            f"{sums}{kept});")
