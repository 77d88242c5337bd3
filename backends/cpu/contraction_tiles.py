"""The words of the templates where whole tiles are multiplied."""

from __future__ import annotations

from tegg.kernel.contraction_held import Held
from tegg.kernel.contraction_shape import GemmParams, GemmShape

_FASTER = 16  # times as many as vectors multiply and add while something else is done
_FROM_ANOTHER = 10  # multiply-adds in which an element comes from another thread's cache
_READ, _READ_BY_TILES = 20, 96  # rows that meet a panel while one is read that is not near


def in_tiles(held: Held | None) -> bool:
    """Whether whole tiles are multiplied."""
    return held is not None and held.multiply == "tiles"


def shared_work(p: GemmParams, shape: GemmShape) -> dict[str, str]:
    """What threads weigh beside the products when they share them, in multiply-adds."""
    tiles = in_tiles(p.held)
    a, b = ((4 + int(cost)) * (_FASTER if tiles else 1) for cost in (shape.a_cost, shape.b_cost))
    if p.lying:
        b = _FROM_ANOTHER
    return dict(A_COST=str(a), B_COST=str(b if p.inline else 0),
                READ=str(0 if p.inline else _READ_BY_TILES if tiles else _READ))


def around_tiles(held: Held | None) -> dict[str, str]:
    """What stands around products by tiles, once in a stage."""
    if not in_tiles(held):
        return dict(begin="", end="")
    return dict(begin="  tiles_begin();\n", end="  tiles_end();\n")


def fill_tiles(p: GemmParams, call: str, row_pointers: str,
               lines: tuple[str, str] = ("", "")) -> str:
    """Evaluate as many rows of A as a tile has behind all rows, and put them where they belong, in
    the order in which tiles read them. call: the beginning of the one that evaluates rows. lines:
    where row ``row + i`` lies and the elements to the next one, if they are held there as here."""
    assert p.held is not None
    mr, grain = p.mr, p.held.grain
    last = f"rows - i < {mr} ? rows - i : {mr}"
    at, stride = lines
    straight = "" if not at else (
        f"            if (rows - i >= {mr} && kc % {grain} == 0) {{\n"
        f"              tiles_order(a + i * as, {at}, {stride} * sizeof(*a), {mr}, kc / {grain});\n"
        f"              continue;\n            }}\n")
    return (f"          for (int64_t i = 0; i < rows; i += {mr}) {{\n{straight}"
            f"            {call}row + i, {last}, ko0, ko1, as, a + tall * as{row_pointers});\n"
            f"            tiles_order(a + i * as, a + tall * as, as * sizeof(*a), {mr}, "
            f"(kc + {grain - 1}) / {grain});\n          }}")


def turns(p: GemmParams, comes: str) -> dict[str, str]:
    """What the loop over panels adds, along which tiles of rows take turns at a part of the depth.
    comes: requests for the part of them that is placed next."""
    return dict(comes=comes, NEAR=str(p.near), TURNS=str(p.turns))


def asked_rows(p: GemmParams) -> dict[str, str]:
    """For the results of which rows of a tile memory is asked: of whole tiles, for some at each
    part of the depth."""
    if in_tiles(p.held):
        return dict(ask_from="i + part * asked", ask_to="i + (part + 1) * asked")
    return dict(ask_from="i", ask_to=f"i + {p.mr}")


def at_part(p: GemmParams, sums: str, asked: str) -> str:
    """The arguments of a product of a tile of rows and a panel at a part of the depth."""
    return (f"(kl, a + i * as + ks * {p.mr}, as, b + ks * {p.nr}, {sums}, kb > 0 || ks > 0, "
            f"{asked});")
