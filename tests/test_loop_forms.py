"""Products that are generated loops: where they are chosen, and what they compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ml_dtypes import bfloat16
from hypothesis import given, settings, strategies as st
from kernels import check
from profiles import examples

import tegg
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.loop_forms import loops_row
from tegg.backends.cpu.lowering import lower_fragment
from tegg.dtype import f32
from tegg.extract.cost import load_costs
from tegg.ir.classes import Fragment
from tegg.ir.demand import Product
from tegg.ir.op import OPS
from tegg.ir.template import Extents
from tegg.testing.draw import Draw


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def conv(x: np.ndarray, w: np.ndarray, **how):
    return tegg.compile(lambda x: tegg.conv2d(x, w, **how).relu() + 1, cache=False), (x,)


def product(x: np.ndarray, y: np.ndarray, *turned: str):
    def run(**given):
        x, y = (v.transpose(0, 1) if k in turned else v for k, v in given.items())
        return x @ y
    return tegg.compile(lambda x, y: run(x=x, y=y), cache=False), (x, y)


CHOSEN = {
    "depthwise": (*conv(random(1, 32, 40, 40), random(32, 1, 3, 3), padding=1, groups=32), True),
    "depthwise, strides": (*conv(random(2, 24, 33, 33), random(24, 1, 5, 5), padding=2, stride=2,
                                 groups=24), True),
    "depthwise, 7 x 7": (*conv(random(1, 16, 20, 30), random(16, 1, 7, 7), padding=3, groups=16),
                         True),
    "depthwise, halves": (*conv(random(1, 32, 40, 40).astype(bfloat16),
                                random(32, 1, 3, 3).astype(bfloat16), padding=1, groups=32), True),
    "to three channels": (*conv(random(1, 16, 80, 80), random(3, 16, 3, 3), stride=2), True),
    "to one channel": (*conv(random(1, 16, 80, 80), random(1, 16, 3, 3), stride=2), True),
    "to many channels": (*conv(random(1, 16, 40, 40), random(32, 16, 3, 3), padding=1), False),
    "patches": (*conv(random(1, 3, 64, 64), random(4, 3, 16, 16), stride=16), False),
    "many small ones by a vector": (*product(random(3000, 4, 4), random(3000, 4, 1)), True),
    "many small ones": (*product(random(3000, 3, 3), random(3000, 3, 3)), True),
    "one row": (*product(random(1, 512), random(512, 512)), False),
    "sums of few": (*product(random(512, 8), random(8, 512)), True),
    "sums of more": (*product(random(512, 64), random(64, 512)), False),
    "sums of few, down columns": (*product(random(8, 512), random(8, 512), "x"), True),
    "sums of few, gathered": (*product(random(512, 8), random(512, 8), "y"), False),
    "sums of few, scattered": (*product(random(8, 512), random(512, 8), "x", "y"), False),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_few_products_or_rows_of_windows_are_loops(name):
    f, args, chosen = CHOSEN[name]
    kernels = [k["what"] for k in f.program(*args).profile(*args, repeats=1)]
    assert ("CpuLoops" in kernels) == chosen, kernels


def test_a_depthwise_convolution_loads_vectors_and_packs_nothing():
    f, args = conv(random(1, 32, 40, 40), random(32, 1, 3, 3), padding=1, groups=32)
    source = f.program(*args).source()
    assert "vf_loadm" in source and "gather" not in source.rpartition("void k0")[2]
    assert len(f.program(*args).plan.kernels) == 1


# ---- what they compute
ANY = dict(
    c=st.integers(1, 5), m=st.integers(1, 2), size=st.tuples(st.integers(3, 12), st.integers(3, 40)),
    taps=st.tuples(st.integers(1, 3), st.integers(1, 3)), stride=st.integers(1, 3),
    pad=st.integers(0, 2), width=st.sampled_from((4, 8, 16)))


@settings(max_examples=examples(12), deadline=None)
@given(**ANY)
def test_any_depthwise_convolution(c, m, size, taps, stride, pad, width):
    g = Draw(table={**OPS, "CpuLoops": loops_row()})
    x = g.pad(g.op("Exp", g.x(2, c, *size)), (0, 0, pad, pad), (0, 0, pad, pad), 0)
    for i, axis in enumerate((2, 4)):
        x = g.op("Window", x, axis, taps[i], stride, 1)
    shape = (2, c, m, x.shape[2], x.shape[4])
    y = g.op("CpuLoops", g.x(c, m, *taps), x, "c,o,k,l;n,c,p,k,q,l;n,c,o,p,q", shape, 0)
    out = g.add(y, g.x(*shape))
    code = lower_fragment(Fragment(g, (out,), (y,)), "k", frozenset(), C(width))
    check(g, [out], code=code, width=width, threads=(1, 2, 5))


def test_its_price_is_that_of_its_loops():
    price = loops_row().template
    near, apart = (price(("", (), n), Extents(32, 1, 1600, 9, f32)) for n in (0, 1))
    assert near.flops == 0 and near.packed == near.kept == 0
    assert near.loops > 32 * 1600 * 9 and apart.loops > 5 * near.loops
    assert price(("", (), 0), Extents(0, 1, 5, 9, f32)).pieces == 1
    product = Product(Extents(32, 1, 1600, 9, f32), "CpuLoops", near)
    costs = load_costs("cpu/generic")
    dear = replace(costs, templates={"CpuLoops": 3.0})
    assert dear.product(product) == pytest.approx(3 * costs.product(product))
