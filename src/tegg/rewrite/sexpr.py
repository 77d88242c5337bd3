"""S-expressions with positions: what rule files are written in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tegg.errors import RuleError

# Control characters, and what some call the end of a line and others do not.
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029\ufeff]")
DEEPEST = 100  # lists inside of each other, which are walked by recursion


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece of text stands: file, line and column, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A word, a number as written, or a quoted string with its quotes."""

    text: str
    place: Place

    @property
    def is_string(self) -> bool:
        return self.text.startswith('"')

    @property
    def is_int(self) -> bool:
        return is_int(self.text)

    @property
    def is_name(self) -> bool:
        """Whether it is a word that could be a variable or a function."""
        return is_name(self.text)

    @property
    def string(self) -> str:
        """The content of a quoted string."""
        return self.text[1:-1]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class List:
    """A parenthesised list; ``end`` is the line of its closing parenthesis."""

    items: tuple[Expr, ...]
    place: Place
    end: int

    @property
    def head(self) -> str:
        """The word it starts with, or an empty text."""
        first = self.items[0] if self.items else None
        return first.text if isinstance(first, Symbol) else ""

    def __str__(self) -> str:
        return f"({' '.join(map(str, self.items))})"


Expr = Symbol | List


# Rules have few words, and those who match terms ask of each again and again.
@lru_cache(maxsize=4096)
def is_name(text: str) -> bool:
    """Whether a word could be a variable or a function."""
    return not (text.startswith(('"', ":")) or is_int(text) or is_float(text))


def is_int(text: str) -> bool:
    """Whether a word is an integer literal."""
    return re.fullmatch("-?[0-9]+", text) is not None


def is_float(text: str) -> bool:
    """Whether a word is a float literal: ``1.0``, ``2e-5``, ``inf``, ``-inf``."""
    return text in ("inf", "-inf") or not is_int(text) and re.fullmatch(
        r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?", text) is not None


def heads_of(e: Expr) -> set[str]:
    """The words that lists inside of an expression start with."""
    if not isinstance(e, List):
        return set()
    return {e.head}.union(*map(heads_of, e.items))


def short(e: Expr) -> str:
    """The text of an expression, cut where it is long."""
    text = str(e)
    return text if len(text) <= 60 else text[:57] + "..."


def read(text: str, file: str) -> tuple[List, ...]:
    """The top-level lists of a text. Comments run from ``;`` to the end of the line.

    Raises RuleError with the place of what does not balance.
    """
    if odd := _ODD.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        column = odd.start() - text.rfind("\n", 0, odd.start())
        raise RuleError(f"{Place(file, line, column)}: the character {odd[0]!r} has no place in a "
                        f"rule file; delete it")
    open_lists: list[tuple[Place, list[Expr]]] = []
    done: list[List] = []
    for symbol in _tokens(text, file):
        if symbol.text == "(":
            if len(open_lists) == DEEPEST:
                raise RuleError(f"{symbol.place}: lists are nested more than {DEEPEST} deep; give "
                                f"an inner part a name by a relation")
            open_lists.append((symbol.place, []))
        elif symbol.text == ")":
            if not open_lists:
                raise RuleError(f"{symbol.place}: ')' closes nothing; delete it or add its '('")
            place, items = open_lists.pop()
            made = List(tuple(items), place, symbol.place.line)
            (open_lists[-1][1] if open_lists else done).append(made)
        elif open_lists:
            open_lists[-1][1].append(symbol)
        else:
            raise RuleError(f"{symbol.place}: {symbol.text!r} stands outside of any command; "
                            f"comments begin with ';'")
    if open_lists:
        raise RuleError(f"{open_lists[-1][0]}: this '(' is never closed; add a ')'")
    return tuple(done)


# a parenthesis, a string (perhaps without its end), a comment, a word
_TOKEN = re.compile(r'[()]|"[^"]*"?|;.*|[^\s();"]+')


def _tokens(text: str, file: str):
    for number, line in enumerate(text.splitlines(), 1):
        for found in _TOKEN.finditer(line):
            word, place = found[0], Place(file, number, found.start() + 1)
            if word[0] == ";":
                break
            if word[0] == '"':
                if word[-1] != '"' or len(word) == 1:
                    raise RuleError(f"{place}: this string is never closed; add a '\"' "
                                    f"on the same line")
                if "\\" in word:
                    raise RuleError(f"{place}: {word} holds a backslash; "
                                    f"strings are plain text here")
            yield Symbol(word, place)
