"""Sorting as templates in C: a radix sort of rows, or of what can be among the first of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from string import Template

from tegg.backends.cexpr import MEMORY, dim
from tegg.dim import Dim, Poly, hint, product
from tegg.dtype import DType
from tegg.ir.graph import Node
from tegg.kernel.code import Stage, Work
from tegg.kernel.lower import Templated

_MEMORY = {"f": "float", "d": "double", "h": "uint16_t", "g": "uint16_t", "i": "int32_t",
           "l": "int64_t", "u": "uint8_t", "c": "int8_t", "b": "uint8_t"}
_INFINITY = {"f32": "0x7f800000u", "f64": "0x7ff0000000000000ull", "f16": "0x7c00u",
             "bf16": "0x7f80u"}
_LONG = 1 << 13  # elements from which wide digits pay for their longer tables
_LINE = 64       # bytes that are read together
_SCRATCH = 1 << 16  # elements of rows that are sorted together
_FEW = 4         # an element in so many is few: the others are not sorted


@cache
def _template(name: str) -> Template:
    return Template(files("tegg.backends.cpu").joinpath("sort", f"{name}.c.in").read_text())


def sort_rows(node: Node, name: str, reads: tuple[int, ...], write: int,
              temporary: Callable[[DType, Dim], int], symbols: tuple[str, ...]) -> Templated:
    """The stage of an ArgSort, from the slot of its operand to slot ``write``."""
    (read,) = reads
    axis, (kept,), descending = node.attrs
    source = node.args[0]
    n, inner = source.shape[axis], product(source.shape[axis + 1:])
    dtype = source.dtype
    bits = 8 * dtype.itemsize
    few = hint(kept) * _FEW <= hint(n)
    room = 4 * kept + 192  # beyond it what is at hand is cut down to what can be among the first
    most = hint(room) if few else hint(n)
    text = "\n".join(_template(part).substitute(
        k=name, T=_MEMORY[MEMORY[dtype.name]], K="uint64_t" if bits == 64 else "uint32_t",
        BITS=bits, DIGIT=11 if hint(n) >= _LONG and bits > 8 else 8,
        key=_key(dtype, bool(descending)),
        unpack="\n".join(f"  const int64_t S_{s} = sizes[{i}]; (void)S_{s};"
                         for i, s in enumerate(symbols)),
        read=read, write=write, N=dim(n), KEPT=dim(kept), ROOM=dim(room), INNER=dim(inner),
        OUTER=dim(product(source.shape[:axis])), GROUP=_group(dtype, most, inner))
        for part in ("rows", "first" if few else "whole"))
    count = hint(product(source.shape))
    stored = hint(product(node.shape))
    passes = -(-bits // 8)
    return Templated(text, (Stage(name, frozenset((read,)), frozenset((write,))),),
                     Work(count * passes, count * passes, count * dtype.itemsize, stored * 8))


def _group(dtype: DType, most: int, inner: Dim) -> int:
    """How many neighbouring rows of ``most`` elements at hand are sorted together: a line of
    memory, if that much fits."""
    if not isinstance(inner, Poly) and inner == 1:
        return 1
    return max(1, min(_LINE // dtype.itemsize, 16, _SCRATCH // max(1, most)))


def _key(dtype: DType, descending: bool) -> str:
    """The body of a function from an element to its unsigned key."""
    bits = 8 * dtype.itemsize
    kind = "uint64_t" if bits == 64 else "uint32_t"
    ones, top = f"({kind})-1 >> {max(32, bits) - bits}", f"({kind})1 << {bits - 1}"
    if dtype.is_float:
        as_bits = f"uint{bits}_t u; memcpy(&u, &x, sizeof u);"
        size = f"(u & ({ones} >> 1))"
        lines = [f"{as_bits}",
                 f"{kind} key = u & ({top}) ? ({ones}) ^ u : u | ({top});",
                 f"if ({size} == 0) key = {top};",
                 f"if ({size} > {_INFINITY[dtype.name]}) key = {ones};"]
    elif dtype.kind == "int" and dtype.name != "u8":
        lines = [f"const {kind} key = ((uint{bits}_t)x) ^ ({top});"]
    else:
        lines = [f"const {kind} key = x;"]
    lines.append(f"return {f'({ones}) - key' if descending else 'key'};")
    return "\n".join("  " + line for line in lines)
