"""egglog's engine, without the Python layer of its package: that takes 0.3 s to import, and is not
used here. Import this late: the first import loads the engine, which starts threads of its own.

The child of a fork has none of these, and the engine would wait for them for ever.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from tegg.errors import BackendError

_NAME = "egglog.bindings"


def _alone() -> ModuleType:
    """The extension module by itself; ``import egglog`` finds it loaded later."""
    package = None if "egglog" in sys.modules else find_spec("egglog")
    spec = package and PathFinder.find_spec(_NAME, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        from egglog import bindings
        return bindings
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return sys.modules.setdefault(_NAME, module)


def _options() -> dict[str, Any]:
    """How e-graphs are opened. egglog 14 decomposes queries unless told not to, which is an order
    of magnitude slower here; 13 knows no such option."""
    known = str(EGraph.__text_signature__)
    return {"no_decomp": True} if "no_decomp" in known else {}


def opened() -> Any:
    """A new e-graph. Raises BackendError in the child of a fork."""
    if os.getpid() != _PROCESS:
        raise BackendError("this process was forked from one that had compiled, and what compiles "
                           "does not work in both; compile before the fork, or start processes by "
                           "multiprocessing's 'spawn' method")
    return EGraph(**OPTIONS)


_PROCESS = os.getpid()
EGraph = _alone().EGraph
OPTIONS = _options()
