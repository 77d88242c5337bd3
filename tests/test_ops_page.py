"""docs/ops.md is what the script writes, and no op that people look for is missing."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

import tegg
from tegg.ops.public import PUBLIC, functions

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
PAGE = runpy.run_path(str(ROOT / "tools" / "ops_page.py"))
SPECIAL = runpy.run_path(str(ROOT / "tools" / "ops_special.py"))

# What the front ends of comparable compilers have: functions, then what is an operator or a method.
EXPECTED = ["neg", "log2", "exp2", "exp", "log", "reciprocal", "sin", "cos", "square", "sqrt", "rms_norm", "layer_norm", "normalize", "softmax", "log_softmax", "argmax", "abs", "sign", "relu", "sigmoid", "silu", "swish", "tanh", "leaky_relu", "gelu", "add", "sub", "mul", "div", "remainder", "fmod", "lt", "gt", "le", "ge", "ne", "eq", "pow", "maximum", "minimum", "clamp", "sum", "max", "mean", "prod", "permute", "transpose", "expand", "reshape", "unsqueeze", "contiguous", "narrow", "unfold", "pad", "cat", "matmul", "dot", "cumsum", "cummax", "cumprod", "arange", "tril", "triu", "gather", "sort", "argsort", "topk", "one_hot", "scatter", "scatter_add", "where", "stack", "split", "min", "var", "std", "argmin", "erf", "squeeze", "flatten", "take_along_dim", "index_select", "einsum", "cast", "repeat", "unflatten", "embedding", "floor", "ceil", "round", "logsumexp", "linspace", "full", "zeros", "ones", "eye", "chunk", "tile", "flip", "roll", "conv1d", "conv2d", "conv3d", "max_pool1d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "softplus", "interpolate", "index_put", "broadcast_to", "concat", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_not", "floor_divide", "trunc", "rsqrt", "searchsorted", "log1p", "expm1", "cummin", "scaled_dot_product_attention", "rope", "group_norm", "batch_norm", "linear"]
METHODS = ["T", "mT", "float", "half", "bool", "view", "astype", "to", "numel", "dim", "expand_as", "reshape_as", "where", "masked_fill", "softmax", "sum", "reshape", "__getitem__", "__matmul__", "__rmatmul__", "__mod__", "__rsub__", "__pow__", "__invert__"]


def test_the_page_is_up_to_date():
    made = PAGE["page"]()
    assert (ROOT / "docs" / "ops.md").read_text(encoding="utf-8") == made, (
        "run python tools/ops_page.py")


@pytest.mark.parametrize("name", EXPECTED)
def test_no_op_is_missing(name):
    assert name in functions() and name in tegg.__all__


def test_no_method_is_missing():
    assert not [m for m in METHODS if not hasattr(tegg.Tensor, m)]


def test_every_op_has_a_text():
    assert not [n for n, op in PUBLIC.items() if not (op.function.__doc__ or "").strip()]


def test_every_family_is_on_the_page():
    assert {op.family for op in PUBLIC.values()} == {
        m.__name__.rpartition(".")[2] for m in tegg.ops.FAMILIES}


# Where tegg differs from both in a special value: signs of zeros that its formulas lose or keep.
OWN = {("tanh", "-0"), ("sign", "-0"), ("logsigmoid", "inf"), ("tanhshrink", "-0"),
       ("layer_norm", "[-0 0 0 -0]"), ("batch_norm", "-0, 0, 1"),
       ("instance_norm", "[-0 0 0 -0]"),
       ("cdist", "[inf 1], [1 1]")}  # as PyTorch's own for more than 25 rows
# Ops that have no table: those without values of their own, and those that move values alone.
MOVED = {"create", "movement", "parts", "ranges", "repeats", "padding", "diagonals", "index",
         "counting"}
PLAIN = {"cast", "gather_nd", "where", "logical_not", "logical_and", "logical_or", "logical_xor"}


def test_ops_that_compute_have_a_table_of_special_values():
    bare = {op.name for op in PUBLIC.values() if not SPECIAL["cases"](op)}
    assert bare == {op.name for op in PUBLIC.values()
                    if op.family in MOVED and op.name != "trace"} | PLAIN


def test_special_values_are_those_of_numpy_or_pytorch():
    found, shown = set(), 0
    for op in PUBLIC.values():
        rows = SPECIAL["rows"](op) if SPECIAL["cases"](op) else {"tegg": []}
        for head, own, *others in zip(SPECIAL["heads"](op), rows.pop("tegg"), *rows.values()):
            shown += 1
            if others and own not in others:
                found.add((op.name, head))
    assert found == OWN and shown > 900


def test_pytorchs_special_values_are_those_of_its_version():
    torch = pytest.importorskip("torch")
    known = json.loads(SPECIAL["DATA"].read_text(encoding="utf-8"))
    if torch.__version__.split("+")[0] != known["version"]:
        pytest.skip("another version of PyTorch")
    assert SPECIAL["measured"]() == known, "run python tools/ops_special.py"
