"""Fragments lowered for CUDA or Metal and run on the simulator, many kernels to a translation unit."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import pytest
from simt import machine_code, on_gpu
from tegg.testing.kernels import random_inputs
from simt.metal_module import Metal31, MetalModule
from simt.on_gpu import OnGpu
from simt.simulator import Memory, Module, machine
from tegg.backends.cuda.emit import CudaC
from tegg.backends.metal.emit import DIRECT, Msl
from tegg.backends.simt.language import SimtC

from tegg.dim import evaluate as size_of
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode
from tegg.kernel.lower import lower
from tegg.kernel.simt import LIMITS

BLOCKS = 5  # at most, so that blocks take several points


@dataclass(frozen=True, slots=True)
class Kit:
    """What tests of kernels need of a device."""

    name: str
    language: SimtC
    unit: type[Module]


CUDA = Kit("cuda", CudaC(), Module)
METAL = Kit("metal", Msl(), MetalModule)
METAL31 = Kit("metal", Msl(version=DIRECT, bound=True), Metal31)


@functools.cache
def prelude(kit: Kit = CUDA) -> str:
    return files(f"tegg.backends.{kit.name}").joinpath("prelude.h").read_text(encoding="utf-8")


def module(codes: Sequence[KernelCode], extra: str = "", kit: Kit = CUDA) -> Module | OnGpu:
    """Kernels compiled together; those for CUDA by NVIDIA's compiler too. What ``extra`` changes
    stays in the simulator, where bugs that are planted end nobody else."""
    if kit is CUDA and not extra:
        if on_gpu.using:
            return OnGpu("\n".join([prelude(), *(c.source for c in codes)]), codes)
        machine_code.check(c.source for c in codes)
    return kit.unit("\n".join([prelude(kit), extra, *(c.source for c in codes)]))


@dataclass(slots=True)
class Case:
    """One fragment with what to run it on."""

    graph: Graph
    outputs: Sequence[Node]
    sizes: Mapping[str, int]
    inputs: Mapping[int, np.ndarray]
    code: KernelCode


def case(name: str, graph: Graph, outputs: Sequence[Node], sizes: Mapping[str, int] | None = None,
         inputs: Mapping[int, np.ndarray] | None = None, kit: Kit = CUDA) -> Case:
    """Lower a fragment as kernels of this name."""
    code = lower(graph, outputs, name, kit.language, LIMITS)
    inputs = random_inputs(graph, sizes or {}) if inputs is None else inputs
    return Case(graph, outputs, sizes or {}, inputs, code)


def run(unit: Module | OnGpu, c: Case, order: int = 0) -> list[np.ndarray]:
    """The outputs of a case, on memory of its own for every buffer."""
    specs = [(s.shape, s.dtype) for s in c.graph.inputs]
    specs += [(n.shape, n.dtype) for n in c.outputs]
    specs += [((t.size,), t.dtype) for t in c.code.temporaries]
    first = len(c.graph.inputs)
    arrays: list[np.ndarray | int] = []
    for slot, (shape, dtype) in enumerate(specs):
        count = int(np.prod([size_of(d, c.sizes) for d in shape], dtype=np.int64))
        given = slot in c.inputs and slot < first
        arrays.append(np.asarray(c.inputs[slot]).astype(dtype.numpy) if given else
                      count * dtype.itemsize)
    made = (unit.run(c.code, arrays, c.sizes, BLOCKS) if isinstance(unit, OnGpu) else
            _simulated(unit, c, arrays, order))
    return [raw.view(n.dtype.numpy).reshape(tuple(size_of(d, c.sizes) for d in n.shape))
            for raw, n in zip(made[first:], c.outputs)]


def _simulated(unit: Module, c: Case, arrays: Sequence[np.ndarray | int],
               order: int) -> list[np.ndarray]:
    """The bytes of each array after a run."""
    memory: list[Memory] = []
    for slot, given in enumerate(arrays):
        nbytes = given if isinstance(given, int) else given.nbytes
        memory.append(Memory(nbytes, f"buffer {slot}"))
        if not isinstance(given, int):
            memory[-1].write(given)
    try:
        launch(unit, c.code, [m.address for m in memory], c.sizes, order)
        return [m.bytes.copy() for m in memory]
    finally:
        for m in memory:
            m.free()


def launch(unit: Module | OnGpu, code: KernelCode, addresses: Sequence[int], sizes: Mapping[str, int],
           order: int) -> None:
    """All stages of a kernel, one after the other, on memory of the simulator."""
    if isinstance(unit, OnGpu):
        pytest.skip("these addresses are the simulator's")
    for stage in code.stages:
        assert stage.launch is not None
        blocks = stage.launch.blocks(sizes, BLOCKS)
        if blocks:
            values = [addresses[b] for b in stage.launch.buffers]
            values += [sizes[s] for s in code.symbols]
            if not isinstance(unit, MetalModule):
                unit.run(stage.function, blocks, stage.launch.threads, values, order,
                         stage.launch.shared)
                continue
            bound, arrays = unit.BOUND, len(stage.launch.buffers)
            numbers = [0, *values[arrays:]] if bound else [0, *values]
            given = Memory(8 * len(numbers), "given")
            given.write(np.array(numbers, np.int64))
            machine().simt_uncounted(ctypes.c_void_p(given.address))
            try:
                unit.run(stage.function, blocks, stage.launch.threads,
                         [*(values[:arrays] if bound else (0, 0)), given.address], order)
            finally:
                given.free()
