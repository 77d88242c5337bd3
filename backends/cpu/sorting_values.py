"""Sorting of values as templates in C: merges of vectors, of many rows or of few long ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tegg.dim import Dim, hint, product
from tegg.dtype import DType, i32, i64
from tegg.ir.graph import Node
from tegg.kernel.code import Stage, Work
from tegg.kernel.lower import Templated

from .c_templates import indented
from .sorting import (
    element,
    grouped,
    key_bits,
    key_function,
    key_type,
    kept_few,
    sort_first,
    sort_template,
    sort_words,
)

_CHUNKS = 16     # of a row that threads share, whatever their number
_LONG = 1 << 13  # elements of a row that is worth their meeting at every level
_SHARED = 16     # rows from which threads share rows
_SHORT = 20      # elements that are inserted one by one sooner than a square is filled up

# What says that an instruction for the least (or greatest) of unsigned lanes is there, and which,
# by bits of a lane and float32 values of a vector.
_EXTREMES: Mapping[tuple[int, int], tuple[str, str]] = {
    (32, 16): ("__AVX512F__", "__builtin_ia32_p{}ud512_mask((q)a, (q)b, (q)a, -1)"),
    (32, 8): ("__AVX2__", "__builtin_ia32_p{}ud256((q)a, (q)b)"),
    (32, 4): ("__SSE4_1__", "__builtin_ia32_p{}ud128((q)a, (q)b)"),
    (64, 16): ("__AVX512F__", "__builtin_ia32_p{}uq512_mask((q)a, (q)b, (q)a, -1)")}


def sort_values(width: int, node: Node, name: str, reads: tuple[int, ...], write: int,
                temporary: Callable[[DType, Dim], int], symbols: tuple[str, ...]) -> Templated:
    """The stages of a Sort on vectors of ``width`` float32 values."""
    if kept_few(node):
        return sort_first(node, name, reads, write, symbols)
    (read,) = reads
    source = node.args[0]
    axis = node.attrs[0]
    n, dtype = source.shape[axis], source.dtype
    rows = product((*source.shape[:axis], *source.shape[axis + 1:]))
    words = sort_words(node, name, symbols) | {"read": read, "write": write}
    text = [key_function(node, name, apart=True), _value_function(node, name)]
    wide = 32 * width // key_bits(dtype)
    words |= _merge_words(name, dtype, width, wide)
    text.append(sort_template("merge").substitute(words))
    text.append(sort_template("zeros").substitute(words) if dtype.is_float else
                f"#define {name}_zeros(...)")
    if hint(n) < _LONG or hint(rows) >= _SHARED:
        words["GROUP"] = grouped(node, hint(n))
        text.append(sort_template("values").substitute(words))
        stages = (Stage(name, frozenset((read,)), frozenset((write,)), divisible=True),)
    else:
        size = rows * (n + _CHUNKS * wide * wide + wide)
        kind = i64 if key_bits(dtype) == 64 else i32
        first, second = (temporary(kind, size) for _ in range(2))
        body, stages = _shared(words, dtype, (read, write, first, second))
        text.append(body)
    return Templated("\n".join(text), stages, _work(node))


def _work(node: Node) -> Work:
    source = node.args[0]
    count = hint(product(source.shape))
    levels = max(1, hint(source.shape[node.attrs[0]])).bit_length()
    size = source.dtype.itemsize
    return Work(count * levels, count * levels, count * size, hint(product(node.shape)) * size)


def _value_function(node: Node, name: str) -> str:
    """The inverse of a key that keeps all elements apart, but for NaN, of which it gives one."""
    dtype, descending = node.args[0].dtype, node.attrs[2]
    bits = 8 * dtype.itemsize
    kind, stored = key_type(dtype), element(dtype)
    ones, top = f"({kind})-1 >> {max(32, bits) - bits}", f"({kind})1 << {bits - 1}"
    lines = [f"key = ({ones}) - key;"] if descending else []
    if dtype.is_float:
        lines += [f"const uint{bits}_t u = key & ({top}) ? key ^ ({top}) : ({ones}) ^ key;",
                  f"{stored} x;", "memcpy(&x, &u, sizeof x);", "return x;"]
    elif dtype.kind == "int" and dtype.name != "u8":
        lines.append(f"return ({stored})(key ^ ({top}));")
    else:
        lines.append(f"return ({stored})key;")
    return "\n".join([f"static inline {stored} {name}_value({kind} key) {{",
                      indented(lines, 2), "}"])


# ---- merges
def _merge_words(name: str, dtype: DType, width: int, wide: int) -> dict[str, object]:
    """What the text of merges is filled with: lists of lanes, networks, minima and maxima."""
    lower = [x for i in range(wide // 2) for x in (i, wide + i)]
    upper = [x + wide // 2 for x in lower]
    bits = key_bits(dtype)
    return {"BYTES": 4 * width, "WIDE": wide, "SHORT": _SHORT, "ZERO": _zero(dtype),
            "TURNED": _lanes(reversed(range(wide))), "LOWER": _lanes(lower),
            "UPPER": _lanes(upper), "REPPU": _lanes(reversed(upper)),
            "LEAST": _extreme(bits, width, "min", "<"), "MOST": _extreme(bits, width, "max", ">"),
            "COLUMNS": _lines(f"{name}_order({i}, {j})" for i, j in network(wide)),
            "ROUNDS": _lines(_rounds(name, wide))}


def _zero(dtype: DType) -> str:
    """The key of the lesser zero, after which the other one's follows, in either order."""
    return f"(({key_type(dtype)})1 << {8 * dtype.itemsize - 1}) - 1"


def _lanes(lanes: Iterable[int]) -> str:
    return ", ".join(map(str, lanes))


def _lines(statements: Iterator[str]) -> str:
    """Statements, as many to a line as fit."""
    out = [" "]
    for s in statements:
        if len(out[-1]) + len(s) > 98:
            out.append(" ")
        out[-1] += f" {s}"
    return "\n".join(out)


def _extreme(bits: int, width: int, name: str, sign: str) -> str:
    """The body of a function from vectors a and b to the lesser or the greater, lane by lane."""
    lines = [f"#if __has_builtin(__builtin_elementwise_{name})",
             f"  return __builtin_elementwise_{name}(a, b);"]
    if (bits, width) in _EXTREMES:
        feature, call = _EXTREMES[bits, width]
        kind = "int" if bits == 32 else "long long"
        lines += [f"#elif defined({feature}) && !defined(__clang__)",
                  f"  typedef {kind} q __attribute__((vector_size({4 * width})));",
                  f"  return (typeof(a)){call.format(name)};"]
    return "\n".join([*lines, "#else", f"  const typeof(a) m = (typeof(a))(a {sign} b);",
                      "  return (a & m) | (b & ~m);", "#endif"])


def network(n: int) -> Iterator[tuple[int, int]]:
    """Comparisons that sort n elements (Batcher's merge exchange)."""
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top
    while p:
        q, r, d = top, 0, p
        while True:
            yield from ((i, i + d) for i in range(n - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


def _rounds(name: str, wide: int) -> Iterator[str]:
    """Sorted vectors of a square merged: runs of 1, 2, 4, ... of them, the second one turned."""
    m = 1
    while m < wide:
        for r in range(0, wide, 2 * m):
            yield from (f"y[{i}] = {name}_turned(x[{r + 2 * m - 1 - i}]);" for i in range(m))
            yield from (f"x[{r + m + i}] = y[{i}];" for i in range(m))
            d = m
            while d > 1:
                yield from (f"{name}_order({r + b + i}, {r + b + i + d})"
                            for b in range(0, 2 * m, 2 * d) for i in range(d))
                d //= 2
            yield from (f"{name}_settle(x + {r + i}, x + {r + i + 1}, 0);"
                        for i in range(0, 2 * m, 2))
        m *= 2


# ---- rows that threads share
def _shared(words: Mapping[str, object], dtype: DType, slots: tuple[int, int, int, int]
            ) -> tuple[str, tuple[Stage, ...]]:
    """The stages of long rows: chunks, level after level of merges, and zeros of both signs."""
    read, write, first, second = slots
    name = str(words["k"])
    stages = [Stage(f"{name}_0", frozenset((read,)), frozenset((first,)), divisible=True)]
    levels = []
    source, target, pairs = first, second, _CHUNKS // 2
    while pairs:
        last = pairs == 1
        number = len(stages)
        levels.append(sort_template("level").substitute(
            words, NUMBER=number, PAIRS=pairs, source=source, target=target,
            AFTER=sort_template("last").substitute(words).rstrip() if last else ""))
        stages.append(Stage(f"{name}_{number}", frozenset((source,)),
                            frozenset((target, write) if last else (target,)),
                            divisible=True))
        source, target, pairs = target, source, pairs // 2
    if dtype.is_float:
        levels.append(sort_template("shared_zeros").substitute(words, NUMBER=len(stages),
                                                              source=source))
        stages.append(Stage(f"{name}_{len(stages)}", frozenset((source, read)),
                            frozenset((write,)), parallel=False))
    return sort_template("shared").substitute(words, CHUNKS=_CHUNKS, first=first,
                                              LEVELS="".join(levels)), tuple(stages)
