"""The fast call path: a builtin function that checks NumPy arrays and runs a program, in C."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tegg.dim import Dim, Poly, Symbol
from tegg.planning.target import ArraySpec

from .block import Block
from .program import Program, encoded
from .runtime import runtime

LARGEST_DIM = 2**31 - 1


class _Dim(ctypes.Structure):
    _fields_ = [("size", ctypes.c_int64), ("symbol", ctypes.c_int32), ("fixed", ctypes.c_int32),
                ("poly", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [("descr", ctypes.c_void_p), ("name", ctypes.c_void_p), ("dims", ctypes.c_void_p),
                ("slots", ctypes.c_void_p), ("allocate", ctypes.c_void_p),
                ("arguments", ctypes.c_void_p), ("nd", ctypes.c_int32),
                ("slot_count", ctypes.c_int32), ("writable", ctypes.c_int32),
                ("itemsize", ctypes.c_int32)]


class _Caller(ctypes.Structure):
    _fields_ = [("program", ctypes.c_void_p), ("inputs", ctypes.c_void_p),
                ("outputs", ctypes.c_void_p), ("claims", ctypes.c_void_p),
                ("minimum", ctypes.c_void_p), ("maximum", ctypes.c_void_p),
                ("keep", ctypes.c_void_p), ("input_count", ctypes.c_int32),
                ("output_count", ctypes.c_int32), ("symbol_count", ctypes.c_int32),
                ("claim_count", ctypes.c_int32), ("named", ctypes.c_int32),
                ("writes_inputs", ctypes.c_int32), ("entries", ctypes.c_void_p),
                ("method", ctypes.c_void_p * 4)]


class Caller:
    """A program with its signature. ``call(*inputs, **inputs)`` is the fast path.

    ``call`` gives the results as a tuple, or as a dict by name if ``named``; after all inputs by
    position the results may be given as well. It gives None, with nothing done, where an argument
    is not exactly as the signature says (dtype, native byte order, rank, sizes, C-contiguous,
    writable where it must be, sharing no memory with what is written), where sizes break a bound
    or claim, and where no prepared memory for these sizes is free: the caller then takes the slow
    way, which converts, raises, or calls ``prepare`` for memory and tries again.
    """

    def __init__(self, program: Program, inputs: Sequence[ArraySpec],
                 outputs: Sequence[ArraySpec], symbols: Sequence[Symbol] = (),
                 claims: Sequence[Dim] = (), named: bool = False) -> None:
        names = [s.name for s in symbols]
        assert names == list(program.symbols), (names, program.symbols)
        self.program = program
        self._block = Block()
        self._keep: list[Any] = [program, self._block]
        self._symbols = names
        description = _Caller(
            program.address, self._specs(inputs, False), self._specs(outputs, True),
            self._claims(claims), self._block.int64s([s.min for s in symbols]),
            self._block.int64s([LARGEST_DIM if s.max is None else s.max for s in symbols]),
            id(self._keep), len(inputs), len(outputs), len(names), len(claims), named,
            any(s.writable for s in inputs))
        self._lib = runtime().held
        self.call: Any = _never
        if runtime().reads_arrays:
            make = self._lib.tegg_caller_new
            make.restype = ctypes.py_object
            self.call = make(ctypes.byref(description)) or _never

    # ---- the description, whose parts live as long as the C object: it refers to _keep
    def _object(self, value: object) -> int:
        self._keep.append(value)
        return id(value)

    def _claims(self, claims: Sequence[Dim]) -> int:
        block = self._block
        return block.pointers([block.int64s(encoded(c, self._symbols)) for c in claims])

    def _specs(self, specs: Sequence[ArraySpec], results: bool) -> int:
        return self._block.structures([self._spec(s, results) for s in specs])

    def _spec(self, s: ArraySpec, result: bool) -> _Spec:
        fixed = result and not any(isinstance(d, Poly) for d in s.shape)
        return _Spec(
            self._object(s.dtype), self._object(sys.intern(s.name)),
            self._block.structures([self._dim(d) for d in s.shape]),
            self._block.int32s(s.buffers),
            self._object(s.allocate),
            self._object((s.shape, s.dtype)) if fixed else None,
            len(s.shape), len(s.buffers), result or s.writable, s.dtype.itemsize)

    def _dim(self, d: Dim) -> _Dim:
        if not isinstance(d, Poly):
            return _Dim(d, -1, 1, None)
        (factors, coefficient), *more = d.terms.items()
        if not more and coefficient == 1 and len(factors) == 1:
            return _Dim(0, self._symbols.index(factors[0].name), 0, None)
        return _Dim(0, -1, 0, self._block.int64s(encoded(d, self._symbols)))

    # ---- memory of runs
    def prepare(self, pointers: ctypes.Array, keep: object, threads: int, release: bool,
                low: Sequence[int] = (), high: Sequence[int] | None = None) -> None:
        """Memory for one run in flight at sizes ``low`` to ``high`` (``low`` alone if None).

        ``pointers`` is the program's table of buffers, copied, in which inputs and results may be
        left empty; ``keep`` lives as long as it is used. ``release``: run without the GIL, which
        costs 0.1 us and pays where a run is long. Prepared twice, two calls can run at once.
        """
        if self.call is not _never:
            table = ctypes.c_int64 * max(1, len(low))
            self._lib.tegg_caller_prepare(
                self._capsule(), table(*low), table(*(high or low)),
                pointers, len(pointers), ctypes.py_object(keep), threads, release)

    def clear(self) -> None:
        """Forget all prepared memory; that of a run in flight when the run ends."""
        if self.call is not _never:
            self._lib.tegg_caller_clear(self._capsule())

    def _capsule(self) -> Any:
        """What holds the C object: the ``self`` of the builtin function."""
        return ctypes.py_object(self.call.__self__)


def bind(program: Program, pointers: ctypes.Array, sizes: Sequence[int], keep: object,
         threads: int, release: bool) -> Callable[[], None]:
    """A function without arguments that runs a program on the buffers of a table.

    Calls from several threads run one after the other. ``keep`` lives as long as the function.
    """
    make = runtime().held.tegg_bind
    make.restype = ctypes.py_object
    table = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
    return make(ctypes.c_void_p(program.address), table, len(sizes), pointers, len(pointers),
                ctypes.py_object((keep, program)), threads, release)


def _never(*args: object, **named: object) -> None:
    """The fast path where there is none."""
