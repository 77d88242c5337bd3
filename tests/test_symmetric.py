"""Products of a matrix with itself turned: where half of them is left out, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from contractions import by_itself
from hypothesis import given, settings, strategies as st
from kernels import build, call, check
from profiles import examples

import tegg
from tegg.backends.cpu.attention import lower_attention
from tegg.backends.cpu.attention_forms import Blocks
from tegg.backends.cpu.contraction import lower_contraction
from tegg.backends.cpu.emit import C
from tegg.backends.cpu.symmetric_forms import symmetric_row
from tegg.backends.cpu.target import Cpu
from tegg.backends.cpu.templates import register, templates
from tegg.dim import dim
from tegg.dtype import f32
from tegg.errors import LoweringError
from tegg.ir.graph import Node
from tegg.ir.op import OPS
from tegg.ir.template import Extents
from tegg.kernel.code import KernelCode
from tegg.kernel.contraction_shape import Tile, upper_share
from tegg.kernel.registers import Registers, register_tiles
from tegg.rewrite.compiler import Compiler, Generic
from tegg.testing.draw import Draw

WIDE = Registers(16)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


# ---- where it is chosen
def covariance(x):
    c = x - x.mean(0, keepdim=True)
    return c.permute(1, 0) @ c / (x.shape[0] - 1)


def cosine(x):
    n = x / (x * x).sum(-1, keepdim=True) ** 0.5
    return n @ n.permute(1, 0)


def kernel_of_distances(x):
    norms = (x * x).sum(-1)
    return tegg.exp(2 * (x @ x.permute(1, 0)) - norms.unsqueeze(1) - norms.unsqueeze(0))


def style(x):
    flat = x.reshape(x.shape[0], -1)
    return flat @ flat.permute(1, 0) / flat.shape[1]


CHOSEN: dict[str, tuple[Callable, tuple, bool]] = {
    "columns": (lambda x: x.permute(1, 0) @ x, (random(500, 200),), True),
    "rows": (lambda x: x @ x.permute(1, 0), (random(200, 90),), True),
    "a few columns of many rows": (lambda x: x.permute(1, 0) @ x, (random(9000, 64),), True),
    "covariance": (covariance, (random(300, 130),), True),
    "cosine": (cosine, (random(300, 70),), True),
    "distances": (kernel_of_distances, (random(200, 20),), True),
    "style": (style, (random(96, 20, 20),), True),
    "batch": (lambda x: x @ x.permute(0, 2, 1), (random(3, 100, 40),), True),
    "ridge": (lambda x, r: x.permute(1, 0) @ x + r, (random(90, 80), random(80, 80)), True),
    "halves of one": (lambda x: tegg.relu(x).permute(1, 0) @ tegg.relu(x), (random(90, 80),), True),
    "of two": (lambda x, y: x.permute(1, 0) @ y, (random(90, 80), random(90, 80)), False),
    "of a square": (lambda x: x @ x, (random(90, 90),), False),
    "few": (lambda x: x @ x.permute(1, 0), (random(40, 90),), False),
    "another on the way": (lambda x, w: x @ w @ x.permute(1, 0), (random(90, 80), random(80, 80)),
                           False),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_matrix_by_itself_turned_leaves_half_of_the_products_out(name):
    f, args, chosen = CHOSEN[name]
    program = tegg.compile(f, cache=False).program(*args)
    kernels = " ".join(k["what"] for k in program.profile(*args, repeats=1))
    assert ("CpuSymmetric" in kernels) == chosen, kernels


class Attending(Cpu):
    """The CPU, if attention cost it hardly anything."""

    def costs(self):
        return replace(super().costs(), templates={"CpuAttention": 1e-3})

    def identity(self) -> str:
        return f"{super().identity()} attending"


def test_scores_of_an_attention_are_a_product_as_any_other():
    def scores(x):
        return (x @ x.permute(1, 0)).softmax(-1) @ x

    x, stack = random(200, 64), (Generic(), Compiler(target=Attending(), name="attending"))
    (kernel,) = tegg.compile(scores, *stack, cache=False).program(x).profile(x, repeats=1)
    assert kernel["what"] == "CpuAttention+CpuPacked"


def test_its_result_is_symmetric_to_the_last_bit_where_its_ends_are():
    x = random(500, 200)
    out = tegg.compile(covariance, cache=False)(x)
    assert np.array_equal(out, out.T)
    np.testing.assert_allclose(out, np.cov(x.astype(np.float64), rowvar=False), atol=1e-5)


# ---- what it computes
def lowered(g: Draw, out: Node, product: Node, rows: int, vectors: int, parts: int, width: int,
            symmetric: bool = True) -> KernelCode:
    tile = Tile("packed", rows, vectors, parts, symmetric=symmetric)
    return lower_contraction(g, [out], [product], "k", C(width), tile)


ANY = dict(
    batch=st.integers(1, 3), m=st.integers(1, 90), k=st.integers(1, 40), deep=st.booleans(),
    along=st.booleans(), before=st.booleans(), after=st.sampled_from(("", "scalar", "matrix", "state")),
    turned=st.booleans(), dtype=st.sampled_from(("f32", "f64", "i32", "bf16")),
    tile=st.integers(0, 2), parts=st.sampled_from((1, 3)),
    width=st.sampled_from((4, 8, 16)))


@settings(max_examples=examples(25), deadline=None)
@given(**ANY)
def test_any_symmetric_product(batch, m, k, deep, along, before, after, turned, dtype, tile,
                               parts, width):
    k = k * 70 if deep else k  # several blocks of the depth
    g = Draw()
    x = g.x(batch, k, m, dtype=dtype) if along else g.x(batch, m, k, dtype=dtype)
    x = g.mul(x, x) if before else x
    out = product = by_itself(g, x, along, turned)
    if after:
        out = g.add(out, g.x(*((1, 1, 1) if after == "scalar" else (batch, m, m)),
                             dtype=out.dtype.name))
    found = register_tiles(m, m, register(x.dtype), Registers(width))
    code = lowered(g, out, product, *found[tile % len(found)], parts, width)
    # What is added to in place shows whether each result is stored once.
    check(g, [out], code=code, width=width, threads=(1, 2, 5),
          inplace={0: 1} if after == "state" else None)


@pytest.mark.parametrize("parts", [1, 4])
def test_it_has_the_bits_of_the_product_as_any_other(parts):
    g = Draw()
    x = g.x(3000, 150)
    out = g.op("Contract", x, x, "k,a;k,b;a,b", (150, 150))
    inputs = {0: random(3000, 150)}
    found = []
    for symmetric in (True, False):
        code = lowered(g, out, out, 5, 2, parts, 8, symmetric)
        found.append(call(build(code, 8), code, g, [out], inputs, {}, 2)[0])
    assert np.array_equal(*found)


def test_sizes_may_be_symbols():
    g = Draw()
    n, k = dim("n", 0, 1 << 12), dim("k", 0, 1 << 12)
    x = g.x(n, k)
    out = g.op("Contract", x, x, "a,k;b,k;a,b", (n, n))
    code = lowered(g, out, out, 5, 2, 1, 8)
    library = build(code, 8)
    for sizes in ({"n": 0, "k": 3}, {"n": 1, "k": 0}, {"n": 77, "k": 1100}, {"n": 200, "k": 9}):
        check(g, [out], sizes, code=code, width=8, library=library)


# ---- what it cannot be
def ends(case: str) -> tuple[Draw, list[Node], list[Node]]:
    """A graph, its outputs and its products."""
    g = Draw()
    x = g.x(80, 70)
    square = g.op("Contract", x, x, "a,k;b,k;a,b", (80, 80))
    if case == "two":
        other = g.op("Contract", x, g.x(80, 70), "a,k;b,k;a,b", (80, 80))
        return g, [square, other], [square, other]
    if case == "others":
        other = g.op("Contract", x, g.x(80, 70), "a,k;b,k;a,b", (80, 80))
        return g, [other], [other]
    if case == "longer":
        long = g.op("Contract", x, g.x(90, 70), "a,k;b,k;a,b", (80, 90))
        return g, [long], [long]
    return g, [g.add(square, g.total(g.mul(x, x), 1, keep=True))], [square]


@pytest.mark.parametrize("case, why", [
    ("two", "one product"), ("others", "computed otherwise"), ("longer", "counted alike"),
    ("sums of rows", "once for a row")])
def test_what_is_no_such_product_is_refused(case, why):
    g, outputs, products = ends(case)
    tile = Tile("packed", 5, 2, symmetric=True)
    with pytest.raises(LoweringError, match=why):
        lower_contraction(g, outputs, products, "k", C(8), tile)


def test_an_attention_whose_scores_are_such_a_product_is_refused():
    g = Draw(table={**OPS, "CpuSymmetric": symmetric_row(WIDE)})
    x = g.x(80, 64)
    scores = g.op("CpuSymmetric", x, x, "a,k;b,k;a,b", (80, 80), 5, 2, 1)
    out = g.op("Attention", scores, x, "a,k;k,n;a,n", (80, 64))
    with pytest.raises(LoweringError, match="stored twice"):
        lower_attention(g, [out], [scores, out], "k", C(8), Blocks("plain", 24, 256))


# ---- what it costs
@pytest.mark.parametrize("m, rows, columns", [(1, 1, 1), (1, 6, 16), (64, 6, 16), (100, 5, 48), (1000, 14, 32)])
def test_the_share_of_tiles_that_are_summed(m, rows, columns):
    tiles = [(i, j) for i in range(0, m, rows) for j in range(0, m, columns)]
    assert upper_share(m, rows, columns) == pytest.approx(
        sum(i < j + columns for i, j in tiles) / len(tiles))
    assert upper_share(1 << 60, rows, columns) == pytest.approx(0.5)


def test_its_price_is_that_of_the_tiles_it_sums():
    whole = {op.name: op for op in templates(WIDE)}["CpuPacked"].template
    half = symmetric_row(WIDE).template
    for m in (64, 300, 1000):
        e = Extents(2, m, m, 500, f32)
        full, some = (f(("", (), 8, 3, 1), e) for f in (whole, half))
        share = upper_share(m, 8, 48)
        assert some.flops == pytest.approx(full.flops * share) and share < 0.9
        assert (some.packed, some.rate, some.reads) == (full.packed, "CpuPacked", "CpuPacked")
        assert full.beside == 0 < some.beside < some.flops / 100
    assert half(("", (), 8, 3, 1), Extents(0, 0, 0, 5, f32)).pieces == 1


def test_fewer_products_are_counted():
    g = Draw()
    x = g.x(3000, 300)
    out = g.op("Contract", x, x, "k,a;k,b;a,b", (300, 300))
    some, full = (lowered(g, out, out, 6, 2, 1, 8, s).work.evaluations for s in (True, False))
    assert 0.5 < some / full < 0.56
