"""Every row of an op table on a target, in every dtype, with the values that break things."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tegg.dtype import DTYPES, DType, bf16, bool_, f16, f32
from tegg.errors import LoweringError, TeggError
from tegg.ir.classes import Fragment
from tegg.ir.graph import Graph, Node
from tegg.ir.op import Op, OpTable
from tegg.ir.oracle import evaluate
from tegg.planning.target import Target
from tegg.testing.kernels import Kernels
from tegg.testing.property import HealthCheck, Phase, given, seed as seeded, settings, st
from tegg.testing.strategies import accepted, operand_dtypes, row_calls
from tegg.testing.tolerance import close, wrong

N = 75  # elements: whole vectors of any width, and a tail
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 100.0, -100.0, np.inf, -np.inf, np.nan)
DRAWN = ("reduce", "scan", "sort", "composite")
Drawn = tuple[list[np.ndarray], tuple]  # operands and attributes

# Fused steps, and polynomials: a few units in the last place beside what the row itself allows.
LOOSE = {"Sin": 4.0, "Cos": 4.0}
# 1 + erf cancels: these are good beside their operand.
BESIDE = ("Gelu", "GeluTanh", "NearGelu", "NearGeluTanh")


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
    """Casts from a dtype to every other, of values in range of all of them, and float32 held as
    halves."""
    given_ = edges(source, "any", seed)
    if source.is_float:
        given_ = np.abs(np.clip(np.where(np.isfinite(given_), given_, 7), -100, 100)).astype(
            source.numpy)
    rows = [("Cast", to) for to in DTYPES.values() if to is not source]
    rows += [("Held", to) for to in (f16, bf16) if source is f32]
    for name, to in rows:
        if target.unsupported(table[name], to) is None:
            graph = Graph(table)
            x = graph.input("x", (N,), source)
            yield Case(table[name], source, graph, graph.op(name, x, to), {0: given_})


def check_elementwise(target: Target, table: OpTable, dtype: DType, seed: int,
                      only: Collection[str] = ()) -> set[str]:
    """Check every elementwise row and cast of a dtype in one build, or ``only`` some rows. Gives
    the names of the rows.

    Raises AssertionError that names the row, and an element with its operands.
    """
    cases = [c for c in (*elementwise_cases(table, target, dtype, seed),
                         *cast_cases(table, target, dtype, seed)) if not only or c.op.name in only]
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
def check_drawn(target: Target, table: OpTable, dtype: DType, examples: int, seed: int,
                calls: Mapping[str, st.SearchStrategy]) -> set[str]:
    """Check the rows along axes of a dtype on drawn operands, a build for each example. Gives the
    names of those that the target takes.

    ``calls``: row -> strategy of ``(operands, attributes)``. Raises AssertionError with the
    smallest call of a row that is wrong.
    """
    rows = [op for op in table.values() if (op.kind in DRAWN or op.name in calls)
            and dtype is not bool_ and accepted(op, dtype)]
    drawn = [calls.get(op.name, row_calls(op, dtype)) for op in rows]
    ran: set[str] = set()
    found: list[tuple[Case, str]] = []

    @settings(max_examples=examples, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))
    @seeded(seed)
    @given(st.tuples(*drawn))
    def run(made: tuple[Drawn, ...]) -> None:
        cases = [c for op, call in zip(rows, made)
                 if (c := _case(target, table, op, dtype, call)) is not None]
        ran.update(c.op.name for c in cases)
        if not found and (bad := _first_wrong(target, cases)) is not None:
            found.append(bad)

    if rows:
        run()
    for case, why in found:
        _smallest(target, table, case, drawn[rows.index(case.op)], examples * 10)
        raise AssertionError(why)
    return ran


def _case(target: Target, table: OpTable, op: Op, dtype: DType, call: Drawn) -> Case | None:
    """The case of a drawn call; None for one that the row or the target refuses."""
    operands, attrs = call
    graph = Graph(table)
    nodes = [graph.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(operands)]
    try:
        node = graph.op(op.name, *nodes, *attrs)
    except TeggError:
        return None
    if target.unsupported(op, node.dtype) is not None:
        return None
    case = Case(op, dtype, graph, node, dict(enumerate(operands)))
    try:
        target.lower(case.fragment, "k", frozenset())
    except LoweringError:
        return None
    return case


def _first_wrong(target: Target, cases: Sequence[Case]) -> tuple[Case, str] | None:
    if not cases:
        return None
    got = Kernels(target, [c.fragment for c in cases]).run([c.arrays for c in cases])
    for case, (result,) in zip(cases, got):
        (want,) = evaluate([case.node], case.arrays)
        why = close(result, want, case.node.dtype, case.op.tolerance)
        if why is not None:
            operands = ", ".join(str(a.tolist()) for a in case.arrays.values())
            name = f"{case.op.name}{case.node.attrs} of {case.dtype.name}"
            return case, f"{name} on {operands}: {why}"
    return None


def _smallest(target: Target, table: OpTable, found: Case, calls: st.SearchStrategy,
              examples: int) -> None:
    """Look for a smaller call of one row that is wrong, and raise it."""
    @settings(max_examples=examples, deadline=None, database=None)
    @given(call=calls)
    def run(call: Drawn) -> None:
        case = _case(target, table, found.op, found.dtype, call)
        bad = None if case is None else _first_wrong(target, [case])
        assert bad is None, bad[1]

    run()
