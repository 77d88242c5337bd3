"""tegg: a pattern-rewriting tensor compiler on e-graphs."""

import importlib
from typing import TYPE_CHECKING, Any

from tegg import ops
from tegg.dim import dim
from tegg.dtype import DType, bf16, bool_, dtype, f16, f32, f64, i8, i32, i64, u8
from tegg.errors import (ArgumentError, BackendError, CacheError, DTypeError, ExtractionError,
                         LimitWarning, RuleError, ShapeError, TeggError, WeightsError)
from tegg.ir.graph import Graph
from tegg.ops import *
from tegg.ops.public import nearest
from tegg.tensor import Tensor, state
from tegg.trace import ArraySpec, assume, same, trace
from tegg.version import __version__
from tegg.watching import watch

if TYPE_CHECKING:
    from tegg import models as models, nn as nn
    from tegg.backends.cuda.compiler import Cuda as Cuda
    from tegg.backends.metal.compiler import Metal as Metal
    from tegg.ir.op import Op as Op
    from tegg.jit import compile as compile
    from tegg.rewrite.compiler import Compiler as Compiler, Generic as Generic
    from tegg.runtime.compiled import Compiled as Compiled
    from tegg.runtime.saving import load as load
    from tegg.weights import (load_safetensors as load_safetensors,
                              save_safetensors as save_safetensors)

# What needs more than NumPy, or is not always needed, is imported when it is first named.
_LAZY = {
    "Bf16": "tegg.rewrite.compiler",
    "compile": "tegg.jit",
    "Code": "tegg.ir.code",
    "Compiled": "tegg.runtime.compiled",
    "Compiler": "tegg.rewrite.compiler",
    "Cuda": "tegg.backends.cuda.compiler",
    "Fp16": "tegg.rewrite.compiler",
    "Generic": "tegg.rewrite.compiler",
    "Op": "tegg.ir.op",
    "Winograd": "tegg.rewrite.compiler",
    "extend": "",
    "load": "tegg.runtime.saving",
    "load_safetensors": "tegg.weights",
    "Metal": "tegg.backends.metal.compiler",
    "models": "",
    "nn": "",
    "testing": "",
    "Tf32": "tegg.rewrite.compiler",
    "save": "tegg.runtime.saving",
    "save_safetensors": "tegg.weights",
}

__all__ = [
    "ArgumentError",
    "ArraySpec",
    "BackendError",
    "Bf16",
    "CacheError",
    "Code",
    "Compiled",
    "Compiler",
    "Cuda",
    "DType",
    "DTypeError",
    "ExtractionError",
    "Fp16",
    "Generic",
    "Graph",
    "LimitWarning",
    "Metal",
    "Op",
    "RuleError",
    "ShapeError",
    "TeggError",
    "Tensor",
    "Tf32",
    "WeightsError",
    "Winograd",
    "__version__",
    "assume",
    "bf16",
    "bool_",
    "compile",
    "dim",
    "dtype",
    "extend",
    "f16",
    "f32",
    "f64",
    "i8",
    "i32",
    "i64",
    "load",
    "load_safetensors",
    "models",
    "nn",
    "same",
    "save_safetensors",
    "state",
    "testing",
    "trace",
    "u8",
    "watch",
]
__all__ += ops.__all__


if not TYPE_CHECKING:  # type checkers know every name
    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'tegg' has no attribute {name!r}{nearest(name, __all__)}")
        module = importlib.import_module(_LAZY[name] or f"tegg.{name}")
        value = globals()[name] = getattr(module, name) if _LAZY[name] else module
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
