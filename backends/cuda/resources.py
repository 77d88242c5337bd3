"""What a kernel takes of the device, as its assembler says: registers, spills, shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """Of one kernel. Bytes that are spilled go through memory where registers do not suffice."""

    kernel: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_stores: int
    spill_loads: int

    def show(self) -> str:
        return (f"{self.kernel}: {self.registers} registers, {self.shared_bytes} bytes shared, "
                f"{self.spill_stores + self.spill_loads} bytes spilled")


_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def resources_of(log: str) -> tuple[Resources, ...]:
    """Of each kernel that a compiler's log (``-Xptxas -v``) tells of."""
    out = []
    for name, text in zip(_ENTRY.findall(log), _ENTRY.split(log)[2::2]):
        used, shared, stack = _USED.search(text), _SHARED.search(text), _STACK.search(text)
        if used is not None:
            frame, stores, loads = map(int, stack.groups()) if stack else (0, 0, 0)
            out.append(Resources(name, int(used[1]), int(shared[1]) if shared else 0, frame,
                                 stores, loads))
    return tuple(out)
