"""Lowering: output nodes of a graph to the source of one kernel, a function per stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tegg.dim import Dim, Poly, product, symbols
from tegg.dtype import DType
from tegg.ir.graph import Graph, Node
from tegg.kernel import across
from tegg.kernel.ahead import ahead
from tegg.kernel.code import KernelCode, Launch, Stage, Temporary, Work
from tegg.kernel.domain import Write, settle
from tegg.kernel.fuse import fuse
from tegg.kernel.index import Algebra, Form, Gathered, Guard
from tegg.kernel.lane import Lanes
from tegg.kernel.lined import lined
from tegg.kernel.loops import Function, Let, Turn, divisible, verify, walk, writes
from tegg.kernel.order import nests
from tegg.kernel.partial import (
    combined,
    exchanged,
    partial_dtype,
    partial_size,
    partial_write,
    splittable,
)
from tegg.kernel.past import past
from tegg.kernel.place import Limits, Placer
from tegg.kernel.propagate import Propagation, Splits
from tegg.kernel.scan import Blocks, Target, blocked, followers, scan_writes
from tegg.kernel.segments import pieces
from tegg.kernel.stored import left_to_stores
from tegg.kernel.value import reachable
from tegg.kernel.vectorise import Vectoriser
from tegg.kernel.widths import Widths
from tegg.kernel.work import measure


@dataclass(frozen=True, slots=True)
class Templated:
    """Functions that a template spells: their stages, and what they execute."""

    source: str
    stages: tuple[Stage, ...]
    work: Work


Template = Callable[[Node, str, tuple[int, ...], int, Callable[[DType, Dim], int],
                     tuple[str, ...]], Templated]
"""``(node, name, slots read, slot written, a new temporary's slot, symbols) -> Templated``."""


class Language(Protocol):
    """What lowering asks of a printer."""

    width: int                # lanes of a vector

    @property
    def native(self) -> frozenset[str]:
        """Named elementwise ops that have a spelling."""

    @property
    def doubles(self) -> bool:
        """Whether it has float64, in which long products and running sums are kept."""

    @property
    def templates(self) -> Mapping[str, Template]:
        """Staged ops that are written out by hand, by name."""

    def function(self, algebra: Algebra, function: Function) -> str:
        """The source of one function."""

    def launch(self, algebra: Algebra, function: Function) -> Launch | None:
        """How it is started, where the device runs blocks of threads."""


@dataclass(frozen=True, slots=True)
class Loops:
    """One function as loops."""

    function: Function
    algebra: Algebra
    parallel: bool
    copy: tuple[int, int] | None = None

    def stage(self, language: Language) -> Stage:
        """The stage that it is."""
        f = self.function
        slots = frozenset(w.slot for w in writes(f.body))
        reads = frozenset(s.value.attr.slot for s, _ in walk(f.body)
                          if isinstance(s, (Let, Turn)) and s.value.op == "load")
        return Stage(f.name, reads, slots, self.parallel, language.launch(self.algebra, f),
                     self.copy, divisible=divisible(f.body))


@dataclass(slots=True)
class Lowering:
    """One kernel being lowered: which slot holds which node, and the stages so far."""

    graph: Graph
    name: str
    language: Language
    limits: Limits
    inputs: int
    outputs: tuple[Node, ...]
    stored: dict[int, int] = field(default_factory=dict)      # node id -> slot, of earlier stages
    temporaries: list[Temporary] = field(default_factory=list)
    functions: list[Loops | Templated] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    widths: Widths = field(default_factory=Widths)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The sizes that the kernel takes, by name."""
        return kernel_symbols(self.graph, self.outputs)

    def is_stored(self, node: Node) -> bool:
        """Whether a node lies in memory, given or written by an earlier stage."""
        return node.id in self.stored

    def wanted(self, node: Node, besides: Sequence[Node]) -> bool:
        """Whether an output that is not yet stored needs a node, other than some of them."""
        todo = [o for o in self.outputs if o not in besides and o.id not in self.stored]
        seen: set[int] = set()
        while todo:
            n = todo.pop()
            if n is node:
                return True
            if n.id not in seen and n.id not in self.stored:
                seen.add(n.id)
                todo.extend(n.args)
        return False

    def slot_of(self, node: Node) -> int:
        """The output slot of a node, or a temporary made for it."""
        for i, out in enumerate(self.outputs):
            if out is node:
                return self.inputs + i
        return self.temporary(node.dtype, product(node.shape))

    def temporary(self, dtype: DType, size: Dim) -> int:
        """The slot of a new temporary."""
        self.temporaries.append(Temporary(dtype, size))
        return self.inputs + len(self.outputs) + len(self.temporaries) - 1

    def whole(self, targets: Sequence[Target], copy: tuple[int, int] | None = None) -> None:
        """A stage that writes nodes to slots; ``copy``: one, as it lies in another slot."""
        write = pieces if len(targets) == 1 and self.limits.vector else _writes
        self.stage(lambda p: [w for slot, node in targets for w in write(p, slot, node)], copy)

    def settled(self, write: Callable[[Propagation], list[Write]]
                ) -> tuple[Propagation, list[Write]]:
        """Writes whose loops are split where their indices ask for it."""
        def propagation(splits: Splits) -> Propagation:
            return Propagation(self.graph, self.language.native, splits, self.stored,
                               doubles=self.language.doubles)

        return settle(propagation, write)

    def written(self, node: Node) -> list[Write]:
        """How a node would be written whole."""
        return self.settled(lambda p: _writes(p, 0, node))[1]

    def stage(self, write: Callable[[Propagation], list[Write]],
              copy: tuple[int, int] | None = None) -> None:
        """One function that does some writes."""
        p, writes = self.settled(write)
        while found := splittable(writes):
            slots = [self.temporary(partial_dtype(v), partial_size(v)) for v in found]
            self._function(p, [partial_write(p, v, slot) for v, slot in zip(found, slots)])
            memo = {v.id: combined(p, v, slot) for v, slot in zip(found, slots)}
            writes = [exchanged(p, w, memo) for w in writes]
        self._function(p, writes, copy)

    def _function(self, p: Propagation, writes: Sequence[Write],
                  copy: tuple[int, int] | None = None) -> None:
        """The function that does some writes."""
        vectors = Vectoriser(Lanes(p.algebra, self.language.width))
        placed = nests(writes, lambda: Placer(p.values, vectors, self.limits))
        body = left_to_stores(fuse([s for nest in placed for s in nest.body]))
        verify(body)
        self.notes += [note for nest in placed for note in nest.notes]
        self.widths.add(body, vectors.lanes)
        buffers = self._buffers(writes)
        self.works.append(measure(body, self.language.width, buffers))
        parallel = any(getattr(s, "shared", False) for s, _ in walk(body))
        dtypes = {slot: d for slot, (d, _) in sorted(buffers.items())}
        function = Function(f"{self.name}_{len(self.functions)}",
                            ahead(past(body, buffers), buffers), dtypes, self.symbols,
                            lined(body, buffers))
        self.functions.append(Loops(function, p.algebra, parallel, copy))

    def _buffers(self, writes: Sequence[Write]) -> dict[int, tuple[DType, Dim]]:
        """Dtype and number of elements of every buffer that writes touch."""
        sizes = {n.attrs[0]: product(n.shape) for n in self.graph.nodes if n.op.name == "Input"}
        by_id = {n.id: n for n in self.graph.nodes}
        sizes.update({slot: product(by_id[i].shape) for i, slot in self.stored.items()})
        sizes.update({self.inputs + i: product(n.shape) for i, n in enumerate(self.outputs)})
        out = {w.slot: w.value.dtype for w in writes}
        for v in reachable(v for w in writes for v in w.needs()):
            if v.op == "load":
                out[v.attr.slot] = v.dtype
        facts = self.graph.facts
        first = self.inputs + len(self.outputs)
        return {slot: (d, facts.canonical(sizes[slot] if slot in sizes else
                                          self.temporaries[slot - first].size))
                for slot, d in out.items()}

    def code(self) -> KernelCode:
        """The source of all stages."""
        stages: list[Stage] = []
        for f in self.functions:
            stages += [f.stage(self.language)] if isinstance(f, Loops) else f.stages
        source = "\n".join(f.source if isinstance(f, Templated) else
                           self.language.function(f.algebra, f.function) for f in self.functions)
        work = Work(*(sum(getattr(w, n) for w in self.works)
                      for n in ("evaluations", "iterations", "loaded", "stored")))
        return KernelCode(self.name, source, tuple(stages), tuple(self.temporaries), self.symbols,
                          work, tuple(dict.fromkeys(self.notes)))


def lower(graph: Graph, outputs: Sequence[Node], name: str, language: Language,
          limits: Limits | None = None, half: Language | None = None,
          bytes: Language | None = None) -> KernelCode:
    """The kernel that computes ``outputs``, which read Input slot i from buffer i.

    Outputs follow the inputs in ``buffers``, then the temporaries. half: the language with half as
    many lanes, if it has such, for kernels that mostly compute in 64 bits; bytes: the one with
    lanes of bytes, for those that compute in nothing else.
    Raises LoweringError where the loop nest would be too large.
    """
    low = _lowered(graph, outputs, name, language, limits)
    other = half if low.widths.halved else bytes if low.widths.bytes else None
    if other is None:
        return low.code()
    again = _lowered(graph, outputs, name, other, limits)
    if other is bytes and not again.widths.bytes:  # axes that such vectors are longer than
        return low.code()
    return replace(again.code(), lanes=other.width)


def _lowered(graph: Graph, outputs: Sequence[Node], name: str, language: Language,
             limits: Limits | None) -> Lowering:
    inputs = max([len(graph.inputs)] + [n.attrs[0] + 1 for n in graph.reachable(outputs)
                                        if n.op.name == "Input"])
    low = Lowering(graph, name, language, limits or Limits(), inputs, tuple(outputs))
    if low.limits.vector:
        _turned_stages(low)
    for node in graph.reachable(outputs):
        if node.op.kind == "scan":
            _scan_stages(low, node)
        elif node.op.name in language.templates:
            _template_stages(low, node, language.templates[node.op.name])
        elif node.op.kind == "index" and node.op.staged:
            _scatter_stages(low, node)
    rest = [(low.inputs + i, n) for i, n in enumerate(low.outputs)
            if n.id not in low.stored or low.stored[n.id] != low.inputs + i]
    if rest:
        low.whole(rest)
    return low


def kernel_symbols(graph: Graph, outputs: Sequence[Node]) -> tuple[str, ...]:
    """The names of the sizes that nodes depend on, sorted."""
    found: set[str] = set()
    todo: list[object] = [x for n in graph.reachable(outputs) for x in (n.shape, n.attrs)]
    while todo:
        x = todo.pop()
        if isinstance(x, tuple):
            todo.extend(x)
        elif isinstance(x, Poly):
            found.update(s.name for s in symbols(x) | symbols(graph.facts.canonical(x)))
    return tuple(sorted(found))


def _writes(p: Propagation, slot: int, node: Node) -> list[Write]:
    """The stores of a whole node; none where it has no element."""
    shape = p.shape(node)
    if 0 in shape:
        return []
    vars, index = p.bind(shape, ())
    return [Write(slot, vars, p.algebra.flatten(index, shape), p.at(node, index))]


# ---- across rows
def _turned_stages(low: Lowering) -> None:
    """What lies across the rows that are taken as a whole is written along them before."""
    for node in list(across.operands(low.graph, low.outputs, low.written)):
        _in_memory(low, node)
        low.notes.append("turned an operand that lies across rows")
    for output, source in list(across.results(low.graph, low.outputs, low.written)):
        read = low.stored | {source.id: low.inputs + len(low.outputs) + len(low.temporaries)}
        if any(map(across.lies_across, replace(low, stored=read).written(output))):
            _in_memory(low, source)
            low.notes.append("turned rows that an output lies across")


# ---- along an axis
def _scan_stages(low: Lowering, node: Node) -> None:
    """A scan with the outputs that follow it; itself too where something else needs it."""
    mine = followers(node, low.outputs, low.is_stored)
    targets = [(low.inputs + low.outputs.index(o), o) for o in mine if o is not node]
    if node in low.outputs or low.wanted(node, mine):
        targets.insert(0, (low.slot_of(node), node))
    shape = tuple(map(low.graph.facts.canonical, node.shape))
    if blocked(node, shape):
        blocks = Blocks(node, shape, low.language.doubles)
        totals, starts = (low.temporary(blocks.dtype, blocks.size) for _ in range(2))
        low.stage(lambda p: blocks.totals(p, totals))
        low.stage(lambda p: blocks.starts(p, totals, starts))
        low.stage(lambda p: blocks.writes(p, starts, targets))
    else:
        low.stage(lambda p: scan_writes(p, node, targets))
    low.stored.update((o.id, slot) for slot, o in targets)


def _template_stages(low: Lowering, node: Node, template: Template) -> None:
    """A template's functions, on operands that lie in memory as their shapes say."""
    reads = tuple(_in_memory(low, a) for a in node.args)
    slot = low.slot_of(node)
    if 0 not in node.shape:
        number = f"{low.name}_{len(low.functions)}"
        made = template(node, number, reads, slot, low.temporary, low.symbols)
        low.functions.append(made)
        low.works.append(made.work)
    low.stored[node.id] = slot


def _in_memory(low: Lowering, source: Node) -> int:
    """The slot that holds a node whole; a stage writes it where none does."""
    if source.op.name == "Input":
        slot: int = source.attrs[0]
        return slot
    if source.id not in low.stored:
        slot = low.slot_of(source)
        low.whole([(slot, source)])
        low.stored[source.id] = slot
    return low.stored[source.id]


# ---- scatter
def _scatter_stages(low: Lowering, node: Node) -> None:
    """The base is copied; then the updates are applied in order."""
    base, slot = node.args[0], low.slot_of(node)
    low.whole([(slot, base)], (base.attrs[0], slot) if base.op.name == "Input" else None)
    if 0 not in node.shape and 0 not in node.args[2].shape:
        write = _scatter if node.op.name == "Scatter" else _scatter_along
        low.stage(lambda p: [write(p, slot, node)])
    low.stored[node.id] = slot


def _scatter(p: Propagation, slot: int, node: Node) -> Write:
    """Row ``index[i]`` of the result takes row i of the update, in order, if there is one."""
    base, index, update = node.args
    axis, mode = node.attrs
    shape, count = p.shape(base), p.shape(index)[0]
    other = shape[:axis] + shape[axis + 1:]
    rows, (at,) = p.bind((count,), ())
    vars, rest = p.bind(other, rows)
    row = Gathered(p.at(index, (at,)), shape[axis], clamped=False)
    target = Form(0, {row: 1})
    guards = (Guard(target, 0, shape[axis] - 1),)
    form = p.algebra.flatten((*rest[:axis], target, *rest[axis:]), shape)
    value = p.at(update, (*rest[:axis], at, *rest[axis:]))
    return Write(slot, (*rows, *vars), form, value, guards,
                 "store" if mode == "last" else mode, rows)


def _scatter_along(p: Propagation, slot: int, node: Node) -> Write:
    """Each element of the update goes where its index says along the axis, in order along it."""
    base, index, update = node.args
    axis, mode = node.attrs
    shape = p.shape(base)
    outer, before = p.bind(shape[:axis], ())
    inner, after = p.bind(shape[axis + 1:], outer)
    along, (at,) = p.bind((p.shape(index)[axis],), outer + inner)
    here = (*before, at, *after)
    target = Form(0, {Gathered(p.at(index, here), shape[axis], clamped=False): 1})
    guards = (Guard(target, 0, shape[axis] - 1),)
    form = p.algebra.flatten((*before, target, *after), shape)
    return Write(slot, outer + inner + along, form, p.at(update, here), guards,
                 "store" if mode == "last" else mode, along)
