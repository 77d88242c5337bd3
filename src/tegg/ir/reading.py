"""What a kernel reads of a value, from the indices and passes at which it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tegg.dtype import DType, i64, widens
from tegg.ir.demand import Values

# Ops by which an index stays a straight run of places almost everywhere: kernels load such runs as
# they lie (kernel/straight.py).
STRAIGHT = frozenset({"Add", "Sub", "Neg", "Mul", "Abs", "Maximum", "Minimum", "Select"})

Keys = dict[tuple[int, int], float]  # (index, pass) -> elements wanted


def elements(size: int, keys: Keys, stage: Callable[[int], int]) -> int:
    """Elements read from memory: each stage reads what it needs, at most once. ``stage``: that of
    a pass."""
    widest: dict[int, dict[int, float]] = {}
    for (index, turn), n in keys.items():
        at = widest.setdefault(stage(turn), {})
        at[index] = max(at.get(index, 0.0), n)
    return sum(int(min(size, sum(s.values()))) for s in widest.values())


def gathered(keys: Keys, apart: Collection[int]) -> float:
    """Elements that are read one by one: at indices by which neighbours lie anywhere in a row."""
    return sum(n for (index, _), n in keys.items() if index in apart)


def joins(node, body: Mapping) -> bool:
    """Whether an e-node joins a part to what is joined of others. Beside a product all parts are
    read under masks; loops have a nest for each."""
    below = {body[a].op.name for a in node.args if a in body}
    return node.op.name == "Select" and below >= {"Pad", "Select"}


def anywhere(node, body: Mapping, values: Values) -> bool:
    """Whether neighbours in a Gather's result come from any place of a row."""
    x, which = (values.shape[a] for a in node.args)
    along = node.attrs[0] == len(x) - 1 and which[-1:] not in ((), (1,))
    return along and not _straight(node.args[1], body, values)


def _straight(index: int, body: Mapping, values: Values) -> bool:
    """Whether an index is computed in the kernel, from places alone and by such ops."""
    todo, seen = [index], {index}
    while todo:
        c = todo.pop()
        node = body.get(c)
        if node is None:
            return False
        place = values.dtype[c] is i64 and (node.op.kind in ("movement", "source")
                                            or node.op.name in STRAIGHT)
        if not place and values.dtype[c].kind != "bool":
            return False
        todo += [a for a in node.args if a not in seen]
        seen.update(node.args)
    return True


def widened(c: int, node, dtype: Mapping[int, DType]) -> bool:
    """Whether a value is a float of 16 bits made wide, which is part of loading that: it costs what
    a value does that rests in memory in a form of 16 bits."""
    if node.op.name != "Cast":
        return False
    source = dtype[node.args[0]]
    return source.itemsize == 2 and widens(source, dtype[c])


def rests(a: int, body: Mapping, dtype: Mapping[int, DType]) -> bool:
    """Whether a value is what rests in memory, as it is there, moved or made wide at most."""
    while (node := body.get(a)) is not None:
        if node.op.kind != "movement" and not widened(a, node, dtype):
            return False
        (a,) = node.args
    return True
