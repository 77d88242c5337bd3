"""Split reductions: how many partial results stand between a reduction and few results of it."""

from __future__ import annotations

import math
from collections.abc import Collection

from tegg.dim import Shape, hint

_GRAIN = 1 << 13   # elements of a part: some microseconds, above what a barrier costs
_LEAST = 8         # parts below which one thread does as well
_MOST = 128        # parts that feed any number of threads, and are combined in no time
_LONG = 1 << 14    # elements of a part from which there may be more of them,
_BLOCKS = 512      # of all results together: blocks that keep the memory of a GPU busy
_ROWS = 16         # results from which rows of them feed the threads
_COLUMNS = 1024    # the same where lanes run along the results


def parts(shape: Shape, axes: Collection[int]) -> int:
    """Into how many parts a reduction of ``shape`` over ``axes`` is split; 1 where it is not.

    The number follows from the shape alone (symbolic sizes at their hints), so the order of a sum
    is fixed for a plan, whatever the number of threads.
    """
    sizes = [hint(n) for n in shape]
    results = math.prod(n for i, n in enumerate(sizes) if i not in axes)
    length = math.prod(sizes[i] for i in axes)
    long = [i for i, n in enumerate(sizes) if n > 1]
    rows = not long or long[-1] in axes
    if results >= (_ROWS if rows else _COLUMNS):
        return 1
    most = max(min(_MOST, results * length // _GRAIN),
               min(_BLOCKS // max(1, results), length // _LONG))
    most = min(most, length // 16)
    return 1 << (most.bit_length() - 1) if most >= _LEAST else 1
