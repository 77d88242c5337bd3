"""A decoder of SmolLM2-135M's sizes on drawn weights: a prompt, and a token after it, in tegg and
written plainly in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from images import settled
from tegg.models.llama import Llama, LlamaConfig

CONFIG = LlamaConfig()  # SmolLM2-135M's
EPS, THETA, LAYERS = CONFIG.rms_norm_eps, CONFIG.rope_theta, CONFIG.num_hidden_layers
HEADS, KEY_HEADS = CONFIG.num_attention_heads, CONFIG.num_key_value_heads
SIZE = CONFIG.hidden_size // HEADS
SLOTS = 128


@dataclass(frozen=True, slots=True)
class Work:
    """The tokens of a call, (1, length), which end at the last of ``SLOTS`` positions."""

    name: str
    about: str
    length: int

    def tokens(self) -> np.ndarray:
        return np.random.default_rng(self.length).integers(0, CONFIG.vocab_size, (1, self.length))

    def positions(self) -> np.ndarray:
        return np.arange(SLOTS - self.length, SLOTS)


DECODERS = (
    Work("smollm2_prompt", f"SmolLM2-135M, a prompt of {SLOTS} tokens", SLOTS),
    Work("smollm2_token", f"SmolLM2-135M, a token after {SLOTS - 1}", 1))


def model() -> Any:
    """What both libraries run."""
    return settled(Llama(CONFIG))


def caches() -> np.ndarray:
    """Keys and values of all positions: (layers, 2, slots, batch, heads, size)."""
    return np.random.default_rng(2).standard_normal((LAYERS, 2, SLOTS, 1, KEY_HEADS, SIZE),
                                                    np.float32)


def in_tegg(model: Any, work: Work, *compilers: Any) -> tuple[Any, Callable[[], np.ndarray]]:
    """The program, and the logits of the last token by a call of it: that of a Generator."""
    from tegg.models.generate import Generator
    generator = Generator(model, SLOTS, compilers)
    f = generator.prefill if work.length > 1 else generator.decode
    given = work.tokens(), work.positions(), [tuple(pair) for pair in caches()]
    call = f.bind(*given)
    (logits,) = call.outputs.values()

    def run():
        call()
        return logits
    return f.program(*given), run


def in_torch(torch: Any, weights: Mapping[str, Any], work: Work) -> Callable[[Any], Any]:
    """Logits of the last token by the tokens, in the dtype of the weights; caches of the keys and
    values are written to."""
    f, dtype = torch.nn.functional, weights["embed_tokens.weight"].dtype
    start, causal = SLOTS - work.length, work.length > 1
    kept = torch.from_numpy(caches()).to(dtype)
    keys, values = kept.permute(1, 0, 3, 4, 2, 5).contiguous()
    angle = torch.from_numpy(work.positions()).float()[:, None] * THETA ** (
        -torch.arange(0, SIZE, 2) / SIZE)
    angle = torch.cat([angle, angle], -1)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def norm(x, name):
        return f.rms_norm(x, x.shape[-1:], weights[f"{name}.weight"], EPS)

    def heads(x, name, n):
        return f.linear(x, weights[f"{name}.weight"]).view(1, -1, n, SIZE).transpose(1, 2)

    def turned(x):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def run(ids):
        x = weights["embed_tokens.weight"][ids]
        for i in range(LAYERS):
            at, y = f"layers.{i}.self_attn", norm(x, f"layers.{i}.input_layernorm")
            q = turned(heads(y, f"{at}.query", HEADS))
            keys[i, :, :, start:] = turned(heads(y, f"{at}.key", KEY_HEADS))
            values[i, :, :, start:] = heads(y, f"{at}.value", KEY_HEADS)
            a = f.scaled_dot_product_attention(q, keys[i], values[i], is_causal=causal,
                                               enable_gqa=True)
            x = x + f.linear(a.transpose(1, 2).flatten(2), weights[f"{at}.out.weight"])
            at, y = f"layers.{i}.mlp", norm(x, f"layers.{i}.post_attention_layernorm")
            gate, up = (f.linear(y, weights[f"{at}.{n}_proj.weight"]) for n in ("gate", "up"))
            x = x + f.linear(f.silu(gate) * up, weights[f"{at}.down_proj.weight"])
        return f.linear(norm(x[:, -1], "norm"), weights["embed_tokens.weight"])

    return run
