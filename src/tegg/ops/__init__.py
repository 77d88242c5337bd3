"""The Tensor functions, all recorded over primops: PyTorch's names first, NumPy's beside them.

What is here, under which names, is the table of ``tegg.ops.public``.
"""

from tegg.ops import (attention, compare, counting, cumulative, elementwise, extremum, index,
                      linalg, movement, norm, reduce, scattering, sorting)
from tegg.ops.public import functions

# The modules of public ops, in the order in which docs/ops.md shows them.
FAMILIES = (elementwise, compare, reduce, cumulative, extremum, sorting, movement, index,
            scattering, counting, linalg, attention, norm)

globals().update(functions())
__all__ = list(functions())
