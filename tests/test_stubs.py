"""The stubs of public ops are those that the script writes, and say what users' calls are."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parent.parent
STUBS = runpy.run_path(str(ROOT / "tools" / "stubs.py"))["STUBS"]


@pytest.mark.parametrize("path", STUBS, ids=lambda p: p.name)
def test_stubs_are_up_to_date(path):
    assert path.read_text(encoding="utf-8") == STUBS[path](), "run python tools/stubs.py"


def test_types_of_calls():
    """One unused ``type: ignore`` or one wrong type is an error."""
    said, errors, status = api.run([
        "--config-file", str(ROOT / "pyproject.toml"), "--warn-unused-ignores",
        str(ROOT / "tests" / "typing" / "calls.py")])
    assert status == 0, said + errors
