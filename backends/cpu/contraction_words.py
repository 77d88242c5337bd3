"""What the templates of ``gemm/`` are filled with: the words of a kernel, and its row values.

A *row value* is computed once per row, per column or per batch, beside the products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.cpu.c_templates import indented, template
from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_extents import (
    depth_of_blocks, multiple, outer_loops, whole_vectors)
from tegg.backends.cpu.contraction_hooks import LINE, Hooks, RowValue
from tegg.backends.cpu.contraction_narrow import deep, held_words, piece, shares, span
from tegg.dim import product
from tegg.kernel.contraction_classify import Group
from tegg.kernel.contraction_shape import GemmParams, GemmShape

_CHAINS = 8  # sums that dot products of few rows add to in turns


@dataclass(slots=True)
class Words:
    """``slots``: anchor number -> the temporary with its panels, if it has one. ``counted``: panels
    are those of the contraction, of which none but a last one falls short. ``undivided``: those
    of the sides n and k that each call goes through from end to end."""

    hooks: Hooks
    shape: GemmShape
    params: GemmParams
    symbols: tuple[str, ...]
    slots: Mapping[int, int]
    counted: bool = False
    undivided: frozenset[str] = frozenset()
    _common: dict[str, str] = field(default_factory=dict)

    # ---- what is known before a run
    def _whole_k(self) -> bool:
        """Whether what is read along k is known to be whole vectors."""
        if "k" in self.undivided:
            return multiple(self.hooks.k.extents[-1], self.hooks.dialect.width)
        return self.counted and whole_vectors(self.hooks.k, self.common()["KO"], self.params,
                                              self.hooks.dialect.width)

    def _whole_runs(self) -> bool:
        """Whether what dot products read along k is known to be whole steps."""
        return "k" in self.undivided and multiple(
            self.hooks.k.extents[-1], int(self.common()["CHAINS"]) * self.hooks.dialect.width)

    def _even(self, axis: Axis) -> bool:
        """Whether columns that are gone through together are known to be whole vectors."""
        width = self.hooks.dialect.width
        return ((self.counted or "n" in self.undivided) and not self.params.symmetric
                and self.params.nr % width == 0 and multiple(axis.extents[-1], width))

    def _full(self, axis: Axis) -> bool:
        """Whether every panel is known to be full, and is a loop of known length. Of a B that is
        read where it lies threads share vectors, and a last panel may have any number of them."""
        panels = self.counted and self.params.form == "packed" and not self.params.lying \
            or "n" in self.undivided
        return (panels and len(axis.names) == 1
                and self.params.nr % self.hooks.dialect.width == 0
                and multiple(axis.count, self.params.nr))

    # ---- what all templates know
    def common(self) -> Mapping[str, str]:
        if not self._common:
            self._common = self._words()
        return self._common

    def _words(self) -> dict[str, str]:
        h, p = self.hooks, self.params
        d = self.shape.accumulator
        letter = REGISTER[d.name]
        inner = product(h.k.extents[1:])
        chains = max(1, _CHAINS // (p.abreast * max(1, p.together)))
        total = " + ".join(f"acc[i][c * {chains} + {u}]" for u in range(chains))
        # Sums of rows are loaded and stored, which GCC does by way of the stack to vectors of two
        # registers that a fused multiply-add gave.
        fused = d.is_float and (p.form == "dots" or d.itemsize == 4)
        together, most = piece(p, [a.count for a in h.columns])
        steps, stride = depth_of_blocks(h.k, p, d, h.dialect.width, h.m.count)
        return dict(
            **held_words(p.held, h, d), CHAINS=str(chains),
            IN_LINE=str(max(1, LINE // (h.dialect.width * d.itemsize))),
            TOGETHER=str(p.together), TOTAL=total,
            k=h.name, T=h.scalar(d), V=h.vector(d), W=str(h.dialect.width),
            SEL=f"v{letter}_sel", HADD=f"v{letter}_hadd",
            MADD=f"v{letter}_fma" if fused else "ADD_PRODUCT",
            MADD1=f"s{letter}_fma" if fused else "ADD_PRODUCT",
            SPLAT=f"v{letter}_splat", STORE=f"v{letter}_store",
            LOAD=f"v{letter}_load", MR=str(p.mr), R=str(p.abreast), NR=str(p.nr),
            DEEP=deep(h.k.count, p.held), LANES=str(p.lanes), MC=str(p.rows),
            SPAN=span(p, h.m.count), PIECE=together, MOST=str(most),
            BYTES=str(p.lanes * d.itemsize), GROUPS=str(p.nr // h.dialect.width),
            **shares(p, d), PANELS=str(p.panels),
            TILES=str(p.tiles),
            M=dim(h.m.count), K=dim(h.k.count), B=dim(h.batch.count), KO=steps, AS=stride,
            K_outer=dim(h.k.extents[0]),
            k_inner=dim(inner), k_open=outer_loops(h.k), k_last=h.k.names[-1],
            k_low="ko0" if len(h.k.names) == 1 else "0",
            k_high="ko1" if len(h.k.names) == 1 else dim(h.k.extents[-1]),
            params=h.params(self.symbols), args=h.args(self.symbols),
            unpack=h.unpack(self.symbols), b_params=h.batch.params, b_args=h.batch.args,
            b_of=h.batch.of("batch") if h.batch.vars else "const int64_t z0 = batch; (void)z0;",
            m_args=h.m.args, k_args_end=h.k.args.rstrip(", "),
            k_args_plus=h.k.args.rstrip(", ") + " + u",
            m_last=h.m.names[-1], m_extent=dim(h.m.extents[-1]))

    def fill(self, name: str, **more: str) -> str:
        return template(name).substitute(self.common(), **more)

    # ---- row values
    def _params_of(self, rows: Sequence[RowValue]) -> str:
        return "".join(f", const {self.hooks.scalar(r.value.dtype)} *{r.name}" for r in rows)

    def _args_of(self, rows: Sequence[RowValue], at: Mapping[str, str],
                 lanes: str = "") -> str:
        """Row values as arguments: an element, or a vector where lanes follow the side."""
        out = ""
        for r in rows:
            if r.side == lanes:
                out += f", v{REGISTER[r.value.dtype.name]}_load({r.name} + {at[r.side]})"
            else:
                out += f", {r.name}[{at.get(r.side, '0')}]"
        return out

    def _row_call(self, r: RowValue, axis: Axis | None, at: str = "0") -> str:
        """The element ``at`` of a row value. Those that it is computed from come before it."""
        args = self.hooks.batch.args + (axis.args if axis else "")
        below = [f"{e.name}[{at if e.side == r.side else '0'}]" for e in self.hooks.rows_below(r)]
        every = [self.hooks.args(self.symbols), args.rstrip(", "), *below]
        return f"{self.hooks.name}_{r.name}({', '.join(filter(None, every))})"

    def _side(self, side: str, rows: Sequence[RowValue] | None = None) -> list[RowValue]:
        return [r for r in (self.hooks.rows if rows is None else rows) if r.side == side]

    def _room(self, r: RowValue) -> int:
        width = self.hooks.dialect.width
        panels = (piece(self.params, [a.count for a in self.hooks.columns])[1]
                  if self.params.form == "packed" else self.params.span)
        return panels * self.params.nr + width if r.side == "n" else 1

    def result_rows(self, group: Group) -> list[RowValue]:
        return self.hooks.rows_in([v for w in group.writes for v in w.needs()])

    def kept_rows(self) -> list[RowValue]:
        """Row values that the block computes: those of A and of the results."""
        c = self.hooks.contraction
        return self.hooks.rows_in([c.a, *(v for g in c.groups for w in g.writes
                                          for v in w.needs())])

    def row_pointers(self, rows: Sequence[RowValue], at: str = "") -> str:
        return "".join(f", {r.name}{f' + {at}' if at and r.side == 'm' else ''}" for r in rows)

    def row_arrays(self, kept: Sequence[RowValue] | None = None) -> str:
        """Fill the arrays over rows for the rows at hand."""
        rows = self._side("m", self.kept_rows() if kept is None else kept)
        if not rows:
            return ""
        m = self.hooks.m
        fills = " ".join(f"{r.name}[i] = {self._row_call(r, m, 'i')};" for r in rows)
        return f"    for (int64_t i = 0; i < rows; i++) {{ {m.of('row + i')} {fills} }}"

    def rows_in_blocks(self) -> dict[str, str]:
        """The words by which arrays over many rows are filled, and are those of a block of them."""
        def each(what: str, by: int) -> str:
            return indented([f"{self.hooks.scalar(r.value.dtype)} *const {what.format(r.name)};"
                             for r in self.kept_rows() if r.side == "m"], by)
        return dict(row_arrays=self.row_arrays(), row_every=each("every_{0} = {0}", 2),
                    row_here=each("{0} = every_{0} + (row - tall0)", 12))

    def batch_arrays(self, kept: Sequence[RowValue] | None = None) -> str:
        return indented([f"{r.name}[0] = {self._row_call(r, None)};"
                         for r in self._side("batch", self.kept_rows() if kept is None else kept)],
                        4)

    def array_room(self, rows: str, kept: Sequence[RowValue] | None = None) -> str:
        """Declarations of the arrays behind the rest of the scratch memory."""
        out = []
        for r in self.kept_rows() if kept is None else kept:
            size = f"({rows} + {self.hooks.dialect.width})" if r.side == "m" else "1"
            kind = self.hooks.scalar(r.value.dtype)
            out.append(f"const int64_t at_{r.name} = bytes; "
                       f"bytes += ({size} * sizeof({kind}) + 63) / 64 * 64;")
        return indented(out, 2)

    def array_pointers(self, kept: Sequence[RowValue] | None = None) -> str:
        return indented([f"{self.hooks.scalar(r.value.dtype)} *const {r.name} = (void *)(ws + "
                         f"at_{r.name});" for r in (self.kept_rows() if kept is None else kept)],
                        2)

    def array_params(self) -> str:
        return "".join(f", {self.hooks.scalar(r.value.dtype)} *{r.name}"
                       for r in self.kept_rows())
