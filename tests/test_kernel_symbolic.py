"""Kernels with sizes known at run time: compiled once, run at many sizes, against the oracle."""

from __future__ import annotations

import itertools
import math

import pytest
from tegg.testing.draw import Draw
from kernels import build, check
from tegg.backends.cpu.emit import C

from tegg.dim import dim
from tegg.kernel.lower import lower

SIZES = (0, 1, 2, 15, 16, 17, 33, 100)
CASES: dict[str, tuple] = {}
s, b = dim("s", 0, 4096), dim("b", 0, 64, hint=4)
p, t, c = dim("p", 0, 4096, hint=200), dim("t", 1, 4096), dim("c", 0, 8192, hint=512)
q = dim("q", 0, 16, hint=4)
BS = [{"b": i, "s": j} for i in (0, 1, 3) for j in SIZES]
S = [{"s": j} for j in SIZES]
PS = [{"p": i, "s": j} for i in (0, 1, 16, 37) for j in (0, 1, 15, 16, 17)]
PSC = [{"p": i, "s": j, "c": i + j + r} for i, j, r in itertools.product((0, 1, 17), (0, 1, 33),
                                                                        (0, 1, 50))]


def case(sizes):
    def record(f):
        CASES[f.__name__] = f, sizes
        return f
    return record


@case(BS)
def broadcast(g):
    return [g.add(g.mul(g.x(b, s, 96), g.x(96)), g.mul(g.x(s, 96), g.x(b, 1, 1)))]


@case(BS)
def flat(g):
    return [g.add(g.exp(g.x(b, s)), 1.0)]


@case(BS)
def inner(g):
    return [g.add(g.mul(g.x(b, 5, s), g.x(5, 1)), g.x(s))]


@case(BS)
def softmax_last(g):
    return [g.softmax(g.x(b, s), 1)]


@case(BS)
def softmax_first(g):
    return [g.softmax(g.x(s, b), 0)]


@case(BS)
def softmax_middle(g):
    return [g.softmax(g.x(b, s, 24), 1)]


@case(S)
def softmax_both(g):
    return [g.softmax(g.softmax(g.x(s, s), 0), 1)]


@case(BS)
def layernorm(g):
    h = g.add(g.x(b, s, 96), g.x(b, s, 96))
    return [g.add(g.mul(g.norm(h, 2), g.x(96)), g.x(96)), h]


@case([x for x in BS if x["s"] > 0])
def mean_over_symbol(g):
    return [g.op("Normalize", g.x(b, s), 1, 4532020583610935537)]


@case(BS)
def scores(g):
    qk = g.mul(g.matmul(g.x(b, 2, s, 24), g.permute(g.x(b, 2, s, 24), (0, 1, 3, 2))), 0.2)
    below = g.less(g.along(s, 1, 2), g.add(g.along(s, 0, 2), 1))
    return [g.select(below, qk, g.full(-math.inf, "f32"))]


@case(BS)
def causal_softmax(g):
    below = g.less(g.along(s, 1, 2), g.add(g.along(s, 0, 2), 1))
    return [g.softmax(g.select(below, g.x(b, 2, s, s), g.full(-1e9, "f32")), 3)]


@case(BS)
def weighted(g):
    return [g.matmul(g.x(b, 2, s, s), g.x(b, 2, s, 24))]


@case(PS)
def masked_decode(g):
    seen = g.less(g.along(p + s, 1, 2), g.add(g.along(s, 0, 2), g.add(g.size(p, g.nodes[0].dtype),
                                                                      1)))
    return [g.softmax(g.select(seen, g.x(2, s, p + s), g.full(-1e9, "f32")), 2)]


@case(PS)
def concat_rows(g):
    return [g.concat([g.x(2, p, 24), g.x(2, s, 24)], 1)]


@case(PS)
def concat_last(g):
    return [g.concat([g.x(3, p), g.x(3, s)], 1)]


@case(PSC)
def slot_write(g):
    g.facts.assume(c - p - s >= 0)
    at, old = g.along(c, 0, 2), g.x(c, 24)
    new = g.padded(g.x(s, 24), (p, c - p - s), (0, 0))
    inside = g.select(g.less(at, g.size(p + s, at.dtype)), new, old)
    return [g.select(g.less(at, g.size(p, at.dtype)), old, inside)]


@case(PSC)
def symbolic_slice(g):
    g.facts.assume(c - p - s >= 0)
    return [g.mul(g.slice(g.x(3, c), (0, 3, 1), (p, p + s, 1)), 2.0)]


@case(PS)
def symbolic_pad(g):
    return [g.mul(g.padded(g.mul(g.x(3, s), 2.0), (0, 0), (p, p + 3), fill=7.0), 3.0)]


@case(BS)
def split_heads(g):
    return [g.mul(g.permute(g.reshape(g.x(b, s, 96), (b, s, 4, 24)), (0, 2, 1, 3)), 2.0)]


@case(BS)
def merge_heads(g):
    return [g.mul(g.reshape(g.permute(g.x(b, 4, s, 24), (0, 2, 1, 3)), (b, s, 96)), 2.0)]


@case(BS)
def softmax_of_heads(g):
    y = g.softmax(g.permute(g.reshape(g.x(b, s, 96), (b, s, 4, 24)), (0, 2, 1, 3)), 3)
    return [g.reshape(g.permute(y, (0, 2, 1, 3)), (b * s, 96))]


@case(BS)
def rows_merge(g):
    return [g.add(g.reshape(g.mul(g.x(b, s, 40), 2.0), (b * s, 40)), g.x(b * s, 40))]


@case(BS)
def rows_split(g):
    return [g.add(g.reshape(g.mul(g.x(b * s, 40), 2.0), (b, s, 40)), g.x(s, 40))]


@case(BS)
def rows_split_backwards(g):
    """The same flat axis, divided where it runs backwards, too."""
    x = g.reshape(g.x(2, s, 4 * b, 2), (2, 4 * b * s, 2))
    return [g.flip(x, 1), x]


@case(BS)
def rows_split_permuted(g):
    return [g.permute(g.reshape(g.x(b * s * 6), (b, s, 6)), (1, 2, 0))]


@case(BS)
def no_common_factor(g):
    return [g.mul(g.reshape(g.mul(g.x(b, 4 * s), g.x(4 * s)), (b * s, 4)), 3.0)]


@case(BS)
def run_time_division(g):
    return [g.reshape(g.permute(g.x(s, b), (1, 0)), (s, b))]


@case(BS)
def transpose(g):
    return [g.mul(g.permute(g.x(b, s, 40), (2, 1, 0)), 2.0)]


@case(S)
def transpose_shared(g):
    e = g.exp(g.x(s, s))
    return [g.add(e, g.permute(e, (1, 0)))]


@case(BS)
def flip(g):
    return [g.add(g.flip(g.x(3, s), 1), g.x(3, s))]


@case([{"t": a, **x} for a in (1, 16, 50) for x in BS])
def embed(g):
    return [g.mul(g.op("Gather", g.x(t, 40), g.x(b, s, dtype="i32"), 0), 2.0)]


@case(BS)
def gather_columns(g):
    return [g.mul(g.op("Gather", g.x(3, 50), g.x(s, dtype="i64"), 1), 2.0)]


@case(BS)
def matmul_rows(g):
    return [g.add(g.matmul(g.x(s, 48), g.x(48, 30)), g.x(30))]


@case(BS)
def matmul_inner(g):
    return [g.matmul(g.x(b, s), g.x(s, 30))]


@case(BS)
def reductions(g):
    x = g.x(b, s)
    return [g.total(x, 1), g.top(x, 1), g.total(x, 0, 1), g.add(x, 1.0)]


@case(BS)
def sum_of_rows(g):
    return [g.total(g.x(b, s, 40), 0, 1)]


@case(BS)
def sum_merged(g):
    return [g.total(g.reshape(g.mul(g.x(b, s, 4), g.x(s, 4)), (b * s, 4)), 0)]


@case(S)
def row_times_column(g):
    x = g.x(s, s)
    return [g.add(x, g.mul(g.total(x, 1, keep=True), g.total(x, 0, keep=True)))]


@case([{"q": i} for i in range(17)])
def small(g):
    return [g.softmax(g.x(q, q), 1), g.mul(g.x(q, q), 2.0)]


@case(S)
def pool(g):
    return [g.top(g.window(g.padded(g.x(s), (1, 2), fill=-math.inf), 0, 3), 1)]


@case(S)
def multiple_of_16(g):
    return [g.softmax(g.x(3, 16 * s), 1)]


@case(S)
def even(g):
    return [g.mul(g.slice(g.x(2 * s), (0, 2 * s, 2)), 2.0)]


@case(S)
def rope(g):
    return [g.op("Rope", g.x(s, 2, 32), *(g.expand(g.reshape(g.x(s, 32), (s, 1, 32)), (s, 2, 32))
                                          for _ in range(2)))]


@case(BS)
def equal_dims(g):
    m = dim("m", 0, 4096)
    g.facts.same(m, b * s)
    return [g.add(g.reshape(g.x(b, s, 3), (m, 3)), g.x(m, 3))]


@pytest.fixture(scope="module")
def kernels():
    made = {}
    for name, (f, _) in CASES.items():
        g = Draw()
        g.full(0, "i64")
        outputs = f(g)
        made[name] = g, outputs, lower(g, outputs, f"k_{name}", C(16))
    return made


@pytest.mark.parametrize("name", CASES)
def test_kernel_equals_oracle_at_every_size(kernels, name):
    library = build([code for _, _, code in kernels.values()], 16)
    g, outputs, code = kernels[name]
    for sizes in CASES[name][1]:
        if name == "equal_dims":
            sizes = {**sizes, "m": sizes["b"] * sizes["s"]}
        check(g, outputs, sizes, code=code, library=library, slack=3)


def test_of_an_array_that_is_empty_whatever_sizes_are_no_position_is_divided():
    s, b = dim("s", 0, 64), dim("b", 0, 64)
    g = Draw()
    y = g.padded(g.x(2, 1, 0, 2), (0, 0), (1, 0), (s, b), (0, 0), fill=-1.0)
    outputs = [g.reshape(y, (4, b + s, 2)), y]
    code = lower(g, outputs, "k", C(16))
    for sizes in ({"s": 0, "b": 0}, {"s": 3, "b": 20}):
        check(g, outputs, sizes, code=code)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (5, 2)])
def test_nothing_is_read_of_an_empty_array_whose_flat_rows_are_padded(shape):
    """Quotients by a size of 0 lie in any range; what they divide does not."""
    s, b = dim("s", 0, 64), dim("b", 0, 64)
    g = Draw()
    *outer, last = shape
    x = g.x(*outer, last, s)
    flat = g.reshape(x, (*outer, s * last))
    ends = [(0, 0)] * len(outer) + [(1, b)]
    code = lower(g, [g.padded(flat, *ends, fill=2.0)], "k", C(16))
    for sizes in ({"s": 0, "b": 3}, {"s": 0, "b": 40}, {"s": 3, "b": 0}, {"s": 7, "b": 20}):
        check(g, [g.nodes[-1]], sizes, code=code)
