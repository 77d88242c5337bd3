"""What the suite asks of a framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from workloads import Arrays, Workload, arrays_of


BF16 = 4e-2  # of the largest result: operands of products have eight bits


def has_bf16() -> bool:
    """Whether the processor multiplies bfloat16."""
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)


class Contender:
    """One framework, in a process of its own.

    A workload that it does is a method of its name, with the inputs as keywords. ``needs`` are the
    packages that must be there. ``warm_calls`` belong to the first call. ``tolerance``: the error
    that it may have where a workload allows less.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    warm_calls: ClassVar[int] = 1
    tolerance: ClassVar[float] = 0.0

    @staticmethod
    def sensible() -> bool:
        """Whether this machine is one to run it on."""
        return True

    @staticmethod
    def environment(threads: int) -> dict[str, str]:
        """Set in the process before anything is imported."""
        return {}

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def supports(self, workload: Workload) -> bool:
        return hasattr(self, workload.name)

    def given(self, inputs: Arrays) -> Mapping[str, Any]:
        """The inputs as ``build`` takes them, in the types that are computed in: made before the
        first call, as a user loads them."""
        return inputs

    def build(self, workload: Workload, inputs: Mapping[str, Any]) -> Callable[[], object]:
        """A function of no arguments, which returns when the results are there. The inputs are its
        own, to keep and to write to: what it copies of them belongs to the first call."""
        raise NotImplementedError

    def arrays(self, out: object) -> tuple[np.ndarray, ...]:
        return arrays_of(out)
