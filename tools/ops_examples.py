"""What docs/ops.md begins with: the values of its examples."""

from __future__ import annotations

SETUP = '''import numpy as np
import tegg
from tegg.ir.oracle import evaluate

arrays = {
    "x": np.array([[-1, 0, 2], [3, 0.5, -2]], np.float32),
    "y": np.array([2, -1, 0.5], np.float32),
    "i": np.array([2, 0, 1]),
    "b": np.array([True, False, True]),
    "image": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4),
    "ones": np.ones((1, 1, 2, 2), np.float32),
}
g = tegg.Graph()
x, y, i, b, image, ones = (g.tensor(a.shape, a.dtype, name) for name, a in arrays.items())


def value(t):
    """The value of a recorded tensor, or of several, by the meaning of its ops."""
    several = t if isinstance(t, tuple) else (t,)
    out = evaluate([s.node for s in several], dict(enumerate(arrays.values())))
    lists = [v.astype(float).round(3).tolist() if v.dtype.kind == "f" else v.tolist()
             for v in out]
    return lists if isinstance(t, tuple) else lists[0]
'''
