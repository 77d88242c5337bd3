"""How a direct convolution holds its operands: as floats, or pairs of channels as words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tegg.backends.cexpr import MEMORY
from tegg.backends.cpu.c_templates import template
from tegg.backends.cpu.contraction_narrow import header, put_of
from tegg.backends.cpu.contraction_tiles import around_tiles, in_tiles
from tegg.kernel.contraction_held import TILE, Held
from tegg.kernel.value import Val


def words_of(held: Held | None, channels: int) -> int:
    """How many elements all channels have at one place: of tiles, as many as whole ones."""
    if held is None:
        return channels
    deep = held.grain if in_tiles(held) else held.group
    return -(-channels // deep) * (deep // held.group)


def held_words(held: Held | None, channels: int, words: Mapping[str, str],
               operands: Sequence[Val]) -> dict[str, str]:
    """What the templates say of it. E: an element of what is put in place and of packed filters;
    VE: a vector of them; PLACE, PACK: what puts a row in place, and packs the filters of a channel;
    PACKED: where to.
    """
    name, taps = words["k"], f"{words['TAPS']} * {words['NR']}"
    packed = f"(u * {words['C']} + c) * {taps}"
    if held is None:
        return dict(E="float", VE="vf", header="", groups="", channel="channel", PACKED=packed,
                    group_of=words["channel_of"], PACK=f"{name}_filter", PLACE=f"{name}_line",
                    pack_args=words["channel_args"], place_args=words["channel_args"],
                    pack_room="", place_room="", ROOM="", region_arg="",
                    FETCH=f"*(const {name}_memory *)(b + {words['W']} * j)",
                    ADD=f"ADD_SCALED(acc[i][j], bv[j], at[i * {words['SA']}])",
                    **around_tiles(held))
    assert held.rows is not None
    a, b = MEMORY[held.rows.name], MEMORY[held.panel.name]
    flat, room = in_tiles(held), int(words["ROW_ROOM"])
    own = dict(E="int32_t", G=str(held.group), CHANNELS=str(channels), PUT=put_of(held, *operands),
               filter_words=f"  {name}_join(rows, {taps}, {taps}, at);",
               line_words=f"  {name}_join(rows, {room}, {words['LONG']}, at);", region_param="")
    if flat:
        packed = f"(u * {words['C']} + c / {TILE} * {TILE}) * {taps} + c % {TILE}"
        own |= dict(filter_words=template("direct_words_tiles").substitute(words, **own),
                    region_param=", const int64_t region")
    if flat and words["SA"] != "1":
        own |= dict(line_words=template("direct_words_apart").substitute(words, **own))
    rows = held.group + flat  # of a pair, and as words
    return dict(E="int32_t", VE="vi", header=header(held), channel="pair", PACKED=packed,
                groups=template("direct_groups").substitute(words, **own), group_of="",
                PACK=f"{name}_filter_words", PLACE=f"{name}_line_words",
                pack_args="rows, c, ", place_args="rows, c, ",
                region_arg=", region" if flat else "",
                pack_room=f"\n  float *const rows = (float *)rt_scratch({rows} * {taps} * "
                          f"sizeof(float));",
                place_room=f"\n  float *const rows = t + ({words['SUMS']} + {words['W']}) * "
                           f"{words['NR']};", ROOM=f" + {rows * room}",
                FETCH=f"vi_load(b + {words['W']} * j)", DOT=f"dot_{a}{b}",
                ADD=f"acc[i][j] = dot_{a}{b}(acc[i][j], (const uint16_t *)(at + i * {words['SA']}"
                    f"), bv[j])", **around_tiles(held))
