"""Shape rules: NumPy's shapes where dims are ints, proofs where they are symbols, clear errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from tegg.testing.strategies import shapes
from tegg import shape as S
from tegg.dim import Facts, Poly, dim
from tegg.dtype import f32
from tegg.errors import ShapeError
from tegg.ir.op import OPS

N, M = dim("n", 1, 64), dim("m", 1, 64)
ones = st.lists(st.sampled_from([1, 2, 3]), max_size=3).map(tuple)


def rule(name, *shapes_, attrs=(), facts=None):
    return OPS[name].shape(list(shapes_), tuple(attrs), facts or Facts())


def message(call):
    with pytest.raises(ShapeError) as e:
        call()
    return str(e.value)


@given(st.lists(ones, min_size=1, max_size=3))
def test_broadcast_is_numpys(many):
    try:
        want = np.broadcast_shapes(*many)
    except ValueError:
        assert "do not broadcast" in message(lambda: S.broadcast(many, Facts()))
    else:
        assert S.broadcast(many, Facts()) == want


def test_a_symbol_never_broadcasts():
    assert S.broadcast([(N, 1), (4,)], Facts()) == (N, 4)
    assert message(lambda: S.broadcast([(N,), (M,)], Facts())) == (
        "shapes (n,) and (m,) do not broadcast: m and n differ; a symbol never broadcasts: "
        "write tegg.same(a, b) if they are always equal")
    facts = Facts()
    facts.same(N, M)
    assert S.broadcast([(N,), (M,)], facts) in ((N,), (M,))


@given(shapes, st.data())
def test_slice_is_numpys(shape, data):
    parts = []
    for n in shape:
        lo = data.draw(st.integers(0, n))
        parts.append((lo, data.draw(st.integers(lo, n)), data.draw(st.integers(1, 3))))
    starts, stops, steps = zip(*parts) if parts else ((), (), ())
    want = np.empty(shape)[tuple(slice(*p) for p in parts)].shape
    assert rule("Slice", shape, attrs=(starts, stops, steps)) == want


@given(shapes, st.data())
def test_window_is_numpys(shape, data):
    assume(shape)
    axis = data.draw(st.integers(0, len(shape) - 1))
    size, stride, dilation = (data.draw(st.integers(1, 3)) for _ in range(3))
    span = (size - 1) * dilation + 1
    call = lambda: rule("Window", shape, attrs=(axis, size, stride, dilation))
    if span > shape[axis]:
        assert "does not hold" in message(call)
        return
    view = np.lib.stride_tricks.sliding_window_view(np.empty(shape), span, axis)
    view = np.moveaxis(view, -1, axis + 1)
    index = [slice(None)] * view.ndim
    index[axis], index[axis + 1] = slice(None, None, stride), slice(None, None, dilation)
    assert call() == view[tuple(index)].shape


@given(shapes, st.data())
def test_reshape_takes_exactly_equal_counts(shape, data):
    new = data.draw(shapes)
    if np.prod(shape) == np.prod(new):
        assert rule("Reshape", shape, attrs=(new,)) == new
    else:
        assert "reshape" in message(lambda: rule("Reshape", shape, attrs=(new,)))


def test_symbolic_movement():
    assert rule("Reshape", (N, 6), attrs=((2 * N, 3),)) == (2 * N, 3)
    assert rule("Pad", (N,), attrs=((1,), (M,), 0)) == (N + M + 1,)
    assert rule("Slice", (N + 2,), attrs=((1,), (N + 1,), (1,))) == (N,)
    assert rule("Slice", (2 * N,), attrs=((0,), (2 * N,), (2,))) == (N,)
    assert rule("Expand", (N, 1), attrs=((N, M),)) == (N, M)
    assert rule("Window", (N + 2,), attrs=(0, 3, 1, 1)) == (N, 3)
    assert rule("Permute", (N, 2, M), attrs=((2, 0, 1),)) == (M, N, 2)


@pytest.mark.parametrize(("call", "text"), [
    (lambda: rule("Slice", (N,), attrs=((0,), (N + 1,), (1,))),
     "slice 0:n+1 of an axis of n: stop <= size does not hold (-1 >= 0)"),
    (lambda: rule("Slice", (N,), attrs=((0,), (3,), (1,))),
     "slice 0:3 of an axis of n: stop <= size does not hold (n-3 >= 0); give the symbols bounds "
     "or write tegg.assume(n-3 >= 0)"),
    (lambda: rule("Slice", (N,), attrs=((0,), (N,), (2,))),
     "step 2 does not divide n for every size; slice a multiple of 2 first"),
    (lambda: rule("Slice", (4,), attrs=((0,), (4,), (0,))),
     "a slice step is an int of at least 1, not 0"),
    (lambda: rule("Slice", (4, 4), attrs=((0,), (4,), (1,))),
     "slice of (4, 4) needs a start, stop and step for each axis"),
    (lambda: rule("Pad", (4,), attrs=((-1,), (0,), 0)),
     "a pad width of -1 being at least 0 does not hold (-1 >= 0)"),
    (lambda: rule("Pad", (4,), attrs=((), (0,), 0)),
     "pad of (4,) needs a width before and after each axis"),
    (lambda: rule("Window", (4,), attrs=(0, 0, 1, 1)),
     "a window needs size, stride and dilation of at least 1, not 0, 1, 1"),
    (lambda: rule("Window", (N + 3,), attrs=(0, 3, 2, 1)),
     "stride 2 does not divide n for every size"),
    (lambda: rule("Expand", (2, 3), attrs=((3, 3),)),
     "cannot expand (2, 3) to (3, 3): only axes of size 1 grow, and the rank stays"),
    (lambda: rule("Gather", (0, 3), (2,), attrs=(0,)),
     "gathering from an axis of 0, which must not be empty, does not hold (-1 >= 0)"),
    (lambda: rule("Gather", (2, 3), (2,), attrs=(2,)), "axis 2 is outside (2, 3)"),
    (lambda: rule("Scatter", (4, 3), (2,), (2, 2), attrs=(0, "add")),
     "scatter into (4, 3) on axis 0 with index (2,) needs an update of (2, 3), not (2, 2)"),
    (lambda: rule("ScatterAlong", (4, 3), (2, 3), (3, 3), attrs=(0, "add")),
     "scatter along axis 0 of (4, 3) needs an index and an update of one shape that differs on "
     "that axis only, not (2, 3) and (3, 3)"),
    (lambda: rule("Add", (2,), (1,)), "operands have shapes (2,) and (1,); they must be equal"),
    (lambda: rule("Rope", (2, 3), (2, 3), (2, 3)), "the last axis of (2, 3) has no two halves"),
    (lambda: rule("Full", attrs=(f32, (-1,), 0)),
     "a dim of (-1,) being at least 0 does not hold (-1 >= 0)"),
    (lambda: S.normal_axis(3, 2), "axis 3 is outside a tensor of rank 2"),
    (lambda: S.normal_axis(True, 2), "an axis is an int, not True"),
    (lambda: S.normal_axis("x", 2), "an axis is an int, not 'x'"),
    (lambda: S.as_shape((2, 1.5)), "a dim is an int or a symbolic dim, not 1.5"),
])
def test_errors(call, text):
    assert message(call) == text


def test_shapes_are_ints_and_dims():
    shape = S.as_shape((np.int64(2), N, 3))
    assert shape == (2, N, 3) and type(shape[0]) is int and isinstance(shape[1], Poly)
    assert S.as_shape(5) == (5,) and S.show((3,)) == "(3,)" and S.show(()) == "()"
