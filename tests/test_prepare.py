"""tegg prepare: what first calls find compiled."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from ml_dtypes import bfloat16
from tegg.backends.cpu import library, target

import tegg
from tegg.cli import main
from tegg.errors import BackendError
from tegg.runtime import prepare as module
from tegg.runtime.prepare import STEPS, prepare


@pytest.fixture
def loads(tmp_path, monkeypatch):
    """Every library that is loaded, with a cache of its own."""
    monkeypatch.setenv("TEGG_CACHE", str(tmp_path))
    made: list[library.Library] = []

    def load(*args, **options):
        made.append(library.load(*args, **options))
        return made[-1]
    monkeypatch.setattr(target, "load", load)
    monkeypatch.setattr(module, "_HALVED", ())
    monkeypatch.setattr(module, "_HEADS", ())
    monkeypatch.setattr(module, "_LEARNT", ())
    monkeypatch.setattr(module, "_KEPT", ())
    monkeypatch.setattr(module, "_ENDS", ((False, False),))
    return made


def test_usual_products_are_compiled_ahead_and_others_share_them(loads, monkeypatch):
    monkeypatch.setattr(module, "_USUAL", ((64, 2048),))
    told = CliRunner().invoke(main, ["prepare", "--json"])
    assert told.exit_code == 0 and json.loads(told.output)["kernels"] == len(loads) == 2
    assert sum(m.units for m in loads) == 2 and not any(m.found for m in loads)
    loads.clear()
    rng = np.random.default_rng(0)
    w = rng.integers(-3, 4, (1000, 2048)).astype(np.float32)
    x = rng.integers(-3, 4, (128, 1000)).astype(np.float32)
    assert np.array_equal(tegg.compile(lambda x: x @ w)(x), x @ w)
    assert [(m.found, m.units) for m in loads] == [(1, 0)]


def test_loops_of_products_with_ends_are_compiled_ahead(loads, monkeypatch):
    monkeypatch.setattr(module, "_USUAL", ((64, 1024),))
    monkeypatch.setattr(module, "_ENDS", ((False, True),))
    prepare()
    loads.clear()
    rng = np.random.default_rng(0)
    x, w, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((128, 1024), (1024, 512), (512,)))
    program = tegg.compile(lambda x: tegg.relu(x @ w + b))
    assert np.array_equal(program(x), np.maximum(x @ w + b, 0))
    assert [(m.found, m.units) for m in loads] == [(1, 1)]  # what is its own is compiled


@pytest.mark.parametrize("end, units", [(lambda y: y, 0), (tegg.gelu, 1)])
def test_loops_of_a_row_by_weights_in_16_bits_are_compiled_ahead(loads, monkeypatch, end, units):
    monkeypatch.setattr(module, "_USUAL", ())
    monkeypatch.setattr(module, "_HALVED", tuple(
        (half, ("f32", "f32"), (1, 1024), ((False, units > 0),)) for half in (tegg.Bf16, tegg.Fp16)))
    prepare()
    made = len(loads)
    rng = np.random.default_rng(0)
    w = rng.integers(-3, 4, (1200, 2000)).astype(np.float32)
    x = rng.integers(-1, 2, (1, 1200)).astype(np.float32)
    wanted = tegg.compile(end)(x @ w)
    loads.clear()
    program = tegg.compile(lambda x: end(x @ w), tegg.Generic(), tegg.Bf16())
    assert np.allclose(program(x), wanted, 1e-2, 1e-2)
    if "CpuHalves" not in program.explain():
        pytest.skip("this machine multiplies a row in another form")
    assert made == 4  # of x @ w and x @ w.T, under both
    assert [(m.found, m.units) for m in loads[:1]] == [(1, units)]


@pytest.mark.parametrize("m", [1, 128])  # by 100 rows some machines go in tiles of other heights
@pytest.mark.parametrize("more, end, units", [(False, lambda y: y, 0), (True, tegg.gelu, 1)])
def test_products_of_arrays_in_bfloat16_are_compiled_ahead(loads, monkeypatch, m, more, end, units):
    monkeypatch.setattr(module, "_USUAL", ())
    monkeypatch.setattr(module, "_HALVED", (
        (tegg.Bf16, ("bf16", "bf16"), (min(m, 64), 2048), ((False, more),)),))
    prepare()
    assert all(len(p.kernels) == 1 and p.kernels[0].core is None for p in loads)
    loads.clear()
    rng = np.random.default_rng(0)
    w = rng.integers(-3, 4, (1200, 2000)).astype(bfloat16)
    x = rng.integers(-1, 2, (m, 1200)).astype(bfloat16)
    got = tegg.compile(lambda x: end(x @ w), tegg.Generic(), tegg.Bf16())(x)
    wanted = tegg.compile(end)((x.astype(np.float32) @ w.astype(np.float32)).astype(bfloat16))
    assert np.allclose(got.astype(np.float32), wanted.astype(np.float32), 1e-2, 1e-2)
    assert [(p.found, p.units) for p in loads[:1]] == [(1, units)]


def test_attention_is_compiled_ahead_and_other_programs_share_it(loads, monkeypatch):
    monkeypatch.setattr(module, "_USUAL", ())
    monkeypatch.setattr(module, "_HEADS", ((64, 1),))
    made = prepare()  # of float32, and of bfloat16
    assert made == sum(m.units for m in loads) == 2
    loads.clear()
    x = np.random.default_rng(0).standard_normal((2, 70, 3, 4, 64)).astype(np.float32)

    def heads(x, causal):
        q, k, v = x.permute(2, 0, 3, 1, 4)
        return tegg.scaled_dot_product_attention(q, k, v, is_causal=causal)
    for causal in (False, True):
        q, k, v = x.astype(np.float64).transpose(2, 0, 3, 1, 4)
        scores = np.exp(q @ k.swapaxes(-1, -2) / math.sqrt(64)) * np.tri(70, 70, 0 if causal else 70)
        wanted = scores / scores.sum(-1, keepdims=True) @ v
        got = tegg.compile(heads)(x, causal)
        assert np.allclose(got, wanted, 1e-4, 1e-5)
        got = tegg.compile(heads, tegg.Generic(), tegg.Bf16())(x.astype(bfloat16), causal)
        assert np.allclose(got.astype(np.float64), wanted, 3e-2, 3e-2)
    assert [(m.found, m.units) for m in loads] == [(1, 0)] * 4


def test_what_is_ready_is_not_compiled_again(loads, monkeypatch):
    monkeypatch.setattr(module, "_USUAL", ((1, 96),))
    steps: list[str] = []
    first = prepare(step=steps.append)
    units = sum(m.units for m in loads)
    assert prepare() == first and units == first and sum(m.units for m in loads) == units
    assert steps == ["1 rows, 96 columns"] * 2 and STEPS > 2


def test_a_device_that_is_not_there(monkeypatch):
    with pytest.raises(BackendError, match="no package offers a device 'abacus'"):
        prepare("abacus")
    told = CliRunner().invoke(main, ["prepare", "--device", "abacus"])
    assert told.exit_code == 1 and "abacus" in told.output


def test_it_is_told_in_words(loads, monkeypatch):
    monkeypatch.setattr(module, "_USUAL", ((1, 96),))
    told = CliRunner().invoke(main, ["prepare"]).output
    assert "2 kernels ready after" in told
