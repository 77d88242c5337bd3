"""What weights hold at most: found out where rules ask for it, and checked when weights change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from tegg.dtype import dtype as as_dtype
from tegg.errors import OutgrownError
from tegg.ir.graph import Graph, InputSpec
from tegg.rewrite.compiler import Compiler

_STEPS = 4  # of a bound to the next, to twice as much: weights may grow by one without a new plan


def weighed(graph: Graph, stack: Sequence[Compiler]) -> Graph:
    """The same program, with what its weights hold at most where a compiler of the stack wants to
    know."""
    # by its name: to ask whether a provider is ``Weighing`` takes ten times as long
    if not any(getattr(p, "weighs", False) for c in stack for p in c.providers):
        return graph
    out = copy(graph)
    out.inputs = [_weighed(s) for s in graph.inputs]
    return out


def _weighed(spec: InputSpec) -> InputSpec:
    if spec.kind != "weight" or spec.source is None or spec.most is not None:
        return spec
    array = data_of(spec.source)
    return replace(spec, most=_bound(largest(array))) if array.dtype.kind == "f" else spec


def _bound(found: float) -> float:
    """A bound that is the same for what is a little larger. Of zeros, as fresh biases are: 1."""
    return 2.0 ** (math.ceil(_STEPS * math.log2(found) + 1) / _STEPS) if found else 1.0


def largest(array: np.ndarray) -> float:
    """The largest magnitude of a finite element; 0 where there is none. A large array is read
    in place: hardly any holds what is not finite, for which others as large are made."""
    with np.errstate(invalid="ignore"):
        ends = [float(f(array, initial=0.0)) for f in (np.min, np.max)]
    if not all(map(math.isfinite, ends)):
        return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))
    return max(map(abs, ends))


def check_within(assumed: Mapping[int, float], arrays: Mapping[int, np.ndarray]) -> None:
    """Raise OutgrownError where an array exceeds what is assumed of its slot."""
    for slot, most in assumed.items():
        if slot in arrays and (found := largest(arrays[slot])) > most:
            raise OutgrownError(f"the weight at input {slot}, of shape {list(arrays[slot].shape)}, "
                                f"holds {found:g}, and the program was compiled for {most:g} at "
                                f"most, so that values fit into float16; compile it again, or with "
                                f"tegg.Bf16()")


def data_of(weight: Any) -> np.ndarray:
    """The array of a weight: the object itself, or its ``data``."""
    value: Any = weight if isinstance(weight, (np.ndarray, np.generic)) else weight.data
    as_dtype(value.dtype)
    array: np.ndarray = value
    return array
