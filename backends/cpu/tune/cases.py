"""What a profile is fitted to: ops, dtypes, shapes of products."""

from __future__ import annotations

from collections.abc import Collection

from tegg.dtype import dtype as as_dtype, f32
from tegg.ir.op import OPS
from tegg.kernel.registers import Registers

from ..direct_templates import DIRECT_TILES
from ..instructions import BYTE_TILES, BYTES, PAIRS, TILES
from ..narrow_forms import NarrowForms
from ..templates import READ_AS, Forms, Operand
from ...tuning.case import Case, chain, single, streaming, tiny
from .kernels import convolution, product

_LIGHT = 2         # operations from which an op's own count is worth measuring
_CHAIN = (8, 40)   # steps of the two chains whose difference is the rate
_DTYPES = ("f32", "f64", "i32", "i64", "f16", "bf16")
_STREAMED = ("Add", "Gelu", "Softmax", "LayerNorm")

# Shape classes of products: rows, columns, depth, and whether the second operand is known before.
_PRODUCTS = {
    "square": (512, 512, 512, True),
    "large": (960, 1024, 960, True),
    "medium": (128, 768, 768, True),
    "wide": (64, 2048, 1024, True),
    "narrow": (2048, 16, 512, True),
    "shallow": (512, 512, 32, True),
    "packed": (128, 512, 512, False),
    "packed wide": (32, 2048, 768, False),
    "few rows": (4, 480, 512, True),
    "few rows of many": (4, 1000, 1024, True),
    "one row": (1, 2048, 2048, True),
    "one row of many": (1, 4096, 4096, True),
}
# Products of narrow numbers: a template, the instruction that it needs, what states its tiles, of
# which operands, by which dtype they are known.
_NARROW = (("CpuPairs", PAIRS, "cpu-pairs", "bf16", "bf16"),
           ("CpuTiles", TILES, "cpu-tiles", "bf16", "bf16"),
           ("CpuBytes", BYTES, "cpu-bytes", "i32", "u8"),
           ("CpuByteTiles", BYTE_TILES, "cpu-byte-tiles", "i32", "u8"))
# Convolutions of narrow numbers, and of floats beside them: what they need, and of what they are:
# channels, filters, places of a row and column.
_DIRECT = {"CpuDirectPairs": PAIRS, DIRECT_TILES: TILES}
_PAIRED = ((64, 64, 56), (128, 96, 28))
_QUICK = ("square", "medium", "shallow", "packed", "few rows", "one row")


def cases(registers: Registers, quick: bool, has: Collection[str] = ()) -> dict[str, Case]:
    """The cases by name; fewer where it must be quick. ``has``: the instructions for narrow
    products, in the words of ``instructions.py``."""
    found = [chain(n, d) for d in (_DTYPES[:2] if quick else _DTYPES) for n in _CHAIN]
    found += [tiny(64), tiny(512)]
    found += [single(name) for name in _ops(quick)]
    found += [streaming(name, rows) for name in _STREAMED[:2 if quick else None]
              for rows in ((2048,) if quick else (128, 512, 4096))]
    out = {c.name: c for c in found}
    for name, (m, n, k, still) in _PRODUCTS.items():
        if not quick or name in _QUICK:
            out.update(_forms(name, m, n, k, still, registers))
    for dtype in () if quick else ("f64", "bf16", "f16", "i32"):
        out.update(_forms(f"square {dtype}", 192, 192, 192, True, registers, dtype))
    for op, needs, relation, summed, dtype in _NARROW:
        forms = NarrowForms(registers, frozenset({needs} & set(has)))  # as if it had no other
        for m, n, k, _ in (_PRODUCTS[c] for c in _QUICK[:2]):
            x, y = Operand((m, k), as_dtype(summed)), Operand((k, n), as_dtype(summed))
            for tile in forms.completions(relation, x, y, "a,k;k,n;a,n")[:1]:
                own = (0, *tile) if dtype == "u8" else tile
                out[f"{m} x {k} x {n} {dtype} {op}"] = product(
                    op, own, m, n, k, registers=registers, dtype=dtype)
    direct = [op for op, needs in _DIRECT.items() if needs in has]
    for channels, filters, across in _PAIRED:
        for op in ("CpuDirect", *direct) if direct else ():
            out[f"{filters} x {channels} x 3 x 3 at {across} {op}"] = convolution(
                op, channels, filters, across, registers=registers)
    return out


def _ops(quick: bool) -> list[str]:
    """Ops of one float operand, or idioms along rows, whose kernels are loops."""
    heavy = [r for r in OPS.values() if r.kind == "elementwise" and r.cost >= _LIGHT]
    rows = [r for r in OPS.values() if r.kind == "composite" and r.name != "Rope"]
    found = [r.name for r in (*heavy, *rows) if r.template is None and r.name != "IntDiv"]
    return [n for n in found if n in ("Exp2", "Log2", "Sin", "Gelu", "Softmax")] if quick else found


def _forms(name: str, m: int, n: int, k: int, still: bool, registers: Registers,
           dtype: str = "f32") -> dict[str, Case]:
    """A product in each form that could win, one tile of each, in all ways of reading it."""
    forms, kind = Forms(registers), as_dtype(dtype)
    out: dict[str, Case] = {}
    for transposed in (False, True):
        spec = "a,k;n,k;a,n" if transposed else "a,k;k,n;a,n"
        x, y = Operand((m, k), kind), Operand((n, k) if transposed else (k, n), kind)
        found = {"CpuRows": forms.completions("cpu-rows", x, y, spec),
                 "CpuDots": forms.completions("cpu-dots", x, y, spec)}
        if not transposed:
            tile = forms.completions("cpu-tile", x, y, spec)[:1]
            found["CpuPacked"] = [(*t, 1) for t in tile]
        for op, owns in found.items():
            ways = 1 + sum(op == of for of, _ in READ_AS) if kind is f32 else 1
            for own in owns[:ways]:
                case = product(op, own, m, n, k, registers=registers, still=still,
                               dtype=kind, transposed=transposed)
                out[f"{name} {case.of}"] = case
    return out
