"""Kernels that tests emit for CUDA, given to NVIDIA's own compiler where it is installed: each once
in a process, whatever it is called, for an architecture that its instructions are of, and of many
that come together, such as a row for each op, every second. All, for every architecture, in the long
profile, and where a report is asked for.

None may spill because it has more values than registers. The assembler also spills a few bytes of its
own accord, to let more blocks run at a time; it does not where it is told that one is enough.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from profiles import LONG
from tegg.backends.cuda import nvrtc
from tegg.backends.cuda.program import prelude
from tegg.backends.cuda.resources import Resources, resources_of

ARCHITECTURES = (75, 80, 90)
MANY = 8  # kernels that come together and are all compiled
CHOSEN = 512  # bytes that the assembler may spill by its own choice, for more blocks at a time
# Bytes that a kernel may spill though it has all registers: float tiles of large heads, on 7.5.
_SPILLED = {75: 512}
REPORT = "TEGG_KERNEL_REPORT"  # the environment's name for a file that gets a line for each kernel
# Words of kernels that older devices are not given, and the first that are: functions of the prelude
# that they have no instruction for, attention on tensor cores.
_SINCE = {"mma_g(": 80, "mma_t(": 80, "wgmma_fence(": 90}
_NAME = re.compile(r"^(?:KERNEL\([\d, ]+\)|extern \"C\" __global__ void "
                   r"__launch_bounds__\([\d, ]+\)) (\w+)\(", re.MULTILINE)
_allowed: list[bool] = []
_real, _seen = nvrtc.find, set()  # tests put another compiler in its place


def admitted(source: str) -> tuple[int, ...]:
    """The architectures that a kernel's instructions are of."""
    first = max((since for word, since in _SINCE.items() if word in source), default=0)
    return tuple(a for a in ARCHITECTURES if a >= first)


def drawn(source: str, digest: bytes) -> int:
    """The one of ``admitted`` that the digest of a kernel's text draws."""
    found = admitted(source)
    return found[digest[0] % len(found)]


def unnamed(source: str) -> str:
    """A text that is the same for kernels that differ in their names alone."""
    for i, name in enumerate(_NAME.findall(source)):
        source = re.sub(rf"\b{name}\b", f"kernel{i}", source)
    return source


def kernels(source: str) -> list[str]:
    """The kernels of a program that has the prelude above them."""
    below = source.removeprefix(prelude())
    first, *found = re.split(r"^(?=KERNEL\([\d, ]+\) )", below, flags=re.MULTILINE)
    return found if not first.strip() else [below]


def check(sources: Iterable[str], every: bool = LONG or REPORT in os.environ) -> None:
    """Compile the texts of kernels, each with nothing but the prelude above it, that have not been
    compiled yet, for ``every`` architecture; else each for one, and of many those that their digests
    draw. Raises AssertionError for kernels that spill."""
    compiler = _real()
    if compiler is None:
        return
    keys = {hashlib.sha256(unnamed(text).encode()).digest(): text for text in sources if text.strip()}
    fresh = {key: text for key, text in keys.items() if key not in _seen}
    _seen.update(fresh)
    batches: dict[int, list[str]] = {}
    for key, text in fresh.items():
        if every or len(fresh) <= MANY or key[1] % 2:
            for architecture in admitted(text) if every else [drawn(text, key)]:
                batches.setdefault(architecture, []).append(text)
    for architecture, texts in batches.items():
        compiled(compiler, texts, architecture)


@contextmanager
def spills_allowed() -> Iterator[None]:
    """Kernels are compiled and reported, and may spill: those that are drawn at random have as much
    around their products as chance wants."""
    _allowed.append(True)
    try:
        yield
    finally:
        _allowed.pop()


def compiled(compiler: nvrtc.Nvrtc, texts: Sequence[str], architecture: int) -> None:
    """Compile kernels together. Raises AssertionError where one spills, CompileFailed where one is
    not taken."""
    found = resources_of(compiler.compile("\n".join([prelude(), *texts]), architecture)[1])
    assert {r.kernel for r in found} == set(_NAME.findall("\n".join(texts)))
    _report(found, architecture)
    spilling = {r.kernel: r for r in found if r.spill_stores or r.spill_loads}
    if spilling and not _allowed:
        again = [t for t in texts if spilling.keys() & set(_NAME.findall(t))]
        alone = resources_of(compiler.compile("\n".join([one_block(prelude()), *again]),
                                              architecture)[1])
        least = _SPILLED.get(architecture, 0)
        worst = [*(r for r in alone if r.spill_stores + r.spill_loads > least),
                 *(r for r in spilling.values() if r.spill_stores + r.spill_loads > max(least, CHOSEN))]
        assert not worst, f"sm_{architecture}: {[r.show() for r in worst]}\n" + "\n".join(again)


def one_block(text: str) -> str:
    """The prelude with kernels of which one block at a time is enough."""
    changed, count = re.subn(r"^#define KERNEL\(.*$", '#define KERNEL(threads, ...) extern "C" '
                             "__global__ void __launch_bounds__(threads, 1)", text, flags=re.MULTILINE)
    assert count == 1
    return changed


def _report(found: Sequence[Resources], architecture: int) -> None:
    if REPORT in os.environ:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
        rows = [json.dumps({"test": test, "sm": architecture, "kernel": r.kernel,
                            "registers": r.registers, "shared": r.shared_bytes,
                            "spilled": r.spill_stores + r.spill_loads}) for r in found]
        with Path(os.environ[REPORT]).open("a", encoding="utf-8") as f:
            f.write("".join(f"{row}\n" for row in rows))  # one write: others append too
