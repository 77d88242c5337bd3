"""Reading of configs, single and sharded weights, and names."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tegg
from tegg.errors import WeightsError
from tegg.models.files import (INDEX, config_beside, known, read_config, read_weights, renamed)

A, B = np.ones(2, np.float32), np.zeros(3, np.float32)


def test_configs(tmp_path):
    path = tmp_path / "config.json"
    with pytest.raises(WeightsError, match=r"config.json cannot be read: No such file.*; a model's "
                                           r"folder holds config.json and model.safetensors"):
        read_config(path, {})
    for text, error in (("{", "config.json is no JSON: "), ("[]", "holds no JSON object")):
        path.write_text(text)
        with pytest.raises(WeightsError, match=error):
            read_config(path, {})
    path.write_text('{"a": 1, "b": null}')
    assert read_config(path, {"a": 1, "c": 2}) == {"a": 1, "b": None}
    with pytest.raises(WeightsError, match="config.json: a is 1, and only 2 is known"):
        read_config(path, {"a": 2})
    assert known({"a": 1, "b": None, "c": 3}, ["a", "b", "d"]) == {"a": 1}
    weights = tmp_path / "x.safetensors"
    with pytest.raises(WeightsError, match="x.safetensors is not there; give a model's folder"):
        config_beside(weights)
    weights.write_bytes(b"")
    assert config_beside(tmp_path) == config_beside(weights) == path


def test_whole_and_sharded(tmp_path):
    tegg.save_safetensors(tmp_path / "1.safetensors", {"a": A})
    tegg.save_safetensors(tmp_path / "2.safetensors", {"b": B})
    with pytest.raises(WeightsError, match="there is no file .*model.safetensors"):
        read_weights(tmp_path)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {
        "a": "1.safetensors", "b": "2.safetensors"}}))
    shards = read_weights(tmp_path)
    assert dict(shards).keys() == {"a", "b"} and len(shards) == 2 and (shards["b"] == B).all()
    assert dict(read_weights(tmp_path / "1.safetensors")).keys() == {"a"}
    tegg.save_safetensors(tmp_path / "model.safetensors", {"c": B})
    assert list(read_weights(tmp_path)) == ["c"]  # a whole file goes first


def test_shards_that_lie(tmp_path):
    index = tmp_path / INDEX
    for text in ("{}", "[]", "{"):
        index.write_text(text)
        with pytest.raises(WeightsError, match="has no weight_map from names to files"):
            read_weights(tmp_path)
    index.write_text('{"weight_map": {"a": "1.safetensors"}}')
    with pytest.raises(WeightsError, match="there is no file .*1.safetensors"):
        read_weights(tmp_path)
    tegg.save_safetensors(tmp_path / "1.safetensors", {"ab": A})
    with pytest.raises(WeightsError, match="has no tensor 'a'; did you mean 'ab'"):
        _ = read_weights(tmp_path)["a"]


def test_names():
    layout = (("x\\.(\\d)", r"y.\1"), ("x", "z"))
    assert renamed({"x.1.w": 1, "x.w": 2, "ax": 3, "drop.w": 4}, layout, "drop") == {
        "y.1.w": 1, "z.w": 2, "ax": 3}
    assert renamed({"x": 1}, ()) == {"x": 1}
