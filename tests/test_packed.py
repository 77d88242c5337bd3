"""The source of a kernel lies compressed, and reads as what was given."""

import pickle
from dataclasses import replace

import pytest

from tegg.collecting import tidy
from tegg.extend import KernelCode, Work
from tegg.kernel.packed import altered

TEXT = "void k0(void *const *buffers) { /* ä */ }\n" * 200


def code(text: str = TEXT) -> KernelCode:
    return KernelCode("k0", text, (), (), (), Work(0, 0, 0, 0))


def test_a_source_reads_as_it_was_given():
    assert code().source == TEXT
    assert replace(code(), source="other").source == "other"
    assert replace(code(), name="k1").source == TEXT
    assert code() == code() != code("other")


def test_it_takes_a_tenth_in_memory_once_nobody_waits_and_in_files():
    made = code()
    other = altered(made, name="k1")
    tidy()
    assert len(made.__dict__["_source"].held) < len(TEXT) // 10
    assert TEXT not in map(str, made.__dict__.values())
    assert made.source == other.source == TEXT
    saved = pickle.dumps(code())
    assert len(saved) < len(TEXT) // 5
    assert pickle.loads(saved).source == TEXT


def test_a_class_has_no_source_of_its_own():
    with pytest.raises(AttributeError, match="KernelCode has no source of its own"):
        _ = KernelCode.source


def test_a_copy_with_other_fields_shares_what_is_packed():
    made = code()
    other = altered(made, name="k1", symbols=("n",))
    assert (other.name, other.symbols, other.source) == ("k1", ("n",), TEXT)
    assert (made.name, made.symbols) == ("k0", ())
    assert other.__dict__["_source"] is made.__dict__["_source"]
    assert altered(made, source="other").source == "other"
