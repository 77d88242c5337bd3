"""The fast call path of a program: memory prepared for it, a few sizes of the symbols at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegg.dim import Poly
from tegg.ir.signature import Signature
from tegg.planning.target import ArraySpec, Executable
from tegg.runtime.workspace import KEPT_SIZES, Workspace

KEPT_RUNS = 4  # runs in flight at once that have memory of their own, per sizes


class FastCalls:
    """``call(*arrays)`` gives the results as a tuple, or None where the slow path must be taken."""

    def __init__(self, executable: Executable, signature: Signature,
                 inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]) -> None:
        self._executable = executable
        self._prepared: dict[tuple[int, ...], int] = {}
        takes = [ArraySpec(a.name, a.dtype.numpy, a.shape, where, a.state)
                 for a, where in zip(signature.arguments, inputs)]
        gives = [ArraySpec(r.name, r.dtype.numpy, r.shape, where)
                 for r, where in zip(signature.results, outputs)]
        claims = list(signature.claims)
        for s, d in signature.equal:
            claims += [Poly({(s,): 1}) - d, d - Poly({(s,): 1})]
        self._caller: Any = executable.caller(takes, gives, signature.symbols, claims)
        self.call = self._caller.call if self._caller is not None else _nothing

    def offer(self, key: tuple[int, ...], space: Workspace) -> bool:
        """Take a workspace that the slow path is done with, if there is use for it."""
        if self._caller is None or self._prepared.get(key, 0) >= KEPT_RUNS:
            return False
        if key not in self._prepared and len(self._prepared) >= KEPT_SIZES:
            self.clear()
        self._prepared[key] = self._prepared.get(key, 0) + 1
        self._executable.prepare(self._caller, space.pointers, space, key)
        return True

    def clear(self) -> None:
        """Forget all memory: weights have moved, or the sizes have changed too often."""
        self._prepared.clear()
        if self._caller is not None:
            self._caller.clear()


def _nothing(*arrays: np.ndarray) -> None:
    """The fast path of an executable that has none."""
