"""Generate text with a Llama or GPT-2, token by token.

``python examples/generate.py FOLDER [PROMPT]`` loads a model in the layout of Hugging Face (with
``tokenizer.json``); without a folder a small Llama with random weights shows how fast a step is.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from tegg.models.generate import Generator
from tegg.models.gpt2 import GPT2
from tegg.models.llama import Llama, LlamaConfig

MODELS = {"llama": Llama, "gpt2": GPT2}
SMALL = LlamaConfig(vocab_size=4096, hidden_size=256, intermediate_size=704, num_hidden_layers=4,
                    num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=512)
NEW = 100


def timed(generator: Generator, ids: np.ndarray) -> np.ndarray:
    """New tokens, and how long they took once the programs are compiled."""
    start = time.perf_counter()
    generator(ids, 2)
    ready = time.perf_counter()
    generator(ids, 1)
    first = time.perf_counter()
    tokens = generator(ids, min(NEW, generator.max_length - ids.shape[1]))
    end = time.perf_counter()
    new = tokens.shape[1] - ids.shape[1]
    print(f"compiled in {ready - start:.1f} s; a prompt of {ids.shape[1]} tokens in "
          f"{(first - ready) * 1e3:.1f} ms; then {(end - first) / new * 1e3:.2f} ms a token")
    return tokens


def from_folder(folder: Path, prompt: str) -> None:
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    model = MODELS[kind].from_safetensors(folder)
    tokens = timed(Generator(model, min(512, model.max_length)),
                   np.array([tokenizer.encode(prompt).ids]))
    print(tokenizer.decode(tokens[0].tolist()))


def main(arguments: list[str]) -> None:
    if arguments:
        from_folder(Path(arguments[0]), " ".join(arguments[1:]) or "Once upon a time")
    else:
        prompt = np.random.default_rng(0).integers(0, SMALL.vocab_size, (1, 32))
        tokens = timed(Generator(Llama(SMALL)), prompt)
        print("tokens:", *tokens[0, 32:48], "...")


if __name__ == "__main__":
    main(sys.argv[1:])
