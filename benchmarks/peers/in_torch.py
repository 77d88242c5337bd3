"""PyTorch: eager, compiled, and compiled with max-autotune on frozen weights."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from types import MappingProxyType

from contender import BF16, Contender, has_bf16
from workloads import D_HEADS, D_WIDTH, EPS, HEADS, RATE, SEQUENCE, TRAINED, WIDTH


class Torch(Contender):
    name = "torch"
    needs = ("torch",)

    @staticmethod
    def environment(threads):
        # a fresh cache: the first call is a compilation
        return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
                "TORCHINDUCTOR_CACHE_DIR": tempfile.mkdtemp(prefix="inductor-")}

    def __init__(self, threads):
        super().__init__(threads)
        import torch
        torch.set_num_threads(threads)
        self.torch, self.F = torch, torch.nn.functional

    def arrays(self, out):
        outs = out if isinstance(out, tuple) else (out,)
        return tuple(o.detach().float().numpy() for o in outs)

    def compiled(self, f):
        return f

    def given(self, inputs):
        return {k: self.torch.from_numpy(v) for k, v in inputs.items()}

    def build(self, workload, inputs):
        torch, given = self.torch, dict(inputs)
        if workload.name == "train_mlp":
            return self.training([given[k] for k in TRAINED], given["x"], given["y"].long())
        space = {"run": getattr(self, workload.name)}
        # a code object for each workload: compilations are counted per code object
        exec("def forward(self, **xs):\n"  # noqa: S102  the text is this one
             "    return run(**xs, **dict(self.named_parameters()))", space)
        module = type("Model", (torch.nn.Module,), {"forward": space["forward"]})()
        for k in workload.weights:
            module.register_parameter(k, torch.nn.Parameter(given.pop(k), requires_grad=False))
        model = self.compiled(module.eval())

        def call():
            with torch.no_grad():
                return model(**given)
        return call

    def ew_gelu(self, x, a, b):
        return self.F.gelu(x * a + b, approximate="tanh") - x

    def ew_gelu_erf(self, x, a, b):
        return self.F.gelu(x * a + b) - x

    def softmax(self, x):
        return self.F.softmax(x, -1)

    def layernorm(self, x, r, g, b):
        return self.F.layer_norm(x + r, (1024,), g, b, EPS)

    def rmsnorm(self, x, g):
        return self.F.rms_norm(x, (2048,), g, EPS)

    def matmul_1024(self, x, w):
        return x @ w

    matmul_64 = matvec = matmul_1024

    def matvec_t(self, x, w):
        return x @ w.T

    def mlp(self, x, w1, b1, w2, b2):
        return self.F.gelu(x @ w1 + b1, approximate="tanh") @ w2 + b2

    def attention(self, q, k, v):
        return self.F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def encoder(self, x, wqkv, bqkv, wo, bo, g1, n1, w1, b1, w2, b2, g2, n2):
        parts = (x @ wqkv + bqkv).reshape(1, SEQUENCE, 3, HEADS, WIDTH // HEADS)
        o = self.F.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4).unbind(0))
        o = o.transpose(1, 2).reshape(1, SEQUENCE, WIDTH)
        x = self.F.layer_norm(x + (o @ wo + bo), (WIDTH,), g1, n1, EPS)
        return self.F.layer_norm(x + self.mlp(x, w1, b1, w2, b2), (WIDTH,), g2, n2, EPS)

    def conv3x3(self, x, w):
        return self.F.conv2d(x, w, padding=1)

    def resblock(self, x, w1, g1, b1, m1, v1, w2, g2, b2, m2, v2):
        def norm(t, m, v, g, b):
            return self.F.batch_norm(t, m, v, g, b, False, 0.0, EPS)
        h = self.F.relu(norm(self.conv3x3(x, w1), m1, v1, g1, b1))
        return self.F.relu(norm(self.conv3x3(h, w2), m2, v2, g2, b2) + x)

    def decode(self, x, kc, vc, cos, sin, n1, wqkv, wo, n2, wg, wu, wd):
        torch, F = self.torch, self.F

        def turned(t):
            a, b = t[:, :32], t[:, 32:]
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        q, k, v = (F.rms_norm(x, (D_WIDTH,), n1, EPS) @ wqkv).reshape(3, D_HEADS, 64).unbind(0)
        kc[:, -1] = turned(k)
        vc[:, -1] = v
        o = F.scaled_dot_product_attention(turned(q)[None, :, None], kc[None], vc[None])
        h = x + o.reshape(1, D_WIDTH) @ wo
        m = F.rms_norm(h, (D_WIDTH,), n2, EPS)
        return h + (F.silu(m @ wg) * (m @ wu)) @ wd

    def tiny(self, x, y, z):
        return (x + y) * z

    def train_mlp(self, p, x, y):
        h = self.F.relu(x @ p[0] + p[1])
        h = self.F.relu(h @ p[2] + p[3])
        return self.F.cross_entropy(h @ p[4] + p[5], y)

    def training(self, p, x, y):
        for q in p:
            q.requires_grad_()

        def call():
            loss = self.train_mlp(p, x, y)
            loss.backward()
            with self.torch.no_grad():
                for q in p:
                    q.sub_(q.grad, alpha=RATE)
                    q.grad = None
            return loss, *p
        return call


class TorchCompile(Torch):
    name = "torch.compile"
    options: Mapping[str, object] = MappingProxyType({})

    def compiled(self, f):
        return self.torch.compile(f, dynamic=False, **self.options)

    def training(self, p, x, y):
        torch = self.torch

        def step(p, x, y):
            grads, loss = torch.func.grad_and_value(self.train_mlp)(p, x, y)
            for q, d in zip(p, grads):
                q.sub_(d, alpha=RATE)
            return loss
        run = self.compiled(step)

        def call():
            with torch.no_grad():
                return run(p, x, y), *p
        return call


class TorchMax(TorchCompile):
    name = "torch.max"
    options = MappingProxyType({"mode": "max-autotune-no-cudagraphs"})

    def compiled(self, f):
        from torch._inductor import config
        config.freezing = True
        config.cpp_wrapper = True
        return super().compiled(f)


class TorchBf16(Torch):
    """Everything in bfloat16: arguments, weights and results."""

    name = "torch.bf16"
    tolerance = BF16
    sensible = staticmethod(has_bf16)

    def supports(self, workload):
        return workload.name != "train_mlp"

    def given(self, inputs):
        return {k: v.bfloat16() if v.is_floating_point() else v
                for k, v in super().given(inputs).items()}


class TorchCompileBf16(TorchBf16, TorchCompile):
    name = "torch.compile.bf16"
