"""The rule file that ``tegg rules new`` writes: small, true, and checked."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tegg.errors import ArgumentError

TEXT = """\
;; {name}: say here in one sentence what these rules are about.
;;
;; ruleset:  {name}
;; class:    bitwise
;; phase:    names
;; uses:     -
;; grows:    no
;; targets:  any

(ruleset {name})

;; max(x, x)  =>  x
(rewrite (Maximum x x) x
         :ruleset {name} :name "{name}/same")
"""


def new_rule_file(name: str, folder: Path | None = None) -> Path:
    """Write ``name.egg``. Raises ArgumentError for a name that no rule set may have, and where the
    file is there already."""
    stem = name.removesuffix(".egg")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", stem):
        raise ArgumentError(f"{name!r} is no name of a rule set; use small letters, digits and "
                            f"dashes, as in 'my-rules'")
    path = (folder or Path.cwd()) / f"{stem}.egg"
    try:
        with open(path, "x", encoding="utf-8") as f:
            f.write(TEXT.format(name=stem))
    except FileExistsError:
        raise ArgumentError(f"{path} is there already; choose another name") from None
    except OSError as e:
        raise ArgumentError(f"{path} cannot be written: {os.strerror(e.errno or 0)}") from None
    return path
