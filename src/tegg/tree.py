"""Nested tuples, lists and dicts taken apart into leaves, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tegg.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Tree:
    """The structure of a nested value. Hashable, so that it can be part of a signature.

    kind: ``leaf`` (an array, in order), ``static`` (a Python value, which it holds), ``tuple``,
    ``list`` or ``dict``. keys: the keys of a dict, the class of a named tuple, or what tells a
    Python value from others.
    """

    kind: str
    children: tuple[Tree, ...] = ()
    keys: Any = ()
    value: Any = field(default=None, compare=False)

    @property
    def leaves(self) -> int:
        """How many leaves it has."""
        return 1 if self.kind == "leaf" else sum(c.leaves for c in self.children)


LEAF = Tree("leaf")


def flatten(value: Any, is_leaf: Callable[[Any], bool], path: str = ""
            ) -> tuple[list[tuple[str, Any]], Tree]:
    """The leaves with their paths (``x``, ``x.0``, ``x.key``) and the structure.

    Raises ArgumentError for a Python value that is neither a leaf, a container nor hashable, and
    for another library's array.
    """
    if is_leaf(value):
        return [(path, value)], LEAF
    if isinstance(value, (tuple, list, Mapping)):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        found = [flatten(v, is_leaf, f"{path}.{k}" if path else str(k)) for k, v in pairs]
        return [leaf for leaves, _ in found for leaf in leaves], _container(value, found)
    if hasattr(type(value), "__dlpack__"):  # it hashes by identity: each would be a program
        kind = type(value)
        raise ArgumentError(f"{path or 'the value'}: a {kind.__module__}.{kind.__name__} is no "
                            f"NumPy array; pass np.asarray(...) of it")
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(f"{path or 'the value'}: a {type(value).__name__} is neither an array "
                            f"nor a value that can be compared; pass NumPy arrays, numbers, "
                            f"strings, or tuples, lists and dicts of them") from None
    # 1, 1.0 and True are equal and not the same value; so are 0.0 and -0.0; NaN is, and is not.
    key = value.hex() if isinstance(value, float) else value
    return [], Tree("static", keys=(type(value), key), value=value)


def _container(value: Any, found: list) -> Tree:
    children = tuple(tree for _, tree in found)
    if isinstance(value, Mapping):
        return Tree("dict", children, tuple(value))
    if isinstance(value, list):
        return Tree("list", children)
    return Tree("tuple", children, type(value) if hasattr(value, "_fields") else ())


def unflatten(tree: Tree, leaves: Iterable[Any]) -> Any:
    """The value of a structure with these leaves."""
    return _build(tree, iter(leaves))


def _build(tree: Tree, leaves: Iterator[Any]) -> Any:
    if tree.kind == "leaf":
        return next(leaves)
    if tree.kind == "static":
        return tree.value
    parts = [_build(c, leaves) for c in tree.children]
    if tree.kind == "dict":
        return dict(zip(tree.keys, parts))
    if tree.kind == "list":
        return parts
    return tree.keys(*parts) if tree.keys else tuple(parts)
