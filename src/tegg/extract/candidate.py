"""Candidate kernels and their price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tegg.dim import symbols
from tegg.ir.classes import ENode
from tegg.extract.cost import Costs
from tegg.extract.roles import Roles
from tegg.ir.op import PRODUCTS
from tegg.ir.demand import Demand, Values
from tegg.ir.work import WorkModel

Body = Mapping[int, ENode]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A kernel that a cover may choose. ``body`` lists operands before users.

    read, write: the storage form of all leaves and outputs that have it; "" is their own dtype.
    """

    outs: tuple[int, ...]
    leaves: tuple[int, ...]
    body: Body
    seconds: float
    ahead: bool = False
    read: str = ""
    write: str = ""


class Pricer:
    """Prices bodies over one set of classes."""

    def __init__(self, roles: Roles, values: Values, costs: Costs) -> None:
        self.roles, self.values, self.costs = roles, values, costs
        self.work = WorkModel(values, costs.ops, costs.keep, costs.load, costs.panel,
                              costs.apart, roles.still, roles.classes.states, costs.close,
                              costs.gather)
        self._known: dict[tuple, tuple[float, int, bool]] = {}  # structure of a kernel -> its price
        self._kinds: dict[tuple, int] = {}   # what matters of a value -> a number below 0
        self._kind_of: dict[int, int] = {}
        self._steps: dict[tuple, int] = {}   # op and attributes -> a number
        self._step_of: dict[int, tuple[ENode, int]] = {}
        self._stored: dict[int, float] = {}
        self._packs: dict[int, bool] = {}
        # arguments arrive, and results leave, in their own dtype; weights are converted ahead
        self.forms = {c: f for c, f in roles.classes.forms.items()
                      if c not in roles.roots and c not in roles.carried and (
                          c in roles.weights or (c in roles.nodes and roles.computed(c)))}
        self.narrow = roles.classes.narrow & self.forms.keys() - roles.weights
        states = {c for pair in roles.classes.states for c in pair if c in values.size}
        self._resting = roles.still | states  # from one run to the next
        self._among = self._read_by_runs()

    def _read_by_runs(self) -> float:
        """Bytes of weights and states: of weights that are gathered from, a run reads little."""
        gathers = {c for c, ns in self.roles.nodes.items() if ns and ns[0].op.kind == "index"}
        whole = {c for c in self.roles.weights
                 if not gathers.issuperset(self.roles.users.get(c, ()))}
        states = {old for old, _ in self.roles.classes.states if old in self._resting}
        return sum(self.bytes(c, self.values.size[c]) for c in sorted(whole | states))

    def form(self, c: int, wanted: str = "") -> str:
        """The form in which a kernel that wants one reads or writes a class."""
        known = self.forms.get(c, frozenset())
        return wanted if wanted in known else min(known) if c in self.narrow else ""

    def bytes(self, c: int, elements: float, form: str = "") -> float:
        """Bytes of a class's elements, in a form if the class has it."""
        return elements * self.costs.itemsize(self.values.dtype[c], self.form(c, form))

    def price(self, outs: tuple[int, ...], leaves: Iterable[int], body: Body, read: str = "",
              write: str = "") -> tuple[float, int]:
        """Seconds of a kernel, and how many values its code computes.

        Equal kernels cost the same: a model of repeated layers is priced a layer at a time.
        """
        seconds, values, _ = self._priced(outs, leaves, body, read, write)
        return seconds, values

    def _priced(self, outs: tuple[int, ...], leaves: Iterable[int], body: Body, read: str = "",
                write: str = "") -> tuple[float, int, bool]:
        """The price, and whether the kernel reads panels that were packed before a run."""
        key = self.structure(outs, body, read, write)
        if key not in self._known:
            self._known[key] = self._price(outs, leaves, body, read, write)
        return self._known[key]

    def structure(self, outs: tuple[int, ...], body: Body, read: str, write: str) -> tuple:
        """Equal for kernels that do the same to values of the same kinds."""
        number: dict[int, int] = {}
        key: list[object] = [read, write]
        for c, n in body.items():
            for a in n.args:
                if a not in number:  # a leaf, or what stands for it where it was first read
                    number[a] = len(number)
                    key.append(self.kind(a))
            key.append(self.step(n))
            key += [number[a] for a in n.args]
            if n.args and (n.args[0], c) in self.work.states:
                key.append("state")
            number[c] = len(number)
        key.extend(number[o] if o in number else self.kind(o) for o in outs)
        return tuple(key)

    def step(self, n: ENode) -> int:
        """A number, from 0, for what an e-node does; it says how many operands follow. Where a
        slice starts is all the same: steps of a loop read one place after the other."""
        known = self._step_of.get(id(n))
        if known is None:
            does: tuple = n.attrs
            if n.op.name == "Slice" and not any(symbols(d) for ds in n.attrs[:2] for d in ds):
                does = tuple(b - a for a, b in zip(*n.attrs[:2])), n.attrs[2]
            step = self._steps.setdefault((n.op.name, does), len(self._steps))
            known = self._step_of[id(n)] = n, step  # the e-node lives on, so that its id is its own
        return known[1]

    def kind(self, c: int) -> int:
        """A number, below 0, for what matters of a value where it is read or written."""
        found = self._kind_of.get(c)
        if found is None:
            kind = (self.values.shape[c], self.values.dtype[c], self.forms.get(c),
                    c in self.narrow, c in self.roles.still, c in self._resting)
            found = self._kind_of[c] = self._kinds.setdefault(kind, -1 - len(self._kinds))
        return found

    def _price(self, outs: tuple[int, ...], leaves: Iterable[int], body: Body, read: str,
               write: str) -> tuple[float, int, bool]:
        if any(n.op.kind == "copy" for n in body.values()):  # it is all of its kernel
            copied = self.costs.copied(sum(self.bytes(o, self.values.size[o]) for o in outs))
            return copied, 1, False
        demand = self.work.demand(outs, body)
        self._decoded(demand, outs, read, write)
        loaded: list[float] = []
        resting: list[float] = []
        for a in leaves:
            reads = resting if a in self._resting else loaded
            reads.append(self.bytes(a, demand.reads.get(a, 0), read))
        stored = [self.bytes(o, demand.writes.get(o, self.values.size[o]), write) for o in outs]
        seconds = self.costs.seconds(demand, loaded, stored, resting, self._among)
        return seconds, demand.values, any(
            p.ready and p.execution is not None and p.execution.packed > 0
            for p in demand.products)

    def _decoded(self, demand: Demand, outs: tuple[int, ...], read: str, write: str) -> None:
        """Add the casts between forms and the dtypes that kernels compute in. A narrow value is
        widened as it is loaded; rounding one costs more."""
        write_weight = self.work.weight(self.values.table["Cast"])
        stored = [(o, self.values.size[o]) for o in outs]
        for form, weight, elements in ((read, self.work.load, list(demand.reads.items())),
                                       (write, write_weight, stored)):
            for c, count in elements:
                if self.form(c, form):
                    demand.loops.append((self.values.dtype[c], count * weight))

    def packs_ahead(self, node: ENode, c: int) -> bool:
        """Whether an e-node reads panels that were packed before a run: a storage form of what
        they are packed from makes it no faster."""
        if node.op.kind not in PRODUCTS:
            return False
        known = self._packs.get(id(node))  # of the e-nodes of the roles, which live as long
        if known is None:
            known = self._packs[id(node)] = self._priced((c,), node.args, {c: node})[2]
        return known

    def rough(self, node: ENode, c: int) -> float:
        """Seconds of an e-node on its own, but for reading its operands: cheap enough to rank many
        cones. Of a contraction it is what its forms differ in, what memory hides left out."""
        kind, size = node.op.kind, self.values.size
        if kind in ("movement", "source"):
            return 0.0
        if kind in PRODUCTS:
            seconds, _ = self.price((c,), node.args, {c: node})
            read = (self.costs.memory(self.bytes(a, size[a]), self.costs.threads,
                                      self._among if a in self._resting else 0.0)
                    for a in dict.fromkeys(node.args))
            return seconds - self.costs.start - sum(read)
        if kind == "copy":
            return self.price((c,), node.args, {c: node})[0]
        elements = size[c]
        if kind in ("reduce", "composite"):
            elements = max(elements, size[node.args[0]])
        return elements * self.work.weight(node.op) / (self.costs.loop_rate * self.costs.threads)

    def stored(self, c: int) -> float:
        """Rough seconds to read a class from memory."""
        known = self._stored.get(c)
        if known is None:
            size = self.bytes(c, self.values.size[c])
            known = self._stored[c] = size / self.costs.levels[-1].total
        return known
