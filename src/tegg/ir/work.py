"""What one run of a kernel executes: elements evaluated, passes over rows, bytes, products.

The model follows the lowering. A value is evaluated once per index at which it is wanted:
elementwise users ask for their own index, every other movement asks for another one, and an
expanded value is computed before it is expanded. A reduction closes a *pass* over its row, and
whoever needs its result runs in a later pass: cheap values are evaluated again in each pass that
wants them, dear ones are kept in a scratch row, and in a short one also what three passes want and
two loads make. A contraction evaluates its operands' bodies while it packs them or brings tiles,
once per panel of the other side; nothing of rows is kept there, rows that lie apart are gathered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tegg.dim import hint
from tegg.ir.demand import Demand, Footprint, Step, Values, axis_of
from tegg.ir.graph import Graph
from tegg.ir.masks import seen_share
from tegg.ir.neighbours import Beside, axes_of_body, stored
from tegg.ir.op import PRODUCTS, Op
from tegg.ir.products import Executed, product_of
from tegg.ir.reading import Keys, anywhere, elements, gathered, joins, rests, widened
from tegg.ir.reductions import Reductions
from tegg.ir.split import parts
from tegg.ir.updates import over_state

JOINED = 8.0  # operations of reading one more part of what is joined, of which all are asked for
NEAR = 2048  # elements of a scratch row that stays in the first cache


@dataclass(slots=True)
class WorkModel:
    """Computes the Demand of kernels over one set of values.

    keep: scalar operations from which a value wanted in several passes is kept in a scratch row.
    panel: extent of the other side after which an operand is packed, or evaluated, again.
    apart: whether reductions in the kernel of a product are stages of their own.
    ready: values that are known before a run: what is packed from them is packed ahead.
    states: old and new values of states: a scatter from one to the other is written in place.
    close: scalar operations of a result of a reduction along rows, beside those of its elements.
    gather: scalar operations of an element that is read from any place of its row, for a Gather.
    """

    values: Values
    cost: Mapping[str, float]
    keep: float = 8.0
    load: float = 0.5
    panel: int = 512
    apart: bool = False
    ready: frozenset[int] = frozenset()
    states: frozenset[tuple[int, int]] = frozenset()
    close: float = 0.0
    gather: float = 0.0
    footprints: dict[tuple, Footprint] = field(default_factory=dict)
    executed: dict[tuple, Executed] = field(default_factory=dict)
    beside: Beside = field(default_factory=dict)

    def demand(self, outs: Sequence[int], body: Mapping[int, object]) -> Demand:
        """The demand of a kernel; ``body`` lists operands before their users."""
        return _Walk(self, outs, body).run()

    def weight(self, op: Op) -> float:
        """Scalar operations per element of an op."""
        return self.cost.get(op.name, op.cost)

    def footprint(self, c: int, node) -> Footprint:
        """How a composite reads its operands, from its expansion."""
        rank = len(self.values.shape[c])
        key = (node.op.name, node.attrs, rank, self.parts(c, node) > 1)
        found = self.footprints.get(key)
        if found is None:
            found = self.footprints[key] = self._expansion(node)
        return found

    def parts(self, c: int, node) -> int:
        """Into how many parts the reductions of a composite are split."""
        shape = self.values.shape[c]
        return parts(shape, {axis_of(node) % len(shape)}) if shape else 1

    def _expansion(self, node) -> Footprint:
        graph = Graph(self.values.table)
        args = tuple(graph.input(f"x{i}", self.values.shape[a], self.values.dtype[a])
                     for i, a in enumerate(node.args))
        root = node.op.expand(graph, args, node.attrs)
        inner = Values.of({n.id: n.shape for n in graph.nodes},
                          {n.id: n.dtype for n in graph.nodes}, self.values.table)
        body = {n.id: Step(n.op, tuple(a.id for a in n.args), n.attrs)
                for n in graph.reachable([root]) if n.op.name != "Input"}
        walk, anew = (_Walk(WorkModel(inner, self.cost, keep, self.load, self.panel), (root.id,),
                            body) for keep in (self.keep, math.inf))
        kept, forgotten = (sum(n for _, n in w.run().loops) for w in (walk, anew))
        reads = tuple(tuple((index, turn, count / max(1, inner.size[a.id]))
                            for (index, turn), count in sorted(walk.need.get(a.id, {}).items()))
                      for a in args)
        size = max(1, inner.size[root.id])
        return Footprint(reads, walk.after[root.id], walk.out.values, walk.out.evaluations / size,
                         walk.late / size, walk.late_evaluations / size,
                         max(0.0, forgotten - kept) / size)


class _Walk:
    """One kernel: passes from the leaves up, then demand from the outputs down."""

    def __init__(self, model: WorkModel, outs: Sequence[int], body: Mapping) -> None:
        self.model, self.outs, self.body = model, outs, body
        self.size = model.values.size
        self.after: dict[int, int] = {}      # the pass after which a value is known
        # Operations per element down to loads and kept values, as lowering counts them.
        self.depth: dict[int, float] = {}
        self.need: dict[int, Keys] = {}
        self.paths: dict[tuple, int] = {}    # (index, step) -> index
        self.anywhere: set[int] = set()      # of these, by which neighbours lie anywhere in a row
        self.last = 0                        # the pass in which outputs are written
        # those along which vectors read it
        self.beside = axes_of_body(body, model.values.shape, model.beside)
        self.split: set[int] = set()         # passes that close a stage
        self.late = self.late_evaluations = 0.0
        self.reductions = Reductions(model.values, body)
        self.out = Demand()
        self.seen = seen_share(body)
        # Operands and results of a product have no room for rows, but where those are stages.
        self.keeps = model.apart or all(n.op.kind not in PRODUCTS for n in body.values())
        self.dealt = False  # whether an attention says what threads share: its scores do not

    def run(self) -> Demand:
        for c, node in self.body.items():
            self._up(c, node)
        if self.model.apart and any(n.op.kind in PRODUCTS for n in self.body.values()):
            self.split |= set(range(1, max(self.after.values()) + 1))
        self.last = max((self.after.get(o, 0) for o in self.outs), default=0)
        for o in self.outs:
            self._want(o, (0, self.after.get(o, 0)), self.size[o])
        for c in reversed(list(self.body)):
            self._down(c, self.body[c])
        for leaf, keys in self.need.items():
            if leaf not in self.body:
                self.out.reads[leaf] = elements(self.size[leaf], keys, self._stage)
                apart = gathered(keys, self.anywhere) * self.model.gather
                if apart:
                    self.out.loops.append((self.model.values.dtype[leaf], apart))
        self.out.splits = len(self.split)
        return self.out

    def _stage(self, turn: int) -> int:
        """The stage that a pass is part of: a split reduction ends one, one apart as well."""
        return sum(p <= turn for p in self.split)

    # ---- from the leaves up
    def _up(self, c: int, node) -> None:
        kind, before = node.op.kind, 0
        for a in node.args:
            before = max(before, self.after.get(a, 0))
        if kind == "reduce":
            self.after[c], self.depth[c] = before + 1, 0.0
            if self.reductions.parts(c, node) > 1:
                self.split.add(before + 1)
        elif kind == "composite":
            self.after[c] = before + self.model.footprint(c, node).passes
            self.depth[c] = 2.0
            if self.model.parts(c, node) > 1:
                self.split |= set(range(before + 1, self.after[c] + 1))
        elif kind in PRODUCTS:
            self.after[c], self.depth[c] = 0, 0.0
        elif kind == "movement":
            self.after[c] = before
            self.depth[c] = 0.0 if node.op.name == "Expand" else self._depth(node.args[0])
        elif kind == "source":
            self.after[c], self.depth[c] = 0, 0.0
        else:
            self.after[c] = before
            self.depth[c] = node.op.cost + sum(map(self._depth, node.args))

    def _depth(self, a: int) -> float:
        if a not in self.body:
            return self.model.load
        d = self.depth[a]
        return self.model.load if d >= self.model.keep else d

    # ---- from the outputs down
    def _want(self, a: int, key: tuple[int, int], count: float) -> None:
        keys = self.need.setdefault(a, {})
        if count > keys.get(key, 0.0):
            keys[key] = count

    def _path(self, index: int, step: object) -> int:
        path = self.paths.setdefault((index, step), len(self.paths) + 1)
        if index in self.anywhere:
            self.anywhere.add(path)
        return path

    def _down(self, c: int, node) -> None:
        keys = self.need.get(c)
        if not keys:
            return
        kind = node.op.kind
        if kind == "source":
            return
        if kind == "movement":
            self._move(c, node, keys)
            return
        if len(keys) > 1 and self.keeps and self._worth(c, keys):
            keys = self._kept(c, keys)
        self.out.values += len({index for index, _ in keys}) if len(keys) > 1 else 1
        if kind in PRODUCTS:
            self._contract(c, node, keys)
            return
        if c in self.outs and over_state(c, node, self.model.states, self.body):
            self._update(c, node, keys)
            return
        self._charge(c, node, keys)
        if kind == "reduce":
            (a,) = node.args
            share = self.size[a] / max(1, self.size[c])
            for (index, _), n in keys.items():
                self._want(a, (index, self.after.get(a, 0)), n * share)
            self._combine(c, node, keys)
        elif kind == "composite":
            self._composite(c, node, keys)
        elif kind in ("index", "sort", "kernel"):
            self._index(c, node, keys)
        else:
            for a in node.args:
                if a in self.need:
                    for key, n in keys.items():
                        self._want(a, key, n)
                else:
                    self.need[a] = dict(keys)

    def _worth(self, c: int, keys: Keys) -> bool:
        """Whether a value is kept for later passes rather than evaluated in each."""
        if self.depth[c] >= self.model.keep:
            return True
        passes = Counter((index, self._stage(turn)) for index, turn in keys)
        return (self.depth[c] >= 1 + 2 * self.model.load and max(passes.values()) > 2
                and self._row() <= NEAR)

    def _row(self) -> float:
        """Elements of the longest row that a reduction of the kernel is over."""
        trips = [self.size[node.args[0]] / max(1, self.size[c]) for c, node in self.body.items()
                 if node.op.kind == "reduce"]
        return max(trips + [hint(shape[axis_of(node) % len(shape)])
                            for c, node in self.body.items() if node.op.kind == "composite"
                            and (shape := self.model.values.shape[c])], default=0)

    def _kept(self, c: int, keys: Keys) -> Keys:
        """A dear value is evaluated in the first pass of a stage that wants it, and kept there."""
        first: dict[tuple[int, int], int] = {}
        for index, turn in keys:
            place = index, self._stage(turn)
            first[place] = min(turn, first.get(place, turn))
        out: Keys = {}
        again = 0.0
        for (index, turn), n in keys.items():
            if turn == first[index, self._stage(turn)]:
                out[index, turn] = max(n, out.get((index, turn), 0.0))
            else:
                again += n
        self.out.loops.append((self.model.values.dtype[c], again * self.model.load))
        return out

    def _charge(self, c: int, node, keys: Keys) -> None:
        """Operations of a value; a reduction works on every element of its operand, once."""
        dtype = self.model.values.dtype[c]
        if dtype.kind == "bool" and node.args:
            dtype = self.model.values.dtype[node.args[0]]
        weight, count = self.model.weight(node.op), sum(keys.values())
        if widened(c, node, self.model.values.dtype):
            weight = self.model.load
        operations, evaluations = count * weight, count
        if node.op.kind == "reduce":
            evaluations = max(keys.values()) * self.size[node.args[0]] / max(1, self.size[c])
            operations = evaluations * weight + self._closed(c, node) * max(keys.values())
        elif node.op.kind == "composite":
            foot = self.model.footprint(c, node)
            first: dict[int, float] = {}
            for (index, _), n in keys.items():
                first[index] = max(n, first.get(index, 0.0))
            once = sum(first.values())
            wide = max(1.0, self.size[node.args[0]] / max(1, self.size[c]))  # of a mean
            results = once * foot.passes / max(1, self._extent(c, node))
            again = 0.0 if self.keeps else once * foot.again
            operations = (once * weight * wide + (count - once) * foot.late + again
                          + self._closed(c, node) * results)
            evaluations = once * foot.evaluations + (count - once) * foot.late_evaluations
        else:
            last = sum(n for (_, turn), n in keys.items() if turn == self.last)
            self.late += last * weight
            self.late_evaluations += last
        if not self.keeps and joins(node, self.body):
            operations += JOINED * sum(keys.values())
        if not self.keeps and self._rows_apart(c, node):
            each = self.size[node.args[0]] / max(1, self.size[c])
            operations += self.model.gather * sum(keys.values()) * each
        self.out.evaluations += evaluations
        self.out.loops.append((dtype, operations))

    def _rows_apart(self, c: int, node) -> bool:
        """Whether elements of a row that is reduced lie apart. Beside a product rows are reduced
        one after the other, so that these are gathered; loops have several side by side."""
        if node.op.kind != "reduce" and not (node.op.kind == "composite"
                                             and self.model.footprint(c, node).passes):
            return False
        (a, *_), shape = node.args, self.model.values.shape[node.args[0]]
        lies = self.beside[a] if a in self.beside else stored(shape)
        return axis_of(node) % max(1, len(shape)) not in lies

    def _closed(self, c: int, node) -> float:
        """Operations of a result of a reduction, beside those of its elements."""
        return self.reductions.closed(c, node, self.beside, self.model.close, self.model.gather)

    def _extent(self, c: int, node) -> int:
        """The extent of a composite along its axis."""
        shape = self.model.values.shape[c]
        return shape[axis_of(node)] if shape else 1

    def _combine(self, c: int, node, keys: Keys) -> None:
        """The parts of a reduction feed the threads, and are combined."""
        count = self.reductions.parts(c, node) * self.size[c]
        self._rows(count)
        if count > self.size[c]:
            combined = count * len({index for index, _ in keys})
            self.out.evaluations += combined
            self.out.loops.append((self.model.values.dtype[c], combined))

    def _move(self, c: int, node, keys: Keys) -> None:
        (a,), name = node.args, node.op.name
        share = self.size[a] / max(1, self.size[c])
        for (index, turn), n in keys.items():
            if name == "Expand":
                self._want(a, (index, self.after.get(a, 0)), n * min(1.0, share))
            elif name == "Pad":
                self._want(a, (self._path(index, c), turn), n * share)
            else:
                self._want(a, (self._path(index, c), turn), n)

    def _composite(self, c: int, node, keys: Keys) -> None:
        foot = self.model.footprint(c, node)
        before = self.after[c] - foot.passes
        self.out.values += foot.values - 1
        for a, reads in zip(node.args, foot.reads):
            for (index, turn), n in keys.items():
                scale = n / max(1, self.size[c]) * self.size[a]
                for inner, step, share in reads:
                    at = index if inner == 0 else self._path(index, (c, inner))
                    when = turn if step == foot.passes else before + step
                    self._want(a, (at, when), scale * share)
        if foot.passes:
            rows = self.size[c] // max(1, self._extent(c, node))
            self._rows(rows * self.model.parts(c, node))

    def _index(self, c: int, node, keys: Keys) -> None:
        """Gather asks its operand for as many elements as it gives; Scatter for all of each."""
        for (index, turn), n in keys.items():
            share = n / max(1, self.size[c])
            for i, a in enumerate(node.args):
                at = self._path(index, (c, i))
                whole = node.op.name == "Gather" and i == 0
                if whole and anywhere(node, self.body, self.model.values):
                    self.anywhere.add(at)
                self._want(a, (at, turn), n if whole else share * self.size[a])

    def _update(self, c: int, node, keys: Keys) -> None:
        """A scatter in place touches what it is given, wherever that goes."""
        count = self.size[node.args[-1]]
        self.out.writes[c] = count
        self.out.evaluations += count
        self.out.loops.append((self.model.values.dtype[c], count * self.model.weight(node.op)))
        for i, a in enumerate(node.args):
            for index, turn in keys:
                self._want(a, (self._path(index, (c, i)), turn), count if i == 0 else self.size[a])

    def _contract(self, c: int, node, keys: Keys) -> None:
        found = product_of(node, self.model.values, self.body, self.model.ready, self.seen,
                           self.model.executed)
        e, execution, dtype = found.extents, found.execution, self.model.values.dtype
        self.out.products.append(found)
        self._rows(execution.pieces if execution else e.batch * -(-e.m // 8) * -(-e.n // 16))
        self.dealt = self.dealt or node.op.kind == "attention"
        # panels that were packed before are read in the place of an operand
        ahead = execution.packs if found.ready and execution and execution.kept else None
        for i, (a, other) in enumerate(zip(node.args, (e.n, e.m))):
            if i == ahead:
                continue
            # what is copied as it rests, and not packed, its template counts
            copied = execution and not execution.packed and rests(a, self.body, dtype)
            times = 1 if copied or a not in self.body else max(1, -(-other // self.model.panel))
            # siblings that share an operand and its index pack it once
            self._want(a, (self._path(0, (a, node.attrs[0])), self.after.get(a, 0)),
                       self.size[a] * times)

    def _rows(self, n: int) -> None:
        if not self.dealt:
            self.out.rows = n if self.out.rows is None else max(self.out.rows, n)
