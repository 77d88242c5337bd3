"""Kernels as a program of their own: for other processors, and for compilers that check memory."""

from __future__ import annotations

import atexit
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from tegg.backends.cpu.library import headers
from tegg.dim import evaluate as size_of
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode
from tegg.testing.kernels import check_results, random_inputs

FLAGS = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
         "-fno-strict-aliasing", "-std=gnu11", "-w")
_HEAD = """#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
static char *rt_scratch(size_t n) {
  static char *p;
  free(p);
  return p = aligned_alloc(64, (n + 63) / 64 * 64);
}
#include <sys/syscall.h>
#include <unistd.h>
#include "native/pieces.c"
#define rt_pieces(tid, nt, each) rt_pieces_of(tid, nt, each)
#define rt_next(todo) rt_next_piece(todo)
#define rt_last_cache (1ll << 60)
#define rt_own_cache (1ll << 20)
"""
# Reads the kernel's number, threads, sizes, buffers and which of them its functions take; writes what
# is in the outputs. Each buffer has memory of its own, and begins ``off`` bytes into it.
_MAIN = """
typedef void stage_(void *const *, const int64_t *, int, int);
static stage_ *const stages_[][8] = {%s};
static int64_t word_(void) { int64_t w = 0; if (fread(&w, 8, 1, stdin) != 1) exit(3); return w; }
int main(void) {
#ifdef __AMX_TILE__
  syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */);
#endif
  const int64_t kernel = word_(), nt = word_(), off = word_(), numbers = word_();
  int64_t sizes[64];
  for (int64_t i = 0; i < numbers; i++) sizes[i] = word_();
  const int64_t count = word_();
  void *memory[256], *buffers[256], *taken[256];
  int64_t bytes[256], kinds[256];
  for (int64_t i = 0; i < count; i++) {
    bytes[i] = word_(), kinds[i] = word_();
    memory[i] = malloc(bytes[i] + off);
    buffers[i] = (char *)memory[i] + off;
    memset(buffers[i], 0x5a, bytes[i]);
    if (kinds[i] == 0 && bytes[i] && fread(buffers[i], bytes[i], 1, stdin) != 1) exit(4);
  }
  const int64_t pointers = word_();
  for (int64_t i = 0; i < pointers; i++) taken[i] = buffers[word_()];
  for (int s = 0; s < 8 && stages_[kernel][s]; s++)
    for (int tid = 0; tid < nt; tid++) stages_[kernel][s](taken, sizes, tid, (int)nt);
  for (int64_t i = 0; i < count; i++)
    if (kinds[i] == 1 && bytes[i]) fwrite(buffers[i], bytes[i], 1, stdout);
  for (int64_t i = 0; i < count; i++) free(memory[i]);
  free(rt_scratch(1));
  fflush(stdout);
  _exit(0);
}
"""


@cache
def folder() -> Path:
    """Where this process keeps its programs, until it ends."""
    made = Path(tempfile.mkdtemp(prefix="tegg-tests-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@dataclass(slots=True)
class Fragment:
    """A kernel, and the graph that says what it computes."""

    graph: Graph
    outputs: Sequence[Node]
    code: KernelCode


@dataclass(slots=True)
class Standalone:
    """Kernels of one program. ``compiler``: a command with its flags; ``runner``: what runs it."""

    fragments: Sequence[Fragment]
    width: int
    compiler: Sequence[str]
    runner: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    place: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(dir=folder())))

    def __post_init__(self) -> None:
        include = str(files("tegg.backends.cpu").joinpath("vector.h").parent)
        table = ", ".join("{" + ", ".join(s.function for s in f.code.stages) + ", 0}"
                          for f in self.fragments)
        parts = [f"#define TEGG_LANES {self.width}", _HEAD,
                 *(f'#include "{h}"' for h in headers(self.width)),
                 *(f.code.source for f in self.fragments), _MAIN % table]
        text = self.place / "kernels.c"
        text.write_text("\n".join(parts))
        done = subprocess.run([*self.compiler, *FLAGS, f"-I{include}", str(text), "-o",
                               str(self._program), "-lm"], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr[:3000]

    @property
    def _program(self) -> Path:
        return self.place / "kernels"

    def run(self, number: int, inputs: Mapping[int, np.ndarray], sizes: Mapping[str, int],
            threads: int = 1, off: int = 0) -> list[np.ndarray]:
        """The outputs of a kernel. ``off``: bytes by which buffers are out of line.

        Raises AssertionError with the program's complaint where it ends otherwise than well.
        """
        f = self.fragments[number]
        numbers = [size_of(n, sizes) for n in f.code.given] or [sizes[s] for s in f.code.symbols]
        words = [number, threads, off, len(numbers), *numbers]
        specs = [(s.shape, s.dtype) for s in f.graph.inputs]
        specs += [(n.shape, n.dtype) for n in f.outputs]
        specs += [((t.size,), t.dtype) for t in f.code.temporaries]
        shapes = [tuple(size_of(d, sizes) for d in shape) for shape, _ in specs]
        given = [struct.pack(f"{len(words) + 1}q", *words, len(specs))]
        for slot, (shape, (_, dtype)) in enumerate(zip(shapes, specs)):
            kind = (slot >= len(f.graph.inputs)) + (
                slot >= len(f.graph.inputs) + len(f.outputs))
            given.append(struct.pack("2q", int(np.prod(shape)) * dtype.itemsize, kind))
            if kind == 0:
                given.append(np.ascontiguousarray(inputs[slot]).tobytes())
        takes = f.code.takes or tuple(range(len(specs)))
        given.append(struct.pack(f"{len(takes) + 1}q", len(takes), *takes))
        done = subprocess.run([*self.runner, str(self._program)], input=b"".join(given),
                              capture_output=True, check=False, env=self.environment)
        assert done.returncode == 0, (f"status {done.returncode}: "
                                      f"{done.stderr.decode(errors='replace')[-4000:]}")
        out, at = [], 0
        for node, shape in zip(f.outputs, shapes[len(f.graph.inputs):]):
            size = int(np.prod(shape)) * node.dtype.itemsize
            out.append(np.frombuffer(done.stdout[at:at + size],
                                     node.dtype.numpy).reshape(shape))
            at += size
        return out

    def check(self, number: int, sizes: Mapping[str, int] | None = None, threads: int = 1,
              off: int = 0, inputs: Mapping[int, np.ndarray] | None = None,
              slack: float = 1.0) -> list[np.ndarray]:
        """Run a kernel and compare it with the oracle."""
        f, sizes = self.fragments[number], sizes or {}
        inputs = random_inputs(f.graph, sizes) if inputs is None else inputs
        got = self.run(number, inputs, sizes, threads, off)
        check_results(f.outputs, got, inputs, sizes, slack, f"kernel {number}, {threads} threads")
        return got
