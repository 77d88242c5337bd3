"""The C text of a product by whose rows the second operand passes: packed a piece at a time."""

from __future__ import annotations

from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.cpu.c_templates import indented, within
from tegg.backends.cpu.contraction_tiles import around_tiles
from tegg.backends.cpu.contraction_text import Text
from tegg.dim import product


@dataclass(slots=True)
class Passing:
    """Fills the template of the stage. No panel outlives the block of the depth that it holds, so
    that what is packed takes as little memory for large operands as for small ones."""

    text: Text

    def stage(self) -> str:
        """The stage, the only one."""
        t = self.text
        rows = t.hooks.rows_in([t.hooks.contraction.a])
        sizes, pointers, packs = self._panels()
        return t.fill(
            "stage_passing", panel_counts=t.panel_counts(), panels=f"from{len(t.hooks.columns)}",
            TERMS=str(t.most_terms()), TALL=str(t.params.tall), DEEP_BLOCK=self._deep("kc"),
            panel_sizes=indented(sizes, 2), packs=indented(packs, 10),
            **around_tiles(t.params.held),
            array_sizes=t.array_room("most"), batch_arrays=t.batch_arrays(),
            array_pointers="\n".join(filter(None, [indented(pointers, 2), t.array_pointers()])),
            **t.rows_in_blocks(),
            fill_a=t.fill_a(rows), in_place=t.in_place(), groups=t.groups())

    def _panels(self) -> tuple[list[str], list[str], list[str]]:
        """Per operand the room of its panels, where they lie, and the call that packs them."""
        t, h = self.text, self.text.hooks
        kind, nr, inner = t.common()["TB"], t.params.nr, dim(product(h.k.extents[1:]))
        sizes = [f"const int64_t deepest = (blocks > 1 ? steps : {dim(h.k.extents[0])}) * "
                 f"({inner}), room = {self._deep('deepest')};"]
        pointers, packs = [], []
        for i, term, _ in t.terms():
            x = term.anchor
            sizes += [f"const int64_t at_panels{x} = bytes;",
                      f"bytes += (across * room * {nr} * sizeof({kind}) + 63) / 64 * 64;"]
            pointers.append(f"{kind} *const piece{x} = ({kind} *)(ws + at_panels{x});")
            packs += [f"const int64_t low{x} = {within('q0', i)}, high{x} = {within('q1', i)};",
                      f"{kind} *const panels{x} = piece{x} - low{x} * deep * {nr};",
                      f"{h.name}_pack{x}({h.args(t.symbols)}, {h.batch.args}low{x}, high{x}, ko0, "
                      f"ko1, deep, panels{x});"]
        return sizes, pointers, packs

    def _deep(self, depth: str) -> str:
        """The depth of panels that hold so many steps."""
        held = self.text.params.held
        if held is None or held.grain == 1:
            return depth
        return f"({depth} + {held.grain - 1}) / {held.grain} * {held.grain}"
