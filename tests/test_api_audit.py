"""Every operation of comparable front ends has its way here, and gives what NumPy gives.

The left names are theirs, word for word; the right sides are ours and NumPy's. ``x`` is (2, 3) and
positive, ``s`` the same with both signs, ``y`` (3,), ``q`` (3, 3), ``n`` integers, ``i`` indices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tegg
from tegg.ir.oracle import evaluate
from tegg.ops.public import PUBLIC, functions, methods_of

F = np.float64
ARRAYS = {"x": np.array([[0.5, 1, 2], [3, 0.25, 4]], F), "s": np.array([[-1, 0, 2], [3, .5, -2]], F),
          "y": np.array([2, -1, 0.5], F), "q": np.arange(9, dtype=F).reshape(3, 3) - 4,
          "n": np.array([[7, -7, 5], [0, 2, -3]]), "i": np.array([2, 0, 1]),
          "b": np.array([True, False, True]), "v": np.arange(10.0),
          "m": np.arange(24, dtype=F).reshape(2, 3, 4), "p": np.array([[0, 2], [1, -1]])}

# Tensors of one operand and of two, reductions, movement, products, and what remains; then what
# such front ends lacked at first, and what they got later.
SAME = """neg log2 exp2 exp log reciprocal sin cos square sqrt abs sign floor ceil trunc tanh sum max
mean prod argmax min argmin cumsum cumprod"""
WAYS: dict[str, tuple[str, str]] = {
    **{n: (f"x.{n}()" if not n.startswith("cum") else f"x.{n}(0)",
           f"np.{dict(neg='negative').get(n, n)}(x{', axis=0' if n.startswith('cum') else ''})")
       for n in SAME.split()},
    "graph_break": ("x.contiguous()", "x"),
    "std_norm": ("x.std_norm(-1, 0.1)", "x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.1)"),
    "mean_norm": ("x.mean_norm(0)", "x - x.mean(0)"),
    "layer_norm": ("tegg.layer_norm(x, 3, eps=0)",
                   "(x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)"),
    "normalize": ("x.normalize(1, p=1.0)", "x / x.sum(1, keepdims=True)"),
    "softmax": ("x.softmax(1)", "np.exp(x) / np.exp(x).sum(1, keepdims=True)"),
    "log_softmax": ("x.log_softmax(1)", "x - np.log(np.exp(x).sum(1, keepdims=True))"),
    "relu": ("s.relu()", "np.maximum(s, 0)"), "sigmoid": ("s.sigmoid()", "1 / (1 + np.exp(-s))"),
    "swish": ("s.swish()", "s / (1 + np.exp(-s))"), "silu": ("s.silu()", "s / (1 + np.exp(-s))"),
    "leaky_relu": ("s.leaky_relu(0.1)", "np.where(s > 0, s, 0.1 * s)"),
    "gelu": ("s.gelu()", "s * np.vectorize(lambda v: (1 + math.erf(v / 2 ** 0.5)) / 2)(s)"),
    "gelu by tanh": ("s.gelu('tanh')",
                     "s / 2 * (1 + np.tanh((2 / math.pi) ** 0.5 * (s + 0.044715 * s ** 3)))"),
    "erf": ("s.erf()", "np.vectorize(math.erf)(s)"),

    "+ - * / %": ("(x + y - 1) * s / x % 3", "(x + y - 1) * s / x % 3"),
    "scalar + - * / %": ("5 % (1 + (2 - 3 / x) * 2)", "5 % (1 + (2 - 3 / x) * 2)"),
    "lt gt le ge": ("(x < y) | (x > y) & (x <= 1) ^ (x >= 3)",
                    "(x < y) | (x > y) & (x <= 1) ^ (x >= 3)"),
    "eq ne": ("(x == 2) | (x != 1)", "(x == 2) | (x != 1)"),
    "pow": ("x ** y", "x ** y"), "scalar pow": ("2 ** s", "2 ** s"),
    "pow of negative numbers": ("s ** 3", "s ** 3"), "exact integer pow": ("n ** 5", "n ** 5"),
    "maximum": ("s.maximum(y)", "np.maximum(s, y)"),
    "maximum_f32": ("s.maximum(0.5)", "np.maximum(s, 0.5)"),
    "minimum": ("s.minimum(y)", "np.minimum(s, y)"),
    "minimum_f32": ("s.minimum(0.5)", "np.minimum(s, 0.5)"),
    "clip": ("s.clip(-1, 1)", "np.clip(s, -1, 1)"),

    "permute": ("m.permute(2, 0, 1)", "m.transpose(2, 0, 1)"),
    "transpose": ("m.transpose(0, 2)", "m.swapaxes(0, 2)"), "t": ("x.t()", "x.T"),
    "expand_dim": ("y.unsqueeze(0).expand(4, -1)", "np.broadcast_to(y, (4, 3))"),
    "expand_lhs": ("y.expand(2, 4, 3)", "np.broadcast_to(y, (2, 4, 3))"),
    "expand_rhs": ("y[..., None].expand(3, 2)", "np.broadcast_to(y[:, None], (3, 2))"),
    "expand": ("q[:1].expand(3, 3)", "np.broadcast_to(q[:1], (3, 3))"),
    "reshape": ("m.reshape(4, -1)", "m.reshape(4, -1)"),
    "unsqueeze": ("y.unsqueeze(1)", "y[:, None]"), "contiguous": ("x.T.contiguous()", "x.T"),
    "slice": ("m[:, 1:, ::-2]", "m[:, 1:, ::-2]"),
    "slice_along": ("m.slice_along(-1, 1, 3)", "m[..., 1:3]"),
    "excise": ("v.excise(2, 1)", "v[[0, 1, 3, 4, 6, 7, 9]]"),
    "pool_last_dim": ("v.unfold(-1, 3, 2, 2)",
                      "np.lib.stride_tricks.sliding_window_view(v, 5)[::2, ::2]"),
    "pad": ("x.pad([(1, 0), (2, 1)])", "np.pad(x, [(1, 0), (2, 1)])"),
    "pad_along": ("x.pad((2, 1))", "np.pad(x, [(0, 0), (2, 1)])"),
    "pad with a value": ("x.pad((2, 1), value=7)", "np.pad(x, [(0, 0), (2, 1)], constant_values=7)"),
    "concat_along": ("tegg.cat([x, s], 1)", "np.concatenate([x, s], 1)"),
    "print": ("x.print('x')", "x"), "diff": ("y.diff([0, 0, 0])", "y"),
    "host callbacks": ("x.watch(print)", "x"),
    "squeeze": ("x[:1].squeeze(0)", "x[0]"), "flatten": ("m.flatten(1)", "m.reshape(2, 12)"),
    "merge_dims": ("m.flatten(0, 1)", "m.reshape(6, 4)"),
    "split_dims": ("m.unflatten(2, (2, -1))", "m.reshape(2, 3, 2, 2)"),
    "repeat": ("y.repeat(2)", "np.tile(y, 2)"), "stack": ("tegg.stack([x, s], 1)",
                                                           "np.stack([x, s], 1)"),
    "split": ("tegg.stack(v.split(5))", "np.stack(np.split(v, 2))"),
    "unfold": ("tegg.max_pool2d(m, (2, 2), 1)",
               "np.lib.stride_tricks.sliding_window_view(m, (2, 2), (1, 2)).max((3, 4))"),

    "matmul of 1 by 2 axes": ("y @ q", "y @ q"), "matmul of 2 by 2": ("x @ q", "x @ q"),
    "matmul of 3 by 2": ("m.mT @ q", "m.swapaxes(1, 2) @ q"),
    "matmul of 3 by 3": ("m.mT @ m", "m.swapaxes(1, 2) @ m"),
    "matmul of 4 by 2": ("m[None].mT @ q", "m[None].swapaxes(2, 3) @ q"),
    "matmul of 4 by 4": ("m[None].mT @ m[None]", "(m.swapaxes(1, 2) @ m)[None]"),
    "matmul of 5 by 5": ("m[None, None].mT @ m[None, None]", "(m.swapaxes(1, 2) @ m)[None, None]"),
    "dot": ("y.dot(y)", "y.dot(y)"), "einsum": ("tegg.einsum('ij,kj->ik', x, s)", "x @ s.T"),

    "cumsum_last_dim": ("s.cumsum(-1)", "s.cumsum(-1)"),
    "cummax_last_dim": ("s.cummax(-1)", "np.maximum.accumulate(s, -1)"),
    "cumprod_last_dim": ("s.cumprod(-1)", "s.cumprod(-1)"),
    "cummax on another axis": ("s.cummax(0)", "np.maximum.accumulate(s, 0)"),
    "constant": ("tegg.full((), 2.5)", "np.float32(2.5)"),
    "constant_f64": ("tegg.full((), 0.1, 'f64')", "np.float64(0.1)"),
    "constant_i64": ("tegg.full((), 2 ** 62, 'i64')", "np.int64(2 ** 62)"),
    "arange": ("tegg.arange(5)", "np.arange(5)"),
    "arange_in_range": ("tegg.arange(2, 5)", "np.arange(2, 5)"),
    "arange_step": ("tegg.arange(7, 1, -2)", "np.arange(7, 1, -2)"),
    "arange_options": ("tegg.arange(0, 5, dtype='i32')", "np.arange(5, dtype=np.int32)"),
    "iota": ("tegg.arange(6).reshape(2, 3) * 2", "np.arange(6).reshape(2, 3) * 2"),
    "tril": ("tegg.ones(3, 3).tril(-1)", "np.tri(3, k=-1)"),
    "triu": ("tegg.ones(3, 3).triu(1)", "1 - np.tri(3)"), "tril of a matrix": ("x.tril()",
                                                                              "np.tril(x)"),
    "linspace": ("tegg.linspace(0, 1, 5)", "np.linspace(0, 1, 5)"),

    "sort": ("s.sort(1).values", "np.sort(s, 1)"), "argsort": ("s.argsort(0)",
                                                             "np.argsort(s, 0)"),
    "topk": ("s.topk(2, 1).values", "-np.sort(-s, 1)[:, :2]"),
    "topk_indexes": ("s.topk(2, 1).indices", "np.argsort(-s, 1)[:, :2]"),
    "one_hot": ("i.one_hot(3)", "np.eye(3)[i]"), "where": ("tegg.where(b, x, s)",
                                                           "np.where(b, x, s)"),
    "select": ("x.where(b, 0)", "np.where(b, x, 0)"), "cond": ("tegg.where(x > s, x, s)",
                                                               "np.maximum(x, s)"),
    "argmax of an axis": ("s.argmax(1)", "s.argmax(1)"),
    "argmax of ties": ("tegg.ones(3).argmax()", "np.int64(0)"),
    "argmin of an axis": ("s.argmin(0)", "s.argmin(0)"),
    "var": ("x.var(1)", "x.var(1, ddof=1)"), "std": ("x.std(1)", "x.std(1, ddof=1)"),
    "var_options": ("x.var(1, correction=0)", "x.var(1)"),
    "std_options": ("x.std(1, ddof=0)", "x.std(1)"),
    "logsumexp": ("x.logsumexp(1)", "np.log(np.exp(x).sum(1))"),
    "round": ("(x * 2).round()", "np.round(x * 2)"),
    "gather of rows": ("q[i]", "q[i]"), "gather": ("m.gather_nd(p)", "m[[0, 1], [2, -1]]"),
    "gather1d": ("v.take(i)", "v[i]"), "gather_nd": ("m.gather_nd(p)", "m[[0, 1], [2, -1]]"),
    "gather_elements": ("q.gather(1, i[None])", "q[:1][:, i]"),
    "scatter": ("q.scatter_nd(i[:2, None], y)", "np.stack([y, q[1], y])"),
    "scatter1d": ("y.scatter(0, i[:2], 9.0)", "np.array([9, -1, 9.0])"),
    "scatter_elements": ("q.scatter(0, i[None], y[None])",
                         "np.where(i == np.arange(3)[:, None], y, q)"),
    "scatter_nd": ("q.scatter_nd(i[:2, None], y, 'add')", "q + np.array([1, 0, 1])[:, None] * y"),
    "general gather": ("m[:, i, i + 1]", "m[:, i, i + 1]"),
    "cast": ("s.cast('i32')", "s.astype(np.int32)"),
    "trunc_div": ("n.div(2, rounding_mode='trunc')", "np.trunc(n / 2).astype(int)"),
    "trunc_div of floats": ("s.div(y, rounding_mode='trunc')", "np.trunc(s / y)"),
    "trunc_rem": ("n.fmod(3)", "np.fmod(n, 3)"),
    "floor division": ("n.div(2, rounding_mode='floor')", "n // 2"),
    "max of NaN": ("(x / 0 * 0).max()", "np.float64('nan')"),
    "min of NaN": ("(x / 0 * 0).min()", "np.float64('nan')"),
    "broadcasting": ("m + y[:, None]", "m + y[:, None]"),
}
# By their own name, as functions and methods of Tensor.
BY_NAME = """neg log2 exp2 exp log reciprocal sin cos square sqrt std_norm mean_norm normalize softmax
log_softmax argmax abs sign relu sigmoid swish silu tanh leaky_relu gelu pow maximum minimum clip sum
max mean prod permute transpose expand reshape unsqueeze contiguous slice_along excise pad matmul dot
cumsum cummax cumprod tril triu gather sort topk scatter split min var std argmin erf squeeze flatten
argsort gather_nd scatter_nd unfold repeat t cast trunc floor ceil round logsumexp one_hot"""
FUNCTIONS = ["arange", "layer_norm", "where", "stack", "einsum", "concat", "linspace", "full"]


@pytest.mark.parametrize("name", WAYS)
def test_it_has_its_way_here(name):
    ours, numpys = WAYS[name]
    graph = tegg.Graph()
    names = {k: graph.tensor(a.shape, a.dtype, k) for k, a in ARRAYS.items()}
    with graph.recording():
        made: Any = eval(ours, {"tegg": tegg}, names)
    with np.errstate(all="ignore"):
        got = evaluate([made.node], dict(enumerate(ARRAYS.values())))[0]
        want = eval(numpys, {"np": np, "math": math}, ARRAYS)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12)


def test_names_are_functions_and_methods():
    methods = {n for op in PUBLIC.values() for n in methods_of(op)}
    assert not [n for n in BY_NAME.split() if n not in functions() or n not in methods
                or not hasattr(tegg.Tensor, n)]
    assert set(FUNCTIONS) <= set(functions())


@pytest.mark.parametrize(("call", "text"), [
    (lambda q: q.excise(0, 1), "excise: spacing is an int of at least 1, not 0"),
    (lambda q: q.excise(2, -1), "excise: size is an int of at least 0, not -1"),
    (lambda q: q.slice_along(0, 0, 2, 0), "slice_along: a slice step is an int other than 0"),
    (lambda q: q.gather_nd([[0, 1, 2]]), r"gather_nd: the last axis of the indices \(1, 3\) holds "
     r"coordinates, of 1 to 2 numbers for x \(3, 3\)"),
    (lambda q: q.gather_nd([[3, 0]]), "gather_nd: 3 is outside an axis of 3"),
    (lambda q: q.gather_nd([[0]], batch_dims=1), r"gather_nd: the first 1 axes of x \(3, 3\) and "),
    (lambda q: q.scatter_nd([[0, -4]], 1.0), "scatter_nd: -4 is outside an axis of 3"),
    (lambda q: q.scatter_nd([[0]], np.zeros(2)), r"scatter_nd: shapes \(2,\) and \(1, 3\) "),
    (lambda q: q.scatter_nd([[0]], 1.0, "mul"), "scatter_nd: reduce is None, 'add', 'max' or "),
    (lambda q: q.scatter_nd(np.zeros((1, 1)), 1.0), "scatter_nd: an index has an integer dtype"),
    (lambda q: q[None].t(), r"t: \(1, 3, 3\) has more than two axes"),
    (lambda q: q.div(2, rounding_mode="up"), "div: rounding_mode is None, 'floor' or 'trunc'"),
    (lambda q: q.mean_norm((0, 0)), r"mean_norm: an axis of \(3, 3\) is named twice"),
    (lambda q: q.cast("i32").std_norm(), "std_norm: needs a float dtype, not i32")])
def test_errors(call, text):
    with pytest.raises(tegg.TeggError, match=text) as e:
        call(tegg.Graph().tensor((3, 3), "f64"))
    assert f"(at {__file__}:" in str(e.value)


def test_a_function_of_ours_fails_where_it_is_called():
    with pytest.raises(tegg.DTypeError) as e:
        tegg.compile(tegg.asin)(np.arange(3))
    assert f"(at {__file__}:" in str(e.value)


def test_symbolic_axes():
    n = tegg.dim("n", min=1)
    x = tegg.Graph().tensor((6 * n, 3))
    assert x.excise(2, 1, 0).shape == (4 * n, 3)
    assert x.gather_nd(np.array([[0, 1]])).shape == (1,)
    assert tegg.Graph().tensor((n, 3)).gather_nd(np.zeros((4, 1), int), 0).shape == (4, 3)
    with pytest.raises(tegg.ShapeError, match="excise: an axis of .* has no known remainder by 4"):
        x.excise(3, 1, 0)
