"""Generation with caches against the whole sequence again for each token."""

from __future__ import annotations

import numpy as np
import pytest
from modules import oracle, randomise

import tegg
from tegg.errors import ArgumentError
from tegg.models import generate as module
from tegg.models.generate import Generator, generate, greedy
from tegg.models.gpt2 import GPT2, GPT2Config
from tegg.models.llama import Llama, LlamaConfig

LLAMA = LlamaConfig(vocab_size=31, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=40)
IDS = np.random.default_rng(0).integers(0, 31, (2, 5))


def models():
    return {"llama": randomise(Llama(LLAMA)),
            "gpt2": randomise(GPT2(GPT2Config(31, 40, 16, 2, 4)))}


@pytest.fixture(scope="module")
def llama():
    return models()["llama"]


@pytest.fixture(scope="module")
def generator(llama):
    return Generator(llama, device="cpu")


def again(model, ids, new):
    """Each token from the oracle's logits of all that come before."""
    for _ in range(new):
        logits, _ = oracle(model, ids)
        ids = np.concatenate([ids, logits[:, -1].argmax(-1)[:, None]], 1)
    return ids


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_cached_is_the_same_as_all_at_once(name, monkeypatch):
    """Over several windows of the cache."""
    monkeypatch.setattr(module, "WINDOW", 4)
    model = models()[name]
    assert (generate(model, IDS, 9) == again(model, IDS, 9)).all()


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_logits_of_prefill_and_decode_agree(name):
    """Not only the chosen tokens: the logits of every step, teacher-forced."""
    model = models()[name]
    whole, _ = oracle(model, IDS)
    f = Generator(model)
    caches = model.caches(40, 2)
    got = [f.prefill(IDS[:, :2], np.arange(2), caches)]
    for n in (2, 3, 4):
        got.append(f.decode(np.ascontiguousarray(IDS[:, n:n + 1]), np.array([n]), caches))
    np.testing.assert_allclose(np.stack(got, 1), whole[:, 1:], atol=1e-4)


def test_a_stack_of_ones_own(llama):
    stack = (tegg.Generic(), tegg.Bf16())
    own = Generator(llama, compilers=stack)
    assert own(IDS, 2).shape == (2, 7)
    assert own.prefill._options["compilers"] == own.decode._options["compilers"] == stack


def test_caches_are_written_in_place(generator, llama):
    """No copy of a cache in the plan, and none in the arena."""
    caches = llama.caches(40, 2)
    for f, length in ((generator.prefill, 3), (generator.decode, 1)):
        args = (np.zeros((2, length), np.int64), np.arange(length), caches)
        plan = f.program(*args).plan
        assert not plan.before and not plan.after
        arena = {b.bytes({"length": length, "slots": 40}) for b in plan.buffers
                 if b.kind == "arena"}
        assert arena and caches[0][0].nbytes not in arena
        assert sum("Scatter" in c.label for c in plan.run) == 4
        f(*args)
    assert all(a[0].any() and not a[3:].any() for pair in caches for a in pair)


def test_programs_serve_every_prompt(generator, llama):
    for length, new in ((1, 3), (4, 36), (3, 0)):
        got = generator(IDS[:, :length], new)
        assert got.shape == (2, length + new)
        assert (got[:, :length + 2] == again(llama, IDS[:, :length], min(new, 2))).all()
    assert len(generator.decode._programs) == len(generator.prefill._programs) == 1
    assert (generator(IDS.tolist(), 2) == again(llama, IDS, 2)).all()


def test_stops(generator):
    free = generator(IDS, 10)
    first = int(free[0, 7])
    at = list(free[0, 5:]).index(first) + 5
    got = generator(IDS, 10, stop=[first])
    assert (got[0, :at + 1] == free[0, :at + 1]).all() and (got[0, at:] == first).all()
    both = generator(IDS, 10, stop=range(31))
    assert both.shape == (2, 6)


def test_pick(generator):
    got = generator(IDS, 3, pick=lambda logits: np.full(len(logits), 7))
    assert (got[:, 5:] == 7).all()
    assert (greedy(np.array([[0, 2, 1], [3, 3, 0]])) == [1, 0]).all()


def test_new_weights_are_used(generator, llama):
    model = randomise(Llama(LLAMA), seed=4)
    g = Generator(model, device="cpu")
    before = g(IDS, 6)
    model.load_state_dict(llama.state_dict())
    assert (g(IDS, 6) == generator(IDS, 6)).all() and (g(IDS, 6) != before).any()


def test_errors(generator, llama):
    for ids in (IDS[0], IDS.astype(float), IDS[:, :0]):
        with pytest.raises(ArgumentError, match=r"prompts are integers \(batch, length\), not"):
            generator(ids, 1)
    for new in (36, -1):
        with pytest.raises(ArgumentError, match=f"5 tokens of prompt and {new} new ones do not "
                                                f"fit max_length 40"):
            generator(IDS, new)
    with pytest.raises(ArgumentError, match=r"max_length 41 is not in 1\.\.40, the positions"):
        Generator(llama, 41)
    with pytest.raises(ArgumentError, match=r"needs the positions of the new tokens"):
        tegg.trace(lambda ids, cache: llama(ids, cache=cache), (IDS, llama.caches(8, 2)))
