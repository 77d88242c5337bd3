"""How many examples property tests draw, beside the profiles of conftest.py."""

from __future__ import annotations

from hypothesis import settings

# For tests that stand once for each row of a table; the long profile scales it.
few = settings(max_examples=max(8, settings.default.max_examples // 4))


def examples(count: int) -> int:
    """How many examples a dear test draws, ``count`` of them in the short profile."""
    return max(1, count * settings.default.max_examples // 50)


LONG = examples(1) > 1
