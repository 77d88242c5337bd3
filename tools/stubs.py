"""Write the type stubs of the public ops: functions and methods, with NumPy's keywords too.

    python tools/stubs.py
"""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path

from tegg.ops.public import KEYWORDS, PUBLIC, PublicOp, functions, methods_of, names_of

OPS = Path(__file__).parent.parent / "src" / "tegg" / "ops"
SPELT = {"dim": "axis", "keepdim": "keepdims", "correction": "ddof"}  # in overloads
HEAD = '''"""Written by tools/stubs.py from the public ops; do not edit."""

{extra}from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn, overload

import numpy as np

from tegg.dim import Dim, Shape
from tegg.dtype import DType
from tegg.ops.reduce import Axes
from tegg.ops.value import Operand, Value
from tegg.tensor import Tensor
{types}
'''


def functions_stub() -> str:
    """``ops/__init__.pyi``."""
    modules = sorted(p.stem for p in OPS.glob("*.py") if p.stem != "__init__"
                     and p.stem not in functions())
    names = sorted(n for op in PUBLIC.values() for n in names_of(op))
    parts = [HEAD.format(extra="from types import ModuleType\n", types=_types()),
             *(f"from tegg.ops import {m} as {m}\n" for m in modules),
             "\nFAMILIES: tuple[ModuleType, ...]\n", _names(names), "\n"]
    for op in PUBLIC.values():
        parts += [_definition(op, name, "") for name in names_of(op)]
    return "".join(parts)


def _types() -> str:
    """Imports of the types that a module of ops defines for itself."""
    found: dict[str, str] = {}
    for op in PUBLIC.values():
        made = inspect.unwrap(op.function)
        text = " ".join(map(str, made.__annotations__.values()))
        for n in re.findall(r"\w+", text):
            if n in made.__globals__ and not re.search(rf"\b{n}\b", HEAD):
                found[n] = _home(n)
    return "".join(f"from {module} import {n}\n" for n, module in sorted(found.items()))


def _home(name: str) -> str:
    """The module of ops in which a type is defined."""
    pattern = re.compile(rf"^({name} = |class {name}\b)", re.MULTILINE)
    (path,) = (p for p in OPS.glob("*.py") if pattern.search(p.read_text(encoding="utf-8")))
    return f"tegg.ops.{path.stem}"


def _names(names: list[str]) -> str:
    lines, line = ["__all__ = ["], "   "
    for n in names:
        if len(line) + len(n) + 5 > 100:
            lines.append(line)
            line = "   "
        line += f' "{n}",'
    return "\n".join([*lines, line, "]\n"])


def methods_stub() -> str:
    """``ops/methods.pyi``."""
    # A method hides the function or type of its name in the rest of the class.
    parts = [HEAD.format(extra="import builtins\nfrom abc import ABCMeta\n", types=_types()),
             "class Methods(Value, metaclass=ABCMeta):\n    __slots__ = ()\n"]
    for op in PUBLIC.values():
        parts += [_definition(op, name, "    ") for name in methods_of(op)]
    return "".join(parts)


def _definition(op: PublicOp, name: str, indent: str) -> str:
    """One function or method, with an overload for each way to spell its keywords."""
    signature = inspect.signature(op.function)
    ways = []
    both = [(n, SPELT[n]) if n in SPELT else (n,) for n in signature.parameters]
    for spelling in itertools.product(*both):
        named = dict(zip(signature.parameters, spelling))
        ways.append(_line(name, signature, named, indent))
    ways += [_line(name, signature, named, indent) for named in _respelt(op, signature)]
    ways = list(dict.fromkeys(ways))  # of a method, spellings of x are one
    if len(ways) == 1:
        return ways[0]
    return "".join(f"{indent}@overload\n{w}" for w in ways)


def _respelt(op: PublicOp, signature: inspect.Signature) -> list[dict[str, str]]:
    """Parameters by the op's own other spellings: the first of each, the second of each, ..."""
    found: dict[str, list[str]] = {}
    for spelling, name in op.keywords.items():
        if spelling != name and KEYWORDS.get(spelling) != name and (
                signature.parameters[name].kind is not inspect.Parameter.VAR_POSITIONAL):
            found.setdefault(name, []).append(spelling)
    most = max(map(len, found.values()), default=0)
    return [{n: found[n][min(i, len(found[n]) - 1)] if n in found else n
             for n in signature.parameters} for i in range(most)]


def _line(name: str, signature: inspect.Signature, named: dict[str, str], indent: str) -> str:
    given = []
    for i, p in enumerate(signature.parameters.values()):
        if indent and i == 0:
            given.append("self")
            continue
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.kind is p.KEYWORD_ONLY and not any(g[0] == "*" for g in given):
            given.append("*")
        default = "" if p.default is p.empty else f" = {_default(p.default)}"
        given.append(f"{star}{named[p.name]}: {_type(p.annotation, indent)}{default}")
    result = _type(signature.return_annotation, indent)
    return _wrapped(f"{indent}def {name}(", given, f") -> {result}: ...")


def _wrapped(head: str, given: list[str], tail: str) -> str:
    """Broken after commas, to the width of the line."""
    lines, line = [], head
    for i, g in enumerate(given):
        g += tail if i == len(given) - 1 else ", "
        if len(line) + len(g) > 100:
            lines.append(line.rstrip())
            line = " " * len(head)
        line += g
    return "\n".join([*lines, line]) + "\n"


def _default(value: object) -> str:
    return repr(value) if isinstance(value, (int, float, str, type(None))) else "..."


def _type(annotation: str, indent: str) -> str:
    return re.sub(r"\b(int|float|bool|str|tuple|list)\b", r"builtins.\1", annotation) if (
        indent) else annotation


STUBS = {OPS / "__init__.pyi": functions_stub, OPS / "methods.pyi": methods_stub}

if __name__ == "__main__":
    for path, made in STUBS.items():
        path.write_text(made(), encoding="utf-8")
