"""Stores of some lanes of a vector: of each dtype, width and mask, and nothing beside them."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from tegg.backends.cpu import toolchain
from tegg.backends.cpu.library import prelude
from tegg.cache import default

KINDS = {"f": np.float32, "i": np.int32, "d": np.float64, "l": np.int64, "u": np.uint8,
         "c": np.int8, "s": np.uint16}
_STORE = """
void put_{L}(const {T} *x, {T} *y, int m) {{ v{L}_storem(y, v{L}_load(x), m); }}
void get_{L}(const {T} *x, {T} *y, int m) {{ v{L}_store(y, v{L}_loadm(x, m)); }}
"""
_TYPES = {"f": "float", "i": "int32_t", "d": "double", "l": "int64_t", "u": "uint8_t",
          "c": "int8_t", "s": "uint16_t"}


def _machines():
    """This CPU, narrower ones, and one of AMD, where masked stores go in pieces."""
    here = toolchain.find()
    yield pytest.param(here.lanes, "", id=f"{here.lanes} here")
    if {"x86-64", "avx2"} <= here.features:
        for flag in ("-march=haswell", "-march=znver2"):
            yield pytest.param(8, flag, id=f"8 {flag}")
    yield pytest.param(4, "", id="4")
    yield pytest.param(32, "", id="bytes")


@pytest.mark.parametrize("lanes, flag", _machines())
def test_masked_stores_write_their_lanes_alone(lanes: int, flag: str) -> None:
    compiler = toolchain.find()
    if flag:
        compiler = replace(compiler, flags=tuple(flag if f.endswith("=native") else f
                                                 for f in compiler.flags))
    text = prelude(lanes) + "".join(_STORE.format(L=k, T=t) for k, t in _TYPES.items())
    text += "\nconst struct rt_table *tegg_rt;\n"
    library = ctypes.CDLL(str(compiler.shared_object(default(), {"m": text}, "masked stores")))
    masks = {(1 << n) - 1 for n in range(lanes + 1)} | set(range(1 << min(lanes, 8)))
    for kind, dtype in KINDS.items():
        x = np.arange(1, lanes + 1).astype(dtype)
        for mask in sorted(masks):
            chosen = np.array([mask >> i & 1 for i in range(lanes)], bool)
            for name, outer in (("put", 99), ("get", 0)):
                y = np.full(lanes + 2, 99, dtype)
                getattr(library, f"{name}_{kind}")(
                    ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y[1:].ctypes.data),
                    ctypes.c_int(mask))
                want = np.array([99, *np.where(chosen, x, dtype(outer)), 99], dtype)
                assert y.tobytes() == want.tobytes(), (name, kind, bin(mask), y)
