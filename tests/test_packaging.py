"""What is installed: the packages and data files of the tree, the extras, the entry points."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

from simt import fake_driver, fake_metal

import tegg
from tegg.planning import target

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = {"tegg": ROOT / "src" / "tegg", "tegg.rules": ROOT / "rules",
           "tegg.backends": ROOT / "backends"}
DATA = (".py", ".egg", ".toml", ".h", ".c", ".c.in", ".html")


def tree() -> set[str]:
    """Every file that an installation needs, by its path in the wheel."""
    found = {"tegg/py.typed", "tegg/ops/__init__.pyi", "tegg/ops/methods.pyi"}
    for package, folder in FOLDERS.items():
        found |= {f"{package.replace('.', '/')}/{p.relative_to(folder).as_posix()}"
                  for p in folder.rglob("*") if p.name.endswith(DATA)}
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> set[str]:
    """The files of the wheel, built from a copy with the setuptools that is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("src", "rules", "backends"):
        for p in (ROOT / name).rglob("*"):
            if p.is_file() and "__pycache__" not in p.parts and ".egg-info" not in str(p):
                copy = source / p.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(p.read_bytes())
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation",
                    "--quiet", "--disable-pip-version-check", "--wheel-dir", folder,
                    source], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as z:
        return set(z.namelist())


def test_packages_are_the_folders_with_init():
    found = {f"{package}.{'.'.join(p.parent.relative_to(folder).parts)}".rstrip(".")
             for package, folder in FOLDERS.items() for p in folder.rglob("__init__.py")}
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(found)


def test_the_wheel_holds_the_tree(wheel):
    info = f"tegg-{tegg.__version__}.dist-info"
    assert {f for f in wheel if not f.startswith(info)} == tree()
    assert {f"{info}/METADATA", f"{info}/entry_points.txt", f"{info}/licenses/LICENSE"} <= wheel


def test_versions_agree():
    assert PROJECT["project"]["version"] == tegg.__version__ == version("tegg")


def test_entry_points_load():
    declared = PROJECT["project"]["entry-points"]["tegg.backends"]
    installed = {e.name: e.value for e in entry_points(group="tegg.backends")}
    assert declared.items() <= installed.items()
    with fake_driver.installed(), fake_metal.installed():  # GPUs, for backends that look for one
        for name in declared:
            assert target.find(name).name == name


def test_extras_that_texts_name_exist():
    """``pip install 'tegg[x]'`` in a message or a page names an extra."""
    extras = PROJECT["project"]["optional-dependencies"]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "rules").glob("*.md")]
    texts = [p for folder in FOLDERS.values() for p in folder.rglob("*.py")]
    named = {x for p in (*pages, *texts)
             for x in re.findall(r"tegg\[([\w,]+)\]", p.read_text(encoding="utf-8"))}
    assert named and named <= set(extras)
    (dev,) = re.findall(r"tegg\[([\w,]+)\]", " ".join(extras["dev"]))
    assert set(dev.split(",")) <= set(extras)
