"""What every public op takes and gives: shapes, dtypes and errors, and a short example.

``public`` puts these lines under the docstring of each op, so that ``help`` shows them, and
``tools/ops_page.py`` under its entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from tegg.ops.examples import IMPOSSIBLE, example

_OTHER = "DTypeError for another dtype"
_MEET = "ShapeError where the shapes do not broadcast, DTypeError where the dtypes do not meet"
_AXIS = "ShapeError for an axis outside x"
_FLOAT_AXIS = f"{_OTHER}, {_AXIS}"
_FIT = "ShapeError and DTypeError for operands that do not fit"
_FITS = "ShapeError where the sizes do not fit"
_FILL = "ArgumentError for a number that the dtype lacks, ShapeError for sizes below 0"
_INDEX = ("ShapeError for sizes that do not fit, and for an index outside whose value is known "
          "while recording (a computed one is clamped), DTypeError for indices that are no ints")
_WRITES = f"{_FIT}, ShapeError for an index outside whose value is known while recording"
_WINDOW = "ShapeError where a window does not fit, ArgumentError for sizes below 1, " + _OTHER
_KEEP = "x's without the axes, or with size 1 in their place for keepdim"

# shapes, dtypes, errors -> names. Dtypes begin with what is accepted: floats, numbers (floats and
# integers), bool or any.
_TOLD: dict[tuple[str, str, str], str] = {
    ("as x", "floats", _OTHER):
        "exp exp2 log log2 sqrt rsqrt reciprocal sin cos sigmoid tanh silu erf gelu log10 log1p "
        "expm1 sinh cosh asinh acosh atanh tan atan asin acos leaky_relu elu selu celu hardsigmoid "
        "hardswish softplus logsigmoid softsign mish hardshrink softshrink tanhshrink threshold",
    ("as x", "numbers", _OTHER): "neg relu abs sign floor ceil trunc round",
    ("as x", "any", "nothing of its own"): "square contiguous nan_to_num",
    ("as x", "any; bools become i64", "DTypeError where a limit does not fit the dtype"):
        "relu6 hardtanh",
    ("as x", "any, to any", "DTypeError for a dtype that tegg lacks"): "cast",
    ("of both broadcast", "any, both the same", _MEET): "add mul maximum minimum",
    ("of both broadcast", "numbers, both the same", f"{_MEET}, or are bool"):
        "sub fmod remainder floor_divide pow",
    ("of both broadcast", "floats, both the same", f"{_MEET}, or are no floats"):
        "div logaddexp atan2",
    ("of both broadcast", "any, both the same; gives bool", _MEET): "lt gt le ge eq ne",
    ("as x", "any; gives bool", "nothing of its own"): "isnan isinf isfinite",
    ("as x", "bool", _OTHER): "logical_not",
    ("of both broadcast", "bool", f"{_MEET}, or are not bool"):
        "logical_and logical_or logical_xor",
    ("of all three broadcast", "bool condition; any x and y", _MEET): "where",
    ("of all broadcast", "any", _MEET): "clamp",
    ("as x; weight has one element or one for each channel", "any, both the same", _FIT): "prelu",
    ("of all three broadcast", "floats; bool start becomes f32", _MEET): "lerp",
    ("as x with half of the axis", "floats", f"{_FLOAT_AXIS} or of odd size"): "glu",

    ("what is asked for", "any", _FILL): "full zeros ones",
    ("as x", "any", "DTypeError for a number that the dtype lacks"):
        "full_like zeros_like ones_like",
    ("(ceil((stop - start) / step),)", "numbers", "ArgumentError for step 0, ShapeError where a "
     "symbolic range may be negative"): "arange",
    ("(steps,)", "floats", "ArgumentError for steps below 0 and for another dtype"): "linspace",
    ("(n, m)", "any", "ShapeError for sizes below 0"): "eye",
    ("(a,), (b,), ... give tensors of (a, b, ...)", "any",
     "ShapeError for operands that are not 1-D, ArgumentError for another indexing"): "meshgrid",

    (_KEEP, "any; bools and small integers in i64", f"{_AXIS}, or given twice"): "sum prod",
    (_KEEP, "floats", f"{_FLOAT_AXIS}, or given twice"): "mean var std logsumexp norm",
    (_KEEP, "any", f"{_AXIS}, given twice, or empty"): "max min",
    (_KEEP, "any; gives bool", f"{_AXIS}, or given twice"): "any all",
    (_KEEP, "any; gives i64", f"{_AXIS}, or empty"): "argmax argmin",
    ("as x", "any; bools and small integers in i64", _AXIS): "cumsum cumprod",
    ("as x", "any", _AXIS): "cummax cummin",
    ("as x", "floats", _FLOAT_AXIS): "logcumsumexp softmax log_softmax normalize",
    ("as x", "floats", f"{_FLOAT_AXIS}, or given twice"): "mean_norm std_norm",
    ("as x", "any; gives i64", _AXIS): "argsort",
    ("two as x", "any; values, and indices in i64", _AXIS): "sort",
    ("two as x with size k on the axis", "any; values, and indices in i64",
     "ShapeError where k is more than the axis"): "topk",
    ("(n,) and any: that of the values", "any, both the same; gives i64",
     "ShapeError where the sequence is not 1-D"): "searchsorted",

    ("the new one, with as many elements", "any", "ShapeError for another number of elements"):
        "reshape unflatten",
    ("x's axes in the new order", "any", f"{_AXIS}, or given twice"):
        "permute transpose swapaxes movedim",
    ("of rank 2 at most, the axes swapped", "any", "ShapeError for higher rank"): "t",
    ("x's with the axes as their product", "any", f"{_AXIS}, or out of order"): "flatten",
    ("x's without axes of size 1", "any", f"{_AXIS}, or of another size"): "squeeze",
    ("x's with one more axis of size 1", "any", _AXIS): "unsqueeze",
    ("the new one; axes of size 1 repeat", "any", "ShapeError where another size would change"):
        "expand",
    ("as x", "any", f"{_AXIS}, or given twice"): "flip roll",
    ("x's with the axis shortened to length", "any", f"{_AXIS}, or a range outside it"): "narrow",
    ("x's with the range's length on the axis", "any", f"{_AXIS}, or of step 0, ArgumentError for "
     "bounds that are no ints"): "slice_along",
    ("x's with spacing for each spacing + size of the axis", "any", f"{_AXIS}, or without a known "
     "remainder; ArgumentError for a spacing below 1 or a size below 0"): "excise",
    ("the operands' with the sum of their sizes on the axis", "any, all the same",
     "ArgumentError for no tensors, ShapeError and DTypeError where they differ elsewhere"): "cat",
    ("the operands' with a new axis of their number", "any, all the same",
     "ArgumentError for no tensors, ShapeError and DTypeError where they differ"): "stack",
    ("x's with the number of windows on the axis, and their size last", "any",
     f"{_AXIS}, or shorter than a window; ArgumentError for steps below 1"): "unfold",
    ("several, x's with parts of the axis", "any", f"{_AXIS}, or sizes that do not add up to it"):
        "split chunk tensor_split",
    ("several, x's without the axis", "any", f"{_AXIS}, or of symbolic size"): "unbind",
    ("x's sizes times the repeats", "any", "ShapeError for repeats below 0 or too few"):
        "repeat tile repeat_interleave",
    ("x's with two axes swapped for odd k", "any", f"{_AXIS}, or given twice"): "rot90",
    ("x's sizes plus the widths", "any", "ShapeError for widths that do not fit, ArgumentError "
     "for another mode"): "pad",
    ("as x, of rank 2 or more", "any", "ShapeError for lower rank"): "tril triu",
    ("x's without the two axes, and the diagonal's length last", "any", f"{_AXIS}, or twice"):
        "diagonal",
    ("(n, m) to ()", "any; bools and small integers in i64", "ShapeError for another rank"):
        "trace",
    ("(n,) to (n, n), (n, m) to the diagonal", "any", "ShapeError for another rank"): "diag",

    ("x's with that of the indices in place of the axis", "any; integer indices", _INDEX): "take",
    ("x's with the number of indices on the axis", "any; integer indices", _INDEX): "index_select",
    ("that of the indices, and weight's last axis", "any; integer indices", _INDEX): "embedding",
    ("that of the indices", "any; integer indices", _INDEX): "gather take_along_dim",
    ("that of the indices without the last axis, of size k, then x's axes but the batch and k",
     "any; integer indices", _INDEX): "gather_nd",
    ("as x", "any, source the same; integer indices", _WRITES):
        "scatter scatter_add scatter_reduce index_add index_copy index_put scatter_nd",
    ("x's and num_classes last", "integers; gives i64", "DTypeError for no integers, "
     "ArgumentError without num_classes"): "one_hot",
    ("(n,) to (minlength,)", "integers; gives i64, of weights theirs", "ShapeError for another "
     "rank, ArgumentError without minlength"): "bincount",
    ("none: it would depend on values", "any", "ArgumentError, always"): "nonzero",

    ("(..., m, k), (..., k, n) to (..., m, n)", "numbers, both the same", _FIT): "matmul",
    ("(k,), (k,) to ()", "numbers, both the same", _FIT): "dot",
    ("(m, k), (k, n) to (m, n)", "numbers, both the same", _FIT): "mm",
    ("(b, m, k), (b, k, n) to (b, m, n)", "numbers, both the same", _FIT): "bmm baddbmm",
    ("(m, k), (k,) to (m,)", "numbers, both the same", _FIT): "mv",
    ("(m,), (n,) to (m, n)", "any, both the same", _FIT): "outer",
    ("(m, k), (k, n) to (m, n), to which x broadcasts", "numbers, all the same", _FIT): "addmm",
    ("(..., k), (n, k), (n,) to (..., n)", "numbers, all the same", _FIT): "linear",
    ("as the equation says", "numbers, all the same",
     "ArgumentError for an equation that is none, " + _FIT): "einsum",
    ("of both broadcast without the axis", "floats", f"{_FLOAT_AXIS}, {_MEET}"):
        "cosine_similarity pairwise_distance",
    ("(..., n, d), (..., m, d) to (..., n, m)", "floats", f"{_FIT}"): "cdist",
    ("(..., l, e), (..., s, e), (..., s, f) to (..., l, f)", "floats",
     f"{_FIT}, ArgumentError for a mask beside is_causal that does not fit"):
        "scaled_dot_product_attention",
    ("as x; weight and bias of the last axes", "floats", f"{_OTHER}, {_FITS}"):
        "layer_norm rms_norm",
    ("as x, (..., n, e) of even e; cos and sin broadcast", "floats", f"{_OTHER}, {_FITS}"): "rope",
    ("as x, (n, c, ...); statistics, weight and bias (c,)", "floats", f"{_OTHER}, {_FITS}"):
        "batch_norm group_norm instance_norm",

    ("(n, c, l), (o, c / groups, k) to (n, o, l')", "numbers, all the same", _WINDOW): "conv1d",
    ("(n, c, h, w), (o, c / groups, k, k) to (n, o, h', w')", "numbers, all the same", _WINDOW):
        "conv2d",
    ("(n, c, d, h, w), (o, c / groups, k, k, k) to (n, o, d', h', w')", "numbers, all the same",
     _WINDOW): "conv3d",
    ("(n, c, l), (c, o / groups, k) to (n, o, l')", "numbers, all the same", _WINDOW):
        "conv_transpose1d",
    ("(n, c, h, w), (c, o / groups, k, k) to (n, o, h', w')", "numbers, all the same", _WINDOW):
        "conv_transpose2d",
    ("(n, c, d, h, w), (c, o / groups, k, k, k) to (n, o, d', h', w')", "numbers, all the same",
     _WINDOW): "conv_transpose3d",
    ("(n, c, l) to (n, c, l'); n may be missing", "any", _WINDOW):
        "max_pool1d adaptive_max_pool1d",
    ("(n, c, h, w) to (n, c, h', w'); n may be missing", "any", _WINDOW):
        "max_pool2d adaptive_max_pool2d",
    ("(n, c, d, h, w) to (n, c, d', h', w'); n may be missing", "any", _WINDOW):
        "max_pool3d adaptive_max_pool3d",
    ("(n, c, l) to (n, c, l'); n may be missing", "floats", _WINDOW):
        "avg_pool1d adaptive_avg_pool1d",
    ("(n, c, h, w) to (n, c, h', w'); n may be missing", "floats", _WINDOW):
        "avg_pool2d adaptive_avg_pool2d",
    ("(n, c, d, h, w) to (n, c, d', h', w'); n may be missing", "floats", _WINDOW):
        "avg_pool3d adaptive_avg_pool3d",
    ("(n, c, one to three axes), which get their new sizes", "floats; any for the nearest modes",
     "ArgumentError for modes and sizes that are none, ShapeError for another rank"):
        "interpolate",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of one op."""

    shapes: str
    dtypes: str
    errors: str


TOLD = {name: Told(*key) for key, names in _TOLD.items() for name in names.split()}


def documented(name: str, text: str) -> str:
    """A docstring, as ``inspect.cleandoc`` gives it, with what is said of the op under it."""
    told = TOLD.get(name)
    if told is None:
        return text
    lines = [f"Shapes: {told.shapes}.", f"Dtypes: {told.dtypes}.", f"Raises: {told.errors}."]
    if name not in IMPOSSIBLE:
        lines.append(f"Example: {example(name)}   (its tensors and its result are in docs/ops.md)")
    return "\n".join([text, "", *lines])
