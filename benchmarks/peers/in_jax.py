"""JAX, compiled by XLA; states are donated."""

from __future__ import annotations

import numpy as np

from contender import Contender
from workloads import D_HEADS, D_WIDTH, EPS, HEADS, RATE, SEQUENCE, TRAINED, WIDTH


class Jax(Contender):
    name = "jax"
    needs = ("jax",)

    @staticmethod
    def environment(threads):
        out = {"JAX_PLATFORMS": "cpu"}
        if threads == 1:
            out["XLA_FLAGS"] = ("--xla_cpu_multi_thread_eigen=false "
                                "intra_op_parallelism_threads=1")
        return out

    def __init__(self, threads):
        super().__init__(threads)
        import jax
        self.jax, self.jnp = jax, jax.numpy

    def arrays(self, out):
        return tuple(np.array(o) for o in (out if isinstance(out, tuple) else (out,)))

    def build(self, workload, inputs):
        jax = self.jax
        given = {k: jax.device_put(v) for k, v in inputs.items()}
        run = getattr(self, workload.name)
        if workload.name == "decode":
            step = jax.jit(run, donate_argnames=("kc", "vc"))

            def call():
                out, given["kc"], given["vc"] = jax.block_until_ready(step(**given))
                return out
        elif workload.name == "train_mlp":
            step = jax.jit(run, donate_argnames=("p",))
            kept = [tuple(given[k] for k in TRAINED)]

            def call():
                loss, kept[0] = jax.block_until_ready(step(kept[0], given["x"], given["y"]))
                return loss, *kept[0]
        else:
            step, args = jax.jit(lambda *a: run(**dict(zip(given, a)))), tuple(given.values())

            def call():
                return step(*args).block_until_ready()
        return call

    def _layernorm(self, x, g, b):
        m = x.mean(-1, keepdims=True)
        v = ((x - m) ** 2).mean(-1, keepdims=True)
        return (x - m) * self.jax.lax.rsqrt(v + EPS) * g + b

    def ew_gelu(self, x, a, b):
        return self.jax.nn.gelu(x * a + b, approximate=True) - x

    def ew_gelu_erf(self, x, a, b):
        return self.jax.nn.gelu(x * a + b, approximate=False) - x

    def softmax(self, x):
        return self.jax.nn.softmax(x, axis=-1)

    def layernorm(self, x, r, g, b):
        return self._layernorm(x + r, g, b)

    def rmsnorm(self, x, g):
        return x * self.jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + EPS) * g

    def matmul_1024(self, x, w):
        return x @ w

    matmul_64 = matvec = matmul_1024

    def matvec_t(self, x, w):
        return x @ w.T

    def mlp(self, x, w1, b1, w2, b2):
        return self.jax.nn.gelu(x @ w1 + b1, approximate=True) @ w2 + b2

    def attention(self, q, k, v, causal=True):
        jnp = self.jnp
        s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        if causal:
            s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
        return jnp.einsum("bhqk,bhkd->bhqd", self.softmax(s), v)

    def encoder(self, x, wqkv, bqkv, wo, bo, g1, n1, w1, b1, w2, b2, g2, n2):
        parts = (x @ wqkv + bqkv).reshape(1, SEQUENCE, 3, HEADS, WIDTH // HEADS)
        o = self.attention(*parts.transpose(2, 0, 3, 1, 4), causal=False)
        o = o.transpose(0, 2, 1, 3).reshape(1, SEQUENCE, WIDTH)
        x = self._layernorm(x + (o @ wo + bo), g1, n1)
        return self._layernorm(x + self.mlp(x, w1, b1, w2, b2), g2, n2)

    def conv3x3(self, x, w):
        return self.jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))

    def resblock(self, x, w1, g1, b1, m1, v1, w2, g2, b2, m2, v2):
        def norm(t, g, b, m, v):
            s = g * self.jax.lax.rsqrt(v + EPS)
            return t * s[:, None, None] + (b - m * s)[:, None, None]
        relu = self.jax.nn.relu
        h = relu(norm(self.conv3x3(x, w1), g1, b1, m1, v1))
        return relu(norm(self.conv3x3(h, w2), g2, b2, m2, v2) + x)

    def decode(self, x, kc, vc, cos, sin, n1, wqkv, wo, n2, wg, wu, wd):
        jnp = self.jnp

        def turned(t):
            a, b = t[:, :32], t[:, 32:]
            return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
        q, k, v = (self.rmsnorm(x, n1) @ wqkv).reshape(3, D_HEADS, 64)
        kc, vc = kc.at[:, -1].set(turned(k)), vc.at[:, -1].set(v)
        p = self.softmax(jnp.einsum("hd,hsd->hs", turned(q), kc) * 0.125)
        h = x + jnp.einsum("hs,hsd->hd", p, vc).reshape(1, D_WIDTH) @ wo
        m = self.rmsnorm(h, n2)
        return h + (self.jax.nn.silu(m @ wg) * (m @ wu)) @ wd, kc, vc

    def tiny(self, x, y, z):
        return (x + y) * z

    def train_mlp(self, p, x, y):
        jax = self.jax

        def loss(p):
            h = jax.nn.relu(x @ p[0] + p[1])
            h = jax.nn.relu(h @ p[2] + p[3])
            logs = jax.nn.log_softmax(h @ p[4] + p[5])
            return -self.jnp.take_along_axis(logs, y[:, None], 1).mean()
        value, grads = jax.value_and_grad(loss)(p)
        return value, tuple(a - RATE * g for a, g in zip(p, grads))
