"""A compiler that recognises moving sums and runs each as a kernel of its own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np

import tegg

# Blocks as long as the window. Every window is the end of one block and the beginning of the next:
# the ends are summed backwards into the result, then the beginnings are added forwards. Nothing is
# subtracted, so one huge element, or a NaN, is felt only by the windows that hold it.
BODY = """
  const int rank = sizeof x0_shape / sizeof *x0_shape;
  const int64_t n = x0_shape[$axis], m = y_shape[$axis], w = $size;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < $axis; i++) outer *= x0_shape[i];
  for (int i = $axis + 1; i < rank; i++) inner *= x0_shape[i];
  const int64_t rows = outer * inner;
  for (int64_t r = rows * tid / nt; r < rows * (tid + 1) / nt; r++) {
    const $T0 *const x = x0 + r / inner * n * inner + r % inner;
    $T *const out = y + r / inner * m * inner + r % inner;
    for (int64_t b = 0; b < m; b += w) {
      const int64_t end = b + w < m ? b + w : m;
      double before = 0, after = 0;
      for (int64_t i = b + w - 1; i >= b; i--) {
        before += x[i * inner];
        if (i < end) out[i * inner] = before;
      }
      for (int64_t i = b + 1; i < end; i++) {
        after += x[(i + w - 1) * inner];
        out[i * inner] += after;
      }
    }
  }
"""


def _shape(shapes, attrs, facts):
    """The window's axis becomes (positions, 1), as a reduction keeps it."""
    (x,), (axis, size) = shapes, attrs
    if not 0 <= axis < len(x) or size < 1 or not facts.nonnegative(x[axis] - size):
        raise tegg.ShapeError(f"windows of {size} do not fit axis {axis} of {x}")
    return (*x[:axis], x[axis] - (size - 1), 1, *x[axis + 1:])


def _dtype(dtypes, attrs):
    if not dtypes[0].is_float:
        raise tegg.DTypeError(f"a moving sum is of floats, not {dtypes[0].name}")
    return dtypes[0]


def _meaning(arrays, attrs, shape, dtype):
    axis, size = attrs
    windows = np.lib.stride_tricks.sliding_window_view(arrays[0].astype(np.float64), size, axis)
    return np.expand_dims(windows.sum(-1), axis + 1).astype(dtype.numpy)


MOVING_SUM = tegg.Op(
    "MovingSum", "kernel", 1, _shape, _dtype, _meaning, (("axis", "axis"), ("size", "int")),
    domains=("any",), cost=4.0, staged=True, code=(tegg.Code("c", body=BODY),),
    doc="sums of all windows of an axis, which becomes (positions, 1)")


def compiler() -> tegg.Compiler:
    """The entry point ``tegg.compilers: moving``."""
    rules = Path(str(files("tegg_example"))) / "rules" / "moving.egg"
    return tegg.Compiler(rules, ops=[MOVING_SUM], phases={"moving": {"after": "algebra"}},
                         name="moving")
