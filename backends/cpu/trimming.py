"""The vector library cut down to what a unit uses: a compiler takes longer to read all of it than
to translate a small kernel.

A head is preprocessed once per machine and kept in the cache as its definitions, each with the
names that it is used by. Above a text then stand those that it names, and those that they name, in
their order; macros come last, for in the rest they have done their work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import IO

from tegg.cache import Cache, content_key

from .toolchain import Toolchain

_KIND = "head"
_FORMAT = "length, index, texts"  # of a file: part of its key, so that none of another is read
_ENTRY = re.compile(r"(.*)\t(.*)\t(.*)\n")  # a name of a definition, where it begins, its length
_WORD = re.compile(r"[A-Za-z_]\w*")
_TOKEN = re.compile(r"""^[#].*$|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
                    r"|[A-Za-z_]\w*|[=,;{}()\[\]]", re.MULTILINE)
_ATTRIBUTES = ("__attribute__", "__asm__", "__declspec")
_ALWAYS = "#pragma GCC"


def above(cache: Cache, compiler: Toolchain, head: str, text: str) -> str:
    """What a text needs of its head.

    Raises BackendError with the compiler's words where the head does not pass its preprocessor.
    """
    key = content_key(_FORMAT, compiler.identity(), head)
    path = cache.build(_KIND, key, lambda path: path.write_bytes(
        kept(definitions(compiler.preprocessed(head)))))
    with path.open("rb") as file:
        return needed(file, text)


def kept(found: Sequence[tuple[tuple[str, ...], str]]) -> bytes:
    """Definitions as a file: a line with the length of an index, the index, the texts.

    The index goes from the last to the first, for what a definition uses stands before it.
    """
    texts = [text.encode() for _, text in found]
    ends = accumulate(map(len, texts))
    entries = [f"{name}\t{end - len(text)}\t{len(text)}\n"
               for (names, _), text, end in zip(found, texts, ends, strict=True)
               for name in names or ("",)]
    index = "".join(reversed(entries)).encode()
    return b"%d\n%b%b" % (len(index), index, b"".join(texts))


def needed(file: IO[bytes], text: str) -> str:
    """Of the definitions of a file those that a text uses, macros last.

    No others are read: all of them take more memory than most programs that are compiled.
    """
    index = file.read(int(file.readline())).decode()
    begin = file.tell()
    found: dict[int, str] = {}
    words, before = {"", *_words(text)}, -1  # what has no name is always needed
    while before < len(found):  # macros alone may use what comes after them
        before = len(found)
        for m in _ENTRY.finditer(index):
            if m[1] in words and (at := int(m[2])) not in found:
                file.seek(begin + at)
                found[at] = file.read(int(m[3])).decode()
                words.update(_words(found[at]))
    chosen = [definition for _, definition in sorted(found.items())]
    return "\n".join(sorted(chosen, key=lambda d: d.startswith("#define")))


def _words(text: str) -> Iterator[str]:
    """One after the other: all of them would take more memory than the text."""
    return (m[0] for m in _WORD.finditer(text))


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
