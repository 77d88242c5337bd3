"""The door to Hypothesis, which comes with the extra ``testing``."""

from __future__ import annotations

from tegg.errors import ArgumentError

try:
    from hypothesis import HealthCheck, Phase, assume, given, note, seed, settings
    from hypothesis import strategies as st
except ModuleNotFoundError as e:
    if e.name != "hypothesis":
        raise
    raise ArgumentError("what tegg.testing draws needs Hypothesis, which is not installed; "
                        "pip install 'tegg[testing]'") from None

__all__ = ["HealthCheck", "Phase", "assume", "given", "note", "seed", "settings", "st"]
