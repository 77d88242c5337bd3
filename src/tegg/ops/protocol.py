"""NumPy's functions given a Tensor: the operators record, all others say what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from tegg.errors import ArgumentError
from tegg.ops.public import functions, nearest
from tegg.ops.value import fail

# What NumPy makes of ``array + tensor``, and so of np.add(array, tensor) too.
OPERATORS = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div",
    np.floor_divide: "floor_divide", np.remainder: "remainder", np.power: "pow",
    np.matmul: "matmul", np.less: "lt", np.less_equal: "le", np.greater: "gt",
    np.greater_equal: "ge", np.equal: "eq", np.not_equal: "ne", np.bitwise_and: "logical_and",
    np.bitwise_or: "logical_or", np.bitwise_xor: "logical_xor",
}


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple, options: dict[str, Any]) -> Any:
    """``Tensor.__array_ufunc__``. Raises ArgumentError for what is no plain operator."""
    out = options.get("out")
    if out is not None:
        fail(ArgumentError, f"np.{ufunc.__name__}: a tensor has no value while it is recorded, so "
                            f"it cannot be stored in an array; write a = a op x, not a op= x")
    if ufunc in OPERATORS and method == "__call__" and not options:
        return functions()[OPERATORS[ufunc]](*inputs)
    refuse(ufunc.__name__ + ("" if method == "__call__" else f".{method}"))


def refuse(name: str) -> NoReturn:
    """A tensor was given to ``np.name``. Raises ArgumentError with what to write instead."""
    base = name.partition(".")[0]
    there = functions()
    remedy = (f"write tegg.{base}(...)" if base in there else
              "use the functions of tegg" + nearest(base, there))
    fail(ArgumentError, f"np.{name}: a tensor has no value while it is recorded, so NumPy cannot "
                        f"take it; {remedy}")
