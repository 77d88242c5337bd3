"""Everything that is wrong with rule files is told in one run, each with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tegg.cli import main
from tegg.errors import RuleError
from tegg.rewrite.compiler import Compiler, Generic, stack
from tegg.rewrite.problems import Problems
from tegg.rewrite.rulefile import read_rules
from tegg.rewrite.stackcheck import check_stack

FILE = """\
;; Rules for a test.
;;
;; ruleset:  {name}
;; class:    {kind}
;; phase:    {phase}
;; uses:     {uses}
;; grows:    no
;; targets:  any

(ruleset {name})
{body}
"""


def rule(body: str, name: str, slug: str) -> str:
    return f'\n;; a law\n({body} :ruleset {name} :name "{name}/{slug}")\n'


def write(folder: Path, name: str, *bodies: str, kind="bitwise", phase="names", uses="-",
          before: str = "") -> Path:
    text = FILE.format(name=name, kind=kind, phase=phase, uses=uses, body=before + "".join(
        rule(b, name, f"r{i}") for i, b in enumerate(bodies)))
    path = folder / f"{name}.egg"
    path.write_text(text)
    return path


def problems(*sources: Path) -> list[str]:
    with pytest.raises(RuleError) as e:
        stack([Generic(), *map(Compiler, sources)])
    assert str(e.value).splitlines() == list(e.value.problems)
    folder = sources[0] if sources[0].is_dir() else sources[0].parent
    return [p.replace(f"{folder}/", "") for p in e.value.problems]


def test_files_that_cannot_be_read_and_rules_that_cannot_be_checked(tmp_path):
    """Whatever the stage at which it is seen."""
    write(tmp_path, "a", "rewrite (Neg (Neg x)) x", kind="exact")
    write(tmp_path, "b", "rewrite (Neg (Neg x)) x").write_bytes(b"\xff")
    write(tmp_path, "c", "rewrite (Ngg (Neg x)) x", "rewrite (Neg x) y", "rewrite (Abs x) x")
    write(tmp_path, "d", "rewrite (Neg (Neg x)) x", phase="name")
    write(tmp_path, "e", "rewrite (Neg (Neg x)) x")
    found = problems(tmp_path)
    assert [p.split(": ")[0] for p in found] == ["a.egg:4:1", "b.egg", "c.egg:13:10", "c.egg:16:18",
                                                 "d.egg:1:1"]
    assert "did you mean Neg?" in found[2] and "the left side does not bind it" in found[3]


def test_several_in_one_file():
    text = FILE.format(name="mine", kind="bitwise", phase="names", uses="-", body="(let x 3)\n"
                       + rule("rewrite x x", "mine", "one") + rule("rewrite (Neg x)", "mine", "two")
                       + rule("rewrite (Neg (Neg x)) x", "mine", "one"))
    with pytest.raises(RuleError) as e:
        read_rules(text, "mine.egg")
    assert [p.split(": ")[0] for p in e.value.problems] == ["mine.egg:11:1", "mine.egg:14:10",
                                                            "mine.egg:17:27"]


def test_several_in_one_header():
    text = FILE.replace(";; phase:", ";; phrase:").format(
        name="other", kind="exact", phase="names", uses="-", body="(")
    with pytest.raises(RuleError) as e:
        read_rules(text, "mine.egg", ("mine",))
    found = "\n".join(e.value.problems)
    assert len(e.value.problems) == 5
    for words in ("mine.egg:5:1: unknown key 'phrase' in the header", "1:1: the header lacks 'phase:'",
                  "3:1: ruleset 'other' does not match the path", "4:1: 'class: exact' is not",
                  "11:1: this '(' is never closed"):
        assert words in found


def test_what_leans_on_a_file_that_cannot_be_read_is_not_judged(tmp_path):
    relation = "\n;; (odd x) means a thing\n(relation odd (Tensor))\n"
    guarded = "rewrite (Neg (Neg x)) x :when ((odd x))"
    write(tmp_path, "a", "rewrite x", before=relation)
    write(tmp_path, "b", guarded, uses="odd")
    assert [p.split(": ")[0] for p in problems(tmp_path)] == ["a.egg:16:21"]
    write(tmp_path, "a", "rewrite (Abs (Abs x)) (Abs x)", before=relation)
    assert "nobody proves (odd x)" in problems(tmp_path)[0]


def test_stacks_tell_all_too(tmp_path):
    a = write(tmp_path, "a", "rewrite (Neg (Neg x)) x", kind="rounds 2^-8")
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep", "a", "rewrite (Neg (Neg x)) x")
    b = write(tmp_path, "b", "rewrite (Neg (Neg x)) x",
              before="\n;; (Sqrt x) means a thing\n(relation Sqrt (Tensor))\n"
                     "\n;; (widens x) means a thing\n(relation widens (Tensor))\n")
    found = problems(a, tmp_path / "deep", b, tmp_path / "gone.egg")
    for i, words in enumerate(("a.egg: rule set a loses precision", "gone.egg: cannot be read",
                               "rule set a is defined by a.egg and by deep/a.egg",
                               "Sqrt is the name of an op", "widens is declared otherwise by")):
        assert sum(words in p for p in found) == 1, found
    assert len(found) == 5


def test_a_problem_is_told_once(tmp_path):
    wrong = write(tmp_path, "a", "rewrite (Ngg x) x")
    assert len(problems(wrong, wrong)) == 1


def test_nothing_wrong_tells_nothing():
    found = Problems()
    found.tell()
    read = stack(Generic())
    check_stack(read.rule_sets, read.providers, read.table, read.phases, found)
    assert found.found == []


def test_one_run_of_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a", "rewrite (Ngg x) x")
    write(tmp_path, "b", "rewrite (Neg x) y")
    done = CliRunner().invoke(main, ["rules", "check", "a.egg", "b.egg"])
    assert done.exit_code == 1
    assert "a.egg:13:10" in done.output and "b.egg:13:18" in done.output
    done = CliRunner().invoke(main, ["rules", "check", ".", "--json"])
    told = json.loads(done.output)
    assert done.exit_code == 1 and told["rules"] == 0
    assert [(p["rule"], p["check"]) for p in told["problems"]] == [("", "form")] * 2
    assert told["problems"][0]["problem"].startswith("a.egg:13:10: (Ngg x) in rule 'a/r0': Ngg is")
