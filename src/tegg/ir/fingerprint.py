"""A graph as text, for cache keys: equal text means an equal program."""

from __future__ import annotations

from tegg.dim import symbols
from tegg.ir.graph import Graph


def describe(graph: Graph) -> str:
    """The graph as text. Of the values of weights only what is stated of them plays a part."""
    live = graph.reachable()
    alive = {n.id for n in live}
    place = {n.id: i for i, n in enumerate(live)}
    lines = [f"{place[n.id]} {n.op.name} {[place[a.id] for a in n.args]} {n.attrs} "
             f"{n.shape} {n.dtype.name}" for n in live]
    lines += [f"input {i} {s.name} {s.shape} {s.dtype.name} {s.kind}"
              for i, s in enumerate(graph.inputs)]
    lines += [f"most {i} {s.most}" for i, s in enumerate(graph.inputs) if s.most is not None]
    lines += [f"output {k} {place[n.id]}" for k, n in graph.outputs.items()]
    lines += [f"update {k} {place[n.id]}" for k, n in graph.updates.items()]
    lines += [f"idiom {place[i.node.id]} {i.op.name} {[place[a.id] for a in i.args]} {i.attrs}"
              for i in graph.idioms if i.node.id in alive]
    found = {s for n in live for d in n.shape for s in symbols(d)}
    found |= {s for spec in graph.inputs for d in spec.shape for s in symbols(d)}
    lines += sorted(f"dim {s!r}" for s in found)
    lines += [f"claim {c}" for c in graph.facts.claims]
    lines += [f"same {s.name} {d}" for s, d in graph.facts.equal.items()]
    return "\n".join(lines)

