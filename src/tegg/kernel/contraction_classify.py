"""Reads contractions off index maps: which loop variables are batch, m, n and k of a fragment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tegg.contraction import Spec
from tegg.dim import Dim, hint, product
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.ir.op import PRODUCTS
from tegg.kernel.domain import Write, adjacent, settle
from tegg.kernel.index import ZERO, Form, Var, variable
from tegg.kernel.propagate import Index, Propagation, Request, Splits
from tegg.kernel.value import Reduction, Val, reachable

_SUMMED = 500  # numbers of the variables summed over: no other variable has them
_SEEN_THROUGH = ("Reshape", "Permute", "Expand", "Slice", "Flip", "Window", "Contiguous")


@dataclass(slots=True)
class AnchoredPropagation(Propagation):
    """Propagation in which the product of anchor number i is a ``Mul`` with the attribute i.

    So the sum of an anchor can be told from every other, through every substitution.
    """

    anchors: Mapping[int, int] = field(default_factory=dict)   # Contract node id -> its number
    products: Mapping[int, int] = field(default_factory=dict)  # Mul node id -> its number

    def _rule(self, node: Node, index: Index) -> Request:
        if node.id in self.anchors:
            return self._contract(node, index)
        if node.id in self.products:
            return self._product(node, index)
        return Propagation._rule(self, node, index)

    def _product(self, node: Node, index: Index) -> Request:
        x = yield node.args[0], index
        y = yield node.args[1], index
        return self.values.make("Mul", (x, y), node.dtype, self.products[node.id])

    def _contract(self, node: Node, index: Index) -> Request:
        """The operands at the variables that their axes are labelled with."""
        spec = Spec.parse(node.attrs[0])
        x, y = node.args
        sizes = spec.sizes(self.shape(x), self.shape(y))
        at = {a: i for a, i in zip(spec.out, index) if a}
        free = frozenset().union(*(i.vars() for i in index))
        depths = tuple(sizes[c] for c in spec.k)
        vars, summed = ((), (ZERO,) * len(depths)) if 0 in depths else self.bind(depths, free, True)
        at.update(zip(spec.k, summed))
        left = yield x, tuple(at[a] if a else ZERO for a in spec.x)
        right = yield y, tuple(at[a] if a else ZERO for a in spec.y)
        body = self.values.make("Mul", (left, right), node.dtype, self.anchors[node.id])
        return self.values.make("red", (body,), node.dtype, Reduction("sum", vars))


@dataclass(frozen=True, slots=True)
class Term:
    """One anchor inside a group: its sum, and its operands with the shared one first."""

    anchor: int
    sum: Val
    a: Val
    b: Val


@dataclass(frozen=True, slots=True)
class Group:
    """Outputs over one iteration space, and the contractions that meet in them.

    n: loop variables of the columns, outermost first; the last has the unit stride of the output
    if any has.
    """

    writes: tuple[Write, ...]
    terms: tuple[Term, ...]
    n: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Contraction:
    """A fragment as contractions of one operand A: everything a template needs to know.

    batch, m, k: loop variables, outermost first. depth: the number of terms of each sum, 0
    included (k has no variable where it is 0 or 1). swapped: whether A is the second operand of
    the anchors; None where it is of some.
    """

    propagation: AnchoredPropagation
    batch: tuple[Var, ...]
    m: tuple[Var, ...]
    k: tuple[Var, ...]
    depth: Dim
    groups: tuple[Group, ...]
    swapped: bool | None = False

    @property
    def a(self) -> Val:
        """The operand that all contractions share."""
        return self.groups[0].terms[0].a

    @property
    def read(self) -> tuple[Val, ...]:
        """All that is computed from memory: operands, and what results are joined with."""
        return (*(t.b for g in self.groups for t in g.terms), self.a,
                *(v for w in self.writes for v in w.needs()))

    @property
    def writes(self) -> tuple[Write, ...]:
        """All that is stored."""
        return tuple(w for g in self.groups for w in g.writes)


def classify(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node],
             native: frozenset[str], slots: Sequence[int], doubles: bool = True) -> Contraction:
    """The contractions of a fragment whose outputs are ``outputs`` and products are ``anchors``.

    slots: the buffer that each output is written to. doubles: whether the device has float64.
    Raises LoweringError where the fragment is not of that form; the message says why.
    """
    numbers, products = _numbered(anchors)

    def propagation(splits: Splits) -> AnchoredPropagation:
        return AnchoredPropagation(graph, native, splits, anchors=numbers, products=products,
                                   doubles=doubles)

    def write(p: Propagation) -> list[Write]:
        return written(p, outputs, anchors, slots)

    p, writes = settle(propagation, write)
    assert isinstance(p, AnchoredPropagation)
    sums = [_sums(w, len(anchors)) for w in writes]
    return _shared(p, _joined(writes, sums), depths_of(p, anchors, products))


def _numbered(anchors: Sequence[Node]) -> tuple[dict[int, int], dict[int, int]]:
    """Numbers of Contract nodes, and of the Mul nodes under sums."""
    numbers, products = {}, {}
    for i, node in enumerate(anchors):
        if node.op.kind == "contract":
            numbers[node.id] = i
        else:
            products[_product_of(node).id] = i
    return numbers, products


def _product_of(anchor: Node) -> Node:
    """The Mul below a sum, through sums and movement."""
    n = anchor
    while n.op.name == "SumReduce" or (n is not anchor and n.op.name in _SEEN_THROUGH):
        n = n.args[0]
    if anchor.op.name != "SumReduce" or n.op.name != "Mul" or n.dtype.kind == "bool":
        raise LoweringError(f"{anchor!r} is no contraction: an anchor is a Contract of numbers, or "
                            f"a SumReduce of a Mul")
    return n


def depths_of(p: Propagation, anchors: Sequence[Node], products: Mapping[int, int]) -> list[Dim]:
    """The number of terms of each anchor's sums."""
    out = []
    for node in anchors:
        if node.op.kind in PRODUCTS:
            spec = Spec.parse(node.attrs[0])
            sizes = spec.sizes(p.shape(node.args[0]), p.shape(node.args[1]))
            out.append(product(tuple(sizes[c] for c in spec.k)))
            continue
        terms, n = 1, node
        while n.id not in products:
            if n.op.name == "SumReduce":
                terms = terms * p.shape(n.args[0])[n.attrs[0]]
            n = n.args[0]
        out.append(terms)
    return out


# ---- iteration spaces
def written(p: Propagation, outputs: Sequence[Node], anchors: Sequence[Node],
            slots: Sequence[int]) -> list[Write]:
    """Each output over the index of an anchor where that index can be pushed forward to it."""
    at: dict[int, tuple[tuple[Var, ...], Index]] = {}
    for anchor in anchors:
        if 0 in p.shape(anchor):
            continue
        vars, index = p.bind(p.shape(anchor), ())
        for number, moved in _pushed(p, anchor, index, outputs).items():
            at.setdefault(number, (vars, moved))
    out = []
    for slot, node in zip(slots, outputs):
        vars, index = at.get(node.id) or p.bind(p.shape(node), ())
        out.append(Write(slot, vars, p.algebra.flatten(index, p.shape(node)),
                         p.at(node, index)))
    return out


def _pushed(p: Propagation, anchor: Node, index: Index, outputs: Sequence[Node],
            ) -> dict[int, Index]:
    """Outputs whose elements are those of the anchor, moved one to one: their index."""
    at: dict[int, Index | None] = {anchor.id: index}
    for n in p.graph.reachable(outputs):
        below = [at[a.id] for a in n.args if a.id in at]
        if not below or n.id in at:
            continue
        first = below[0]
        same = all(b == first for b in below)
        rule = _FORWARD.get("elementwise" if n.op.kind == "elementwise" else n.op.name)
        at[n.id] = rule(p, n, first) if first is not None and same and rule else None
    return {n.id: i for n in outputs if (i := at.get(n.id)) is not None}


def _reshaped(p: Propagation, n: Node, index: Index) -> Index:
    flat = p.algebra.flatten(index, p.shape(n.args[0]))
    return p.algebra.unflatten(flat, p.shape(n))


def _flipped(p: Propagation, n: Node, index: Index) -> Index:
    axis = n.attrs[0]
    return (*index[:axis], index[axis] * -1 + (p.shape(n)[axis] - 1), *index[axis + 1:])


_FORWARD: dict[str, Callable[[Propagation, Node, Index], Index]] = {
    "elementwise": lambda p, n, index: index,
    "Permute": lambda p, n, index: tuple(index[a] for a in n.attrs[0]),
    "Reshape": _reshaped, "Flip": _flipped}


# ---- groups
def number_of(v: Val) -> int | None:
    """Which anchor a sum is of."""
    body = v.args[0] if isinstance(v.attr, Reduction) else None
    found = body.attr if body is not None and body.op == "Mul" else None
    return found if isinstance(found, int) else None


def _sums(w: Write, count: int) -> dict[int, Val]:
    """Anchor number -> its sum in a write. Each must be read at one index only."""
    found: dict[int, Val] = {}
    values = reachable(w.needs())
    for v in values:
        i = number_of(v)
        if i is None:
            continue
        if i in found:
            raise LoweringError(f"contraction {i} is read at several indices by one output; store "
                                f"it, and read it in the next kernel")
        found[i] = v
    stray = {v.attr for v in values if v.op == "Mul" and isinstance(v.attr, int)} - set(found)
    if not found or stray:
        raise LoweringError("an output does not hold the plain sum of an anchor; store the "
                            "contraction, and what is computed from it in the next kernel")
    for v in values:
        if isinstance(v.attr, Reduction) and number_of(v) is None and any(
                u in found.values() for u in reachable([v])):
            raise LoweringError("an output reduces the result of a contraction; store the "
                                "contraction, and reduce in the next kernel")
    return found


def _joined(writes: list[Write], sums: list[dict[int, Val]],
            ) -> list[tuple[list[Write], dict[int, Val]]]:
    """Writes that share an anchor are one group, and must agree on where they read it."""
    groups: list[tuple[list[Write], dict[int, Val]]] = []
    for w, found in zip(writes, sums):
        group: tuple[list[Write], dict[int, Val]] = ([w], dict(found))
        for other in [g for g in groups if set(g[1]) & set(found)]:
            groups.remove(other)
            if set(other[0][0].vars) != set(w.vars) or any(
                    other[1][i] is not v for i, v in group[1].items() if i in other[1]):
                raise LoweringError("two outputs run over different elements of one contraction; "
                                    "store it, and compute them in kernels of their own")
            group = ([*other[0], *group[0]], {**other[1], **group[1]})
        groups.append(group)
    return groups


def _shared(p: AnchoredPropagation, groups: list[tuple[list[Write], dict[int, Val]]],
            depths: list[Dim]) -> Contraction:
    """The operand that all sums share becomes A, and the rest follows from who depends on what."""
    sums = [v for _, found in groups for v in found.values()]
    if len({depths[i] for _, found in groups for i in found}) > 1:
        raise LoweringError("contractions of one kernel must sum over the same variables")
    k, operands = summed(p, sums)
    a = _common(groups[0][0][0], [operands[v.id] for v in sums])
    other = {v.id: operands[v.id][1 if operands[v.id][0] is a else 0] for v in sums}
    rows = [_roles(writes, a, [other[v.id] for v in found.values()]) for writes, found in groups]
    if any(set(r[0]) != set(rows[0][0]) or set(r[1]) != set(rows[0][1]) for r in rows):
        raise LoweringError("contractions of one kernel must have the same rows and batch")
    made = [Group(tuple(writes),
                  tuple(Term(i, v, a, other[v.id]) for i, v in sorted(found.items())),
                  unit_last(n, [w.form for w in writes]))
            for (writes, found), (_, _, n) in zip(groups, rows)]
    batch, m, _ = rows[0]
    return Contraction(p, batch, m, unit_last(k, load_forms([a])), next(iter(depths)),
                       tuple(made), _alike({operands[v.id][0] is not a for v in sums}))


def _alike(sides: set[bool]) -> bool | None:
    return next(iter(sides)) if len(sides) == 1 else None


def _common(w: Write, pairs: list[tuple[Val, Val]]) -> Val:
    """The operand that all sums have; of a single sum, the one that should be A."""
    if len(pairs) == 1:
        return pairs[0][1 if _prefers_swap(w, *pairs[0]) else 0]
    found = [x for x in pairs[0] if all(x in pair for pair in pairs)]
    if not found:
        raise LoweringError("contractions of one kernel must share an operand; these do not")
    return found[0]


def summed(p: Propagation, sums: Sequence[Val], first: int = _SUMMED,
           ) -> tuple[tuple[Var, ...], dict[int, tuple[Val, Val]]]:
    """The variables summed over under names that all sums share, numbered from ``first``, and the
    operands over them.

    Neighbours that every index holds as one are one again: what split them was another axis of
    the same size.
    """
    if len({tuple(v.extent for v in s.attr.vars) for s in sums}) > 1:
        raise LoweringError("contractions of one kernel must sum over the same variables")
    k: list[Var] = []
    out = {s.id: (s.args[0].args[0], s.args[0].args[1]) for s in sums}
    for i, v in enumerate(sums[0].attr.vars):
        k.append(Var(v.extent, first + i))
        for s in sums:
            out[s.id] = _renamed(p, out[s.id], {s.attr.vars[i]: variable(k[-1])})
        if len(k) > 1 and all(adjacent(f, k[-2], k[-1]) for f in _forms(out.values())):
            inner, outer = k.pop(), k.pop()
            k.append(Var(outer.extent * inner.extent, first + i))
            by = {outer: ZERO, inner: variable(k[-1])}
            out = {s: _renamed(p, pair, by) for s, pair in out.items()}
    return tuple(k), out


def _renamed(p: Propagation, pair: tuple[Val, Val], by: Mapping[Var, Form]) -> tuple[Val, Val]:
    return p.values.substitute(pair[0], by), p.values.substitute(pair[1], by)


def _forms(pairs: Iterable[tuple[Val, Val]]) -> list[Form]:
    return [f for v in reachable(x for pair in pairs for x in pair) for f in v.forms()]


def _roles(writes: list[Write], a: Val, others: Sequence[Val],
           ) -> tuple[tuple[Var, ...], tuple[Var, ...], tuple[Var, ...]]:
    """Batch, m and n: variables of A and B, of A (or neither), of B only."""
    theirs = frozenset().union(*(x.deps for x in others))
    order = sorted(writes[0].vars, key=lambda v: -abs(stride(writes[0].form, v)))
    batch = tuple(v for v in order if v in a.deps and v in theirs)
    n = tuple(v for v in order if v in theirs and v not in a.deps)
    return batch, tuple(v for v in order if v not in batch and v not in n), n


def _prefers_swap(w: Write, a: Val, b: Val) -> bool:
    """Columns are where the output is contiguous; a matrix with a vector has it as B."""
    only_a = [v for v in w.vars if v in a.deps and v not in b.deps]
    only_b = [v for v in w.vars if v in b.deps and v not in a.deps]
    if not only_b or not only_a:
        return bool(only_a)
    unit = [v for v in w.vars if w.form.coefficient(v) == 1]
    return bool(unit) and unit[0] in only_a


def stride(form: Form, v: Var) -> int:
    return hint(form.coefficient(v))


def load_forms(values: Iterable[Val]) -> list[Form]:
    return [v.attr.form for v in reachable(values) if v.op == "load"]


def unit_last(vars: tuple[Var, ...], forms: Iterable[Form]) -> tuple[Var, ...]:
    """The variable with stride 1 in most of the forms, and then the longest, comes last."""
    forms = list(forms)

    def score(v: Var) -> tuple[int, int]:
        return (sum(f.coefficient(v) == 1 for f in forms), hint(v.extent))

    if len(vars) < 2:
        return vars
    last = max(reversed(vars), key=score) if any(score(v)[0] for v in vars) else vars[-1]
    return (*(v for v in vars if v is not last), last)
