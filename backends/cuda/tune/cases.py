"""Kernels whose times tell what loops, ops and forms of products cost on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from tegg.dtype import DType, dtype as as_dtype, f32
from tegg.ir.graph import Graph, Node
from tegg.ir.op import OPS
from tegg.ir.template import Extents
from tegg.rewrite.compiler import Tf32, lowering
from tegg.rewrite.egraph import saturate

from ...tuning.case import Case, chain, repeated, tiny

if TYPE_CHECKING:
    from ..target import Cuda

_LIGHT = 2  # operations from which an op's own count is worth measuring

# Rows, columns, depth of products: large ones, such as models have, few rows, a deep one.
_PRODUCTS = MappingProxyType({
    "large": (4096, 4096, 4096), "medium": (1024, 1024, 1024), "layer": (512, 4096, 1024),
    "small": (128, 384, 384), "few rows": (4, 4096, 4096), "one row": (1, 4096, 4096),
    "deep": (64, 64, 65536)})


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the cases are. steps: of the two chains whose difference is the rate of loops;
    chained, elements: of them, and of an op that is done ``times`` over; halves: dtypes of which
    products are made beside float32; slow: dtypes of one small product each."""

    steps: tuple[int, int] = (64, 256)
    chained: int = 1 << 20
    dtypes: Sequence[str] = ("f32", "f64", "i32", "i64")
    elements: int = 1 << 20
    times: int = 16
    ops: Sequence[str] | None = None
    products: Mapping[str, tuple[int, int, int]] = field(default_factory=lambda: _PRODUCTS)
    halves: Sequence[str] = ("f16", "bf16")
    slow: Sequence[str] = ("f64", "i32")


FULL = Sizes()
QUICK = Sizes(dtypes=("f32", "f64"), ops=("Exp2", "Log2", "Sin", "Recip", "Sqrt"), halves=("f16",),
              products={n: _PRODUCTS[n] for n in ("large", "medium", "one row")})


def cases(target: Cuda, sizes: Sizes = FULL) -> list[Case]:
    """The cases for a device of this architecture: the same list for the same target and sizes."""
    out = [chain(n, d, sizes.chained) for d in sizes.dtypes for n in sizes.steps]
    out.append(tiny(64))
    out += [repeated(name, sizes.times, sizes.elements) for name in sizes.ops or _ops(target)]
    for dtype in ("f32", *sizes.halves):
        for m, n, k in sizes.products.values():
            out += products(target, m, n, k, dtype)
    for dtype in sizes.slow:
        out += products(target, 256, 256, 256, dtype)
    return out


def _ops(target: Cuda) -> list[str]:
    """Elementwise ops of one float operand that have a spelling and more than a light weight."""
    return [r.name for r in OPS.values() if r.kind == "elementwise" and r.arity == 1
            and r.cost >= _LIGHT and target.unsupported(r, f32) is None]


def products(target: Cuda, m: int, n: int, k: int, dtype: str) -> Iterator[Case]:
    """A product in each form that the target's rules find for it: with plain operands, and with
    the second one transposed, as weights lie."""
    for spec in ("a,k;k,n;a,n", "a,k;n,k;a,n"):
        graph, product = _product(target, m, n, k, as_dtype(dtype), spec)
        graph.outputs["out"] = product
        found = saturate(graph, (Tf32(), lowering(target)),
                         features=(target.name, *target.features)).classes
        for e in found.nodes[found.of[product.id]]:
            if e.op.template is not None:
                made, form = _product(target, m, n, k, as_dtype(dtype), spec, e.op.name, e.attrs)
                own = ", ".join(map(str, e.attrs[2:]))
                done = e.op.template(e.attrs, Extents(1, m, n, k, form.dtype))
                yield Case(f"{e.op.name}({own}) {spec} {m}x{k}x{n} {dtype}",
                           done.rate or e.op.name, made, (form,), (form,))


def _product(target: Cuda, m: int, n: int, k: int, dtype: DType, spec: str, op: str = "Contract",
             attrs: tuple = ()) -> tuple[Graph, Node]:
    """A product of inputs; halves are cast first, as their sums are float32."""
    g = Graph(table={**OPS, **{row.name: row for row in target.ops}})
    x = g.input("x", (m, k), dtype)
    y = g.input("y", (k, n) if spec.startswith("a,k;k") else (n, k), dtype)
    if dtype.is_float and dtype.itemsize == 2:
        x, y = g.op("Cast", x, f32), g.op("Cast", y, f32)
    return g, g.op(op, x, y, *(attrs or (spec, (m, n))))
