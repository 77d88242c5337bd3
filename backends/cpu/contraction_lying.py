"""The C text of a product whose second operand is read where it lies."""

from __future__ import annotations

from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.cpu.c_templates import indented
from tegg.backends.cpu.contraction_rows import columns_of
from tegg.backends.cpu.contraction_text import Text
from tegg.kernel.ahead import PAGE
from tegg.kernel.contraction_classify import Group

_LINE = 64       # bytes
_FEW = 2         # tiles of rows of A, for which what leaves a cache need not be read once more
_MANY = 128      # rows of A that take longer to read vectors across lines, or pages apart beyond a
#                  thread's own cache, than to pack them
_ON = 16         # rows of B by which they are asked for ahead; at most a quarter of a block
_CLOSE = 1 << 19  # bytes of a piece of B, which stays in L2


@dataclass(slots=True)
class Lying:
    """Fills the template of the stage. Whether B is read where it lies is found out in a run: not
    where some tiles of rows of A meet what shares few sets of a cache, as rows do that are pages
    apart, or many rows vectors that lie across lines, or more than a thread's own cache holds."""

    text: Text

    def stage(self) -> str:
        """The stage, the only one."""
        t = self.text
        (group,), (axis,) = t.hooks.contraction.groups, t.hooks.columns
        size, nr = t.shape.accumulator.itemsize, t.params.nr
        tiles = [f"t + {n * t.params.mr * nr}" for n in range(len(group.terms))]
        terms = [t.fill("term_lying", x=str(term.anchor), choose=t.choose(n, "next, step"))
                 for n, term in enumerate(group.terms)]
        sizes, pointers, packs = self._panels(group)
        return t.fill(
            "stage_lying", N=dim(axis.count), TERMS=str(len(group.terms)),
            UNIT=str(max(t.params.lanes, t.hooks.dialect.width)),
            ON=str(_ON), TALL=str(t.params.tall), CLOSE=str(_CLOSE // size), lies=self._lies(group),
            panel_sizes=indented(sizes, 2), packs=indented(packs, 10),
            array_sizes=t.array_room("most"), batch_arrays=t.batch_arrays(),
            array_pointers="\n".join(filter(None, [indented(pointers, 2), t.array_pointers()])),
            **t.rows_in_blocks(), fill_a=t.fill_a([]), in_place=t.in_place(),
            asks=t.asks(0, group, axis), terms="\n".join(terms), tile_pointers=", ".join(tiles),
            row_pointers_i=t.row_pointers(t.result_rows(group), "i"))

    def _lies(self, group: Group) -> str:
        """Per operand how far apart its rows are; whether all are read where they lie."""
        t, lines, tests = self.text, [], []
        size, rows = t.shape.accumulator.itemsize, dim(t.hooks.m.count)
        share = f"{dim(t.hooks.k.count)} * {dim(t.hooks.columns[0].count)} * {size} / nt"
        for term in group.terms:
            x = term.anchor
            lines.append(f"const int64_t step{x} = {columns_of(t.hooks, term.b)[1]};")
            tests.append(f"(step{x} * {size} % {PAGE} || {rows} <= {_FEW * t.params.mr}) && "
                         f"(step{x} * {size} % {_LINE} == 0 || {rows} <= {_MANY})")
        tests.append(f"({rows} <= {_MANY} || {share} <= rt_own_cache)")
        return indented([*lines, f"const int lies = {' && '.join(tests)};"], 2)

    def _panels(self, group: Group) -> tuple[list[str], list[str], list[str]]:
        """Per operand the room of its panels, where they lie, and where columns lie, or the call
        that packs them."""
        t, h = self.text, self.text.hooks
        kind, nr = t.common()["T"], t.params.nr
        sizes, pointers, packs = [], [], []
        for term in group.terms:
            x = term.anchor
            sizes += [f"const int64_t at_panels{x} = bytes;",
                      f"bytes += (across * deepest * {nr} * sizeof({kind}) + 63) / 64 * 64;"]
            pointers.append(f"{kind} *const panels{x} = ({kind} *)(ws + at_panels{x});")
            packs += [f"const {kind} *const in{x} = {columns_of(h, term.b)[0]} + left;",
                      f"if (low < c1) {h.name}_pack{x}({h.args(t.symbols)}, {h.batch.args}"
                      f"first + low, first + c1, ko0, ko1, kc, "
                      f"panels{x} - (first + low) * kc * {nr});"]
        return sizes, pointers, packs
