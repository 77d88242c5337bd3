"""How tests of the lowering start a kernel of the CPU: by itself, at each number of threads in turn.
Memory, inputs and the judgement are the public kit's, ``tegg.testing``."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scratch import guarded
from tegg.backends.cpu import toolchain
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.library import Library, load

from tegg.dim import evaluate
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode
from tegg.kernel.lower import lower
from tegg.testing.kernels import Placed, check_results, random_inputs

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)


@functools.cache
def quick() -> toolchain.Toolchain:
    """The product's compiler and flags, but quick: what is tested is the text that it is given."""
    found = toolchain.find()
    return replace(found, flags=tuple("-O1" if f == "-O3" else f for f in found.flags))


def build(codes: KernelCode | Sequence[KernelCode], width: int,
          flags: tuple[str, ...] = ()) -> Library:
    """Compile kernels and load them, as the backend does. The same text is compiled once; its
    scratch memory is guarded. flags: of the compiler, beside its own."""
    compiler = replace(quick(), flags=(*quick().flags, *flags))
    with guarded():
        return load((codes,) if isinstance(codes, KernelCode) else codes, compiler, lanes=width)


def call(library: Library, code: KernelCode, graph: Graph, outputs: Sequence[Node],
         inputs: Mapping[int, np.ndarray], sizes: Mapping[str, int], threads: int = 1,
         at_end: bool = True, inplace: Mapping[int, int] | None = None) -> list[np.ndarray]:
    """Run a kernel, thread by thread, on guarded copies of its inputs."""
    with Placed(code, graph, outputs, inputs, sizes, at_end, inplace) as placed:
        addresses = placed.addresses
        taken = [addresses[b] for b in code.takes] or addresses
        pointers = (ctypes.c_void_p * max(1, len(taken)))(*taken)
        numbers = [evaluate(n, sizes) for n in code.given] or [sizes[s] for s in code.symbols]
        values = (ctypes.c_int64 * max(1, len(numbers)))(*numbers)
        for stage in code.stages:
            if stage.copy and addresses[stage.copy[0]] == addresses[stage.copy[1]]:
                continue
            f = _FUNCTION(library.functions[stage.function])
            for tid in range(threads if stage.parallel else 1):
                f(pointers, values, tid, threads if stage.parallel else 1)
        return placed.results()


def check(graph: Graph, outputs: Sequence[Node], sizes: Mapping[str, int] | None = None,
          inputs: Mapping[int, np.ndarray] | None = None, width: int = 16,
          threads: Sequence[int] = (1, 2), slack: float = 1.0, code: KernelCode | None = None,
          seed: int = 0, inplace: Mapping[int, int] | None = None,
          library: Library | None = None) -> KernelCode:
    """Lower, compile, run; the kit says whether that is what the oracle gives."""
    code = code or lower(graph, outputs, "k", C(width), half=C(width).half)
    library = library or build(code, width)
    sizes = sizes or {}
    inputs = random_inputs(graph, sizes, seed) if inputs is None else inputs
    for n in threads:
        got = call(library, code, graph, outputs, inputs, sizes, n, n == 1, inplace)
        check_results(outputs, got, inputs, sizes, slack, f"{n} threads")
    return code
