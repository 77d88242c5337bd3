"""The Tensor functions, all recorded over primops: PyTorch's names first, NumPy's beside them."""

from tegg.ops.compare import (eq, ge, gt, isnan, le, logical_and, logical_not, logical_or,
                              logical_xor, lt, ne, where)
from tegg.ops.elementwise import (abs, add, cast, ceil, clamp, contiguous, cos, div, erf, exp, exp2,
                                  floor, floor_divide, fmod, gelu, log, log2, maximum, minimum, mul,
                                  neg, pow, reciprocal, relu, remainder, round, rsqrt, sigmoid,
                                  sign, silu, sin, sqrt, square, sub, tanh, trunc)
from tegg.ops.adaptive_pool import (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d,
                                    adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d)
from tegg.ops.channel_norm import batch_norm, group_norm, instance_norm
from tegg.ops.conv import conv1d, conv2d, conv3d
from tegg.ops.conv_transpose import conv_transpose1d, conv_transpose2d, conv_transpose3d
from tegg.ops.index import embedding, gather, index_select, take, take_along_dim
from tegg.ops.linalg import dot, linear, matmul
from tegg.ops.movement import (broadcast_to, cat, concat, expand, flatten, flip, movedim, narrow,
                               pad, permute, reshape, squeeze, stack, transpose, unflatten, unfold,
                               unsqueeze)
from tegg.ops.norm import layer_norm, normalize, rms_norm, rope
from tegg.ops.pool import (avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d)
from tegg.ops.reduce import all, amax, amin, any, logsumexp, max, mean, min, std, sum, var
from tegg.ops.attention import log_softmax, scaled_dot_product_attention, softmax

clip, concatenate, moveaxis, swapaxes, subtract, multiply, divide, power, negative = (
    clamp, cat, movedim, transpose, sub, mul, div, pow, neg)
equal, not_equal, less, less_equal, greater, greater_equal = eq, ne, lt, le, gt, ge

__all__ = [
    "abs", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "add", "all", "amax",
    "amin", "any", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "broadcast_to", "cast",
    "cat", "ceil", "clamp", "clip", "concat", "concatenate", "contiguous", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cos", "div", "divide",
    "dot", "embedding", "eq", "equal", "erf", "exp", "exp2", "expand", "flatten", "flip", "floor",
    "floor_divide", "fmod", "gather", "ge", "gelu", "greater", "greater_equal", "group_norm", "gt",
    "index_select", "instance_norm", "isnan", "layer_norm", "le", "less", "less_equal", "linear",
    "log", "log2", "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logsumexp", "lt", "matmul", "max", "max_pool1d", "max_pool2d", "max_pool3d", "maximum", "mean",
    "min", "minimum", "moveaxis", "movedim", "mul", "multiply", "narrow", "ne", "neg", "negative",
    "normalize", "not_equal", "pad", "permute", "pow", "power", "reciprocal", "relu", "remainder",
    "reshape", "rms_norm", "rope", "round", "rsqrt", "scaled_dot_product_attention", "sigmoid",
    "sign", "silu", "sin", "softmax", "sqrt", "square", "squeeze", "stack", "std", "sub",
    "subtract", "sum", "swapaxes", "take", "take_along_dim", "tanh", "transpose", "trunc",
    "unflatten", "unfold", "unsqueeze", "var", "where",
]
