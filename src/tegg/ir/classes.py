"""The saturated e-graph as plain data: what rules give to extraction, and that to lowering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tegg.dim import Shape
from tegg.dtype import DType
from tegg.ir.graph import Graph, Node
from tegg.ir.op import PRODUCTS, Op, OpTable


@dataclass(frozen=True, slots=True)
class ENode:
    """One way to compute a class: an op over classes."""

    op: Op
    args: tuple[int, ...]
    attrs: tuple

    def __repr__(self) -> str:
        return f"{self.op.name}({', '.join(map(str, (*self.args, *self.attrs)))})"


@dataclass(slots=True)
class EClasses:
    """The classes of Tensor values. No e-node has its own class as an operand.

    of: graph node id -> class. forms: class -> names of storage forms proven for it (``"f16"``).
    narrow: classes that rest in one of their forms or not at all: a rule subsumed the plain Store.
    rows: the op table of the stack that made them; empty where it is the graph's own.
    """

    graph: Graph
    nodes: dict[int, list[ENode]]
    shape: dict[int, Shape]
    dtype: dict[int, DType]
    of: dict[int, int]
    forms: Mapping[int, frozenset[str]] = field(default_factory=dict)
    rows: OpTable = field(default_factory=dict)
    narrow: frozenset[int] = frozenset()

    @property
    def table(self) -> OpTable:
        """The rows of all ops that may stand in the classes, and in their expansions."""
        return self.rows or self.graph.table

    @property
    def outputs(self) -> dict[str, int]:
        """Output name -> class."""
        return {name: self.of[n.id] for name, n in self.graph.outputs.items()}

    @property
    def updates(self) -> dict[int, int]:
        """Input slot -> class of its new value."""
        return {slot: self.of[n.id] for slot, n in self.graph.updates.items()}

    @property
    def states(self) -> frozenset[tuple[int, int]]:
        """The old and the new value of each state whose old value is read."""
        old = {n.attrs[0]: self.of[n.id] for n in self.graph.nodes
               if n.op.name == "Input" and n.id in self.of}
        return frozenset((old[slot], new) for slot, new in self.updates.items() if slot in old)


Stored = tuple[int, str]  # a class in memory, and its storage form ("" is its own dtype)


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel of a cover: the classes it writes and reads, and one e-node per class inside.

    outs: classes written, in order; leaves: classes read from memory, in order. A class that is
      both is a weight that is converted to another form.
    body: operands before users; what stands between the leaves and the outputs.
    anchor: the class whose e-node is a template (a contraction on a gemm), or None for a loop
      nest. Further contractions of a body are its siblings, of the same x and spec; that of an
      attention's body makes its scores.
    ahead: whether it depends on weights only, and runs when they change.
    leaf_forms, out_forms: the storage form of each leaf and output ("" is its own dtype), or
      empty where all are their own.
    """

    outs: tuple[int, ...]
    leaves: tuple[int, ...]
    body: Mapping[int, ENode]
    seconds: float
    anchor: int | None = None
    ahead: bool = False
    leaf_forms: tuple[str, ...] = ()
    out_forms: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A name for people: the ops inside that are more than elementwise."""
        kinds = (*PRODUCTS, "composite", "kernel", "reduce", "scan", "index", "sort", "copy")
        return "+".join(sorted({n.op.name for n in self.body.values()
                                if n.op.kind in kinds})) or (
                                    "elementwise" if self.body else "convert")

    def form_of_leaf(self, i: int) -> str:
        """The storage form that leaf i is read in."""
        return self.leaf_forms[i] if self.leaf_forms else ""

    def form_of_out(self, i: int) -> str:
        """The storage form that output i is written in."""
        return self.out_forms[i] if self.out_forms else ""

    @property
    def reads(self) -> tuple[Stored, ...]:
        """Each leaf in the form it is read in."""
        return tuple((c, self.form_of_leaf(i)) for i, c in enumerate(self.leaves))

    @property
    def writes(self) -> tuple[Stored, ...]:
        """Each output in the form it is written in."""
        return tuple((c, self.form_of_out(i)) for i, c in enumerate(self.outs))


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The next best choice without one kernel. seconds: how much more the program then counts.

    instead: the kernels that run then and did not before; empty where nothing can stand in.
    """

    seconds: float
    instead: tuple[KernelSpec, ...]


@dataclass(slots=True)
class Cover:
    """The chosen kernels in an order that can run, with what is known of their cost.

    A class that several outputs or updates name is written once, and one that is an input not at
    all: the runtime copies them.
    seconds: predicted time of a run, without kernels that run ahead.
    gap: certified relative distance to the best cover of the candidates (0.0: optimal), or None.
    runners: place of a kernel -> what would stand in for it, where that was asked for.
    others: the next best covers, where they were asked for.
    """

    kernels: list[KernelSpec]
    seconds: float
    gap: float | None
    stats: dict[str, float] = field(default_factory=dict)
    runners: Mapping[int, RunnerUp] = field(default_factory=dict)
    others: list[Cover] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A kernel's body as a graph of its own. Input slot i reads the class ``spec.leaves[i]``."""

    graph: Graph
    outputs: tuple[Node, ...]  # in the order of spec.outs
    anchors: tuple[Node, ...]  # the products of a template, siblings first to last; () for loops
