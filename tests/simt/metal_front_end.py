"""Emitted MSL read by another front end: clang's C++ for OpenCL, from the wheel ziglang."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from simt.simulator import HERE, SimulatorError

# No address space stands for all, so a pointer that names none is a thread's; no double.
_FLAGS = ("-x", "clcpp", "-cl-std=clc++2021", "-triple", "spir64-unknown-unknown", "-fsyntax-only",
          "-cl-ext=-all,+cl_khr_fp16", "-Wno-unknown-attributes", "-Wno-unused-variable",
          "-Wno-builtin-macro-redefined", "-Werror=conversion-null")


@functools.cache
def there() -> bool:
    """Whether the wheel is installed."""
    return find_spec("ziglang") is not None


def judge(source: str, version: int = 230) -> None:
    """Raises SimulatorError with the compiler's words for a text that it refuses. version: of MSL, as
    __METAL_VERSION__ has it."""
    text = source.replace("#include <metal_stdlib>", "").replace(
        "#include <metal_simdgroup_matrix>", "")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.clcpp"
        path.write_text(f'#include "{HERE}/metal/opencl.h"\n#line 1 "program_source"\n{text}')
        done = subprocess.run([sys.executable, "-m", "ziglang", "-cc1", *_FLAGS,
                               f"-D__METAL_VERSION__={version}", str(path)],
                              capture_output=True, text=True, check=False)
    if done.returncode:
        raise SimulatorError(done.stderr[:3000])
