"""Reads attention off index maps: loop variables of both products, and what lies between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tegg.dim import Dim
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.attention_mask import Bound, columns, unmasked
from tegg.kernel.contraction_classify import (
    AnchoredPropagation, Contraction, Group, Term, depths_of, load_forms, number_of, stride, summed,
    unit_last, written)
from tegg.kernel.domain import Write, settle
from tegg.kernel.index import Var
from tegg.kernel.propagate import Propagation, Splits
from tegg.kernel.value import Reduction, Val, reachable

_FIRST_DEPTH = 700  # numbers of the variables that scores are summed over: no other has them
_SCORES, _SUMS = 0, 1


@dataclass(frozen=True, slots=True)
class Attention:
    """A fragment as two products with a softmax between them.

    first: the product whose sums become scores; its columns are the keys, and it has no writes.
    second: the product of weights with values; its depth are the keys. Its shared operand is a
    placeholder: weights are made from ``scores``, which are computed from the sums of ``first``.
    bounds: between which keys a row has these scores; all others are -inf.
    columns: values inside scores that depend on the key alone, and are worth keeping.
    """

    first: Contraction
    second: Contraction
    scores: Val
    bounds: tuple[Bound, ...]
    columns: tuple[Val, ...] = ()

    @property
    def keys(self) -> tuple[Var, ...]:
        """The loop variable of keys, or nothing where there is one key."""
        return self.second.k

    @property
    def read(self) -> tuple[Val, ...]:
        """All that is computed from memory."""
        return (*self.first.read, *self.second.read, self.scores, *self.columns,
                *(b.value for b in self.bounds))

    @property
    def product(self) -> Val:
        """The sum from which a score is computed."""
        return self.first.groups[0].terms[0].sum


def classify_attention(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node],
                       native: frozenset[str], slots: Sequence[int]) -> Attention:
    """The attention of a fragment; ``anchors``: the contraction of the scores, the attention.

    slots: the buffer that each output is written to.
    Raises LoweringError where the fragment is not of that form; the message says why.
    """
    numbers = {a.id: i for i, a in enumerate(anchors)}
    if 0 in tuple(map(graph.facts.canonical, anchors[_SUMS].args[0].shape)):
        raise LoweringError("an attention without scores is a sum of nothing; lower it as a "
                            "contraction")

    def propagation(splits: Splits) -> AnchoredPropagation:
        return AnchoredPropagation(graph, native, splits, anchors=numbers)

    def write(p: Propagation) -> list[Write]:
        return written(p, outputs, anchors[_SUMS:], slots)

    p, writes = settle(propagation, write)
    assert isinstance(p, AnchoredPropagation)
    total = _only(_SUMS, [v for w in writes for v in w.needs()])
    if any(set(w.vars) != set(writes[0].vars) for w in writes):
        raise LoweringError("two outputs run over different elements of one attention; store it, "
                            "and compute them in kernels of their own")
    depths = depths_of(p, anchors, {})
    keys, made = summed(p, [total])
    scores, values = made[total.id]
    product = _only(_SCORES, [scores])
    if any(isinstance(v.attr, Reduction) for v in _beside([scores], product)):
        raise LoweringError("scores are computed with a reduction beside their product; store it, "
                            "and read it in the next kernel")
    depth, pairs = summed(p, [product], _FIRST_DEPTH)
    return _arranged(p, writes, total, keys, depths, scores, values, product,
                     _turned(pairs[product.id], keys), depth)


def _only(number: int, roots: Sequence[Val]) -> Val:
    """The one sum of an anchor. Raises LoweringError where it is read at several indices."""
    found = [v for v in reachable(roots) if number_of(v) == number]
    if len(found) != 1:
        raise LoweringError(f"product {number} of an attention is read at {len(found)} indices by "
                            f"its outputs; store it, and read it in the next kernel")
    return found[0]


def _beside(roots: Sequence[Val], product: Val) -> list[Val]:
    """Values that roots are computed from, the product not entered."""
    todo, seen = list(roots), {}
    while todo:
        v = todo.pop()
        if v.id not in seen and v is not product:
            seen[v.id] = v
            todo.extend(v.args)
    return list(seen.values())


def _turned(pair: tuple[Val, Val], keys: tuple[Var, ...]) -> tuple[Val, Val]:
    """Queries, then keys."""
    return pair if pair[1].deps & set(keys) or not pair[0].deps & set(keys) else pair[::-1]


def _arranged(p: AnchoredPropagation, writes: list[Write], total: Val, keys: tuple[Var, ...],
              depths: list[Dim], scores: Val, values: Val, product: Val,
              operands: tuple[Val, Val], depth: tuple[Var, ...]) -> Attention:
    """Who depends on what decides which variables are batch, rows and columns."""
    query, key = operands
    order = sorted(writes[0].vars, key=lambda v: -abs(stride(writes[0].form, v)))
    batch = tuple(v for v in order if v in scores.deps and v in values.deps | key.deps)
    n = tuple(v for v in order if v in values.deps and v not in batch)
    m = tuple(v for v in order if v not in batch and v not in n)
    if len(keys) > 1:
        raise LoweringError("the keys of an attention are several loops; store what reshapes them")
    if query.deps & set(keys):
        raise LoweringError("both operands of an attention's scores depend on its keys; lower it "
                            "as a contraction")
    first = Contraction(p, batch, m, unit_last(depth, load_forms([query])), depths[_SCORES],
                        (Group((), (Term(_SCORES, product, query, key),), keys),))
    second = Contraction(p, batch, m, keys, depths[_SUMS], (Group(
        tuple(writes), (Term(_SUMS, total, p.values.const(0, scores.dtype), values),),
        unit_last(n, [w.form for w in writes])),))
    found: tuple[Bound, ...] = ()
    shared: tuple[Val, ...] = ()
    if keys:
        scores, found = unmasked(p.values, scores, keys[0], frozenset(m))
        shared = columns(scores, product, keys[0], frozenset(m))
    return Attention(first, second, scores, found, shared)
