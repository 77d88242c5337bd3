"""What the guards of rules mean in a drawn instance: how to make one hold, and how to test it."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any


from tegg.bits import bits_of, value_of
from tegg.dim import exact_div, product
from tegg.dtype import DTYPES, DType, dtype as as_dtype, f64, i64
from tegg.ir.expand import contract
from tegg.ir.graph import Node
from tegg.ir.oracle import evaluate
from tegg.rewrite.providers.dims import inverses
from tegg.rewrite.providers.dtypes import holds
from tegg.rewrite.sexpr import Expr, Symbol
from tegg.testing.sizes import at_least

if TYPE_CHECKING:
    from tegg.testing.instance import Instance

LIKELY = MappingProxyType({  # guard -> which argument is what few draws are, and what it may be
    "inverse-dim": (3, tuple(bits_of(1.0 / n, f64) for n in (1, 2, 3, 4))),
    "inverse-split": (3, tuple(bits_of(1.0 / n, f64) for n in (4, 6, 8, 9, 12)))})


class Miss(Exception):
    """This draw does not fit the pattern; draw again."""


DOMAINS = MappingProxyType({"positive": "positive", "fits-f16": "f16"})  # what inputs are drawn
# Guards that choose and prove nothing: rules are sound without them.
POLICIES = ("may-round", "may-multiply", "keep-f32", "attends-in")


# ---- builders: a guard that defines its first argument makes the node itself
def _sized(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType) -> Node:
    size = made.env.get(str(args[0])) or (made.sizes.factor(),)
    made.bind(args[0], size)
    node = made.graph.op("Size", dtype, size)
    return made.graph.expand(made.graph.reshape(node, (1,) * len(shape)), shape)


def _rotated(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType) -> Node:
    if not shape or exact_div(shape[-1], 2) is None:
        raise Miss
    return rotate(made.graph, made.node(args[0], shape, dtype))


def rotate(graph, x: Node) -> Node:
    """Minus the second half of the last axis, then the first."""
    axis, half = len(x.shape) - 1, x.shape[-1] // 2
    first, second = (graph.narrow(x, axis, i * half, half) for i in (0, 1))
    return graph.concat([graph.mul(second, -1), first], axis)


def _concat(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType) -> Node:
    cuts = [(i, cut) for i, n in enumerate(shape) if (cut := made.sizes.cut(n)) is not None]
    if not cuts:
        raise Miss
    axis, cut = made.rng.choice(cuts)
    made.bind(args[2], axis)
    sizes = (cut, shape[axis] - cut)
    parts = [made.node(a, shape[:axis] + (n,) + shape[axis + 1:], dtype)
             for a, n in zip(args, sizes)]
    return made.graph.concat(parts, axis)


def _constant(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType) -> Node:
    values = (True, False) if dtype.kind == "bool" else (0, 1, 3)
    a, b = (made.graph.full(made.rng.choice(values), dtype, shape) for _ in range(2))
    node = made.graph.op("Add", a, b)
    one = made.graph.op("Add", *(made.graph.full(value_of(n.attrs[2], dtype), dtype)
                                 for n in (a, b)))
    made.bind(args[0], bits_of(evaluate([one], {})[0].item(), dtype))
    return node


def _contraction(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType) -> Node:
    """Each axis of the result stands in one operand or in both; one more is summed."""
    letters = ["" if n == 1 else "abcdefg"[i] for i, n in enumerate(shape)]
    owners = {a: made.rng.choice(("x", "y", "xy")) for a in letters if a}
    if dtype.kind == "bool" or not any(len(o) == 1 for o in owners.values()):
        raise Miss
    size = {**{a: n for a, n in zip(letters, shape) if a}, "k": made.sizes.positive()}
    axes = [[a for a in owners if side in owners[a]] + ["k"] for side in "xy"]
    spec = ";".join(",".join(a) for a in (*axes, letters))
    made.bind(args[2], spec)
    operands = [made.node(arg, tuple(size[a] for a in side), dtype)
                for arg, side in zip(args, axes)]
    return contract(made.graph, operands, (spec, shape))


def _clipped(made: Instance, low: int, high: Node, shape: tuple, dtype: DType) -> Node:
    """A new input, limited to low .. high."""
    free = made.graph.input(f"free{len(made.inputs)}", shape, dtype)
    made.inputs.append((free, "any"))
    above = made.graph.idiom("Maximum", free, made.graph.full(low, dtype))
    return made.graph.idiom("Minimum", above, high)


def _range(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType) -> Node:
    if dtype.is_float:
        raise Miss
    low = made.rng.randrange(2)
    high = low if str(args[0]) == str(args[1]) else 1
    made.bind(args[0], low)
    made.bind(args[1], high)
    return _clipped(made, low, made.graph.full(high, dtype), shape, dtype)


def _within(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType) -> Node:
    size = made.env.get(str(args[0]))
    if not isinstance(size, tuple) or len(size) != 1 or dtype.kind != "int":
        raise Miss
    if not at_least(size[0], 1):
        raise Miss
    last = made.graph.add(made.graph.size(size[0], dtype), -1)
    return _clipped(made, 0, last, shape, dtype)


def _picked(made: Instance, table: Node, index: Node, k: int, shared: int) -> Node:
    """The sum over axis k of a table times the one-hot mask of an index: of the index's axes the
    first ``shared`` are the table's first, and the others come where the axis was."""
    g, n = made.graph, table.shape[k]
    ours, rest = index.shape[shared:], table.shape[k + 1:]
    t = g.reshape(table, (*table.shape[:k], *(1,) * len(ours), n, *rest))
    i = g.reshape(index, (*index.shape[:shared], *(1,) * (k - shared), *ours, 1,
                          *(1,) * len(rest)))
    v = g.reshape(g.iota(n, index.dtype), (n, *(1,) * len(rest)))
    mask = g.idiom("Equal", i, v)
    body = (g.select(mask, t, g.full(0, t.dtype)) if made.rng.random() < 0.5
            else g.mul(g.cast(mask, t.dtype), t))
    axis = k + len(ours)
    return g.reshape(g.op("SumReduce", body, axis), body.shape[:axis] + body.shape[axis + 1:])


def _one_hot_sum(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType) -> Node:
    """The axes of the index are some neighbours of the result's, or none."""
    k = made.rng.randrange(len(shape) + 1)
    j = made.rng.randrange(k, len(shape) + 1)
    n, index = made.sizes.positive(), shape[k:j]
    for a, value in zip(args[2:], (k, (n,), (1,) * len(index),
                                   (1,) * k + index + (1,) * (len(shape) - j), shape)):
        made.bind(a, value)
    table = made.node(args[0], (*shape[:k], n, *shape[j:]), dtype)
    return _picked(made, table, made.node(args[1], index, i64), k, 0)


def _spread(shape: tuple, made: Instance) -> tuple:
    """A shape with axes of size 1 put in between."""
    return tuple(n for d in shape for n in ((1, d) if made.rng.random() < 0.3 else (d,)))


def _exchanged(made: Instance, args: tuple[Expr, ...], shape: tuple) -> tuple[tuple, tuple]:
    """A layout without axes of size 1, and the permutation that leads from it to a shape."""
    long = tuple(d for d in shape if d != 1)
    perm = tuple(made.rng.sample(range(len(long)), len(long)))
    whole = tuple(long[perm.index(i)] for i in range(len(long)))
    for a, value in zip(args, (whole, perm, shape)):
        made.bind(a, value)
    return whole, perm


def _one_hot_sum_moved(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType) -> Node:
    """The same, then without axes of size 1, with axes exchanged, and with those of size 1."""
    whole, perm = _exchanged(made, args[7:], shape)
    e = _one_hot_sum(made, args[:7], _spread(whole, made), dtype)
    return made.graph.reshape(made.graph.permute(made.graph.reshape(e, whole), perm), shape)


def _one_hot_sum_batched(made: Instance, args: tuple[Expr, ...], shape: tuple, dtype: DType
                         ) -> Node:
    """The first axes of the result, before they are moved, are axes of the table and the index."""
    whole, perm = _exchanged(made, args[10:], shape)
    if not whole:
        raise Miss
    shared = made.rng.randrange(1, len(whole) + 1)
    w = whole[:shared] + _spread(whole[shared:], made)
    j = made.rng.randrange(shared, len(w) + 1)
    n, index, tail = made.sizes.positive(), w[:j], w[j:]
    rows = product(w[:shared])
    if not at_least(rows * n, 1):  # what would be gathered from may be empty
        raise Miss
    for a, value in zip(args[2:10], (
            tuple(range(shared + 1 + len(tail))), (rows * n, *tail), (rows,),
            w[:shared] + (1,) * (j - shared), (n,), (1,) * j, index + (1,) * len(tail), w)):
        made.bind(a, value)
    table = made.node(args[0], (*w[:shared], n, *tail), dtype)
    e = _picked(made, table, made.node(args[1], index, i64), shared, shared)
    return made.graph.reshape(made.graph.permute(made.graph.reshape(e, whole), perm), shape)


BUILDERS: MappingProxyType[str, Callable] = MappingProxyType({
    "sized": _sized, "rotated": _rotated, "concat": _concat, "constant": _constant,
    "contraction": _contraction, "range": _range, "within": _within,
    "one-hot-sum": _one_hot_sum, "one-hot-sum-moved": _one_hot_sum_moved,
    "one-hot-sum-batched": _one_hot_sum_batched})


# ---- tests: True, False, or None where an argument is not bound yet; some bind the last ones
def _free(value: object) -> bool:
    return isinstance(value, Symbol)


def _dtypes(f: Callable[..., bool]) -> Callable:
    def test(made: Instance, *values: object) -> bool | None:
        if any(map(_free, values)):
            return None
        known = [v.name if isinstance(v, DType) else v for v in values]
        return all(v in DTYPES for v in known) and f(*map(as_dtype, known))

    return test


def _bound(count: int, f: Callable, axis: int | None = None) -> Callable:
    """A test on the first ``count`` arguments, which gives the values of the others (or None).

    axis: which argument is an axis of the first, a shape: no provider speaks of another.
    """
    def test(made: Instance, *values: Any) -> bool | None:
        if any(map(_free, values[:count])):
            return None
        if axis is not None and not _is_axis(values[axis], values[0]):
            return False
        found = f(*values[:count])
        if found is None or found is False:
            return False
        for value, result in zip(values[count:], () if found is True else found):
            if _free(value):
                made.env[value.text] = result
            elif value != result:
                return False
        return True

    return test


def _is_axis(k: object, s: object) -> bool:
    return isinstance(k, int) and isinstance(s, tuple) and 0 <= k < len(s)


def _is_perm(p: object, rank: int) -> bool:
    return isinstance(p, tuple) and set(p) == set(range(rank)) and len(p) == rank


def _compose(p: tuple, q: tuple) -> tuple | None:
    both = _is_perm(p, len(p)) and _is_perm(q, len(p))
    return (tuple(p[i] for i in q),) if both else None


def _units(p: tuple, s: tuple) -> tuple | None:
    if not _is_perm(p, len(s)):
        return None
    moved = [i for i in p if s[i] != 1]
    return (tuple(s[i] for i in p),) if moved == sorted(moved) else None


def _inverse(s: tuple, k: int, d: object, v: int) -> bool:
    n = s[k]
    return (isinstance(d, DType) and d.is_float and isinstance(n, int) and n > 0
            and v in inverses(n, d))


def _split(s: tuple, k: int, d: object, v: int) -> tuple | None:
    for m in range(2, 10):
        n = s[k]
        if (isinstance(d, DType) and d.is_float and isinstance(n, int) and n > 1
                and v in inverses(n * m, d)):
            return (bits_of(1.0 / m, f64),)
    return None


def _size_split(s: tuple, k: int, n: tuple) -> tuple | None:
    rest = exact_div(n[0], s[k])
    return ((rest,), (1,) * len(s)) if rest is not None and rest != 1 else None


def _half(second: bool) -> Callable:
    def f(s: tuple, a: tuple, b: tuple, o: tuple) -> tuple | None:
        half = exact_div(s[-1], 2) if s else None
        if half is None or set(o) != {1}:
            return None
        low, high = (half, s[-1]) if second else (0, half)
        whole = (a, b) == ((0,) * (len(s) - 1) + (low,), (*s[:-1], high))
        return (len(s) - 1,) if whole else None

    return f


TESTS: MappingProxyType[str, Callable] = MappingProxyType({
    "float-type": _dtypes(lambda d: d.is_float),
    "int-type": _dtypes(lambda d: d.kind == "int"),
    "signed-int-type": _dtypes(lambda d: d.kind == "int" and d.name != "u8"),
    "widens": _dtypes(lambda a, b: a is not b and holds(a, b)),
    "perm-id": _bound(1, lambda p: p == tuple(range(len(p)))),
    "perm-compose": _bound(2, _compose),
    "perm-units": _bound(2, _units),
    "unit-axis": _bound(2, lambda s, k: s[k] == 1, axis=1),
    "size": _bound(2, lambda s, k: ((s[k],),), axis=1),
    "inverse-dim": _bound(4, _inverse, axis=1),
    "inverse-split": _bound(4, _split, axis=1),
    "size-split": _bound(3, _size_split, axis=1),
    "first-half": _bound(4, _half(False)),
    "second-half": _bound(4, _half(True)),
})
