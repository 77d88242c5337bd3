"""Both sides of a law as terms of the solver z3: equal for every value, at given shapes.

Laws of the reals are terms over real numbers, with functions of which nothing is assumed.
Bitwise laws are terms of IEEE 754 floats and of machine integers, of few bits: what holds there
of sums, products, signs and comparisons holds at every width, since no rule reads the width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from tegg.dim import evaluate as size_of
from tegg.dtype import DType
from tegg.errors import ArgumentError
from tegg.ir.graph import Graph, Node
from tegg.testing.exact import Evaluator, Undecided, simplest

TIMEOUT_MS = 8000  # of one question to the solver, on a busy machine too
BITS = {False: 8, True: 9}  # of unsigned and signed integers: comparisons tell them by it


@lru_cache(maxsize=1)
def solver() -> ModuleType:
    """The module z3. Raises ArgumentError where it is not installed."""
    try:
        import z3
    except ImportError:
        raise ArgumentError("proofs need the solver z3: pip install 'tegg[verify]'") from None
    return z3


class Reals:
    """Real numbers, integers without an end, and truth values."""

    def __init__(self) -> None:
        z = self.z = solver()
        self.assumed: list[Any] = []  # what operands must not be: divisors are not 0
        self.op: Mapping[str, Callable] = {
            "Add": lambda a, b: z.Or(a, b) if z.is_bool(a) else a + b,
            "Mul": lambda a, b: z.And(a, b) if z.is_bool(a) else a * b,
            "Sum": lambda a, b: z.Or(a, b) if z.is_bool(a) else a + b,
            "Sub": lambda a, b: a - b, "Neg": lambda a: -a, "Div": self.divide,
            "Recip": lambda a: self.divide(z.RealVal(1), a), "LessThan": lambda a, b: a < b,
            "LessEqual": lambda a, b: a <= b, "Equal": lambda a, b: a == b, "Not": z.Not,
            "Maximum": lambda a, b: z.If(a < b, b, a), "Minimum": lambda a, b: z.If(b < a, b, a),
            "Relu": lambda a: z.If(a < 0, 0, a), "Abs": lambda a: z.If(a < 0, -a, a),
            "Contiguous": lambda a: a, "Select": z.If}

    def divide(self, a: Any, b: Any) -> Any:
        self.assumed.append(b != 0)
        return a / b

    def input(self, name: str, dtype: DType) -> Any:
        """An unknown scalar."""
        z = self.z
        made = {"bool": z.Bool, "int": z.Int}.get(dtype.kind, z.Real)
        return made(name)

    def full(self, value: float, dtype: DType) -> Any:
        z = self.z
        if dtype.kind == "bool":
            return z.BoolVal(bool(value))
        return z.IntVal(int(value)) if dtype.kind == "int" else z.RealVal(simplest(value, dtype))

    def free(self, name: str, x: Any) -> Any:
        z = self.z
        if name == "Log2" and z.is_app(x) and x.decl().name() == "Exp2":
            return x.arg(0)
        out = z.Function(name, z.RealSort(), z.RealSort())(x)
        if name == "Sqrt":
            self.assumed.append(z.Implies(x >= 0, z.And(out >= 0, out * out == x)))
        return out


class Machine:
    """Floats of IEEE 754 with all their specials, integers that wrap around, truth values."""

    def __init__(self) -> None:
        z = self.z = solver()
        self.assumed: list[Any] = []
        self.sort, self.rounding = z.Float16(), z.RNE()

        def by(floats: Callable, ints: Callable, bools: Callable | None = None) -> Callable:
            def op(*args: Any) -> Any:
                f = (floats if z.is_fp(args[0]) else ints if z.is_bv(args[0]) else bools)
                if f is None:
                    raise Undecided("an op of bool")
                return f(*args)

            return op

        r = self.rounding
        one = z.FPVal(1, self.sort)
        self.op: Mapping[str, Callable] = {
            "Add": by(lambda a, b: z.fpAdd(r, a, b), lambda a, b: a + b, z.Or),
            "Mul": by(lambda a, b: z.fpMul(r, a, b), lambda a, b: a * b, z.And),
            "Sub": by(lambda a, b: z.fpSub(r, a, b), lambda a, b: a - b),
            "Neg": by(z.fpNeg, lambda a: -a), "Div": by(lambda a, b: z.fpDiv(r, a, b), _none),
            "Recip": by(lambda a: z.fpDiv(r, one, a), _none),
            "LessThan": by(z.fpLT, self.less, lambda a, b: z.And(z.Not(a), b)),
            "LessEqual": by(z.fpLEQ, lambda a, b: z.Not(self.less(b, a)), z.Implies),
            "Equal": by(z.fpEQ, lambda a, b: a == b, lambda a, b: a == b), "Not": z.Not,
            "Contiguous": lambda a: a, "Select": z.If}

    def input(self, name: str, dtype: DType) -> Any:
        """An unknown scalar."""
        z = self.z
        if dtype.kind == "bool":
            return z.Bool(name)
        if dtype.kind == "int":
            return z.BitVec(name, BITS[dtype.name != "u8"])
        return z.FP(name, self.sort)

    def less(self, a: Any, b: Any) -> Any:
        """Of integers."""
        return self.z.ULT(a, b) if a.size() == BITS[False] else a < b

    def full(self, value: float, dtype: DType) -> Any:
        z = self.z
        if dtype.kind == "bool":
            return z.BoolVal(bool(value))
        if dtype.kind == "int":
            return z.BitVecVal(int(value), BITS[dtype.name != "u8"])
        if not float(np.float16(value)) == value:
            raise Undecided("a constant of more bits")
        return z.FPVal(float(value), self.sort)

    def free(self, name: str, x: Any) -> Any:
        z = self.z
        return z.Function(name, self.sort, self.sort)(x)


def _none(*args: Any) -> Any:
    raise Undecided("an op of integers")


def proven(graph: Graph, a: Node, b: Node, inputs: Iterable[Node], kind: str,
           sizes: Mapping[str, int] | None = None) -> bool | None:
    """Whether two nodes are equal for every value of the inputs; None where that is not known.

    kind: the class of the rule set, ``"bitwise"`` (and ``"facts"``) or a class of the reals.
    sizes: of the symbols of their dims.
    """
    domain = Machine() if kind in ("bitwise", "facts") else Reals()
    z = domain.z
    try:
        arrays = {n.attrs[0]: _unknown(n, domain, sizes or {}) for n in inputs}
        run = Evaluator(graph, domain, arrays, sizes)
        pairs = list(zip(run.value(a).flat, run.value(b).flat))
    except Undecided:
        return None
    question = z.Solver()
    question.set("timeout", TIMEOUT_MS)
    question.add(*domain.assumed, z.Or([x != y for x, y in pairs]))
    answer = question.check()
    return True if answer == z.unsat else False if answer == z.sat else None


def _unknown(n: Node, domain: Reals | Machine, sizes: Mapping[str, int]) -> np.ndarray:
    out = np.empty(tuple(size_of(d, sizes) for d in n.shape), object)
    for i in np.ndindex(out.shape):
        out[i] = domain.input(f"x{n.attrs[0]}{list(i)}", n.dtype)
    return out
