"""``tegg.Metal()``: the GPU as a compiler in a stack."""

from __future__ import annotations

from tegg.errors import ArgumentError
from tegg.rewrite.compiler import Compiler

from .chips import CHIPS
from .driver import open_device
from .target import Metal as Target


def Metal(*, chip: str | None = None) -> Compiler:
    """An Apple GPU as the device of a stack: ``[tegg.Generic(), tegg.Metal()]``.

    chip: plan for this one (``"M2 Pro"``), which needs no GPU; by default for that of the device.
    Raises BackendError where that cannot be opened, ArgumentError for a chip of no profile.
    """
    if chip is not None and chip not in CHIPS:
        raise ArgumentError(f"chip= is one of {', '.join(CHIPS)}, not {chip!r}")
    return Compiler(name="Metal", target=Target(open_device().name if chip is None else chip))
