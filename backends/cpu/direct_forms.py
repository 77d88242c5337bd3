"""Which direct convolutions could win on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.cpu.direct_templates import DIRECT_TILES, PLACES, Slide, direct_tiles, first_tile
from tegg.backends.cpu.instructions import PAIRS, TILES
from tegg.backends.cpu.templates import Operand
from tegg.backends.cpu.windows import nodes_of
from tegg.contraction import Spec
from tegg.dim import Dim, hint, product
from tegg.dtype import DType, bf16, f32
from tegg.ir.graph import Graph
from tegg.kernel.registers import Registers

if TYPE_CHECKING:
    from tegg.rewrite.view import View


# A product whose vectors are places computes so many times those that there are, before one whose
# vectors are filters is worth a look.
_EMPTY = 1.05


@dataclass(frozen=True, slots=True)
class Found:
    """Windows across the places of a contraction: how many filters meet them, and how many places
    all images have."""

    slides: tuple[Slide, ...]
    filters: int
    places: int

    @property
    def plain(self) -> bool:
        """Whether windows are no more than the places."""
        return all(s.taps == s.stride == 1 for s in self.slides)


@dataclass(frozen=True, slots=True)
class DirectForms:
    """``(cpu-direct x y i f w r v)``: of the contraction x, y by the spec i, operand f (0 or 1) are
    filters, the other one windows as the text w says; r places by v vectors of filters are worth a
    look. ``(cpu-direct-pairs x y i f w r v)``: so they are of pairs, which the CPU has.
    ``(cpu-places x y i f w r v)``: r filters by v vectors of places are; ``(cpu-direct-tiles x y i
    f w r v)``: by v tiles of places, which the CPU has too."""

    registers: Registers
    features: frozenset[str]
    name = "cpu direct"
    known = 3
    relations = MappingProxyType({r: ("Tensor", "Tensor", "String", "i64", "String", "i64", "i64")
                                  for r in ("cpu-direct", "cpu-direct-pairs", "cpu-direct-tiles",
                                            "cpu-places")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """Tiles for any contraction: the form means what the contraction means, and whether it is
        one of windows decides only what can be lowered."""
        return [(0, str(Slide(1, 1)), 6, 2)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (Operand(view.shape[a], view.dtype[a]) for a in n.args)
            stated = self._stated(x.dtype)
            for f in (0, 1) if stated else ():
                for axes in set(_windows(view, n.args[1 - f])):
                    found = self._found((x, y), n.attrs[0], f, axes)
                    for relation in stated if found else ():
                        for tile in self._tiles(relation, found):
                            text = "/".join(map(str, found.slides))
                            yield (relation, *n.args, n.attrs[0], f, text, *tile)

    def example(self) -> Graph:
        """A convolution with a stride, to some filters more than a vector."""
        g, width = Graph(), self.registers.width
        x = g.input("x", (width + 1, 4, 3, 3), f32)
        y = g.input("y", (4, 9, width + 2), f32)
        for axis, stride in ((1, 2), (3, 1)):
            y = g.op("Window", y, axis, 3, stride, 1)
        g.op("Contract", x, y, "a,d,e,f;d,b,e,c,f;a,b,c", (width + 1, 4, width))
        return g

    def _stated(self, d: DType) -> list[str]:
        """The relations that may hold of operands of a dtype."""
        return [*["cpu-direct", "cpu-places"] * (d is f32),
                *(r for r, needs in _NEEDS.items() if needs in self.features and d in (f32, bf16))]

    def _tiles(self, relation: str, found: Found) -> Iterable[tuple[int, int]]:
        """The tiles that are worth a look."""
        width, across, filters = self.registers.width, found.slides[-1], found.filters
        lanes = -(-found.places // width) * width
        # In tiles what is put in place takes less than packing panels, whatever is empty.
        if found.plain and not (relation == "cpu-direct-tiles"
                                or relation != "cpu-places" and lanes > _EMPTY * found.places):
            return ()
        if relation in ("cpu-direct", "cpu-direct-pairs"):
            return direct_tiles(across.places, filters, self.registers) if 2 * filters >= width \
                else ()
        few = filters % width and filters < 2 * width  # of some vectors much would be empty
        if relation == "cpu-places" and not (
                few and across.stride == 1 and across.places >= width):
            return ()
        name = PLACES if relation == "cpu-places" else DIRECT_TILES
        return [first_tile(name, across.places, filters, self.registers)]

    def _found(self, pair: tuple[Operand, Operand], text: str, filters: int,
               axes: tuple[tuple[int, Slide], ...]) -> Found | None:
        """The windows where some axes of the other operand are places, each with its taps after it;
        None where a size is not known."""
        spec = Spec.parse(text)
        letters, shape = (spec.x, spec.y)[1 - filters], pair[1 - filters].shape
        free, own = (spec.m, spec.n)[1 - filters], (spec.m, spec.n)[filters]
        size = spec.sizes(pair[0].shape, pair[1].shape)
        count: Dim = product(tuple(size[c] for c in own))
        at, _ = axes[-1]
        across = shape[at]
        known = (isinstance(across, int) and isinstance(count, int)
                 and all(isinstance(size[c], int) for c in spec.k))
        if not known or letters[at] not in free or across < 2 or count < 1 or not spec.k:
            return None
        slides = tuple(Slide(hint(shape[i]), s.taps, s.stride, s.dilation) for i, s in axes)
        found = Found(slides[-2:], hint(count), hint(product(tuple(size[c] for c in free))))
        if not found.plain:
            return found
        whole = product(tuple(shape[i] for i, _ in axes))  # they lie one after the other
        plain = isinstance(whole, int) and all(s.taps == s.stride == 1 for s in slides)
        return replace(found, slides=(Slide(hint(whole), 1),)) if plain else None


_NEEDS = MappingProxyType({"cpu-direct-pairs": PAIRS, "cpu-direct-tiles": TILES})


def _windows(view: View, c: int) -> Iterator[tuple[tuple[int, Slide], ...]]:
    """Axes of a class that are places of windows, outermost first, the taps of each after it: of
    its own, or of what it splits into groups of channels."""
    yield from _chains(view, c)
    for n in nodes_of(view, c, "Reshape"):
        here, there = view.shape[c], view.shape[n.args[0]]
        moved = len(here) - len(there)
        for chain in _chains(view, n.args[0]):
            if here[chain[0][0] + moved:] == there[chain[0][0]:]:
                yield tuple((i + moved, s) for i, s in chain)


def _chains(view: View, c: int) -> Iterator[tuple[tuple[int, Slide], ...]]:
    """Windows of windows, as many as there are."""
    for n in nodes_of(view, c, "Window"):
        axis, taps, stride, dilation = n.attrs
        own = (axis, Slide(1, taps, stride, dilation))
        below = [b for b in _chains(view, n.args[0]) if b[-1][0] + 1 < axis]
        yield from ((*b, own) for b in below or [()])
