"""Emitted MSL compiled unchanged by g++ for the simulator: what kernels take, and how they are called."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from simt.simulator import HERE, Module, SimulatorError

# Numbers that say where a thread stands, in a grid of one dimension.
PLACES = {"thread_position_in_threadgroup": "simt_thread()",
          "thread_index_in_simdgroup": "(simt_thread() & 31u)",
          "simdgroup_index_in_threadgroup": "(simt_thread() / 32u)",
          "threadgroup_position_in_grid": "simt_block()",
          "threads_per_threadgroup": "simt_threads()",
          "threads_per_simdgroup": "32u",
          "threadgroups_per_grid": "simt_blocks()",
          "thread_position_in_grid": "(simt_block() * simt_threads() + simt_thread())"}
_KERNEL = re.compile(r"(?:\[\[max_total_threads_per_threadgroup\((\d+)\)\]\]\s*)?"
                     r"\bkernel\s+void\s+(\w+)\s*\(([^{]*)\)\s*\{")
_PARAMETER = re.compile(r"^(.*?)(\w+)\s*\[\[(\w+)(?:\((\d+)\))?\]\]$")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel: ``type name [[attribute(index)]]``."""

    type: str
    name: str
    attribute: str
    index: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """The head of a kernel. ``threads``: its limit, where it states one."""

    name: str
    threads: int | None
    parameters: tuple[Parameter, ...]

    @property
    def buffers(self) -> list[int]:
        return [p.index for p in self.parameters if p.attribute == "buffer"]


def plain(source: str) -> str:
    """A text without comments, of as many lines."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), source, flags=re.DOTALL)


def kernels(source: str) -> list[Kernel]:
    """The kernels of a text. Raises SimulatorError for a parameter without an attribute."""
    found = []
    for threads, name, inside in _KERNEL.findall(plain(source)):
        parameters = []
        for text in re.split(r",(?![^\[]*\])", inside):
            m = _PARAMETER.match(text.strip())
            if m is None:
                raise SimulatorError(f"{name}: parameter {text.strip()!r} has no attribute")
            parameters.append(Parameter(m[1].strip(), m[2], m[3], int(m[4] or -1)))
        found.append(Kernel(name, int(threads) if threads else None, tuple(parameters)))
    return found


class MetalModule(Module):
    """One translation unit of kernels in MSL. Arguments of a run are addresses by buffer index."""

    DEVICE = "metal"
    BOUND = False  # whether kernels are handed each array by itself
    HEAD = f'#include "{HERE}/metal/metal_stdlib"'
    FILE = "program_source"
    WARNINGS = (*Module.WARNINGS, "-Wno-unknown-pragmas", "-Wno-attributes",
                "-Wno-builtin-macro-redefined", f"-I{HERE}/metal")

    def found(self, source: str) -> list[str]:
        self.kernels = {k.name: k for k in kernels(source)}
        return list(self.kernels)

    def export(self, name: str) -> str:
        values = []
        for p in self.kernels[name].parameters:
            if p.attribute == "buffer":
                values.append(f"simt_any{{*((void ***)a)[{p.index}]}}")
            elif p.attribute in PLACES:
                values.append(PLACES[p.attribute])
            else:
                raise SimulatorError(f"{name}: nobody gives {p.name} [[{p.attribute}]] a value")
        count = len(self.kernels[name].buffers)
        return (f'extern "C" SIMT_PLAIN void simt_body_{name}(void *a) '
                f'{{ (void)a; {name}({", ".join(values)}); }}\n'
                f'extern "C" int simt_arguments_{name}(void) {{ return {count}; }}')


class Metal31(MetalModule):
    """The same in MSL 3.1, for Metal's own interface."""

    BOUND = True

    WARNINGS = (*MetalModule.WARNINGS, "-D__METAL_VERSION__=310")


class ByClang(MetalModule):
    """By clang, of the wheel ziglang, another front end and another optimiser: MSL is a dialect of
    its C++. For no processor in particular: for some it loads vectors of which it drops lanes; with
    passes, without which zig adds checks of its own."""

    COMPILER = (sys.executable, "-m", "ziglang", "c++")
    WARNINGS = (*(w for w in MetalModule.WARNINGS if w not in Module.WARNINGS),
                "-Wno-unknown-attributes", "-Wno-unused-const-variable", "-mcpu=baseline", "-O1")
