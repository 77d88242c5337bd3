"""The weights of a program: which of them it holds, and what is computed from them ahead."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tegg.dtype import DType
from tegg.errors import WeightsError
from tegg.planning.plan import Call, Plan
from tegg.runtime.weighing import check_within, data_of, largest
from tegg.runtime.workspace import aligned


class HeldWeights:
    """What a program keeps between runs: the weights that runs read, where they lie, and what was
    computed ahead from weights.

    A NumPy array that is only read ahead is not held once that is done: while someone else holds
    it, it may change and ``refresh`` reads it again; once nobody does, it cannot, and what was
    computed from it stays. ``here``: runs read the memory of this process; a device has copies of
    its own, made from all weights. ahead: what was computed from weights that are no more.
    """

    def __init__(self, plan: Plan, weights: Mapping[int, Any], here: bool,
                 ahead: Mapping[int, np.ndarray] | None = None) -> None:
        self._plan, self._here = plan, here
        self._sources = dict(weights)  # slot -> an array, or what has one as ``data``
        self._left: dict[int, weakref.ref[np.ndarray]] = {}  # slot -> an array that is not held
        self._versioned = [w for w in weights.values() if hasattr(w, "version")]
        self._reads = _read(plan, plan.run) | {i for pair in plan.before for i in pair}
        self._calls = _calls_alone(plan)
        self._ahead = dict(ahead or {})  # buffer -> what runs read of what was computed ahead

    @property
    def versioned(self) -> bool:
        """Whether weights can be replaced without ``refresh`` being called."""
        return bool(self._versioned)

    def versions(self) -> tuple:
        """The version of each weight that counts them."""
        return tuple([w.version for w in self._versioned])

    def arrays(self) -> dict[int, np.ndarray]:
        """The weights that are there, by slot."""
        found = {slot: data_of(w) for slot, w in self._sources.items()}
        for slot, left in self._left.items():
            array = left()
            if array is not None:
                found[slot] = array
        return found

    def prepared(self, arrays: Mapping[int, np.ndarray],
                 ) -> tuple[dict[int, np.ndarray], frozenset[int]]:
        """Memory of weights and of what is computed from them, by buffer, and the numbers of the
        calls ahead that have nothing to read any more."""
        check_within(self._plan.assumed, arrays)
        fixed: dict[int, np.ndarray] = {}
        gone: set[int] = set()
        for i, b in enumerate(self._plan.buffers):
            if b.kind == "weight" and b.index in arrays:
                fixed[i] = np.ascontiguousarray(arrays[b.index], b.dtype.numpy)
            elif b.kind == "weight":
                gone |= set(self._calls[i])
        kept = _written(self._plan, gone)
        for i, b in enumerate(self._plan.buffers):
            if b.kind == "ahead" and self._here:
                if i not in kept:
                    fixed[i] = aligned(b.bytes({}))
                elif i in self._ahead:
                    fixed[i] = self._ahead[i]
        for i, dtype in self._plan.narrowed:
            if i in fixed:
                _check_fits(fixed[i], dtype, self._plan.buffers[i].index)
        return fixed, frozenset(gone)

    def settle(self, fixed: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """After the calls ahead: let go what runs do not read; give what they do, by buffer."""
        if not self._here:
            return dict(fixed)
        kinds = self._plan.buffers
        kept = {i: a for i, a in fixed.items() if i in self._reads}
        self._ahead = {i: a for i, a in kept.items() if kinds[i].kind == "ahead"}
        for i, b in enumerate(kinds):
            source = self._sources.get(b.index) if b.kind == "weight" else None
            if (isinstance(source, np.ndarray) and source.base is None and i in self._calls
                    and i not in self._reads):  # what others hold of a view is not its own array
                self._left[b.index] = weakref.ref(self._sources.pop(b.index))
        return kept

    def bytes(self) -> dict[str, int]:
        """``weight_bytes`` that runs read where they lie, and ``ahead_bytes``."""
        sizes = {i: b.bytes({}) for i, b in enumerate(self._plan.buffers)
                 if b.kind in ("weight", "ahead") and i in self._reads}
        return {f"{kind}_bytes": sum(n for i, n in sizes.items()
                                     if self._plan.buffers[i].kind == kind)
                for kind in ("weight", "ahead")}

    def saved(self) -> dict[str, Any]:
        """What a file needs: copies of the weights that are there, and what is left of others."""
        arrays = self.arrays()
        gone = {n for i, b in enumerate(self._plan.buffers)
                if b.kind == "weight" and b.index not in arrays for n in self._calls[i]}
        lost = _written(self._plan, gone)
        return {"weights": {slot: np.array(a) for slot, a in arrays.items()},
                "ahead": {i: a for i, a in self._ahead.items() if i in lost}}


def _check_fits(array: np.ndarray, dtype: DType, slot: int) -> None:
    """Raise WeightsError where a finite element of a weight is infinite in a dtype."""
    most = largest(array)
    with np.errstate(over="ignore"):
        narrow = np.asarray(most).astype(dtype.numpy)
    if np.isinf(narrow.astype(np.float64)):
        raise WeightsError(f"the weight at input {slot}, of shape {list(array.shape)}, holds "
                           f"{most:g}, which is beyond {dtype.name}; compile without the "
                           f"rules that store it so, or with tegg.Bf16()")


# ---- what calls read and write
def _touched(plan: Plan, call: Call, what: str) -> set[int]:
    stages = plan.kernels[call.kernel].stages
    return {call.buffers[b] for s in call.stages for b in getattr(stages[s], what)}


def _read(plan: Plan, calls: Iterable[Call]) -> set[int]:
    return {b for c in calls for b in _touched(plan, c, "reads")}


def _written(plan: Plan, calls: Iterable[int]) -> set[int]:
    return {b for n in calls for b in _touched(plan, plan.ahead[n], "writes")}


def _calls_alone(plan: Plan) -> dict[int, tuple[int, ...]]:
    """Buffers of weights that no call ahead reads together with another weight -> the numbers of
    the calls ahead that depend on each."""
    of: dict[int, set[int]] = {i: {i} for i, b in enumerate(plan.buffers) if b.kind == "weight"}
    calls: dict[int, list[int]] = {i: [] for i in of}
    shared: set[int] = set()
    for n, call in enumerate(plan.ahead):
        sources = {w for b in _touched(plan, call, "reads") for w in of.get(b, ())}
        for b in _touched(plan, call, "writes"):
            of[b] = of.get(b, set()) | sources
        shared |= sources if len(sources) > 1 else set()
        for w in sources:
            calls[w].append(n)
    return {w: tuple(numbers) for w, numbers in calls.items() if w not in shared}
