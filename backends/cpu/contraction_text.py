"""The C text of a contraction kernel: the templates of ``gemm/`` filled in for one shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tegg.backends.cexpr import REGISTER, dim
from tegg.backends.cpu import pieces, symmetric
from tegg.backends.cpu.c_templates import indented, within
from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_extents import vectors_of_panels
from tegg.backends.cpu.contraction_hooks import LINE, RowValue
from tegg.backends.cpu.contraction_narrow import (
    ask, beside, header, once, products_of, put_of)
from tegg.backends.cpu.contraction_rows import in_place, lines_of, whole_rows
from tegg.backends.cpu.contraction_tiles import (
    around_tiles, asked_rows, at_part, fill_tiles, in_tiles, turns)
from tegg.backends.cpu.contraction_words import Words
from tegg.kernel.ahead import PAGE
from tegg.kernel.contraction_classify import Group, Term
from tegg.kernel.value import reachable

_ON = 1024   # bytes by which rows of B that are read side by side are asked for ahead
_LINES = 8   # rows of B that a panel takes one after the other, where each is a line of a cache
_NEXT = 2048  # the same where all runs of it are: from memory a quarter of that comes late


class Text(Words):
    """Fills templates."""

    __slots__ = ()

    # ---- A
    def operand_a(self, along_m: bool) -> str:
        rows = self.hooks.rows_in([self.hooks.contraction.a])
        values = dict(row_args=self._args_of(rows, {"m": "i"}),
                      row_vectors=self._args_of(rows, {"m": "i"}, "m"))
        if along_m:
            step = self.fill("fill_m_taps" if self.hooks.taps else "fill_m", **values)
        else:
            rest = "" if self._whole_k() else self.fill("fill_k_rest", **values)
            step = self.fill("fill_k", rest=rest, **values)
        return self.fill("fill", step=step, row_params=self._params_of(rows),
                         m_of=self.hooks.m.of("row + i"))

    # ---- B
    def kinds_of_b(self, along_k: bool) -> tuple[str, ...]:
        """Suffixes of the functions that B is read with."""
        if not along_k:
            return "_n", "_n_left"
        if self.params.form != "packed":
            return "_k", "_k_left"
        return ("_k", "") if self.params.held else ("_k",) if self._whole_k() else ("_k", "_k_left")

    def operand_b(self, term: Term, axis: Axis, along_k: bool, also: str = "") -> str:
        """``also``: what is done beside where each column of B that is read along k begins."""
        h = self.hooks
        rows = h.rows_in([term.b])
        skinny = self.params.form != "packed"
        name = self.params.form if skinny else "pack_k" if along_k else "pack_n"
        grouped = "_groups" if self.params.held else ""
        columns, at = "columns", "first + j"
        if name + grouped == "pack_k":
            columns, last = str(h.dialect.width), f"{dim(axis.count)} - 1"
            at = f"first + j < {last} ? first + j : {last}"
        arrays = [f"{h.scalar(r.value.dtype)} {r.name}[{self._room(r)}];" for r in rows]
        for r in rows:
            if r.side == "batch":
                arrays.append(f"{r.name}[0] = {self._row_call(r, None)};")
        if beside := self._side("n", rows):
            fills = " ".join(f"{r.name}[j] = {self._row_call(r, axis, 'j')};" for r in beside)
            arrays.append(f"for (int64_t j = 0; j < {columns}; j++) {{ {axis.of(at)} {fills} }}")
        c = "c" if skinny else "j"
        room = self.params.together if name == "dots" else h.dialect.width
        places = ", ".join(f"{n}_[{room}]" for n in axis.names)
        keep = " ".join(f"{n}_[{c}] = {n};" for n in axis.names)
        recall = " ".join(f"const int64_t {n} = {n}_[{c}];" for n in axis.names)
        row_at = {"n": "(j0 + c < last ? j0 + c : last)" if name == "dots" else "j"}
        words = dict(
            x=str(term.anchor), N=dim(axis.count), PUT=put_of(self.params.held, term.b),
            col_arrays=indented(arrays, 4), col_args=self._args_of(rows, row_at),
            col_vectors=self._args_of(rows, {"n": "j"}, "n"),
            n_of=axis.of(at, mutable=name in ("pack_n", "rows")),
            n_args=axis.args, n_args_end=axis.args.rstrip(", "),
            n_last=axis.names[-1], n_extent=dim(axis.extents[-1]), n_carry=axis.carry(),
            n_places=places, n_keep=keep, n_recall=recall, also=also)
        if skinny:
            words |= self._ahead(term, axis, words)
            whole = self._whole_runs() if name == "dots" else self._even(axis)
            words["rest"] = "" if whole else self.fill(f"{name}_rest", **words)
        if name + grouped == "pack_k":
            words["rest"] = "" if self._whole_k() else self.fill("pack_k_rest", **words)
        if name + grouped == "pack_n":
            words["whole"] = self._whole_panels(term, axis)
            words["rest"] = "" if self._full(axis) else self.fill("pack_n_rest", **words)
        return self.fill(name + grouped, **words)

    def _ahead(self, term: Term, axis: Axis, words: Mapping[str, str]) -> dict[str, str]:
        """What runs of B ask for beside their products, where it is not part of reading them:
        several side by side, or rows in their order where a thread reads all of each."""
        h, p = self.hooks, self.params
        if not h.turning(term, axis, p):
            return dict(asks="", whole="")
        size = min(v.dtype.itemsize for v in reachable([term.b]) if v.op == "load")
        on = str((_NEXT if p.beside else _ON) // size)
        if p.form == "dots":
            return dict(asks=self.fill("dots_ask", **words, ON=on))
        beside = self._args_of(h.rows_in([term.b]), {"n": axis.names[-1]}, "n")
        whole = self.fill("rows_whole", **words, ON=str(PAGE // size), col_whole=beside)
        return dict(asks=self.fill("rows_ask", **words, ON=on),
                    whole=whole if h.m.count == 1 and not p.beside else "")

    def _whole_panels(self, term: Term, axis: Axis) -> str:
        """Panels that are filled to the last column, where columns are one variable."""
        h, nr = self.hooks, self.params.nr
        if len(axis.names) > 1 or nr % h.dialect.width:
            return ""
        rows = self._args_of(h.rows_in([term.b]), {"n": "(n0 - first)"}, "n")
        line = nr * self.shape.accumulator.itemsize <= LINE
        return self.fill("pack_whole", x=str(term.anchor), n_args=axis.args, n_last=axis.names[-1],
                         col_vectors=rows, LINES_ON=str(_LINES if line else 1))

    # ---- results
    def result(self, number: int, group: Group, axis: Axis) -> str:
        h, rows = self.hooks, self.result_rows(group)
        letter = REGISTER[self.shape.accumulator.name]
        tiles = [f"t{t.anchor}" for t in group.terms]
        sums = {n: axis.last in t.sum.deps for n, t in zip(tiles, group.terms)}
        order = self._args_of(rows, {"m": "i"}) + "".join(
            f", v{letter}_load({n} + i * ts + j)" if lanes else f", {n}[i * ts + j]"
            for n, lanes in sums.items())
        step, suffix, two = h.dialect.width, "_n", order
        if self.params.nr % (2 * step) == 0 and h.stored_in_twos(group, axis):
            two += "".join(f", v{letter}_load({n} + i * ts + j + {step})"
                           for n, lanes in sums.items() if lanes)
            step, suffix = 2 * step, "_two"
        flat = h.flat(group, axis)
        words = dict(
            g=str(number), tiles=" and ".join(tiles),
            tile_params=", ".join(f"const {h.scalar(self.shape.accumulator)} *restrict {n}"
                                  for n in tiles),
            row_params=self._params_of(rows), m_of=h.m.of("row + i"),
            n_of=axis.only_last("first + j") if flat else axis.of("first + j", mutable=True),
            n_args=axis.args, n_args_end=axis.args.rstrip(", "), n_last=axis.names[-1],
            n_extent=dim(axis.count if flat else axis.extents[-1]),
            n_carry="" if flat else axis.carry(), values=order)
        words["apart"] = "__attribute__((noinline)) " if in_tiles(self.params.held) else ""
        whole = ""
        if flat or len(axis.names) == 1:
            whole = self._whole(f"{h.name}_out{number}{suffix}", axis, step, two)
        if whole and suffix == "_two":
            h.result_of_two(self.common()["params"], number, group, axis)
        full = self._full(axis) and not self.params.symmetric  # else rows of tiles that are turned
        words["left"] = "" if self._even(axis) else self.fill("finish_left", **words)
        text = self.fill("finish", whole=whole, **words,
                         rest="" if full else self.fill("finish_rest", **words))
        if not self.params.symmetric:
            return text
        return text + self.fill("mirror", g=str(number), TURNED=str(symmetric.TURNED),
                                row_params=self._params_of(rows),
                                row_pointers=self.row_pointers(rows))

    def _whole(self, function: str, axis: Axis, step: int, values: str) -> str:
        """A whole panel in a loop of known length, in which one variable counts the columns. The
        function stores ``step`` of them."""
        h, nr = self.hooks, self.params.nr
        if nr % step:
            return ""
        call = ", ".join(filter(None, [h.args(self.symbols), f"{h.batch.args}{h.m.args}"
                                       f"{axis.args}".rstrip(", ")])) + values
        return (f"      if (cols == {nr}) {{ for (; j < {nr}; j += {step}, "
                f"{axis.names[-1]} += {step}) {function}({call}); break; }}")

    # ---- the products
    def transpose(self) -> str:
        """Interleaving the halves of two vectors: lane i of the first, of the second, and so on."""
        w = self.hooks.dialect.width
        low, high = (", ".join(str(i // 2 + half + w * (i % 2)) for i in range(w))
                     for half in (0, w // 2))
        return self.fill("transpose", low_halves=low, high_halves=high)

    def products(self) -> str:
        p, vectors = self.params, self._vectors()
        calls = [f"PRODUCT({self.hooks.name}_product_{v}, {v})"
                 for v in (vectors if p.panels == 1 else [*vectors, p.panels * p.nv])]
        return self.fill(products_of(p.held), products="\n".join(calls), header=header(p.held),
                         ask=ask(p, self.shape), **beside(p, max(self.shape.terms)))

    def choose(self, tile: int, asked: str = "next, pace") -> str:
        """The product for as many vectors as a panel has columns. asked: what it asks for."""
        p, name = self.params, self.hooks.name
        rows = ("i < whole ? in + i * stride : a + i * as, i < whole ? stride : as"
                if p.in_place else "a + i * as, as")
        at = f"t + {tile * p.mr * p.nr}"
        args = (at_part(p, at, asked) if in_tiles(p.held)
                else f"(kc, {rows}, b, {at}, kb > 0, {asked});")
        *fewer, most = self._vectors()
        if not fewer:
            return f"{name}_product_{most}{args}"
        cases = [f"case {v}: {name}_product_{v}{args} break;" for v in fewer]
        cases.append(f"default: {name}_product_{most}{args}")
        return f"switch ((cols + {p.lanes - 1}) / {p.lanes}) {{ {' '.join(cases)} }}"

    def _vectors(self) -> list[int]:
        """How many vectors of columns products are of."""
        p = self.params
        return (vectors_of_panels(self.hooks.columns, p) if self.counted
                else list(range(1, p.nv + 1)))

    def groups(self, again: bool = False) -> str:
        """Rows of A against panels of each group, one after the other. ``again``: the first panel
        is read once more after the last, further down or by the next rows."""
        if again and once(self.params, self.shape) and not in_tiles(self.params.held):
            return self._groups_once()
        groups = []
        for i, (g, axis) in enumerate(zip(self.hooks.contraction.groups, self.hooks.columns)):
            more = dict(g=str(i), N=dim(axis.count), TERMS=str(self.most_terms()))
            start = f"from{i}"
            terms = "\n".join(self.fill("term", x=str(t.anchor), choose=self.choose(n),
                                        next=self.next(t, i, again), **{"from": start}, **more)
                              for n, t in enumerate(g.terms))
            tiles = ", ".join(f"t + {n * self.params.mr * self.params.nr}"
                              for n in range(len(g.terms)))
            tiled = in_tiles(self.params.held)
            groups.append(self.fill(
                "group_tiles" if tiled else "group", terms=terms, tile_pointers=tiles,
                to=f"from{i + 1}", asks=self.asks(i, g, axis),
                **(turns(self.params, self._comes() if again else "") if tiled else {}),
                **symmetric.in_tiles(self, i),
                row_pointers_i=self.row_pointers(self.result_rows(g), "i"), **{"from": start},
                **more))
        return "\n".join(groups)

    def _groups_once(self) -> str:
        """The rows of one tile against panels of each group, which nothing reads again."""
        p, groups, size = self.params, [], self.most_terms() * self.params.mr * self.params.nr
        for i, (g, axis) in enumerate(zip(self.hooks.contraction.groups, self.hooks.columns)):
            more = {"from": f"from{i}"}
            terms = "\n".join(self.fill("term_once", x=str(t.anchor), choose=self._choose_once(n),
                                        **more) for n, t in enumerate(g.terms))
            tiles = ", ".join(f"t + u * {size} + {n * p.mr * p.nr}" for n in range(len(g.terms)))
            groups.append(self.fill(
                "group_once", g=str(i), N=dim(axis.count), TERMS=str(self.most_terms()),
                terms=terms, tile_pointers=tiles, to=f"from{i + 1}", asks=self.asks(i, g, axis),
                row_pointers_i=self.row_pointers(self.result_rows(g), "i"), **more))
        return "\n".join(groups)

    def _choose_once(self, tile: int) -> str:
        """The product with as many panels as are left."""
        p, one = self.params, self.choose(tile, "0, 0")
        if p.panels == 1:
            return one
        rows = "0 < whole ? in : a, 0 < whole ? stride : as" if p.in_place else "a, as"
        return (f"if (here == {p.panels}) {self.hooks.name}_product_{p.panels * p.nv}(kc, {rows}, "
                f"b, t + {tile * p.mr * p.nr}, kb > 0, 0, deep * {p.nr});\nelse {one}")

    def next(self, term: Term, number: int, again: bool) -> str:
        """The panel that is read after the one at hand."""
        nr = self.params.nr
        on = f"(b + deep * {nr})"
        if not again:
            return on
        first = f"(first > from{number} ? first - from{number} : 0)"
        return (f"(q + 1 < last && q + 1 < from{number + 1} ? {on} : "
                f"panels{term.anchor} + ({first} * deep + after) * {nr})")

    def asks(self, number: int, group: Group, axis: Axis) -> str:
        """Requests for the memory that the results of a tile go to, before its last sums."""
        line = self.hooks.asked(group, axis)
        if not line:
            return ""
        return self.fill("ask", **asked_rows(self.params), g=str(number), line=str(line),
                         n_args_end=axis.args.rstrip(", "), n_last=axis.names[-1],
                         m_of=self.hooks.m.of("row + r"))

    def _comes(self) -> str:
        """Requests for the next part of rows of A, where they lie as whole tiles hold them."""
        line, _ = self.lines_of_a("(row + r)", "(ko2 + ks)")
        return self.fill("comes", line=line) if line else ""

    def block(self) -> str:
        """Rows of A against panels that rest in memory."""
        a_rows = self.hooks.rows_in([self.hooks.contraction.a])
        return self.fill("packed", panel_params=self._panel_params(), groups=self.groups(True),
                         TERMS=str(self.most_terms()),
                         row_arrays=_only("fresh", self.row_arrays()),
                         panel_counts=self.panel_counts(), array_params=self.array_params(),
                         fill_a=self.fill_a(a_rows), in_place=self.in_place())

    def fill_a(self, rows: Sequence[RowValue]) -> str:
        """Evaluate the rows at hand; of an A that is read in place, those short of a tile."""
        h, first = self.hooks, f"{self.hooks.name}_fill({self.hooks.args(self.symbols)}, "
        if not self.params.in_place:
            if in_tiles(self.params.held):
                return fill_tiles(self.params, first + h.batch.args, self.row_pointers(rows, "i"),
                                  self.lines_of_a("(row + i)", "ko0"))
            return (f"          {first}{h.batch.args}row, rows, ko0, ko1, as, "
                    f"a{self.row_pointers(rows)});")
        assert not rows, "a plain load has no row values"
        return (f"          {whole_rows(h, self.params)}\n"
                f"          if (whole < rows) {first}{h.batch.args}row + whole, rows - whole, "
                f"ko0, ko1, as, a + whole * as);")

    def lines_of_a(self, row: str, depth: str) -> tuple[str, str]:
        """Where a row of A lies as tiles hold it, and the elements to the next one."""
        return lines_of(self.hooks, self.params.held, row, depth)

    def in_place(self) -> str:
        """Where rows of an A that is read in place lie."""
        return in_place(self.hooks, self.params)

    def most_terms(self) -> int:
        return max(len(g.terms) for g in self.hooks.contraction.groups)

    def terms(self) -> list[tuple[int, Term, Axis]]:
        h = self.hooks
        return [(i, t, axis) for i, (g, axis) in enumerate(zip(h.contraction.groups, h.columns))
                for t in g.terms]

    def _panel_params(self) -> str:
        kind = self.common()["TB"]
        return "".join(f"const {kind} *panels{t.anchor}, " for _, t, _ in self.terms())

    def panel_counts(self) -> str:
        """Where the panels of each group start in one row of panels of all groups."""
        lines = ["const int64_t from0 = 0;"]
        for i, axis in enumerate(self.hooks.columns):
            lines.append(f"const int64_t from{i + 1} = from{i} + ({dim(axis.count)} + "
                         f"{self.params.nr - 1}) / {self.params.nr};")
        return indented(lines, 2)

    def stage_pack(self, t: Term, axis: Axis, slot: int) -> str:
        # Blocks for tiles are so deep that threads would have few pieces to share.
        p, shared = self.params, in_tiles(self.params.held) and len(self.hooks.k.extents) == 1
        return self.fill("stage_pack", x=str(t.anchor), N=dim(axis.count), temporary=str(slot),
                         at_once=str(p.near) if shared else self.common()["KO"])

    def stage_skinny(self) -> str:
        """The stage of few rows: B is read where it lies."""
        h, groups = self.hooks, []
        for i, (g, axis) in enumerate(zip(h.contraction.groups, h.columns)):
            calls = "\n".join(
                f"        {h.name}_add{t.anchor}({h.args(self.symbols)}, {h.batch.args}col, cols, "
                f"a, as, rows, sums + {n} * rows * ts, ts, 0, "
                f"{dim(h.k.extents[0])});" for n, t in enumerate(g.terms))
            tiles = ", ".join(f"sums + {n} * rows * ts" for n in range(len(g.terms)))
            groups.append(self.fill(
                "group_skinny", g=str(i), N=dim(axis.count), to=f"from{i + 1}", terms=calls,
                terms_here=str(len(g.terms)), tile_pointers=tiles,
                row_pointers=self.row_pointers(self.result_rows(g)), **{"from": f"from{i}"}))
        a_rows = h.rows_in([h.contraction.a])
        return self.fill(
            "stage_skinny", **pieces.words(pieces.READ), panel_counts=self.panel_counts(),
            TERMS=str(self.most_terms()), panels=f"from{len(h.columns)}", groups="\n".join(groups),
            array_sizes=self.array_room("rows"), array_pointers=self.array_pointers(),
            batch_arrays=self.batch_arrays(), row_arrays=self.row_arrays(),
            row_pointers=self.row_pointers(a_rows))

    def stage(self) -> str:
        """The stage that multiplies."""
        words = self.common()
        kind, nr, depth = words["TB"], self.params.nr, words["DEEP"]
        sizes, packs, args = [], [], []
        for i, t, axis in self.terms():
            x = t.anchor
            if t.anchor in self.slots:
                at = f"batch * (from{i + 1} - from{i}) * ({depth}) * {nr}" \
                    if self.shape.b_batched else "0"
                args.append(f"(const {kind} *)buffers[{self.slots[x]}] + {at}, ")
                continue
            sizes += [f"const int64_t at_panels{x} = bytes;",
                      f"bytes += (({within('s.q1', i)} - ({within('s.q0', i)})) * ({depth}) * "
                      f"{nr} * sizeof({kind}) + 63) / 64 * 64;"]
            packs += [f"const int64_t low{x} = {within('s.q0', i)}, "
                      f"high{x} = {within('s.q1', i)};",
                      f"{kind} *const own{x} = ({kind} *)(ws + at_panels{x}) - "
                      f"low{x} * ({depth}) * {nr};",
                      f"{self.hooks.name}_pack{x}({self.hooks.args(self.symbols)}, "
                      f"{self.hooks.batch.args}low{x}, high{x}, 0, "
                      f"{dim(self.hooks.k.extents[0])}, {depth}, own{x});"]
            args.append(f"own{x}, ")
        inline = dict(batch_arrays=self.batch_arrays(), inline_sizes=indented(sizes, 2),
                      inline_packs=indented(packs, 4))
        again = 0 if self.params.in_place else pieces.AGAIN * (4 + int(self.shape.a_cost))
        shared = dict(pieces.words(pieces.MULTIPLIED), DEEP_CUTS=str(pieces.DEEP),
                      DEEP_PANELS=str(-(-again // nr)),
                      batch_arrays=_only("batch != batch_here", self.batch_arrays()))
        return self.fill(
            "stage_packed" if packs else "stage_shared", panel_counts=self.panel_counts(),
            highest=symmetric.highest(self.params),
            TERMS=str(self.most_terms()), panels=f"from{len(self.hooks.columns)}",
            **around_tiles(self.params.held), **(inline if packs else shared),
            panel_args="".join(args), array_sizes=self.array_room(str(self.params.rows)),
            array_pointers=self.array_pointers(), array_args=self.row_pointers(self.kept_rows()))


def _only(test: str, lines: str) -> str:
    """Lines that are run where a test holds."""
    return f"if ({test}) {{\n{lines}\n}}" if lines else ""
