"""The errors that ``benchmarks/halves.py`` reports, on a small model."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from test_bert import REFERENCE, minilm

from tegg.weights import load_safetensors

__all__ = ["minilm"]  # a fixture

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def halves():
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    import halves
    yield halves
    sys.path[:] = before


def test_a_small_model_is_as_far_off_as_its_stack_says(halves):
    config = {**halves.LLAMA, "vocab_size": 60, "hidden_size": 32, "intermediate_size": 48,
              "num_hidden_layers": 1, "num_attention_heads": 2}
    errors = halves.measured(halves.llama(config), ("float32", "Bf16"))
    exact, half = (e.max / e.largest for e in errors)
    assert exact < 1e-5 < half < 4e-2 and all(0 < e.mean < e.max for e in errors)
    assert errors[0].choices == 1.0 and errors[0].weights == "drawn"
    text = halves.table(errors)
    assert "| float32 | " in text and text.count("\n") == 6


def test_the_float64_encoder_gives_the_reference(halves, minilm):
    weights = {k: np.asarray(v, np.float64) for k, v in
               load_safetensors(minilm / "model.safetensors").items() if v.dtype.kind == "f"}
    got = halves.encoded(weights, REFERENCE["ids"][:2], REFERENCE["mask"][:2])
    assert np.abs(got - REFERENCE["embedding"][:2]).max() < 1e-6


def test_unknown_models_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["halves.py", "bertt"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(BENCHMARKS / "halves.py"), run_name="__main__")
    assert "invalid choice: 'bertt'" in capsys.readouterr().err
