"""Terms of rules, read: their variables, their literals, and what may stand for them."""

from __future__ import annotations

from collections.abc import Iterable

from tegg.bits import bits_of
from tegg.dtype import DTYPES, DType
from tegg.rewrite.rulefile import Relation
from tegg.rewrite.sexpr import Expr, List, Symbol, is_float
from tegg.testing.guards import Miss


def rename(e: Expr, relation: Relation, fact: List) -> Expr:
    """The meaning of a relation with a fact's arguments in place of its parameters."""
    given = dict(zip(relation.parameters, fact.items[1:]))

    def walk(x: Expr) -> Expr:
        if isinstance(x, List):
            return List(tuple(map(walk, x.items)), x.place, x.end)
        return given.get(x.text, x)

    return walk(e)


def leaves(e: Expr) -> list[Symbol]:
    """The variables inside of a term (its head excluded)."""
    if isinstance(e, List):
        return [s for x in e.items[1:] for s in leaves(x)]
    return [e] if e.is_name else []


def is_kind(value: object, kind: str) -> bool:
    """Whether a value can be an attribute of a kind: texts of rules hold dtypes, shapes and
    permutations alike, and a rule may confuse them."""
    if kind == "dtype":
        return isinstance(value, DType) or value in DTYPES
    if kind in ("mode", "spec"):
        return isinstance(value, str)
    if kind in ("shape", "dims", "perm", "ints"):
        return isinstance(value, tuple)
    return isinstance(value, int)


def literal(e: Expr) -> object:
    if isinstance(e, List):
        raise Miss
    return e.string if e.is_string else int(e.text) if e.is_int else e


def named_dtypes(guards: Iterable[List]) -> dict[str, DType]:
    """Variable -> the dtype that guards name for it, as ``(= "f32" (dtype x))`` does, or
    ``(= d (dtype x)) (= d "f32")``."""
    equal = [pair for g in guards if g.head == "=" for pair in (g.items[1:], g.items[:0:-1])]
    texts = {str(a): b.string for a, b in equal if isinstance(b, Symbol) and b.is_string}
    found = {}
    for a, b in equal:
        if isinstance(b, List) and b.head == "dtype":
            text = a.string if isinstance(a, Symbol) and a.is_string else texts.get(str(a))
            if text in DTYPES:
                found[str(b.items[1])] = DTYPES[text]
    return found


def constants(e: Expr) -> list[List]:
    """The constants ``(Const v)`` inside of a term."""
    if not isinstance(e, List):
        return []
    return [e] if e.head == "Const" else [c for x in e.items for c in constants(x)]


def is_constant_of(e: List, dtype: DType) -> bool:
    """Whether a constant is of a dtype's kind."""
    try:
        const_bits(e, dtype)
    except Miss:
        return False
    return True


def const_bits(e: List, dtype: DType) -> int:
    """The pattern of a constant in a dtype. Raises Miss where its kind is another."""
    text = str(e.items[1])
    kind = "bool" if text in ("true", "false") else "float" if is_float(text) else "int"
    if dtype.kind != kind or (text.startswith("-") and dtype.name == "u8"):
        raise Miss
    return bits_of(text == "true" if kind == "bool" else float(text) if kind == "float"
                   else int(text), dtype)
