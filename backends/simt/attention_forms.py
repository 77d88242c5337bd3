"""Forms of attention on blocks of threads: rows of the op table, blocks, what they execute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tegg.contraction import Spec
from tegg.dim import Shape, hint, product
from tegg.dtype import DType, f32, f64
from tegg.ir.op import Op
from tegg.ir.template import LICENCE, OWN, SOFTMAX, Execution, Extents, template

if TYPE_CHECKING:
    from tegg.rewrite.view import View

FEWEST = 32        # keys of a block, where it is not offered with less
MOST = 256         # columns of values, and terms of a score: what a block has room for
PLAIN = "plain"    # products of the dtype that there is
_PLAIN = MappingProxyType({"f32": (32, 32), "f64": (16, 16)})
_FEW = MappingProxyType({"f32": (8, 64), "f64": (8, 32)})  # of a few queries, as in decoding
_SPEED = MappingProxyType({PLAIN: 0.3, "matrix": 1.1, "half": 1.3, "f16": 10.0,
                          "bf16": 10.0})  # of float32; see those who offer them
_TIMES = MappingProxyType({(PLAIN, 8): 0.7, (PLAIN, 64): 1.6, ("f16", 64): 0.6,
                          ("bf16", 64): 0.6})  # by rows
_BUSY = 264        # blocks that keep a device busy
_KEYS = 128        # of a part, at least


@dataclass(frozen=True, slots=True)
class Blocks:
    """A block is ``rows`` queries by ``keys`` keys; products are of ``kind``, or ``plain``: of the
    dtype that there is. The keys that a block of queries sees are shared out to ``parts``, whose
    sums a second kernel joins."""

    kind: str
    rows: int
    keys: int
    parts: int = 1

    @property
    def few(self) -> bool:
        return self.rows == 8

    def shared_out(self, batch: int, m: int, keys: int) -> list[Blocks]:
        """The same, and with as many parts as keep a device busy, or half of them."""
        pieces, parts = max(1, batch * -(-m // self.rows)), 1
        while 2 * parts * pieces <= _BUSY and keys // (2 * parts) >= _KEYS:
            parts *= 2
        return [replace(self, parts=p) for p in sorted({1, max(1, parts // 2), parts})]


def executes(own: tuple, e: Extents) -> Execution:
    """The product with the values, and the softmax; that of the scores is priced by itself."""
    b = Blocks(*own)
    down, deep = -(-e.m // b.rows) * b.rows, -(-e.k // b.keys) * b.keys
    return Execution(2.0 * e.batch * down * deep * e.n,
                     _SPEED[b.kind] * _TIMES.get((b.kind, b.rows), 1.0),
                     max(1, e.batch * -(-e.m // b.rows) * b.parts),
                     aside=b.parts * e.batch * e.m * (e.n + 2) if b.parts > 1 else 0,
                     stages=int(b.parts > 1), beside=SOFTMAX * e.batch * e.m * e.k)


@cache
def attention_row(device: str, executes: Callable[[tuple, Extents], Execution] = executes) -> Op:
    """The row of a device, whose name its begins with. Its meaning is exact; products of halves
    are within their licence's rounding. executes: what its blocks execute."""
    return template(f"{device}Attention", (("kind", "mode"), ("rows", "int"), ("keys", "int"),
                                           ("parts", "int")), executes,
                    "scores stay in a block, a block of queries and keys at a time", "Attention")


def blocks_of(attrs: tuple) -> Blocks:
    """The blocks that the template's attributes state."""
    return Blocks(*attrs[OWN:])


@dataclass(frozen=True, slots=True)
class AttentionForms:
    """``(DEVICE-attention x y i d r k p)``: attention of scores x and values y by the spec i may go
    in blocks of r queries by k keys, p parts of the keys, with products of kind d: ``plain``, or
    one of the device's units of matrices.

    dtypes: what it computes in.
    """

    device: str
    dtypes: frozenset[str]
    known = 3

    @property
    def name(self) -> str:
        return f"{self.device} attention"

    @property
    def relations(self) -> Mapping[str, tuple[str, ...]]:
        return MappingProxyType({
            f"{self.device}-attention": ("Tensor", "Tensor", "String", "String",
                                         *("i64",) * 3),
            **LICENCE})

    def plain(self, kind: str, queries: int, columns: int) -> list[Blocks]:
        """Blocks with products of a dtype as it is, for so many queries and columns."""
        few = [Blocks(PLAIN, *_FEW[kind])] * (queries <= 2 * _FEW[kind][0])
        return [Blocks(PLAIN, *_PLAIN[kind]), *few]

    def matrices(self, columns: int) -> list[Blocks]:
        """Blocks with products of float32 in units of matrices, for so many columns."""
        return []

    def completions(self, relation: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the first relation says of scores, values and a spec, of any floats: the form means
        what attention means, and which dtypes there are decides what is worth a look."""
        x, y, text = given
        spec = Spec.parse(text)
        size = spec.sizes(x.shape, y.shape)
        columns = product(tuple(size[c] for c in spec.n))
        if relation in LICENCE or not (x.dtype.is_float and isinstance(columns, int)
                                       and columns <= MOST):
            return []
        batch, m, keys = (hint(product(tuple(size[c] for c in letters)))
                          for letters in (spec.batch, spec.m, spec.k))
        kind = "f64" if x.dtype is f64 else "f32"
        found = [*self.plain(kind, m, columns), *self.matrices(columns)]
        return [astuple(b) for form in found for b in form.shared_out(batch, m, keys)]

    def facts(self, view: View) -> Iterable[tuple[Any, ...]]:
        for _, n in view.having("Attention"):
            x, y = (_Operand(view.shape[a], view.dtype[a]) for a in n.args)
            if x.dtype.name not in self.dtypes:
                continue
            for found in self.completions(f"{self.device}-attention", x, y, n.attrs[0]):
                if x.dtype is f32 or found[0] == PLAIN:
                    yield (f"{self.device}-attention", *n.args, n.attrs[0], *found)


@dataclass(frozen=True, slots=True)
class _Operand:
    shape: Shape
    dtype: DType
