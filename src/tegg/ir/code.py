"""How a language writes an op that a third party brings: in loops, or as a function of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING

from tegg.dtype import DTYPES
from tegg.errors import ArgumentError, DTypeError

if TYPE_CHECKING:
    from tegg.ir.op import Op

CLASSES = ("float", "int", "bool")
KINDS = ("source", "movement", "elementwise", "reduce", "scan", "index", "sort", "composite",
         "contract", "attention", "copy", "kernel")
ATTRIBUTES = ("slot", "axis", "int", "bits", "dtype", "mode", "spec", "shape", "dims", "perm",
              "ints")


@dataclass(frozen=True, slots=True)
class Code:
    """The text of an op in one language.

    language: ``"c"``.
    float, int, bool: of an elementwise op, the expression for operands of that class: ``{0}``,
      ``{1}`` stand for them, ``{v}`` and ``{m}`` for the prefixes of the language's functions on
      vectors or scalars, ``{f}`` for the suffix of float literals.
    body: of an op of kind ``kernel``, the statements of a function that thread ``tid`` of ``nt``
      runs: ``x0``, ``x1``, ... point at the operands and ``y`` at the result, ``x0_shape[i]`` and
      ``y_shape[i]`` are their sizes, ``$name`` is an attribute of the op, ``$T`` the type of
      elements of the result and ``$T0``, ``$T1``, ... those of the operands.
    dtypes: results that the body is written for.
    functions: text above the kernels that use the op.
    """

    language: str = "c"
    float: str = ""
    int: str = ""
    bool: str = ""
    body: str = ""
    dtypes: tuple[str, ...] = ("f32", "f64")
    functions: str = ""


def code_of(op: Op, language: str) -> Code | None:
    """How a row is written in a language, or None."""
    return next((c for c in op.code if c.language == language), None)


def check_row(op: Op, who: str) -> None:
    """Raise ArgumentError where a row is malformed, or its code does not fit its kind or dtypes."""
    place = f"op {op.name!r} of compiler {who!r}"
    if wrong := next((text for good, text in _parts(op) if not good), ""):
        raise ArgumentError(f"{place} {wrong}")
    if op.kind == "kernel" and not op.staged:
        raise ArgumentError(f"{place} is of kind 'kernel', whose result is written whole before "
                            f"anything reads it; write staged=True")
    for code in op.code:
        expressions = {c: getattr(code, c) for c in CLASSES}
        if op.kind == "kernel" and (any(expressions.values()) or not code.body):
            raise ArgumentError(f"{place} is of kind 'kernel'; its Code has a body, and no "
                                f"expressions")
        if op.kind != "kernel" and (op.kind != "elementwise" or code.body):
            raise ArgumentError(f"{place} is of kind {op.kind!r}; a Code has expressions for kind "
                                f"'elementwise', or a body for kind 'kernel'")
        for text in filter(None, expressions.values()):
            _check_expression(op, text, place)
        wanted = _classes(op, place) if op.kind == "elementwise" else set()
        lacks = sorted(c for c in wanted if not expressions[c])
        if lacks:
            raise ArgumentError(f"{place} takes {' and '.join(lacks)} operands, for which its Code "
                                f"has no expression; write Code({lacks[0]}=...), or narrow the "
                                f"row's dtype rule")


def _parts(op: Op) -> Iterator[tuple[bool, str]]:
    """Whether each part of a row is what it should be, and what is wrong where it is not."""
    yield (isinstance(op.name, str) and re.fullmatch(r"[A-Za-z][\w-]*", op.name) is not None,
           "is named so that no rule can say it; use letters and digits")
    yield op.kind in KINDS, f"is of kind {op.kind!r}; kinds are {', '.join(KINDS)}"
    yield (isinstance(op.arity, int) and op.arity >= 0,
           f"has the arity {op.arity!r}; it is how many tensors it takes")
    yield (isinstance(op.attrs, tuple) and all(
        isinstance(a, tuple) and len(a) == 2 and a[1] in ATTRIBUTES for a in op.attrs),
           f"has the attributes {op.attrs!r}; they are pairs of a name and a kind, of "
           f"{', '.join(ATTRIBUTES)}")
    for part in ("shape", "dtype", "meaning"):
        yield (callable(getattr(op, part)) or part == "meaning" and bool(op.expand),
               f"has no function {part}=; OPS['Add'].{part} is one")
    yield (isinstance(op.cost, (int, float)) and 0 <= op.cost < math.inf,
           f"has the cost {op.cost!r}; a cost is a number of operations, 0 or more")
    yield (isinstance(op.code, tuple) and all(isinstance(c, Code) for c in op.code),
           f"has the code {op.code!r}; write code=(tegg.Code(...),)")


def _check_expression(op: Op, text: str, place: str) -> None:
    """Raise ArgumentError where an expression names what is not there."""
    known = (*map(str, range(op.arity)), "v", "m", "f")
    try:
        named = {name for _, name, _, _ in Formatter().parse(text) if name is not None}
    except ValueError as e:
        raise ArgumentError(f"{place} has the expression {text!r}, whose braces do not fit ({e}); "
                            f"a brace of C is written twice") from None
    if odd := sorted(named - set(known)):
        raise ArgumentError(f"{place} has the expression {text!r}, where {{{odd[0]}}} stands for "
                            f"nothing; there are {' '.join(f'{{{k}}}' for k in known)}, and a "
                            f"brace of C is written twice")


def _classes(op: Op, place: str) -> set[str]:
    """The classes of operands that a row takes, all of one dtype."""
    found: set[str] = set()
    for d in DTYPES.values():
        try:
            op.dtype([d] * op.arity, ())
        except (DTypeError, StopIteration):
            continue
        except Exception as e:
            raise ArgumentError(f"{place} has a dtype rule that fails for {d.name}: "
                                f"{type(e).__name__}: {e}; it takes (dtypes, attrs), and raises "
                                f"DTypeError for what it refuses") from e
        found.add("float" if d.is_float else d.kind)
    return found
