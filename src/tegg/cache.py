"""The on-disk cache: files by content hash, safe under concurrent processes.

An entry is one file, ``<root>/v1/<kind>/<k>/<key>-<digest>.<kind>``. Its name holds the digest of
its bytes, so a torn or damaged file is recognised, and renaming into place is the only step that
makes it visible: builders that race each leave a whole entry, and either will do.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache as remembered
from pathlib import Path
from threading import Lock

import platformdirs

from tegg import env
from tegg.errors import ArgumentError, CacheError, TeggError

VERSION = "v1"         # of the layout below the root; files of other versions age away unseen
_TOUCH_AFTER = 3600.0  # seconds; how exact the time of last use is
_PRUNE_EVERY = 86400.0
_STALE = 3600.0        # an unfinished file this old belongs to a process that died
_DIGEST = 32           # hexadecimal digits of the digest in a name
_PART = 1 << 16  # bytes of a file that are in memory at a time


def content_key(*parts: str | bytes) -> str:
    """One key for several texts; each part counts with its length, so no two lists collide."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()[:40]


class Cache:
    """Files by ``(kind, key)``. ``kind`` is the folder and the suffix (``"so"``, ``"plan"``).

    A folder that cannot be written (or belongs to somebody else, who could plant code in it) is
    not an error: one warning says so, and a private temporary folder holds new entries until the
    process ends. ``limit`` is in bytes; entries that were not used for longest go first.
    """

    def __init__(self, root: Path, limit: int) -> None:
        self.root = Path(root)
        self.limit = limit
        self._folder = self.root / VERSION
        self._private: Path | None = None
        self._lock = Lock()

    def get(self, kind: str, key: str) -> Path | None:
        """The file of an entry, or None. A damaged one is deleted and counts as absent."""
        for base in self._readable():
            for path in _files(base / kind / key[:2], key):
                if _intact(path):
                    _touch(path)
                    return path
        return None

    def read(self, kind: str, key: str) -> bytes | None:
        """The bytes of an entry, or None."""
        path = self.get(kind, key)
        try:
            return None if path is None else path.read_bytes()
        except OSError:  # evicted by another process since get
            return None

    def put(self, kind: str, key: str, data: bytes) -> Path:
        """Store bytes and give their file."""
        return self._store(kind, key, lambda path: path.write_bytes(data))

    def build(self, kind: str, key: str, make: Callable[[Path], object]) -> Path:
        """The file of an entry, which ``make(path)`` writes first where it is not there yet."""
        return self.get(kind, key) or self._store(kind, key, make)

    def drop(self, kind: str, key: str) -> None:
        """Forget an entry: what it says is no longer true."""
        for base in self._readable():
            for path in _files(base / kind / key[:2], key):
                with suppress(OSError):  # of a cache that cannot be written, or gone already
                    path.unlink()

    def keep(self, name: str, text: str) -> Path:
        """Write a file for a human to look at (a source that failed), outside the entries."""
        def write(base: Path) -> Path:
            folder = base / "failed"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
            return folder / name
        return self._writing(write)

    def prune(self) -> None:
        """Delete what was not used for longest until the rest is within the limit."""
        found = []
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = Path(folder) / name
                try:
                    info = path.stat()
                except OSError:
                    continue
                if not name.startswith("."):
                    found.append((info.st_mtime, info.st_size, path))
                elif name.startswith(".tmp-") and time.time() - info.st_mtime > _STALE:
                    path.unlink(missing_ok=True)
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.limit:
                break
            path.unlink(missing_ok=True)
            total -= size

    def _readable(self) -> list[Path]:
        folders = [self._folder] if _ours(self._folder) else []
        return folders + ([self._private] if self._private else [])

    def _store(self, kind: str, key: str, make: Callable[[Path], object]) -> Path:
        """Make the file aside, then rename it to a name that holds its digest."""
        path = self._writing(lambda base: _store(base, kind, key, make))
        self._prune_sometimes()
        return path

    def _writing(self, write: Callable[[Path], Path]) -> Path:
        """``write(base)`` in the cache's folder or, where that cannot be, in a private one."""
        if self._private is None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                if not _ours(self._folder):
                    raise PermissionError("another user can write in it, and so plant code")
                return write(self._folder)
            except OSError as e:
                with self._lock:  # units of one program are stored from several threads
                    if self._private is None:
                        self._go_private(e)
        assert self._private is not None
        try:
            return write(self._private)
        except OSError as e:
            raise CacheError(f"neither the cache folder {self.root} nor the temporary folder "
                             f"{self._private} can be written ({e}); set TEGG_CACHE to a folder "
                             f"with free space that you own") from e

    def _go_private(self, cause: OSError) -> None:
        try:
            folder = Path(tempfile.mkdtemp(prefix="tegg-"))
        except OSError as e:
            raise CacheError(f"the cache folder {self.root} cannot be written ({cause}), nor is "
                             f"there a temporary folder ({e}); set TEGG_CACHE to a folder that "
                             f"you own") from e
        self._private = folder
        weakref.finalize(self, _remove, folder, os.getpid())
        warnings.warn(f"the cache folder {self.root} cannot be written ({cause}); what is compiled "
                      f"now is forgotten when the process ends; set TEGG_CACHE to a folder that "
                      f"you own", RuntimeWarning, stacklevel=2)

    def _prune_sometimes(self) -> None:
        """Prune about once a day, whoever comes first; a marker file holds the time."""
        if self._private is not None:
            return
        marker = self._folder / ".pruned"
        try:
            if time.time() - marker.stat().st_mtime < _PRUNE_EVERY:
                return
        except OSError:
            pass
        try:
            marker.touch()
            self.prune()
        except OSError:  # pruning is a courtesy: the entry is stored already
            return


def write_atomic(path: Path, data: bytes | memoryview,
                 error: type[TeggError] = ArgumentError) -> None:
    """Write a file that is there in full or not at all, with the permissions of any new file.
    Raises ``error`` where it cannot."""
    aside = path.parent / f".tmp-{secrets.token_hex(8)}"
    try:
        # not by tempfile, whose files nobody else may read
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0),
                         0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(aside, path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
    except OSError as e:
        raise error(f"{path} cannot be written: {e.strerror or e}") from e


def default() -> Cache:
    """The cache of this user: ``TEGG_CACHE``, else the platform's folder for caches."""
    root = env.CACHE.get() or platformdirs.user_cache_dir("tegg", appauthor=False)
    return _at(str(Path(root).expanduser().absolute()), env.CACHE_LIMIT.get() << 20)


@remembered
def _at(root: str, limit: int) -> Cache:
    return Cache(Path(root), limit)


def _store(base: Path, kind: str, key: str, make: Callable[[Path], object]) -> Path:
    folder = base / kind / key[:2]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(prefix=".tmp-", suffix="." + kind, dir=folder)
    os.close(handle)
    aside = Path(name)
    try:
        make(aside)
        path = folder / f"{key}-{_digest(aside)}.{kind}"
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    return path


def _files(folder: Path, key: str) -> list[Path]:
    """The files of an entry: several, where builders raced."""
    try:
        return sorted(folder / n for n in os.listdir(folder) if n.startswith(key + "-"))
    except OSError:
        return []


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while part := file.read(_PART):
            digest.update(part)
    return digest.hexdigest()[:_DIGEST]


def _intact(path: Path) -> bool:
    """Whether the bytes are those that the name promises; deletes the file if not."""
    try:
        if _digest(path) == path.stem[-_DIGEST:]:
            return True
        path.unlink(missing_ok=True)
    except OSError:
        pass
    return False


def _touch(path: Path) -> None:
    """Note the use of an entry, which is what eviction goes by."""
    try:
        if time.time() - path.stat().st_mtime > _TOUCH_AFTER:
            os.utime(path)
    except OSError:  # a read-only cache is read all the same
        return


def _ours(folder: Path) -> bool:
    """Whether a folder may hold code for us: only we, or the administrator, can write in it."""
    try:
        found = folder.stat()
    except OSError:
        return False
    return not hasattr(os, "getuid") or (
        found.st_uid in (os.getuid(), 0) and not found.st_mode & stat.S_IWOTH)


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # a forked child must leave its parent's folder alone
        shutil.rmtree(folder, ignore_errors=True)
