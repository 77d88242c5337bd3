"""The table of environment variables."""

from __future__ import annotations

import pytest

from tegg.env import VARIABLES, Variable
from tegg.errors import ArgumentError

SIZE = Variable("TEGG_TEST_SIZE", "int", 3, "how large")
PLACE = Variable("TEGG_TEST_PLACE", "path", None, "where")


def test_defaults_and_values(monkeypatch):
    assert SIZE.get() == 3 and PLACE.get() is None
    monkeypatch.setenv("TEGG_TEST_SIZE", "12")
    monkeypatch.setenv("TEGG_TEST_PLACE", "/a b")
    assert SIZE.get() == 12 and PLACE.get() == "/a b"
    monkeypatch.setenv("TEGG_TEST_SIZE", "")
    assert SIZE.get() == 3


@pytest.mark.parametrize("text", ["-1", "many", "1.5"])
def test_what_is_no_number(monkeypatch, text):
    monkeypatch.setenv("TEGG_TEST_SIZE", text)
    with pytest.raises(ArgumentError) as e:
        SIZE.get()
    assert str(e.value) == (f"TEGG_TEST_SIZE={text!r} is not a whole number of 0 or more; "
                            f"how large")


def test_every_variable_says_what_it_does():
    assert len({v.name for v in VARIABLES}) == len(VARIABLES)
    assert all(v.name.startswith("TEGG_") and v.doc for v in VARIABLES)
