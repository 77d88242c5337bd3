"""Kernels lowered one by one and run for tests of the lowering: at each number of threads in turn,
with guard pages at both ends of every buffer. Backends as a whole are tested by tegg.testing."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from tegg.backends.cpu import toolchain
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.library import Library, load

from tegg.dim import evaluate as size_of
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode
from tegg.kernel.lower import lower
from tegg.ir.oracle import evaluate
from tegg.testing.memory import Guarded
from tegg.testing.tolerance import close

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)


@functools.cache
def _quick() -> toolchain.Toolchain:
    """The product's compiler and flags, but quick: what is tested is the text that it is given."""
    found = toolchain.find()
    return replace(found, flags=tuple("-O1" if f == "-O3" else f for f in found.flags))


def build(codes: KernelCode | Sequence[KernelCode], width: int,
          flags: tuple[str, ...] = ()) -> Library:
    """Compile kernels and load them, as the backend does. The same text is compiled once.
    flags: of the compiler, beside its own."""
    quick = _quick()
    compiler = replace(quick, flags=(*quick.flags, *flags))
    return load((codes,) if isinstance(codes, KernelCode) else codes, compiler, lanes=width)


def call(library: Library, code: KernelCode, graph: Graph, outputs: Sequence[Node],
         inputs: Mapping[int, np.ndarray], sizes: Mapping[str, int], threads: int = 1,
         at_end: bool = True, inplace: Mapping[int, int] | None = None) -> list[np.ndarray]:
    """Run a kernel on guarded copies of its inputs. Outputs start as a pattern."""
    specs = [(s.shape, s.dtype) for s in graph.inputs]
    specs += [(n.shape, n.dtype) for n in outputs]
    specs += [((t.size,), t.dtype) for t in code.temporaries]
    memory, arrays = [], []
    for slot, (shape, dtype) in enumerate(specs):
        shape = tuple(size_of(d, sizes) for d in shape)
        shared = (inplace or {}).get(slot - len(graph.inputs))
        if shared is not None:
            memory.append(memory[shared])
            arrays.append(arrays[shared])
            continue
        memory.append(Guarded(int(np.prod(shape)) * dtype.itemsize, at_end))
        arrays.append(memory[-1].array(shape, dtype))
        if slot < len(graph.inputs):
            arrays[-1][...] = inputs[slot]
        else:
            arrays[-1].reshape(-1).view(np.uint8)[...] = 0x5a if dtype.kind != "bool" else 1
    pointers = (ctypes.c_void_p * max(1, len(memory)))(*(m.address for m in memory))
    values = (ctypes.c_int64 * max(1, len(code.symbols)))(*(sizes[s] for s in code.symbols))
    for stage in code.stages:
        if stage.copy and memory[stage.copy[0]] is memory[stage.copy[1]]:
            continue
        f = _FUNCTION(library.functions[stage.function])
        for tid in range(threads if stage.parallel else 1):
            f(pointers, values, tid, threads if stage.parallel else 1)
    first = len(graph.inputs)
    results = [a.copy() for a in arrays[first:first + len(outputs)]]
    for m in memory:
        m.close()
    return results


def random_inputs(graph: Graph, sizes: Mapping[str, int], seed: int = 0,
                  high: int = 30) -> dict[int, np.ndarray]:
    """Values for every input: normal floats, integers in 0 .. high-1."""
    rng = np.random.default_rng(seed)
    out = {}
    for slot, spec in enumerate(graph.inputs):
        shape = tuple(size_of(d, sizes) for d in spec.shape)
        if spec.dtype.is_float:
            out[slot] = rng.standard_normal(shape).astype(spec.dtype.numpy)
        else:
            out[slot] = rng.integers(0, 2 if spec.dtype.kind == "bool" else high,
                                     shape).astype(spec.dtype.numpy)
    return out


def check(graph: Graph, outputs: Sequence[Node], sizes: Mapping[str, int] | None = None,
          inputs: Mapping[int, np.ndarray] | None = None, width: int = 16,
          threads: Sequence[int] = (1, 2), slack: float = 1.0, code: KernelCode | None = None,
          seed: int = 0, inplace: Mapping[int, int] | None = None,
          library: Library | None = None) -> KernelCode:
    """Lower, compile, run; compare with the oracle."""
    code = code or lower(graph, outputs, "k", C(width))
    library = library or build(code, width)
    sizes = sizes or {}
    inputs = random_inputs(graph, sizes, seed) if inputs is None else inputs
    want = evaluate(outputs, inputs, sizes)
    for n in threads:
        got = call(library, code, graph, outputs, inputs, sizes, n, n == 1, inplace)
        for i, (g, w, node) in enumerate(zip(got, want, outputs)):
            why = close(g, w, node.dtype, slack)
            assert why is None, f"output {i} at {dict(sizes)}, {n} threads: {why}"
    return code
