"""Finds a C compiler, learns what the CPU can do, and turns C texts into cached shared objects."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache as remembered
from importlib.util import find_spec
from pathlib import Path

from tegg import env
from tegg.cache import Cache, content_key
from tegg.cores import side_by_side
from tegg.errors import BackendError


# What values need. Nothing of -ffast-math: NaN, inf and -0.0 have a meaning. No contraction: a
# multiply-add that the compiler fuses in one place and not in another would give a value that
# depends on where it lies in a row; v_fma (vector.h) fuses where the printer says so. Buffers hold
# one type after another (the arena), which is what -fno-strict-aliasing allows.
_MEANING = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
            "-fno-strict-aliasing")
_SPEED = ("-O3", "-fno-semantic-interposition", "-fomit-frame-pointer")
_FORM = ("-std=gnu11", "-fPIC", "-fvisibility=hidden", "-pthread", "-w", "-Wno-psabi")
_NATIVE = (("-march=native",), ("-mcpu=native",), ())  # the first that the compiler accepts

_FEATURES = {
    "__AVX512F__": "avx512f", "__AVX512BW__": "avx512bw", "__AVX512DQ__": "avx512dq",
    "__AVX512VL__": "avx512vl", "__AVX512BF16__": "avx512bf16", "__AVX512FP16__": "avx512fp16",
    "__AVX512VNNI__": "avx512vnni", "__AVX2__": "avx2", "__AVX__": "avx", "__FMA__": "fma",
    "__F16C__": "f16c", "__SSE4_1__": "sse41", "__SSE2__": "sse2", "__AMX_TILE__": "amx-tile",
    "__AMX_BF16__": "amx-bf16", "__AMX_INT8__": "amx-int8", "__ARM_NEON": "neon",
    "__ARM_FEATURE_FMA": "fma", "__ARM_FEATURE_BF16": "bf16", "__ARM_FEATURE_SVE": "sve",
    "__x86_64__": "x86-64", "__aarch64__": "aarch64", "__riscv": "riscv", "__powerpc64__": "ppc64",
}
_SHOWN = 30  # lines of a compiler's complaint that an error repeats


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler that was seen to work here, its flags, and the CPU that it compiles for."""

    command: tuple[str, ...]
    version: str                # such as "gcc 12.2.0"
    flags: tuple[str, ...]
    features: frozenset[str]    # of the CPU: "avx512f", "neon", ...
    macros: str                 # digest of every predefined macro: all else that tells CPUs apart

    @property
    def lanes(self) -> int:
        """Float32 values in one vector: ``TEGG_LANES`` in the prelude."""
        if "avx512f" in self.features:
            return 16
        return 8 if {"avx2", "fma"} <= self.features else 4

    def identity(self) -> str:
        """Everything on which compiled code depends besides its source."""
        return " ".join((*self.command, self.version, *self.flags, *sorted(self.features),
                         self.macros))

    def shared_object(self, cache: Cache, units: Mapping[str, str], label: str) -> Path:
        """The shared object of translation units (name -> text), from the cache if it is there.

        Several units are compiled at once, on the CPUs that are allowed. Raises BackendError with
        the compiler's words where one does not compile.
        """
        return self._built(cache, units, label)[1]

    def shared_objects(self, cache: Cache, units: Mapping[str, str],
                       label: str) -> list[tuple[str, Path]]:
        """A shared object for each translation unit, with its key in the cache ("so").

        As ``shared_object``, which makes one of all.
        """
        each = [{name: text} for name, text in units.items()]
        if len(each) == 1:
            return [self._built(cache, each[0], label)]
        return side_by_side(lambda unit: self._built(cache, unit, label), each)

    def _built(self, cache: Cache, units: Mapping[str, str], label: str) -> tuple[str, Path]:
        """The key and the file of a shared object, which is compiled where it is not there yet."""
        key = content_key(self.identity(), *(part for unit in units.items() for part in unit))
        return key, cache.build("so", key, lambda path: self._link(cache, units, label, path))

    def _link(self, cache: Cache, units: Mapping[str, str], label: str, path: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="tegg-cc-") as folder:
            sources = [Path(folder) / f"{name}.c" for name in units]
            for source, text in zip(sources, units.values(), strict=True):
                source.write_text(text, encoding="utf-8")
            link = ["-shared", "-o", str(path)]
            if len(sources) == 1:
                self._compile(cache, sources[0], label, [*link, str(sources[0]), "-lm"])
                return
            objects = [s.with_suffix(".o") for s in sources]
            side_by_side(lambda s, o: self._compile(cache, s, label, [
                "-c", "-o", str(o), str(s)]), sources, objects)
            self._compile(cache, sources[0], label, [*link, *map(str, objects), "-lm"])

    def _compile(self, cache: Cache, source: Path, label: str, arguments: Sequence[str]) -> None:
        done = _run([*self.command, *self.flags, *arguments])
        if done.returncode == 0:
            return
        text = source.read_text(encoding="utf-8")
        kept = cache.keep(f"{content_key(text)[:12]}-{source.name}", text)
        words = done.stderr.replace(str(source), str(kept)).strip().splitlines()
        how = f"status {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
        raise BackendError("\n".join([
            f"{self.version} ({shlex.join(self.command)}) failed on {label} with {how}:",
            *words[:_SHOWN], *_around(text, done.stderr, source),
            f"The source is kept at {kept}. TEGG_CC chooses another compiler."]))


def find() -> Toolchain:
    """The compiler in use: TEGG_CC, else the first that works of cc, gcc, clang and ziglang's.

    Raises BackendError with what was tried where there is none.
    """
    return _find(env.CC.get())


@remembered
def _find(chosen: str | None) -> Toolchain:
    if chosen is not None:
        try:
            return _probe(_command(chosen))
        except (OSError, ValueError) as e:
            raise BackendError(f"TEGG_CC={chosen!r} is no working C compiler: {e}; set it to the "
                               f"path of gcc or clang, or unset it") from None
    tried = []
    for command in _candidates():
        try:
            return _probe(command)
        except OSError as e:
            tried.append(f"{shlex.join(command)}: {e}")
    found = "; ".join(tried) or ("cc, gcc and clang, which are not on PATH, and the Python package "
                                 "ziglang, which is not installed")
    raise BackendError(f"no C compiler works here (tried {found}). Install gcc or clang (Debian: "
                       "apt install gcc; macOS: xcode-select --install), or pip install "
                       "'tegg[zig]', or set TEGG_CC")


def _command(text: str) -> tuple[str, ...]:
    return (text,) if Path(text).exists() else tuple(shlex.split(text))


def _candidates() -> list[tuple[str, ...]]:
    found = [(name,) for name in ("cc", "gcc", "clang") if shutil.which(name)]
    if find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "cc"))
    return found


def _probe(command: tuple[str, ...]) -> Toolchain:
    """Ask a compiler for its macros. Raises OSError with its words."""
    problem = ""
    for native in _NATIVE:
        done = _run([*command, *native, "-dM", "-E", "-x", "c", "/dev/null"])
        macros = dict(re.findall(r"^#define (\w+) ?(.*)$", done.stdout, re.MULTILINE))
        if done.returncode == 0 and "__VERSION__" in macros:
            return _accept(command, native, macros)
        problem = (done.stderr.strip() or f"status {done.returncode}").splitlines()[0]
    raise OSError(problem)


def _accept(command: tuple[str, ...], native: tuple[str, ...],
            macros: Mapping[str, str]) -> Toolchain:
    kind = "clang" if "__clang__" in macros else "gcc"
    parts = ("__clang_major__", "__clang_minor__", "__clang_patchlevel__") if kind == "clang" \
        else ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__")
    version = f"{kind} {'.'.join(macros.get(p, '0') for p in parts)}"
    features = frozenset(f for macro, f in _FEATURES.items() if macro in macros)
    flags = _SPEED + native + _MEANING + _FORM
    if "ziglang" in command:
        flags += ("-fno-sanitize=undefined",)  # which zig turns on by itself
    digest = content_key(*(f"{k} {v}" for k, v in sorted(macros.items())))[:16]
    return Toolchain(command, version, flags, features, digest)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler. It speaks English, whatever the user's language: errors are looked for."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace",
                              check=False, stdin=subprocess.DEVNULL,
                              env={**os.environ, "LC_ALL": "C"})
    except OSError as e:
        raise OSError(f"{command[0]} does not run: {e.strerror or e}") from e


def _around(text: str, complaint: str, source: Path) -> list[str]:
    """The numbered lines around the place of the first error."""
    at = re.search(re.escape(str(source)) + r":(\d+):(?:\d+:)? (?:fatal )?error", complaint)
    if at is None:
        return []
    line, lines = int(at.group(1)), text.splitlines()
    first, last = max(1, line - 5), min(len(lines), line + 5)
    return [f"{'>' if n == line else ' '}{n:6d} | {lines[n - 1]}" for n in range(first, last + 1)]
