"""The on-disk cache: round trips, damage, races between processes, folders that are no use."""

import multiprocessing
import os
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegg import cache as module
from tegg.cache import Cache, content_key, default, write_atomic
from tegg.errors import ArgumentError, CacheError

MB = 1 << 20
parts = st.lists(st.one_of(st.text(max_size=4), st.binary(max_size=4)), max_size=4)


def as_bytes(values):
    return [v.encode() if isinstance(v, str) else v for v in values]


@given(parts, parts)
def test_keys_are_equal_only_for_equal_parts(a, b):
    assert (content_key(*a) == content_key(*b)) == (as_bytes(a) == as_bytes(b))


@given(st.binary(max_size=200))
def test_what_is_put_is_read(tmp_path_factory, data):
    cache = Cache(tmp_path_factory.getbasetemp() / "round", MB)
    path = cache.put("plan", content_key(data), data)
    assert cache.read("plan", content_key(data)) == data
    assert cache.get("plan", content_key(data)) == path and path.suffix == ".plan"
    assert cache.read("so", content_key(data)) is None


def test_an_entry_is_made_once(tmp_path):
    cache, made = Cache(tmp_path, MB), []
    for _ in range(2):
        path = cache.build("so", "ab" * 20, lambda p: (made.append(p), p.write_text("x")))
        assert path.read_text() == "x"
    assert len(made) == 1


def test_a_failed_build_leaves_nothing(tmp_path):
    cache = Cache(tmp_path, MB)

    def fail(path):
        path.write_text("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.build("so", "ab" * 20, fail)
    assert cache.get("so", "ab" * 20) is None
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("damage", [b"", b"half", b"other bytes of it",
                                    b"the right bytes and more"])
def test_a_damaged_entry_is_built_again(tmp_path, damage):
    cache = Cache(tmp_path, MB)
    path = cache.put("plan", "cd" * 20, b"the right bytes!!")
    path.write_bytes(damage)
    assert cache.get("plan", "cd" * 20) is None and not path.exists()
    built = cache.build("plan", "cd" * 20, lambda p: p.write_bytes(b"again"))
    assert built.read_bytes() == b"again"


def test_an_entry_that_vanishes_counts_as_absent(tmp_path, monkeypatch):
    cache = Cache(tmp_path, MB)
    path = cache.put("plan", "cd" * 20, b"x")
    monkeypatch.setattr(cache, "get", lambda kind, key: path)
    path.unlink()
    assert cache.read("plan", "cd" * 20) is None


def race(root, seed, out):
    cache = Cache(root, MB)
    for i in range(40):
        key = content_key(str((i * 7 + seed * 3) % 20))
        data = key.encode() * 500
        path = cache.build("plan", key, lambda p, data=data: p.write_bytes(data))
        if path.read_bytes() != data or cache.read("plan", key) != data:
            out.put(f"wrong bytes under {key}")
            return
    out.put("right")


def test_processes_that_race(tmp_path):
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    running = [context.Process(target=race, args=(tmp_path, n, out)) for n in range(3)]
    for p in running:
        p.start()
    assert [out.get(timeout=60) for _ in running] == ["right"] * 3
    for p in running:
        p.join()
    assert not list(tmp_path.rglob(".tmp-*"))
    assert len(list(tmp_path.rglob("*.plan"))) == 20


def test_a_folder_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    cache = Cache(blocked / "cache", MB)
    with pytest.warns(RuntimeWarning, match=r"cannot be written .*forgotten when the process ends; "
                                            r"set TEGG_CACHE"):
        path = cache.put("plan", "ab" * 20, b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert cache.read("plan", "ab" * 20) == b"x"
        cache.put("plan", "cd" * 20, b"y")
    folder = cache._private
    assert folder in path.parents
    del cache
    assert not folder.exists()


def test_a_folder_in_which_others_write_is_not_trusted(tmp_path):
    Cache(tmp_path, MB).put("plan", "ab" * 20, b"planted")
    (tmp_path / module.VERSION).chmod(0o777)
    cache = Cache(tmp_path, MB)
    assert cache.read("plan", "ab" * 20) is None
    with pytest.warns(RuntimeWarning, match="another user can write in it"):
        cache.put("plan", "ab" * 20, b"ours")
    assert cache.read("plan", "ab" * 20) == b"ours"


def test_no_folder_at_all(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")

    def refuse(prefix):
        raise OSError("no room")

    monkeypatch.setattr(module.tempfile, "mkdtemp", refuse)
    with pytest.raises(CacheError, match=r"nor is there a temporary folder \(no room\); set TEGG"):
        Cache(blocked, MB).put("plan", "ab" * 20, b"x")


def test_a_private_folder_that_is_lost(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    cache = Cache(blocked, MB)
    with pytest.warns(RuntimeWarning):
        cache.put("plan", "ab" * 20, b"x")
    cache._private = blocked
    with pytest.raises(CacheError, match="neither the cache folder .* nor the temporary folder"):
        cache.put("plan", "cd" * 20, b"x")


def test_pruning_takes_what_was_unused_longest(tmp_path):
    cache = Cache(tmp_path, 2500)
    paths = [cache.put("plan", content_key(str(i)), bytes(1000)) for i in range(4)]
    now = time.time()
    for i, path in enumerate(paths):
        os.utime(path, (now - 7200 * (i + 1),) * 2)
    assert cache.get("plan", content_key("3"))  # the oldest is used again
    dead = paths[0].parent / ".tmp-dead.plan"
    dead.write_text("")
    os.utime(dead, (now - 7200,) * 2)
    young = paths[0].parent / ".tmp-young.plan"
    young.write_text("")
    cache.prune()
    assert [p.exists() for p in paths] == [True, False, False, True]
    assert not dead.exists() and young.exists()


def test_pruning_happens_about_once_a_day(tmp_path, monkeypatch):
    cache = Cache(tmp_path, MB)
    runs = []
    monkeypatch.setattr(cache, "prune", lambda: runs.append(1))
    cache.put("plan", "ab" * 20, b"x")
    cache.put("plan", "cd" * 20, b"x")
    assert len(runs) == 1
    os.utime(tmp_path / module.VERSION / ".pruned", (0, 0))
    cache.put("plan", "ef" * 20, b"x")
    assert len(runs) == 2


def test_the_default_cache_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path / "here"))
    monkeypatch.setenv("TEGG_CACHE_LIMIT", "3")
    assert default().root == tmp_path / "here" and default().limit == 3 * MB
    assert default() is default()
    monkeypatch.delenv("TEGG_CACHE")
    assert default().root.name == "tegg"


def test_kept_files(tmp_path):
    path = Cache(tmp_path, MB).keep("k.c", "int x;")
    assert path.read_text() == "int x;" and tmp_path in path.parents


def test_atomic_files(tmp_path):
    write_atomic(tmp_path / "a", b"one")
    write_atomic(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(ArgumentError, match="none/a cannot be written: No such file"):
        write_atomic(tmp_path / "none" / "a", b"x")
