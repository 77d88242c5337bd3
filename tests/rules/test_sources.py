"""Finding rule files: names of what is built in, paths, and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tegg.errors import RuleError
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
