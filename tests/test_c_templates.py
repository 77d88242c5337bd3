"""Templates of C, which are taken apart once."""

from __future__ import annotations

from importlib.resources import files
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tegg.backends.cpu.c_templates import Parted, template

WORDS = {"a": "1", "bc": "$d", "d_1": 7}


@given(st.lists(st.sampled_from(["$a", "${bc}", "$d_1", "$$", "x", " ", "{", "}\n", "a"])))
def test_they_are_filled_as_those_of_the_library_are(parts):
    text = "".join(parts)
    try:
        wanted = Template(text).substitute(WORDS)
    except KeyError:  # names that meet letters, such as $aa
        with pytest.raises(KeyError):
            Parted(text).substitute(WORDS)
    else:
        assert Parted(text).substitute(WORDS) == wanted


def test_a_word_given_by_name_counts_more():
    assert Parted("$a ${bc}").substitute({"a": 1, "bc": 2}, bc=3) == "1 3"
    assert Parted("none").substitute() == "none"


def test_every_template_that_is_shipped_can_be_taken_apart():
    names = [f.name.removesuffix(".c.in")
             for f in files("tegg.backends.cpu").joinpath("gemm").iterdir()
             if f.name.endswith(".c.in")]
    assert len(names) > 5
    for name in names:
        found = template(name)
        words = {n: f"<{n}>" for n in found.get_identifiers()}
        assert found.substitute(words) == Template(found.template).substitute(words)
