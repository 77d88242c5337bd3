"""Kernels that read parts of buffers: one for all parts, and where each call begins to read.

The steps of a recurrent loop read a sequence one slice after another. Where slices begin is no
matter of a kernel: it reads the first slice, of a buffer that begins later.
"""

from __future__ import annotations

from collections.abc import Iterable

from tegg.dim import Shape, product
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph, Node


def at_beginning(fragment: Fragment, unit: int) -> tuple[Fragment, tuple[int, ...]]:
    """The fragment with slices of its inputs moved to where their buffers begin, and for each input
    the bytes by which its buffer begins later for it, multiples of ``unit``; () where none does.

    An input is moved where nothing but slices reads it, and all by as much, so that how they lie to
    one another stays. ``unit`` 0: none is.
    """
    if not unit or all(n.op.name != "Slice" for n in fragment.graph.nodes):
        return fragment, ()
    offsets = [0] * len(fragment.graph.inputs)
    moved: dict[Node, list[int]] = {}
    users = _users(fragment)
    for leaf in (n for n in fragment.graph.nodes if n.op.name == "Input"):
        slices = _slices(leaf, users, fragment.outputs)
        first = [min(starts) for starts in zip(*(s.attrs[0] for s in slices))]
        nbytes = _elements(leaf.shape, first) * leaf.dtype.itemsize
        if nbytes and nbytes % unit == 0:
            offsets[leaf.attrs[0]] = nbytes
            moved |= {s: first for s in slices}
    return (_rebuilt(fragment, moved), tuple(offsets)) if moved else (fragment, ())


def _users(fragment: Fragment) -> dict[Node, list[Node]]:
    users: dict[Node, list[Node]] = {n: [] for n in fragment.graph.nodes}
    for n in fragment.graph.nodes:
        for a in n.args:
            users[a].append(n)
    return users


def _slices(leaf: Node, users: dict[Node, list[Node]], outputs: Iterable[Node]) -> list[Node]:
    """The slices of an input, at starts that are known; none where something else reads it too."""
    readers = users[leaf]
    if len(readers) == 1 and readers[0].op.name == "Cast" and readers[0] not in outputs:
        readers = users[readers[0]]  # it lies in another form
    plain = leaf not in outputs and all(
        n.op.name == "Slice" and all(isinstance(d, int) for ds in n.attrs[:2] for d in ds)
        for n in readers)
    return readers if plain else []


def _elements(shape: Shape, first: list[int]) -> int:
    """How many elements lie before the one at an index; 0 where a call decides."""
    at = 0
    for axis, i in enumerate(first):
        step = product(shape[axis + 1:]) if i else 0
        if not isinstance(step, int):
            return 0
        at += i * step
    return at


def _rebuilt(fragment: Fragment, moved: dict[Node, list[int]]) -> Fragment:
    """The fragment again, with slices moved back by so many elements of each axis."""
    old, made = fragment.graph, dict[Node, Node]()
    graph = Graph(table=old.table, facts=old.facts)
    for n in old.nodes:
        attrs = n.attrs
        if n in moved:
            starts, stops = (tuple(d - i for d, i in zip(ds, moved[n])) for ds in attrs[:2])
            attrs = (starts, stops, *attrs[2:])
        made[n] = graph.input(old.inputs[attrs[0]].name, n.shape, n.dtype) \
            if n.op.name == "Input" else graph.op(n.op.name, *(made[a] for a in n.args), *attrs)
    graph.outputs.update({name: made[n] for name, n in old.outputs.items()})
    return Fragment(graph, tuple(made[n] for n in fragment.outputs),
                    tuple(made[n] for n in fragment.anchors))
