"""Fragments around attention, drawn by Hypothesis, lowered and held against the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attentions import Drawn, drawn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from profiles import examples
from simt import cases
from tegg.errors import LoweringError

TOGETHER = 6  # of a translation unit


def check_drawn(lower: Callable[[str, Drawn, Any], cases.Case],
                unit: Callable[[Sequence[cases.Case]], Any],
                agree: Callable[[Any, cases.Case, int], None], count: int, blocks: Sequence[Any],
                dtype: str = "f32") -> None:
    """Any shape, layout, mask and end; sizes that a call brings. ``lower`` is given a name, what was
    drawn and one of ``blocks``; what it refuses is left out."""
    @settings(max_examples=examples(count), deadline=None, suppress_health_check=list(HealthCheck),
              phases=[Phase.explicit, Phase.generate])
    @given(st.data())
    def run(data):
        found = []
        for number in range(TOGETHER):
            symbolic = frozenset(data.draw(st.sampled_from(("", "s", "m", "ms"))))
            d = data.draw(drawn(dtype, symbolic))
            try:
                c = lower(f"k{number}", d, data.draw(st.sampled_from(blocks)))
            except LoweringError:
                continue
            found.append((d, c))
        module = unit([c for _, c in found])
        for number, (d, c) in enumerate(found):
            c.sizes = {"m": 37, "s": 45, "a": 2} if c.code.symbols else {}
            c.inputs = d.inputs(c.sizes, number)
            agree(module, c, number % 3)

    run()
