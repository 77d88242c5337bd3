"""One fragment as one kernel of a target: checked, and made small where it is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tegg.errors import LoweringError
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph, Node
from tegg.kernel.code import KernelCode
from tegg.planning.target import Target
from tegg.testing.kernels import Kernels, check_results, random_inputs
from tegg.testing.reproduce import Counterexample, simplify

SMALL = 64  # elements of inputs that are made simple one by one, and printed


def check_kernel(target: Target, graph: Graph, outputs: Sequence[Node] = (),
                 sizes: Mapping[str, int] | None = None,
                 inputs: Mapping[int, np.ndarray] | None = None, slack: float = 1.0,
                 seed: int = 0) -> KernelCode:
    """Lower a fragment as one kernel for a target, run it on memory that ends, and then on memory
    that begins, at a page that cannot be touched, and compare the results with the oracle's.

    outputs: nodes of the graph, by default its own outputs. inputs: slot -> values, drawn without
    them. slack: times the kit's tolerances. Gives the kernel. Raises LoweringError where the target
    does not take the fragment as one kernel, and AssertionError where a result is wrong; of its
    nodes it then names the first that is wrong as a kernel of its own, on simple inputs.
    """
    outputs = tuple(outputs) or tuple(graph.outputs.values())
    sizes = sizes or {}
    inputs = random_inputs(graph, sizes, seed) if inputs is None else inputs
    kernels = Kernels(target, [Fragment(graph, outputs, ())])
    try:
        _run(kernels, inputs, sizes, slack)
    except AssertionError as e:
        raise AssertionError(f"{e}{_smallest(target, graph, outputs, inputs, sizes, slack)}"
                             ) from None
    return kernels.codes[0]


def _run(kernels: Kernels, inputs: Mapping[int, np.ndarray], sizes: Mapping[str, int],
         slack: float) -> None:
    for at_end in (True, False):
        (got,) = kernels.run([inputs], sizes, at_end)
        check_results(kernels.fragments[0].outputs, got, inputs, sizes, slack,
                      f"memory that {'ends' if at_end else 'begins'} at a page")


def _smallest(target: Target, graph: Graph, outputs: Sequence[Node],
              inputs: Mapping[int, np.ndarray], sizes: Mapping[str, int], slack: float) -> str:
    """In words, the first node that is wrong by itself; nothing where each is right alone."""
    for node in graph.reachable(outputs):
        if node.op.name == "Input" or target.unsupported(node.op, node.dtype) is not None:
            continue
        try:
            kernels = Kernels(target, [Fragment(graph, (node,), ())])
        except LoweringError:
            continue
        if (why := _why(kernels, inputs, sizes, slack)) is not None:
            simple = _simple(kernels, inputs, sizes, slack, why)
            return f"\nthe first of its nodes that is wrong alone: {simple}"
    return ""


def _simple(kernels: Kernels, inputs: Mapping[int, np.ndarray], sizes: Mapping[str, int],
            slack: float, why: str) -> str:
    """The program of a node that is wrong, on inputs as simple as they may be."""
    fragment = kernels.fragments[0]
    (node,) = fragment.outputs
    read = {n.attrs[0] for n in fragment.graph.reachable([node]) if n.op.name == "Input"}
    arrays = {slot: a.copy() for slot, a in inputs.items()}
    used = {slot: arrays[slot] for slot in sorted(read)}
    small = sum(a.size for a in used.values()) <= SMALL
    simplify(used, lambda: _why(kernels, arrays, sizes, slack) is not None, single=small)
    why = _why(kernels, arrays, sizes, slack) or why
    shown = Counterexample(fragment.graph, node, None, used, sizes).program() if small else \
        f"{node.op.name} of {node.dtype.name}{list(node.shape)}"
    return f"{why}\n{shown}"


def _why(kernels: Kernels, inputs: Mapping[int, np.ndarray], sizes: Mapping[str, int],
         slack: float) -> str | None:
    try:
        _run(kernels, inputs, sizes, slack)
    except AssertionError as e:
        return str(e)
    return None
