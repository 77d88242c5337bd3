"""compile(): a Python function becomes a program per signature of its arguments."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from tegg.runtime.buckets import Buckets
from tegg.collecting import deferred
from tegg.dtype import DType
from tegg.errors import ArgumentError, OutgrownError
from tegg.ir.graph import Graph
from tegg.runtime.bound import Bound
from tegg.runtime.compiled import Compiled
from tegg.trace import (ArraySpec, Arguments, arguments, is_recorded, record, signature_of,
                        with_dims)
from tegg.tree import Tree, unflatten

Key = tuple[Tree, tuple[tuple[tuple, DType], ...]]
Program = Compiled | Buckets
Entry = tuple[Program, Tree, tuple[Callable, ...]]  # with the structure of results, and watchers


class Function:
    """A compiled function: traced at the first call per signature, as a program of its own.

    What is no array (numbers, strings, ...) is part of the signature. A symbolic dim of ``dims``
    stands for every size within its bounds. Called with tensors, while another function is
    recorded, it is a part of that one.
    """

    __name__: str
    __qualname__: str

    def __init__(self, fn: Callable, dims: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        if not isinstance(dims, Mapping):
            raise ArgumentError(f"dims= takes a dict of argument names and shapes, such as "
                                f"{{'x': (tegg.dim('n'), None)}}, not {dims!r}")
        if inspect.isroutine(fn):
            functools.update_wrapper(self, fn)
        else:  # an object: its attributes are its own
            functools.update_wrapper(self, fn, updated=())
            self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self._fn, self.dims, self._options = fn, dict(dims), dict(options)
        self._signature = signature_of(fn)
        self._programs: dict[Key, Entry] = {}
        self._recent: tuple[Program, Tree, int] | None = None  # of a call with arrays alone
        self._lock = threading.Lock()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """A method, where it stands in a class: the object is an argument, by identity."""
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> Any:
        """By its name in its module, as functions are pickled; else without its programs."""
        found: Any = sys.modules.get(self.__module__)
        for part in getattr(self, "__qualname__", "").split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        return Function, (self._fn, self.dims, self._options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on NumPy arrays; gives what the function returns, with arrays for tensors."""
        recent = self._recent
        if recent is not None and not kwargs and len(args) == recent[2]:
            given = recent[0].attempt(args)
            if given is not None:
                return given[0] if recent[1].kind == "leaf" else unflatten(recent[1], given)
        call = self._arguments(args, kwargs)
        if any(map(is_recorded, call.arrays)):
            return self._fn(*args, **kwargs)
        program, outputs, watchers = self._program(call)
        try:
            results = list(program(*call.arrays).values())
        except OutgrownError:
            self._forget(program)
            program, outputs, watchers = self._program(call)
            results = list(program(*call.arrays).values())
        for callback, value in zip(watchers, results[outputs.leaves:]):
            callback(value)
        if not kwargs and not watchers and all(isinstance(a, np.ndarray) for a in args):
            self._recent = (program, outputs, len(args))
        return unflatten(outputs, results)

    def _arguments(self, args: tuple, kwargs: Mapping[str, Any]) -> Arguments:
        return arguments(self._signature, args, kwargs)

    def _program(self, call: Arguments) -> Entry:
        specs = with_dims({n: a if isinstance(a, ArraySpec) else ArraySpec.of(a, n)
                           for n, a in zip(call.names, call.arrays)}, self._given(call.names))
        key = (call.tree, tuple((s.shape, s.dtype) for s in specs.values()))
        found = self._programs.get(key)
        if found is None:
            with self._lock:
                found = self._programs.get(key)
                if found is None:
                    found = self._programs[key] = self._compile(specs, call.tree)
        return found

    def _forget(self, program: Program) -> None:
        """Compile anew what this program is for, when it is called next: for larger weights."""
        with self._lock:
            for key in [k for k, found in self._programs.items() if found[0] is program]:
                del self._programs[key]
            self._recent = None

    def _given(self, names: Sequence[str]) -> dict[str, Any]:
        """``dims`` of the arguments that are there: an optional one may be left out."""
        unknown = [n for n in self.dims if n not in names
                   and n.split(".")[0] not in self._signature.parameters]
        if unknown:
            raise ArgumentError(f"dims names {', '.join(unknown)}; array arguments are "
                                f"{', '.join(names) or 'none'}")
        return {n: d for n, d in self.dims.items() if n in names}

    @deferred()
    def _compile(self, specs: Mapping[str, ArraySpec], tree: Tree) -> Entry:
        from tegg.runtime.driver import Options, compile_graph
        traced = record(self._fn, self._signature, specs, tree)
        if not traced.graph.outputs and not traced.graph.updates:
            given = "" if specs else "; none of its arguments is a NumPy array"
            raise ArgumentError(f"{self.__name__} returns no tensor and updates no state, so there "
                                f"is nothing to compile{given}")
        program = compile_graph(traced.graph, Options(**self._options))
        return program, traced.outputs, traced.watchers

    @property
    def function(self) -> Callable:
        """What was compiled, as it was given."""
        return self._fn

    # ---- one program
    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program for these arguments (arrays or ``tegg.ArraySpec``s), compiled if needed."""
        return self._program(self._arguments(args, kwargs))[0]

    def bind(self, *args: Any, out: Mapping[str, Any] | None = None, **kwargs: Any) -> Bound:
        """Arguments and results prepared once; see ``Compiled.bind``."""
        call = self._arguments(args, kwargs)
        return self._program(call)[0].bind(*call.arrays, out=out)

    def profile(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """Per kernel: measured beside predicted time, bytes, share; see ``Compiled.profile``."""
        call = self._arguments(args, kwargs)
        return self._program(call)[0].profile(*call.arrays)

    def _only(self, what: str) -> Program:
        if len(self._programs) != 1:
            raise ArgumentError(f"{what} is of one program, and {self.__name__} has "
                                f"{len(self._programs)}; write f.program(arguments...).{what}")
        return next(iter(self._programs.values()))[0]

    def explain(self) -> str:
        """See ``Compiled.explain``."""
        return self._only("explain()").explain()

    def source(self) -> str:
        """See ``Compiled.source``."""
        return self._only("source()").source()

    @property
    def plan(self):
        """See ``Compiled.plan``."""
        return self._only("plan").plan

    @property
    def stats(self) -> dict[str, float]:
        """See ``Compiled.stats``."""
        return self._only("stats").stats


@overload
def compile(fn: Graph, *compilers: Any, device: str = "cpu", dims: None = None,
            precision: str = "reals", budget_s: float = 5.0, cache: bool = True,
            search: str = "cost", search_s: float = 10.0, seed: int = 0) -> Program: ...
@overload
def compile(fn: None = None, *compilers: Any, device: str = "cpu",
            dims: Mapping[str, Any] | None = None, precision: str = "reals",
            budget_s: float = 5.0, cache: bool = True, search: str = "cost",
            search_s: float = 10.0, seed: int = 0) -> Callable[[Callable], Function]: ...
@overload
def compile(fn: Callable, *compilers: Any, device: str = "cpu",
            dims: Mapping[str, Any] | None = None, precision: str = "reals",
            budget_s: float = 5.0, cache: bool = True, search: str = "cost",
            search_s: float = 10.0, seed: int = 0) -> Function: ...
def compile(fn: Callable | Graph | None = None, *compilers: Any, device: str = "cpu",
            dims: Mapping[str, Any] | None = None, precision: str = "reals",
            budget_s: float = 5.0, cache: bool = True, search: str = "cost",
            search_s: float = 10.0, seed: int = 0) -> Any:
    """Compile a function or a graph for a device.

    fn: a function of arrays (traced at the first call per signature), a ``tegg.Graph`` (compiled
      at once), or nothing: then the result is a decorator.
    compilers: the stack of rule sets; by default ``tegg.Generic()``.
    dims: argument name -> shape with symbolic dims, ``{"x": (tegg.dim("b"), None)}``; None keeps
      the size of the array.
    precision: ``"reals"`` (the order of a sum is free) or ``"bitwise"``.
    budget_s: seconds for the exact choice of kernels; 0 takes the heuristic's.
    search: ``"cost"`` takes the best plan by prediction; ``"measure"`` compiles the best few and
      runs them against each other for about ``search_s`` seconds per program, on inputs that
      ``seed`` draws, and keeps the fastest in the cache. A state's old value is drawn as well.
    """
    options: dict[str, Any] = {"compilers": tuple(compilers), "device": device,
                               "precision": precision, "budget_s": budget_s, "cache": cache,
                               "search": search, "search_s": search_s, "seed": seed}
    if fn is None:
        return lambda f: compile(f, *compilers, dims=dims, **{k: v for k, v in options.items()
                                                              if k != "compilers"})
    if isinstance(fn, Graph):
        from tegg.runtime.driver import Options, compile_graph
        if dims:
            raise ArgumentError("dims= is for functions; give a graph its dims in g.tensor(...)")
        return compile_graph(fn, Options(**options))
    if not callable(fn):
        raise ArgumentError(f"compile takes a function or a tegg.Graph, not "
                            f"{type(fn).__name__}")
    return Function(fn, {} if dims is None else dims, options)
