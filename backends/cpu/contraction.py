"""Lowers fragments around contractions to kernels: packed panels, register tiles, fused ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from tegg.backends.cpu import symmetric
from tegg.backends.cpu.contraction_axis import Axis
from tegg.backends.cpu.contraction_ends import (
    FIRST, Core, CoreHooks, CoreText, Ends, core_of, declared)
from tegg.backends.cpu.contraction_hooks import Hooks
from tegg.backends.cpu.contraction_lying import Lying
from tegg.backends.cpu.contraction_narrow import room
from tegg.backends.cpu.contraction_parts import Parts
from tegg.backends.cpu.contraction_passing import Passing
from tegg.backends.cpu.contraction_text import Text
from tegg.backends.cpu.contraction_tiles import shared_work
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.templates import SHORT, register
from tegg.dim import Dim, hint
from tegg.dtype import DType
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Stage, Temporary, Work
from tegg.kernel.contraction_classify import Contraction, Group, Term, classify
from tegg.kernel.contraction_memory import in_columns, in_rows
from tegg.kernel.contraction_shape import GemmParams, GemmShape, Tile, blocked, estimate
from tegg.kernel.domain import spread
from tegg.kernel.index import Var
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.slots import slots_of
from tegg.kernel.flops import flops, flops_of_rows
from tegg.kernel.value import Val, reachable
from tegg.kernel.work import bytes_read, bytes_written


def lower_contraction(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                      language: C, tile: Tile, constant: Collection[int] = ()) -> KernelCode:
    """The kernel that computes ``outputs``, whose products ``anchors`` (contractions, or sums of
    products) have the form and the register tile of ``tile``.

    What lies below the anchors' operands is evaluated while they are packed, what lies above
    while results are stored. constant: slots of inputs that hold weights; what is packed from
    those alone is a stage of its own.
    Raises LoweringError where the fragment has another form; the message says why.
    """
    slots = slots_of(graph, outputs, anchors)
    if not slots.live:
        return nothing(name)
    contraction = classify(graph, slots.live, slots.anchors, language.native, slots.slots)
    shape = shape_of(contraction, constant)
    tile = _turned(tile, contraction.swapped)
    kernel = _Kernel(name, contraction, shape, blocked(shape, tile, language.registers), language,
                     kernel_symbols(graph, outputs), slots.free)
    return kernel.code()


def _turned(tile: Tile, swapped: bool | None) -> Tile:
    """The tile, where its dtypes say which operand is which. Raises LoweringError where they do,
    and the shared operand is the first of one contraction and the second of another."""
    held = tile.held
    if held is None or held == held.swapped() or swapped is False:
        return tile
    if swapped is None:
        raise LoweringError("contractions of one kernel multiply unsigned with signed bytes, and "
                            "the operand that they share is unsigned in one and signed in another; "
                            "store one of them in a kernel of its own")
    return replace(tile, held=held.swapped())


def nothing(name: str) -> KernelCode:
    """A kernel whose outputs have no element."""
    source = f"void {name}(void *const *buffers, const int64_t *sizes, int tid, int nt) {{}}\n"
    return KernelCode(name, source, (Stage(name, frozenset(), frozenset(), False),), (), (),
                      Work(0, 0, 0, 0))


def shape_of(c: Contraction, constant: Collection[int] = ()) -> GemmShape:
    """What the choice of tiles depends on, read off a contraction."""
    terms = [t for g in c.groups for t in g.terms]
    scope = frozenset(c.batch) | frozenset(c.m)
    batched = any(t.b.deps & frozenset(c.batch) for t in terms)
    loads = [v.attr.slot for t in terms for v in reachable([t.b]) if v.op == "load"]
    return GemmShape(
        spread(c.batch), spread(c.m), tuple(spread(g.n) for g in c.groups), c.depth,
        register(terms[0].sum.dtype), tuple(len(g.terms) for g in c.groups), unit(c.a, c.m, c.k),
        tuple(unit(t.b, g.n, c.k) for g in c.groups for t in g.terms),
        _plain(c), all(_lies(c, g, t) for g in c.groups for t in g.terms),
        _cost(c.a, c.batch, c.m, c.depth),
        max(_cost(t.b, c.batch, g.n, c.depth) for g in c.groups for t in g.terms),
        max(flops(w.value, scope, frozenset(t.sum.id for t in terms))
            for g in c.groups for w in g.writes),
        batched, all(s in constant for s in loads))


def _cost(operand: Val, batch: Sequence[Var], rows: Sequence[Var], depth: Dim) -> float:
    """Operations of one element of an operand, its share of what is made once for a row included,
    and one for where it is put."""
    scope = frozenset(batch) | frozenset(rows)
    return 1.0 + flops(operand, scope) + flops_of_rows(operand, scope) / max(1, hint(depth))


def _plain(c: Contraction) -> bool:
    """Whether A can be read where it lies."""
    return register(c.a.dtype) is c.a.dtype and c.a.op == "load" and in_rows(c, c.a.attr)


def _lies(c: Contraction, g: Group, t: Term) -> bool:
    """Whether the second operand of a term can be read where it lies."""
    return (t.b.dtype is register(t.b.dtype) and t.b.op == "load"
            and in_columns(t.b.attr, c.batch, g.n, c.k))


def unit(operand: Val, free: tuple[Var, ...], k: tuple[Var, ...]) -> str:
    """Whether memory is contiguous along k, along the free variables, or along neither."""
    forms = [v.attr.form for v in reachable([operand]) if v.op == "load"]
    long = bool(k) and (len(k) == 1 or hint(k[-1].extent) >= SHORT)
    along_k = sum(f.coefficient(k[-1]) == 1 for f in forms) if long else 0
    along = sum(f.coefficient(free[-1]) == 1 for f in forms) if free else 0
    if along and along == along_k and hint(free[-1].extent) < SHORT:
        return "k"  # as windows are along their places and along their taps, of which there are few
    return "k" if along_k > along else "free" if along else "none"


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    contraction: Contraction
    shape: GemmShape
    params: GemmParams
    language: C
    symbols: tuple[str, ...]
    first: int  # slot of the first temporary
    core: Core | None = None  # it is that of another kernel
    temporaries: list[Temporary] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)

    def code(self) -> KernelCode:
        text = self._text()
        hooks = text.hooks
        params = hooks.params(self.symbols)
        hooks.row_values(params)
        if self.params.symmetric:
            symmetric.check(text)
        if self.core is None and (core := core_of(text)) is not None:
            return self._over(core, text, params)
        parts = self._operands(text, params) + (
            [self._split(text)] if self.params.parts > 1 else
            self._stages(text) if self.params.form == "packed" else [self._skinny(text)])
        return self._made("\n".join([*hooks.lines, *parts]))

    def _made(self, source: str) -> KernelCode:
        work = self._work() if self.core is None else Work(0, 0, 0, 0)
        return KernelCode(self.name, source, tuple(self.stages), tuple(self.temporaries),
                          self.symbols, work, (f"{self.params}",))

    def _text(self) -> Text:
        c = self.contraction
        columns = tuple(Axis("n", g.n, spread(g.n)) for g in c.groups)
        axes = (Axis("z", c.batch, spread(c.batch)), Axis("m", c.m, spread(c.m)),
                Axis("k", c.k, c.depth), columns)
        packed = self.params.form == "packed"
        slots = self._panels() if packed and not self.params.inline else {}
        if self.core is None:
            return Text(Hooks(self.name, c, self.language.dialect, *axes), self.shape, self.params,
                        self.symbols, slots, counted=True)
        hooks = CoreHooks(self.name, c, self.language.dialect, *axes, lines=[declared()],
                          computed=self.core.a is None, on=self.core.on, turns=self.core.turns)
        return CoreText(hooks, self.shape, self.params, self.symbols, slots, counted=True)

    def _over(self, core: Core, text: Text, params: str) -> KernelCode:
        """The kernel as what is its own over loops that many share."""
        below = _Kernel(f"{self.name}_core", core.contraction, core.shape, core.params,
                        self.language, core.symbols, FIRST, core).code()
        (group,), slots = self.contraction.groups, tuple(text.slots.values())
        for t, slot in zip(group.terms, slots):
            self.stages.append(Stage(f"{self.name}_stage{t.anchor}", reads_of([t.b]),
                                     frozenset({slot}), divisible=True))
        self._main_stage(text, self.params.inline)
        source = Ends(text, core).source(params, below, [s.function for s in self.stages], slots)
        return replace(self._made(source), core=below)

    def _panels(self) -> dict[int, int]:
        """A temporary for the panels of each B. Its size counts a last panel as full."""
        slots = {}
        for g in self.contraction.groups:
            n, nr = spread(g.n), self.params.nr
            width = -(-n // nr) * nr if isinstance(n, int) else n + (nr - 1)
            column = self.shape.batch * room(self.contraction.depth, self.params.held)
            for t in g.terms:
                slots[t.anchor] = self.first + len(self.temporaries)
                self.temporaries.append(Temporary(self._panel, column * width, column * nr))
        return slots

    @property
    def _panel(self) -> DType:
        """The dtype of panels."""
        return self.params.held.panel if self.params.held else self.shape.accumulator

    # ---- functions
    def _operands(self, text: Text, params: str) -> list[str]:
        hooks, c, units = text.hooks, self.contraction, iter(self.shape.b_units)
        packed = self.params.form == "packed"
        along_m = packed and self.shape.a_unit == "free"
        hooks.operand_a(params, along_m)
        along_k: dict[int, bool] = {}
        for g, axis in zip(c.groups, hooks.columns):
            for t in g.terms:
                along_k[t.anchor] = next(units) == "k" if packed else self.params.form == "dots"
                hooks.operand_b(params, t, axis, text.kinds_of_b(along_k[t.anchor]),
                                self.params)
        transposes = packed and (along_m or any(along_k.values()) or self.params.symmetric)
        parts = [text.transpose()] if transposes else []
        parts += [text.fill("split", **shared_work(self.params, self.shape),
                            **symmetric.shares(self.params)),
                  text.products() if packed else "", text.fill("pace") if packed else "",
                  text.operand_a(along_m)]
        for i, (g, axis) in enumerate(zip(c.groups, hooks.columns)):
            hooks.result(params, i, g, axis)
            hooks.ask(params, i, g, axis)
            parts += [text.operand_b(t, axis, along_k[t.anchor]) for t in g.terms]
            parts.append(text.result(i, g, axis))
        return parts

    def _stages(self, text: Text) -> list[str]:
        if self.params.lying:
            self._main_stage(text, True)
            return [Lying(text).stage()]
        if self.params.passing:
            self._main_stage(text, True)
            return [Passing(text).stage()]
        c, parts = self.contraction, [text.block()]
        for g, axis in zip(c.groups, text.hooks.columns):
            for t in g.terms:
                slot = text.slots.get(t.anchor)
                if slot is not None:
                    parts.append(text.stage_pack(t, axis, slot))
                    self.stages.append(Stage(f"{self.name}_stage{t.anchor}", reads_of([t.b]),
                                             frozenset({slot}), divisible=True))
        parts.append(text.stage())
        self._main_stage(text, self.params.inline)
        return parts

    def _skinny(self, text: Text) -> str:
        self._main_stage(text, True)
        return text.stage_skinny()

    def _split(self, text: Text) -> str:
        c, slot = self.contraction, self.first + len(self.temporaries)
        parts = Parts(text, slot)
        self.temporaries.append(Temporary(self.shape.accumulator, parts.size))
        operands = reads_of([c.a, *(t.b for g in c.groups for t in g.terms)])
        self.stages.append(Stage(f"{self.name}_parts", operands, frozenset({slot}),
                                 divisible=True))
        self.stages.append(Stage(self.name, self._beside() | {slot}, self._writes(),
                                 divisible=True))
        return parts.stages()

    def _main_stage(self, text: Text, reads_b: bool) -> None:
        c = self.contraction
        inline = [t.b for g in c.groups for t in g.terms] if reads_b else []
        reads = reads_of([c.a, *inline]) | self._beside() | frozenset(text.slots.values())
        self.stages.append(Stage(self.name, reads, self._writes()))

    def _beside(self) -> frozenset[int]:
        """Slots that are read beside the operands."""
        groups = self.contraction.groups
        return reads_of([v for g in groups for w in g.writes for v in w.needs()],
                      {t.sum.id for g in groups for t in g.terms})

    def _writes(self) -> frozenset[int]:
        return frozenset(w.slot for w in self.contraction.writes)

    def _work(self) -> Work:
        e = estimate(self.shape, self.params)
        shape = self.shape
        batch, m, k = hint(shape.batch), hint(shape.m), hint(shape.k)
        operands = (shape.a_cost * batch * m * k * e.a_evaluations
                    + shape.b_cost * (e.packed_bytes / self._panel.itemsize))
        results = batch * m * sum(map(hint, shape.n))
        stored = bytes_written(self.contraction.writes)
        loaded = bytes_read(self.contraction.read, self.contraction.propagation.graph)
        between = sum(hint(t.size) * t.dtype.itemsize for t in self.temporaries)
        return Work(int(e.flops + operands + shape.out_cost * results),
                    int(e.flops / 2 / (self.params.lanes * self.params.nv * self.params.mr)),
                    loaded + between, stored + between)


def reads_of(roots: Sequence[Val], sums: Collection[int] = ()) -> frozenset[int]:
    """Slots that values load from, the operands of sums left out."""
    todo, seen, slots = list(roots), set(), set()
    while todo:
        v = todo.pop()
        if v.id in seen or v.id in sums:
            continue
        seen.add(v.id)
        if v.op == "load":
            slots.add(v.attr.slot)
        todo.extend(v.args)
    return frozenset(slots)
