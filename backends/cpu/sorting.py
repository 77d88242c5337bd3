"""Sorting with places as templates in C: a radix sort of rows, or of what can be among the first
of each; and the words that templates of all sorts are filled with."""

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
def sort_template(name: str) -> Template:
    """A template of ``sort/``."""
    return Template(files("tegg.backends.cpu").joinpath("sort", f"{name}.c.in").read_text())


def sort_indices(node: Node, name: str, reads: tuple[int, ...], write: int,
                 temporary: Callable[[DType, Dim], int], symbols: tuple[str, ...]) -> Templated:
    """The stage of an ArgSort, from the slot of its operand to slot ``write``."""
    return sort_pairs(node, name, reads, write, symbols, "int64_t", "{}")


def sort_first(node: Node, name: str, reads: tuple[int, ...], write: int,
               symbols: tuple[str, ...]) -> Templated:
    """The stage of a Sort that keeps few values: they are found with their places."""
    return sort_pairs(node, name, reads, write, symbols, element(node.args[0].dtype),
                      "x[{} * inner + g]")


def sort_pairs(node: Node, name: str, reads: tuple[int, ...], write: int,
               symbols: tuple[str, ...], kind: str, result: str) -> Templated:
    """One stage that sorts keys with their places, and writes ``result`` of each place."""
    (read,) = reads
    axis, (kept,), _ = node.attrs
    source = node.args[0]
    n, dtype = source.shape[axis], source.dtype
    few = kept_few(node)
    room = 4 * kept + 192  # beyond it what is at hand is cut down to what can be among the first
    words = sort_words(node, name, symbols) | {
        "DIGIT": 11 if hint(n) >= _LONG and dtype.itemsize > 1 else 8, "BITS": 8 * dtype.itemsize,
        "read": read, "write": write, "ROOM": dim(room), "O": kind,
        "RESULT": result.format("sorted[i].at" if few else "sorted[g][i].at"),
        "GROUP": grouped(node, hint(room) if few else hint(n))}
    text = "\n".join([key_function(node, name),
                      *(sort_template(part).substitute(words)
                        for part in ("pairs", "first" if few else "whole"))])
    count = hint(product(source.shape))
    stored = hint(product(node.shape)) * node.dtype.itemsize
    passes = -(-8 * dtype.itemsize // 8)
    return Templated(text, (Stage(name, frozenset((read,)), frozenset((write,)), divisible=True),),
                     Work(count * passes, count * passes, count * dtype.itemsize, stored))


# ---- words of all sorts
def sort_words(node: Node, name: str, symbols: tuple[str, ...]) -> dict[str, object]:
    """What every template of a sort is filled with: types and sizes."""
    axis, (kept,), _ = node.attrs
    source = node.args[0]
    shape = source.shape
    return {"k": name, "T": element(source.dtype), "K": key_type(source.dtype),
            "unpack": "\n".join(f"  const int64_t S_{s} = sizes[{i}]; (void)S_{s};"
                                for i, s in enumerate(symbols)),
            "N": dim(shape[axis]), "KEPT": dim(kept), "INNER": dim(product(shape[axis + 1:])),
            "OUTER": dim(product(shape[:axis]))}


def kept_few(node: Node) -> bool:
    """Whether so few elements are kept that the others are not sorted."""
    axis, (kept,), _ = node.attrs
    return hint(kept) * _FEW <= hint(node.args[0].shape[axis])


def grouped(node: Node, most: int) -> int:
    """How many neighbouring rows of ``most`` elements at hand are sorted together: a line of
    memory, if that much fits."""
    source = node.args[0]
    inner = product(source.shape[node.attrs[0] + 1:])
    if not isinstance(inner, Poly) and inner == 1:
        return 1
    return max(1, min(_LINE // source.dtype.itemsize, 16, _SCRATCH // max(1, most)))


def element(dtype: DType) -> str:
    """The type of an element in memory."""
    return _MEMORY[MEMORY[dtype.name]]


def key_bits(dtype: DType) -> int:
    return 64 if dtype.itemsize == 8 else 32


def key_type(dtype: DType) -> str:
    return f"uint{key_bits(dtype)}_t"


def key_function(node: Node, name: str, apart: bool = False) -> str:
    """The function from an element to its key, an unsigned integer in the order of the elements:
    NaN last, or first where it is descending. Zeros of both signs have one key, or two that follow
    one another where they are kept ``apart``."""
    dtype = node.args[0].dtype
    return (f"static inline {key_type(dtype)} {name}_key({element(dtype)} x) {{\n"
            f"{_key(dtype, bool(node.attrs[2]), apart)}\n}}\n")


def _key(dtype: DType, descending: bool, apart: bool) -> str:
    bits, kind = 8 * dtype.itemsize, key_type(dtype)
    ones, top = f"({kind})-1 >> {max(32, bits) - bits}", f"({kind})1 << {bits - 1}"
    if dtype.is_float:
        as_bits = f"uint{bits}_t u; memcpy(&u, &x, sizeof u);"
        size = f"(u & ({ones} >> 1))"
        lines = [f"{as_bits}",
                 f"{kind} key = u & ({top}) ? ({ones}) ^ u : u | ({top});",
                 *([] if apart else [f"if ({size} == 0) key = {top};"]),
                 f"if ({size} > {_INFINITY[dtype.name]}) key = {ones};"]
    elif dtype.kind == "int" and dtype.name != "u8":
        lines = [f"const {kind} key = ((uint{bits}_t)x) ^ ({top});"]
    else:
        lines = [f"const {kind} key = x;"]
    lines.append(f"return {f'({ones}) - key' if descending else 'key'};")
    return "\n".join("  " + line for line in lines)
