"""What installed packages offer: by name, with an error for each way in which it can be wrong."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner

from tegg import plugins
from tegg.cli import main
from tegg.errors import ArgumentError, BackendError
from tegg.planning import target
from tegg.rewrite.compiler import Compiler, find, named_stack

ROOT = Path(__file__).parent.parent

MODULE = """
import tegg
def good(): return tegg.Compiler("fuse.sub", name="good")
def number(): return 3
def broken(): raise KeyError("a file")
def refuses(): raise tegg.BackendError("no such card; put one in")
class Empty:
    name = "empty"
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes packages that are installed for one test: ``(name, group, entry points)``."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, group: str, points: dict[str, str], text: str = MODULE) -> None:
        module = name.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(text)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{k} = {module}:{v}" for k, v in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))

    return make


def test_a_compiler_is_found_by_name(package):
    package("pack-a", "tegg.compilers", {"mine": "good"})
    assert find("mine").name == "good" and "mine" in plugins.offered("tegg.compilers")
    assert [c.name for c in named_stack("generic, mine")] == ["Generic", "good"]


def test_two_packages_with_one_name_are_both_named(package):
    package("pack-a", "tegg.compilers", {"mine": "good"})
    package("pack-b", "tegg.compilers", {"mine": "good"})
    with pytest.raises(ArgumentError, match=r"pack-[ab] 1.0 \(pack_[ab]:good\) and pack-[ab] 1.0 "
                                            r"\(pack_[ab]:good\) each offer a compiler 'mine'; "
                                            r"uninstall one, or import"):
        find("mine")
    package("pack-c", "tegg.backends", {"cpu": "Empty"})
    with pytest.raises(BackendError, match=r"pack-c 1.0 .* each offer a device 'cpu'|"
                                           r"tegg .* and pack-c 1.0 .* each offer"):
        target.find("cpu")


def test_a_package_that_does_not_import_is_named_with_the_cause(package):
    package("pack-a", "tegg.compilers", {"mine": "good"}, "import no_such_module\n")
    with pytest.raises(ArgumentError, match=r"the compiler 'mine' of package pack-a 1.0 does not "
                                            r"load \(pack_a:good\): ModuleNotFoundError: No module "
                                            r"named 'no_such_module'; repair or uninstall"):
        find("mine")


def test_a_function_that_fails_is_named_and_our_errors_pass(package):
    package("pack-a", "tegg.backends", {"broke": "broken", "shy": "refuses"})
    with pytest.raises(BackendError, match="the device 'broke' of package pack-a 1.0 does not load "
                                           ".*: KeyError: 'a file'"):
        target.find("broke")
    with pytest.raises(BackendError, match="^no such card; put one in$"):
        target.find("shy")


def test_what_is_no_compiler_and_no_target(package):
    package("pack-a", "tegg.compilers", {"three": "number"})
    package("pack-b", "tegg.backends", {"empty": "Empty"})
    with pytest.raises(ArgumentError, match="what a package offers as compiler 'three' gives 3, "
                                            "which is no tegg.Compiler"):
        find("three")
    with pytest.raises(BackendError, match="what a package offers as device 'empty' has no "
                                           "features, rules, ops, providers, identity, costs, "
                                           "unsupported, lower, build; see"):
        target.find("empty")


def test_an_unknown_name_suggests_the_nearest(package):
    with pytest.raises(ArgumentError, match="no package offers a compiler 'genric'; did you mean "
                                            r"'generic'\? \(installed: "):
        find("genric")
    assert isinstance(find("generic"), Compiler)


def test_metadata_is_read_again_only_where_a_folder_changed(package, monkeypatch):
    read = []
    monkeypatch.setattr(importlib.metadata, "entry_points",
                        lambda group: read.append(group) or entry_points(group=group))
    package("pack-a", "tegg.compilers", {"mine": "good"})
    assert "mine" in plugins.offered("tegg.compilers") and len(read) == 1
    assert find("mine").name == "good" and len(read) == 1
    package("pack-b", "tegg.compilers", {"yours": "good"})
    assert "yours" in plugins.offered("tegg.compilers") and len(read) == 2


def test_what_is_our_own_stands_in_the_metadata_too():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == plugins.OWN


def test_metadata_is_left_alone_where_nobody_else_can_offer_anything():
    """It brings packages that are never used: a process that compiles has none of them."""
    code = ("import sys, numpy as np, tegg\n"
            "tegg.compile(lambda x: x + 1)(np.zeros(8, np.float32))\n"
            "print(*(m for m in ('importlib.metadata', 'email', 'ml_dtypes', 'rich')"
            " if m in sys.modules))")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


def test_packages_in_an_archive_are_found(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "pack.zip", "w") as archive:
        archive.writestr("pack_z.py", MODULE)
        archive.writestr("pack_z-1.0.dist-info/METADATA",
                         "Metadata-Version: 2.1\nName: pack-z\nVersion: 1.0\n")
        archive.writestr("pack_z-1.0.dist-info/entry_points.txt",
                         "[tegg.compilers]\nzipped = pack_z:good\n")
    assert "zipped" not in plugins.offered("tegg.compilers")
    monkeypatch.syspath_prepend(str(tmp_path / "pack.zip"))
    assert find("zipped").name == "good"


def test_a_finder_of_packages_is_asked(monkeypatch):
    class Finder(importlib.metadata.DistributionFinder):
        def find_distributions(self, context=None):
            return iter([Found()])

    class Found(importlib.metadata.Distribution):
        def read_text(self, filename):
            return {"METADATA": "Metadata-Version: 2.1\nName: pack-f\nVersion: 1.0\n",
                    "entry_points.txt": "[tegg.backends]\nfound = pack_f:good\n"}.get(filename)

        def locate_file(self, path):
            return path

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    plugins._read.cache_clear()
    assert "found" in plugins.offered("tegg.backends")
    plugins._read.cache_clear()


def copied(source: Path, to: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (source / name).is_dir():
            shutil.copytree(source / name, to / name,
                            ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, to / name)
    return to


@pytest.mark.long
def test_the_example_from_installed_wheels(tmp_path):
    """tegg and the example, built as wheels and installed apart from this tree."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    sources = [copied(ROOT, tmp_path / "tegg", ("src", "rules", "backends", "pyproject.toml",
                                                "README.md", "LICENSE")),
               copied(ROOT / "examples" / "plugin", tmp_path / "example",
                      ("src", "pyproject.toml", "README.md"))]
    for source in sources:
        subprocess.run([*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation",
                        "--wheel-dir", tmp_path / "wheels", source], check=True)
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    site = next(home.glob("lib/python*/site-packages"))
    (site / "outside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index",
                    "--ignore-installed", *(tmp_path / "wheels").glob("*.whl")], check=True)
    shutil.copytree(ROOT / "examples" / "plugin" / "tests", tmp_path / "tests")
    where = "import tegg, tegg_example; print(tegg.__file__, tegg_example.__file__)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    said = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True,
                          env=environment, cwd=tmp_path).stdout.split()
    assert all(text.startswith(str(site)) for text in said)
    done = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
                          cwd=tmp_path, capture_output=True, text=True, check=False,
                          env=environment)
    assert done.returncode == 0 and "skipped" not in done.stdout, done.stdout[-3000:]


# ---- which one of a device
def test_devices_that_are_not_here_are_planned_for():
    """Rules of a GPU are listed and checked on any machine."""
    assert target.find("cuda:sm_75").architecture == 75
    assert target.find("metal:M2 Pro").chip == "M2 Pro"
    told = CliRunner().invoke(main, ["rules", "check", "--device", "cuda:sm_90", "--json",
                                     str(ROOT / "rules" / "lower" / "copies.egg")])
    assert told.exit_code == 0, told.output
    listed = CliRunner().invoke(main, ["rules", "list", "--device", "cuda:sm_90"])
    assert "cuda/tiled" in listed.output and "copies/" in listed.output


@pytest.mark.parametrize("name, says", [
    ("cpu:3", "the device 'cpu' has no models: write 'cpu', not 'cpu:3'"),
    ("cuda:fast", "no GPU 'cuda:fast': write 'cuda', 'cuda:1' for the second GPU"),
    ("metal:M9", "no chip 'metal:M9'; there are M1")])
def test_other_models_are_refused(name, says):
    with pytest.raises(BackendError, match=says):
        target.find(name)


def test_the_second_gpu():
    from simt import fake_driver
    with fake_driver.installed() as fake:
        fake.set(devices=2)
        assert target.find("cuda:1").number == 1 and target.find("cuda").number == 0
        with pytest.raises(BackendError, match="there is no GPU 2"):
            target.find("cuda:2")
