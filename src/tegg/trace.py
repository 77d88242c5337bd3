"""Tracing: a Python function, called once with Tensors, becomes a Graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tegg.dim import Claim, Dim, Poly, Shape
from tegg.dtype import DType, dtype as as_dtype
from tegg.errors import ArgumentError, DTypeError, ShapeError
from tegg.interchange import dtype_of, on_device, shape_of
from tegg.ir.graph import Graph, current_graph
from tegg.ir.op import OPS, OpTable
from tegg.ops.value import Value, fail, node_of
from tegg.shape import as_shape, show
from tegg.tensor import Tensor
from tegg.tree import Tree, flatten, unflatten


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """What tracing must know of an array argument."""

    shape: Shape
    dtype: DType

    @staticmethod
    def of(x: Any, name: str = "the argument") -> ArraySpec:
        """The spec of an array. Raises DTypeError, with the argument's name, for its dtype."""
        try:
            if on_device(x):
                return ArraySpec(shape_of(x), dtype_of(x))
            return ArraySpec(tuple(x.shape), as_dtype(x.dtype))
        except DTypeError as e:
            raise DTypeError(f"{name}: {e}") from None


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call: arrays by path, and everything else as structure.

    ``tree`` and the specs of ``arrays`` are what a compiled program depends on.
    """

    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    tree: Tree


@dataclass(frozen=True, slots=True)
class Traced:
    """A recorded function: input i of ``graph`` is the i-th array argument (weights come after or
    between, see ``InputSpec.kind``); ``outputs`` has one leaf for each of ``graph.outputs``, but
    for the last, which ``watchers`` get."""

    graph: Graph
    slots: tuple[int, ...]  # of the array arguments, in order
    inputs: Tree
    outputs: Tree
    watchers: tuple[Callable, ...] = ()


def is_array(x: object) -> bool:
    """Whether an argument is traced; anything else is part of the program."""
    return isinstance(x, (np.ndarray, ArraySpec)) or on_device(x) or is_recorded(x)


def is_recorded(x: object) -> bool:
    """Whether an argument is a tensor of a graph, which another function records."""
    return isinstance(x, Value) and x.owner() is not None


def signature_of(fn: Any) -> inspect.Signature:
    """The signature by which arguments are named: of ``forward`` for a Module. Raises
    ArgumentError where there is none."""
    try:
        if not isinstance(fn, np.ufunc):  # whose other parameters no tensor can be given with
            return inspect.signature(fn.forward if hasattr(type(fn), "forward") else fn)
    except (TypeError, ValueError):
        pass
    raise ArgumentError(f"{fn!r} has no Python signature to name its arguments by; "
                        f"wrap it in a lambda")


def arguments(signature: inspect.Signature, args: tuple, kwargs: Mapping[str, Any]) -> Arguments:
    """The arguments of a call, taken apart, defaults filled in.

    Raises ArgumentError for missing, unknown or unhashable arguments, and two of one name.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as e:
        raise ArgumentError(f"{e}; the function takes {signature}") from None
    bound.apply_defaults()
    leaves, tree = flatten(dict(bound.arguments), is_array)
    names = tuple(p for p, _ in leaves)
    twice = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if twice is not None:
        raise ArgumentError(f"two arrays are named {twice!r}, by keys of dicts that read alike; "
                            f"give them other keys")
    return Arguments(names, tuple(a for _, a in leaves), tree)


def with_dims(specs: Mapping[str, ArraySpec], dims: Mapping[str, Any]) -> dict[str, ArraySpec]:
    """Specs in which ``dims`` (name -> shape, None where the array says) takes the place of sizes.

    Raises ArgumentError for a name that is no array argument, ShapeError for another rank or size.
    """
    out = dict(specs)
    for name, shape in dims.items():
        if name not in specs:
            raise ArgumentError(f"dims: {name!r} is no array argument; there are "
                                f"{', '.join(specs) or 'none'}")
        spec = specs[name]
        if not isinstance(shape, (tuple, list)):
            raise ShapeError(f"dims: {name!r} takes one entry per axis, such as "
                             f"(tegg.dim('n'), None), not {shape!r}")
        if len(shape) != len(spec.shape):
            raise ShapeError(f"dims: {name!r} has {len(spec.shape)} axes {show(spec.shape)}, "
                             f"not {len(shape)}")
        new = as_shape(n if d is None else d for d, n in zip(shape, spec.shape))
        for d, n in zip(new, spec.shape):
            if isinstance(d, int) and d != n:
                raise ShapeError(f"dims: {name!r} is {show(spec.shape)}, not {show(new)}")
        out[name] = ArraySpec(new, spec.dtype)
    return out


def trace(fn: Callable, args: tuple = (), kwargs: Mapping[str, Any] | None = None, *,
          dims: Mapping[str, Any] | None = None, table: OpTable = OPS) -> Traced:
    """Record ``fn`` called with Tensors in the place of arrays (or ``ArraySpec``s).

    Inputs are named by parameter and place in it (``x``, ``x.0``, ``x.key``). Everything that is
    no array is passed through and belongs to the program. ``dims``: see ``with_dims``.
    """
    signature = signature_of(fn)
    call = arguments(signature, args, kwargs or {})
    specs = {n: a if isinstance(a, ArraySpec) else ArraySpec.of(a, n)
             for n, a in zip(call.names, call.arrays)}
    return record(fn, signature, with_dims(specs, dims or {}), call.tree, table)


def record(fn: Callable, signature: inspect.Signature, specs: Mapping[str, ArraySpec], tree: Tree,
           table: OpTable = OPS) -> Traced:
    """Record ``fn`` for arguments of this structure. What it returns becomes the outputs."""
    graph = Graph(table=table)
    tensors = [graph.tensor(s.shape, s.dtype, n) for n, s in specs.items()]
    slots = tuple(t.node.attrs[0] for t in tensors)
    bound = inspect.BoundArguments(signature, unflatten(tree, tensors))
    with graph.recording():
        result = fn(*bound.args, **bound.kwargs)
        leaves, outputs = flatten(result, lambda v: isinstance(v, (Value, np.ndarray, np.generic)))
        for path, leaf in leaves:
            name = path or "out"
            value = leaf if isinstance(leaf, Value) else np.asarray(leaf)
            _owned(graph, name, value).output(name)
    for i, (node, _) in enumerate(graph.watched):
        Tensor(graph, node).output(f"watched {i}")
    return Traced(graph, slots, tree, outputs, tuple(f for _, f in graph.watched))


def _owned(graph: Graph, name: str, value: Any) -> Tensor:
    if isinstance(value, Value) and value.owner() not in (None, graph):
        raise ArgumentError(f"output {name!r} is a tensor of another graph: a tensor must not "
                            f"outlive the call in which it was recorded")
    return Tensor(graph, node_of(f"output {name!r}", graph, value))


def assume(claim: Claim) -> None:
    """State what holds of symbolic dims beyond their bounds, such as ``n - k >= 0``, inside a
    function that is being recorded. Each call of the compiled program checks it."""
    _facts("assume").assume(claim)


def same(a: Dim, b: Dim) -> None:
    """State that two dims are equal, inside a function that is being recorded. Each call of the
    compiled program checks it."""
    for d in (a, b):
        if not isinstance(d, (int, Poly)):
            fail(ShapeError, f"same: takes dims, not {d!r}")
    _facts("same").same(a, b)


def _facts(what: str):
    graph = current_graph()
    if graph is None:
        fail(ArgumentError, f"{what}: belongs inside a function that is being recorded; for a "
                            f"graph g write g.facts.{what}(...)")
    return graph.facts
