"""What a GPU can do, measured on it by small kernels: the figures that its costs are made of."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..driver import Device, Memory
from ..replay import Launch

THREADS, ROUNDS = 256, 4096
_FAR = 1 << 28  # bytes that no L2 holds
_COPIED, _SMALL = 1 << 26, 256  # bytes of a large copy and of a small one

_SOURCE = r"""
KERNEL(256) empty(float *a, long long n) {}
KERNEL(256) fill(float *a, long long n) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) a[i] = 0.0f;
}
// 16 bytes at a time, rounds times over the same memory: L2 where it holds them, else the memory.
KERNEL(256) copy(const float4 *a, float4 *b, long long n, long long rounds) {
  for (long long r = 0; r < rounds; r++)
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
      float4 v = a[i];
      v.x += 1.0f;
      b[i] = v;
    }
}
// Eight sums at a time that do not wait for one another.
KERNEL(256) multiply_add(float *a, long long rounds) {
  float s[8], x = a[threadIdx.x], y = a[threadIdx.x + 256];
  for (int k = 0; k < 8; k++) s[k] = x * (float)k;
  for (long long r = 0; r < rounds; r++)
    for (int k = 0; k < 8; k++) s[k] = fmaf(s[k], x, y);
  float total = 0;
  for (int k = 0; k < 8; k++) total += s[k];
  if (total == -1.0f) a[blockIdx.x * 256 + threadIdx.x] = total;
}
// Four reads of neighbours' values for each round, with a barrier between writes and reads.
KERNEL(256) shared(float *a, long long rounds) {
  __shared__ float room[512];
  float s = a[threadIdx.x];
  for (long long r = 0; r < rounds; r++) {
    room[threadIdx.x] = s, room[threadIdx.x + 256] = s + 1.0f;
    __syncthreads();
    for (int k = 0; k < 4; k++) s += room[(threadIdx.x + 32 * k + 1) & 511];
    __syncthreads();
  }
  if (s == -1.0f) a[blockIdx.x * 256 + threadIdx.x] = s;
}
"""
_TENSOR = r"""
// Products of 16 by 16 by 8, four sums that do not wait for one another.
KERNEL(256) tensor(float *a, long long rounds) {
  float d[4][4] = {};
  uint32_t x[4], y[2];
  for (int k = 0; k < 4; k++) x[k] = (uint32_t)a[threadIdx.x + k];
  for (int k = 0; k < 2; k++) y[k] = (uint32_t)a[threadIdx.x + 8 + k];
  for (long long r = 0; r < rounds; r++)
    for (int k = 0; k < 4; k++) mma_h(d[k], x, y);
  float total = 0;
  for (int k = 0; k < 4; k++) total += d[k][0] + d[k][3];
  if (total == -1.0f) a[blockIdx.x * 256 + threadIdx.x] = total;
}
"""
TENSOR_CORES = 75  # from this architecture on


@dataclass(frozen=True, slots=True)
class Figures:
    """launch: seconds of a launch that does nothing. memory, l2: bytes a second, read and written.
    multiply_adds, tensor: operations a second, two a multiply-add (tensor is 0 without such
    cores). shared: bytes a second that threads read of shared memory. copy: seconds that a small
    copy between the host and the device takes. to_device, to_host, pinned: bytes a second of large
    ones, of memory such as arrays have, and both ways of memory that the driver pinned."""

    launch: float
    memory: float
    l2: float
    multiply_adds: float
    tensor: float
    shared: float
    copy: float
    to_device: float
    to_host: float
    pinned: float


STEPS = ("launches", "memory", "L2", "multiply-adds", "tensor cores", "shared memory", "copies")


class _Bench:
    """The measuring kernels on a device."""

    def __init__(self, device: Device, code: bytes, quick: bool) -> None:
        self.device, self.quick = device, quick
        self.tensor = device.architecture >= TENSOR_CORES
        names = ["empty", "fill", "copy", "multiply_add", "shared",
                 *(["tensor"] if self.tensor else [])]
        with device.current():
            self._module = device.load(code, names)

    def median(self, name: str, blocks: int, arguments: Sequence[int], each: int = 1) -> float:
        """Seconds of a launch: the median of several, of ``each`` launches between events."""
        launch = Launch(self._module.functions[name], blocks, THREADS, 0, tuple(arguments))
        with self.device.current():
            times = self.device.times([[launch] * each] * (4 if self.quick else 20))
        return statistics.median(times[1:]) / each

    def memory(self, nbytes: int) -> Memory:
        """Memory that holds zeros."""
        with self.device.current():
            made = self.device.allocate(nbytes)
            self.device.start(Launch(self._module.functions["fill"], self.device.most_blocks,
                                      THREADS, 0, (made.address, nbytes // 4)), 0)
            return made


def source(architecture: int) -> str:
    """The measuring kernels for an architecture; they stand below the header of all kernels."""
    return _SOURCE + (_TENSOR if architecture >= TENSOR_CORES else "")


def figures(device: Device, code: bytes, quick: bool = False, far: int = _FAR,
            rounds: int = ROUNDS, step: Callable[[str], None] = lambda name: None) -> Figures:
    """Measure a device. code: of ``source``, compiled. ``step`` is told each of ``STEPS``
    when it is done."""
    bench = _Bench(device, code, quick)
    found = []
    for name, value in zip(STEPS, _measured(bench, far, rounds)):
        found.append(value)
        step(name)
    copied = copies(device, min(far, _COPIED), 2 if quick else 8)
    step(STEPS[-1])
    return Figures(*found, *copied)


def _measured(bench: _Bench, far: int, rounds: int) -> Iterator[float]:
    device = bench.device
    some = bench.memory(max(4096, 4 * THREADS * device.most_blocks))
    yield bench.median("empty", 1, (some.address, 0), 4 if bench.quick else 100)
    blocks = device.most_blocks
    big = bench.memory(far), bench.memory(far)
    given = [m.address for m in big]
    yield 2 * far / bench.median("copy", blocks, (*given, far // 16, 1))
    near, again = min(far, device.l2_bytes // 8), 2 if bench.quick else 32
    yield 2 * near * again / bench.median("copy", blocks, (*given, near // 16, again))
    threads = blocks * THREADS
    yield threads * rounds * 16 / bench.median("multiply_add", blocks, (some.address, rounds))
    warp = 4 * 2 * 16 * 8 * 16
    yield (threads // 32 * rounds * warp / bench.median("tensor", blocks, (some.address, rounds))
           if bench.tensor else 0.0)
    yield threads * rounds * 16 / bench.median("shared", blocks, (some.address, rounds))


def copies(device: Device, nbytes: int, rounds: int) -> tuple[float, float, float, float]:
    """Of ``Figures``: what copies take. By the host's clock, as a run waits for them: events do not
    see that the driver goes through memory of its own for arrays that are not pinned."""
    with device.current():
        there, pinned = device.allocate(nbytes), device.pinned(nbytes)
        array = np.ones(nbytes, np.uint8)  # written, so that its pages are there

        def seconds(move: Callable[[int, int], None], each: int) -> float:
            times = []
            for _ in range(rounds + 1):
                begin = time.perf_counter()
                for _ in range(each):
                    move(there.address, array.ctypes.data)
                device.wait(0)
                times.append((time.perf_counter() - begin) / each)
            return statistics.median(times[1:])

        def rate(*moves: Callable[[int, int], None]) -> float:
            took = sum(seconds(move, 1) for move in moves)
            return len(moves) * nbytes / max(took - len(moves) * start, 0.1 * took)

        start = seconds(lambda d, h: device.upload(d, h, _SMALL), 32)
        return (start, rate(lambda d, h: device.upload(d, h, nbytes)),
                rate(lambda d, h: device.download(h, d, nbytes)),
                rate(lambda d, _: device.upload(d, pinned.address, nbytes),
                     lambda d, _: device.download(pinned.address, d, nbytes)))


def shown(found: Figures) -> Mapping[str, float]:
    """The figures by name."""
    return {n: getattr(found, n) for n in Figures.__slots__}
