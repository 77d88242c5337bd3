"""How far extraction searches, and what the target's kernels can do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on candidate kernels.

    cuts: cones kept per class. inputs: activations that a cone reads (weights do not count).
    values: distinct (value, index) pairs of a body; generated code grows with it.
    combinations: operand choices tried per e-node. inner: inner values a kernel may also store.
    siblings: contractions that one kernel may hold. store_prologue: whether a template can store
    what it computes while it packs. prologue_rows: whether a reduction over the rows that are
    summed may stand in the prologue of a template. runs: elements side by side, at least, in which
    a template stores results that are moved: a vector, or a sector of memory. settled: elements of
    a value that depends on weights alone, up to which no run computes it.
    """

    cuts: int = 12
    inputs: int = 12
    values: int = 64
    combinations: int = 200
    inner: int = 3
    siblings: int = 8
    store_prologue: bool = False
    prologue_rows: bool = True
    runs: int = 8
    settled: int = 4096
