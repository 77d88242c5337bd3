"""Attributes as rules see them: dims, permutations and dtypes as texts, and back."""

from __future__ import annotations

from typing import Any

from tegg.dim import Facts
from tegg.dtype import DType, dtype
from tegg.errors import DTypeError, RuleError, ShapeError
from tegg.ir.op import ATTR_SORTS, Op

TUPLES = ("shape", "dims", "perm", "ints")


class Codec:
    """Translates attributes of one graph; equal dims (under its facts) get equal texts."""

    __slots__ = ("_of_text", "facts")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._of_text: dict[str, tuple] = {"": ()}

    def encode(self, kind: str, value: Any) -> int | str:
        """An attribute of a kind (a key of ATTR_SORTS) as an i64 or a text.

        Raises ShapeError where two symbols of one name would get one text.
        """
        if kind in TUPLES:
            value = tuple(map(self.facts.canonical, value))
            text = ",".join(map(str, value))
            known = self._of_text.setdefault(text, value)
            if known != value:
                raise ShapeError(f"two dims named alike but with different bounds meet in ({text});"
                                 f" give one of them another name")
            return text
        return value.name if isinstance(value, DType) else value

    def decode(self, kind: str, value: Any) -> Any:
        """The attribute behind an i64 or a text. Raises RuleError for a text that is none."""
        if kind in TUPLES:
            known = self._of_text.get(value)
            if known is None:
                try:
                    known = self._of_text[value] = tuple(int(d) for d in value.split(","))
                except ValueError:
                    raise RuleError(f"a rule built an op with the text {value!r} for an attribute "
                                    f"of kind {kind}; write numbers, as in \"1,0\", or a variable "
                                    f"of its left side") from None
            return known
        if kind != "dtype":
            return value
        try:
            return dtype(value)
        except DTypeError as e:
            raise RuleError(f"a rule built an op with the text {value!r} for a dtype: {e}"
                            ) from None

    def quoted(self, kind: str, value: object) -> str:
        """The attribute as program text."""
        value = self.encode(kind, value)
        return f'"{value}"' if ATTR_SORTS[kind] == "String" else str(value)

    def attrs(self, op: Op, values: tuple) -> str:
        """All attributes of an op as program text."""
        return " ".join(self.quoted(kind, v) for (_, kind), v in zip(op.attrs, values))
