"""A counterexample as a Python program that shows it, made small first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tegg.dim import Symbol, evaluate as size_of, product, symbols
from tegg.dtype import DType
from tegg.ir.graph import Graph, Node
from tegg.ir.oracle import evaluate

SIMPLE = (0, 1, -1, 2)


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Two nodes of a graph that a rule puts in one class, and inputs on which they differ.

    arrays: input slot -> values. A claim about one node has ``right`` None. sizes: of symbols.
    """

    graph: Graph
    left: Node
    right: Node | None
    arrays: Mapping[int, np.ndarray]
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int]:
        """What makes one example simpler than another: elements, then nodes and symbols."""
        nodes = self.nodes()
        return (sum(size_of(product(n.shape), self.sizes) for n in nodes),
                len(nodes) + 8 * len(self.sizes))

    def nodes(self) -> list[Node]:
        """The nodes that the two sides are made of."""
        return self.graph.reachable([n for n in (self.left, self.right) if n is not None])

    def program(self) -> str:
        """A Python program that builds both sides and prints their values."""
        names = {n.id: f"v{i}" for i, n in enumerate(self.nodes())}
        lines = ["import numpy as np", "import tegg", "from tegg.ir.oracle import evaluate", "",
                 "g = tegg.Graph()"]
        for s in sorted({s for n in self.nodes() for s in _symbols(n)}):
            lines.append(f"{s.name} = tegg.dim({s.name!r}, {s.min}, {s.max})")
        slots = []
        for n in self.nodes():
            if n.op.name == "Input":
                slots.append(n.attrs[0])
                lines.append(f"{names[n.id]} = g.input({names[n.id]!r}, {_text(n.shape)}, "
                             f"tegg.{_dtype(n.dtype)})")
            else:
                given = [*(names[a.id] for a in n.args), *map(_text, n.attrs)]
                lines.append(f"{names[n.id]} = g.op({', '.join([repr(n.op.name), *given])})")
        lines.append("inputs = {")
        for i, slot in enumerate(slots):
            a = self.arrays[slot]
            lines.append(f"    {i}: np.array({_text(a.tolist())}, {_array_dtype(a)}),")
        lines.append("}")
        given_sizes = f", {dict(self.sizes)}" if self.sizes else ""
        sides = [n for n in (self.left, self.right) if n is not None]
        for side, n in zip(("left ", "right"), sides):
            lines.append(f"print({side!r}, evaluate([{names[n.id]}], inputs{given_sizes})"
                         "[0].tolist())")
        return "\n".join(lines)


def shrink(found: Counterexample, differs: Callable[[np.ndarray, np.ndarray], bool]
           ) -> Counterexample:
    """The same graph with simpler inputs."""
    if found.right is None:
        return found
    arrays = {k: v.copy() for k, v in found.arrays.items()}

    right = found.right

    def still() -> bool:
        with np.errstate(all="ignore"):
            return differs(*evaluate([found.left, right], arrays, found.sizes))

    simplify(arrays, still)
    return replace(found, arrays=arrays)


def simplify(arrays: Mapping[int, np.ndarray], still: Callable[[], bool],
             single: bool = True) -> None:
    """Write small numbers into arrays where what is wrong is so ``still``: into whole ones, then,
    if ``single``, into single elements."""
    for a in arrays.values():
        everywhere = np.ones(a.shape, bool)
        if not any(_settle(a, everywhere, value, still) for value in SIMPLE) and single:
            for i in np.ndindex(a.shape):
                here = np.zeros(a.shape, bool)
                here[i] = True
                any(_settle(a, here, value, still) for value in SIMPLE)


def _settle(a: np.ndarray, where: np.ndarray, value: int, still: Callable[[], bool]) -> bool:
    """Write a simple value where the sides still differ with it; put the old back where not."""
    if a.dtype.kind in "ub" and value < 0:
        return False
    old = a.copy()
    np.copyto(a, np.asarray(value).astype(a.dtype), where=where)
    if still():
        return True
    np.copyto(a, old)
    return False


def _symbols(n: Node) -> set[Symbol]:
    """The symbols that a node names."""
    named = [d for a in n.attrs if isinstance(a, tuple) for d in a]
    return {s for d in (*n.shape, *named) for s in symbols(d)}


def _dtype(d: DType) -> str:
    return "bool_" if d.name == "bool" else d.name


def _array_dtype(a: np.ndarray) -> str:
    """A NumPy dtype as Python text; bfloat16 is tegg's."""
    name = a.dtype.name
    return "tegg.bf16.numpy" if name == "bfloat16" else f"{name!r}"


def _text(value: object) -> str:
    """A value as Python text; NaN and infinities are spelled by NumPy."""
    if isinstance(value, DType):
        return f"tegg.{_dtype(value)}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, tuple):
        return f"({''.join(_text(v) + ', ' for v in value).strip()})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{'-' if value < 0 else ''}np.{'nan' if math.isnan(value) else 'inf'}"
    return repr(value)
