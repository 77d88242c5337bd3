"""Lowers fragments around attention: blocks of scores that never leave their block of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tegg.backends.simt.attention_block import AttentionBlock
from tegg.backends.simt.attention_forms import MOST, Blocks
from tegg.backends.simt.attention_tiles import AttentionTiles
from tegg.backends.simt.attention_total import Partial
from tegg.backends.simt.evaluate import Evaluator, padded
from tegg.backends.simt.indices import narrow_products
from tegg.backends.simt.language import SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.backends.simt.products import below, loads, nothing, stage
from tegg.errors import LoweringError
from tegg.ir.graph import Graph, Node
from tegg.kernel.attention_classify import Attention, classify_attention
from tegg.kernel.attention_work import attention_work
from tegg.kernel.code import KernelCode
from tegg.kernel.domain import spread
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.simt import THREADS
from tegg.kernel.slots import slots_of


def lower_attention(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                    language: SimtC, blocks: Blocks,
                    how: type[AttentionBlock] = AttentionTiles) -> KernelCode:
    """The kernel that computes ``outputs`` from an attention; ``anchors``: the contraction of its
    scores, and the attention. ``how`` says where scores and sums are kept, and what multiplies.

    What lies below the operands of both products is evaluated while their tiles are loaded, what
    lies between the products on scores in registers, what lies above while results are stored.
    Blocks that there is no room for have half of their keys, or a quarter, or fewer queries.
    Raises LoweringError where the fragment has another form; the message says why.
    """
    slots = slots_of(graph, outputs, anchors)
    if not slots.live:
        return nothing(name)
    attention = classify_attention(graph, slots.live, anchors, language.native, slots.slots)
    _check(attention)
    return _Kernel(name, attention, language, blocks, kernel_symbols(graph, outputs),
                   how, slots.free).code()


def _check(a: Attention) -> None:
    depth, columns = a.first.depth, spread(a.second.groups[0].n)
    if not (isinstance(depth, int) and isinstance(columns, int) and max(depth, columns) <= MOST):
        raise LoweringError(f"scores of {depth} terms and values of {columns} columns; a block has "
                            f"room for {MOST} of each. Lower the products by themselves")
    (first,), (second,) = a.first.groups, a.second.groups
    wanted = [a.first.a, first.terms[0].b, second.terms[0].b,
              *(v for w in second.writes for v in w.needs())]
    if any(v.op == "red" for v in below(wanted, frozenset({second.terms[0].sum.id}))):
        raise LoweringError("a reduction beside an attention would be made for every element; "
                            "store it, and read it in the attention's kernel")


@dataclass(slots=True)
class _Kernel:
    """One kernel being written."""

    name: str
    attention: Attention
    language: SimtC
    blocks: Blocks
    symbols: tuple[str, ...]
    how: type[AttentionBlock]
    free: int

    def code(self) -> KernelCode:
        a, parts = self.attention, self.blocks.parts
        partial = Partial(self.free, parts) if parts > 1 else None
        p = self._printer()
        block = self.how(a, self.blocks, self._at(p), partial)
        while (why := block.refused()) is not None:
            less = block.narrower()
            if less is None:
                raise LoweringError(why)
            self.blocks = less
            block = replace(block, blocks=less)
        block.write()
        (group,), total = a.second.groups, a.second.groups[0].terms[0].sum.id
        reads = loads([a.first.a, a.first.groups[0].terms[0].b, group.terms[0].b])
        reads |= loads([a.scores, *(b.value for b in a.bounds)], frozenset({a.product.id}))
        ends = loads([v for w in group.writes for v in w.needs()], frozenset({total}))
        writes = {w.slot: w.value.dtype for w in group.writes}
        tiles = (parts * spread(a.second.batch) * padded(spread(a.second.m), self.blocks.rows),
                 self.blocks.rows)
        made = [stage(self.language, self.name, self.symbols, p.lines,
                      {**reads, **(ends if partial is None else {})},
                      writes if partial is None else partial.dtypes(a), (tiles,), p.rooms,
                      block.at_once, block.asked, p.index)]
        if partial is not None:
            p = self._printer()
            partial.total(self._at(p), a)
            made.append(stage(self.language, f"{self.name}_total", self.symbols, p.lines,
                              {**ends, **partial.dtypes(a)}, writes,
                              ((partial.points(a), THREADS),), index=p.index))
        own = () if partial is None else partial.temporaries(a)
        return KernelCode(self.name, "\n".join(s for s, _ in made), tuple(s for _, s in made), own,
                          self.symbols, attention_work(a, own), (f"{self.blocks}",))

    def _printer(self) -> SimtPrinter:
        """With the type of what the kernels count and address."""
        a, b = self.attention, self.blocks
        (first,), (group,) = a.first.groups, a.second.groups
        values = [a.first.a, first.terms[0].b, group.terms[0].b, a.scores,
                  *(b.value for b in a.bounds), *(v for w in group.writes for v in w.needs())]
        m, n, keys = spread(a.second.m), spread(group.n), spread(a.keys)
        items = 2 * (spread(a.second.batch) + 1)  # those of a group that is not whole as well
        fits = narrow_products(below(values), group.writes,
                               [b.parts * items * (m + b.rows) * (n + b.rows),
                                b.parts * (keys + b.keys)])
        dialect = replace(self.language.dialect, index="int" if fits else "int64_t")
        return SimtPrinter(dialect, a.first.propagation.algebra)

    def _at(self, p: SimtPrinter) -> Evaluator:
        return Evaluator(self.attention.first.propagation, self.language, p)
