"""PROGRAM on the command line: ``file.py:function``, with example inputs that give its shapes."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from tegg.errors import ArgumentError
from tegg.ir.graph import Graph
from tegg.jit import Function
from tegg.trace import trace

HOW = "give file.py:function, where function.example_inputs (or example_inputs in the file) is a " \
      "tuple of arrays, or a function that gives one"


def load_program(text: str) -> Graph:
    """The graph of a program that is named as ``file.py:name``: a ``tegg.Graph``, a function or a
    module of tegg.nn with example inputs, or a ``tegg.compile``d function.

    Raises ArgumentError that says what is missing.
    """
    file, _, name = text.rpartition(":")
    if not file or not name:
        raise ArgumentError(f"{text!r} names no program; {HOW}")
    module = _load(Path(file))
    found = getattr(module, name, None)
    if found is None:
        names = [n for n in vars(module) if not n.startswith("_")]
        near = get_close_matches(name, names, 1)
        raise ArgumentError(f"{file} has no {name!r}" + (f"; did you mean {near[0]!r}?" if near
                            else f"; it has {', '.join(names) or 'nothing'}"))
    if isinstance(found, Graph):
        return found
    if not callable(found):
        raise ArgumentError(f"{text} is of type {type(found).__name__}, and no function; {HOW}")
    dims = found.dims if isinstance(found, Function) else None
    return trace(inspect.unwrap(found), _inputs(found, module, text), dims=dims).graph


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}; {HOW}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is no Python file; {HOW}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _inputs(found: Callable, module: ModuleType, text: str) -> tuple[Any, ...]:
    given = getattr(found, "example_inputs", None)
    if given is None:
        given = getattr(module, "example_inputs", None)
    if given is None:
        raise ArgumentError(f"{text} has no example_inputs; {HOW}")
    given = given() if callable(given) else given
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)
