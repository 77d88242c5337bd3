"""``tegg.Metal()``: the GPU as a compiler in a stack."""

from __future__ import annotations

from tegg.errors import ArgumentError
from tegg.rewrite.compiler import Compiler

from .chips import CHIPS
from .target import Metal as Target
from .target import opened

_WAYS = ("metalcompute", "metal")


def Metal(*, chip: str | None = None, through: str = "metalcompute") -> Compiler:
    """An Apple GPU as the device of a stack: ``[tegg.Generic(), tegg.Metal()]``.

    chip: plan for this one (``"M2 Pro"``), which needs no GPU; by default for that of the device.
    through: ``"metalcompute"``, the package; or ``"metal"``, Apple's framework itself, by ctypes:
    one command buffer for all kernels of a run, failures reported, no fast maths, compiled kernels
    kept on disk. Neither has run on a Mac yet.
    Raises BackendError where the GPU cannot be opened, ArgumentError for a chip of no profile.
    """
    if chip is not None and chip not in CHIPS:
        raise ArgumentError(f"chip= is one of {', '.join(CHIPS)}, not {chip!r}")
    if through not in _WAYS:
        raise ArgumentError(f"through= is one of {', '.join(_WAYS)}, not {through!r}")
    return Compiler(name="Metal", target=Target(opened(through).name if chip is None else chip,
                                                through))
