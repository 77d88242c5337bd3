"""Shape rules: what shape each op gives, and clear errors where operands do not fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tegg.dim import Dim, Facts, Poly, Shape, exact_div, product, upper_bound
from tegg.errors import ShapeError


def show(shape: Shape) -> str:
    """A shape as NumPy prints it."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def as_shape(shape: object) -> Shape:
    """A tuple of ints and dims. Raises ShapeError for anything else."""
    return tuple(map(as_dim, items(shape)))


def items(x: object) -> tuple:
    """One value, or several of an iterable, as a tuple; a text or a dict is one value."""
    return tuple(x) if several(x) else (x,)  # type: ignore[arg-type]


def several(x: object) -> bool:
    """Whether ``items`` takes it apart."""
    return (isinstance(x, Iterable) and not isinstance(x, (str, dict))
            and getattr(x, "ndim", None) != 0)


def as_int(x: Any) -> int | None:
    """The int of an int of any kind; None for anything else."""
    if isinstance(x, (bool, Poly)) or not hasattr(x, "__index__"):
        return None
    try:
        n = int(x.__index__())
    except TypeError:  # of an array
        return None
    return n if abs(n) < 2 ** 62 else None  # no size or axis, and no loop should run to it


def as_dim(x: object) -> Dim:
    """An int or a symbolic dim. Raises ShapeError for anything else."""
    if isinstance(x, Poly):
        return x
    n = as_int(x)
    if n is None:
        raise ShapeError(f"a dim is an int or a symbolic dim, not {x!r}")
    return n


def broadcast(shapes: list[Shape], facts: Facts) -> Shape:
    """The NumPy broadcast of shapes. A symbol never broadcasts, even where it may be 1."""
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = []
    for d in range(rank):
        dims = {facts.canonical(s[d - rank + len(s)]) for s in shapes if d - rank + len(s) >= 0}
        dims.discard(1)
        if len(dims) > 1:
            both = " and ".join(map(show, shapes))
            hint = ("; a symbol never broadcasts: write tegg.same(a, b) if they are always equal"
                    if any(isinstance(x, Poly) for x in dims) else "")
            raise ShapeError(f"shapes {both} do not broadcast: "
                             f"{' and '.join(sorted(map(str, dims)))} differ{hint}")
        out.append(dims.pop() if dims else 1)
    return tuple(out)


def normal_axis(axis: Any, rank: int) -> int:
    """An axis in ``0 .. rank-1``; negative ones count from the end."""
    n = as_int(axis)
    if n is None:
        raise ShapeError(f"an axis is an int, not {axis!r}")
    if not -rank <= n < rank:
        raise ShapeError(f"axis {n} is outside a tensor of rank {rank}")
    return n % rank


def _replace(shape: Shape, axis: int, *dims: Dim) -> Shape:
    return shape[:axis] + dims + shape[axis + 1:]


def _need(facts: Facts, x: Dim, what: str) -> None:
    if not facts.nonnegative(x):
        remedy = (f"; give the symbols bounds or write tegg.assume({x} >= 0)"
                  if isinstance(x, Poly) else "")
        raise ShapeError(f"{what} does not hold ({x} >= 0){remedy}")


def elementwise(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """All operands have one shape: broadcasting is explicit in the graph."""
    first = shapes[0]
    for other in shapes[1:]:
        if tuple(map(facts.canonical, other)) != tuple(map(facts.canonical, first)):
            raise ShapeError(f"operands have shapes {' and '.join(map(show, shapes))}; "
                             f"they must be equal")
    return first


def rope(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """Operands of one shape, whose last axis has two halves."""
    shape = elementwise(shapes, attrs, facts)
    if not shape or exact_div(shape[-1], 2) is None:
        raise ShapeError(f"the last axis of {show(shape)} has no two halves")
    return shape


def given(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """Sources: the shape is the last attribute but one, or the last (see the op table)."""
    shape = next(a for a in attrs if isinstance(a, tuple))
    for d in shape:
        _need(facts, d, f"a dim of {show(shape)} being at least 0")
    return shape


def iota(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """One axis."""
    return given(shapes, attrs, facts)


def reduction(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """The reduced axis stays, with size 1."""
    return _replace(shapes[0], _axis(shapes[0], attrs[0]), 1)


def along(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """Ops along an axis that keep the shape of their first operand."""
    _axis(shapes[0], attrs[0])
    return shapes[0]


def _axis(shape: Shape, axis: int) -> int:
    if not 0 <= axis < len(shape):
        raise ShapeError(f"axis {axis} is outside {show(shape)}")
    return axis


def gather(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    x, index = shapes
    axis = _axis(x, attrs[0])
    _need(facts, x[axis] - 1, f"gathering from an axis of {x[axis]}, which must not be empty,")
    return _replace(x, axis, *index)


def scatter(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """Scatter(base, index, update): index is 1-D, update is base with that axis replaced."""
    base, index, update = shapes
    axis = _axis(base, attrs[0])
    want = _replace(base, axis, *index)
    if len(index) != 1 or tuple(map(facts.canonical, want)) != tuple(map(facts.canonical, update)):
        raise ShapeError(f"scatter into {show(base)} on axis {axis} with index {show(index)} "
                         f"needs an update of {show(want)}, not {show(update)}")
    return base


def scatter_along(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """ScatterAlong(base, index, update): index and update are base with another axis length."""
    base, index, update = shapes
    axis = _axis(base, attrs[0])
    want = _replace(base, axis, *index[axis:axis + 1])
    if any(tuple(map(facts.canonical, want)) != tuple(map(facts.canonical, s))
           for s in (index, update)):
        raise ShapeError(f"scatter along axis {axis} of {show(base)} needs an index and an update "
                         f"of one shape that differs on that axis only, not {show(index)} and "
                         f"{show(update)}")
    return base


def argsort(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """ArgSort, Sort (axis, (kept,), descending): the axis becomes the ``kept`` first in order."""
    (shape,), (axis, (kept,), _) = shapes, attrs
    n = shape[_axis(shape, axis)]
    _need(facts, kept, f"keeping {kept} of an axis of {n}: at least 0")
    _need(facts, n - kept, f"keeping {kept} of an axis of {n}")
    return _replace(shape, axis, kept)


def bounded_reduction(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """A reduction whose expansion needs the largest size of its axis."""
    return reduction([bounded(shapes, attrs, facts)], attrs, facts)


def bounded(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """An op along an axis whose expansion needs the largest size of that axis."""
    shape = shapes[0]
    n = shape[_axis(shape, attrs[0])]
    if upper_bound(n) is None:
        raise ShapeError(f"a product over an axis of {n}, which has no upper bound; give its "
                         f"symbols one: tegg.dim(name, min, max)")
    return shape


def reshape(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    new = attrs[0]
    a, b = facts.canonical(product(shapes[0])), facts.canonical(product(new))
    if a != b:
        raise ShapeError(f"cannot reshape {show(shapes[0])} to {show(new)}: "
                         f"{a} elements are not {b}")
    return new


def permute(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    perm = attrs[0]
    if sorted(perm) != list(range(len(shapes[0]))):
        raise ShapeError(f"{perm} is not a permutation of the {len(shapes[0])} axes of "
                         f"{show(shapes[0])}")
    return tuple(shapes[0][p] for p in perm)


def expand(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """Same rank; axes of size 1 grow."""
    old, new = shapes[0], attrs[0]
    ok = len(old) == len(new) and all(
        o == 1 or facts.canonical(o) == facts.canonical(n) for o, n in zip(old, new))
    if not ok:
        raise ShapeError(f"cannot expand {show(old)} to {show(new)}: only axes of size 1 grow, "
                         f"and the rank stays")
    return new


def slice_(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """Slice(starts, stops, steps) with 0 <= start <= stop <= dim and steps >= 1."""
    (shape,), (starts, stops, steps) = shapes, attrs
    if not len(shape) == len(starts) == len(stops) == len(steps):
        raise ShapeError(f"slice of {show(shape)} needs a start, stop and step for each axis")
    out: list[Dim] = []
    for n, lo, hi, step in zip(shape, starts, stops, steps):
        if not (isinstance(step, int) and step >= 1):
            raise ShapeError(f"a slice step is an int of at least 1, not {step}")
        _need(facts, lo, f"slice {lo}:{hi} of an axis of {n}: 0 <= start")
        _need(facts, hi - lo, f"slice {lo}:{hi} of an axis of {n}: start <= stop")
        _need(facts, n - hi, f"slice {lo}:{hi} of an axis of {n}: stop <= size")
        out.append(_ceil_div(hi - lo, step))
    return tuple(out)


def _ceil_div(n: Dim, k: int) -> Dim:
    if isinstance(n, int):
        return -(-n // k)
    q = exact_div(n, k)
    if q is None:
        raise ShapeError(f"step {k} does not divide {n} for every size; "
                         f"slice a multiple of {k} first")
    return q


def pad(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    (shape,), (low, high, _) = shapes, attrs
    if not len(shape) == len(low) == len(high):
        raise ShapeError(f"pad of {show(shape)} needs a width before and after each axis")
    for width in (*low, *high):
        _need(facts, width, f"a pad width of {width} being at least 0")
    return tuple(a + n + b for n, a, b in zip(shape, low, high))


def window(shapes: list[Shape], attrs: tuple, facts: Facts) -> Shape:
    """Window(axis, size, stride, dilation): the axis becomes (positions, size)."""
    (shape,), (axis, size, stride, dilation) = shapes, attrs
    n = shape[_axis(shape, axis)]
    if min(size, stride, dilation) < 1:
        raise ShapeError(f"a window needs size, stride and dilation of at least 1, not "
                         f"{size}, {stride}, {dilation}")
    span = (size - 1) * dilation + 1
    _need(facts, n - span, f"a window of {span} in an axis of {n}")
    last = n - span
    steps = last // stride if isinstance(last, int) else exact_div(last, stride)
    if steps is None:
        raise ShapeError(f"stride {stride} does not divide {last} for every size")
    return _replace(shape, axis, steps + 1, size)
