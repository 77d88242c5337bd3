"""The simulator itself: right kernels run, and each seeded bug is reported for what it is."""

from __future__ import annotations

import numpy as np
import pytest
from simt import cases
from tegg.testing.draw import Draw
from simt.simulator import ORDERS, Memory, Module, SimulatorError

THREADS = 64
HEAD = 'extern "C" __global__ void '


def launch(body: str, *arrays: np.ndarray, blocks: int = 1, threads: int = THREADS,
           order: int = 0, shared: str = "") -> list[np.ndarray]:
    """Run ``void f(float *a, ...)`` on copies of arrays; None stands for memory nobody wrote."""
    names = ", ".join(f"float *{n}" for n, _ in zip("abc", arrays))
    unit = Module(f"{shared}\n{HEAD}f({names}) {{\n  int t = threadIdx.x;\n  (void)t;\n{body}\n}}\n")
    memory = [Memory(a.nbytes, f"array {n}") for n, a in zip("abc", arrays)]
    for m, a in zip(memory, arrays):
        if not np.isnan(a).all():
            m.write(a)
    try:
        unit.run("f", blocks, threads, [m.address for m in memory], order)
        return [m.bytes.view(np.float32).copy() for m in memory]
    finally:
        for m in memory:
            m.free()


def fresh(n: int) -> np.ndarray:
    """Memory that nobody has written."""
    return np.full(n, np.nan, np.float32)


COUNT = np.arange(THREADS, dtype=np.float32)
ROTATE = "__shared__ float s[64];\n s[t] = a[t];\n {}\n b[t] = s[(t + 1) % 64];"


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_orders_shared_memory(order):
    out = launch(ROTATE.format("__syncthreads();"), COUNT, fresh(THREADS), order=order)
    np.testing.assert_array_equal(out[1], np.roll(COUNT, -1))


@pytest.mark.parametrize("order", ORDERS)
def test_shuffles_exchange_within_a_warp(order):
    out = launch("float x = a[t];\n for (int d = 16; d; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, "
                 "d);\n b[t] = x;", COUNT, fresh(THREADS), order=order)
    np.testing.assert_array_equal(out[1], np.repeat([COUNT[:32].sum(), COUNT[32:].sum()], 32))


def test_a_warp_barrier_orders_its_warp_alone():
    swap = "__shared__ float s[64];\n s[t] = a[t];\n __syncwarp();\n b[t] = s[t ^ {}];"
    out = launch(swap.format(1), COUNT, fresh(THREADS))
    np.testing.assert_array_equal(out[1], COUNT.astype(int) ^ 1)
    with pytest.raises(SimulatorError, match="race|uninitialised"):
        launch(swap.format(32), COUNT, fresh(THREADS))


def test_blocks_come_one_after_another():
    out = launch("a[blockIdx.x * blockDim.x + t] = (float)(gridDim.x * t);", fresh(3 * THREADS),
                 blocks=3)
    np.testing.assert_array_equal(out[0], np.tile(3 * COUNT, 3))


BUGS = {
    "missing barrier": (ROTATE.format(""), "race|uninitialised read of shared memory"),
    "off by one": ("b[t] = a[t + 1];", "out of bounds: read of 4 bytes 0 past array a"),
    "before the start": ("b[t] = a[t - 1];", "out of bounds: read of 4 bytes 4 before array a"),
    "write too far": ("b[2 * t] = a[t];", "out of bounds: write of 4 bytes .* past array b"),
    "wrong lane": ("b[t] = __shfl_sync(0xffffu, a[t], 0);", "lane .. is not in its own mask"),
    "lane beyond": ("b[t] = __shfl_sync(0xffffffffu, a[t], 32);", "reads lane 32"),
    "two writers": ("b[t / 2] = a[t];", "race: two writes of array b at byte"),
    "read and write": ("b[t] = a[t];\n a[(t + 1) % 64] = 0;", "race: (read and write|write and)"),
    "uninitialised": ("b[t] = b[t] + 1;", "uninitialised read of array b"),
    "uninitialised shared": ("__shared__ float s[64];\n b[t] = s[t];",
                             "uninitialised read of shared memory"),
    "divergent barrier": ("if (t < 32) __syncthreads();\n b[t] = a[t];",
                          "barrier of line|wait at the barrier"),
    "two barriers": ("if (t < 32) __syncthreads();\n else\n __syncthreads();\n b[t] = a[t];",
                     "divergent barriers"),
    "divergent shuffle": ("if (t % 2) b[t] = __shfl_sync(0xffffffffu, a[t], 0);\n else\n"
                          " b[t] = __shfl_xor_sync(0xffffffffu, a[t], 1);", "divergent warp"),
    "waits for ever": ("if (t < 32) __syncthreads();\n else\n b[t] = __shfl_sync(0xffffffffu, a[t], "
                       "0);\n if (t >= 32) __syncthreads();", "divergent barriers|wait for ever"),
    "beyond a shared array": ("__shared__ float s[64], r[64];\n s[t] = a[t];\n r[t] = a[t];\n"
                              " b[t] = s[t + 1] + r[0];", "index 64 of a fixed array|race|uninit"),
    "misaligned": ("float4 x = *(float4 *)(a + 1);\n b[t] = x.y + x.z;", "address that is no multiple of 16"),
}


@pytest.mark.parametrize("name", BUGS)
@pytest.mark.parametrize("order", ORDERS)
def test_seeded_bugs_are_reported(name, order):
    body, words = BUGS[name]
    with pytest.raises(SimulatorError, match=words):
        launch(body, COUNT, fresh(THREADS), order=order)


def test_blocks_may_not_meet_in_memory():
    with pytest.raises(SimulatorError, match="race between blocks: two writes of array a"):
        launch("if (t == 0) a[0] = 1;", fresh(4), blocks=2)
    with pytest.raises(SimulatorError, match="race between blocks: write and read of array a"):
        launch("if (t == 0 && blockIdx.x == 0) a[0] = 1;\n if (blockIdx.x == 1) b[t] = a[0];",
               np.zeros(4, np.float32), fresh(THREADS), blocks=2)


def test_arguments_and_names_are_checked():
    unit = Module(f"{HEAD}f(float *a) {{ a[0] = 1; }}\n")
    with pytest.raises(SimulatorError, match="f takes 1 arguments, 2 were given"):
        unit.run("f", 1, 1, [0, 0])
    with pytest.raises(SimulatorError, match="no kernel 'g'; there are f"):
        unit.run("g", 1, 1, [])
    with pytest.raises(SimulatorError, match="was not declared"):
        Module(f"{HEAD}f(float *a) {{ a[0] = nothing; }}\n")


# ---- bugs planted into what is really emitted
def softmax():
    g = Draw()
    x = g.x(12, 1200)
    return cases.case("k", g, [g.softmax(x, 1), g.total(x, 1)])


MUTANTS = {
    "no barrier before the total": ("room[threadIdx.x / 32] = x; \\\n    __syncthreads();",
                                    "room[threadIdx.x / 32] = x;"),
    "no barrier after the total": ("all = s##L##_##OP(all, room[w]); \\\n    __syncthreads();",
                                   "all = s##L##_##OP(all, room[w]);"),
    "every lane writes": ("if (lane_id() == 0) room", "if (lane_id() >= 0) room"),
    "wrong lane": ("__shfl_sync(FULL, (W)x, 0)", "__shfl_sync(FULL, (W)x, 33)"),
    "one lane too few": ("for (int d = 16;", "for (int d = 8;"),
    "one column too many": ("< 300) {", "<= 300) {"),
    "a row is skipped": ("point += block_count()", "point += 1 + block_count()"),
    "barrier in a branch": ("const float v", "if (thread_id() < 40) __syncthreads(); const float v"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_bugs_in_emitted_kernels_are_found(name):
    c, (right, wrong) = softmax(), MUTANTS[name]
    text = f"{cases.prelude()}\n{c.code.source}"
    assert text.count(right) >= 1
    found = False
    want = cases.run(Module(text), c)
    unit = Module(text.replace(right, wrong))
    for order in ORDERS:
        try:
            found |= not all(np.allclose(a, b, rtol=1e-4, atol=1e-4)
                             for a, b in zip(cases.run(unit, c, order), want))
        except SimulatorError:
            found = True
    assert found
