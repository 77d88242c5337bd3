"""NumPy, and Numba: the loops that a user would write by hand."""

from __future__ import annotations

import math

import numpy as np

from contender import Contender
from workloads import EPS


class NumPy(Contender):
    name = "numpy"

    @staticmethod
    def environment(threads):
        return {"OPENBLAS_NUM_THREADS": str(threads)}

    def supports(self, workload):
        try:
            import scipy  # type: ignore[import-untyped]  # noqa: F401
        except ImportError:
            return workload.name != "ew_gelu_erf"
        return True

    def build(self, workload, inputs):
        return lambda: workload.numpy(**inputs)


class Numba(Contender):
    name = "numba"
    needs = ("numba",)

    @staticmethod
    def environment(threads):
        return {"NUMBA_NUM_THREADS": str(threads)}

    def __init__(self, threads):
        super().__init__(threads)
        from numba import njit, prange
        compiled = njit(parallel=threads > 1, fastmath=True)
        c0, c1 = np.float32(0.7978845608028654), np.float32(0.044715)
        one, half, zero, eps = (np.float32(v) for v in (1, 0.5, 0, EPS))

        @compiled
        def ew_gelu(x, a, b):
            out = np.empty_like(x)
            for i in prange(x.shape[0]):
                for j in range(x.shape[1]):
                    t = x[i, j] * a[j] + b[j]
                    out[i, j] = half * t * (one + math.tanh(c0 * (t + c1 * t * t * t))) - x[i, j]
            return out

        @compiled
        def softmax(x):
            out = np.empty_like(x)
            for i in prange(x.shape[0]):
                top = x[i, 0]
                for j in range(x.shape[1]):
                    top = max(top, x[i, j])
                total = zero
                for j in range(x.shape[1]):
                    out[i, j] = math.exp(x[i, j] - top)
                    total += out[i, j]
                total = one / total
                for j in range(x.shape[1]):
                    out[i, j] *= total
            return out

        @compiled
        def layernorm(x, r, g, b):
            out = np.empty_like(x)
            n = np.float32(x.shape[1])
            for i in prange(x.shape[0]):
                total = zero
                for j in range(x.shape[1]):
                    out[i, j] = x[i, j] + r[i, j]
                    total += out[i, j]
                mean, total = total / n, zero
                for j in range(x.shape[1]):
                    total += (out[i, j] - mean) * (out[i, j] - mean)
                k = one / math.sqrt(total / n + eps)
                for j in range(x.shape[1]):
                    out[i, j] = (out[i, j] - mean) * k * g[j] + b[j]
            return out

        @compiled
        def rmsnorm(x, g):
            out = np.empty_like(x)
            for i in prange(x.shape[0]):
                total = zero
                for j in range(x.shape[1]):
                    total += x[i, j] * x[i, j]
                k = one / math.sqrt(total / np.float32(x.shape[1]) + eps)
                for j in range(x.shape[1]):
                    out[i, j] = x[i, j] * k * g[j]
            return out

        self.ew_gelu, self.softmax = ew_gelu, softmax
        self.layernorm, self.rmsnorm = layernorm, rmsnorm
        self.tiny = njit(fastmath=True)(lambda x, y, z: (x + y) * z)

    def build(self, workload, inputs):
        run, args = getattr(self, workload.name), tuple(inputs.values())
        return lambda: run(*args)
