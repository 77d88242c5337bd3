"""The C templates of ``gemm/``, and words that several of them are filled with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template


@cache
def template(name: str) -> Template:
    """A template of ``gemm/``."""
    file = files("tegg.backends.cpu").joinpath("gemm", f"{name}.c.in")
    return Template(file.read_bytes().decode())


def indented(lines: Sequence[str], by: int) -> str:
    """Lines, ``by`` columns in."""
    return "\n".join(" " * by + line for line in lines)


def within(q: str, group: int) -> str:
    """Which panel of a group a panel of all groups is, or the nearest."""
    low, high = f"from{group}", f"from{group + 1}"
    return f"({q} < {low} ? {low} : {q} > {high} ? {high} : {q}) - {low}"
