"""PROGRAM on the command line: ``file.py:function``, with example inputs that give its shapes."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from tegg.errors import ArgumentError, TeggError
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
    dims, fn = (found.dims, found.function) if isinstance(found, Function) else (None, found)
    with _theirs(f"{text}, as it is recorded,"):
        graph = trace(fn, _inputs((found, fn, module), text), dims=dims).graph
    if not graph.outputs and not graph.updates:
        raise ArgumentError(f"{text} returns no tensor and updates no state, so there is nothing "
                            f"to compile; {HOW}")
    return graph


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}; {HOW}")
    name = f"_program_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is no Python file; {HOW}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look there
    sys.path.insert(0, str(path.resolve().parent))  # where a script finds what lies beside it
    try:
        with _theirs(str(path)):
            spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


@contextmanager
def _theirs(what: str) -> Iterator[None]:
    """What a program raises, as an ArgumentError that says where; errors of ours stay."""
    try:
        yield
    except TeggError:
        raise
    except (Exception, SystemExit) as e:
        frames = [f for f in traceback.extract_tb(e.__traceback__)[1:]
                  if not f.filename.startswith("<frozen")]
        here = Path(__file__).parent.parent
        frames = [f for f in frames if here not in Path(f.filename).parents]
        at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        raise ArgumentError(f"{what} fails{at}: {type(e).__name__}: {e}; run it in Python to see "
                            f"the whole traceback") from e


def _inputs(places: Iterable[Any], text: str) -> tuple[Any, ...]:
    given = next((v for p in places if (v := getattr(p, "example_inputs", None)) is not None), None)
    if given is None:
        raise ArgumentError(f"{text} has no example_inputs; {HOW}")
    given = given() if callable(given) else given
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)
