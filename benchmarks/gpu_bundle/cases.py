"""What the bundle holds: a program of each kernel family, of candidate forms, of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tegg
from arrays import drawn
from tegg import nn
from tegg.models.bert import Bert, BertConfig, SentenceEncoder
from tegg.models.gpt2 import GPT2, GPT2Config
from tegg.models.llama import Llama, LlamaConfig
from tegg.models.resnet import ResNet, ResNetConfig
from tegg.models.vit import ViT, ViTConfig

LOW, HIGH = -1.0, 1.0


@dataclass(frozen=True, slots=True)
class Input:
    """An argument, drawn between two bounds."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    low: float = LOW
    high: float = HIGH


@dataclass(frozen=True, slots=True)
class Case:
    """A function with what it is run on. ``stack``: compilers beside Generic and Cuda. ``sizes``:
    of symbolic dims, which stand in ``dims``. ``without``: templates that are not to be chosen."""

    name: str
    family: str
    fn: Callable[..., Any]
    inputs: Sequence[Input]
    tolerance: float = 1e-5
    stack: Sequence[Callable[[], Any]] = ()
    dims: Mapping[str, Any] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    big: bool = False  # its result is not kept: it is held against NumPy where it runs


def _norm(x, g, b):
    return tegg.layer_norm(x, (x.shape[-1],), g, b)


def _attention(q, k, v):
    return tegg.scaled_dot_product_attention(q, k, v, is_causal=True)


_N, _S = tegg.dim("n", 1, 4096, hint=64), tegg.dim("s", 1, 4096, hint=64)
_ROWS = (Input((64, 1000)), Input((1000,)), Input((1000,)))
_HEADS = (Input((2, 4, 96, 64)),) * 3
_HALVES = (Input((2, 4, 150, 64), "f16"),) * 3
_BHALVES = (Input((2, 4, 90, 72), "bf16"),) * 3

FAMILIES = (
    Case("elementwise", "elementwise", lambda x, y: (tegg.gelu(x) * y - x.tanh()).exp(),
         (Input((257, 513)), Input((513,)))),
    Case("elementwise_wide", "elementwise", lambda x, y: x * y + 1,
         (Input((512, 1024)), Input((512, 1024)))),
    Case("elementwise_f16", "elementwise", lambda x, y: x * y + x,
         (Input((512, 256), "f16"), Input((256,), "f16")), 2e-3),
    Case("elementwise_bf16", "elementwise", lambda x, y: x * y + x,
         (Input((512, 256), "bf16"), Input((256,), "bf16")), 2e-2),
    Case("integers", "elementwise", lambda x, y: (x * 7 + y) % 5,
         (Input((300, 70), "i32", -1000, 1000), Input((70,), "i32", 1, 9)), 0.0),
    Case("softmax", "rows", lambda x: tegg.softmax(x, -1), (Input((128, 1000), low=-9, high=9),)),
    Case("softmax_short", "rows", lambda x: tegg.softmax(x, -1), (Input((4000, 24)),)),
    Case("layer_norm", "rows", _norm, _ROWS, 2e-5),
    Case("log_softmax", "rows", lambda x: tegg.log_softmax(x, -1), (Input((64, 3000)),)),
    Case("softmax_registers", "rows", lambda x: tegg.softmax(x, -1), (Input((20, 16000)),)),
    Case("softmax_shared", "rows", lambda x: tegg.softmax(x, -1), (Input((20, 28000)),)),
    Case("softmax_again", "rows", lambda x: tegg.softmax(x, -1), (Input((20, 70000)),)),
    Case("reduce_columns", "reductions", lambda x: x.sum(0), (Input((3000, 100)),), 2e-5),
    Case("reduce_all", "reductions", lambda x: (x.sum(), x.max(), x.mean()),
         (Input((1000, 1000)),), 1e-3),
    Case("argmax", "reductions", lambda x: x.argmax(-1), (Input((100, 777)),), 0.0),
    Case("transpose", "movement", lambda x: (x.T + 0.0, x.flip(0), x[3:, ::2]),
         (Input((300, 200)),)),
    Case("gather", "movement", lambda x, i: x[i], (Input((500, 96)), Input((700,), "i64", 0, 500)),
         0.0),
    Case("scatter", "movement", lambda x, i, u: x.index_add(0, i, u),
         (Input((50, 16)), Input((90,), "i64", 0, 50), Input((90, 16)))),
    Case("scan", "movement", lambda x: x.cumsum(1), (Input((40, 500)),), 2e-5),
    Case("product", "contractions", lambda x, w: x @ w, (Input((256, 320)), Input((320, 192)))),
    Case("product_uneven", "contractions", lambda x, w: (x @ w).relu(),
         (Input((133, 77)), Input((77, 45)))),
    Case("product_turned", "contractions", lambda x, w: x.T @ w.T,
         (Input((160, 96)), Input((128, 160)))),
    Case("product_few_rows", "contractions", lambda x, w, b: x @ w + b,
         (Input((1, 2048)), Input((2048, 1024)), Input((1024,))), 2e-5),
    Case("product_few_rows_f16", "contractions", lambda x, w: x @ w,
         (Input((3, 1000), "f16"), Input((1000, 520), "f16")), 2e-3),
    Case("product_few_rows_turned_f16", "contractions", lambda x, w: x @ w.T,
         (Input((1, 1032), "f16"), Input((500, 1032), "f16")), 2e-3),
    Case("product_deep", "contractions", lambda x, w: x @ w,
         (Input((32, 16384)), Input((16384, 32))), 1e-4),
    Case("product_batched", "contractions", lambda x, y: x @ y,
         (Input((12, 65, 40)), Input((12, 40, 33)))),
    Case("product_f16", "contractions", lambda x, w: x @ w,
         (Input((256, 256), "f16"), Input((256, 128), "f16")), 2e-3),
    Case("product_bf16", "contractions", lambda x, w: x @ w,
         (Input((256, 256), "bf16"), Input((256, 128), "bf16")), 2e-2),
    Case("product_stored_f16", "contractions", lambda x, w: tegg.gelu(x @ w) @ w,
         (Input((128, 256)), Input((256, 256))), 2e-2, (tegg.Fp16,)),
    Case("convolution", "contractions", lambda x, w: tegg.conv2d(x, w, padding=1),
         (Input((2, 16, 28, 28)), Input((24, 16, 3, 3))), 2e-5),
    Case("attention", "attention", _attention, _HEADS, 2e-5),
    Case("attention_f16", "attention", _attention, _HALVES, 5e-3),
    Case("attention_bf16", "attention", _attention, _BHALVES, 4e-2),
    Case("symbolic", "symbolic", lambda x, y: tegg.softmax(x @ y, -1),
         (Input((100, 48)), Input((48, 70))), 2e-5, dims={"x": (_N, None), "y": (None, _S)}),
)


def drawn_weights(module: nn.Module) -> nn.Module:
    """A module whose weights are drawn as the bundle draws arrays."""
    for i, (name, p) in enumerate(module.named_parameters()):
        scale = 1.0 if len(p.shape) == 1 else 1.7 / float(p.shape[-1]) ** 0.5
        low = 0.9 if name.endswith("norm.weight") else -scale
        spec = {"shape": list(p.shape), "dtype": "f32", "seed": 500 + i, "low": low,
                "high": 1.1 if low == 0.9 else scale}
        p.data = drawn(spec)
        SPECS[id(p)] = spec
    return module


SPECS: dict[int, dict[str, Any]] = {}  # of drawn weights, by the parameter


def minilm(layers: int = 6, words: int = 30522, half: bool = False) -> Case:
    """all-MiniLM-L6-v2 in its sizes; its weights are drawn."""
    model = drawn_weights(SentenceEncoder(Bert(BertConfig(
        vocab_size=words, hidden_size=384, num_hidden_layers=layers, num_attention_heads=12,
        intermediate_size=1536))))
    return Case("minilm_f16" if half else "minilm", "models", model,
                (Input((8, 128), "i64", 0, words), Input((8, 128), "i64", 1, 2)),
                2e-2 if half else 2e-4, (tegg.Fp16,) if half else ())


def decoder_step(layers: int = 4, size: int = 1024, slots: int = 512, half: bool = False,
                 words: int = 8000) -> Case:
    """One token of a Llama with grouped heads, against caches that it writes to."""
    heads = max(2, size // 64)
    model = Llama(LlamaConfig(vocab_size=words, hidden_size=size, intermediate_size=3 * size,
                              num_hidden_layers=layers, num_attention_heads=heads,
                              num_key_value_heads=heads // 2, max_position_embeddings=1024))
    drawn_weights(model)

    def step(ids, positions, *caches):
        pairs = [(caches[2 * i], caches[2 * i + 1]) for i in range(layers)]
        return model.head(model.hidden(ids, positions, pairs)[:, -1])

    cache = Input((slots, 1, heads // 2, size // heads))
    return Case("decoder_step_f16" if half else "decoder_step", "models", step,
                (Input((1, 1), "i64", 0, words), Input((1,), "i64", slots - 1, slots),
                 *[cache] * (2 * layers)), 2e-2 if half else 2e-4, (tegg.Fp16,) if half else ())


def gpt2(layers: int = 4, size: int = 256, length: int = 96) -> Case:
    """A prompt of a small GPT-2."""
    model = drawn_weights(GPT2(GPT2Config(4000, 256, size, layers, max(2, size // 64))))
    return Case("gpt2", "models", model, (Input((2, length), "i64", 0, 4000),), 2e-4)


def vit(layers: int = 4, size: int = 192, image: int = 96) -> Case:
    """Images through a small vision transformer."""
    model = drawn_weights(ViT(ViTConfig(
        hidden_size=size, num_hidden_layers=layers, num_attention_heads=3,
        intermediate_size=4 * size, image_size=image, num_labels=100)))
    return Case("vit", "models", model, (Input((2, 3, image, image)),), 2e-4)


def resnet(depths: tuple[int, ...] = (2, 2, 2, 2), width: int = 64, image: int = 64) -> Case:
    """Images through a ResNet, whose norms are those of fresh statistics."""
    model = drawn_weights(ResNet(ResNetConfig(depths, False, 100, 3, width)))
    return Case("resnet", "models", model, (Input((2, 3, image, image)),), 5e-4)


def models() -> list[Case]:
    """Every model of the bundle."""
    return [minilm(), minilm(half=True), decoder_step(), decoder_step(half=True), gpt2(), vit(),
            resnet()]
