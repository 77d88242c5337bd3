"""The forms of a contraction on this device: rows of the op table, and which are worth a look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.contraction import Spec
from tegg.dim import Dim, Shape, hint, product
from tegg.dtype import DType, f32
from tegg.errors import LoweringError
from tegg.ir.neighbours import Axes, beside_of, stored
from tegg.ir.op import Op
from tegg.ir.template import OWN, Execution, Extents, template
from tegg.kernel.contraction_shape import BESIDE, DOTS, IN_ORDER, Tile
from tegg.kernel.registers import Registers, lanes_of, panels_at_once, register_tiles

from .narrow_forms import narrow_tile
from .windows import slides

if TYPE_CHECKING:
    from tegg.rewrite.view import View

_SKINNY = 16           # rows up to which it may pay to read B where it lies, used so seldom
SHORT = 8              # steps of the innermost of several summed axes from which vectors follow it
_FEW = 1 << 14         # outputs up to which the depth may be split: partial sums stay in cache
_PART = 2048           # terms that are worth a part of their own
_PARTS = 32            # at most; a power of two, so that few depths give different code
_LOADS = MappingProxyType({"many": 0.4, "neon": 0.4, "few": 0.8})  # issue slots of a vector of B
_PORTS, _LATENCY = 2, 4  # multiply-adds a cycle, and cycles until one's result can be used
_LOOSE = 4.5           # issue slots by which a vector of results takes longer to pack and to store
                       # where the last panel has fewer columns, so that loops are of any length
_REDUCE = 6            # steps that adding up the lanes of four accumulators costs
_FOLLOWED = 0
_ASKED = (IN_ORDER, _FOLLOWED, BESIDE)  # how a program asks for what it reads later, or not
# What prices the reads of operands, among a profile's ``template_reads``, where it is not the
# template's own name: those that hardware follows, and those that are asked for side by side.
READ_AS = MappingProxyType({(op, asked): f"{op}{how}" for op in ("CpuRows", "CpuDots")
                            for asked, how in ((_FOLLOWED, "Followed"), (BESIDE, "Beside"))})


def register(d: DType) -> DType:
    """The dtype in which sums are kept: halves accumulate in float32."""
    return f32 if d.is_float and d.itemsize == 2 else d


# ---- what each form executes
@dataclass(frozen=True, slots=True)
class Packed:
    """Register tiles over packed panels."""

    registers: Registers

    def __call__(self, own: tuple, e: Extents) -> Execution:
        rows, vectors, parts = own
        lanes = lanes_of(register(e.dtype), self.registers.width)
        whole, left = divmod(-(-e.n // lanes), vectors)
        tall = -(-e.m // rows)
        abreast = panels_at_once(rows, vectors, self.registers) if tall == parts == 1 < whole else 1
        load = _LOADS[self.registers.family]
        slots = (whole * issue_slots(rows, abreast * vectors, load) / abreast
                 + (issue_slots(rows, left, load) if left else 0))
        if left:  # panels are not known to be full
            slots += _LOOSE * rows * (whole * vectors + left) / max(1, e.k)
        padded = tall * rows * -(-e.n // lanes)
        panels = whole + bool(left)
        packed = e.batch * e.k * panels * vectors * lanes
        units = panels if parts == 1 else parts
        return Execution(2.0 * e.batch * e.k * padded * lanes,
                         max(1, padded) / max(1, tall * slots),
                         max(1, e.batch * units * (tall if parts == 1 else 1)), packed,
                         0 if parts > 1 else packed // max(1, e.batch),
                         *_partial(e.batch * tall * rows * panels * vectors * lanes, parts))


def issue_slots(rows: int, vectors: int, load: float = 0.4) -> float:
    """Issue slots of one step of a register tile: multiply-adds with the loads that they do not
    hide (``load`` a vector of B, which comes from L2), loads alone, or waiting for results."""
    return max(rows * vectors + 0.15 * rows + load * vectors, 1.4 * (rows + vectors),
               _PORTS * _LATENCY)


def _partial(sums: int, parts: int) -> tuple[int, int]:
    return (sums * parts, 1) if parts > 1 else (0, 0)


@dataclass(frozen=True, slots=True)
class _Rows:
    """B read row by row: each step loads a vector of B, multiplies and adds it for each row, and
    loads and stores sums once in eight steps."""

    width: int

    def __call__(self, own: tuple, e: Extents) -> Execution:
        vectors, asked = own
        lanes = lanes_of(register(e.dtype), self.width)
        return Execution(*by_rows(lanes, e), max(1, e.batch * -(-e.n // (vectors * lanes))),
                         aside=e.batch * e.m * e.k, reads=READ_AS.get(("CpuRows", asked), ""))


def by_rows(lanes: int, e: Extents) -> tuple[float, float]:
    """The operations of a product that reads B row by row, and the speed of its inner loop."""
    whole, left = divmod(e.n, lanes)  # the columns left over are added one by one
    slots = whole * (1 + 2.25 * e.m) + 2 * left * e.m
    padded = (whole + bool(left)) * e.m
    return 2.0 * e.batch * e.k * padded * lanes, max(1, padded) / max(1, slots)


@dataclass(frozen=True, slots=True)
class _Dots:
    """B read along the depth, against some rows at once: multiplied, then added."""

    width: int

    def __call__(self, own: tuple, e: Extents) -> Execution:
        rows, parts, asked = own
        lanes = lanes_of(register(e.dtype), self.width)
        tall, across = -(-e.m // rows), -(-e.n // DOTS)
        depth = -(-e.k // lanes) * lanes
        timed = max(depth, lanes)  # a depth of 0 has no speed, but is done at some
        slots = max(2 * rows * DOTS, _PORTS * _LATENCY)
        used = DOTS * rows / slots * timed / (timed + _REDUCE * lanes)
        pieces = parts if parts > 1 else -(-e.n // (4 * lanes))
        return Execution(2.0 * e.batch * depth * tall * rows * across * DOTS, used,
                         max(1, e.batch * pieces), 0, 0,
                         *(_partial(e.batch * e.m * across * DOTS, parts) if parts > 1
                           else (e.batch * e.m * e.k, 0)),
                         reads=READ_AS.get(("CpuDots", asked), ""))


@cache
def templates(registers: Registers) -> tuple[Op, ...]:
    """The rows for a processor's registers."""
    width = registers.width
    return (
        template("CpuPacked", (("rows", "int"), ("vectors", "int"), ("parts", "int")),
                 Packed(registers), "register tiles over packed panels of the second operand"),
        template("CpuRows", (("vectors", "int"), ("asked", "int")), _Rows(width),
                 "few rows: the second operand is read row by row, where it lies"),
        template("CpuDots", (("rows", "int"), ("parts", "int"), ("asked", "int")), _Dots(width),
                 "few rows: the second operand is read along the depth, where it lies"))


_TILES = MappingProxyType({
    "CpuPacked": lambda rows, vectors, parts: Tile("packed", rows, vectors, parts),
    "CpuSymmetric": lambda rows, vectors, parts: Tile("packed", rows, vectors, parts,
                                                      symmetric=True),
    "CpuRows": lambda vectors, asked: Tile("rows", vectors=vectors, asked=asked),
    "CpuDots": lambda rows, parts, asked: Tile("dots", rows, parts=parts, asked=asked)})


def tile_of(op: Op, attrs: tuple) -> Tile:
    """The tile that a template's attributes state. Raises LoweringError for another op."""
    if (narrow := narrow_tile(op, attrs)) is not None:
        return narrow
    if op.name not in _TILES:
        raise LoweringError(f"{op.name} has no form on this device; the rules of lower.cpu turn a "
                            f"contraction into its templates")
    return _TILES[op.name](*attrs[OWN:])


# ---- which are worth a look
def tiles(x: Shape, y: Shape, spec: str, dtype: DType,
          registers: Registers) -> list[tuple[int, int]]:
    """Register tiles for a product."""
    m, n, _ = _sizes(x, y, spec)
    return register_tiles(m, n, register(dtype), registers)


def parts(x: Shape, y: Shape, spec: str) -> list[int]:
    """Into how many parts the depth may be split: 1, and more where outputs are few.

    The number depends on the depth alone, never on the threads: results stay the same.
    """
    s = Spec.parse(spec)
    sizes = s.sizes(x, y)
    outputs = hint(product(tuple(sizes[c] for c in s.out if c)))
    most = min(_PARTS, hint(_sizes(x, y, spec)[2]) // _PART)
    return [1] if outputs > _FEW or most < 2 else [1, 1 << (most.bit_length() - 1)]


def abreast(m: Dim, registers: Registers) -> int:
    """Of so many rows, those that a B read along the depth meets at once."""
    return max(1, min(hint(m), 4 if registers.count == 32 else 2))


def few_rows(x: Shape, y: Shape, spec: str) -> bool:
    """Whether the first operand has few rows."""
    return 0 < hint(_sizes(x, y, spec)[0]) <= _SKINNY


def depth_last(x: Any, y: Any, spec: str) -> bool:
    """Whether both operands (an ``Operand``, or what lies as its shape says) are contiguous along
    what is summed, in runs that are worth vectors."""
    s = Spec.parse(spec)
    size = s.sizes(x.shape, y.shape)
    return bool(s.k) and all(s.k[-1] in {axes[i] for i in _beside(o)} and _runs(s, axes, size)
                             for o, axes in ((x, s.x), (y, s.y)))


def _runs(s: Spec, axes: Sequence[str], size: Mapping[str, Dim]) -> bool:
    """Whether what is summed is one run of an operand, or runs are long: taps are few."""
    letters, run = [c for c in axes if c], 1
    at = letters.index(s.k[-1])
    for i, c in enumerate(reversed(s.k)):
        if i > at or letters[at - i] != c:
            return run >= SHORT
        run *= hint(size[c])
    return True


def _beside(operand: Any) -> Axes:
    """The axes along which neighbours of an operand lie side by side."""
    along = getattr(operand, "along", None)
    return along() if along is not None else stored(tuple(map(hint, operand.shape)))


def _sizes(x: Shape, y: Shape, spec: str) -> tuple[Dim, Dim, Dim]:
    """Rows, columns and depth."""
    s = Spec.parse(spec)
    size = s.sizes(x, y)
    m, n, k = (product(tuple(size[c] for c in letters)) for letters in (s.m, s.n, s.k))
    return m, n, k


@dataclass(frozen=True, slots=True)
class Forms:
    """Which forms of a contraction x, y, spec could win on this machine, for rules to build.

    ``(cpu-tile x y i r v)``: register tiles of r rows by v vectors; ``(cpu-parts x y i p)``: the
    depth in p parts; ``(cpu-rows x y i v a)``: few rows, v vectors of columns at a time;
    ``(cpu-dots x y i r p a)``: few rows, r at once, both operands contiguous along the depth.
    Programs ask for what they read later where a is 1, and read it in order; where it is 2 they ask
    for several runs side by side; where it is 0 hardware follows them.
    """

    registers: Registers
    name = "cpu forms"
    known = 3
    relations = MappingProxyType({
        "cpu-tile": ("Tensor", "Tensor", "String", "i64", "i64"),
        "cpu-parts": ("Tensor", "Tensor", "String", "i64"),
        "cpu-rows": ("Tensor", "Tensor", "String", "i64", "i64"),
        "cpu-dots": ("Tensor", "Tensor", "String", "i64", "i64", "i64")})

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What a relation says of two operands and a spec."""
        x, y, spec = given
        shapes = x.shape, y.shape, spec
        if relation == "cpu-tile":
            return list(tiles(*shapes, x.dtype, self.registers))
        if relation == "cpu-parts":
            return [(p,) for p in parts(*shapes)]
        if not few_rows(*shapes):
            return []
        if relation == "cpu-rows":
            return [] if depth_last(x, y, spec) else [(4, asked) for asked in _ASKED]
        if not depth_last(x, y, spec):
            return []
        rows = abreast(_sizes(*shapes)[0], self.registers)
        return [(rows, p, asked) for p in parts(*shapes) for asked in _ASKED]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Contract"):
            x, y = (Operand(view.shape[a], view.dtype[a], partial(read_along, view, a))
                    for a in n.args)
            # Windows lie nowhere: each element of theirs would be found anew where it is read.
            moved = slides(view, n.args[1])
            for relation in self.relations:
                if moved and relation in ("cpu-rows", "cpu-dots"):
                    continue
                for values in self.completions(relation, x, y, n.attrs[0]):
                    yield (relation, *n.args, n.attrs[0], *values)


@dataclass(frozen=True, slots=True)
class Operand:
    """What the forms of a product depend on, of one operand. ``along``: what tells along which of
    its axes it is read by vectors, where it is not stored."""

    shape: Shape
    dtype: DType
    along: Callable[[], Axes] | None = None


def read_along(view: View, c: int) -> Axes:
    """The axes of a class along which neighbours lie side by side, where it is read."""
    return beside_of(c, view.nodes, _Hinted(view.shape))


@dataclass(frozen=True, slots=True)
class _Hinted:
    """Shapes at the sizes that costs assume."""

    shapes: Mapping[int, Shape]

    def __getitem__(self, c: int) -> tuple[int, ...]:
        return tuple(map(hint, self.shapes[c]))
