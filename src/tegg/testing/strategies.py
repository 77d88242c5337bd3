"""What tests draw: shapes, arrays within the domains of the op table, calls of rows, programs."""

from __future__ import annotations

import numpy as np

from tegg.bits import bits_of
from tegg.dtype import DTYPES, f64
from tegg.errors import DTypeError
from tegg.ir.op import PRODUCTS, Op
from tegg.testing.programs import Program, programs
from tegg.testing.property import st
from tegg.testing.views import views

__all__ = ["FLOATS", "SPECIALS", "Program", "accepted", "array", "arrays", "dims", "operand_dtypes",
           "programs", "row_calls", "shapes", "views"]

FLOATS = tuple(d for d in DTYPES.values() if d.is_float)
SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1e30, -1e30, 1e-30)

dims = st.integers(0, 4)
shapes = st.lists(dims, max_size=4).map(tuple)


def arrays(shape, dtype, domain="any", specials=False):
    """Arrays of a shape and dtype whose values lie in a domain of the op table."""
    return st.integers(0, 2 ** 32 - 1).map(
        lambda seed: array(np.random.default_rng(seed), shape, dtype, domain, specials))


def array(rng, shape, dtype, domain="any", specials=False):
    """One such array from a generator. ``specials`` mixes in inf, NaN, -0.0, huge and tiny."""
    if dtype.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if dtype.kind == "int":
        info = np.iinfo(dtype.numpy)
        low, high = (0, 4) if domain == "index" else (max(info.min, -120), min(info.max, 120))
        x = rng.integers(low, high, shape, endpoint=True).astype(dtype.numpy)
        if specials:
            x = np.where(rng.random(shape) < 0.2, rng.choice([info.min, info.max], shape), x)
        x = np.where(x == 0, 1, x) if domain == "nonzero" else x
        return np.asarray(x, dtype.numpy)
    x = rng.normal(scale=1 if domain == "small" else 4, size=shape)
    if domain == "positive":
        x = np.abs(x) + 1e-3
    if domain == "nonzero":
        x = np.where(np.abs(x) < 1e-3, 1.0, x)
    if specials:
        x = np.where(rng.random(shape) < 0.4, rng.choice(SPECIALS, shape), x)
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(dtype.numpy)


def accepted(row: Op, dtype) -> bool:
    """Whether a row takes operands of this dtype (its condition and its index aside)."""
    try:
        row.dtype(operand_dtypes(row, dtype), ())
    except (DTypeError, StopIteration):
        return False
    return True


def operand_dtypes(row: Op, dtype) -> list:
    """The dtypes of a row's operands where its values have ``dtype``."""
    out = [dtype] * row.arity
    if row.name == "Select":
        out[0] = DTYPES["bool"]
    if row.kind == "index":
        out[1] = DTYPES["i64"]
    return out


@st.composite
def row_calls(draw, row: Op, dtype, specials=False):
    """Arrays and attributes with which a row can be applied."""
    shape = draw(shapes)
    attrs: list = []
    for name, kind in row.attrs:
        if kind == "axis":
            shape = shape or (draw(dims),)
            attrs.append(draw(st.integers(0, len(shape) - 1)))
        elif name == "eps":
            attrs.append(bits_of(draw(st.sampled_from([1e-5, 1e-12, 0.1])), f64))
        elif name == "kept":
            attrs.append((draw(st.integers(0, shape[attrs[0]])),))
        elif name == "descending":
            attrs.append(draw(st.integers(0, 1)))
        elif kind == "dtype":
            attrs.append(draw(st.sampled_from(list(DTYPES.values()))))
    if row.name == "Rope":
        shape = (*shape, 2 * draw(st.integers(0, 3)))
    if row.kind in PRODUCTS:
        return draw(_contractions(dtype, 1 if row.kind == "attention" else 0))
    operands = [draw(arrays(shape, d, domain, specials)) for d, domain in
                zip(operand_dtypes(row, dtype), row.domains)]
    return operands, tuple(attrs)


@st.composite
def _contractions(draw, dtype, summed=0):
    """A contraction with up to two variables of each kind, in any order of axes; ``summed``: how
    many of those that are summed, where it is above 0."""
    names = {"batch": "ab", "m": "cd", "n": "ef", "k": "gh"}
    pick = {kind: letters[:draw(st.integers(0, 2))] for kind, letters in names.items()}
    pick["k"] = "gh"[:summed] or pick["k"]
    size = {c: draw(dims) for c in "abcdefgh"}
    x = draw(st.permutations(pick["batch"] + pick["m"] + pick["k"]))
    y = draw(st.permutations(pick["batch"] + pick["n"] + pick["k"]))
    out = draw(st.permutations(pick["batch"] + pick["m"] + pick["n"]))
    text = ";".join(",".join(p) if p else "-" for p in (x, y, out))
    a, b = (draw(arrays(tuple(size[c] for c in v), dtype, "small")) for v in (x, y))
    return [a, b], (text, tuple(size[c] for c in out))
