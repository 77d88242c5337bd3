"""Embed sentences with all-MiniLM-L6-v2 and print how alike they are.

``python examples/minilm.py [SENTENCE ...]``; the weights are downloaded at the first run.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from tokenizers import Tokenizer

import tegg
from tegg.models.bert import load_sentence_encoder, padded
from tegg.models.fetch import fetch

SENTENCES = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The girl is carrying a baby.",
    "A woman is playing the violin.",
    "Two musicians give a concert.",
    "The compiler fused every kernel.",
]


def main(sentences: list[str]) -> None:
    folder = fetch("minilm")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    ids, mask = padded([e.ids for e in tokenizer.encode_batch(sentences)])

    batch, length = tegg.dim("b", min=1, max=64, hint=8), tegg.dim("s", min=1, max=512, hint=32)
    embed = tegg.compile(load_sentence_encoder(folder), device="cpu",
                         dims={"ids": (batch, length), "mask": (batch, length)})
    start = time.perf_counter()
    vectors = embed(ids, mask)
    first = time.perf_counter() - start
    start = time.perf_counter()
    vectors = embed(ids, mask)
    again = time.perf_counter() - start

    alike = vectors @ vectors.T
    print("\n".join("  ".join(f"{v:5.2f}" for v in row) for row in alike), end="\n\n")
    np.fill_diagonal(alike, -np.inf)
    for sentence, row in zip(sentences, alike):
        if len(sentences) > 1:
            print(f"{sentence}\n    {row.max():.2f}  {sentences[row.argmax()]}")
    print(f"\n{len(sentences)} sentences of {ids.shape[1]} tokens: compiled and ran in "
          f"{first:.2f} s, then ran in {again * 1e3:.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1:] or SENTENCES)
