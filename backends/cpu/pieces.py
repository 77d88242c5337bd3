"""Into how many pieces a thread's share of a step is cut.

A thread that has done its own takes over what others have not begun (``native/pieces.c``), so a
step ends at most a piece late, however unlike cores are. A piece costs tens of nanoseconds. Of the
steps that threads share every other one goes through its pieces backwards, on one thread too: what
the step before it touched last is still in a cache. But not where it reads weights that no cache
holds: what is asked for ahead is what comes next in memory.
"""

from __future__ import annotations

MOST = 32             # of a thread's share
SECONDS = 20e-6       # of a step that are worth a piece
MULTIPLIED = 1 << 20  # multiply-adds of a product that are worth one
READ = 1 << 16        # elements of an operand that is read once that are worth one
DEEP = 4              # cuts of columns, where the depth takes several blocks
AGAIN = 64            # columns of a cut at least, for each operation of placing a row again


def pieces(seconds: float) -> int:
    """Of a share that takes so long."""
    return max(1, int(min(MOST, seconds / SECONDS)))


def words(work: int) -> dict[str, str]:
    """What the text of a product is told: the most pieces, and what is worth one."""
    return dict(PIECES=str(MOST), PIECE_WORK=str(work))
