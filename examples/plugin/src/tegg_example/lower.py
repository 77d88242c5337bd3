"""From a fragment to the toy's program: an instruction a line, as JSON, on numbered registers."""

from __future__ import annotations

import json
from typing import Any

from tegg.extend import (
    Dim, Fragment, KernelCode, LoweringError, Node, Poly, Stage, Work, symbols,
)

SOURCES = ("Full", "Iota", "Size")  # spelled inside of programs; they lie nowhere


def lower(fragment: Fragment, name: str) -> KernelCode:
    """One launch: loads, instructions, stores. Raises LoweringError for an op of the host."""
    graph, outputs = fragment.graph, fragment.outputs
    nodes = graph.reachable(outputs)
    places = _places(nodes, outputs)
    register = {n.id: i for i, n in enumerate(nodes)}
    lines = [_instruction(n, register, places) for n in nodes]
    first = len(graph.inputs)
    lines += [{"do": "store", "of": [register[n.id]], "buffer": first + i,
               "place": places[n.id]} for i, n in enumerate(outputs)]
    names = sorted({s.name for n in nodes for d in _dims(n) for s in symbols(d)})
    stage = Stage(name, frozenset(range(first)), frozenset(range(first, first + len(outputs))),
                  parallel=False)
    text = "\n".join([f"# {name}", *map(json.dumps, lines)])
    return KernelCode(name, text, (stage,), (), tuple(names), Work(len(nodes), len(nodes), 0, 0))


def _instruction(n: Node, register: dict[int, int], places: dict[int, str]) -> dict[str, Any]:
    line: dict[str, Any] = {"to": register[n.id], "of": [register[a.id] for a in n.args],
                            "shape": [_written(d) for d in n.shape], "dtype": n.dtype.name}
    name = n.op.name
    if name == "Input":
        return {"do": "load", **line, "buffer": n.attrs[0], "place": places[n.id]}
    if not name.startswith("Toy") and name not in SOURCES:
        raise LoweringError(f"{name} is an op of the host, and no instruction of the toy")
    attrs = {key: _attribute(value, kind) for (key, kind), value in zip(n.op.attrs, n.attrs)}
    return {"do": name.removeprefix("Toy").lower(), **line, **{f"{k}_": v for k, v in
                                                               attrs.items()}}


def _places(nodes: list[Node], outputs: tuple[Node, ...]) -> dict[int, str]:
    """Where each value lies: ``host``, ``toy``, or ``any`` for what is spelled in the program.

    What is copied lies at the other side; an input lies where its reader wants it.
    """
    places: dict[int, str] = {}
    for n in reversed(nodes):
        if n.op.name in SOURCES:
            places[n.id] = "any"
        elif n.op.name == "ToyGet":
            places[n.id] = "host"
        elif n.op.name != "Input":
            places[n.id] = "toy"
        for a in n.args:
            if a.op.name == "Input":
                places[a.id] = "host" if n.op.name == "ToyPut" else "toy"
    return {**{n.id: "host" for n in nodes}, **places}


def _attribute(value: object, kind: str) -> object:
    if isinstance(value, tuple):
        return [_written(v) for v in value]
    return value if isinstance(value, (int, str)) else str(getattr(value, "name", value))


def _written(d: Dim) -> int | list:
    """A dim: an int, or a list of ``[coefficient, [names of symbols]]``."""
    if not isinstance(d, Poly):
        return d
    return [[c, [s.name for s in names]] for names, c in d.terms.items()]


def _dims(n: Node) -> list[Dim]:
    return [d for group in (n.shape, *(a for a in n.attrs if isinstance(a, tuple))) for d in group]
