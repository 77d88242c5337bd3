"""The suite of workloads as tegg sees them: functions of what varies, graphs, arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def names() -> list[str]:
    """The names of all workloads."""
    return list(_suite())


def workload(name: str) -> tuple[Callable, dict[str, np.ndarray]]:
    """A workload's function of the arguments that are no weights, and these arguments."""
    suite = _suite()  # first: it says where the next module is
    from in_tegg import Tegg
    found = suite[name]
    given = found.inputs()
    free = {k: v for k, v in given.items() if k not in found.weights}
    run = getattr(Tegg(0), name)

    def body(*args):
        return run(**{**given, **dict(zip(free, args))})
    return body, free


def graph(name: str):
    """The graph of a workload."""
    from tegg.trace import trace
    body, free = workload(name)
    return trace(body, tuple(free.values())).graph


def _suite() -> dict:
    """The suite against peers, which stands in a folder of scripts."""
    folder = str(HERE / "peers")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from workloads import SUITE
    return SUITE
