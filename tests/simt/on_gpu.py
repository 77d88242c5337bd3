"""Kernels of tests on the GPU of this machine, in the place of the simulator: ``pytest --gpu``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.driver import Memory, open_device
from tegg.backends.cuda.replay import Launch

from tegg.kernel.code import KernelCode

_MARGIN = 512   # bytes behind each array that no kernel may write
_NOBODYS = 0x5a  # what nobody has written is no plausible value

using = False  # whether tests run there; set once, by the command line


class OnGpu:
    """One translation unit of kernels, compiled for the GPU and loaded."""

    def __init__(self, source: str, codes: Sequence[KernelCode]) -> None:
        compiler = nvrtc.find()
        assert compiler is not None, "NVRTC is not here"
        self._device = open_device()
        names = [s.function for c in codes for s in c.stages if s.launch is not None]
        code, _ = compiler.compile(source, self._device.architecture)
        with self._device.current():
            self._module = self._device.load(code, names)

    @property
    def moved(self) -> list[int]:
        """Bytes that threads move, which nobody counts on a GPU."""
        pytest.skip("the simulator alone counts what threads move")

    @moved.setter
    def moved(self, counts: list[int]) -> None:
        pass

    def run(self, code: KernelCode, arrays: Sequence[np.ndarray | int], sizes: Mapping[str, int],
            most: int) -> list[np.ndarray]:
        """All stages of a kernel, on arrays or on so many bytes; gives the bytes of each after it."""
        device = self._device
        with device.current():
            held: list[Memory] = []
            for given in arrays:
                nbytes = given if isinstance(given, int) else given.nbytes
                raw = np.full(nbytes + _MARGIN, _NOBODYS, np.uint8)
                if not isinstance(given, int):
                    raw[:nbytes] = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
                held.append(device.allocate(raw.nbytes))
                device.upload(held[-1].address, raw.ctypes.data, raw.nbytes)
                device.wait(0)
            for stage in code.stages:
                assert stage.launch is not None
                blocks = stage.launch.blocks(sizes, most)
                if blocks:
                    function = self._module.functions[stage.function]
                    device.allow_shared(function, stage.launch.shared)
                    values = [held[b].address for b in stage.launch.buffers]
                    values += [sizes[s] for s in code.symbols]
                    device.start(Launch(function, blocks, stage.launch.threads,
                                        stage.launch.shared, tuple(values)), 0)
            out = []
            for memory in held:
                raw = np.empty(memory.nbytes, np.uint8)
                device.download(raw.ctypes.data, memory.address, raw.nbytes)
                device.wait(0)
                assert (raw[raw.size - _MARGIN:] == _NOBODYS).all(), "written past the end"
                out.append(raw[:raw.size - _MARGIN])
        return out
