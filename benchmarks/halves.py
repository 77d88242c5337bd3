"""What halves cost in exactness: demo models under Bf16 and Fp16 beside float32, against float64.

    python benchmarks/halves.py [minilm gpt2 llama] [--json FILE]

MiniLM has its real weights, which are downloaded once; GPT-2 and Llama have drawn ones, at the
scale of an untrained model. The reference is plain NumPy in float64. Without names all models run,
and results/halves.{md,json} are written.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tegg

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

GPT2 = {"model_type": "gpt2", "activation_function": "gelu_new", "vocab_size": 2000,
        "n_positions": 128, "n_embd": 384, "n_layer": 6, "n_head": 6, "n_inner": None,
        "layer_norm_epsilon": 1e-5}
LLAMA = {"model_type": "llama", "hidden_act": "silu", "vocab_size": 2000, "hidden_size": 384,
         "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 6,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
         "rope_theta": 1e5, "tie_word_embeddings": True}
STACKS: dict[str, tuple[Callable[[], tegg.Compiler], ...]] = {
    "float32": (), "Bf16": (tegg.Bf16,), "Fp16": (tegg.Fp16,), "Fp16, Bf16": (tegg.Fp16, tegg.Bf16)}


@dataclass(frozen=True, slots=True)
class Model:
    """A model with arguments, and what it gives of them in float64."""

    name: str
    weights: str  # whose: real, or drawn
    module: Any
    arguments: tuple[np.ndarray, ...]
    exact: np.ndarray


@dataclass(frozen=True, slots=True)
class Error:
    """How far a model is off under a stack. largest: of the exact values. choices: the share of
    rows whose largest element is where it is in float64."""

    model: str
    weights: str
    stack: str
    max: float
    mean: float
    largest: float
    choices: float


# ---- models
def minilm() -> Model:
    from tegg.models.bert import load_sentence_encoder
    from tegg.models.fetch import fetch
    from tegg.weights import load_safetensors
    folder = fetch("minilm")
    weights = {k: np.asarray(v, np.float64) for k, v in
               load_safetensors(folder / "model.safetensors").items() if v.dtype.kind == "f"}
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, 30000, (8, 31))
    mask = (np.arange(31) < rng.integers(8, 32, (8, 1))).astype(np.int64)
    return Model("MiniLM, embeddings of 8 x 31 tokens", "real", load_sentence_encoder(folder),
                 (ids, mask), encoded(weights, ids, mask))


def encoded(w: dict[str, np.ndarray], ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Sentence embeddings in float64, from weights by the names of their file."""
    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return y * w[f"{name}.weight"] + w[f"{name}.bias"]

    at = "embeddings."
    x = w[f"{at}word_embeddings.weight"][ids] + w[f"{at}token_type_embeddings.weight"][0]
    x = norm(f"{at}LayerNorm", x + w[f"{at}position_embeddings.weight"][:ids.shape[1]])
    unseen = np.where(mask != 0, 0.0, -np.inf)[:, None, None]
    for i in range(6):
        at = f"encoder.layer.{i}."
        q, k, v = (linear(f"{at}attention.self.{n}", x).reshape(*ids.shape, 12, -1)
                   for n in ("query", "key", "value"))
        scores = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1]) + unseen
        e = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("bhij,bjhd->bihd", e / e.sum(-1, keepdims=True), v).reshape(x.shape)
        x = norm(f"{at}attention.output.LayerNorm", x + linear(f"{at}attention.output.dense", y))
        h = linear(f"{at}intermediate.dense", x)
        h = h / 2 * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
        x = norm(f"{at}output.LayerNorm", x + linear(f"{at}output.dense", h))
    mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=-1, keepdims=True)


def drawn(name: str, config: dict[str, Any], weights: Callable, exact: Callable,
          load: Callable[[Path], Any]) -> Model:
    """A causal model of drawn weights: those of products have the scale of an untrained model."""
    import tempfile

    from modules import written
    state = {k: (v / 15 if v.ndim == 2 else v).astype(np.float32)
             for k, v in weights(config).items()}
    ids = np.random.default_rng(1).integers(0, config["vocab_size"], (2, 64))
    with tempfile.TemporaryDirectory() as folder:
        module = load(written(Path(folder), config, state))
    return Model(f"{name}, logits of 2 x 64 tokens", "drawn", module, (ids,),
                 exact(config, state, ids))


def gpt2(config: dict[str, Any] = GPT2) -> Model:
    from test_gpt2 import numpy_gpt2, weights

    from tegg.models.gpt2 import GPT2 as Module
    sizes = f"{config['n_layer']} layers of {config['n_embd']}"
    return drawn(f"GPT-2, {sizes}", config, weights, numpy_gpt2, Module.from_safetensors)


def llama(config: dict[str, Any] = LLAMA) -> Model:
    from test_llama import numpy_llama, weights

    from tegg.models.llama import Llama
    sizes = f"{config['num_hidden_layers']} layers of {config['hidden_size']}"
    return drawn(f"Llama, {sizes}", config, weights, numpy_llama, Llama.from_safetensors)


MODELS: dict[str, Callable[[], Model]] = {"minilm": minilm, "gpt2": gpt2, "llama": llama}


# ---- errors
def measured(model: Model, stacks: Sequence[str] = tuple(STACKS)) -> list[Error]:
    """The errors of a model under each stack."""
    out = []
    for name in stacks:
        run = tegg.compile(model.module, tegg.Generic(), *(c() for c in STACKS[name]))
        got = np.asarray(run(*model.arguments), np.float64)
        off = np.abs(got - model.exact)
        same = got.argmax(-1) == model.exact.argmax(-1)
        out.append(Error(model.name, model.weights, name, float(off.max()), float(off.mean()),
                         float(np.abs(model.exact).max()), float(same.mean())))
    return out


def table(errors: Sequence[Error]) -> str:
    """Errors as Markdown, a table for each model."""
    lines = []
    for model in dict.fromkeys(e.model for e in errors):
        rows = [e for e in errors if e.model == model]
        lines += [f"**{model}**, {rows[0].weights} weights, values up to {rows[0].largest:.3g}:",
                  "", "| stack | max error | mean error | max / largest | same choice |",
                  "|---|---:|---:|---:|---:|",
                  *(f"| {e.stack} | {e.max:.2e} | {e.mean:.2e} | {e.max / e.largest:.2e} | "
                    f"{e.choices:.1%} |" for e in rows), ""]
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", choices=(*MODELS, []), help="of these only")
    p.add_argument("--json", type=Path, help="where the errors are written")
    a = p.parse_args()
    errors = [e for name in a.models or MODELS for e in measured(MODELS[name]())]
    where = f"{platform.machine()}, {', '.join(sorted(features()))}"
    text = (f"# Error of halves against float64\n\nOn the CPU ({where}): `python "
            f"benchmarks/halves.py`. The reference is NumPy in float64.\n\n{table(errors)}")
    print(text)
    path = a.json or (None if a.models else HERE / "results" / "halves.json")
    if path is not None:
        path.write_text(json.dumps({"machine": where, "errors": [asdict(e) for e in errors]},
                                   indent=1) + "\n", encoding="utf-8")
        if not a.json:
            path.with_suffix(".md").write_text(text, encoding="utf-8")


def features() -> Sequence[str]:
    """What the CPU multiplies: products round their operands where it has instructions for them."""
    from tegg.planning.target import find
    return find("cpu").features


if __name__ == "__main__":
    main()
