"""Every row of an op table on a target, in every dtype, with the values that break things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tegg.dtype import DTYPES, DType, bool_
from tegg.errors import DTypeError, LoweringError, TeggError
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph, Node
from tegg.ir.op import Op, OpTable
from tegg.ir.oracle import evaluate
from tegg.planning.target import Target
from tegg.testing.kernels import Kernels
from tegg.testing.property import assume, given, settings, st
from tegg.testing.strategies import accepted, operand_dtypes, row_calls
from tegg.testing.tolerance import close, wrong

N = 75  # elements: whole vectors of any width, and a tail
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 100.0, -100.0, np.inf, -np.inf, np.nan)
DRAWN = ("reduce", "composite", "kernel")
Drawn = tuple[list[np.ndarray], tuple]  # operands and attributes

# Fused steps, and polynomials: a few units in the last place beside what the row itself allows.
LOOSE = {"Sin": 4.0, "Cos": 4.0}
# 1 + erf cancels: these are good beside their operand.
BESIDE = ("Gelu", "GeluTanh")


@dataclass(frozen=True, slots=True)
class Case:
    """One row on drawn operands."""

    op: Op
    dtype: DType
    graph: Graph
    node: Node
    arrays: Mapping[int, np.ndarray]

    @property
    def fragment(self) -> Fragment:
        return Fragment(self.graph, (self.node,), ())


def edges(dtype: DType, domain: str, seed: int, count: int = N) -> np.ndarray:
    """Special values in an order that depends on the seed, and random ones."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        x = np.concatenate([np.array(SPECIAL), rng.standard_normal(count - len(SPECIAL)) * 4])
        x = np.abs(x) if domain == "positive" else x
        return rng.permutation(x).astype(dtype.numpy)
    if dtype.kind == "bool":
        return rng.integers(0, 2, count).astype(bool)
    info = np.iinfo(dtype.numpy)
    x = rng.integers(max(info.min, -200), min(info.max, 200), count).astype(np.int64)
    x[:6] = 0, 1, info.max, info.min, max(info.min, -1), 2
    return rng.permutation(x).astype(dtype.numpy)


def elementwise_cases(table: OpTable, target: Target, dtype: DType, seed: int) -> Iterator[Case]:
    """Every elementwise row that takes the dtype: on a vector, and on scalars."""
    for op in table.values():
        if op.kind != "elementwise" or op.attrs or not accepted(op, dtype):
            continue
        kinds = operand_dtypes(op, dtype)
        if target.unsupported(op, op.dtype(kinds, ())) is not None:
            continue
        for count in (N, None):
            graph = Graph(table)
            arrays = {i: edges(d, domain, seed + i) if count else edges(d, domain, seed + i)[7]
                      for i, (d, domain) in enumerate(zip(kinds, op.domains))}
            shape = (count,) if count else ()
            nodes = [graph.input(f"x{i}", shape, d) for i, d in enumerate(kinds)]
            yield Case(op, dtype, graph, graph.op(op.name, *nodes), arrays)


def cast_cases(table: OpTable, target: Target, source: DType, seed: int) -> Iterator[Case]:
    """Casts from a dtype to every other, of values in range of all of them."""
    given_ = edges(source, "any", seed)
    if source.is_float:
        given_ = np.abs(np.clip(np.where(np.isfinite(given_), given_, 7), -100, 100)).astype(
            source.numpy)
    for to in DTYPES.values():
        if to is not source and target.unsupported(table["Cast"], to) is None:
            graph = Graph(table)
            x = graph.input("x", (N,), source)
            yield Case(table["Cast"], source, graph, graph.op("Cast", x, to), {0: given_})


def check_elementwise(target: Target, table: OpTable, dtype: DType, seed: int) -> set[str]:
    """Check every elementwise row and cast of a dtype in one build. Gives the names of the rows.

    Raises AssertionError that names the row, and an element with its operands.
    """
    cases = [*elementwise_cases(table, target, dtype, seed),
             *cast_cases(table, target, dtype, seed)]
    if not cases:
        return set()
    got = Kernels(target, [c.fragment for c in cases]).run([c.arrays for c in cases])
    for case, (result,) in zip(cases, got):
        with np.errstate(all="ignore"):
            (want,) = evaluate([case.node], case.arrays)
            first = np.asarray(case.arrays[0]).astype(np.float64)
            beside = np.abs(np.nan_to_num(first, posinf=0, neginf=0))
        slack = 8 * case.op.tolerance * LOOSE.get(case.op.name, 1.0)
        bad = wrong(result, want, case.node.dtype, slack,
                    beside if case.op.name in BESIDE else 0.0)
        assert not np.any(bad), _element(case, result, want, bad)
    return {c.op.name for c in cases}


def _element(case: Case, got: np.ndarray, want: np.ndarray, bad: np.ndarray) -> str:
    at = tuple(np.argwhere(bad)[0])
    operands = ", ".join(repr(np.asarray(a)[at].item()) for a in case.arrays.values())
    return (f"{case.op.name}({operands}) of {case.dtype.name} gives {got[at].item()!r} for "
            f"{want[at].item()!r} ({int(np.sum(bad))} of {bad.size} elements differ)")


# ---- rows along axes, drawn
def check_drawn(target: Target, table: OpTable, op: Op, dtype: DType, examples: int,
                calls: st.SearchStrategy | None = None) -> bool:
    """Check a row on drawn operands. ``calls``: draws ``(operands, attributes)``. Whether any call
    could be lowered.

    Raises AssertionError with the smallest call that is wrong.
    """
    ran = [False]

    @settings(max_examples=examples, deadline=None, database=None)
    @given(call=row_calls(op, dtype) if calls is None else calls)
    def run(call: Drawn) -> None:
        case = _case(op, dtype, table, call)
        assume(case is not None)
        assert case is not None
        if target.unsupported(op, case.node.dtype) is not None:
            return
        try:
            ((got,),) = Kernels(target, [case.fragment]).run([case.arrays])
        except LoweringError:
            return
        ran[0] = True
        (want,) = evaluate([case.node], case.arrays)
        why = close(got, want, case.node.dtype, op.tolerance)
        assert why is None, (f"{op.name}{call[1]} of {dtype.name} on "
                             f"{', '.join(str(a.tolist()) for a in call[0])}: {why}")

    run()
    return ran[0]


def _case(op: Op, dtype: DType, table: OpTable, call: Drawn) -> Case | None:
    """The case of a drawn call; None for one that the row refuses."""
    operands, attrs = call
    graph = Graph(table)
    nodes = [graph.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(operands)]
    try:
        return Case(op, dtype, graph, graph.op(op.name, *nodes, *attrs), dict(enumerate(operands)))
    except TeggError:
        return None


def drawn_rows(table: OpTable, known: Sequence[str]) -> list[tuple[Op, DType]]:
    """Rows along axes with the dtypes that they take. ``known``: rows whose calls are given."""
    return [(op, d) for op in table.values() if op.kind in DRAWN or op.name in known
            for d in DTYPES.values() if d is not bool_ and _takes(op, d)]


def _takes(op: Op, dtype: DType) -> bool:
    try:
        return accepted(op, dtype)
    except DTypeError:
        return False


Progress = Callable[[str], None]
