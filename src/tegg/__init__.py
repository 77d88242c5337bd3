"""tegg: a pattern-rewriting tensor compiler on e-graphs."""

from tegg.dim import dim
from tegg.dtype import DType, bf16, bool_, dtype, f16, f32, f64, i8, i32, i64, u8
from tegg.errors import (ArgumentError, BackendError, CacheError, DTypeError, ExtractionError,
                         RuleError, ShapeError, TeggError, WeightsError)
from tegg.graph import Graph
from tegg.ops import *  # noqa: F403
from tegg.ops import __all__ as _functions
from tegg.tensor import Tensor, state
from tegg.trace import assume, same, trace

__version__ = "0.1.0"
__all__ = ["ArgumentError", "BackendError", "CacheError", "DType", "DTypeError", "ExtractionError",
           "Graph", "RuleError", "ShapeError", "TeggError", "Tensor", "WeightsError", "assume",
           "bf16", "bool_", "dim", "dtype", "f16", "f32", "f64", "i32", "i64", "i8", "same",
           "state", "trace", "u8", *_functions]
