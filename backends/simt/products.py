"""A fragment around contractions, read and ready to be written by a template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tegg.backends.simt.contraction_before import Before, stored_reductions
from tegg.backends.simt.indices import narrow_products
from tegg.backends.simt.language import SimtC
from tegg.backends.simt.printer import SimtPrinter
from tegg.dim import Dim, hint
from tegg.dtype import DType
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode, Launch, Stage, Temporary, Work
from tegg.kernel.contraction_classify import Contraction, classify
from tegg.kernel.domain import spread
from tegg.kernel.flops import flops
from tegg.kernel.lower import kernel_symbols
from tegg.kernel.slots import slots_of
from tegg.kernel.simt import THREADS
from tegg.kernel.value import Val
from tegg.kernel.work import bytes_read, bytes_written


@dataclass(frozen=True, slots=True)
class Products:
    """The contractions, what runs before them, and the slot of the first array of one's own."""

    contraction: Contraction
    before: Before
    symbols: tuple[str, ...]
    extra: int

    @property
    def operands(self) -> list[Val]:
        c = self.contraction
        return [c.a, *(t.b for g in c.groups for t in g.terms)]

    @property
    def results(self) -> list[Val]:
        return [v for g in self.contraction.groups for w in g.writes for v in w.needs()]

    @property
    def sums(self) -> frozenset[int]:
        """Values that templates make themselves."""
        return frozenset(t.sum.id for g in self.contraction.groups for t in g.terms)

    @property
    def writes(self) -> dict[int, DType]:
        return {w.slot: w.value.dtype for g in self.contraction.groups for w in g.writes}

    def index(self, tile: int, parts: int) -> str:
        """The type of what counts and addresses. tile: no side of a tile is longer."""
        c = self.contraction
        down, depth = spread(c.m) + tile, c.depth + tile
        counts = [parts * (spread(c.batch) + 1) * down * (spread(g.n) + tile) for g in c.groups]
        fits = narrow_products(below([*self.operands, *self.results]),
                               [w for g in c.groups for w in g.writes],
                               [*counts, parts * depth])
        return "int" if fits else "int64_t"

    def work(self, own: Sequence[Temporary] = ()) -> Work:
        """What one run executes: each element of memory that a stage reads is read once by it.

        own: arrays that one stage writes and the next reads.
        """
        c = self.contraction
        rows = hint(spread(c.batch)) * hint(spread(c.m))
        terms = sum(hint(spread(g.n)) * len(g.terms) for g in c.groups)
        depth, aside = hint(c.depth), sum(hint(t.size) * t.dtype.itemsize for t in own)
        evaluations = rows * terms * depth * (2 + flops(c.a, frozenset()) // 16)
        return Work(int(evaluations), rows * terms * depth,
                    bytes_read(c.read, c.propagation.graph) + self.before.loaded + aside,
                    bytes_written(c.writes) + self.before.stored + aside)


def products_of(graph: Graph, outputs: Sequence[Node], anchors: Sequence[Node], name: str,
                language: SimtC) -> Products | None:
    """The products of a fragment, or None where nothing is to be computed.

    Raises LoweringError where the fragment has another form.
    """
    slots = slots_of(graph, outputs, anchors)
    if not slots.live:
        return None
    c = classify(graph, slots.live, slots.anchors, language.native, slots.slots,
                 language.doubles)
    symbols = kernel_symbols(graph, outputs)
    c, before = stored_reductions(c, name, language, symbols, slots.free)
    return Products(c, before, symbols, slots.free + len(before.temporaries))


def nothing(name: str) -> KernelCode:
    """A kernel of no results."""
    return KernelCode(name, "", (), (), (), Work(0, 0, 0, 0))


def below(roots: Iterable[Val], taken: frozenset[int] = frozenset()) -> list[Val]:
    """All that some values are computed from, themselves included; those ``taken`` are known."""
    todo, seen = [v for v in roots if v.id not in taken], {}
    while todo:
        v = todo.pop()
        if v.id not in seen:
            seen[v.id] = v
            todo.extend(a for a in v.args if a.id not in taken)
    return list(seen.values())


def loads(roots: Iterable[Val], taken: frozenset[int] = frozenset()) -> dict[int, DType]:
    """Slots that are read below some values."""
    return {v.attr.slot: v.dtype for v in below(roots, taken) if v.op == "load"}


def stage(language: SimtC, name: str, symbols: Sequence[str], lines: Sequence[str],
          reads: dict[int, DType], writes: dict[int, DType],
          nests: tuple[tuple[Dim, int], ...], rooms: Sequence[str] = (), blocks: int = 0,
          shared: int = 0, index: str = "int64_t", beside: bool = False) -> tuple[str, Stage]:
    """One function of these lines, and how it is called. rooms, blocks, index: of its head;
    shared, beside: of its launch."""
    buffers = dict(sorted({**reads, **writes}.items()))
    head = language.head(name, buffers, symbols, rooms, index, blocks)
    source = "\n".join([*head, *lines, "}"]) + "\n"
    return source, Stage(name, frozenset(reads), frozenset(writes), True,
                         Launch(THREADS, nests, tuple(buffers), shared, beside))


@contextmanager
def dealt_tiles(p: SimtPrinter, count: str, more: bool) -> Iterator[None]:
    """Every tile of one group of results, as many at a time as there are blocks. more: there are
    several groups, of which ``dealt`` counts the tiles; a block begins where it comes to."""
    index = p.dialect.index
    first = "block_id()"
    if more:
        p.line(f"const {index} tiles = {count};")
        first = "(block_id() + block_count() - dealt % block_count()) % block_count()"
        count = "tiles"
    with p.braces(f"for ({index} tile = {first}; tile < {count}; tile += block_count())"):
        yield
    if more:
        p.line("dealt += tiles;")
