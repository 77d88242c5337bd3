"""The models of the bundle in PyTorch, of the same sizes, on drawn weights: for times alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def models(torch: Any) -> dict[str, Callable[[], tuple[Callable[..., Any], tuple]]]:
    """Name of a program -> what makes a function and its arguments, on the GPU."""
    return {"minilm": lambda: _minilm(torch, torch.float32),
            "minilm_f16": lambda: _minilm(torch, torch.float16),
            "decoder_step": lambda: _decoder(torch, torch.float32),
            "decoder_step_f16": lambda: _decoder(torch, torch.float16)}


def _weights(torch: Any, dtype: Any, *shapes: tuple[int, ...]) -> list[Any]:
    return [torch.randn(s, device="cuda", dtype=dtype) / s[-1] ** 0.5 for s in shapes]


def _minilm(torch: Any, dtype: Any, layers: int = 6, size: int = 384, heads: int = 12,
            words: int = 30522, batch: int = 8, length: int = 128) -> tuple:
    """A BERT with mean pooling, as ``cases.minilm``."""
    f = torch.nn.functional
    words_, places, kinds = _weights(torch, dtype, (words, size), (512, size), (2, size))
    one = torch.ones(size, device="cuda", dtype=dtype)
    zero, zeros = torch.zeros_like(one), torch.zeros(3 * size, device="cuda", dtype=dtype)
    wide = torch.zeros(4 * size, device="cuda", dtype=dtype)
    made = [_weights(torch, dtype, (3 * size, size), (size, size), (4 * size, size),
                     (size, 4 * size)) for _ in range(layers)]

    def norm(x: Any) -> Any:
        return f.layer_norm(x, (size,), one, zero, 1e-12)

    def run(ids: Any, mask: Any) -> Any:
        seen = mask[:, None, None, :].bool()
        x = norm(words_[ids] + places[:length] + kinds[0])
        for qkv, out, up, down in made:
            q, k, v = f.linear(x, qkv, zeros).view(batch, length, 3, heads, -1).permute(
                2, 0, 3, 1, 4)
            a = f.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            x = norm(x + f.linear(a.transpose(1, 2).reshape(batch, length, size), out, zero))
            x = norm(x + f.linear(f.gelu(f.linear(x, up, wide)), down, zero))
        weights = mask[..., None].to(dtype)
        return f.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)

    ids = torch.randint(0, words, (batch, length), device="cuda")
    return run, (ids, torch.ones_like(ids))


def _decoder(torch: Any, dtype: Any, layers: int = 4, size: int = 1024, slots: int = 512,
             words: int = 8000) -> tuple:
    """One token of a Llama with grouped heads and caches of fixed length, as
    ``cases.decoder_step``."""
    f = torch.nn.functional
    heads, wide = size // 64, 3 * size
    groups, each = heads // 2, 64
    table, head = _weights(torch, dtype, (words, size), (words, size))
    one = torch.ones(size, device="cuda", dtype=dtype)
    made = [_weights(torch, dtype, (size + 2 * groups * each, size), (size, size),
                     (2 * wide, size), (size, wide)) for _ in range(layers)]
    caches = [torch.randn(2, slots, groups, each, device="cuda", dtype=dtype)
              for _ in range(layers)]
    turns = torch.arange(0, each, 2, device="cuda", dtype=torch.float32) / each

    def rotated(x: Any, at: Any) -> Any:
        angle = at[:, None] * 10000.0 ** -turns
        c, s = (t.repeat(1, 2)[:, None].to(dtype) for t in (angle.cos(), angle.sin()))
        a, b = x.chunk(2, -1)
        return x * c + torch.cat((-b, a), -1) * s

    def run(ids: Any, at: Any) -> Any:
        x = table[ids[0]]
        seen = (torch.arange(slots, device="cuda") <= at[0])[None, None, None]
        for (qkv, out, up, down), cache in zip(made, caches):
            y = f.rms_norm(x, (size,), one, 1e-5)
            q, k, v = f.linear(y, qkv).view(1, heads + 2 * groups, each).split(
                (heads, groups, groups), 1)
            cache[0].index_copy_(0, at, rotated(k, at))
            cache[1].index_copy_(0, at, v)
            keys, values = (c.permute(1, 0, 2)[None] for c in cache)
            a = f.scaled_dot_product_attention(rotated(q, at).permute(1, 0, 2)[None], keys, values,
                                               attn_mask=seen, enable_gqa=True)
            x = x + f.linear(a.reshape(1, size), out)
            gate, value = f.linear(f.rms_norm(x, (size,), one, 1e-5), up).chunk(2, -1)
            x = x + f.linear(f.silu(gate) * value, down)
        return f.linear(f.rms_norm(x, (size,), one, 1e-5), head)

    ids = torch.randint(0, words, (1, 1), device="cuda")
    return run, (ids, torch.tensor([slots - 1], device="cuda"))
