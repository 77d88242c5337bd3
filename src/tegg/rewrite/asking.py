"""Asking providers for facts: what one raises, or states wrongly, is told with its name."""

from __future__ import annotations

import operator
import re
import traceback
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tegg.dim import Poly
from tegg.errors import ArgumentError, RuleError, TeggError
from tegg.rewrite.providers import Fact, Provider
from tegg.rewrite.view import View

NAME = re.compile(r"[A-Za-z][\w-]*")
FACT_SORTS = ("Tensor", "String", "i64")
TEXT = re.compile(r'[^"\\\n\r]*')  # what the engine's program text can hold between quotes


def check_provider(p: Any, who: str) -> None:
    """Raise ArgumentError where a compiler is given what is no provider, or one whose relations
    cannot be declared."""
    if not isinstance(p, Provider):
        raise ArgumentError(f"providers= of compiler {who!r} takes objects with name, relations "
                            f"and facts(view), not {p!r}")
    place = f"provider {p.name!r} of compiler {who!r}"
    if type(p).__hash__ is None:
        raise ArgumentError(f"{place} has no hash, so it cannot be told from others; write "
                            f"@dataclass(frozen=True), or a class without __eq__")
    if not isinstance(p.name, str) or not isinstance(p.relations, Mapping):
        raise ArgumentError(f"{place} has the relations {p.relations!r}; a name is a text, and "
                            f"relations are name -> sorts, such as {{'small': ('Tensor',)}}")
    for name, sorts in p.relations.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ArgumentError(f"{place} declares a relation {name!r}; a name has letters, digits "
                                f"and dashes, such as 'small'")
        if not isinstance(sorts, (tuple, list)) or not set(sorts) <= set(FACT_SORTS):
            raise ArgumentError(f"{place} declares {name!r} with the sorts {sorts!r}; they are a "
                                f"tuple of {', '.join(FACT_SORTS)}")


def asked(provider: Provider, view: View) -> list[Fact]:
    """The facts that a provider states of a view, as its relations declare them: numbers as ints.

    Raises RuleError that names the provider, and where in it something failed.
    """
    try:
        return [_checked(provider, f, view.classes) for f in provider.facts(view)]
    except TeggError:
        raise
    except Exception as e:
        frame = traceback.extract_tb(e.__traceback__)[-1]
        raise RuleError(f"provider {provider.name!r} fails at {frame.filename}:{frame.lineno}: "
                        f"{type(e).__name__}: {e}; its facts(view) gives tuples of a relation and "
                        f"its arguments") from e


def _checked(provider: Provider, fact: Any, classes: Collection[int]) -> Fact:
    whole = isinstance(fact, Sequence) and not isinstance(fact, str) and len(fact) > 0
    sorts = provider.relations.get(fact[0]) if whole else None
    if sorts is None or len(sorts) != len(fact) - 1:
        raise RuleError(f"provider {provider.name!r} states {fact!r}, which its relations "
                        f"{dict(provider.relations)!r} do not declare")
    return (fact[0], *(_argument(provider, fact, value, sort, classes)
                       for value, sort in zip(fact[1:], sorts)))


def _argument(provider: Provider, fact: Fact, value: Any, sort: str,
              classes: Collection[int]) -> Any:
    """An argument of a fact. Raises RuleError for what is not of its sort."""
    if sort == "String":
        if isinstance(value, str) and TEXT.fullmatch(value):
            return value
        if isinstance(value, (tuple, list)) and all(isinstance(d, (int, Poly)) for d in value):
            return tuple(value)
        want = "a text without quotes, or a tuple of dims"
    else:
        number = None if isinstance(value, bool) or not hasattr(value, "__index__") \
            else operator.index(value)
        if number is not None and (number in classes if sort == "Tensor"
                                   else -2 ** 63 <= number < 2 ** 63):
            return number
        want = ("a class of the view, a key of view.nodes" if sort == "Tensor"
                else "an int of 64 bits")
    raise RuleError(f"provider {provider.name!r} states {fact!r}: {value!r} stands where a {sort} "
                    f"is needed, {want}")
