"""One contender in a process of its own: it builds, checks and times workloads as it is asked.

Commands and replies are lines of JSON on standard input and what was standard output.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import mmap
import os
import statistics
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import numpy as np

from contender import Contender
from workloads import FIRST, SUITE, read_inputs

CONTENDERS = {
    "tegg": "in_tegg:Tegg", "tegg.winograd": "in_tegg:Winograd", "tegg.bf16": "in_tegg:Bf16",
    "numpy": "in_numpy:NumPy", "numba": "in_numpy:Numba",
    "torch": "in_torch:Torch", "torch.compile": "in_torch:TorchCompile",
    "torch.max": "in_torch:TorchMax", "torch.bf16": "in_torch:TorchBf16",
    "torch.compile.bf16": "in_torch:TorchCompileBf16",
    "jax": "in_jax:Jax", "onnxruntime": "in_onnx:OnnxRuntime",
}


def find(name: str) -> type[Contender]:
    """The class of a contender, by a name of the table or FILE.py:Class."""
    place, cls = CONTENDERS.get(name, name).rsplit(":", 1)
    path = Path(place)
    if path.suffix == ".py":
        sys.path.insert(0, str(path.parent))
    return getattr(importlib.import_module(path.stem), cls)


def error(outs: tuple[np.ndarray, ...], references: tuple[np.ndarray, ...]) -> float:
    """The largest error of any result over that result's largest reference."""
    worst = 0.0
    for out, wanted in zip(outs, references, strict=True):
        got = np.asarray(out, np.float64).reshape(wanted.shape)
        if not np.isfinite(got).all():
            return float("inf")
        worst = max(worst, float(np.abs(got - wanted).max() / (np.abs(wanted).max() + 1e-30)))
    return worst


def _memory(key: str) -> int:
    """Bytes of a line of /proc/self/status; 0 where there is none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(x.split()[1]) * 1024 for x in lines if x.startswith(key))
    except (OSError, StopIteration):
        return 0


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def _quiet() -> None:
    """What is no longer of use is freed, also by threads that a framework has for that."""
    gc.collect()
    time.sleep(0.5)


def _pages_at_hand(nbytes: int = 512 << 20) -> None:
    """See to it that the system has free pages. A hypervisor may take those of a guest, and may
    need a tenth of a second to give some back: no contender's doing."""
    pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, nbytes, mmap.PAGESIZE):
        pages[at] = 1
    pages.close()


_PAGE, _RUN = mmap.PAGESIZE, 1 << 20


def _pages_awake() -> int:
    """Read every page that this process holds, once: so many bytes. Where a guest did not use a
    page for a while its hypervisor may need microseconds to give it back
    (results/2026-11-28-idle-pages.md). A process that does one thing after the other, as a user's
    does, never waits so long; here others have turns.
    """
    read = 0
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
        with (open("/proc/self/pagemap", "rb", 0) as table,
              open("/proc/self/mem", "rb", 0) as memory):
            for line in maps:
                where, may, *_ = line.split()
                if may.startswith("r") and "[v" not in line:  # vsyscall and vvar are the kernel's
                    read += _read_present(table, memory, *(int(x, 16) for x in where.split("-")))
    except (FileNotFoundError, PermissionError):
        pass  # no Linux, or one that does not let a process look
    return read


def _read_present(table: io.FileIO, memory: io.FileIO, start: int, end: int) -> int:
    """Read a mapping from the first to the last page of each piece that are there."""
    read = 0
    for at in range(start, end, _RUN):
        count = (min(at + _RUN, end) - at) // _PAGE
        entries = np.frombuffer(os.pread(table.fileno(), 8 * count, at // _PAGE * 8), np.uint64)
        present = np.flatnonzero(entries >> np.uint64(63))
        if len(present):
            first, last = int(present[0]), int(present[-1])
            with suppress(OSError):  # a mapping may be gone by now, or a device's
                read += len(os.pread(memory.fileno(), (last + 1 - first) * _PAGE,
                                     at + first * _PAGE))
    return read


class Session:
    """The workloads that were built, ready to be timed."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.calls: dict[str, tuple] = {}

    def build(self, name: str, references: str, settle: float) -> dict:
        """The first call, judged by the arrays of a file."""
        w, c = SUITE[name], self.contender
        if not c.supports(w):
            return {"skipped": True}
        inputs = c.given(w.inputs())
        with np.load(references) as file:
            wanted = tuple(file[k] for k in file.files)
        _pages_at_hand()
        time.sleep(settle)  # threads of other contenders stop spinning
        _pages_awake()
        start = time.perf_counter()
        call = c.build(w, inputs)
        out = call()
        first = time.perf_counter() - start
        worst = error(c.arrays(out), wanted)  # of the first call: states go on from there
        start = time.perf_counter()
        for _ in range(c.warm_calls - 1):
            call()
        first += time.perf_counter() - start
        start = time.perf_counter()
        call()
        once = time.perf_counter() - start
        self.calls[name] = call, max(1, min(1000, int(5e-4 / max(once, 1e-7))))
        return {"first_s": first, "error": worst, "good": worst <= max(w.tolerance, c.tolerance)}

    def weigh(self, name: str, inputs: str) -> dict:
        """The peak of memory in calls, over what the framework takes for small programs.

        Of a process that has built nothing else: what earlier workloads freed would be used again,
        and not be seen. All that the workload holds counts, its inputs and results too. Pages of
        files do not: they are code, which the system shares and drops.
        """
        w, c = SUITE[name], self.contender
        if not c.supports(w):
            return {"skipped": True}
        for first in filter(c.supports, FIRST):
            call = c.build(first, c.given(first.inputs()))
            for _ in range(c.warm_calls + 2):
                call()
        del call
        _quiet()
        before = _memory("RssAnon")
        copies = {k: v.copy() for k, v in read_inputs(Path(inputs), name).items()}
        call = c.build(w, c.given(copies))
        del copies
        for _ in range(c.warm_calls + 2):
            call()
        _quiet()
        _forget_peak()
        for _ in range(3):
            call()
        peak = _memory("VmHWM") - _memory("RssFile") - _memory("RssShmem")
        return {"peak_bytes": max(0, peak - before)}

    def time(self, name: str, budget: float, settle: float) -> dict:
        call, batch = self.calls[name]
        gc.collect()
        gc.disable()
        time.sleep(settle)  # threads of other contenders stop spinning
        clock, samples = time.perf_counter, []
        end = clock() + budget / 4
        call()
        while clock() < end:
            call()
        end = clock() + budget
        while len(samples) < 3 or clock() < end:
            start = clock()
            for _ in range(batch):
                call()
            samples.append((clock() - start) / batch)
        gc.enable()
        return {"median": statistics.median(samples), "best": min(samples)}


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints is no reply

    def reply(**values: object) -> None:
        print(json.dumps(values), file=replies, flush=True)

    session = Session(find(sys.argv[1])(int(sys.argv[2])))
    reply(ok=True)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            what = command.pop("do")
            reply(ok=True, **getattr(session, what)(**command))
        except Exception as e:  # noqa: BLE001  what a framework cannot do is a result too
            traceback.print_exc()
            reply(ok=False, why=f"{type(e).__name__}: {str(e)[:300]}")


if __name__ == "__main__":
    main()
