"""What a graph, an e-graph or a cover looks like: as text, SVG or HTML, grouped by module."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tegg.bits import value_of
from tegg.ir.classes import Cover, EClasses, ENode
from tegg.dim import Shape
from tegg.dtype import DType
from tegg.errors import ArgumentError
from tegg.ir.graph import Graph, Node
from tegg.shape import show

FEW = 80  # items that are listed one by one; more are counted


def counted(n: int, what: str) -> str:
    """So many of something, in words."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


@dataclass(frozen=True, slots=True)
class Item:
    """One box of a picture. ``group`` is the module path; ``args`` are ids of other items."""

    id: str
    label: str
    note: str
    group: str
    args: tuple[str, ...]
    kind: str = "op"  # or input, output, kernel


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes in an order in which operands come first."""

    title: str
    items: tuple[Item, ...]

    def within(self, scope: str) -> Picture:
        """The part that belongs to a module. Raises ArgumentError where there is none."""
        items = tuple(i for i in self.items if f"{i.group}.".startswith(f"{scope}."))
        if not items:
            raise ArgumentError(f"nothing is in the scope {scope!r}; there are "
                                f"{', '.join(sorted({i.group for i in self.items if i.group}))}")
        return Picture(f"{self.title}: {scope}", items)


# ---- pictures of what
def of_graph(graph: Graph) -> Picture:
    """Every node that the outputs need; constants stand in the boxes that use them."""
    live = graph.reachable()
    constants = {n.id: text for n in live if (text := _constant(n)) is not None}
    results: dict[int, list[str]] = {}
    for name, n in graph.outputs.items():
        results.setdefault(n.id, []).append(f"-> {name}")
    for slot, n in graph.updates.items():
        results.setdefault(n.id, []).append(f"replaces {graph.inputs[slot].name}")
    items = []
    for n in live:
        if n.id in constants and n.id not in results:
            continue
        with_ = "".join(f" {constants[a.id]}" for a in n.args if a.id in constants)
        group = graph.scopes.get(n.id, "")
        name = f" {_input_name(graph, n.attrs[0], group)}" if n.op.name == "Input" else ""
        after = "".join(f" {r}" for r in results.get(n.id, ()))
        kind = "input" if name else "output" if after else "op"
        items.append(Item(f"%{n.id}", f"{n.op.name}{name}{_axis(n)}{with_}{after}",
                          f"{show(n.shape)} {n.dtype.name}", group,
                          tuple(f"%{a.id}" for a in n.args if a.id not in constants), kind))
    return Picture("graph", tuple(items))


def _input_name(graph: Graph, slot: int, group: str) -> str:
    """The name of an input, seen from the module that it stands in."""
    return graph.inputs[slot].name.removeprefix(f"{group}.")


def _constant(n: Node) -> str | None:
    """The value of a constant, spread or not."""
    while n.op.name in ("Expand", "Reshape"):
        (n,) = n.args
    return f"{value_of(n.attrs[2], n.dtype):.6g}" if n.op.name == "Full" else None


def _axis(n: Node | ENode) -> str:
    return "".join(f" {name}={value}" for (name, _), value in zip(n.op.attrs, n.attrs)
                   if name in ("axis", "perm", "spec"))


def of_classes(classes: EClasses) -> Picture:
    """Every class, with all the ways to compute it; constants stand where they are used."""
    scopes, items = _scopes(classes), []
    values = _constants(classes)
    for c, nodes in classes.nodes.items():
        if c in values and c not in classes.outputs.values():
            continue
        ways = sorted(_way(e, values) for e in nodes)
        args = dict.fromkeys(f"c{a}" for e in nodes for a in e.args if a not in values)
        name = _input(classes, c)
        label = f"Input {name}" if name else "\n".join(ways)
        items.append(Item(f"c{c}", label, _type(classes, c), scopes.get(c, ""), tuple(args),
                          "input" if name else "op"))
    return Picture("e-graph", tuple(items))


def _way(e: ENode, values: Mapping[int, str]) -> str:
    return f"{e.op.name}{_axis(e)} ({', '.join(values.get(a, f'c{a}') for a in e.args)})"


def _constants(classes: EClasses) -> dict[int, str]:
    """The classes that hold a constant, spread or not, and its value."""
    known: dict[int, str] = {}
    for c, nodes in classes.nodes.items():
        for e in nodes:
            if e.op.name == "Full":
                known[c] = f"{value_of(e.attrs[2], classes.dtype[c]):.6g}"
    spread = True
    while spread:
        more = {c: known[e.args[0]] for c, nodes in classes.nodes.items() if c not in known
                for e in nodes if e.op.name in ("Expand", "Reshape") and e.args[0] in known}
        known |= more
        spread = bool(more)
    return known


def of_cover(classes: EClasses, cover: Cover) -> Picture:
    """The chosen kernels, and the inputs they read."""
    scopes, maker, items, seen = _scopes(classes), {}, [], set()
    for i, k in enumerate(cover.kernels):
        maker.update(dict.fromkeys(k.outs, f"k{i}"))
    for i, k in enumerate(cover.kernels):
        for c in k.leaves:
            if c not in maker and c not in seen:
                seen.add(c)
                items.append(Item(f"c{c}", _input(classes, c) or f"c{c}", _type(classes, c),
                                  scopes.get(c, ""), (), "input"))
        args = dict.fromkeys(maker.get(c, f"c{c}") for c in k.leaves)
        types = ", ".join(_type(classes, c) for c in k.outs)
        items.append(Item(f"k{i}", _kernel(k), f"{k.seconds * 1e6:.3g} us -> {types}",
                          scopes.get(k.outs[0], ""), tuple(args), "kernel"))
    proven = ("" if cover.gap is None else ", the best cover" if cover.gap < 1e-6 else
              f", at most {cover.gap:.1%} from the best cover")
    kernels = counted(len(cover.kernels), "kernel")
    return Picture(f"{kernels}, {cover.seconds * 1e3:.4g} ms predicted{proven}", tuple(items))


def _kernel(k) -> str:
    ops = Counter(e.op.name for e in k.body.values() if e.op.kind not in ("movement", "source"))
    body = " ".join(f"{n}x{name}" if n > 1 else name for name, n in ops.most_common(8))
    head = f"{k.body[k.anchor].op.name}: " if k.anchor is not None else ""
    return head + (body or "copy") + (" (ahead)" if k.ahead else "")


def _scopes(classes: EClasses) -> dict[int, str]:
    """The module path of each class: of the first node that is in it."""
    out: dict[int, str] = {}
    for node, c in classes.of.items():
        out.setdefault(c, classes.graph.scopes.get(node, ""))
    return out


def _input(classes: EClasses, c: int) -> str | None:
    slots = [e.attrs[0] for e in classes.nodes.get(c, ()) if e.op.name == "Input"]
    return classes.graph.inputs[slots[0]].name if slots else None


def _type(classes: EClasses, c: int) -> str:
    shape: Shape = classes.shape[c]
    dtype: DType = classes.dtype[c]
    return f"{show(shape)} {dtype.name}"


# ---- as text
def as_text(picture: Picture, width: int = 120) -> str:
    """A tree of modules; where there are many items, each module says what it holds."""
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree
    few = len(picture.items) <= FEW

    def grow(branch: Tree, part: _Part) -> None:
        for line in _lines(part.items, few):
            branch.add(Text(line))
        previous, same = None, ""
        for name, inner in part.inner.items():
            shape = inner.summary()
            if few or shape != previous:
                grow(branch.add(Text(name)), inner)
                previous, same = shape, name
            else:
                branch.add(Text(f"{name}: as {same}"))

    root = Tree(Text(f"{picture.title} ({len(picture.items)} items)"))
    grow(root, _parts(picture.items))
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(width=width, record=True, file=nowhere)
        console.print(root, soft_wrap=True)
    return console.export_text()


@dataclass(slots=True)
class _Part:
    """A module of a picture: its own items, and the modules inside it."""

    items: list[Item] = field(default_factory=list)
    inner: dict[str, _Part] = field(default_factory=dict)

    def summary(self) -> tuple:
        """What must be equal where one module is shown as another."""
        return (tuple(_lines(self.items, False)),
                tuple((name, part.summary()) for name, part in self.inner.items()))


def _parts(items: Iterable[Item]) -> _Part:
    root = _Part()
    for i in items:
        part = root
        for name in i.group.split(".") if i.group else ():
            part = part.inner.setdefault(name, _Part())
        part.items.append(i)
    return root


def _lines(items: list[Item], each: bool) -> list[str]:
    if each:
        return [f"{i.id} {i.label.replace(chr(10), ' | ')}  {i.note}"
                + (f"  <- {' '.join(i.args)}" if i.args else "") for i in items]
    ops = Counter(i.label.split()[0].rstrip(":") for i in items)
    return [f"{len(items)} items: " + ", ".join(f"{n} {op}" if n > 1 else op
                                                for op, n in ops.most_common())] if items else []
