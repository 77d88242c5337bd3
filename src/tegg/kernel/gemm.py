"""A product as libraries of devices make it: matrices by their strides, a batch of equal ones."""

from __future__ import annotations

from dataclasses import dataclass

from tegg.dim import Dim
from tegg.dtype import DType


@dataclass(frozen=True, slots=True)
class Matrix:
    """A batch of matrices in one buffer of a kernel; steps and ``first`` count elements."""

    slot: int
    dtype: DType
    first: Dim
    batch: Dim
    row: Dim
    column: Dim


@dataclass(frozen=True, slots=True)
class Gemm:
    """``out[b, i, j] = sum over l of x[b, i, l] y[b, l, j]``: ``batch`` products, m x k by k x n.

    kind: the dtype as which operands are multiplied. Columns of ``out`` are neighbours; of each
    operand rows or columns are.
    """

    kind: str
    batch: Dim
    m: Dim
    n: Dim
    k: Dim
    x: Matrix
    y: Matrix
    out: Matrix
