"""What a compiled program takes and gives: names, shapes, dtypes, symbols; arguments checked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tegg.dim import Dim, Poly, Shape, Symbol, evaluate, symbols
from tegg.dtype import DType
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.interchange import on_device
from tegg.ir.graph import Graph
from tegg.shape import show

MAX_DIM = 2**31     # lanes count in int32
MAX_ELEMENTS = 2**62


@dataclass(frozen=True, slots=True)
class Argument:
    """One array that a call takes. ``slot`` is the graph's input slot."""

    name: str
    shape: Shape
    dtype: DType
    state: bool
    slot: int


@dataclass(frozen=True, slots=True)
class Result:
    """One array that a call gives."""

    name: str
    shape: Shape
    dtype: DType


@dataclass(frozen=True, slots=True)
class Signature:
    """Arguments and results in order, and the symbols that their shapes bind."""

    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    symbols: tuple[Symbol, ...]
    claims: tuple[Dim, ...]
    equal: tuple[tuple[Symbol, Dim], ...]
    others: tuple[Shape, ...]  # shapes inside the program, for the checks of sizes

    @staticmethod
    def of(graph: Graph) -> Signature:
        """The signature of a graph whose outputs and updates are set."""
        live = graph.reachable()
        dims = [d for n in live for d in n.shape]
        dims += [d for s in graph.inputs for d in s.shape] + list(graph.facts.claims)
        dims += [d for d in graph.facts.equal.values()]
        found = {s.name: s for d in dims for s in symbols(d)}
        found.update({s.name: s for s in graph.facts.equal})
        symbolic = {n.shape for n in live if any(isinstance(d, Poly) for d in n.shape)}
        made = Signature(
            tuple(Argument(s.name, s.shape, s.dtype, s.kind == "state" or i in graph.updates, i)
                  for i, s in enumerate(graph.inputs) if s.kind != "weight"),
            tuple(Result(k, n.shape, n.dtype) for k, n in graph.outputs.items()),
            tuple(found[k] for k in sorted(found)), tuple(graph.facts.claims),
            tuple(graph.facts.equal.items()), tuple(sorted(symbolic, key=str)))
        made._bound()
        return made

    def _bound(self) -> None:
        """Every symbol is the size of an axis, or follows from the others."""
        known = {m[0].name: 1 for a in self.arguments for d in a.shape if isinstance(d, Poly)
                 for m, c in d.terms.items() if len(d.terms) == len(m) == c == 1}
        self._solve(known)
        for s in self.symbols:
            if s.name not in known:
                raise ShapeError(f"no input has an axis of exactly {s.name}, so a call would not "
                                 f"know its size; give the program an input with such an axis")

    def by_name(self, args: Sequence, kwargs: Mapping) -> list:
        """Positional and named arguments in order. Raises ArgumentError for a misfit."""
        names = [a.name for a in self.arguments]
        if len(args) > len(names):
            raise ArgumentError(f"takes {len(names)} inputs ({', '.join(names)}), "
                                f"got {len(args)} by position")
        given = dict(zip(names, args))
        for k, v in kwargs.items():
            if k not in names:
                near = difflib.get_close_matches(k, names, 1)
                raise ArgumentError(f"there is no input {k!r}"
                                    + (f"; did you mean {near[0]!r}?" if near else
                                       f"; inputs are {', '.join(names) or 'none'}"))
            if k in given:
                raise ArgumentError(f"input {k!r} was given twice")
            given[k] = v
        missing = [n for n in names if n not in given]
        if missing:
            raise ArgumentError(f"missing input{'s' * (len(missing) > 1)} {', '.join(missing)}")
        return [given[n] for n in names]

    def arrays(self, values: Sequence[object]) -> list[np.ndarray]:
        """The array of each argument. One that shares memory with a state is copied, so that it
        is read as it was; raises ArgumentError where two states do, besides what ``array`` does."""
        out = [self.array(a, v) for a, v in zip(self.arguments, values)]
        for i, a in enumerate(self.arguments):
            for j, b in enumerate(self.arguments if a.state else ()):
                if i != j and np.may_share_memory(out[i], out[j]):
                    if b.state:
                        raise ArgumentError(f"states {a.name!r} and {b.name!r} share memory, and "
                                            f"both are replaced; give each an array of its own")
                    out[j] = out[j].copy()
        return out

    def array(self, a: Argument, value: object) -> np.ndarray:
        """The contiguous native array for an argument; no copy where it is one already.

        Python scalars and lists are converted where that loses nothing; an array's dtype must
        match. A state must be usable in place.
        """
        want = a.dtype.numpy
        if not isinstance(value, (np.ndarray, np.generic)):
            if a.state:
                raise ArgumentError(f"state {a.name!r} is replaced in place: give a NumPy array, "
                                    f"not {type(value).__name__}")
            value = self._converted(a, value)
        if value.dtype.newbyteorder("=") != want:
            raise DTypeError(f"input {a.name!r} is {value.dtype}, the program was compiled for "
                             f"{a.dtype.name}; write {a.name}.astype({str(want)!r})")
        if a.state and not (isinstance(value, np.ndarray) and value.dtype == want
                            and value.flags.c_contiguous and value.flags.writeable):
            raise ArgumentError(f"state {a.name!r} is replaced in place: it must be a writable, "
                                f"C-contiguous array of native byte order")
        if value.ndim != len(a.shape):
            raise ShapeError(f"input {a.name!r} has shape {value.shape}, of rank {value.ndim}; "
                             f"the program takes {show(a.shape)}")
        return np.ascontiguousarray(value, want).reshape(value.shape)

    @staticmethod
    def _converted(a: Argument, value: object) -> np.ndarray:
        if on_device(value):
            raise ArgumentError(f"input {a.name!r} is {type(value).__name__}, which does not lie "
                                f"in the host's memory, where this program runs; copy it to NumPy "
                                f"array first, or compile for the device that it lies on")
        try:
            found = np.asarray(value)
        except ValueError as e:
            raise ArgumentError(f"input {a.name!r}: {e}") from None
        kinds = {"float": "biuf", "int": "biu", "bool": "b"}[a.dtype.kind]
        if found.dtype.kind not in kinds:
            raise DTypeError(f"input {a.name!r} takes {a.dtype.name}, not {type(value).__name__} "
                             f"{value!r}")
        made = found.astype(a.dtype.numpy)
        if a.dtype.kind == "int" and not np.array_equal(made, found):
            raise DTypeError(f"input {a.name!r}: {value!r} does not fit {a.dtype.name}")
        return made

    def sizes(self, arrays: Sequence[np.ndarray]) -> dict[str, int]:
        """The sizes of all symbols, from the arguments' shapes; every dim, bound and claim holds.

        Raises ShapeError naming the input, the axis and both sizes.
        """
        out: dict[str, int] = {}
        for a, value in zip(self.arguments, arrays):
            for d, n in zip(a.shape, value.shape):
                if isinstance(d, Poly) and len(d.terms) == 1:
                    (m, c), = d.terms.items()
                    if len(m) == 1 and c == 1:
                        out.setdefault(m[0].name, n)
        self._solve(out)
        for a, value in zip(self.arguments, arrays):
            for axis, (d, n) in enumerate(zip(a.shape, value.shape)):
                if evaluate(d, out) != n:
                    what = f" = {evaluate(d, out)}" if isinstance(d, Poly) else ""
                    raise ShapeError(f"input {a.name!r} has shape {value.shape}: axis {axis} must "
                                     f"be {d}{what}, not {n}")
        self._check(out)
        return out

    def _solve(self, out: dict[str, int]) -> None:
        """Symbols that stated equalities give."""
        for _ in self.equal:
            for s, d in self.equal:
                if s.name not in out and all(x.name in out for x in symbols(d)):
                    out[s.name] = evaluate(d, out)

    def _check(self, out: Mapping[str, int]) -> None:
        for s in self.symbols:
            n = out[s.name]
            if n < s.min or (s.max is not None and n > s.max):
                top = "" if s.max is None else s.max
                raise ShapeError(f"dim {s.name!r} is {n}, outside its bounds {s.min}..{top}")
        for c in self.claims:
            if evaluate(c, out) < 0:
                raise ShapeError(f"it was assumed that {c} >= 0; it is {evaluate(c, out)}")
        for s, d in self.equal:
            if out[s.name] != evaluate(d, out):
                raise ShapeError(f"it was stated that {s.name} == {d}; "
                                 f"they are {out[s.name]} and {evaluate(d, out)}")
        for shape in self.others:
            dims = [evaluate(d, out) for d in shape]
            count = 1
            for d in dims:
                count *= d
            if count >= MAX_ELEMENTS or any(d >= MAX_DIM for d in dims):
                raise ShapeError(f"a value of shape {show(tuple(dims))} is too large")
