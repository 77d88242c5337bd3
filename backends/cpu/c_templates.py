"""The C templates of ``gemm/``, and words that several of them are filled with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from types import MappingProxyType


class Parted(Template):
    """A template that is taken apart once: kernels fill a few with dozens of words each."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._parts: list[str] = []  # text, then the name of a word, then text ...
        at = 0
        for found in self.pattern.finditer(text):
            name = found["named"] or found["braced"]
            assert name or found["escaped"], "a $ that is neither a word nor doubled"
            self._parts += [text[at:found.start()] + ("" if name else "$"), name or ""]
            at = found.end()
        self._parts.append(text[at:])

    def substitute(self, mapping: Mapping[str, object] = MappingProxyType({}), /,
                   **more: object) -> str:
        """The text with its words. Raises KeyError where one is not given."""
        words = {**mapping, **more, "": ""}
        out = list(self._parts)
        for i in range(1, len(out), 2):
            out[i] = str(words[out[i]])
        return "".join(out)


@cache
def template(name: str) -> Parted:
    """A template of ``gemm/``."""
    file = files("tegg.backends.cpu").joinpath("gemm", f"{name}.c.in")
    return Parted(file.read_bytes().decode())


def indented(lines: Sequence[str], by: int) -> str:
    """Lines, ``by`` columns in."""
    return "\n".join(" " * by + line for line in lines)


def within(q: str, group: int) -> str:
    """Which panel of a group a panel of all groups is, or the nearest."""
    low, high = f"from{group}", f"from{group + 1}"
    return f"({q} < {low} ? {low} : {q} > {high} ? {high} : {q}) - {low}"
