"""The Tensor functions, all recorded over primops: PyTorch's names first, NumPy's beside them."""

from tegg.ops.compare import (eq, ge, gt, isnan, le, logical_and, logical_not, logical_or,
                              logical_xor, lt, ne, where)
from tegg.ops.elementwise import (abs, add, cast, ceil, clamp, contiguous, cos, div, erf, exp, exp2,
                                  floor, floor_divide, fmod, gelu, log, log2, maximum, minimum, mul,
                                  neg, pow, reciprocal, relu, remainder, round, rsqrt, sigmoid,
                                  sign, silu, sin, sqrt, square, sub, tanh, trunc)
from tegg.ops.index import (arange, embedding, gather, index_select, one_hot, take,
                            take_along_dim)
from tegg.ops.linalg import dot, linear, matmul
from tegg.ops.movement import (broadcast_to, cat, concat, expand, flatten, flip, movedim, narrow,
                               pad, permute, reshape, squeeze, stack, transpose, unfold, unsqueeze)
from tegg.ops.norm import layer_norm, normalize, rms_norm, rope
from tegg.ops.reduce import all, amax, amin, any, logsumexp, max, mean, min, std, sum, var
from tegg.ops.attention import log_softmax, scaled_dot_product_attention, softmax

clip, concatenate, moveaxis, swapaxes, subtract, multiply, divide, power, negative = (
    clamp, cat, movedim, transpose, sub, mul, div, pow, neg)
equal, not_equal, less, less_equal, greater, greater_equal = eq, ne, lt, le, gt, ge

__all__ = [
    "abs", "add", "all", "amax", "amin", "any", "arange", "broadcast_to", "cast", "cat", "ceil",
    "clamp", "clip", "concat", "concatenate", "contiguous", "cos", "div", "divide", "dot",
    "embedding",
    "eq", "equal", "erf", "exp", "exp2", "expand", "flatten", "flip", "floor", "floor_divide",
    "fmod", "gather", "ge", "gelu", "greater", "greater_equal", "gt", "index_select", "isnan",
    "layer_norm", "le", "less", "less_equal", "linear", "log", "log2", "log_softmax",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp", "lt", "matmul", "max",
    "maximum", "mean", "min", "minimum", "moveaxis", "movedim", "mul", "multiply", "narrow", "ne",
    "neg", "negative", "normalize", "not_equal",
    "one_hot", "pad", "permute", "pow", "power", "reciprocal",
    "relu", "remainder", "reshape", "rms_norm", "rope", "round", "rsqrt",
    "scaled_dot_product_attention", "sigmoid", "sign", "silu", "sin", "softmax", "sqrt", "square",
    "squeeze", "stack", "std", "sub", "subtract", "sum", "swapaxes", "take", "take_along_dim",
    "tanh", "transpose", "trunc", "unfold", "unsqueeze", "var", "where",
]
