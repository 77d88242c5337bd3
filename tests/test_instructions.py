"""Which instructions for narrow products are offered, as the compiler and the system have them."""

from __future__ import annotations

import ctypes

import pytest

from tegg.backends.cpu import instructions as module
from tegg.backends.cpu.instructions import BYTE_TILES, BYTES, PAIRS, TILES, instructions

AMX = frozenset({"amx-tile", "amx-bf16", "amx-int8"})


def test_dots_take_whole_vectors():
    both = {"avx512bf16", "avx512vnni"}
    assert instructions(both, 16) == {PAIRS, BYTES}
    assert instructions(both, 8) == instructions(both, 4) == frozenset()
    assert instructions({"avx512vnni"}, 16) == {BYTES}
    assert instructions(set(), 16) == frozenset()


@pytest.mark.parametrize("granted", (True, False))
def test_tiles_need_the_system(granted, monkeypatch):
    monkeypatch.setattr(module, "tiles_granted", lambda: granted)
    assert instructions(AMX, 16) == ({TILES, BYTE_TILES} if granted else frozenset())
    assert instructions(AMX - {"amx-int8"}, 16) == frozenset()


@pytest.fixture
def asked(monkeypatch):
    """What the system was asked, and what it answers."""
    module.tiles_granted.cache_clear()
    calls, answers = [], [0]

    class Library:
        def __init__(self, *args, **more):
            self.syscall = self

        def __call__(self, *arguments):
            calls.append([a.value for a in arguments])
            return answers[0]

    monkeypatch.setattr(ctypes, "CDLL", Library)
    yield calls, answers
    module.tiles_granted.cache_clear()


def test_the_system_is_asked_once(asked, monkeypatch):
    calls, _ = asked
    monkeypatch.setattr(module.sys, "platform", "linux")
    assert module.tiles_granted() and module.tiles_granted()
    assert calls == [[158, 0x1023, 18]]


def test_a_refusal_is_no_error(asked, monkeypatch):
    _, answers = asked
    answers[0] = -1
    monkeypatch.setattr(module.sys, "platform", "linux")
    assert not module.tiles_granted()


def test_other_systems_are_not_asked(asked, monkeypatch):
    calls, _ = asked
    monkeypatch.setattr(module.sys, "platform", "darwin")
    assert not module.tiles_granted() and not calls
