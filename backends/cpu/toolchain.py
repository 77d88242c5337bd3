"""Finds a C compiler, learns what the CPU can do, and turns C texts into cached shared objects."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache as remembered, partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from tegg import env
from tegg.cache import Cache, content_key
from tegg.cores import available
from tegg.errors import BackendError


# What values need. Nothing of -ffast-math: NaN, inf and -0.0 have a meaning. No contraction: a
# multiply-add that the compiler fuses in one place and not in another would give a value that
# depends on where it lies in a row; v_fma (vector.h) fuses where the printer says so. Buffers hold
# one type after another (the arena), which is what -fno-strict-aliasing allows.
_MEANING = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
            "-fno-strict-aliasing")
_SPEED = ("-O3", "-fno-semantic-interposition", "-fomit-frame-pointer")
_FORM = ("-std=gnu11", "-fPIC", "-fvisibility=hidden", "-pthread", "-w", "-Wno-psabi")
# Compilers take half of a register of AVX-512 for what loops over lanes compute, on processors
# that they think slow down by all of it; beside vectors of 16 lanes that gains nothing.
_WHOLE = "-mprefer-vector-width=512"
_NATIVE = (("-march=native",), ("-mcpu=native",), ())  # the first that the compiler accepts

_FEATURES = {
    "__AVX512F__": "avx512f", "__AVX512BW__": "avx512bw", "__AVX512DQ__": "avx512dq",
    "__AVX512VL__": "avx512vl", "__AVX512BF16__": "avx512bf16", "__AVX512FP16__": "avx512fp16",
    "__AVX512VNNI__": "avx512vnni", "__AVXVNNI__": "avxvnni", "__AVX2__": "avx2",
    "__AVX__": "avx", "__FMA__": "fma", "__F16C__": "f16c", "__SSE4_1__": "sse41",
    "__SSE2__": "sse2", "__AMX_TILE__": "amx-tile", "__AMX_BF16__": "amx-bf16",
    "__AMX_INT8__": "amx-int8", "__ARM_NEON": "neon", "__ARM_FEATURE_FMA": "fma",
    "__ARM_FEATURE_BF16": "bf16", "__ARM_FEATURE_SVE": "sve",
    **{f"__znver{n}__": "zen" for n in range(1, 6)},
    "__x86_64__": "x86-64", "__aarch64__": "aarch64", "__riscv": "riscv", "__powerpc64__": "ppc64",
}
_SHOWN = 30  # lines of a compiler's complaint that an error repeats
_LOOK = 2e-3  # seconds between looks at whether a compiler has ended


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
        return cache.build("so", self._key(units),
                           lambda path: self._link(cache, units, label, path))

    def shared_objects(self, cache: Cache, units: Mapping[str, str],
                       label: str) -> list[tuple[str, Path]]:
        """A shared object for each translation unit, with its key in the cache ("so").

        As ``shared_object``, which makes one of all.
        """
        keys = {name: self._key({name: text}) for name, text in units.items()}
        found = {name: cache.get("so", key) for name, key in keys.items()}
        lacking = {name: text for name, text in units.items() if found[name] is None}
        with tempfile.TemporaryDirectory(prefix="tegg-cc-") as folder:
            sources = _written(lacking, folder)
            made = [s.with_suffix(".so") for s in sources]
            self._compile(cache, sources, label, [["-shared", "-o", str(so), str(s), "-lm"]
                                                  for s, so in zip(sources, made)])
            for name, so in zip(lacking, made, strict=True):
                found[name] = cache.build("so", keys[name], partial(shutil.copyfile, so))
        return [(keys[name], path) for name, path in found.items() if path is not None]

    def preprocessed(self, text: str) -> str:
        """A text after its preprocessor, with the macros that are defined in it.

        Raises BackendError with the compiler's words where that fails.
        """
        mark = "#pragma tegg"  # before it stand the macros of the compiler
        command = [*self.command, *self.flags, "-E", "-P", "-dD", "-x", "c", "-"]
        done = _run(command, f"{mark}\n{text}")
        if done.returncode:
            words = "\n".join(done.stderr.strip().splitlines()[:_SHOWN])
            raise BackendError(f"{self.version} ({shlex.join(self.command)}) failed to preprocess "
                               f"the vector library: {words}\nTEGG_CC chooses another compiler.")
        return done.stdout.split(mark, 1)[1]

    def _key(self, units: Mapping[str, str]) -> str:
        return content_key(self.identity(), *(part for unit in units.items() for part in unit))

    def _link(self, cache: Cache, units: Mapping[str, str], label: str, path: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="tegg-cc-") as folder:
            sources = _written(units, folder)
            objects = [s.with_suffix(".o") for s in sources]
            self._compile(cache, sources, label, [["-c", "-o", str(o), str(s)]
                                                  for s, o in zip(sources, objects)])
            self._compile(cache, sources[:1], label, [["-shared", "-o", str(path),
                                                       *map(str, objects), "-lm"]])

    def _compile(self, cache: Cache, sources: Sequence[Path], label: str,
                 arguments: Sequence[Sequence[str]]) -> None:
        """Compile sources side by side. Raises BackendError with the words of the first that does
        not compile."""
        commands = [[*self.command, *self.flags, *a] for a in arguments]
        for source, (status, words) in zip(sources, _run_all(commands), strict=True):
            if status:
                raise self._refused(cache, source, label, status, words)

    def _refused(self, cache: Cache, source: Path, label: str, status: int,
                 words: str) -> BackendError:
        text = source.read_text(encoding="utf-8")
        kept = cache.keep(f"{content_key(text)[:12]}-{source.name}", text)
        shown = words.replace(str(source), str(kept)).strip().splitlines()
        how = f"status {status}" if status > 0 else f"signal {-status}"
        return BackendError("\n".join([
            f"{self.version} ({shlex.join(self.command)}) failed on {label} with {how}:",
            *shown[:_SHOWN], *_around(text, words, source),
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
    if "avx512f" in features:
        flags += (_WHOLE,)
    if "ziglang" in command:
        flags += ("-fno-sanitize=undefined",)  # which zig turns on by itself
    digest = content_key(*(f"{k} {v}" for k, v in sorted(macros.items())))[:16]
    return Toolchain(command, version, flags, features, digest)


def _written(units: Mapping[str, str], folder: str) -> list[Path]:
    sources = [Path(folder) / f"{name}.c" for name in units]
    for source, text in zip(sources, units.values(), strict=True):
        source.write_text(text, encoding="utf-8")
    return sources


def _run(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a compiler on a text, where it reads one."""
    with _named(command):
        return subprocess.run(command, capture_output=True, text=True, errors="replace",
                              check=False, input=text, env=_english())


def _run_all(commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Run compilers side by side, on the CPUs that are allowed: the status of each, and what it
    said. Without threads, for what a thread allocates stays in memory that it does not give back.
    """
    started: list[tuple[subprocess.Popen, IO[bytes]]] = []
    with ExitStack() as stack:
        for command in commands:
            while sum(process.poll() is None for process, _ in started) >= available():
                time.sleep(_LOOK)
            started.append(stack.enter_context(_running(command)))
        return [(process.wait(), _said(words)) for process, words in started]


@contextmanager
def _running(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen, IO[bytes]]]:
    """A compiler that runs, and the file of what it says; it ends with the block."""
    with tempfile.TemporaryFile() as words:
        with _named(command):
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words,
                                       stderr=words, env=_english())
        try:
            yield process, words
        finally:
            process.kill()  # nothing, where it has ended
            process.wait()


@contextmanager
def _named(command: Sequence[str]) -> Iterator[None]:
    """Where a command does not start, the error says which."""
    try:
        yield
    except OSError as e:
        raise OSError(f"{command[0]} does not run: {e.strerror or e}") from e


def _said(words: IO[bytes]) -> str:
    words.seek(0)
    return words.read().decode(errors="replace")


def _english() -> dict[str, str]:
    """Whatever the user's language, a compiler speaks English: errors are looked for."""
    return {**os.environ, "LC_ALL": "C"}


def _around(text: str, complaint: str, source: Path) -> list[str]:
    """The numbered lines around the place of the first error."""
    at = re.search(re.escape(str(source)) + r":(\d+):(?:\d+:)? (?:fatal )?error", complaint)
    if at is None:
        return []
    line, lines = int(at.group(1)), text.splitlines()
    first, last = max(1, line - 5), min(len(lines), line + 5)
    return [f"{'>' if n == line else ' '}{n:6d} | {lines[n - 1]}" for n in range(first, last + 1)]
