"""The vector library cut down to what a unit uses: a compiler takes longer to read all of it than
to translate a small kernel.

A head is preprocessed once per machine and kept in the cache as its definitions, each with the
names that it is used by. Above a text then stand those that it names, and those that they name, in
their order; macros come last, for in the rest they have done their work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from tegg.cache import Cache, content_key

from .toolchain import Toolchain

_KIND = "head"
_AFTER, _END = "\1", "\0"  # of the names of a definition, and of its text
_WORD = re.compile(r"[A-Za-z_]\w*")
_TOKEN = re.compile(r"""^[#].*$|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
                    r"|[A-Za-z_]\w*|[=,;{}()\[\]]", re.MULTILINE)
_ATTRIBUTES = ("__attribute__", "__asm__", "__declspec")
_ALWAYS = "#pragma GCC"


class Trimming:
    """Cuts down what stands above texts of one compiler."""

    def __init__(self, cache: Cache, compiler: Toolchain) -> None:
        self._cache, self._compiler = cache, compiler
        self._known: dict[str, list[list[str]]] = {}

    def above(self, head: str, text: str) -> str:
        """What a text needs of its head.

        Raises BackendError with the compiler's words where the head does not pass its preprocessor.
        """
        if head not in self._known:
            self._known[head] = [d.split(_AFTER) for d in self._kept(head).split(_END)]
        return needed(self._known[head], text)

    def _kept(self, head: str) -> str:
        key = content_key(self._compiler.identity(), head)
        kept = self._cache.read(_KIND, key)
        if kept is None:
            found = definitions(self._compiler.preprocessed(head))
            kept = _END.join(" ".join(names) + _AFTER + text for names, text in found).encode()
            self._cache.put(_KIND, key, kept)
        return kept.decode()


def needed(kept: list[list[str]], text: str) -> str:
    """The definitions, each with its names before it, that a text uses, those of macros last."""
    where: dict[str, list[int]] = {}
    for i, (names, _) in enumerate(kept):
        for name in names.split():
            where.setdefault(name, []).append(i)
    wanted = {i for i, (_, d) in enumerate(kept) if d.startswith(_ALWAYS)}
    todo = [text]
    while todo:
        new = {i for word in set(_WORD.findall(todo.pop())) for i in where.get(word, ())} - wanted
        wanted |= new
        todo += [kept[i][1] for i in new]
    chosen = [kept[i][1] for i in sorted(wanted)]
    macros = [d for d in chosen if d.startswith("#define")]
    return "\n".join([*(d for d in chosen if not d.startswith("#define")), *macros])


def definitions(text: str) -> list[tuple[tuple[str, ...], str]]:
    """The declarations and definitions of a preprocessed text that still has its macros, in order,
    each with the names that it is used by. Of macros those that hold in the end."""
    macros: dict[str, tuple[tuple[str, ...], str]] = {}
    found: list[tuple[tuple[str, ...], str]] = []
    for part, words in _parts(text):
        if words:
            found.append((_names(words), part))
        elif part.startswith("#define"):
            name = part.split(None, 2)[1].split("(")[0]
            macros[name] = (name,), part
        elif part.startswith("#undef"):
            macros.pop(part.split()[1], None)
        elif part.startswith(_ALWAYS):
            found.append(((), part))
    return [*found, *macros.values()]


def _parts(text: str) -> Iterator[tuple[str, list[str]]]:
    """The lines that begin with ``#`` outside all braces, and between them the declarations and
    definitions, which have words: what they consist of, attributes left out."""
    at = depth = 0
    words: list[str] = []
    for m in _TOKEN.finditer(text):
        token = m.group()
        take = partial(text.__getitem__, slice(at, m.end()))
        if token[0] == "#":
            if not words:
                yield take().strip(), []
                at = m.end()
            continue
        depth += (token in "{([") - (token in "})]")
        words.append(token)
        if depth == 0 and (token == ";" or token == "}" and _is_function(_bare(words))):
            if _bare(words) != [";"]:
                yield take().strip(), _bare(words)
            at, words = m.end(), []


def _bare(words: list[str]) -> list[str]:
    """The words without attributes."""
    out: list[str] = []
    depth, skip = 0, False
    for word in words:
        if word in _ATTRIBUTES and not depth:
            skip = True
        elif skip:
            depth += (word == "(") - (word == ")")
            skip = depth > 0
        elif word != "__extension__":
            out.append(word)
    return out


def _is_function(words: list[str]) -> bool:
    """Whether what ends in a brace is a function: what has parameters before its first brace."""
    before = words[:words.index("{")]
    return "(" in before and "=" not in before and "typedef" not in before


def _names(words: list[str]) -> tuple[str, ...]:
    """What a declaration or definition is used by; of a type some more than that."""
    first = next((i for i, w in enumerate(words) if w in "=({[;"), len(words) - 1)
    if words[0] == "typedef":
        outside = list(_outside(words))
        return tuple(w for w, then in pairwise(outside)
                     if _WORD.match(w) and then in (",", ";", "[", ")"))
    if words[0] == "enum":
        return tuple(filter(_WORD.match, words[1:]))
    return (words[first - 1],)


def _outside(words: list[str]) -> Iterator[str]:
    """The words outside braces."""
    depth = 0
    for word in words:
        depth += (word == "{") - (word == "}")
        if not depth:
            yield word
