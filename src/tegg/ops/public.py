"""Public ops: the table of their names, PyTorch's and NumPy's keywords, errors in one form.

``@public(...)`` above a function makes it an op of ``tegg`` and a method of Tensor, under its own
name and its aliases. ``tools/reference.py`` makes the stubs and ``docs/ops.md`` from the table.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np

from tegg.errors import ArgumentError, TeggError
from tegg.ir.graph import user_place
from tegg.ops.reference import documented
from tegg.ops.value import brief, fail
from tegg.shape import show

F = TypeVar("F", bound=Callable)

# Other spellings of a parameter, where an op has no parameter of that name itself.
KEYWORDS = {"axis": "dim", "axes": "dim", "dims": "dim", "keepdims": "keepdim",
            "ddof": "correction", "input": "x", "other": "y"}
_HEAD = re.compile(r"[A-Za-z_]\w*: ")


@dataclass(frozen=True, slots=True)
class PublicOp:
    """One public op.

    aliases: other names, as functions and methods; methods: names of the method alone.
    method: whether ``x.name(...)`` is ``tegg.name(x, ...)``.
    only_method: whether ``tegg.name`` is something else.
    keywords: every spelling of a keyword -> the parameter.
    """

    name: str
    function: Callable
    aliases: tuple[str, ...]
    methods: tuple[str, ...]
    method: bool
    only_method: bool
    keywords: Mapping[str, str]

    @property
    def family(self) -> str:
        """The module of ``tegg.ops`` that it is in."""
        return str(self.function.__module__).rpartition(".")[2]


PUBLIC: dict[str, PublicOp] = {}


def public(*aliases: str, methods: Iterable[str] = (), method: bool = True,
           only_method: bool = False, keywords: Mapping[str, str] | None = None
           ) -> Callable[[F], F]:
    """Make a function a public op (see ``PublicOp``); ``keywords`` are spellings of its own.

    The function then raises ArgumentError for missing, unknown and repeated arguments, and every
    TeggError out of it names the op that was called and the caller's line.
    """
    def decorate(f: F) -> F:
        signature = inspect.signature(f)
        spellings = _spellings(signature, keywords or {})
        star = next((p.name for p in signature.parameters.values()
                     if p.kind is p.VAR_POSITIONAL), None)
        name = f.__name__
        plain, parameters = _plain(signature), tuple(signature.parameters.values())
        f.__doc__ = documented(name, inspect.getdoc(f) or "")

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                args, kwargs = _respelled(name, args, kwargs, spellings, star)
            for i, key, kind in plain:
                if i < len(args):
                    _check(name, key, kind, args[i])
                elif key in kwargs:
                    _check(name, key, kind, kwargs[key])
            try:
                return f(*args, **kwargs)
            except TeggError as e:
                _rename(e, name, _operands(parameters, args, kwargs))
            except TypeError as e:
                if e.__traceback__ is None or e.__traceback__.tb_next is not None:
                    raise  # from inside
                _misfit(name, signature, str(e))

        PUBLIC[name] = PublicOp(name, call, aliases, tuple(methods), method, only_method,
                                spellings)
        return call  # type: ignore[return-value]

    return decorate


def _spellings(signature: inspect.Signature, own: Mapping[str, str]) -> dict[str, str]:
    names = dict.fromkeys(signature.parameters)
    out = {n: n for n in names}
    for spelling, name in {**KEYWORDS, **own}.items():
        if name in names:
            out.setdefault(spelling, name)
    return out


# What a parameter that is no operand and no axis takes, by its annotation.
_KINDS: Mapping[str, tuple[type, ...]] = {
    "bool": (bool, np.bool_), "int": (int, np.integer), "str": (str,),
    "float": (int, float, np.integer, np.floating)}
_SAID = {"bool": "True or False", "int": "an int", "str": "a string", "float": "a number"}


def _plain(signature: inspect.Signature) -> list[tuple[int, str, str]]:
    """Place, name and annotation of parameters that take one Python value."""
    return [(sys.maxsize if p.kind is p.KEYWORD_ONLY else i, p.name, str(p.annotation))
            for i, p in enumerate(signature.parameters.values())
            if str(p.annotation).removesuffix(" | None") in _KINDS
            and not p.name.startswith("dim") and p.kind is not p.VAR_POSITIONAL]


def _check(op: str, name: str, kind: str, value: Any) -> None:
    base = kind.removesuffix(" | None")
    if isinstance(value, _KINDS[base]) and (base == "bool" or not isinstance(value, bool)):
        return
    if not (value is None and kind != base):
        fail(ArgumentError, f"{op}: {name} is {_SAID[base]}, not {value!r}")


def _respelled(name: str, args: tuple, kwargs: Mapping[str, Any], spellings: Mapping[str, str],
               star: str | None) -> tuple[tuple, dict[str, Any]]:
    """Arguments by the function's own names; those of ``*sizes`` by position."""
    out: dict[str, Any] = {}
    for key, value in kwargs.items():
        own = spellings.get(key)
        if own is None:
            _unknown(name, key, spellings)
        if own in out:
            first = next(k for k in kwargs if spellings[k] == own)
            fail(ArgumentError, f"{name}: {key}= says again what {first}= says")
        out[own] = value
    return (*args, out.pop(star)) if star is not None and star in out else args, out


def _operands(parameters: tuple[inspect.Parameter, ...], args: tuple, kwargs: Mapping[str, Any]
              ) -> list[tuple[str, tuple]]:
    """Names and shapes of the tensors and arrays of a call; those in a list each by its place."""
    given = [(parameters[min(i, len(parameters) - 1)].name, a) for i, a in enumerate(args)]
    found: list[tuple[str, tuple]] = []
    for name, a in (*given, *kwargs.items()):
        inside = enumerate(a) if isinstance(a, (list, tuple)) else ()
        for label, v in ((name, a), *((f"{name}[{i}]", v) for i, v in inside)):
            shape = getattr(v, "shape", None)
            if isinstance(shape, tuple) and not isinstance(v, np.generic):
                found.append((label, shape))
    return found


def _rename(e: TeggError, name: str, operands: list[tuple[str, tuple]]) -> NoReturn:
    """The same error, in the name of the op that the user called, with the shapes of its operands
    that it does not say yet, and the user's line."""
    said, at, place = str(e).partition(" (at ")
    text = brief(f"{name}: {_HEAD.sub('', said, count=1)}")
    shapes = [f"{label} is {show(shape)}" for label, shape in operands if show(shape) not in text]
    if shapes:
        text += f"; {', '.join(shapes)}"
    raise type(e)(text + (at + place if at else f" (at {user_place()})")) from None


def _misfit(name: str, signature: inspect.Signature, said: str) -> NoReturn:
    """Too few, too many or repeated arguments."""
    fact = re.sub(r"^.*?\(\) ", "", said)
    shown = ", ".join(str(p.replace(annotation=p.empty)) for p in signature.parameters.values())
    fail(ArgumentError, f"{name}: {fact}; it is {name}({shown})")


def _unknown(name: str, key: str, spellings: Mapping[str, str]) -> NoReturn:
    near = difflib.get_close_matches(key, spellings, 1)
    usual = [k for k in spellings if k not in ("x", "y", "input", "other")]
    remedy = f"did you mean {near[0]}=?" if near else (
        f"it has {', '.join(usual)}" if usual else "it has none")
    fail(ArgumentError, f"{name}: no keyword {key}=; {remedy}")


def names_of(op: PublicOp) -> tuple[str, ...]:
    """Its names as a function."""
    return () if op.only_method else (op.name, *op.aliases)


def methods_of(op: PublicOp) -> tuple[str, ...]:
    """Its names as a method."""
    return (op.name, *op.aliases, *op.methods) if op.method else op.methods


def functions() -> dict[str, Callable]:
    """Every public function by each of its names."""
    return {n: op.function for op in PUBLIC.values() for n in names_of(op)}


def nearest(name: str, names: Iterable[str]) -> str:
    """``; did you mean 'softmax'?`` for a name that does not exist, or nothing."""
    near = difflib.get_close_matches(name, sorted(names), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
