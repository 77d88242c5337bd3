"""Making a plan of a cover: lower each distinct kernel once, place what is stored, order the calls.

What is stored is a class in a form: a value may lie in memory as float32 for one reader and as
bfloat16 for another, in two buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tegg.collecting import deferred
from tegg.ir.classes import Cover, EClasses, Fragment, KernelSpec, Stored
from tegg.dim import Dim, product, symbols
from tegg.dtype import DType
from tegg.errors import ExtractionError, LoweringError
from tegg.extract.fragment import form_dtype
from tegg.kernel.code import KernelCode
from tegg.planning.beginnings import at_beginning
from tegg.planning.carried import Carried
from tegg.planning.moves import in_turn
from tegg.planning.plan import Buffer, Call, Plan


class KernelRefused(LoweringError):
    """The target cannot lower one kernel of a cover; a cover without it may do."""

    def __init__(self, spec: KernelSpec, fragment: Fragment, reason: str) -> None:
        super().__init__(reason)
        self.spec, self.structure, self.reason = spec, structure(fragment), reason


@deferred()
def make_plan(classes: EClasses, cover: Cover, symbols: tuple[str, ...],
              rebuild: Callable[[KernelSpec], Fragment],
              lower: Callable[[Fragment, str, frozenset[int]], KernelCode],
              unit: int = 0) -> Plan:
    """Lower every kernel of a cover once, give what is stored its buffer, and order the calls.

    ``symbols``: the names of the program's sizes, in the order in which runs are given them.
    ``unit``: bytes of which a call may begin to read a buffer at any multiple; 0: at its beginning.
    Raises KernelRefused where ``lower`` does not take a kernel.
    """
    carried = Carried.of(cover.kernels)
    seen = carried.through(classes)
    kernels = [carried.kernel(k) for k in carried.kernels]
    whole = {id(s): k for s, k in zip(kernels, carried.kernels)}
    order = _order(seen, kernels)
    maker = _Maker(seen, lower, unit)
    maker.place(order)
    for spec, root in carried.inward(classes):
        maker.copy(spec, rebuild(spec), maker.buffer_of(root))
    for spec in order:
        fragment = rebuild(whole[id(spec)])
        try:
            maker.call(spec, fragment)
        except LoweringError as e:
            raise KernelRefused(whole[id(spec)], fragment, str(e)) from None
    for spec, kind, index in carried.outward(classes):
        maker.copy(spec, rebuild(spec), maker.given(kind, index))
    return Plan(maker.kernels, maker.buffers, maker.ahead, maker.run, maker.before, maker.after,
                symbols, cover.seconds, cover.gap, dict(cover.stats), maker.narrowed,
                assumed={i: s.most for i, s in enumerate(classes.graph.inputs)
                         if s.most is not None})


def _order(classes: EClasses, specs: Sequence[KernelSpec]) -> list[KernelSpec]:
    """A topological order in which, where possible, a state's readers run before its writer."""
    writer = {o: s for s in reversed(specs) for o in s.writes}
    after: dict[int, set[int]] = {i: set() for i in range(len(specs))}
    index = {id(s): i for i, s in enumerate(specs)}
    for i, s in enumerate(specs):
        for leaf in s.reads:
            if leaf in writer and writer[leaf] is not s:
                after[i].add(index[id(writer[leaf])])
    strict = {i: set(a) for i, a in after.items()}
    for slot, new in classes.updates.items():
        old = _input_class(classes, slot)
        if old is not None and (new, "") in writer:
            w = index[id(writer[new, ""])]
            after[w] |= {i for i, s in enumerate(specs) if old in s.leaves and i != w}
    order = _topological(after)
    if order is None:
        order = _topological(strict)
    if order is None:
        raise ExtractionError("the chosen kernels wait for one another; no order can run them")
    return [specs[i] for i in order]


def _topological(after: dict[int, set[int]]) -> list[int] | None:
    done: list[int] = []
    seen: set[int] = set()
    left = dict(after)
    while left:
        ready = [i for i, a in left.items() if a <= seen]
        if not ready:
            return None
        done.append(ready[0])
        seen.add(ready[0])
        del left[ready[0]]
    return done


def _input_class(classes: EClasses, slot: int) -> int | None:
    for n in classes.graph.nodes:
        if n.op.name == "Input" and n.attrs[0] == slot:
            return classes.of.get(n.id)
    return None


class _Maker:
    """Buffers by what is stored in them, kernels by the structure of their fragment."""

    def __init__(self, classes: EClasses, lower: Callable, unit: int) -> None:
        self.classes, self.lower, self.unit = classes, lower, unit
        self.buffers: list[Buffer] = []
        self.kernels: list[KernelCode] = []
        self.ahead: list[Call] = []
        self.run: list[Call] = []
        self.before: list[tuple[int, int]] = []
        self.after: list[tuple[int, int]] = []
        self.narrowed: list[tuple[int, DType]] = []
        self._of: dict[Stored, int] = {}    # a class in a form -> the buffer it is read from
        self._known: dict[tuple, int] = {}  # structure of a fragment -> kernel
        self._kept: dict[tuple, int] = {}   # (kernel, where weights lie) -> what is packed ahead

    def _buffer(self, kind: str, dtype: DType, size: Dim, index: int = -1) -> int:
        self.buffers.append(Buffer(kind, dtype, size, index))
        return len(self.buffers) - 1

    def place(self, order: Sequence[KernelSpec]) -> None:
        """Inputs, outputs, updates and everything that rests in memory get their buffers."""
        c = self.classes
        for n in c.graph.nodes:
            if n.op.name == "Input" and n.id in c.of:
                spec = c.graph.inputs[n.attrs[0]]
                kind = "weight" if spec.kind == "weight" else "input"
                self._of[c.of[n.id], ""] = self._buffer(kind, n.dtype, product(n.shape), n.attrs[0])
        states = {slot: self._state(slot) for slot in c.updates}
        given = set(self._of)
        self._ahead = self._fixed_size(order)
        in_place = self._in_place(order, states)
        for number, (_, cls) in enumerate(c.outputs.items()):
            key = (cls, "")
            out = self._buffer("output", c.dtype[cls], product(c.shape[cls]), number)
            if key in given:  # copied first: a state is overwritten by the run
                self.before.append((self._of[key], out))
            elif key in self._of or cls in in_place:
                self.after.append((self._of[key] if key in self._of else in_place[cls], out))
            else:
                self._of[key] = out
        for cls, state in in_place.items():
            self._of[cls, ""] = state
        for cls in c.updates.values():
            if (cls, "") not in self._of:
                self._of[cls, ""] = self._buffer("arena", c.dtype[cls], product(c.shape[cls]))
        self.after += in_turn([(self._of[cls, ""], states[slot]) for slot, cls in
                               c.updates.items()], self._aside)
        for spec in order:
            self._between(spec)

    def _aside(self, buffer: int) -> int:
        """Memory for what lies in a buffer."""
        return self._buffer("arena", self.buffers[buffer].dtype, self.buffers[buffer].size)

    def _between(self, spec: KernelSpec) -> None:
        """Buffers for what a kernel leaves for others, in the form it writes."""
        kind = "ahead" if id(spec) in self._ahead else "arena"
        for key in spec.writes:
            if key in self._of:
                continue
            cls, form = key
            dtype = form_dtype(form, self.classes.dtype[cls])
            self._of[key] = self._buffer(kind, dtype, product(self.classes.shape[cls]))
            source = self._of.get((cls, ""), -1)
            if form and source >= 0 and self.buffers[source].kind == "weight":
                self.narrowed.append((source, dtype))

    def _state(self, slot: int) -> int:
        """The buffer of a state, whether or not its old value is read."""
        old = _input_class(self.classes, slot)
        if old is not None:
            return self._of[old, ""]
        spec = self.classes.graph.inputs[slot]
        return self._buffer("input", spec.dtype, product(spec.shape), slot)

    def _fixed_size(self, order: Sequence[KernelSpec]) -> set[int]:
        """Kernels that run ahead: they depend on weights, and no symbol sizes what they do."""
        c, out = self.classes, set()
        late: set[Stored] = {(x, "") for x in (*c.outputs.values(), *c.updates.values())}
        for s in order:
            shapes = [c.shape[x] for x in (*s.outs, *s.leaves, *s.body)]
            if (not s.ahead or late & {*s.reads, *s.writes}
                    or any(symbols(d) for h in shapes for d in h)):
                late |= set(s.writes)
            else:
                out.add(id(s))
        return out

    def _in_place(self, order: Sequence[KernelSpec], states: Mapping[int, int]) -> dict[int, int]:
        """Updates whose kernel can write over the old value: class -> the state's buffer."""
        c, out = self.classes, {}
        for slot, cls in c.updates.items():
            old = _input_class(c, slot)
            at = next((i for i, s in enumerate(order) if (cls, "") in s.writes), None)
            if at is None or cls in out or old in c.updates.values():  # which another state takes
                continue
            later = any(old in s.leaves for s in order[at + 1:])
            if not later and (old not in order[at].leaves or _pointwise(order[at], old, cls, c)):
                out[cls] = states[slot]
        return out

    def call(self, spec: KernelSpec, fragment: Fragment) -> None:
        ins = tuple(self._of[x] for x in spec.reads)
        fixed = frozenset(i for i, b in enumerate(ins)
                          if self.buffers[b].kind in ("weight", "ahead"))
        fragment, offsets = at_beginning(fragment, self.unit)
        number = self._kernel(fragment, fixed)
        kernel = self.kernels[number]
        outs = tuple(self._of[x] for x in spec.writes)
        ahead = id(spec) in self._ahead
        early = () if ahead else self._early(kernel, fixed, len(ins) + len(outs))
        temps = self._temporaries(number, ins, outs, early, "ahead" if ahead else "arena", offsets)
        buffers = ins + outs + temps
        offsets += (0,) * (len(buffers) - len(ins)) if offsets else ()
        stages = tuple(i for i, s in enumerate(kernel.stages) if i not in early and not (
            s.copy and buffers[s.copy[0]] == buffers[s.copy[1]]))
        made = Call(number, buffers, stages, spec.seconds, spec.label, offsets)
        (self.ahead if ahead else self.run).append(made)

    def _kernel(self, fragment: Fragment, fixed: frozenset[int]) -> int:
        """The number of a kernel; equal ones are lowered once."""
        key = (structure(fragment), fixed)
        if key not in self._known:
            self.kernels.append(self.lower(fragment, f"k{len(self.kernels)}", fixed))
            self._known[key] = len(self.kernels) - 1
        return self._known[key]

    def copy(self, spec: KernelSpec, fragment: Fragment, buffer: int) -> None:
        """A call that brings one side of a buffer to the other; it has no stages."""
        number = self._kernel(fragment, frozenset())
        self.run.append(Call(number, (buffer, buffer), (), spec.seconds, spec.label))

    def buffer_of(self, cls: int) -> int:
        """The buffer in which a class lies."""
        return self._of[cls, ""]

    def given(self, kind: str, index: int) -> int:
        """The buffer of an output or of an argument by its number."""
        return next(i for i, b in enumerate(self.buffers) if (b.kind, b.index) == (kind, index))

    @staticmethod
    def _early(kernel: KernelCode, fixed: frozenset[int], first: int) -> tuple[int, ...]:
        """Stages that read weights only and write one temporary: packing, done ahead."""
        return tuple(i for i, s in enumerate(kernel.stages)
                     if s.reads and s.reads <= fixed
                     and len(s.writes) == 1 and min(s.writes) >= first
                     and all(not symbols(kernel.temporaries[w - first].size) for w in s.writes))

    def _temporaries(self, number: int, ins: tuple[int, ...], outs: tuple[int, ...],
                     early: tuple[int, ...], kind: str,
                     offsets: tuple[int, ...]) -> tuple[int, ...]:
        kernel, base, temps = self.kernels[number], len(ins) + len(outs), []
        for t, temp in enumerate(kernel.temporaries):
            stage = next((i for i in early if base + t in kernel.stages[i].writes), None)
            if stage is None:
                temps.append(self._buffer(kind, temp.dtype, temp.size))
                continue
            reads = tuple((ins[r], offsets[r] if offsets else 0)
                          for r in sorted(kernel.stages[stage].reads))
            key = (number, t, reads)
            if key not in self._kept:
                self._kept[key] = self._buffer("ahead", temp.dtype, temp.size)
                padded = ins + outs + tuple(temps) + (self._kept[key],) * (
                    len(kernel.temporaries) - t)
                begins = offsets + (0,) * (len(padded) - len(ins)) if offsets else ()
                self.ahead.append(Call(number, padded, (stage,), 0.0, "pack", begins))
            temps.append(self._kept[key])
        return tuple(temps)


def _pointwise(spec: KernelSpec, old: int, new: int, classes: EClasses) -> bool:
    """Whether every use of ``old`` in a kernel is at the very index that is written, or the base
    of a scatter that becomes ``new``."""
    shape = classes.shape[old]
    root = spec.body.get(new)
    if root is not None and root.op.kind == "index" and root.op.staged and root.args[0] == old:
        return all(old not in n.args[1:] for n in spec.body.values()) and not any(
            old in n.args for c, n in spec.body.items() if c != new)
    reached = {old}
    grew = True
    while grew:
        grew = False
        for c, n in spec.body.items():
            if c not in reached and reached & set(n.args):
                if n.op.kind != "elementwise" or classes.shape[c] != shape:
                    return False
                reached.add(c)
                grew = True
    return True


def structure(f: Fragment) -> tuple:
    """Equal for fragments that lower to the same kernel, whatever buffers they read."""
    nodes = tuple((n.op.name, tuple(a.id for a in n.args), n.attrs, n.dtype.name, n.shape)
                  for n in f.graph.nodes)
    return nodes, tuple(o.id for o in f.outputs), tuple(a.id for a in f.anchors)

