"""What the target can lower: everything else leaves the e-classes, or an error says why."""

from __future__ import annotations

from collections.abc import Callable, Container

from tegg.ir.classes import EClasses, ENode
from tegg.dtype import DType
from tegg.errors import ExtractionError
from tegg.ir.op import Op

Lowerable = Callable[[Op, DType], str | None]
"""``(op, dtype of its result) -> None``, or the guard that failed as text."""

Nodes = dict[int, list[ENode]]


def anything(op: Op, dtype: DType) -> str | None:
    """A target without limits."""
    return None


def roots(classes: EClasses) -> tuple[int, ...]:
    """Classes that a cover must write: outputs and updates, but for inputs, which are copied."""
    found = dict.fromkeys([*classes.outputs.values(), *classes.updates.values()])
    return tuple(c for c in found if all(n.op.name != "Input" for n in classes.nodes[c]))


def lowered(classes: EClasses, lowerable: Lowerable, target: str) -> Nodes:
    """The e-nodes that the target can lower, of classes that the roots can reach.

    Raises ExtractionError where a root cannot be computed any more.
    """
    reasons: dict[tuple[str, DType], str | None] = {}
    kept: Nodes = {}
    refused: dict[int, tuple[ENode, DType, str]] = {}
    for c, nodes in classes.nodes.items():
        kept[c] = []
        for n in nodes:
            dtype = classes.dtype[c]
            key = (n.op.name, dtype)
            if key not in reasons:
                reasons[key] = None if n.op.name == "Input" else lowerable(n.op, dtype)
            reason = reasons[key]
            if reason is None:
                kept[c].append(n)
            else:
                refused.setdefault(c, (n, dtype, reason))
    alive = derivations(kept)
    for r in roots(classes):
        if r not in alive:
            _refuse(r, kept, refused, alive, target)
    kept = {c: [n for n in ns if all(a in alive for a in n.args)]
            for c, ns in kept.items() if c in alive}
    return live(kept, roots(classes))


def derivations(nodes: Nodes) -> dict[int, int]:
    """Length of the shortest derivation of each class that has one."""
    users: dict[int, list[int]] = {}  # class -> e-nodes that wait for it
    owner: list[int] = []             # e-node -> its class
    missing: list[int] = []
    ready: list[int] = []
    for c, ns in nodes.items():
        for n in ns:
            if n.args:
                args = set(n.args)
                for a in args:
                    users.setdefault(a, []).append(len(owner))
                owner.append(c)
                missing.append(len(args))
            else:
                ready.append(c)
    depth: dict[int, int] = {}
    length = 1
    while ready:
        level = [c for c in dict.fromkeys(ready) if c not in depth]
        depth.update(dict.fromkeys(level, length))
        ready = []
        for c in level:
            for i in users.get(c, ()):
                missing[i] -= 1
                if not missing[i]:
                    ready.append(owner[i])
        length += 1
    return depth


def _refuse(root: int, kept: Nodes, refused: dict, alive: Container[int],
            target: str) -> None:
    """Report the first class below a dead root all of whose e-nodes were refused."""
    todo, seen = [root], set()
    while todo:
        c = todo.pop(0)
        if c in alive or c in seen:
            continue
        seen.add(c)
        if c in refused and not kept[c]:
            node, dtype, reason = refused[c]
            raise ExtractionError(
                f"{node.op.name} has no lowering for {dtype.name} on {target}: {reason}; "
                f"cast its operands, or stack a compiler whose rules rewrite it")
        todo.extend(a for n in kept.get(c, ()) for a in n.args)
    raise ExtractionError(f"class {root} has no e-node that {target} can compute: every one of "
                          f"them needs itself")


def live(nodes: Nodes, wanted: tuple[int, ...]) -> Nodes:
    """The classes that ``wanted`` can reach."""
    seen: set[int] = set()
    todo = list(wanted)
    while todo:
        c = todo.pop()
        if c not in seen:
            seen.add(c)
            todo.extend(a for n in nodes[c] for a in n.args)
    return {c: ns for c, ns in nodes.items() if c in seen}
