"""The examples of the README and of the pages run as they are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tegg.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [p.relative_to(ROOT).as_posix() for p in sorted(
    (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("rules/**/*.md")))]
OUTPUT = re.compile(r"print\(.*\)  +# (.+)$", re.MULTILINE)  # what a line prints stands beside it


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"),
                      re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")])
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    """The Python of a page is one program; its rule files lie beside it, by their rule sets."""
    monkeypatch.chdir(tmp_path)
    for text in blocks(page, "lisp"):
        Path(re.findall(r"\(ruleset (\w+)\)", text)[0] + ".egg").write_text(text)
    code = "\n".join(blocks(page, "python"))
    path = tmp_path / "example.py"  # a real file, as tracebacks and signatures want one
    path.write_text(code, encoding="utf-8")
    exec(compile(code, str(path), "exec"), {"__name__": "example"})  # noqa: S102
    said = [text for text in OUTPUT.findall(code) if text[0] in "([0123456789"]
    lines = capsys.readouterr().out.splitlines()
    assert all(text in lines for text in said), (said, lines)
    path.write_text(blocks(page, "python")[0], encoding="utf-8")  # what commands read
    for text in blocks(page, "console"):
        for command, shown in re.findall(r"^\$ tegg (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            printed = CliRunner().invoke(main, shlex.split(command))
            assert matches(shown, printed.output), (command, shown, printed.output)


def matches(shown: str, printed: str) -> bool:
    """Whether text is what a page shows of it: ``...`` there stands for anything."""
    parts = [re.escape(p) for p in shown.strip().split("...")]
    return re.fullmatch(".*".join(parts), printed.strip(), re.DOTALL) is not None


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8")):
        assert link.startswith("https://") or (ROOT / page).parent.joinpath(link).exists(), link


def test_files_that_pages_name_exist():
    """A path in backticks with a suffix of the tree is a file somewhere in it."""
    files = {p.name for d in ("src", "rules", "backends", "tests", "docs", "examples", "benchmarks",
                                         "tools")
             for p in (ROOT / d).rglob("*") if p.is_file()}
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for name in re.findall(r"`[\w./-]*?([\w-]+\.(?:py|egg|toml|c|h))`", text):
            assert name in files or name == "example.py" or page.startswith("rules/"), (page, name)
