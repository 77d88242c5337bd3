"""The Tensor functions, all recorded over primops: PyTorch's names first, NumPy's beside them."""

from tegg.ops.compare import (eq, ge, gt, isnan, le, logical_and, logical_not, logical_or,
                              logical_xor, lt, ne, where)
from tegg.ops.elementwise import (abs, add, cast, ceil, clamp, contiguous, cos, div, erf, exp, exp2,
                                  floor, floor_divide, fmod, gelu, log, log2, maximum, minimum, mul,
                                  neg, pow, reciprocal, relu, remainder, round, rsqrt, sigmoid, sign,
                                  silu, sin, sqrt, square, sub, tanh, trunc)
from tegg.ops.index import embedding, gather, index_select, take, take_along_dim
from tegg.ops.linalg import dot, linear, matmul
from tegg.ops.movement import (broadcast_to, cat, concat, expand, flatten, flip, movedim, narrow,
                               pad, permute, reshape, squeeze, stack, transpose, unfold, unsqueeze)
from tegg.ops.norm import layer_norm, normalize, rms_norm, rope
from tegg.ops.reduce import all, amax, amin, any, logsumexp, max, mean, min, std, sum, var
from tegg.ops.attention import log_softmax, scaled_dot_product_attention, softmax

clip, concatenate, moveaxis, swapaxes, subtract, multiply, divide, power, negative = (
    clamp, cat, movedim, transpose, sub, mul, div, pow, neg)
equal, not_equal, less, less_equal, greater, greater_equal = eq, ne, lt, le, gt, ge

__all__ = [name for name in dir() if not name.startswith("_") and callable(globals()[name])]
