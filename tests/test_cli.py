"""The command line: every command on real input, JSON, plain text in a pipe, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tegg import plugins
from tegg.cli import main

PROGRAM = """
import numpy as np
import tegg

X = np.ones((4, 8), np.float32)

def softmax(x):
    return x.softmax(1)

softmax.example_inputs = (X,)

def almost(x):
    e = (x - x.max(1, keepdims=True)).exp()
    return e / (e.sum(1, keepdims=True) + 1.0)

almost.example_inputs = lambda: X

def across(x):
    e = (x - x.max(1, keepdims=True)).exp()
    return e / e.sum(0, keepdims=True)

across.example_inputs = (X,)

compiled = tegg.compile(softmax, dims={"x": (tegg.dim("b", 1, 64, hint=4), None)})

graph = tegg.Graph()
(graph.tensor((3,), name="a") - graph.tensor((3,), name="b")).output("c")

def bare(x):
    return x

number = 3
"""


@pytest.fixture
def program(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == code, result.output
    return result


def test_version_and_help():
    assert run("--version").output.startswith("tegg, version ")
    for word in ("new", "list", "show", "check", "why", "why-not", "diff"):
        assert word in run("rules", "--help").output


def test_list_is_a_table_and_json():
    text = run("rules", "list").output
    assert "softmax/div" in text and "e / sum e => softmax(x)" in text and "\x1b" not in text
    rows = json.loads(run("rules", "list", "--json").output)
    row = next(r for r in rows if r["rule"] == "sub/add")
    assert (row["class"], row["phase"], row["targets"]) == ("bitwise", "names", "any")
    assert any(r["rule"] == "cpu/packed" and r["targets"] == "cpu" for r in rows)


def test_show():
    text = run("rules", "show", "softmax/div").output
    assert "(union y (Softmax x k))" in text and "in Generic" in text
    row = json.loads(run("rules", "show", "softmax/div", "--json").output)
    assert row["compilers"] == ["Generic"] and row["text"].startswith(";; e / sum e")


def test_show_finds_what_no_compiler_of_the_stack_has():
    row = json.loads(run("rules", "show", "bf16/rest", "--json").output)
    assert row["compilers"] == ["Bf16"] and row["class"] == "rounds 2^-8"


def test_json_of_what_is_written(program):
    path = json.loads(run("rules", "new", "mine", "--json").output)["wrote"]
    assert Path(path).is_file()
    told = json.loads(run("view", f"{program}:softmax", "--json").output)
    assert told == {"wrote": "softmax.html"} and Path("softmax.html").is_file()


def test_a_new_file_passes_its_checks(program):
    assert "wrote" in run("rules", "new", "mine").output
    assert "1 rules, 2 checks, 0 problems" in run("rules", "check", "mine.egg").output
    assert "is there already" in run("rules", "new", "mine", code=1).output
    assert "is no name of a rule set" in run("rules", "new", "../mine", code=1).output
    assert "cannot be written" in run("rules", "new", "x" * 300, code=1).output


def test_a_wrong_file_fails(program):
    run("rules", "new", "mine")
    text = Path("mine.egg").read_text().replace("(Maximum x x) x", "(Sub x y) (Sub y x)")
    Path("mine.egg").write_text(text)
    out = run("rules", "check", "mine.egg", code=1).output
    assert "mine/same: sound: " in out and "import tegg" in out and "1 problems" in out
    found = json.loads(run("rules", "check", "mine.egg", "--json", code=1).output)
    assert found["problems"][0]["check"] == "sound"


def test_why(program):
    text = run("rules", "why", f"{program}:softmax").output
    assert "phase algebra" in text and "softmax/div: e / sum e => softmax(x)" in text
    assert "runner-up" in text and "predicted" in text
    told = json.loads(run("rules", "why", f"{program}:softmax", "--json").output)
    assert told["kernels"][0]["chain"][-1]["rule"] == "softmax/div"


@pytest.mark.parametrize("name, rule", [("compiled", "softmax/div"), ("graph", "sub/add")])
def test_why_of_other_programs(program, name, rule):
    assert rule in run("rules", "why", f"{program}:{name}").output


def test_why_not(program):
    text = run("rules", "why-not", "softmax/div", f"{program}:almost").output
    assert "no SumReduce stands there; there it is Add f32[4,1]" in text
    text = run("rules", "why-not", "softmax/div", f"{program}:across").output
    assert "nobody proved soft-exp" in text and text.rstrip().endswith("nearest for k = 1")
    told = json.loads(run("rules", "why-not", "softmax/exp", f"{program}:almost",
                          "--json").output)
    assert told["fired"] == 1 and told["failed"] == ""


def test_diff(program):
    text = run("rules", "diff", "generic", "facts,algebra,fuse.exp", f"{program}:softmax").output
    assert "softmax/div: 1, 0" in text and "predicted:" in text
    told = json.loads(run("rules", "diff", "generic", "generic", f"{program}:softmax",
                          "--json").output)
    assert told["rules"] == {} and told["kernels"] == {}


ERRORS = [
    ("program.py", "names no program; give file.py:function"),
    ("nowhere.py:f", "there is no file nowhere.py"),
    ("program.py:softmaxx", "program.py has no 'softmaxx'; did you mean 'softmax'?"),
    ("program.py:qqq", "program.py has no 'qqq'; it has np, tegg"),
    ("program.py:number", "is of type int, and no function"),
    ("program.py:bare", "has no example_inputs"),
    ("text.txt:f", "text.txt is no Python file"),
]


@pytest.mark.parametrize("text, words", ERRORS)
def test_programs_that_are_none(program, text, words):
    Path("text.txt").write_text("")
    out = run("rules", "why", text, code=1).output
    assert words in out and "Traceback" not in out


def test_unknown_names(program):
    assert "the stack has no rule 'softmax/dvi'; did you mean 'softmax/div'?" in run(
        "rules", "why-not", "softmax/dvi", f"{program}:softmax", code=1).output
    assert "the stack has no rule 'q'; 'tegg rules list' shows its rules" in run(
        "rules", "show", "q", code=1).output
    assert "no package offers a device 'cuba'" in run(
        "rules", "why", f"{program}:softmax", "--device", "cuba", code=1).output
    for near in ("generik", "Generic"):
        assert "no rules are called so; did you mean 'generic'?" in run(
            "rules", "list", "--stack", near, code=1).output
    assert "is no .egg file" in run("rules", "list", "--stack", "qqqqqq", code=1).output
    assert "an empty text names no rule file" in run("rules", "check", "", code=1).output


def test_a_shipped_file_is_checked_by_its_path(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert "1 rules, 2 checks, 0 problems" in run("rules", "check", "rules/fuse/exp.egg").output


def test_rules_for_instructions_that_this_machine_lacks_are_checked(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert "4 rules, 8 checks, 0 problems" in run(
        "rules", "check", "rules/lower/cpu_bytes.egg").output


HOSTILE = {
    "raises": ("def f(x):\n    return 1 / 0\nf.example_inputs = (0,)",
               "p.py:f, as it is recorded, fails at {0}/p.py:2: ZeroDivisionError: division by zero"),
    "examples": ("def f(x): ...\nf.example_inputs = lambda: {}['a']", "p.py:2: KeyError: 'a'"),
    "import": ("import nosuchmodule", "p.py fails at {0}/p.py:1: ModuleNotFoundError: No module"),
    "syntax": ("def f(:", "p.py fails: SyntaxError: invalid syntax (p.py, line 1)"),
    "nothing": ("def f(x):\n    return 1\nf.example_inputs = (2,)",
                "p.py:f returns no tensor and updates no state, so there is nothing to compile; "
                "give file.py:function, where function.example_inputs"),
    "exit": ("raise SystemExit(3)", "p.py fails at {0}/p.py:1: SystemExit: 3; run it in Python")}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("command", [("rules", "why"), ("view",)], ids=" ".join)
def test_programs_that_fail_are_told_with_their_line(tmp_path, monkeypatch, what, command):
    monkeypatch.chdir(tmp_path)
    text, words = HOSTILE[what]
    Path("p.py").write_text(text)
    out = run(*command, "p.py:f", code=1).output
    assert words.format(tmp_path) in out and "Traceback" not in out


def test_programs_import_what_lies_beside_them_and_hold_dataclasses(tmp_path, monkeypatch):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "tegg_beside.py").write_text("two = 2.0")
    (tmp_path / "beside" / "p.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "import numpy as np\nfrom tegg_beside import two\n"
        "@dataclass\nclass Config:\n    n: int = 3\n"
        "def f(x):\n    return x * two\nf.example_inputs = (np.ones(Config().n),)")
    monkeypatch.chdir(tmp_path)
    assert "k0 elementwise -> f64[3]" in run("rules", "why", "beside/p.py:f").output


def test_rules_that_round_are_shown_where_they_are_named(program):
    run("rules", "new", "rough")
    path = Path("rough.egg")
    path.write_text(path.read_text().replace("bitwise", "rounds 2^-8"))
    assert "class rounds 2^-8" in run("rules", "show", "rough/same", "--stack", path).output


def test_a_rule_is_shown_whatever_another_package_lacks(monkeypatch, tmp_path):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tegg.compilers]\nbroken = no_such_module:compiler\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "broken" in plugins.offered("tegg.compilers")
    assert "class reals, phase idioms" in run("rules", "show", "softmax/div").output
    assert "does not load" in run("rules", "list", "--stack", "broken", code=1).output


def test_programs_are_those_that_would_run(tmp_path, monkeypatch):
    """A decorator belongs to its function; a compiled module has the inputs that it names."""
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(
        "import functools\nimport numpy as np\nimport tegg\nfrom tegg.nn import Linear\n"
        "def summed(f):\n    @functools.wraps(f)\n    def g(x):\n        return f(x).sum()\n"
        "    return g\n"
        "@summed\ndef plain(x):\n    return x + 1\n"
        "plain.example_inputs = (np.ones((2, 3), np.float32),)\n"
        "compiled = tegg.compile(plain)\n"
        "layer = Linear(3, 2)\nlayer.example_inputs = plain.example_inputs\n"
        "run = tegg.compile(layer)\n")
    for name, stored in (("plain", "f32[]"), ("compiled", "f32[]"), ("run", "f32[2,2]")):
        assert f"-> {stored}" in run("rules", "why", f"p.py:{name}").output
