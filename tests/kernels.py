"""Kernels compiled and run for tests: guard pages at both ends of every buffer."""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from tegg.backends.cpu.emit import C

from tegg.dim import evaluate as size_of
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode
from tegg.kernel.lower import lower
from tegg.ir.oracle import evaluate
from tegg.testing.memory import Guarded
from tegg.testing.tolerance import close

FLAGS = ("-O1", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
         "-fwrapv", "-fPIC", "-shared", "-std=gnu11", "-Wall", "-Werror", "-Wno-psabi",
         "-Wno-unused-variable", "-Wno-unused-function")
_SCRATCH = """#include <stdlib.h>
static char *rt_scratch(size_t n) {  // what the runtime gives a thread, and no byte more
  static char *p;
  free(p);
  return p = aligned_alloc(64, (n + 63) / 64 * 64);
}
"""


@functools.cache
def folder() -> Path:
    """Where this process keeps what it compiles, until it ends."""
    made = Path(tempfile.mkdtemp(prefix="tegg-tests-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def build(source: str, width: int, flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    """Compile kernels. The same text is compiled once."""
    return _build(source, width, tuple(flags))


@functools.cache
def _build(source: str, width: int, flags: tuple[str, ...]) -> ctypes.CDLL:
    include = str(files("tegg.backends.cpu").joinpath("vector.h").parent)
    name = hashlib.sha256(f"{source}{width}{flags}".encode()).hexdigest()[:16]
    text, shared = folder() / f"{name}.c", folder() / f"{name}.so"
    text.write_text(f'#define TEGG_LANES {width}\n{_SCRATCH}#include "vector.h"\n'
                    f'#include "gather.h"\n#include "vecmath.h"\n#include "turn.h"\n'
                    f'#include "stream.h"\n{source}')
    done = subprocess.run(["gcc", *flags, f"-I{include}", str(text), "-o", str(shared), "-lm"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{text}\n{done.stderr[:3000]}"
    return ctypes.CDLL(str(shared))


def call(library: ctypes.CDLL, code: KernelCode, graph: Graph, outputs: Sequence[Node],
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
        f = getattr(library, stage.function)
        f.restype = None
        for tid in range(threads if stage.parallel else 1):
            f(pointers, values, ctypes.c_int(tid), ctypes.c_int(threads if stage.parallel else 1))
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
          library: ctypes.CDLL | None = None) -> KernelCode:
    """Lower, compile, run; compare with the oracle."""
    code = code or lower(graph, outputs, "k", C(width), inplace=inplace)
    library = library or build(code.source, width)
    sizes = sizes or {}
    inputs = random_inputs(graph, sizes, seed) if inputs is None else inputs
    want = evaluate(outputs, inputs, sizes)
    for n in threads:
        got = call(library, code, graph, outputs, inputs, sizes, n, n == 1, inplace)
        for i, (g, w, node) in enumerate(zip(got, want, outputs)):
            why = close(g, w, node.dtype, slack)
            assert why is None, f"output {i} at {dict(sizes)}, {n} threads: {why}"
    return code
