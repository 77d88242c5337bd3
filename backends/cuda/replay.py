"""A list of launches as one CUDA graph, whose nodes are changed where addresses or sizes change."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int64, c_uint, c_void_p
from dataclasses import dataclass

from .libcuda import Libcuda, Refused


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel with what it is given: a handle, blocks, threads, bytes of dynamic shared memory,
    then addresses and sizes, each of 64 bits."""

    function: int
    blocks: int
    threads: int
    shared: int
    arguments: tuple[int, ...]


class Parameters:
    """The arguments of a launch as the driver reads them: a table of pointers to them."""

    __slots__ = ("_values", "table")

    def __init__(self, arguments: Sequence[int]) -> None:
        self._values = (c_int64 * max(1, len(arguments)))(*arguments)
        start = ctypes.addressof(self._values)
        self.table = (c_void_p * max(1, len(arguments)))(
            *(start + 8 * i for i in range(len(arguments))))


class _Node(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS, version 1."""

    _fields_ = (("function", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3),
                ("shared", c_uint), ("parameters", c_void_p), ("extra", c_void_p))


def _node(launch: Launch) -> tuple[_Node, Parameters]:
    parameters = Parameters(launch.arguments)
    return _Node(launch.function, (launch.blocks, 1, 1), (launch.threads, 1, 1), launch.shared,
                 ctypes.addressof(parameters.table), None), parameters


class Replay:
    """Launches one after the other, which are started by one call. Freed by ``close``."""

    def __init__(self, driver: Libcuda, launches: Sequence[Launch]) -> None:
        self._driver, self._launches = driver, list(launches)
        self._graph = driver.handle("cuGraphCreate", 0)
        self._nodes: list[int] = []
        self._executable = 0
        try:
            for launch in launches:
                before = (c_void_p * 1)(self._nodes[-1] if self._nodes else 0)
                node, _keep = _node(launch)
                self._nodes.append(driver.handle("cuGraphAddKernelNode", self._graph, before,
                                                 1 if self._nodes else 0, byref(node)))
            self._executable = driver.handle("cuGraphInstantiateWithFlags", self._graph, 0)
        except Refused:
            self.close()
            raise

    def fits(self, launches: Sequence[Launch]) -> bool:
        """Whether launches are these kernels in this order, with whatever arguments."""
        return [x.function for x in launches] == [x.function for x in self._launches]

    def change(self, launches: Sequence[Launch]) -> int:
        """Take over the arguments and blocks of launches that fit; gives how many had changed."""
        changed = 0
        for i, launch in enumerate(launches):
            if launch != self._launches[i]:
                node, _keep = _node(launch)
                self._driver.cuGraphExecKernelNodeSetParams(self._executable, self._nodes[i],
                                                            byref(node))
                self._launches[i] = launch
                changed += 1
        return changed

    def start(self, stream: int) -> None:
        self._driver.cuGraphLaunch(self._executable, stream)

    def close(self) -> None:
        if self._executable:
            self._driver.cuGraphExecDestroy(self._executable)
            self._executable = 0
        if self._graph:
            self._driver.cuGraphDestroy(self._graph)
            self._graph = 0


def start(driver: Libcuda, launch: Launch, stream: int) -> None:
    """One launch by itself."""
    keep = Parameters(launch.arguments)  # the table points into it
    driver.cuLaunchKernel(launch.function, launch.blocks, 1, 1, launch.threads, 1, 1,
                          launch.shared, stream, keep.table, None)
