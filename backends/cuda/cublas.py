"""NVIDIA's cuBLAS by ctypes: products of matrices on the device, on any stream."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from ctypes import POINTER, byref, c_double, c_float, c_int, c_longlong, c_size_t, c_void_p
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tegg.errors import BackendError

OLDEST = 11           # the first whose calls name what they compute in
ALIGN = 256           # what a workspace begins at a multiple of, as all memory of the driver's does
STREAMS = 8           # streams whose workspaces are kept; the oldest go first
STARTED = 4096        # kinds of products that are known to have been started
REMEDY = "compile with tegg.Cuda(blas=False), which leaves the library out"

# cudaDataType, cublasOperation_t, cublasComputeType_t by the kind and the dtype in memory
_TYPES = MappingProxyType({"f32": 0, "f64": 1, "f16": 2, "bf16": 14})
_PLAIN, _TURNED = 0, 1
_COMPUTE = MappingProxyType({
    ("f32", "f32"): 68, ("tf32", "f32"): 77, ("f16", "f32"): 74, ("bf16", "f32"): 75,
    ("f64", "f64"): 70, ("f16", "f16"): 68, ("bf16", "bf16"): 68})
_DEFAULT_ALGORITHM = -1
_MATH = 16            # the default, and no partial sums narrower than sums are
_HOST = 0             # alpha and beta lie on the host
_MAJOR, _MINOR = 0, 1

_CALLS = MappingProxyType({
    "cublasGetProperty": (c_int, POINTER(c_int)),
    "cublasCreate_v2": (POINTER(c_void_p),),
    "cublasDestroy_v2": (c_void_p,),
    "cublasSetStream_v2": (c_void_p, c_void_p),
    "cublasSetWorkspace_v2": (c_void_p, c_void_p, c_size_t),
    "cublasSetMathMode": (c_void_p, c_int),
    "cublasSetPointerMode_v2": (c_void_p, c_int),
    "cublasGemmEx": (c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p, c_void_p, c_int, c_int,
                     c_void_p, c_int, c_int, c_void_p, c_void_p, c_int, c_int, c_int, c_int),
    "cublasGemmStridedBatchedEx": (
        c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p, c_void_p, c_int, c_int, c_longlong,
        c_void_p, c_int, c_int, c_longlong, c_void_p, c_void_p, c_int, c_int, c_longlong, c_int,
        c_int, c_int),
})
_REFUSALS = MappingProxyType({
    1: ("CUBLAS_STATUS_NOT_INITIALIZED", "it does not start; see whether nvidia-smi lists the GPU"),
    3: ("CUBLAS_STATUS_ALLOC_FAILED", "the GPU is out of memory; use smaller inputs or free other "
                                      "programs"),
    7: ("CUBLAS_STATUS_INVALID_VALUE", "it was given what it does not take; report the program"),
    8: ("CUBLAS_STATUS_ARCH_MISMATCH", "the GPU cannot multiply this dtype"),
    13: ("CUBLAS_STATUS_EXECUTION_FAILED", "a kernel of its failed"),
    14: ("CUBLAS_STATUS_INTERNAL_ERROR", "it failed inside"),
    15: ("CUBLAS_STATUS_NOT_SUPPORTED", "it has no such product"),
})


@dataclass(frozen=True, slots=True)
class Side:
    """A matrix of a product in memory: neighbours along one side, ``lead`` elements between the
    rows (or columns), ``step`` between matrices of a batch."""

    address: int
    dtype: str
    lead: int
    step: int
    turned: bool


@dataclass(frozen=True, slots=True)
class Product:
    """One call: ``m x n`` results of ``k`` terms in rows, ``batch`` of them."""

    kind: str
    batch: int
    m: int
    n: int
    k: int
    x: Side
    y: Side
    out: Side


# ---- the library
@functools.cache
def library() -> Library:
    """The library of a CUDA toolkit, of the wheel ``nvidia-cublas-cu12``, or PyTorch's own.

    Raises BackendError where there is none, and where it is too old.
    """
    why = ""
    for path in places():
        try:
            for inner in sorted(path.parent.glob("libcublasLt.so*")):
                ctypes.CDLL(str(inner), mode=ctypes.RTLD_GLOBAL)  # it needs that one
            loaded = ctypes.CDLL(str(path))
        except OSError as e:
            why = why or str(e)
            continue
        return Library(loaded)
    raise BackendError(f"cuBLAS is not to be found ({why}); pip install 'tegg[cublas]', set "
                       f"CUDA_HOME to a CUDA toolkit, or {REMEDY}")


def places() -> Iterator[Path]:
    """Where the library may lie, the best first."""
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    folders = [Path(root) / "lib64" for root in roots if root]
    folders += [found for entry in sys.path for pattern in ("nvidia/*/lib", "torch/lib")
                for found in sorted(Path(entry).glob(pattern))]
    for folder in folders:
        yield from sorted(folder.glob("libcublas.so*"), reverse=True)
    for version in (13, 12, 11):  # wherever the loader looks
        yield Path(f"libcublas.so.{version}")


class Library:
    """cuBLAS, loaded: every call is a method of its own name, which raises BackendError."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self._loaded = loaded
        for name, takes in _CALLS.items():
            try:
                function = getattr(loaded, name)
            except AttributeError:
                raise BackendError(f"cuBLAS has no {name}: it is older than CUDA {OLDEST}; "
                                   f"pip install 'tegg[cublas]', or {REMEDY}") from None
            function.argtypes, function.restype = takes, c_int
            setattr(self, name, functools.partial(self._call, function, name))
        if self.version[0] < OLDEST:
            raise BackendError(f"cuBLAS is of CUDA {self.version[0]}.{self.version[1]}, and "
                               f"{OLDEST}.0 is the oldest that products go to; "
                               f"pip install 'tegg[cublas]', or {REMEDY}")

    def _call(self, function: Any, name: str, *arguments: Any) -> None:
        status = function(*arguments)
        if status:
            word, what = _REFUSALS.get(status, (f"status {status}", "it gives no reason"))
            raise BackendError(f"cuBLAS refuses a call ({name}: {word}): {what}, or {REMEDY}")

    def __getattr__(self, name: str) -> Any:  # for readers of types: the calls are set above
        raise AttributeError(name)

    @property
    def version(self) -> tuple[int, int]:
        """As of the toolkit that it is part of."""
        out = c_int()
        found = []
        for which in (_MAJOR, _MINOR):
            self.cublasGetProperty(which, byref(out))
            found.append(out.value)
        return found[0], found[1]


class Cublas:
    """The library in one context. Calls are made by one thread at a time.

    A workspace of a stream is its own: two products on two streams may run at once. Without
    memory that we give it the library would take its own in the middle of a run.
    """

    def __init__(self, allocate: Callable[[int], Any], nbytes: int) -> None:
        self._library, self._allocate, self._nbytes = library(), allocate, nbytes
        out = c_void_p()
        self._library.cublasCreate_v2(byref(out))
        self._handle = out.value or 0
        self._library.cublasSetMathMode(self._handle, _MATH)
        self._library.cublasSetPointerMode_v2(self._handle, _HOST)
        self._set: tuple[int, int] | None = None  # the stream and the workspace of the handle
        self._spaces: dict[int, Any] = {}
        self._started: set[Product] = set()
        self._numbers = {name: (byref(kind(1)), byref(kind(0)))  # alpha and beta
                         for name, kind in (("f32", c_float), ("f64", c_double))}

    def workspace(self, stream: int) -> Any:
        """Memory for the products of a stream, the same each time while it is kept."""
        space = self._spaces.pop(stream, None)
        while space is None and len(self._spaces) >= STREAMS:
            del self._spaces[next(iter(self._spaces))]
        self._spaces[stream] = space or self._allocate(self._nbytes)
        return self._spaces[stream]

    def on(self, stream: int, space: Any) -> None:
        """Products go to a stream from now on, with this workspace. Setting a stream takes the
        last workspace back."""
        if (stream, int(space)) != self._set:
            self._set = None
            self._library.cublasSetStream_v2(self._handle, stream)
            self._library.cublasSetWorkspace_v2(self._handle, int(space), self._nbytes)
            self._set = stream, int(space)

    def multiply(self, p: Product, stream: int) -> None:
        """Start a product on a stream."""
        self.on(stream, self.workspace(stream))
        self.put(p)
        if len(self._started) >= STARTED:
            self._started.clear()
        self._started.add(_likeness(p))

    def started(self, p: Product) -> bool:
        """Whether a product like this has been started before, so that the library has loaded the
        kernels that it takes: it must not load them while a call is taken down."""
        return _likeness(p) in self._started

    def put(self, p: Product) -> None:
        """Call the library for a product. Ours lies in rows, and the library takes columns: to it
        each matrix is its transpose, and the product that of both in the other order."""
        one, none = self._numbers["f64" if p.kind == "f64" else "f32"]
        compute = _COMPUTE[p.kind, p.x.dtype]
        left, right = p.y, p.x
        head = (self._handle, _TURNED if left.turned else _PLAIN,
                _TURNED if right.turned else _PLAIN, p.n, p.m, p.k, one)
        if p.batch == 1:
            self._library.cublasGemmEx(*head, *_matrix(left), *_matrix(right), none,
                                       *_matrix(p.out), compute, _DEFAULT_ALGORITHM)
        else:
            self._library.cublasGemmStridedBatchedEx(
                *head, *_matrix(left), left.step, *_matrix(right), right.step, none,
                *_matrix(p.out), p.out.step, p.batch, compute, _DEFAULT_ALGORITHM)

    def close(self) -> None:
        """Let the library go, and its memory."""
        if self._handle:
            handle, self._handle = self._handle, 0
            self._library.cublasDestroy_v2(handle)
            self._spaces.clear()


def _likeness(p: Product) -> Product:
    """What a product has in common with those of other addresses that the same kernels make."""
    def at(s: Side) -> Side:
        return replace(s, address=s.address % ALIGN)
    return replace(p, x=at(p.x), y=at(p.y), out=at(p.out))


def _matrix(s: Side) -> tuple[int, int, int]:
    return s.address, _TYPES[s.dtype], s.lead
