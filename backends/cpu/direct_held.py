"""How a direct convolution holds its operands: as floats, or pairs of channels as words."""

from __future__ import annotations

from collections.abc import Mapping

from tegg.backends.cexpr import MEMORY
from tegg.backends.cpu.c_templates import template
from tegg.backends.cpu.contraction_narrow import header
from tegg.kernel.contraction_held import Held


def words_of(held: Held | None, channels: int) -> int:
    """How many elements all channels have at one place."""
    return channels if held is None else -(-channels // held.group)


def held_words(held: Held | None, channels: int, words: Mapping[str, str]) -> dict[str, str]:
    """What the templates say of it. E: an element of what is put in place and of packed filters;
    VE: a vector of them; PLACE, PACK: what puts a row in place, and packs the filters of a channel.
    """
    name = words["k"]
    if held is None:
        return dict(E="float", VE="vf", header="", groups="", channel="channel",
                    group_of=words["channel_of"], PACK=f"{name}_filter", PLACE=f"{name}_line",
                    pack_args=words["channel_args"], place_args=words["channel_args"],
                    pack_room="", place_room="", ROOM="",
                    FETCH=f"*(const {name}_memory *)(b + {words['W']} * j)",
                    ADD=f"ADD_SCALED(acc[i][j], bv[j], at[i * {words['SA']}])")
    assert held.rows is not None
    a, b = MEMORY[held.rows.name], MEMORY[held.panel.name]
    rows = dict(E="int32_t", G=str(held.group), CHANNELS=str(channels), PUT=f"put_{b}{held.group}")
    return dict(E="int32_t", VE="vi", header=header(held), channel="pair",
                groups=template("direct_groups").substitute(words, **rows), group_of="",
                PACK=f"{name}_filter_words", PLACE=f"{name}_line_words",
                pack_args="rows, c, ", place_args="rows, c, ",
                pack_room=f"\n  float *const rows = (float *)rt_scratch({held.group} * "
                          f"{words['TAPS']} * {words['NR']} * sizeof(float));",
                place_room=f"\n  float *const rows = t + ({words['SUMS']} + {words['W']}) * "
                           f"{words['NR']};", ROOM=f" + {held.group} * {words['LS']}",
                FETCH=f"vi_load(b + {words['W']} * j)",
                ADD=f"acc[i][j] = dot_{a}{b}(acc[i][j], (const uint16_t *)(at + i * {words['SA']}"
                    f"), bv[j])")
