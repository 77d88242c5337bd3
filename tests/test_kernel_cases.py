"""Adversarial kernels of constant shapes, compared with the oracle."""

from __future__ import annotations

import math

import pytest
from tegg.bits import bits_of
from tegg.dtype import f64
from tegg.testing.draw import Draw
from kernels import build, check
from tegg.backends.cpu.emit import C

from tegg.kernel.code import KernelCode
from tegg.kernel.lower import lower

CASES: dict[str, object] = {}


def case(f):
    CASES[f.__name__] = f
    return f


@case
def elementwise(g):
    return [g.add(g.mul(g.x(37, 50), g.x(50)), 1.0)]


@case
def flat(g):
    return [g.exp(g.x(7, 11, 13))]


@case
def movement(g):
    y = g.slice(g.permute(g.x(12, 20, 18), (2, 0, 1)), (1, 17, 3), (0, 12, 2), (2, 20, 1))
    return [g.flip(g.padded(y, (1, 2), (0, 3), (2, 2), fill=5.0), 2)]


@case
def movement_flipped(g):
    y = g.flip(g.padded(g.permute(g.x(33, 40), (1, 0)), (3, 3), (2, 2), fill=-1.0), 1)
    return [g.slice(g.flip(y, 0), (0, 45, 1), (1, 36, 2))]


@case
def pad_inside(g):
    return [g.mul(g.padded(g.mul(g.x(5, 40), 2.0), (0, 0), (3, 21), fill=7.0), 3.0)]


@case
def pad_zero(g):
    return [g.mul(g.padded(g.x(5, 40), (1, 2), (3, 21)), 3.0)]


@case
def norms_of_short_rows_apart(g):
    """Statistics of rows by vectors of rows, then by vectors along rows, with the mean again."""
    x = g.slice(g.x(64, 7), (0, 64, 1), (1, 7, 3))
    return [g.op("Normalize", x, 1, bits_of(0.1, f64))]


@case
def sum_first(g):
    return [g.total(g.x(30, 45), 0)]


@case
def sum_last(g):
    return [g.total(g.x(30, 145), 1)]


@case
def sum_outer_and_inner(g):
    return [g.total(g.x(9, 20, 33), 0, 2)]


@case
def sum_two_inner(g):
    return [g.mul(g.total(g.x(9, 20, 33), 1, 2), 2.0)]


@case
def sum_permuted(g):
    return [g.total(g.permute(g.x(9, 20, 34), (2, 0, 1)), 1)]


@case
def max_permuted(g):
    return [g.top(g.permute(g.x(9, 20, 34), (1, 2, 0)), 1)]


@case
def sum_all(g):
    return [g.total(g.x(9, 20, 34), 0, 1, 2)]


@case
def rank_0(g):
    return [g.add(g.mul(g.x(), 2.0), g.x())]


@case
def empty_output(g):
    return [g.mul(g.x(0, 5), 2.0)]


@case
def empty_reduction(g):
    x, y = g.x(4, 0), g.x(4)
    return [g.add(g.total(x, 1), y), g.add(g.top(x, 1), y)]


@case
def empty_padded(g):
    return [g.padded(g.reshape(g.x(0, 6), (3, 0)), (0, 0), (2, 3), fill=4.0)]


@case
def ones(g):
    return [g.mul(g.total(g.x(1, 5, 1), 1, keep=True), g.x(3, 1, 1))]


@case
def softmax_last(g):
    return [g.softmax(g.x(19, 77), 1)]


@case
def softmax_first_square(g):
    return [g.softmax(g.x(64, 64), 0)]


@case
def softmax_first_40(g):
    return [g.softmax(g.x(40, 40), 0)]


@case
def softmax_middle(g):
    return [g.softmax(g.x(5, 40, 48), 1)]


@case
def softmax_both(g):
    return [g.softmax(g.softmax(g.x(48, 48), 0), 1)]


@case
def reshape_permute(g):
    y = g.permute(g.reshape(g.x(24, 60), (4, 6, 10, 6)), (2, 0, 3, 1))
    return [g.mul(g.reshape(y, (40, 36)), 2.0)]


@case
def reshape_across(g):
    x = g.x(24, 60)
    y = g.reshape(g.permute(g.reshape(x, (30, 48)), (1, 0)), (36, 40))
    return [g.add(y, g.reshape(x, (36, 40)))]


@case
def heads_softmax(g):
    y = g.permute(g.reshape(g.x(32, 96), (32, 4, 24)), (1, 0, 2))
    return [g.reshape(g.permute(g.softmax(y, 2), (1, 0, 2)), (32, 96))]


@case
def reduced_twice(g):
    x = g.x(20, 64)
    m = g.total(x, 1, keep=True)
    return [g.mul(g.sub(x, m), g.exp(g.mul(m, 0.01)))]


@case
def pool_by_slices(g):
    p, out = g.padded(g.x(20, 40), (1, 1), (1, 1), fill=-math.inf), None
    for i in range(3):
        for j in range(3):
            q = g.slice(p, (i, i + 20, 1), (j, j + 40, 1))
            out = q if out is None else g.named("Maximum", out, q)
    return [out]


@case
def pool_by_windows(g):
    p = g.padded(g.x(20, 40), (1, 1), (1, 1), fill=-math.inf)
    return [g.top(g.window(g.window(p, 1, 3, 2), 0, 3), 1, 3)]


@case
def dilated_window(g):
    return [g.total(g.mul(g.window(g.x(3, 50), 1, 5, 3, 2), g.x(5)), 2)]


@case
def pad_before_max(g):
    return [g.top(g.padded(g.x(20, 40), (1, 1), (0, 8), fill=-math.inf), 1)]


@case
def flip_shared(g):
    e = g.exp(g.x(50))
    return [g.add(e, g.flip(e, 0))]


@case
def transpose_shared(g):
    e = g.exp(g.x(48, 48))
    return [g.add(e, g.permute(e, (1, 0)))]


@case
def transpose_softmax_shared(g):
    e = g.softmax(g.x(48, 48), 1)
    return [g.add(e, g.permute(e, (1, 0)))]


@case
def cumulative_sum(g):
    """A window of everything before: n windows of n elements over a padded row."""
    return [g.total(g.window(g.padded(g.x(3, 50), (0, 0), (49, 0)), 1, 50), 2)]


@case
def cumulative_sum_by_reshape(g):
    n = 50
    p = g.padded(g.x(3, n), (0, 0), (n - 1, 0))
    long = 2 * n - 1
    q = g.reshape(g.expand(g.reshape(p, (3, 1, long)), (3, n + 1, long)), (3, (n + 1) * long))
    q = g.reshape(g.slice(q, (0, 3, 1), (0, n * (long + 1), 1)), (3, n, long + 1))
    return [g.total(g.slice(q, (0, 3, 1), (0, n, 1), (0, n, 1)), 2)]


@case
def nested_reduction(g):
    x = g.x(30, 40)
    return [g.total(g.mul(x, g.total(x, 0)), 1)]


@case
def nested_reduction_square(g):
    x = g.x(40, 40)
    return [g.total(g.mul(x, g.total(x, 0)), 1)]


@case
def columns_then_rows(g):
    x = g.x(40, 40)
    h = g.mul(x, g.op("Rsqrt", g.total(g.mul(x, x), 0, keep=True)))
    return [g.mul(h, g.op("Rsqrt", g.total(g.mul(h, h), 1, keep=True)))]


@case
def layernorm(g):
    h = g.add(g.x(20, 100), g.x(20, 100))
    return [g.add(g.mul(g.norm(h, 1), g.x(100)), g.x(100))]


@case
def layernorm_and_input(g):
    h = g.add(g.x(20, 100), g.x(20, 100))
    return [h, g.add(g.mul(g.norm(h, 1), g.x(100)), g.x(100))]


@case
def statistics_and_softmax(g):
    x = g.x(20, 100)
    m = g.top(x, 1)
    e = g.exp(g.sub(x, g.reshape(m, (20, 1))))
    s = g.total(e, 1)
    return [g.div(e, g.reshape(s, (20, 1))), m, s]


@case
def gather_rows(g):
    return [g.mul(g.op("Gather", g.x(30, 33), g.x(17, dtype="i32"), 0), 2.0)]


@case
def gather_columns(g):
    return [g.mul(g.op("Gather", g.x(30, 33), g.x(17, dtype="i64"), 1), 2.0)]


@case
def gather_clamped(g):
    index = g.add(g.mul(g.x(17, dtype="i32"), 3), -20)
    return [g.op("Gather", g.x(30, 33), index, 0)]


@case
def gather_row_sum(g):
    return [g.total(g.op("Gather", g.x(30, 33), g.x(17, dtype="i32"), 0), 0)]


@case
def gather_of_gather(g):
    inner = g.op("Gather", g.x(40, dtype="i64"), g.x(3, 5, dtype="u8"), 0)
    return [g.op("Gather", g.x(4, 30), inner, 1)]


@case
def ends_of_axes(g):
    """Reflected, and repeated: near one another, and too far."""
    outputs = []
    for n, before, after in ((64, 2, 5), (17, 3, 1), (33, 20, 30)):
        at = g.add(g.iota(before + n + after, "i64"), g.full(-before, "i64", (1,)))
        low = g.named("Abs", at)
        folded = g.named("Abs", g.add(g.mul(low, -1), g.full(n - 1, "i64", (1,))))
        reflected = g.named("Abs", g.add(g.mul(folded, -1), g.full(n - 1, "i64", (1,))))
        outputs += [g.op("Gather", g.x(3, n), i, 1) for i in (at, reflected)]
    return outputs


@case
def causal(g):
    below = g.less(g.along(40, 1, 2), g.add(g.along(40, 0, 2), 1))
    return [g.softmax(g.select(below, g.x(40, 40), g.full(-1e9, "f32")), 1)]


@case
def casts(g):
    x, y = g.x(5, 40), g.x(40)
    return [g.add(g.cast(g.less(x, y), "f32"), g.cast(g.iota(40), "f32")),
            g.cast(g.mul(x, 3.0), "i32")]


@case
def matmul(g):
    return [g.matmul(g.x(20, 30), g.x(30, 35))]


@case
def matmul_batched(g):
    return [g.matmul(g.x(3, 20, 30), g.permute(g.x(3, 40, 30), (0, 2, 1)))]


@case
def contraction(g):
    return [g.op("Contract", g.x(3, 20, 30), g.x(40, 30), "a,b,k;n,k;a,b,n", (3, 20, 40))]


@case
def bias_sigmoid(g):
    return [g.mul(g.x(60, 64), g.op("Sigmoid", g.expand(g.x(64), (60, 64))))]


@case
def attention(g):
    q, k, v = g.x(2, 32, 16), g.x(2, 48, 16), g.x(2, 48, 16)
    scores = g.mul(g.matmul(q, g.permute(k, (0, 2, 1))), 0.25)
    return [g.matmul(g.softmax(scores, 2), v)]


@case
def convolution(g):
    p = g.padded(g.x(5, 12, 20), (0, 0), (1, 1), (1, 1))
    q = g.window(g.window(p, 2, 3), 1, 3)                      # c, y, 3, x, 3
    q = g.expand(g.reshape(q, (1, 5, 12, 3, 20, 3)), (6, 5, 12, 3, 20, 3))
    w = g.expand(g.reshape(g.x(6, 5, 3, 3), (6, 5, 1, 3, 1, 3)), (6, 5, 12, 3, 20, 3))
    return [g.total(g.mul(q, w), 1, 3, 5)]


@case
def shifts(g):
    h = g.x(64)
    for _ in range(6):
        left = g.padded(g.slice(h, (1, 64, 1)), (0, 1))
        right = g.padded(g.slice(h, (0, 63, 1)), (1, 0))
        h = g.exp(g.mul(g.add(g.add(left, right), h), 0.1))
    return [h]


@case
def pad_of_reduction(g):
    return [g.padded(g.total(g.x(20, 30), 1), (2, 3), fill=1.0)]


@case
def three_shapes(g):
    x = g.x(20, 64)
    return [g.total(x, 0), g.total(x, 1), g.mul(x, 2.0)]


@case
def column_deviation(g):
    return [g.norm(g.x(64, 48), 0)]


@case
def concat_last(g):
    return [g.concat([g.x(5, 17), g.mul(g.x(5, 20), 2.0), g.x(5, 1)], 1)]


@case
def concat_first(g):
    return [g.exp(g.concat([g.x(3, 18), g.x(4, 18)], 0))]


@case
def same_output_twice(g):
    y = g.exp(g.x(33))
    return [y, y, g.add(y, 1.0)]


@case
def input_as_output(g):
    x = g.x(4, 5)
    return [x, g.op("Contiguous", g.permute(x, (1, 0)))]


@case
def rank_8(g):
    x = g.permute(g.x(2, 1, 3, 2, 1, 2, 2, 3), (7, 6, 5, 4, 3, 2, 1, 0))
    return [g.total(g.mul(x, x), 1, 4), g.add(x, 1.0)]


@case
def long_rows_on_heap(g):
    """The kept row does not fit the stack."""
    return [g.softmax(g.x(2, 20000), 1)]


@case
def two_nests_with_rows(g):
    """Each nest has scratch of its own size."""
    return [g.softmax(g.x(3, 40), 1), g.softmax(g.x(5, 90), 1), g.softmax(g.x(7, 30000), 1)]


@case
def nan_and_infinity(g):
    x = g.div(g.x(7, 40), g.mul(g.x(40), 0.0))
    return [g.top(x, 1), g.softmax(x, 1), g.named("Maximum", x, g.x(40))]


WIDTHS = (16, 8, 4)


@pytest.fixture(scope="module", params=WIDTHS)
def kernels(request) -> tuple[int, dict[str, tuple[Draw, list, KernelCode]]]:
    """All cases lowered, and compiled as one file."""
    made = {}
    for name, f in CASES.items():
        g = Draw()
        outputs = f(g)
        made[name] = g, outputs, lower(g, outputs, f"k_{name}", C(request.param))
    return request.param, made


@pytest.mark.parametrize("name", CASES)
def test_kernel_equals_oracle(kernels, name):
    width, made = kernels
    library = build([code for _, _, code in made.values()], width)
    g, outputs, code = made[name]
    check(g, outputs, width=width, code=code, library=library)
