"""Lowers fragments around attention: blocks of scores that never leave the cache, whose keys and
values are packed, or are read where they lie by few queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tegg.backends.cexpr import MEMORY, REGISTER, dim
from tegg.backends.cpu import pieces
from tegg.backends.cpu.attention_forms import ROWS, Blocks
from tegg.backends.cpu.attention_plain import generalized
from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_hooks import LINE, Hooks
from tegg.backends.cpu.contraction import nothing, unit
from tegg.backends.cpu.c_templates import template
from tegg.backends.cpu.contraction_tiles import around_tiles, fill_tiles, in_tiles
from tegg.backends.cpu.contraction_text import Text
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.templates import abreast, register
from tegg.dim import Dim
from tegg.dtype import DType
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.attention_classify import Attention, classify_attention
from tegg.kernel.attention_work import attention_work
from tegg.kernel.code import KernelCode, Stage, Work, at_given
from tegg.kernel.contraction_classify import Contraction
from tegg.kernel.contraction_held import TILE
from tegg.kernel.contraction_shape import GemmParams, GemmShape, Tile, blocked
from tegg.kernel.domain import spread
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.registers import lanes_of
from tegg.kernel.slots import slots_of
from tegg.kernel.value import reachable

_SPAN = 32  # blocks of queries that share the panels of a block of keys


def lower_attention(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                    language: C, blocks: Blocks) -> KernelCode:
    """The kernel that computes ``outputs`` from an attention; ``anchors``: the contraction of its
    scores, and the attention.

    What lies below the operands of both products is evaluated while they are packed, what lies
    between the products on scores in cache, what lies above while results are stored.
    Raises LoweringError where the fragment has another form; the message says why.
    """
    slots = slots_of(graph, outputs, anchors)
    if not slots.live:
        return nothing(name)
    if any(a.op.alone for a in anchors):
        raise LoweringError("scores of attention are summed block by block, and none of them is "
                            "stored twice; take them for those of any product")
    attention = classify_attention(graph, slots.live, anchors, language.native, slots.slots)
    work, general = attention_work(attention), generalized(attention, blocks.rows)
    if general is None:
        return _Kernel(name, attention, language, blocks, kernel_symbols(graph, outputs)).code(work)
    made = _Kernel(name, general.attention, language, blocks, general.symbols).code(work)
    return at_given(made, general.given, general.takes)


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    attention: Attention
    language: C
    blocks: Blocks
    symbols: tuple[str, ...]

    def code(self, work: Work) -> KernelCode:
        a = self.attention
        buffers = self._buffers()
        second = self._text(f"{self.name}_v", a.second, buffers)
        first = self._text(f"{self.name}_s", a.first, buffers)
        params = second.hooks.params(self.symbols)
        parts = [*self._product(first, params, self._coming(second, first, params)),
                 *self._product(second, params)]
        column = second.hooks.columns[0]
        second.hooks.result(params, 0, a.second.groups[0], column)
        parts.append(second.result(0, a.second.groups[0], column))
        self._between(first.hooks, params)
        parts.append(self._stage(first, second))
        source = "\n".join([*second.hooks.lines, *first.hooks.lines, *parts])
        written = frozenset(s for s, (_, stored) in buffers.items() if stored)
        stage = Stage(self.name, frozenset(buffers) - written, written)
        return KernelCode(self.name, source, (stage,), (), self.symbols, work,
                          (f"{self.blocks}",))

    @property
    def accumulator(self) -> DType:
        return register(self.attention.scores.dtype)

    @property
    def packs(self) -> bool:
        """Whether keys and values are packed."""
        return self.blocks.kind != ROWS

    # ---- the two products
    def _buffers(self) -> dict[int, tuple[DType, bool]]:
        """Slot -> dtype and whether it is written."""
        out = {v.attr.slot: (v.dtype, False) for v in reachable(self.attention.read)
               if v.op == "load"}
        out.update({w.slot: (w.value.dtype, True) for w in self.attention.second.writes})
        return dict(sorted(out.items()))

    def _text(self, name: str, c: Contraction, buffers: Mapping[int, tuple[DType, bool]]) -> Text:
        """A product's hooks and templates."""
        (group,) = c.groups
        m, n = spread(c.m), spread(group.n)
        hooks = Hooks(name, c, self.language.dialect, Axis("z", c.batch, spread(c.batch)),
                      Axis("m", c.m, m), Axis("k", c.k, c.depth), (Axis("n", group.n, n),),
                      memory=buffers)
        (term,) = group.terms
        shape = GemmShape(spread(c.batch), m, (n,), c.depth, self.accumulator,
                          a_unit=unit(term.a, c.m, c.k), b_units=(unit(term.b, group.n, c.k),))
        undivided = "k" if c is self.attention.first else "n"
        return Text(hooks, shape, self._params(shape), self.symbols, {},
                    undivided=frozenset(undivided))

    def _params(self, shape: GemmShape) -> GemmParams:
        """How a product goes through its operands."""
        blocks, held, registers = self.blocks, self.blocks.held, self.language.registers
        if not self.packs:
            form = "dots" if shape.b_units[0] == "k" else "rows"
            return blocked(shape, Tile(form, rows=abreast(shape.m, registers)), registers)
        lanes = TILE if in_tiles(held) else lanes_of(self.accumulator, registers.width)
        rows, vectors = blocks.register_tile(_short(shape.m, blocks.rows), shape.n[0],
                                             self.accumulator, registers)
        return GemmParams("packed", lanes, rows, vectors, 1, blocks.rows, 1,
                          max(1, 256 // (vectors * lanes)), True, held=held)

    def _coming(self, second: Text, first: Text, params: str) -> str:
        """The values of a key, which are asked for where its product with queries begins."""
        (term,), (column,) = self.attention.second.groups[0].terms, second.hooks.columns
        name = "" if self.packs or first.params.form != "dots" or len(column.vars) != 1 else \
            second.hooks.later(params, term, column)
        if not name:
            return ""
        (key,) = first.hooks.columns[0].names
        size = min(v.dtype.itemsize for v in reachable([term.b]) if v.op == "load")
        return (f"for (int64_t at = 0; at < {dim(column.count)}; at += {LINE // size}) "
                f"{name}({second.hooks.args(self.symbols)}, {second.hooks.batch.args}at, {key});")

    def _product(self, text: Text, params: str, also: str = "") -> list[str]:
        """The functions that fill and pack operands, and multiply. ``also``: what is done beside
        where a key begins."""
        hooks, first = text.hooks, text.hooks.contraction is self.attention.first
        (term,), (column,) = hooks.contraction.groups[0].terms, hooks.columns
        along_k = text.shape.b_units[0] == "k"
        along_m = self.packs and first and text.shape.a_unit == "free"
        if first:
            hooks.operand_a(params, along_m)
        hooks.operand_b(params, term, column, text.kinds_of_b(along_k), text.params)
        multiplied = [text.transpose() if along_m or along_k else "",
                      text.products()] if self.packs else []
        return [*multiplied, text.operand_a(along_m) if first else "",
                text.operand_b(term, column, along_k, also)]

    # ---- between them
    def _between(self, hooks: Hooks, params: str) -> None:
        """The functions of a score, and of the keys that a row sees."""
        a, (keys,) = self.attention, hooks.columns
        kind = hooks.vector if self._varies else hooks.scalar
        for i, v in enumerate(a.columns):
            for name, masked in ((f"column{i}", False), (f"column{i}_left", True)):
                hooks.hook(name, params, [keys], [v], (), keys, masked, {})
        given = {a.product.id: (f"const {kind(a.product.dtype)}", "s0"),
                 **{v.id: (f"const {hooks.vector(v.dtype)}", f"c{i}")
                    for i, v in enumerate(a.columns)}}
        for name, masked in (("score", False), ("score_left", True)):
            hooks.hook(name, params, [hooks.m, keys], [a.scores], (), keys, masked, given)
        for i, b in enumerate(a.bounds):
            hooks.hook(f"bound{i}", params, [hooks.m], [b.value], (), None, False, {})

    @property
    def _varies(self) -> bool:
        """Whether a product differs between keys."""
        return bool(set(self.attention.keys) & self.attention.product.deps)

    def _bounds(self, first: Text) -> str:
        hooks, lines = first.hooks, []
        for i, b in enumerate(self.attention.bounds):
            call = ", ".join(filter(None, [hooks.args(self.symbols),
                                           f"{hooks.batch.args}{hooks.m.args}".rstrip(", ")]))
            name, sign = ("high", "<") if b.upper else ("low", ">")
            lines.append(f"  {{ const int64_t at = {hooks.name}_bound{i}({call}); "
                         f"if (at {sign} {name}) {name} = at; }}")
        if not lines:
            return ""
        return "\n".join([f"  {hooks.m.of('row')}", *lines])

    def _columns(self, first: Text) -> dict[str, str]:
        """Arrays of what depends on the key alone: room, parameters, and how they are filled."""
        hooks, width = first.hooks, first.hooks.dialect.width
        (keys,) = hooks.columns
        room, params, args, fills, loads = [], [], [], [], []
        for i, v in enumerate(self.attention.columns):
            letter = REGISTER[v.dtype.name]
            call = (f"({hooks.args(self.symbols)}, {hooks.batch.args}{keys.names[0]}")
            name = f"{hooks.name}_column{i}"
            room.append(f" X({hooks.scalar(v.dtype)}, column{i}, width + {width})")
            params.append(f", const {hooks.scalar(v.dtype)} *restrict column{i}")
            args.append(f", column{i} - base")
            loads.append(f", v{letter}_load(column{i} + {keys.names[0]})")
            store = f"v{letter}_store(column{i} + j, {name}"
            fills += [f"        if (left >= {width}) {store}{call}));",
                      f"        else {store}_left{call}, left));"]
        if fills:
            fills = [f"      for (int64_t j = from - base; j < to - base; j += {width}) {{",
                     f"        const int64_t {keys.names[0]} = base + j;",
                     f"        const int left = keys - {keys.names[0]} < {width} ? keys - "
                     f"{keys.names[0]} : {width};", *fills, "      }"]
        return dict(column_room="".join(room), column_params="".join(params),
                    column_args="".join(args), column_loads="".join(loads),
                    columns="\n".join(fills))

    # ---- the stage
    def _stage(self, first: Text, second: Text) -> str:
        letter = REGISTER[self.accumulator.name]
        p, q, keys = first.params, second.params, self.attention.second.depth
        step = max(p.nr, p.held.grain if p.held else 1) if self.packs else first.hooks.dialect.width
        most = -(-self.blocks.keys // step) * step
        apart = p.nr if self.packs else most + first.hooks.dialect.width
        at = f"v{letter}_load(t + i * {apart} + j)" if self._varies else f"t[i * {apart} + j]"
        words = {
            **first.common(), "k": self.name, "unpack": second.hooks.unpack(self.symbols),
            **self._columns(first), "KEYS": dim(keys), "N": dim(second.hooks.columns[0].count),
            "NR2": str(q.nr), "ROWS": str(self.blocks.rows), "JB": str(most),
            "PIECES": str(pieces.MOST), "fill": self._fill(first)}
        between = template("attention_scores").substitute(
            words, bounds=self._bounds(first), WEIGHT=self._store_weight(),
            SPLAT=f"v{letter}_splat", MAX=f"v{letter}_max", HMAX=f"v{letter}_hmax",
            EXP=self.language.dialect.ops["Exp", "float"].split("(")[0]
            .format(m="vd_" if letter == "d" else "v_"), m_of=first.hooks.m.of("row + i"), sum=at,
            key_name=first.hooks.columns[0].names[0])
        if not self.packs:
            return between + template("attention_rows").substitute(words, TS=str(apart))
        return between + template("attention_blocks").substitute(
            words, **around_tiles(p.held), MR2=str(q.mr), STEP=str(step),
            TILES=str(-(-self.blocks.rows // q.mr)), SPAN=str(_SPAN), block=self._order(),
            product=_choose(first, f"({words['K']}, a + i * as, as, b, t, 0, next, 64);"),
            **self._weights(second, words["TA"]))

    def _store_weight(self) -> str:
        """What rounds weights to what they are held in, and stores them."""
        held = self.blocks.held
        kind = held.rows if held is not None and held.rows is not None else self.accumulator
        return f"v{MEMORY[kind.name]}_store"

    def _fill(self, first: Text) -> str:
        """Rows of queries, as their product reads them."""
        words = first.common()
        call = f"{first.hooks.name}_fill({words['args']}, {words['b_args']}"
        if not in_tiles(first.params.held):
            return f"        {call}row, rows, 0, {words['K_outer']}, as, a);"
        return (f"        {{ const int64_t ko0 = 0, ko1 = {words['K_outer']}, kc = {words['K']}, "
                f"tall = (rows + {first.params.mr - 1}) / {first.params.mr} * {first.params.mr};\n"
                f"{fill_tiles(first.params, call, '')} }}")

    def _weights(self, second: Text, kind: str) -> dict[str, str]:
        """The product of weights with values. Weights lie where the scores were, and so a row of
        narrow ones is as far from the next; tiles of them are put into their order first."""
        p = second.params
        if in_tiles(p.held):
            assert p.held is not None
            return dict(
                weights_room=f" X({kind}, weights, {p.mr} * ps)",
                order=f"          tiles_order(weights, p + i * ps, ps * sizeof(*p), {p.mr}, "
                      f"(kc + {p.held.grain - 1}) / {p.held.grain});",
                weighted=_choose(second, "(kc, weights, 0, b, o, more, next, 64);"))
        at = f"(const {kind} *)(p + i * ps), ps * (sizeof(*p) / sizeof({kind}))"
        return dict(weights_room="", order="",
                    weighted=_choose(second, f"(kc, {at}, b, o, more, next, 64);"))

    def _order(self) -> str:
        """Where rows see different keys, threads take blocks from both ends: equal work."""
        at = "(begin + c)"
        return f"({at} % 2 ? blocks - 1 - {at} / 2 : {at} / 2)" if self.attention.bounds else at


def _short(m: Dim, rows: int) -> Dim:
    """Rows of one block."""
    return min(m, rows) if isinstance(m, int) else rows


def _choose(text: Text, args: str) -> str:
    """The product for as many vectors as are wanted."""
    p, name = text.params, text.hooks.name
    cases = [f"case {v}: {name}_product_{v}{args} break;" for v in range(1, p.nv)]
    return (f"switch ((cols + {p.lanes - 1}) / {p.lanes}) {{ {' '.join(cases)} "
            f"default: {name}_product_{p.nv}{args} }}")
