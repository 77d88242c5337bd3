"""What a run starts as one CUDA graph, whose nodes are changed where addresses or sizes change.

A kernel is a node, and what the library starts for a product is a graph within the graph.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int64, c_uint, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from .libcuda import Libcuda, Refused

if TYPE_CHECKING:
    from .capture import Recorder
    from .cublas import Product

_UNLIKE = (1, 910)  # invalid value, an update of a graph that fails: what codes say of other nodes


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel with what it is given: a handle, blocks, threads, bytes of dynamic shared memory,
    then addresses and sizes, each of 64 bits."""

    function: int
    blocks: int
    threads: int
    shared: int
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A point in time between steps: the event that keeps it."""

    event: int


Step: TypeAlias = "Launch | Product"


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


def _kinds(steps: Sequence[Step | Mark]) -> list[int]:
    """The kernel of each step; 0 for a product."""
    return [s.function if isinstance(s, Launch) else 0 for s in steps]


class Replay:
    """Steps one after the other, which are started by one call. Freed by ``close``.

    recorder: takes down products, where steps have some, for the one stream that they are then
    started on.
    """

    def __init__(self, driver: Libcuda, steps: Sequence[Step | Mark],
                 recorder: Recorder | None = None) -> None:
        self._driver, self._steps, self._recorder = driver, list(steps), recorder
        self._graph = driver.handle("cuGraphCreate", 0)
        self._nodes: list[int] = []
        self._executable = 0
        try:
            for step in steps:
                self._nodes.append(self._added(step))
            self._executable = driver.handle("cuGraphInstantiateWithFlags", self._graph, 0)
        except BaseException:
            self.close()
            raise

    def _added(self, step: Step | Mark) -> int:
        """A node for a step, after the last."""
        after = (self._graph, (c_void_p * 1)(self._nodes[-1] if self._nodes else 0),
                 1 if self._nodes else 0)
        if isinstance(step, Launch):
            node, _keep = _node(step)
            return self._driver.handle("cuGraphAddKernelNode", *after, byref(node))
        if isinstance(step, Mark):
            return self._driver.handle("cuGraphAddEventRecordNode", *after, step.event)
        assert self._recorder is not None
        with self._recorder.graph(step) as inner:
            return self._driver.handle("cuGraphAddChildGraphNode", *after, inner)

    def serves(self, stream: int) -> bool:
        """Whether a stream may start it: products have the workspace of one stream."""
        return self._recorder is None or self._recorder.stream == stream

    def fits(self, steps: Sequence[Step]) -> bool:
        """Whether steps are these kernels and products in this order, with whatever arguments."""
        return _kinds(steps) == _kinds(self._steps)

    def change(self, steps: Sequence[Step]) -> bool:
        """Take over the arguments and blocks of steps that fit. False where the library starts
        other kernels for a product than before: such steps need a graph of their own."""
        for i, step in enumerate(steps):
            if step != self._steps[i]:
                if not self._changed(self._nodes[i], step):
                    return False
                self._steps[i] = step
        return True

    def _changed(self, node: int, step: Step) -> bool:
        if isinstance(step, Launch):
            made, _keep = _node(step)
            self._driver.cuGraphExecKernelNodeSetParams(self._executable, node, byref(made))
            return True
        assert self._recorder is not None
        with self._recorder.graph(step) as inner:
            try:
                self._driver.cuGraphExecChildGraphNodeSetParams(self._executable, node, inner)
            except Refused as e:
                if e.code in _UNLIKE:
                    return False
                raise
        return True

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
