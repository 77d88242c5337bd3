"""The workloads: inputs, sizes of the work, and what each computes, said once in NumPy.

The same functions are the reference in float64 and the contender ``numpy`` in float32.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

EPS = 1e-5
SEQUENCE, WIDTH, HEADS, INNER = 128, 768, 12, 3072          # encoder
D_WIDTH, D_HEADS, D_INNER, D_SLOTS = 1024, 16, 2816, 512    # decode
BATCH, LAYERS, RATE = 128, (784, 512, 256, 10), 0.01        # train_mlp
TRAINED = ("w1", "b1", "w2", "b2", "w3", "b3")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Workload:
    """``weights`` are what a model holds; ``states`` what a call overwrites.

    ``flops`` counts useful operations (an addition and a multiplication are one each), ``bytes``
    each input read once and each result written once. ``tolerance`` is on the largest error over
    the largest reference.
    """

    name: str
    about: str
    make: Callable[[np.random.Generator], Arrays]
    numpy: Callable[..., object]
    flops: float = 0.0
    bytes: float = 0.0
    weights: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    tolerance: float = 2e-5

    def inputs(self) -> Arrays:
        return self.make(np.random.default_rng(zlib.crc32(self.name.encode())))

    def reference(self) -> tuple[np.ndarray, ...]:
        wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v
                for k, v in self.inputs().items()}
        return arrays_of(self.numpy(**wide))


def arrays_of(out: object) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, out if isinstance(out, (tuple, list)) else (out,)))


def f32(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))


def gelu_erf(x: np.ndarray) -> np.ndarray:
    from scipy.special import erf  # type: ignore[import-untyped]
    return 0.5 * x * (1 + erf(x * 0.7071067811865476))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def layernorm(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + EPS) * g + b


def rmsnorm(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * g


def mlp(x, w1, b1, w2, b2):
    return gelu_tanh(x @ w1 + b1) @ w2 + b2


def attention(q, k, v, causal=True):
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, s.dtype.type(-np.inf))
    return softmax(s) @ v


def encoder(x, wqkv, bqkv, wo, bo, g1, n1, w1, b1, w2, b2, g2, n2):
    parts = (x @ wqkv + bqkv).reshape(1, SEQUENCE, 3, HEADS, WIDTH // HEADS)
    o = attention(*parts.transpose(2, 0, 3, 1, 4), causal=False)
    o = o.transpose(0, 2, 1, 3).reshape(1, SEQUENCE, WIDTH)
    x = layernorm(x + (o @ wo + bo), g1, n1)
    return layernorm(x + mlp(x, w1, b1, w2, b2), g2, n2)


def conv3x3(x, w):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(w[0].size, -1)
    return (w.reshape(len(w), -1) @ columns).reshape(1, len(w), *x.shape[2:])


def resblock(x, w1, g1, b1, m1, v1, w2, g2, b2, m2, v2):
    def norm(t, g, b, m, v):
        s = g / np.sqrt(v + EPS)
        return t * s[:, None, None] + (b - m * s)[:, None, None]
    h = np.maximum(norm(conv3x3(x, w1), g1, b1, m1, v1), 0)
    return np.maximum(norm(conv3x3(h, w2), g2, b2, m2, v2) + x, 0)


def decode(x, kc, vc, cos, sin, n1, wqkv, wo, n2, wg, wu, wd):
    def turned(t):
        a, b = t[:, :32], t[:, 32:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
    q, k, v = (rmsnorm(x, n1) @ wqkv).reshape(3, D_HEADS, 64)
    kc[:, -1], vc[:, -1] = turned(k), v
    p = softmax((kc @ turned(q)[:, :, None])[..., 0] * 0.125)
    h = x + (p[:, None] @ vc).reshape(1, D_WIDTH) @ wo
    m = rmsnorm(h, n2)
    gate = m @ wg
    return h + (gate / (1 + np.exp(-gate)) * (m @ wu)) @ wd


def train_mlp(x, y, w1, b1, w2, b2, w3, b3):
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    p = softmax(h2 @ w3 + b3)
    at = (np.arange(len(y)), y)
    loss = -np.log(p[at]).mean()
    p[at] -= 1
    p /= len(y)
    d2 = (p @ w3.T) * (h2 > 0)
    d1 = (d2 @ w2.T) * (h1 > 0)
    for w, b, h, d in ((w3, b3, h2, p), (w2, b2, h1, d2), (w1, b1, x, d1)):
        w -= RATE * (h.T @ d)
        b -= RATE * d.sum(0)
    return loss, w1, b1, w2, b2, w3, b3


# ---- inputs
def _chain(g):
    return dict(x=f32(g, 4096, 1024), a=f32(g, 1024), b=f32(g, 1024))


def _encoder(g):
    w, f = WIDTH, INNER
    return dict(x=f32(g, 1, SEQUENCE, w), wqkv=f32(g, w, 3 * w, scale=0.03),
                bqkv=f32(g, 3 * w, scale=0.02), wo=f32(g, w, w, scale=0.03),
                bo=f32(g, w, scale=0.02), g1=1 + f32(g, w, scale=0.1), n1=f32(g, w, scale=0.1),
                w1=f32(g, w, f, scale=0.03), b1=f32(g, f, scale=0.02),
                w2=f32(g, f, w, scale=0.02), b2=f32(g, w, scale=0.02),
                g2=1 + f32(g, w, scale=0.1), n2=f32(g, w, scale=0.1))


def _resblock(g):
    out = dict(x=f32(g, 1, 64, 56, 56))
    for i in "12":
        out |= {f"w{i}": f32(g, 64, 64, 3, 3, scale=0.05), f"g{i}": 1 + f32(g, 64, scale=0.1),
                f"b{i}": f32(g, 64, scale=0.1), f"m{i}": f32(g, 64, scale=0.1),
                f"v{i}": (1 + 0.2 * g.random(64)).astype(np.float32)}
    return out


def _decode(g):
    w, f = D_WIDTH, D_INNER
    angle = (D_SLOTS - 1) / 10000.0 ** (np.arange(32) / 32.0)
    return dict(x=f32(g, 1, w), kc=f32(g, D_HEADS, D_SLOTS, 64), vc=f32(g, D_HEADS, D_SLOTS, 64),
                cos=np.cos(angle).astype(np.float32), sin=np.sin(angle).astype(np.float32),
                n1=1 + f32(g, w, scale=0.1), wqkv=f32(g, w, 3 * w, scale=0.03),
                wo=f32(g, w, w, scale=0.03), n2=1 + f32(g, w, scale=0.1),
                wg=f32(g, w, f, scale=0.03), wu=f32(g, w, f, scale=0.03),
                wd=f32(g, f, w, scale=0.02))


def _train(g):
    out = dict(x=f32(g, BATCH, LAYERS[0]), y=g.integers(0, 10, BATCH).astype(np.int32))
    for n, (a, b) in enumerate(pairwise(LAYERS), 1):
        out |= {f"w{n}": f32(g, a, b, scale=(2 / a) ** 0.5), f"b{n}": f32(g, b, scale=0.01)}
    return out


def _product(name: str, about: str, m: int, k: int, n: int, turned: bool = False) -> Workload:
    return Workload(name, about,
                    lambda g: dict(x=f32(g, m, k), w=f32(g, *((n, k) if turned else (k, n)))),
                    lambda x, w: x @ (w.T if turned else w), 2.0 * m * k * n,
                    4.0 * (m * k + k * n + m * n), ("w",), tolerance=1e-5)


# Inputs that are files of a folder, by workload: for processes that should not make them.
def write_inputs(folder: Path, name: str) -> None:
    place = folder / name
    place.mkdir()
    for i, (k, v) in enumerate(SUITE[name].inputs().items()):
        np.save(place / f"{i:02}-{k}.npy", v)


def read_inputs(folder: Path, name: str) -> Arrays:
    """The inputs of a file in memory that was asked of the system for each, and goes back to it:
    no allocator keeps it for later when it is dropped."""
    return {p.stem[3:]: _apart(np.load(p, mmap_mode="r"))
            for p in sorted((folder / name).iterdir())}


def _apart(a: np.ndarray) -> np.ndarray:
    memory = mmap.mmap(-1, max(1, a.nbytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    out = np.frombuffer(memory, a.dtype, a.size).reshape(a.shape)
    out[...] = a
    return out


_ROWS = 4 * 2**20 * 4.0   # bytes of 4096 x 1024 float32
_CONV = 2.0 * 64 * 64 * 9 * 56 * 56
_PLANES, _TAPS = 64 * 56 * 56, 64 * 64 * 9
_BLOCK = 4 * WIDTH * WIDTH + 2 * WIDTH * INNER
_STEP = 4 * D_WIDTH * D_WIDTH + 3 * D_WIDTH * D_INNER
_CACHE = D_HEADS * D_SLOTS * 64

SUITE = {w.name: w for w in (
    Workload("ew_gelu", "gelu_tanh(x*a+b)-x, 4096 x 1024", _chain,
             lambda x, a, b: gelu_tanh(x * a + b) - x, 48 * 2.0**20, 2 * _ROWS),
    Workload("ew_gelu_erf", "gelu_erf(x*a+b)-x, 4096 x 1024", _chain,
             lambda x, a, b: gelu_erf(x * a + b) - x, 48 * 2.0**20, 2 * _ROWS),
    Workload("softmax", "softmax of the rows of 4096 x 1024",
             lambda g: dict(x=f32(g, 4096, 1024, scale=3.0)), softmax, bytes=2 * _ROWS),
    Workload("layernorm", "layernorm(x+r)*g+b, 4096 x 1024",
             lambda g: dict(x=f32(g, 4096, 1024), r=f32(g, 4096, 1024), g=f32(g, 1024),
                            b=f32(g, 1024)),
             lambda x, r, g, b: layernorm(x + r, g, b), bytes=3 * _ROWS),
    Workload("rmsnorm", "rmsnorm(x)*g, 2048 x 2048",
             lambda g: dict(x=f32(g, 2048, 2048), g=f32(g, 2048)), rmsnorm, bytes=2 * _ROWS),
    _product("matmul_1024", "1024 x 1024 @ 1024 x 1024", 1024, 1024, 1024),
    _product("matmul_64", "64 x 2048 @ 2048 x 2048", 64, 2048, 2048),
    _product("matvec", "1 x 4096 @ 4096 x 4096", 1, 4096, 4096),
    _product("matvec_t", "1 x 4096 @ (4096 x 4096).T, as a Linear lies", 1, 4096, 4096, True),
    Workload("mlp", "128 x 1024 -> gelu_tanh 4096 -> 1024",
             lambda g: dict(x=f32(g, 128, 1024), w1=f32(g, 1024, 4096, scale=0.03),
                            b1=f32(g, 4096, scale=0.1), w2=f32(g, 4096, 1024, scale=0.015),
                            b2=f32(g, 1024, scale=0.1)),
             mlp, 4.0 * 128 * 1024 * 4096, 4.0 * (2 * 1024 * 4096 + 2 * 128 * 1024),
             ("w1", "b1", "w2", "b2")),
    Workload("attention", "causal attention, 12 heads of 512 x 64",
             lambda g: {n: f32(g, 1, 12, 512, 64) for n in "qkv"}, attention,
             12 * 2.0 * 512 * 512 * 64, 16.0 * 12 * 512 * 64),
    Workload("encoder", "post-norm encoder block, 128 x 768, 12 heads, 3072 inside", _encoder,
             encoder, 2.0 * SEQUENCE * _BLOCK + 4.0 * SEQUENCE**2 * WIDTH,
             4.0 * (_BLOCK + 2 * SEQUENCE * WIDTH),
             ("wqkv", "bqkv", "wo", "bo", "g1", "n1", "w1", "b1", "w2", "b2", "g2", "n2"),
             tolerance=5e-5),
    Workload("conv3x3", "3 x 3 convolution, 64 -> 64 channels, 56 x 56",
             lambda g: dict(x=f32(g, 1, 64, 56, 56), w=f32(g, 64, 64, 3, 3, scale=0.05)),
             conv3x3, _CONV, 4.0 * (2 * _PLANES + _TAPS), ("w",)),
    Workload("resblock", "basic block of a ResNet, 64 channels, 56 x 56", _resblock, resblock,
             2 * _CONV, 8.0 * (_PLANES + _TAPS),
             tuple(k + i for i in "12" for k in "wgbmv")),
    Workload("decode", "one token of a Llama-like block, width 1024, 512 keys", _decode, decode,
             2.0 * _STEP + 4.0 * _CACHE, 4.0 * (_STEP + 2 * _CACHE),
             ("cos", "sin", "n1", "wqkv", "wo", "n2", "wg", "wu", "wd"), ("kc", "vc"), 5e-5),
    Workload("tiny", "(x+y)*z on 8 elements: the overhead of a call",
             lambda g: {n: f32(g, 8) for n in "xyz"}, lambda x, y, z: (x + y) * z, 16, 128),
    Workload("train_mlp", "784-512-256-10, batch 128: forward, backward, SGD in place", _train,
             train_mlp, 2.0 * BATCH * (784 * 512 * 2 + 512 * 256 * 3 + 2560 * 3),
             8.0 * (784 * 512 + 512 * 256 + 2560), states=TRAINED, tolerance=1e-5),
)}

# What a framework does once, whatever the program: it loads its code, starts threads, makes pools.
FIRST = (SUITE["tiny"], _product("matmul_64", "a small product", 32, 48, 64))
