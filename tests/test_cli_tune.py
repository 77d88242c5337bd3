"""tegg tune on the command line: what is measured is kept, and the profile in use is shown."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from tegg.backends.cpu.target import Cpu
from tegg.cli import main
from tegg.extract.cost import load_costs
from tegg.extract.profile import Profile, user_profile
from tegg.progress import progress

COSTS = replace(load_costs("cpu/generic", 2), name="cpu/measured", call=1e-7, ops={"Sin": 21.5})


def run(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Measuring that takes no time, and a cache of its own; what measuring was asked for."""
    asked = []

    def tuned(self, quick=False, step=lambda name: None):
        asked.append(quick)
        for i in range(self.tune_steps(quick)):
            step(f"step {i}")
        return Profile(COSTS, "cpu", self.machine(), 2, "2026-01-02", {"read GB/s": 12.5}, 0.5)
    monkeypatch.setattr(Cpu, "tune", tuned)
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TEGG_COSTS", raising=False)
    return asked


def test_what_is_measured_is_kept_and_shown(made):
    assert run("tune", "--show").output.startswith(
        f"profile '{Cpu().shipped}', shipped; tegg tune --device cpu measures this machine")
    told = run("tune", "--quick").output
    path = user_profile("cpu", Cpu().machine())
    assert f"wrote {path} after 0 s" in told.replace("\n", "") and made == [True]
    assert "Other programs disturbed the measures: half of them were 50%" in told
    shown = run("tune", "--show").output
    assert shown.startswith(f"profile 'cpu/measured', measured on 2026-01-02: {path}")
    for row in ("operations of Sin", "21.5", "GB/s of 1 thread", "read GB/s", "12.5", "beyond"):
        assert row in shown


def test_json_is_for_programs(made):
    told = json.loads(run("tune", "--json").output)
    assert made == [False] and told["profile"]["ops"] == {"Sin": 21.5}
    assert told["figures"] == {"read GB/s": 12.5} and told["seconds"] >= 0
    shown = json.loads(run("tune", "--show", "--json").output)
    assert shown["path"] == told["path"] and shown["problem"] is None
    assert shown["machine"] == Cpu().machine()


def test_a_file_of_ones_own(made, tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    told = run("tune", "--output", path).output.replace("\n", "")
    assert f"TEGG_COSTS={path} makes programs use it" in told
    assert not user_profile("cpu", Cpu().machine()).exists()
    monkeypatch.setenv("TEGG_COSTS", str(path))
    assert Cpu().costs().ops == {"Sin": 21.5}
    assert run("tune", "--show").output.replace("\n", "").startswith(
        f"profile 'cpu/measured', as TEGG_COSTS={path} says")
    missing = run("tune", "--output", tmp_path / "no" / "where.toml", code=1).output
    assert "cannot be written" in missing and "measuring" not in missing
    assert "program.py is no name of a profile, which ends in .toml" in run(
        "tune", "--output", "program.py", code=1).output.replace("\n", " ")


def test_a_profile_that_cannot_be_used_is_shown_with_the_remedy(made):
    run("tune")
    path = user_profile("cpu", Cpu().machine())
    path.write_text(path.read_text().replace("version = 2", "version = 7"))
    shown = run("tune", "--show").output.replace("\n", " ")
    assert f"profile '{Cpu().shipped}', shipped, since what was measured cannot be used" in shown
    assert "is of version 7" in shown and "delete the file" in shown
    assert "version 7" in json.loads(run("tune", "--show", "--json").output)["problem"]


def test_a_device_that_cannot_be_measured(monkeypatch):
    class Fixed:
        name = "fixed"

        def costs(self):
            return replace(COSTS, call=None)
    monkeypatch.setattr(sys.modules["tegg.cli.tune"], "find_target", lambda name: Fixed())
    assert ("the device 'fixed' cannot be measured by tegg tune; its costs are those of the "
            "profile 'cpu/measured'") in " ".join(run("tune", "--device", "fixed",
                                                      code=1).output.split())
    shown = run("tune", "--device", "fixed", "--show").output
    assert shown.startswith("profile 'cpu/measured', shipped\n")
    assert math.isclose(json.loads(run("tune", "--device", "fixed", "--show", "--json").output)[
        "profile"]["launch"], COSTS.launch)


def test_a_bar_only_where_there_is_a_terminal(monkeypatch, capsys):
    with progress("work", 2) as step:
        step("one")
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with progress("work", 2) as step:
        step("one")
        step("two")
    assert capsys.readouterr().err != ""
    with progress("work", 2, quiet=True) as step:
        step("one")
    assert capsys.readouterr().err == ""
