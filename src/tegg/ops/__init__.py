"""The Tensor functions, all recorded over primops: PyTorch's names first, NumPy's beside them.

What is here, under which names, is the table of ``tegg.ops.public``.
"""

from tegg.ops import (activation, adaptive_pool, attention, centre, channel_norm, circular, compare,
                      conv, conv_transpose, coordinates, counting, create, cumulative, diagonals,
                      distance, einsum, elementwise, exponential, extremum, index, interpolate,
                      linalg, movement, norm, padding, parts, pool, powers, ranges, reduce,
                      repeats, scattering, sorting)
from tegg.ops.public import functions

# The modules of public ops, in the order in which docs/ops.md shows them.
FAMILIES = (create, elementwise, powers, exponential, circular, activation, compare, reduce,
            cumulative, extremum, sorting, movement, ranges, parts, repeats, padding, diagonals,
            index, coordinates, scattering, counting, linalg, einsum, distance, attention, norm,
            centre, channel_norm, conv, conv_transpose, pool, adaptive_pool, interpolate)

globals().update(functions())
__all__ = list(functions())
