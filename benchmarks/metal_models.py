"""The demo models of ``make metal``: small ones against the CPU, larger ones against the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tegg
from tegg.models.bert import Bert, BertConfig, SentenceEncoder
from tegg.models.causal import CausalLM
from tegg.models.generate import Generator
from tegg.models.gpt2 import GPT2, GPT2Config
from tegg.models.llama import Llama, LlamaConfig
from tegg.models.resnet import ResNet, ResNetConfig
from tegg.models.vit import ViT, ViTConfig
from tegg.nn import Module

THROUGH = "metalcompute"  # or "metal": see tegg.Metal
_PROMPT, _STEPS = 5, 3


@dataclass(frozen=True)
class Demo:
    """small, large: the model to check and to measure. given: its arguments, of either."""

    small: Callable[[], Module]
    large: Callable[[], Module]
    given: Callable[[Module], tuple[np.ndarray, ...]]


def _ids(model: Module) -> tuple[np.ndarray, ...]:
    return (np.random.default_rng(0).integers(0, model.config.vocab_size, (2, _PROMPT + _STEPS)),)


def _sentences(model: Module) -> tuple[np.ndarray, ...]:
    ids, mask = np.random.default_rng(0).integers(0, 64, (2, 11)), np.ones((2, 11), np.int64)
    mask[0, 7:] = 0
    return ids, mask


def _images(model: Module) -> tuple[np.ndarray, ...]:
    size = (model.config.image_size if isinstance(model, ViT) else
            224 if model.config.num_classes == 1000 else 33)
    return (np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32),)


def _encoder(config: BertConfig) -> SentenceEncoder:
    return SentenceEncoder(Bert(config))


MODELS = {
    "encoder": Demo(lambda: _encoder(BertConfig(
        vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=32)), lambda: _encoder(BertConfig(
            vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
            intermediate_size=1536)), _sentences),
    "gpt2": Demo(lambda: GPT2(GPT2Config(31, 40, 16, 2, 4)), lambda: GPT2(GPT2Config()), _ids),
    "llama": Demo(lambda: Llama(LlamaConfig(
        vocab_size=31, hidden_size=16, intermediate_size=20, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=40)),
        lambda: Llama(LlamaConfig(
            vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=12,
            num_attention_heads=16, num_key_value_heads=4, max_position_embeddings=1024)), _ids),
    "vit": Demo(lambda: ViT(ViTConfig(16, 2, 4, 24, image_size=24, patch_size=8, num_labels=5)),
                lambda: ViT(ViTConfig()), _images),
    "resnet": Demo(lambda: ResNet(ResNetConfig((1, 1), False, 5, 3, 4)),
                   lambda: ResNet(ResNetConfig.named("resnet18")), _images),
}


def gpu() -> tuple[Any, ...]:
    """The stack of the GPU."""
    return tegg.Generic(), tegg.Metal(through=THROUGH)


def drawn(model: Module) -> Module:
    """The model with random weights, of a size that keeps values near 1."""
    rng, state = np.random.default_rng(0), {}
    for name, a in model.state_dict().items():
        if a.ndim > 1:
            scale = (a.shape[1] * int(np.prod(a.shape[2:]))) ** -0.5
            state[name] = (rng.standard_normal(a.shape) * scale).astype(a.dtype)
        else:
            whole = name.endswith(("weight", "var"))
            state[name] = (whole + 0.1 * rng.random(a.shape)).astype(a.dtype)
    model.load_state_dict(state)
    return model


def error_of(got: Any, want: Any) -> float:
    """The largest difference, relative to the largest value."""
    got, want = (np.asarray(a).astype(np.float64) for a in (got, want))
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))


def logits(model: CausalLM, ids: np.ndarray, *stack: Any) -> list[np.ndarray]:
    """Of a prompt and of each token after it, by a cache that each step reads and writes; the
    cache comes last."""
    run, caches = Generator(model, compilers=stack), model.caches(len(ids) + ids.shape[1], len(ids))
    out = [run.prefill(np.ascontiguousarray(ids[:, :_PROMPT]), np.arange(_PROMPT), caches)]
    out += [run.decode(np.ascontiguousarray(ids[:, n:n + 1]), np.array([n]), caches)
            for n in range(_PROMPT, ids.shape[1])]
    return [*out, *(np.array(a) for pair in caches for a in pair)]


def check(name: str) -> float:
    """How far the GPU is from the CPU: of all results, and of what is kept from step to step."""
    demo = MODELS[name]
    model = drawn(demo.small())
    given = demo.given(model)
    if isinstance(model, CausalLM):
        pairs = zip(logits(model, *given, *gpu()), logits(model, *given))
        return max(error_of(got, want) for got, want in pairs)
    return error_of(tegg.compile(model, *gpu())(*given), tegg.compile(model)(*given))


def median(run: Callable[[], Any], repeats: int) -> float:
    """Seconds of a call, the middle of so many."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def measure(name: str, repeats: int, small: bool = False) -> dict[str, float]:
    """Seconds of a run; of a language model also of one token with a cache of 256."""
    demo = MODELS[name]
    model = drawn(demo.small() if small else demo.large())
    given = demo.given(model)
    if not isinstance(model, CausalLM):
        run = tegg.compile(model, *gpu())
        run(*given)
        return {"seconds": median(lambda: run(*given), repeats)}
    generator = Generator(model, compilers=gpu())
    length = min(256, model.max_length)
    ids, caches = given[0][:1], model.caches(length, 1)
    whole = np.resize(ids, (1, length - 1))
    prefill = (whole, np.arange(length - 1), caches)
    decode = (np.ascontiguousarray(ids[:, :1]), np.array([length - 1]), caches)
    generator.prefill(*prefill)
    generator.decode(*decode)
    return {"prompt_seconds": median(lambda: generator.prefill(*prefill), repeats),
            "token_seconds": median(lambda: generator.decode(*decode), repeats)}
