"""The C text of a product whose depth is split: sums of parts in memory, then their total."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tegg.backends.cexpr import dim
from tegg.backends.cpu import symmetric
from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_hooks import RowValue
from tegg.backends.cpu.c_templates import indented
from tegg.backends.cpu.contraction_text import Text
from tegg.dim import Dim, product
from tegg.kernel.contraction_classify import Group


@dataclass(slots=True)
class Parts:
    """Fills the templates of both stages. The parts, and the order in which their sums are added,
    are the same for any number of threads. ``slot``: the temporary with the sums."""

    text: Text
    slot: int

    @property
    def size(self) -> Dim:
        """Elements of the temporary, tiles at the edges counted as whole."""
        h, p = self.text.hooks, self.text.params
        if p.form != "packed":
            return product((p.parts, h.batch.count, h.m.count, self._columns(None)))
        wide: Dim = 0
        for axis in h.columns:
            wide = wide + (axis.count + (p.nr - 1))
        return product((p.parts * self.text.most_terms(), h.batch.count, h.m.count + (p.mr - 1),
                        wide))

    def stages(self) -> str:
        """Both stages: the parts, and the whole."""
        if self.text.params.form == "packed":
            return self._parts() + self._whole("whole", "group_whole")
        return self._parts_skinny() + self._whole("whole_skinny", "group_whole_skinny")

    def _groups(self) -> Iterator[tuple[int, Group, Axis, dict[str, str]]]:
        """Groups of outputs with what their templates know."""
        h = self.text.hooks
        for i, (g, axis) in enumerate(zip(h.contraction.groups, h.columns)):
            yield i, g, axis, {"N": dim(axis.count), "from": f"from{i}", "to": f"from{i + 1}"}

    def _columns(self, before: int | None) -> Dim:
        """Columns of all terms of the groups before one."""
        h, total = self.text.hooks, 0
        for g, axis in list(zip(h.contraction.groups, h.columns))[:before]:
            total = total + axis.count * len(g.terms)
        return total

    def _a_rows(self) -> list[RowValue]:
        return self.text.hooks.rows_in([self.text.hooks.contraction.a])

    def _shared(self, rows: list[RowValue], count: str) -> dict[str, str]:
        """What both stages know; ``rows``: the row values that this one computes."""
        t = self.text
        return dict(temporary=str(self.slot), PARTS=str(t.params.parts),
                    array_sizes=t.array_room(count, rows), array_pointers=t.array_pointers(rows),
                    batch_arrays=t.batch_arrays(rows), row_arrays=t.row_arrays(rows))

    # ---- sums of parts
    def _parts(self) -> str:
        t, h, p = self.text, self.text.hooks, self.text.params
        kind, groups, sizes, pointers, packs = h.scalar(t.shape.accumulator), [], [], [], []
        for i, g, axis, names in self._groups():
            for term in g.terms:
                x = term.anchor
                sizes += [f"const int64_t at_panels{x} = bytes;",
                          f"bytes += (from{i + 1} - from{i}) * steps * "
                          f"({dim(product(h.k.extents[1:]))}) * {p.nr} * sizeof({kind});"]
                pointers.append(f"{kind} *const panels{x} = ({kind} *)(ws + at_panels{x});")
                packs.append(f"{h.name}_pack{x}({h.args(t.symbols)}, {h.batch.args}0, from{i + 1} "
                             f"- from{i}, ko0, ko1, deep, panels{x});")
            terms = "\n".join(t.fill("term", x=str(term.anchor), choose=t.choose(n),
                                     next=t.next(term, i, False), **names)
                              for n, term in enumerate(g.terms))
            groups.append(t.fill("group_parts", terms=terms, TERMS=str(t.most_terms()), **names,
                                 **symmetric.in_parts(t, i)))
        rows = self._a_rows()
        return t.fill("parts", panel_counts=t.panel_counts(), panels=f"from{len(h.columns)}",
                      panel_sizes=indented(sizes, 2), panel_pointers=indented(pointers, 2),
                      packs=indented(packs, 8), fill_a=t.fill_a(rows), in_place=t.in_place(),
                      groups="\n".join(groups), TERMS=str(t.most_terms()),
                      **self._shared(rows, str(p.rows)))

    def _parts_skinny(self) -> str:
        t, h, groups = self.text, self.text.hooks, []
        for i, g, axis, names in self._groups():
            start = dim(self._columns(i))
            calls = [f"{h.name}_add{term.anchor}({h.args(t.symbols)}, {h.batch.args}col, cols, a, "
                     f"as, rows, sums + rows * ({start} + {n} * ({names['N']})) + col, "
                     f"{names['N']}, ko0, ko1);" for n, term in enumerate(g.terms)]
            groups.append(t.fill("group_parts_skinny", N=names["N"], terms=indented(calls, 8)))
        rows = self._a_rows()
        return t.fill("parts_skinny", wide=dim(self._columns(None)), groups="\n".join(groups),
                      row_pointers=t.row_pointers(rows), **self._shared(rows, "rows"))

    # ---- the whole
    def _whole(self, name: str, group: str) -> str:
        t, h, p = self.text, self.text.hooks, self.text.params
        packed, groups = p.form == "packed", []
        tile = str(p.mr * p.nr) if packed else "rows * ts"
        rows: dict[str, RowValue] = {}
        for i, g, _, names in self._groups():
            mine = t.result_rows(g)
            rows.update({r.name: r for r in mine})
            tiles = ", ".join(f"t + {n} * {tile}" for n in range(len(g.terms)))
            more = symmetric.in_whole(t, i) if packed else {"before": dim(self._columns(i))}
            groups.append(t.fill(group, g=str(i), PARTS=str(p.parts), tile_pointers=tiles,
                                 terms_here=str(len(g.terms)), row_pointers=t.row_pointers(mine),
                                 **more, **names))
        more = {} if packed else {"wide": dim(self._columns(None))}
        return t.fill(name, panel_counts=t.panel_counts(), panels=f"from{len(h.columns)}",
                      groups="\n".join(groups), TERMS=str(t.most_terms()), **more,
                      **self._shared(list(rows.values()), str(p.mr) if packed else "rows"))
