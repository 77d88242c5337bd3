"""Finding rule files: names of what is built in, paths, and folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tegg.errors import RuleError
from tegg.rewrite import sources
from tegg.rewrite.compiler import Compiler, Generic, stack
from tegg.rewrite.problems import Problems
from tegg.rewrite.sources import builtin_root, read_source, rule_files


def test_a_name_means_what_is_built_in_whatever_lies_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("facts", "algebra", "fuse"):
        (tmp_path / name).mkdir()
    assert len(stack(Generic()).rules) > 100
    problems = Problems()
    assert [s.name for s in read_source("fuse.sub", problems)] == ["fuse.sub"]
    assert problems.found == problems.unread == []
    (tmp_path / "fuse" / "mine.egg").write_text("")
    for source in (Path("fuse"), "./fuse", tmp_path / "fuse"):
        assert [(p.name, root) for p, root in rule_files(source)] == [("mine.egg", None)]


def test_a_built_in_folder_is_looked_through_again_where_it_has_changed(tmp_path, monkeypatch):
    walked = []
    monkeypatch.setattr(sources, "builtin_root", lambda: tmp_path)
    monkeypatch.setattr(sources, "_LISTED", {})
    real = sources.os.walk
    monkeypatch.setattr(sources.os, "walk", lambda top: (walked.append(top), real(top))[1])
    (tmp_path / "more" / "deep").mkdir(parents=True)
    (tmp_path / "more" / "a.egg").write_text("")
    assert [p.name for p, _ in rule_files("more")] == ["a.egg"]
    assert rule_files("more") is rule_files("more") and len(walked) == 1
    (tmp_path / "more" / "deep" / "b.egg").write_text("")
    os.utime(tmp_path / "more" / "deep", ns=(1, 1))  # whatever the clock of the files counts
    assert [p.name for p, _ in rule_files("more")] == ["a.egg", "b.egg"]
    assert rule_files("more.deep.b") == ((tmp_path / "more" / "deep" / "b.egg", tmp_path),)
    assert len(walked) == 2


def test_a_digest_is_that_of_the_file_as_it_is(tmp_path):
    path = tmp_path / "x"
    found = []
    for text in ("one", "three", "one"):
        path.write_text(text)
        found.append(sources.digest(path))
    assert found[0] == found[2] != found[1]
    with pytest.raises(OSError):
        sources.digest(tmp_path / "none")


def test_a_folder_of_files(tmp_path):
    text = (builtin_root() / "fuse" / "exp.egg").read_text()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "exp.egg").write_text(text.replace("fuse.exp", "exp"))
    assert [s.name for s in Compiler(tmp_path).rule_sets()] == ["exp"]


def test_a_folder_without_any(tmp_path):
    with pytest.raises(RuleError, match="the folder holds no .egg file; give another"):
        rule_files(tmp_path)


def test_what_is_nothing_of_it():
    with pytest.raises(RuleError, match="fuse.sib: is no .egg file, no folder and no built-in rule "
                                        r"set; did you mean fuse\.sub\?"):
        rule_files("fuse.sib")
