"""THE OP TABLE: one op is one row. Everything else that must know the ops is derived from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tegg.ir import cumulative as C
from tegg.ir import expand as X
from tegg.ir import meaning as M
from tegg.ir import ordering as R
from tegg import shape as S
from tegg.ir.code import Code
from tegg.dtype import DType, bool_, f32, i64, promote
from tegg.errors import DTypeError

# Kinds of attributes, their Python type in a Node, and whether a rule sees an i64 or a String:
#   slot axis int bits -> int (i64)    dtype -> DType    mode spec -> str
#   shape dims -> tuple of dims        perm ints -> tuple of ints        (all String)
ATTR_SORTS = MappingProxyType({
    "slot": "i64", "axis": "i64", "int": "i64", "bits": "i64", "dtype": "String", "mode": "String",
    "spec": "String", "shape": "String", "dims": "String", "perm": "String", "ints": "String"})


@dataclass(frozen=True, slots=True)
class Op:
    """One row: what an op takes, gives and means.

    kind: ``source``, ``movement``, ``elementwise``, ``reduce``, ``scan`` (cumulative along an
      axis), ``index`` (gather, scatter), ``sort``, ``composite`` (a named idiom over several
      axes), ``contract``, ``attention``, ``copy`` (the same values in another memory: a call of
      its own, see ``ir/places.py``) or ``kernel`` (a function of its own, on operands in
      memory).
    attrs: ``(name, kind)`` pairs; kinds as in ATTR_SORTS.
    shape: ``(shapes, attrs, facts) -> shape``; dtype: ``(dtypes, attrs) -> dtype``.
    meaning: ``(arrays, attrs, shape, dtype) -> array``, the NumPy meaning.
    expand: ``(builder, args, attrs) -> node`` over simpler ops; None for primops and helpers.
    domains: per operand what values tests draw: ``any positive nonzero index small``.
    cost: scalar operations per element of the result (of the operand, for reductions).
    template: of a device's template of ``Contract`` or ``Attention``: ``(attrs, extents) ->
      Execution``, what it executes (``ir/template.py``). Its meaning and its first attributes are
      those of the op that it is a form of.
    code: how languages write it, for rows that are not tegg's own (``ir/code.py``).
    tolerance: multiple of the dtype's own tolerance that a backend may differ by.
    staged: whether a kernel writes the result whole before anything can read it.
    alone: of a template, whether a kernel of its form makes no other product.
    in_order: of a template, whether the last axis of what it computes is last where that is stored.
    same_bits: whether it gives the bits of its expansion, up to the order of sums and products
      along an axis, which is free.
    """

    name: str
    kind: str
    arity: int
    shape: Callable
    dtype: Callable
    meaning: Callable | None
    attrs: tuple[tuple[str, str], ...] = ()
    expand: Callable | None = None
    domains: tuple[str, ...] = ()
    cost: float = 1.0
    tolerance: float = 1.0
    commutative: bool = False
    doc: str = ""
    staged: bool = False
    alone: bool = False
    in_order: bool = False
    same_bits: bool = False
    template: Callable | None = None
    code: tuple[Code, ...] = ()

    @property
    def named(self) -> bool:
        """Whether rules reach it, rather than the recorder."""
        return self.expand is not None

    def __hash__(self) -> int:
        """By name: rows are looked up all the time, and those of one name hardly ever differ."""
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


OpTable = Mapping[str, Op]

PRODUCTS = ("contract", "attention")  # kinds that devices have templates of

# Relative tolerance of one op per dtype: a few units in the last place (f16 2^-10, bf16 2^-7).
TOLERANCE = MappingProxyType({"f64": 1e-12, "f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2})


# ---- dtype rules
def _same(d: list[DType], attrs: tuple) -> DType:
    for other in d[1:]:
        if other is not d[0]:
            raise DTypeError(f"operands have dtypes {' and '.join(x.name for x in d)}; "
                             f"they must be equal ({promote(d[0], other).name} holds both)")
    return d[0]


def _floats(d: list[DType], attrs: tuple) -> DType:
    if not _same(d, attrs).is_float:
        raise DTypeError(f"needs a float dtype, not {d[0].name}; write x.cast('f32')")
    return d[0]


def _ints(d: list[DType], attrs: tuple) -> DType:
    if _same(d, attrs).kind != "int":
        raise DTypeError(f"needs an integer dtype, not {d[0].name}")
    return d[0]


def _numbers(d: list[DType], attrs: tuple) -> DType:
    if _same(d, attrs).kind == "bool":
        raise DTypeError("needs numbers, not bool; write x.cast('i32')")
    return d[0]


def _bools(d: list[DType], attrs: tuple) -> DType:
    if _same(d, attrs) is not bool_:
        raise DTypeError(f"needs bool, not {d[0].name}; write (x != 0)")
    return bool_


def _to_bool(d: list[DType], attrs: tuple) -> DType:
    _same(d, attrs)
    return bool_


def _given(d: list[DType], attrs: tuple) -> DType:
    return next(a for a in attrs if isinstance(a, DType))


def _narrowed(d: list[DType], attrs: tuple) -> DType:
    to = _given(d, attrs)
    if d[0] is not f32 or not to.is_float or to.itemsize != 2:
        raise DTypeError(f"holds f32 as f16 or bf16, not {d[0].name} as {to.name}; write a Cast")
    return to


def _select(d: list[DType], attrs: tuple) -> DType:
    if d[0] is not bool_:
        raise DTypeError(f"the condition is {d[0].name}, not bool; write (x != 0)")
    return _same(d[1:], attrs)


def _gather(d: list[DType], attrs: tuple) -> DType:
    _ints(d[1:2], attrs)
    return d[0]


def _scatter(d: list[DType], attrs: tuple) -> DType:
    _ints(d[1:2], attrs)
    return _same([d[0], d[2]], attrs)


def _first(d: list[DType], attrs: tuple) -> DType:
    return d[0]


def _index_of(d: list[DType], attrs: tuple) -> DType:
    return i64


def _unary(name, f, expand=None, cost=1.0, dtype=_floats, domain="any", tolerance=1.0, doc=""):
    return Op(name, "elementwise", 1, S.elementwise, dtype, M.elementwise(f), (), expand,
              (domain,), cost, tolerance, False, doc)


def _binary(name, f, expand=None, cost=1.0, dtype=_same, domains=("any", "any"), commutative=False,
            doc=""):
    return Op(name, "elementwise", 2, S.elementwise, dtype, M.elementwise(f), (), expand,
              domains, cost, 1.0, commutative, doc)


def _move(name, shape, attrs, meaning, doc):
    return Op(name, "movement", 1, shape, _first, meaning, attrs, None, ("any",), 0.0, doc=doc)


def _row(name, arity, attrs, meaning, expand, cost, shape=S.along, doc=""):
    return Op(name, "composite", arity, shape, _floats, meaning, attrs, expand,
              ("any",) * arity, cost, 8.0, False, doc)


def _scan(name, meaning, expand, doc, shape=S.along, dtype=_first, domain="any", cost=4.0):
    return Op(name, "scan", 1, shape, dtype, meaning, _AXIS, expand, (domain,), cost, 8.0, doc=doc,
              same_bits=True)


_AXIS = (("axis", "axis"),)
_AXIS_EPS = (("axis", "axis"), ("eps", "bits"))

_ROWS = (
    # ---- sources
    Op("Input", "source", 0, S.given, _given, None,
       (("slot", "slot"), ("dtype", "dtype"), ("shape", "shape")), doc="memory that was given"),
    Op("Full", "source", 0, S.given, _given, M.full,
       (("dtype", "dtype"), ("shape", "shape"), ("bits", "bits")), cost=0.0,
       doc="a constant of any shape"),
    Op("Size", "source", 0, lambda s, a, f: (), _given,
       lambda a, t, s, d: np.asarray(t[1][0], d.numpy),
       (("dtype", "dtype"), ("size", "dims")), cost=0.0, doc="the value of a symbolic dim"),
    Op("Iota", "source", 0, S.iota, _given, lambda a, t, s, d: np.arange(s[0], dtype=d.numpy),
       (("dtype", "dtype"), ("shape", "shape")), doc="0, 1, 2, ... along one axis"),
    # ---- the twelve primops
    _unary("Log2", np.log2, cost=10, domain="positive"),
    _unary("Exp2", np.exp2, cost=8, tolerance=2.0),
    _unary("Sin", np.sin, cost=12),
    _unary("Sqrt", np.sqrt, cost=4, domain="positive"),
    _unary("Recip", M.recip, cost=4, domain="nonzero"),
    _binary("Add", np.add, commutative=True, doc="bool: or"),
    _binary("Mul", np.multiply, commutative=True, doc="bool: and"),
    _binary("Mod", np.fmod, cost=8, dtype=_numbers, domains=("any", "nonzero"),
            doc="C fmod: the sign of the dividend; an integer modulo 0 is 0"),
    _binary("LessThan", np.less, dtype=_to_bool, doc="False where either is NaN"),
    Op("SumReduce", "reduce", 1, S.reduction, _first, M.sum_reduce, _AXIS, None, ("any",), 1.0,
       doc="sum along an axis, which stays with size 1; halves accumulate in float32; bool: any"),
    Op("MaxReduce", "reduce", 1, S.reduction, _first, M.max_reduce, _AXIS, None, ("any",), 1.0,
       doc="maximum along an axis, which stays with size 1; NaN propagates; empty: the lowest"),
    _unary("Contiguous", lambda x: x, dtype=_first, cost=0.0, doc="the same values, stored"),
    # ---- helpers: what the twelve cannot say
    Op("Cast", "elementwise", 1, S.elementwise, _given,
       lambda a, t, s, d: a[0].astype(d.numpy), (("dtype", "dtype"),), None, ("any",), 1.0,
       doc="to bool: != 0; float to int truncates, and is undefined out of range"),
    Op("Held", "elementwise", 1, S.elementwise, _narrowed,
       lambda a, t, s, d: a[0].astype(d.numpy), (("dtype", "dtype"),), None, ("any",), 0.0,
       doc="float32 as a half that a kernel need not round: it is rounded where it is stored"),
    _binary("IntDiv", M.int_div, cost=8, dtype=_ints, domains=("any", "nonzero"),
            doc="integer division towards zero; 0 where the divisor is 0"),
    Op("Select", "elementwise", 3, S.elementwise, _select,
       lambda a, t, s, d: np.where(*a), (), None, ("any", "any", "any"), 1.0),
    Op("Gather", "index", 2, S.gather, _gather, M.gather, _AXIS, None, ("any", "index"), 1.0,
       doc="x indexed along an axis; indices outside are clamped"),
    Op("Scatter", "index", 3, S.scatter, _scatter, M.scatter,
       (("axis", "axis"), ("mode", "mode")), None, ("any", "index", "any"), 1.0, staged=True,
       doc="base with rows along an axis replaced (last), added to (add) or maximised (max)"),
    # ---- movement
    _move("Reshape", S.reshape, (("shape", "shape"),), lambda a, t, s, d: a[0].reshape(s),
          "the same elements in row-major order"),
    _move("Permute", S.permute, (("perm", "perm"),), lambda a, t, s, d: a[0].transpose(t[0]),
          "axis i of the result is axis perm[i]"),
    _move("Expand", S.expand, (("shape", "shape"),), lambda a, t, s, d: np.broadcast_to(a[0], s),
          "axes of size 1 repeat"),
    _move("Slice", S.slice_, (("starts", "dims"), ("stops", "dims"), ("steps", "ints")), M.slice_,
          "a range of each axis; steps of at least 1"),
    _move("Pad", S.pad, (("low", "dims"), ("high", "dims"), ("fill", "bits")), M.pad,
          "a fill value around each axis"),
    _move("Flip", S.along, _AXIS, lambda a, t, s, d: np.flip(a[0], t[0]), "an axis reversed"),
    _move("Window", S.window,
          (("axis", "axis"), ("size", "int"), ("stride", "int"), ("dilation", "int")), M.window,
          "sliding windows: the axis becomes (positions, size)"),
    # ---- named elementwise ops
    _unary("Neg", np.negative, X.neg, dtype=_numbers),
    _binary("Sub", np.subtract, X.sub, dtype=_numbers),
    _binary("Div", np.divide, X.div, cost=4, dtype=_floats, domains=("any", "nonzero")),
    _unary("Exp", np.exp, X.exp, cost=8, tolerance=2.0),
    _unary("Log", np.log, X.log, cost=10, domain="positive"),
    _unary("Cos", np.cos, X.cos, cost=12),
    _unary("Rsqrt", lambda x: 1 / np.sqrt(x), X.rsqrt, cost=6, domain="positive", tolerance=2.0),
    _unary("Sigmoid", M.sigmoid, X.sigmoid, cost=12, tolerance=2.0),
    _unary("Tanh", np.tanh, X.tanh, cost=14, tolerance=2.0),
    _unary("Silu", lambda x: x * M.sigmoid(x), X.silu, cost=13, tolerance=2.0),
    _unary("Erf", M.erf, X.erf, cost=20, tolerance=2.0),
    _unary("Gelu", M.gelu, X.gelu, cost=23, tolerance=4.0),
    _unary("GeluTanh", M.gelu_tanh, X.gelu_tanh, cost=20, tolerance=4.0),
    _unary("Relu", lambda x: np.maximum(x, 0), X.relu, dtype=_numbers),
    _unary("Abs", np.abs, X.abs_, dtype=_numbers),
    _unary("Floor", np.floor, X.floor, cost=2),
    _binary("Maximum", np.maximum, X.maximum, commutative=True),
    _binary("Minimum", np.minimum, X.minimum, commutative=True),
    _binary("Equal", np.equal, X.equal, dtype=_to_bool, commutative=True),
    _binary("LessEqual", np.less_equal, X.less_equal, dtype=_to_bool),
    _unary("Not", np.logical_not, X.logical_not, dtype=_bools),
    # ---- along an axis: one pass, or a sort, for what the primops say in all pairs
    Op("ProdReduce", "reduce", 1, S.bounded_reduction, _first, C.prod_reduce, _AXIS,
       C.expand_prod_reduce, ("small",), 1.0, 8.0, same_bits=True,
       doc="product along an axis, which stays with size 1; in float64, halves in float32"),
    _scan("CumSum", C.cumsum, C.expand_cumsum, "sums so far; in float64, halves in float32"),
    _scan("CumProd", C.cumprod, C.expand_cumprod, "products so far; in float64, halves in float32",
          S.bounded, domain="small"),
    _scan("CumMax", C.cummax, C.expand_cummax, "maxima so far; NaN stays"),
    _scan("LogCumSumExp", C.logcumsumexp, C.expand_logcumsumexp, "logs of sums of exponentials "
          "so far", dtype=_floats, cost=80.0),
    Op("ArgSort", "sort", 1, S.argsort, _index_of, R.argsort,
       (("axis", "axis"), ("kept", "dims"), ("descending", "int")), R.expand_argsort, ("any",),
       60.0, staged=True, same_bits=True,
       doc="indices of the first elements in order: stable, NaN the largest"),
    Op("Sort", "sort", 1, S.argsort, _first, R.sort,
       (("axis", "axis"), ("kept", "dims"), ("descending", "int")), R.expand_sort, ("any",),
       20.0, staged=True, same_bits=True,
       doc="the first elements in order: those that ArgSort gives the places of"),
    Op("ScatterAlong", "index", 3, S.scatter_along, _scatter, R.scatter_along,
       (("axis", "axis"), ("mode", "mode")), R.expand_scatter_along, ("any", "index", "any"), 2.0,
       staged=True, same_bits=True,
       doc="Scatter with an index for each element of the update; modes as there"),
    # ---- named idioms over an axis
    _row("Mean", 1, _AXIS, M.mean, X.mean, 1, S.reduction),
    _row("Softmax", 1, _AXIS, M.softmax, X.softmax, 14),
    _row("LogSoftmax", 1, _AXIS, M.log_softmax, X.log_softmax, 14),
    _row("Normalize", 1, _AXIS_EPS, M.normalize, X.normalize, 7,
         doc="(x - mean) / sqrt(var + eps)"),
    _row("LayerNorm", 3, _AXIS_EPS, M.layer_norm, X.layer_norm, 9,
         doc="Normalize(x) * gain + bias, both already of x's shape"),
    _row("RmsNormalize", 1, _AXIS_EPS, M.rms_normalize, X.rms_normalize, 5,
         doc="x / sqrt(mean(x^2) + eps)"),
    _row("RmsNorm", 2, _AXIS_EPS, M.rms_norm, X.rms_norm, 6,
         doc="RmsNormalize(x) * gain, of x's shape"),
    _row("Rope", 3, (), M.rope, X.rope, 4, S.rope,
         doc="x cos + rotate_half(x) sin on the halves of the last axis"),
    Op("Contract", "contract", 2, S.given, _numbers, M.contract,
       (("spec", "spec"), ("shape", "shape")), X.contract, ("small", "small"), 2.0, 8.0,
       doc="a sum of products; which axes are batch, m, n and k is in the spec"),
    Op("Attention", "attention", 2, S.given, _floats, M.attention,
       (("spec", "spec"), ("shape", "shape")), X.attention, ("small", "small"), 2.0, 8.0,
       doc="Contract(Softmax(scores), values), along the one axis that its spec sums"),
)

OPS: OpTable = MappingProxyType({row.name: row for row in _ROWS})
PRIMOPS = ("Log2", "Exp2", "Sin", "Sqrt", "Recip", "Add", "Mul", "Mod", "LessThan", "SumReduce",
           "MaxReduce", "Contiguous")
