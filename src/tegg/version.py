"""The version, and what tells one state of the code from another between versions."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path

__version__ = "0.1.0"


@lru_cache(maxsize=1)
def code_stamp() -> str:
    """Names, sizes and times of the files of the package: cached plans of other code are not used.

    A version number alone would let a checkout that was edited, or updated, run old plans.
    """
    out = [__version__]
    for package in ("tegg", "tegg.backends"):
        root = Path(str(files(package)))
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                info = path.stat()
                out.append(f"{path.relative_to(root)} {info.st_size} {info.st_mtime_ns}")
    return "\n".join(out)
