"""The example in the README runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_example_runs(tmp_path, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "example.py"  # a real file, as tracebacks and signatures want one
    path.write_text(code, encoding="utf-8")
    exec(compile(code, str(path), "exec"), {"__name__": "example"})  # noqa: S102
    assert capsys.readouterr().out.startswith("(2, 4, 16, 32)\n")
