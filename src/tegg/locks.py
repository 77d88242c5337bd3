"""The lock that those who replace weights share with those who read several of them.

Whoever replaces weights holds it until all of them are new, and a program reads its weights and
their versions under it: what is computed from them ahead is of one state, never of two.
"""

from __future__ import annotations

import threading

WEIGHTS = threading.RLock()
