"""The public kit of tests: of rules, of stacks of compilers, of backends (extra ``testing``)."""

import importlib
from typing import Any

# Each needs more than what the others need: most draw with Hypothesis.
_LAZY = {
    "BackendReport": "backend",
    "CompilersReport": "compilers",
    "check_backend": "backend",
    "check_compilers": "compilers",
    "check_drawn": "rows",
    "check_egraph": "agree",
    "check_elementwise": "rows",
    "check_kernel": "fragment",
    "check_program": "backend",
    "check_results": "kernels",
    "check_rules": "workbench",
    "strategies": "",
}

__all__ = [
    "BackendReport",
    "CompilersReport",
    "check_backend",
    "check_compilers",
    "check_drawn",
    "check_egraph",
    "check_elementwise",
    "check_kernel",
    "check_program",
    "check_results",
    "check_rules",
    "strategies",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tegg.testing' has no attribute {name!r}")
    module = importlib.import_module(f"tegg.testing.{_LAZY[name] or name}")
    value = globals()[name] = getattr(module, name) if _LAZY[name] else module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
