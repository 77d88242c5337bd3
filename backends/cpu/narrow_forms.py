"""Forms of a contraction with operands of 8 and 16 bits: their rows, and which could win."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from operator import ge
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.backends.cpu.instructions import BYTES, BYTE_TILES, PAIRS, TILES
from tegg.contraction import Spec
from tegg.dim import Dim, Shape, hint, product
from tegg.dtype import DType, bf16, f16, f32, i8, i32, u8
from tegg.ir.op import Op
from tegg.ir.template import OWN, Execution, Extents, template
from tegg.kernel.contraction_held import HELD, TILE, Held
from tegg.kernel.contraction_shape import Tile
from tegg.kernel.registers import Registers, register_tiles

if TYPE_CHECKING:
    from tegg.rewrite.view import View

_LICENCE = "may-multiply"  # of products, to round their operands: what Bf16() and Fp16() state
_FULL = 0.5  # of tiles that leave vectors nothing to win: at a third they were level
_WIDEN = MappingProxyType({"bf16": 0.6, "f16": 1.5})  # issue slots that a widened vector takes


@dataclass(frozen=True, slots=True)
class _Panels:
    """Register tiles over panels in fewer bits. ``slots``: issue slots of one step of a tile of
    rows by vectors, ``group`` terms deep."""

    held: Held
    width: int
    widen: float = 0.0

    def __call__(self, own: tuple, e: Extents) -> Execution:
        rows, vectors = own[-2:]
        tall, across = -(-e.m // rows), -(-e.n // (vectors * self.width))
        deep = -(-e.k // self.held.grain) * self.held.grain
        done = tall * rows * across * vectors
        packed = e.batch * deep * across * vectors * self.width
        return Execution(2.0 * e.batch * deep * done * self.width,
                         rows * vectors / self._slots(rows, vectors),
                         max(1, e.batch * across * tall), packed,
                         packed // max(1, e.batch),
                         itemsize=self.held.itemsize)

    def _slots(self, rows: int, vectors: int) -> float:
        """Multiply-adds, with the loads of B that they do not hide and what widens them."""
        loads = 0.4 * self.held.itemsize / 4 + self.widen
        return max(rows * vectors + 0.15 * rows + loads * vectors, 1.4 * (rows + vectors), 8.0)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Products of whole tiles, two by two at most."""

    held: Held

    def __call__(self, own: tuple, e: Extents) -> Execution:
        rows, vectors = own
        tall, across = -(-e.m // rows), -(-e.n // (vectors * TILE))
        deep = -(-e.k // self.held.grain) * self.held.grain
        packed = e.batch * deep * across * vectors * TILE
        a, b = rows // TILE, vectors
        return Execution(2.0 * e.batch * deep * tall * rows * across * vectors * TILE,
                         2 * a * b / max(2 * a * b, a + b + 2), max(1, e.batch * across * tall),
                         packed, packed // max(1, e.batch),
                         itemsize=self.held.itemsize)


_OWN = (("rows", "int"), ("vectors", "int"))


def narrow_execution(held: str, width: int, tile: tuple[int, int], e: Extents) -> Execution:
    """What a product of operands that are held so executes, by tiles of rows by vectors."""
    how = HELD[held]
    return (_Tiles(how) if how.multiply == "tiles" else _Panels(how, width))(tile, e)


@cache
def narrow_templates(width: int) -> tuple[Op, ...]:
    """The rows for a vector width. They mean a Contract; the rules say how far they are from it."""
    halves = {d: _Panels(HELD[d], width, slots) for d, slots in _WIDEN.items()}
    return (
        template("CpuHalves", (("to", "dtype"), *_OWN), lambda own, e: halves[own[0].name](own, e),
                 "panels of 16 bits, which widen in registers"),
        template("CpuPairs", _OWN, _Panels(HELD["pairs"], width),
                 "both operands bfloat16, two products and their sum at once"),
        template("CpuTiles", _OWN, _Tiles(HELD["tiles"]),
                 "both operands bfloat16, multiplied in tiles"),
        template("CpuBytes", (("flipped", "int"), *_OWN), _Panels(HELD["bytes"], width),
                 "unsigned by signed bytes, four products and their sum at once", holding=_bytes),
        template("CpuByteTiles", (("flipped", "int"), *_OWN),
                 lambda own, e: _Tiles(HELD["byte tiles"])(own[1:], e),
                 "unsigned by signed bytes, multiplied in tiles", holding=_bytes))


def _bytes(own: tuple) -> tuple[DType, DType]:
    """What the operands hold: the first one bytes without a sign, or the second one if flipped."""
    return (i8, u8) if own[0] else (u8, i8)


def narrow_tile(op: Op, attrs: tuple) -> Tile | None:
    """The tile that a template of these states, or None for another op."""
    own = attrs[OWN:]
    held = {"CpuPairs": "pairs", "CpuTiles": "tiles", "CpuBytes": "bytes",
            "CpuByteTiles": "byte tiles"}.get(op.name)
    if op.name == "CpuHalves":
        held = own[0].name
    if held is None:
        return None
    how = HELD[held].swapped() if held.startswith("byte") and own[0] else HELD[held]
    return Tile("packed", *own[-2:], held=how)


# ---- which are worth a look
@dataclass(frozen=True, slots=True)
class NarrowForms:
    """Which of these forms of a contraction x, y, spec could win on this machine.

    ``(cpu-halves x y i d r v)``, ``(cpu-pairs x y i r v)``, ``(cpu-bytes x y i r v)``: register
    tiles of r rows by v vectors; ``(cpu-tiles x y i r v)``, ``(cpu-byte-tiles x y i r v)``: of r
    rows by v tiles. Only what the CPU has is stated.

    ``(may-multiply x y i d)`` is stated of operands that hold values of d alone: whoever rounds
    those changes nothing. Of a product of which nobody states it no form that rounds to d is.
    """

    registers: Registers
    features: frozenset[str]
    name = "cpu narrow forms"
    known = 3
    relations = MappingProxyType({
        _LICENCE: ("Tensor", "Tensor", "String", "String"),
        "cpu-halves": ("Tensor", "Tensor", "String", "String", "i64", "i64"),
        **{r: ("Tensor", "Tensor", "String", "i64", "i64")
           for r in ("cpu-pairs", "cpu-tiles", "cpu-bytes", "cpu-byte-tiles")}})
    reads = (_LICENCE,)

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What a relation says of two operands and a spec."""
        x, y, spec = given
        if relation == _LICENCE:
            return [(d,) for d in (bf16, f16) if x.dtype is d and y.dtype is d]
        return self._stated(relation, x.shape, y.shape, spec, x.dtype)

    def _stated(self, relation: str, x: Shape, y: Shape, spec: str, d: DType) -> list[tuple]:
        m, n, k = sizes_of(x, y, spec)
        if hint(k) < 2:
            return []  # nothing is summed
        if relation == "cpu-halves":
            sooner = filled(self.features, "tiles", m, n, k)
            return [(to, *t) for to in ("bf16", "f16") for t in self._registers(m, n)
                    if d in (f32, bf16, f16) and not (sooner and to == "bf16")]
        needs, dtypes, instead = _NEEDS[relation]
        if needs not in self.features or d not in dtypes:
            return []
        if filled(self.features, instead, m, n, k):
            return []
        if relation != "cpu-bytes" and (hint(m) if isinstance(m, int) else TILE) < 2:
            return []  # memory is waited for, not products: halves that widen are as soon there
        if relation in ("cpu-pairs", "cpu-bytes"):
            return self._registers(m, n)
        return [(r, v) for r in ((32, 16) if hint(m) > TILE else (16,))
                for v in ((2,) if hint(n) > TILE else (1,))]

    def _registers(self, m: Dim, n: Dim) -> list[tuple[int, int]]:
        return register_tiles(m, n, f32, self.registers)

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = n.args
            held = [d for d in (bf16, f16) if all(_holds(a, d, view) for a in n.args)]
            for d in held:
                yield (_LICENCE, x, y, n.attrs[0], d.name)
            licensed = {d.name for d in held} | {
                d for *of, d in view.stated[_LICENCE].get(x, ()) if of == [y, n.attrs[0]]}
            for relation in self.relations:
                if relation == _LICENCE or not (relation in _EXACT or licensed):
                    continue
                for values in self._stated(relation, view.shape[x], view.shape[y], n.attrs[0],
                                           view.dtype[x]):
                    to = values[0] if relation == "cpu-halves" else bf16.name
                    if relation in _EXACT or to in licensed:
                        yield (relation, x, y, n.attrs[0], *values)


_EXACT = ("cpu-bytes", "cpu-byte-tiles")
_MULTIPLIES = MappingProxyType({"tiles": TILES, "byte tiles": BYTE_TILES})
# What each needs, dtypes of its operands, and the tiles that leave it nothing to win.
_NEEDS = MappingProxyType({
    "cpu-pairs": (PAIRS, (f32, bf16), "tiles"), "cpu-tiles": (TILES, (f32, bf16), ""),
    "cpu-bytes": (BYTES, (i32,), "byte tiles"), "cpu-byte-tiles": (BYTE_TILES, (i32,), "")})


def _holds(c: int, d: DType, view: View) -> bool:
    """Whether a class holds values of a dtype alone: it is of that dtype, or cast from it."""
    return view.dtype[c] is d or any(
        n.op.name == "Cast" and view.dtype[n.args[0]] is d and view.dtype[c] is f32
        for n in view.nodes.get(c, ()))


def filled(features: Collection[str], held: str, *sizes: Dim) -> bool:
    """Whether the CPU multiplies whole tiles that are held so, and these rows, columns and depth
    are known and fill some. It takes a fraction of the time of any vectors, which are not priced
    then; of 17 x 17 results by 33 terms six parts in seven are empty, and vectors are sooner."""
    if _MULTIPLIES.get(held) not in features:
        return False
    known = [d for d in sizes if isinstance(d, int)]
    least = (TILE, TILE, HELD[held].grain)
    return len(known) == len(least) and all(map(ge, known, least)) and (
        math.prod(known) >= _FULL * math.prod(-(-d // t) * t for d, t in zip(known, least)))


def sizes_of(x: Shape, y: Shape, spec: str) -> tuple[Dim, Dim, Dim]:
    """Rows, columns and depth of a product."""
    s = Spec.parse(spec)
    size = s.sizes(x, y)
    m, n, k = (product(tuple(size[c] for c in letters)) for letters in (s.m, s.n, s.k))
    return m, n, k
