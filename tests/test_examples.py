"""The examples that need no download run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_generate(capsys):
    """A small Llama with random weights; its own folder is covered by the models' tests."""
    runpy.run_path(str(EXAMPLES / "generate.py"))["main"]([])
    said = capsys.readouterr().out
    assert re.search(r"compiled in .* s; a prompt of 32 tokens in .* ms; then .* ms a token", said)
    assert len(re.findall(r"\d+", said.splitlines()[-1])) == 16
