"""What is known of a contraction's blocks before a run: how deep, and which may fall short.

What cannot fall short needs no code for it, and that code takes a compiler as long as all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from tegg.backends.cexpr import dim
from tegg.backends.cpu.contraction_axis import Axis
from tegg.dim import Dim, product
from tegg.dtype import DType
from tegg.kernel.contraction_shape import GemmParams, deeper


def depth_of_blocks(k: Axis, params: GemmParams, accumulator: DType, width: int,
                    rows: Dim | None = None) -> tuple[str, str]:
    """Steps of the outer k variable per block, and the stride of rows of A in memory. Blocks
    but the last are as deep as what is packed is filled up to. rows: of A, where calls may bring
    sizes that ask for deeper blocks."""
    inner, line, grain = product(k.extents[1:]), 16, 1
    if (held := params.held) is not None:
        line, grain = 64 // (held.rows or accumulator).itemsize, held.grain
    pad = line + max(line, width) if grain > 1 else 16 + width
    if isinstance(inner, int):
        whole = grain // gcd(grain, max(1, inner))
        steps = max(1, params.depth // max(1, inner))
        steps = -(-steps // whole) * whole
        row = -(-steps * inner // line) * line
        if rows is None or (times := _deeper(k, params, rows)) is None:
            return str(steps), str(row + pad)
        return f"({steps} * {times})", f"({row} * {times} + {pad})"
    text = dim(inner)
    count = f"({text} < {params.depth} && {text} > 0 ? {params.depth} / {text} : 1)"
    if grain == 1:
        return count, f"({count} * {text} + {pad})"
    count = f"(({count} + {grain - 1}) / {grain} * {grain})"
    return count, f"(({count} * {text} + {line - 1}) / {line} * {line} + {pad})"


def _deeper(k: Axis, params: GemmParams, rows: Dim) -> str | None:
    """How many times as deep blocks are where a call brings few rows, or no more depth than one
    block has; None where all is known, or they are as deep whatever a call brings."""
    held, many, deep = params.held, params.rows, k.count
    if held is None or isinstance(deep, int) and (isinstance(rows, int) or deep <= params.depth):
        return None
    usual = deeper(held, many, deep)
    half, quarter, whole = (deeper(held, n, d) // usual
                            for n, d in ((many // 2, deep), (many // 4, deep), (many, 1)))
    text = "1"
    if not isinstance(deep, int) and whole > 1:
        text = f"({dim(deep)} <= {whole * params.depth} ? {whole} : 1)"
    if not isinstance(rows, int) and quarter > 1:
        text = f"({dim(rows)} <= {many // 2} ? {half} : {text})"
        text = f"({dim(rows)} <= {many // 4} ? {quarter} : {text})"
    return None if text == "1" else text


def outer_loops(k: Axis) -> str:
    """Loops over the variables of k but for the innermost."""
    heads = [("ko0", "ko1") if i == 0 else ("0", dim(n)) for i, n in enumerate(k.extents)]
    return " ".join(f"for (int64_t {n} = {low}; {n} < {high}; {n}++)"
                    for n, (low, high) in zip(k.names[:-1], heads))


def multiple(n: Dim, of: int) -> bool:
    """Whether an extent is known to be a multiple of a number."""
    return isinstance(n, int) and n % of == 0


def vectors_of_panels(columns: Iterable[Axis], params: GemmParams) -> list[int]:
    """How many vectors of columns a panel can have: all of them, or fewer in a last one, which of
    a B that is read where it lies is any number."""
    found = set()
    for axis in columns:
        n = axis.count
        if params.lying or not isinstance(n, int):
            return list(range(1, params.nv + 1))
        if n >= params.nr:
            found.add(params.nv)
        if n % params.nr:
            found.add(-(-(n % params.nr) // params.lanes))
    return sorted(found) or [params.nv]


def whole_vectors(k: Axis, steps: str, params: GemmParams, width: int) -> bool:
    """Whether rows of A, in blocks of so many steps, are known to be made of whole vectors."""
    if len(k.names) > 1:
        return multiple(k.extents[-1], width)
    return (params.parts == 1 and steps.isdecimal() and int(steps) % width == 0
            and multiple(k.count, width))
