"""all-MiniLM-L6-v2 on its real weights: the same encoder in tegg and written plainly in PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HEADS, EPS = 12, 1e-12
SIZES = ((8, 31), (8, 128))


def batch(sentences: int, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Random token ids, and a mask in which sentences have different lengths."""
    rng = np.random.default_rng(tokens)
    ids = rng.integers(1000, 30000, (sentences, tokens))
    mask = np.arange(tokens) < rng.integers(tokens // 2, tokens + 1, (sentences, 1))
    mask[0] = True
    return ids, mask.astype(np.int64)


def in_tegg(ids: np.ndarray, mask: np.ndarray, *compilers: Any) -> Any:
    """The compiled function."""
    import tegg
    from tegg.models.bert import load_sentence_encoder
    from tegg.models.fetch import fetch
    f = tegg.compile(load_sentence_encoder(fetch("minilm")), *compilers)
    f(ids, mask)
    return f


def in_torch(dtype: str = "float32") -> Callable[..., Any]:
    """The encoder as a function of two tensors, its weights in a dtype."""
    import torch
    import torch.nn.functional as F

    from tegg.models.fetch import fetch
    from tegg.weights import load_safetensors
    folder = fetch("minilm")
    weights = {k: torch.from_numpy(np.array(v)).to(getattr(torch, dtype)) for k, v in
               load_safetensors(folder / "model.safetensors").items() if v.dtype.kind == "f"}

    def linear(x, name):
        return F.linear(x, weights[name + ".weight"], weights[name + ".bias"])

    def norm(x, name):
        w = weights[name + ".weight"]
        return F.layer_norm(x, w.shape, w, weights[name + ".bias"], EPS)

    def encode(ids, mask):
        b, t = ids.shape
        x = weights["embeddings.word_embeddings.weight"][ids]
        x = x + weights["embeddings.position_embeddings.weight"][:t]
        x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        seen = (mask != 0)[:, None, None, :]
        for i in range(6):
            at = f"encoder.layer.{i}."
            q, k, v = (linear(x, f"{at}attention.self.{n}").view(b, t, HEADS, -1).transpose(1, 2)
                       for n in ("query", "key", "value"))
            a = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            a = a.transpose(1, 2).reshape(b, t, -1)
            a = linear(a, at + "attention.output.dense")
            x = norm(x + a, at + "attention.output.LayerNorm")
            h = F.gelu(linear(x, at + "intermediate.dense"))
            x = norm(x + linear(h, at + "output.dense"), at + "output.LayerNorm")
        m = mask[:, :, None].to(x.dtype)
        return F.normalize((x * m).sum(1) / m.sum(1).clamp(min=1e-9), dim=-1)

    return encode


def first_calls(sentences: int, tokens: int) -> dict[str, float]:
    """Seconds of the first call in a new process, with an empty cache and then with a full one."""
    text = (f"import sys, time; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            "import minilm, tegg\nfrom tegg.models.fetch import fetch\n"
            f"from tegg.models.bert import load_sentence_encoder\n"
            f"ids, mask = minilm.batch({sentences}, {tokens})\n"
            "model = load_sentence_encoder(fetch('minilm')); start = time.perf_counter()\n"
            "tegg.compile(model)(ids, mask); print(time.perf_counter() - start)\n")
    from tegg.models.fetch import fetch, models_folder
    fetch("minilm")
    out = {}
    with tempfile.TemporaryDirectory() as cache:
        os.symlink(models_folder(), Path(cache) / "models")
        for what in ("cold", "cached"):
            run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                                 check=True, env={**os.environ, "TEGG_CACHE": cache})
            out[what] = float(run.stdout)
    return out


def contenders(sentences: int, tokens: int
               ) -> tuple[Any, dict[str, Callable[[], object]], dict[str, float]]:
    """The program, functions to time, and the seconds of first calls."""
    ids, mask = batch(sentences, tokens)
    f = in_tegg(ids, mask)
    first = {f"tegg {k}": v for k, v in first_calls(sentences, tokens).items()}
    return f.program(ids, mask), {"tegg": lambda: f(ids, mask)}, first
