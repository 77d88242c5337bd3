"""One program of the bundle on the GPU: its kernels, its arrays, runs and their times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from arrays import decoded, difference, drawn, numpy_type, places
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.driver import Device, Memory
from tegg.backends.cuda.replay import Launch
from tegg.errors import BackendError

ROOT = Path(__file__).parent


def described(folder: Path) -> dict[str, Any]:
    """A program as it was written."""
    found: dict[str, Any] = json.loads((folder / "program.json").read_text())
    return found


def machine_code(folder: Path, architecture: int) -> tuple[bytes, int]:
    """Machine code that a device runs, and for which architecture: what was compiled when the
    bundle was made, or by NVRTC here. Raises BackendError without either."""
    kept = sorted((int(p.stem[3:]) for p in folder.glob("sm_*.cubin")), reverse=True)
    for a in kept:  # machine code runs on later devices of its generation
        if a // 10 == architecture // 10 and a <= architecture:
            return (folder / f"sm_{a}.cubin").read_bytes(), a
    compiler = nvrtc.find()
    if compiler is None:
        raise BackendError(f"the bundle has machine code for {kept or 'no architecture'}, none "
                           f"runs on sm_{architecture}, and NVRTC is not here to compile it")
    source = (ROOT / "prelude.h").read_text() + (folder / "kernels.cu").read_text()
    return compiler.compile(source, architecture)[0], architecture


class Program:
    """A program on a device, with inputs as they were described."""

    def __init__(self, device: Device, folder: Path) -> None:
        self.about, self._device, self._folder = described(folder), device, folder
        stages = {s[0]: s for s in (*self.about["ahead"], *self.about["run"])}
        code, self.architecture = machine_code(folder, device.architecture)
        with device.current():
            self._module = device.load(code, list(stages))
            for name, stage in stages.items():
                device.allow_shared(self._module.functions[name], stage[3])
            self._arena = device.allocate(max(1, self.about["arena"]))
            self._memory = self._allocated()
            self._launched(self.about["ahead"])
            device.wait(0)
            self._replay = device.replay(self._launches(self.about["run"]))

    def _allocated(self) -> list[Memory | int]:
        out: list[Memory | int] = []
        by_use: dict[tuple[str, int], Memory] = {}
        for b in self.about["buffers"]:
            if b["kind"] == "arena":
                out.append(self._arena.address + b["offset"])
                continue
            use = (b["kind"], b["index"] if b["index"] >= 0 else len(out))
            if use not in by_use:
                by_use[use] = self._device.allocate(b["bytes"])
            out.append(by_use[use])
        self._by_use = by_use
        self.fill()
        return out

    def fill(self) -> None:
        """Inputs and weights as they were described; states too, which runs change."""
        for key in ("input", "weight"):
            for i, spec in enumerate(self.about[key]):
                memory = self._by_use.get((key, spec.get("slot", i)))
                if memory is not None:
                    array = np.ascontiguousarray(self.array(spec))
                    with self._device.current():
                        self._device.upload(memory.address, array.ctypes.data, array.nbytes)
                        self._device.wait(0)

    def array(self, spec: Mapping[str, Any]) -> np.ndarray:
        """An input: kept in the bundle, or drawn."""
        if "file" in spec:
            kept: np.ndarray = np.load(self._folder / spec["file"])
            return kept
        return drawn(spec)

    def _launches(self, stages: Sequence[Any]) -> list[Launch]:
        out = []
        for name, wanted, threads, shared, buffers, sizes in stages:
            blocks = min(wanted, self._device.most_blocks)
            if blocks:
                pointers = tuple(int(self._memory[b]) for b in buffers)
                out.append(Launch(self._module.functions[name], blocks, threads, shared,
                                  pointers + tuple(sizes)))
        return out

    def _launched(self, stages: Sequence[Any]) -> None:
        for launch in self._launches(stages):
            self._device.start(launch, 0)

    def _copied(self, pairs: Sequence[Sequence[int]]) -> None:
        for source, to, nbytes in pairs:
            self._device.copy(int(self._memory[to]), int(self._memory[source]), nbytes)

    def run(self, graph: bool = True) -> None:
        """Start one run; ``wait`` for it."""
        with self._device.current():
            self._copied(self.about["before"])
            if graph:
                self._replay.start(0)
            else:
                self._launched(self.about["run"])
            self._copied(self.about["after"])

    def wait(self) -> None:
        with self._device.current():
            self._device.wait(0)

    def seconds(self, repeats: int, each: int = 1) -> list[float]:
        """The time of a run, several times: of ``each`` runs one after the other, by events around
        them. What the host takes to start them counts where it is more than the device takes."""
        out = []
        for _ in range(repeats):
            with self._device.current():
                begin = self._device.mark(0)
            for _ in range(each):
                self.run(len(self.about["run"]) > 1)
            with self._device.current():
                out.append(self._device.seconds(begin, self._device.mark(0)) / each)
        return out

    def per_kernel(self) -> list[tuple[str, float]]:
        """Each kernel of a run with the time that it takes on the device."""
        launches = [self._launches([stage]) for stage in self.about["run"]]
        with self._device.current():
            times = self._device.times(launches)
        return [(stage[0], t) for stage, t in zip(self.about["run"], times)]

    # ---- results
    def output(self, i: int) -> np.ndarray:
        """A result as values."""
        spec = self.about["output"][i]
        out = np.empty(spec["shape"], numpy_type(spec["dtype"]))
        memory = self._by_use[(spec.get("kind", "output"), spec.get("slot", i))]
        with self._device.current():
            self._device.download(out.ctypes.data, memory.address, out.nbytes)
            self._device.wait(0)
        return decoded(out, spec["dtype"])

    def errors(self) -> list[float]:
        """Of each result the error against what the oracle gave when the bundle was made."""
        kept = np.load(self._folder / "expected.npz")
        out = []
        for i in range(len(self.about["output"])):
            got, want = self.output(i).reshape(-1), kept[f"o{i}"]
            out.append(difference(got[places(got.size, want.size)], want))
        return out
