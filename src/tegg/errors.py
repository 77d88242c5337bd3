"""The exceptions of tegg: one sentence of fact, one of place, one of remedy."""

from __future__ import annotations


class TeggError(Exception):
    """The root of every exception that tegg raises on purpose."""


class ShapeError(TeggError, ValueError):
    """Shapes, ranks, axes or symbolic dims do not fit where an op was recorded or run."""


class DTypeError(TeggError, TypeError):
    """A dtype is unknown, does not fit an op, or would need a cast that nobody wrote."""


class ArgumentError(TeggError, ValueError):
    """An argument of a call is missing, unknown, or has a value that cannot be used."""


class RuleError(TeggError):
    """A rule file is malformed, names something that does not exist, or broke a promise.

    problems: what is wrong, each with its place and remedy; the message has a line for each.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ExtractionError(TeggError):
    """No program can be chosen: an op has no lowering for its dtype on the target."""


class BackendError(TeggError):
    """A device, a toolchain or a generated source failed."""


class CacheError(TeggError):
    """The on-disk cache cannot be written or read back."""


class WeightsError(TeggError, ValueError):
    """A weights file or a state dict is damaged, or does not fit the module."""


class OutgrownError(WeightsError):
    """A weight is larger than those were that a program was compiled for."""


class LoweringError(TeggError):
    """A fragment cannot be one kernel: its loop nest would be too large. The cover cuts there."""


class LimitWarning(UserWarning):
    """Rules were stopped at a limit: the program is right, and may be slower than it could be."""
