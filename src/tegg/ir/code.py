"""How a language writes an op that a third party brings: in loops, or as a function of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tegg.dtype import DTYPES
from tegg.errors import ArgumentError, DTypeError

if TYPE_CHECKING:
    from tegg.ir.op import Op

CLASSES = ("float", "int", "bool")


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
    """Raise ArgumentError where the code of a row does not fit its kind or its dtypes."""
    place = f"op {op.name!r} of compiler {who!r}"
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
        wanted = _classes(op) if op.kind == "elementwise" else set()
        lacks = sorted(c for c in wanted if not expressions[c])
        if lacks:
            raise ArgumentError(f"{place} takes {' and '.join(lacks)} operands, for which its Code "
                                f"has no expression; write Code({lacks[0]}=...), or narrow the "
                                f"row's dtype rule")


def _classes(op: Op) -> set[str]:
    """The classes of operands that a row takes, all of one dtype."""
    found: set[str] = set()
    for d in DTYPES.values():
        try:
            op.dtype([d] * op.arity, ())
        except (DTypeError, StopIteration):
            continue
        found.add("float" if d.is_float else d.kind)
    return found
