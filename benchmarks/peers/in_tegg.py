"""tegg: each workload compiled for its arrays, called through ``bind``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache

import ml_dtypes
import numpy as np

from contender import BF16, Contender, has_bf16
from workloads import (
    BATCH, D_HEADS, D_SLOTS, D_WIDTH, EPS, FIRST, HEADS, LAYERS, RATE, SEQUENCE, TRAINED, WIDTH)


_PREPARE = """
import compileall
import tegg.backends.cpu
from tegg.runtime.prepare import prepare
for folder in (*tegg.__path__, *tegg.backends.cpu.__path__):
    compileall.compile_dir(folder, quiet=2)
prepare()
"""


@cache
def _prepared() -> str:
    """A cache with what tegg prepare compiles, once for a machine, as the libraries of others were
    compiled for many; pip compiled their bytecode, too."""
    folder = tempfile.mkdtemp(prefix="tegg-prepared-")
    subprocess.run([sys.executable, "-c", _PREPARE], check=True,
                   env=os.environ | {"TEGG_CACHE": folder})
    return folder


class Tegg(Contender):
    name = "tegg"
    needs = ("tegg",)

    @staticmethod
    def environment(threads):
        # a fresh cache: first calls find nothing compiled but what tegg prepare compiles
        own = shutil.copytree(_prepared(), tempfile.mkdtemp(prefix="tegg-"), dirs_exist_ok=True)
        return {"TEGG_THREADS": str(threads), "TEGG_CACHE": own}

    def __init__(self, threads):
        super().__init__(threads)
        import tegg
        from tegg.runtime.prepare import prepare
        prepare()  # all is compiled: it is loaded, so that first calls are those of a warm process
        self.t, self.stack = tegg, ()  # the usual compilers

    def build(self, workload, inputs):
        free = {k: v for k, v in inputs.items() if k not in workload.weights}
        run = getattr(self, workload.name)

        def body(*args):
            return run(**{**inputs, **dict(zip(free, args))})
        # nor is the plan of one workload that of another
        bound = self.t.compile(body, *self.stack, cache=False).bind(*free.values())
        out = tuple(bound.outputs.values())
        if workload.name == "train_mlp":
            out += tuple(free[k] for k in TRAINED)

        def call():
            bound()
            return out
        return call

    def ew_gelu(self, x, a, b):
        return self.t.gelu(x * a + b, approximate="tanh") - x

    def ew_gelu_erf(self, x, a, b):
        return self.t.gelu(x * a + b) - x

    def softmax(self, x):
        return self.t.softmax(x, -1)

    def layernorm(self, x, r, g, b):
        return self.t.layer_norm(x + r, (1024,), g, b, EPS)

    def rmsnorm(self, x, g):
        return self.t.rms_norm(x, (2048,), g, EPS)

    def matmul_1024(self, x, w):
        return x @ w

    matmul_64 = matvec = matmul_1024

    def matvec_t(self, x, w):
        return self.t.linear(x, w)

    def mlp(self, x, w1, b1, w2, b2):
        return self.t.gelu(x @ w1 + b1, approximate="tanh") @ w2 + b2

    def attention(self, q, k, v):
        return self.t.scaled_dot_product_attention(q, k, v, is_causal=True)

    def encoder(self, x, wqkv, bqkv, wo, bo, g1, n1, w1, b1, w2, b2, g2, n2):
        t = self.t
        parts = (x @ wqkv + bqkv).reshape(1, SEQUENCE, 3, HEADS, WIDTH // HEADS)
        parts = parts.permute(2, 0, 3, 1, 4)
        o = t.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        o = o.permute(0, 2, 1, 3).reshape(1, SEQUENCE, WIDTH)
        x = t.layer_norm(x + (o @ wo + bo), (WIDTH,), g1, n1, EPS)
        return t.layer_norm(x + self.mlp(x, w1, b1, w2, b2), (WIDTH,), g2, n2, EPS)

    def conv3x3(self, x, w):
        return self.t.conv2d(x, w, padding=1)

    def resblock(self, x, w1, g1, b1, m1, v1, w2, g2, b2, m2, v2):
        t = self.t
        h = t.relu(t.batch_norm(self.conv3x3(x, w1), m1, v1, g1, b1, eps=EPS))
        return t.relu(t.batch_norm(self.conv3x3(h, w2), m2, v2, g2, b2, eps=EPS) + x)

    def decode(self, x, kc, vc, cos, sin, n1, wqkv, wo, n2, wg, wu, wd):
        t = self.t

        def turned(h):
            a, b = h[:, :32], h[:, 32:]
            return t.concat([a * cos - b * sin, b * cos + a * sin], -1)
        parts = (t.rms_norm(x, (D_WIDTH,), n1, EPS) @ wqkv).reshape(3, D_HEADS, 64)
        q, k, v = turned(parts[0]), turned(parts[1]), parts[2]
        at = np.array([D_SLOTS - 1])
        keys = t.state(kc, t.index_copy(kc, 1, at, k.unsqueeze(1)))
        values = t.state(vc, t.index_copy(vc, 1, at, v.unsqueeze(1)))
        o = t.scaled_dot_product_attention(q.unsqueeze(1), keys, values)
        h = x + o.reshape(1, D_WIDTH) @ wo
        m = t.rms_norm(h, (D_WIDTH,), n2, EPS)
        return h + (t.silu(m @ wg) * (m @ wu)) @ wd

    def tiny(self, x, y, z):
        return (x + y) * z

    def train_mlp(self, x, y, w1, b1, w2, b2, w3, b3):
        t = self.t
        h1 = t.relu(x @ w1 + b1)
        h2 = t.relu(h1 @ w2 + b2)
        logits = h2 @ w3 + b3
        hot = t.one_hot(y, LAYERS[-1]).cast("f32")
        loss = -(t.log_softmax(logits, -1) * hot).sum() / BATCH
        d3 = (t.softmax(logits, -1) - hot) / BATCH
        d2 = t.where(h2 > 0, d3 @ w3.transpose(0, 1), 0.0)
        d1 = t.where(h1 > 0, d2 @ w2.transpose(0, 1), 0.0)
        for w, b, h, d in ((w3, b3, h2, d3), (w2, b2, h1, d2), (w1, b1, x, d1)):
            t.state(w, w - RATE * (h.transpose(0, 1) @ d))
            t.state(b, b - RATE * d.sum(0))
        return loss


class Winograd(Tegg):
    """With a rule that rounds more: for convolutions by 3 x 3 taps."""

    name = "tegg.winograd"

    def __init__(self, threads):
        super().__init__(threads)
        first = FIRST[0]  # what a process loads once others load with workloads before convolutions
        self.build(first, self.given(first.inputs()))()
        self.stack = (self.t.Generic(), self.t.Winograd())

    def supports(self, workload):
        return workload.name in ("conv3x3", "resblock")


class Bf16(Tegg):
    """All arrays in bfloat16, as PyTorch's are there, and a licence to hold other values, and to
    multiply, in it."""

    name = "tegg.bf16"
    tolerance = BF16
    sensible = staticmethod(has_bf16)

    def __init__(self, threads):
        super().__init__(threads)
        self.stack = (self.t.Generic(), self.t.Bf16())

    def given(self, inputs):
        return {k: v.astype(ml_dtypes.bfloat16) if v.dtype == np.float32 else v
                for k, v in inputs.items()}

    def supports(self, workload):
        return workload.name != "train_mlp"
