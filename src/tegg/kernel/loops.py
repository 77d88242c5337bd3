"""The loop IR: where each value of a kernel is computed, kept and stored; printers spell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from tegg.dim import Dim
from tegg.dtype import DType
from tegg.kernel.domain import Write, spread
from tegg.kernel.index import Form, Var
from tegg.kernel.value import Val


@dataclass(frozen=True, slots=True)
class Strip:
    """``length`` consecutive values of a loop variable; ``var`` is the first of them."""

    var: Var
    length: int


@dataclass(frozen=True, slots=True)
class Array:
    """Scratch of one thread: one element per point of ``vars``, or a vector block of them.

    block: scalars per point; above 1 where a vector loop around it gives each point its lanes.
    strip: what it holds of the values of its only variable, where that is not all.
    """

    number: int
    dtype: DType
    vars: tuple[Var, ...]
    block: int = 1
    strip: Strip | None = None

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return (spread(self.vars) if self.strip is None else self.strip.length) * self.block


@dataclass(frozen=True, slots=True)
class Let:
    """A value is computed from its operands; a scan takes its term into its accumulator.
    ``fused``: the operand that is a product computed here, as one multiply-add. ``stored``: it is a
    conversion to 16 bits that stores make."""

    value: Val
    fused: Val | None = None
    stored: bool = False

    def needs(self) -> tuple[Val, ...]:
        """The values that must be there."""
        if self.fused is None:
            return self.value.args
        return tuple(a for a in self.value.args if a is not self.fused) + self.fused.args


@dataclass(frozen=True, slots=True)
class Fetch:
    """A value is read back from scratch."""

    value: Val
    array: Array


@dataclass(frozen=True, slots=True)
class Keep:
    """A value is written to scratch."""

    value: Val
    array: Array


@dataclass(frozen=True, slots=True)
class Turn:
    """A strip of a load that is contiguous in ``along`` goes to scratch, a vector for each of its
    values: lanes follow the vector loop around."""

    value: Val
    array: Array
    along: Var


@dataclass(frozen=True, slots=True)
class Start:
    """Accumulators of a reduction, set to its identity; of a scan, to what it starts from.

    partials: vector accumulators for a vector loop over one of its variables; 0 where there is
    none, and the accumulator is a scalar or follows the lanes of a vector loop around it.
    """

    value: Val
    partials: int


@dataclass(frozen=True, slots=True)
class Accumulate:
    """One term goes into the accumulators of a reduction. ``fused``: the term, if it is a product
    computed here, as one multiply-add."""

    value: Val
    term: Val
    fused: Val | None = None

    def needs(self) -> tuple[Val, ...]:
        """The values that must be there."""
        return (self.term,) if self.fused is None else self.fused.args


@dataclass(frozen=True, slots=True)
class Finish:
    """The accumulators become the value of the reduction."""

    value: Val
    partials: int


@dataclass(frozen=True, slots=True)
class Rest:
    """The accumulators of a reduction are put in scratch."""

    value: Val
    array: Array


@dataclass(frozen=True, slots=True)
class Resume:
    """They are taken from there again."""

    value: Val
    array: Array


class Comes(Enum):
    """How results come that are written past the caches."""

    TURNED = "TURNED"  # by squares of a transpose
    ALONG = "ALONG"    # along rows, as they are computed
    BURST = "BURST"    # along rows, a row at once that another pass has computed


@dataclass(frozen=True, slots=True)
class Past:
    """Past the caches, if they are too small for so many bytes."""

    comes: Comes
    bytes: Dim


@dataclass(frozen=True, slots=True)
class Store:
    """An element of a buffer is written. ``past``: perhaps past the caches.
    ``asked``: its place is asked for first: stores wait for one another, requests do not."""

    write: Write
    past: Past | None = None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Weave:
    """Vectors in scratch, one for each value of ``inside``, are written element by element of each
    in turn: ``inside`` is contiguous in the buffer, the vector loop around strides over it.
    """

    write: Write
    array: Array
    inside: Var


@dataclass(frozen=True, slots=True)
class Ahead:
    """Memory that will be of use is asked for; whether it is there decides nothing.

    use: it is read, or written, or lies in one of the runs that are read side by side. past: not
    where it is written past the caches.
    """

    slot: int
    form: Form
    dtype: DType
    use: Literal["read", "write", "run"]
    past: Past | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """``var`` from 0 to its extent.

    vector: lanes are consecutive values of ``var``; ``unroll`` vectors an iteration, then what is
    left, of which the last vector may end short; vector by vector where that is not known.
    shared: each thread does its share of the iterations. part: the variable of a loop around it,
    each iteration of which does its share. step: what ``var`` grows by. strip: only the values of
    this strip, whose variable belongs to a loop of such steps. grain: shares are multiples of it,
    and steps begin anew in each.
    """

    var: Var
    body: tuple[Stmt, ...]
    vector: bool = False
    unroll: int = 1
    shared: bool = False
    part: Var | None = None
    step: int = 1
    strip: Strip | None = None
    grain: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """A scope: values made inside are not known outside. ``once``: only thread 0 does it."""

    body: tuple[Stmt, ...]
    once: bool = False


Stmt = (Let | Fetch | Keep | Turn | Start | Accumulate | Finish | Rest | Resume | Store | Weave
        | Ahead | Loop | Block)


def walk(stmts: Sequence[Stmt], around: tuple[Loop, ...] = ()) -> Iterator[
        tuple[Stmt, tuple[Loop, ...]]]:
    """Every statement with the loops around it, outermost first."""
    for s in stmts:
        yield s, around
        if isinstance(s, Loop):
            yield from walk(s.body, (*around, s))
        elif isinstance(s, Block):
            yield from walk(s.body, around)


def divisible(stmts: Sequence[Stmt]) -> bool:
    """Whether many small shares cost no more than few large ones: loops that threads share stand
    outermost, and nothing beside them that each share would do again but single values. Of columns
    that are read in strips few would be narrow ones."""
    return all(s.once or divisible(s.body) if isinstance(s, Block) else
               s.shared and not s.grain if isinstance(s, Loop) else isinstance(s, (Let, Ahead))
               for s in stmts)


def arrays(stmts: Sequence[Stmt]) -> list[Array]:
    """The scratch arrays, by number."""
    found = {s.array.number: s.array for s, _ in walk(stmts)
             if isinstance(s, (Keep, Fetch, Turn, Rest, Resume, Weave))}
    return [found[n] for n in sorted(found)]


def writes(stmts: Sequence[Stmt]) -> list[Write]:
    """What is written to buffers."""
    return [s.write for s, _ in walk(stmts) if isinstance(s, Store | Weave)]


def needs(s: Stmt) -> tuple[Val, ...]:
    """The values that a statement takes, those inside of loops not counted."""
    if isinstance(s, Store):
        return s.write.needs()
    if isinstance(s, Keep):
        return (s.value,)
    if isinstance(s, Start):
        return s.value.args[1:] if s.value.op == "scan" else ()
    return s.needs() if isinstance(s, Let | Accumulate) else ()


def written_out(stmts: Sequence[Stmt]) -> frozenset[Var]:
    """The loops of which iterations add to different sums: printers write them out, and nothing is
    left of the tests."""
    sums = (s.value.attr.only for s, _ in walk(stmts) if isinstance(s, Accumulate))
    return frozenset(v for only in sums if only is not None for v in only.form.vars())


def vector_of(around: Sequence[Loop]) -> Loop | None:
    """The vector loop among the loops around a statement."""
    return next((loop for loop in around if loop.vector), None)


def verify(stmts: Sequence[Stmt]) -> None:
    """Assert that operands are there where they are used, and loops nest as printers expect."""
    _Verifier().block(stmts, (), frozenset(), frozenset())


class _Verifier:
    """Walks in program order; knows the values, arrays and accumulators that are there."""

    def __init__(self) -> None:
        self.written: set[int] = set()

    def block(self, stmts: Sequence[Stmt], around: tuple[Loop, ...], known: frozenset[int],
              open_: frozenset[int]) -> None:
        for s in stmts:
            if isinstance(s, Loop):
                self._loop(s, around, known, open_)
            elif isinstance(s, Block):
                self.block(s.body, around, known, open_)
            else:
                known, open_ = self._leaf(s, around, known, open_)

    def _loop(self, s: Loop, around: tuple[Loop, ...], known: frozenset[int],
              open_: frozenset[int]) -> None:
        assert s.var not in [a.var for a in around], f"{s.var} is bound twice"
        assert not s.vector or vector_of(around) is None, "a vector loop inside a vector loop"
        assert s.unroll == 1 or s.vector, "only vector loops are unrolled"
        assert not s.shared or not any(a.shared for a in around), "two loops share threads"
        assert s.part is None or not s.shared, f"{s.var} is shared twice"
        assert s.strip is None or any(a.var == s.strip.var and a.step == s.strip.length
                                      for a in around), f"{s.var} is a strip of no loop"
        assert s.part is None or any(a.var == s.part and not a.vector for a in around), \
            f"{s.var} is a part of no loop"
        self.block(s.body, (*around, s), known, open_)

    def _leaf(self, s: Stmt, around: tuple[Loop, ...], known: frozenset[int],
              open_: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
        scope = {a.var for a in around}

        def need(v: Val) -> None:
            assert v.op == "const" or v.id in known, f"{v} is used before it is computed"

        if isinstance(s, (Let, Fetch, Start, Finish)):
            bound = s.value.attr.vars if isinstance(s, Start) and s.value.op == "scan" else ()
            assert s.value.deps - set(bound) <= scope, f"{s.value} stands outside of its loops"
        if isinstance(s, Let):
            assert s.value.op != "red", f"{s.value} needs a loop"
            if s.value.op == "scan":
                assert s.value.id in open_, f"{s.value} has no accumulator"
                assert around[-1].var == s.value.attr.vars[-1], f"{s.value} is not innermost"
            for a in s.needs():
                need(a)
            return known | {s.value.id}, open_
        if isinstance(s, Resume):
            assert s.array.number in self.written, f"array {s.array.number} is read unwritten"
            return known, open_ | {s.value.id}
        if isinstance(s, Rest):
            assert s.value.id in open_, f"{s.value} has no accumulator"
            self.written.add(s.array.number)
            return known, open_
        if isinstance(s, Fetch):
            assert s.array.number in self.written, f"array {s.array.number} is read unwritten"
            return known | {s.value.id}, open_
        if isinstance(s, Keep):
            need(s.value)
            self.written.add(s.array.number)
        elif isinstance(s, Turn):
            assert s.value.deps <= scope | {s.along}, f"{s.value} stands outside of its loops"
            assert vector_of(around) is not None, f"{s.value} is turned without lanes"
            self.written.add(s.array.number)
        elif isinstance(s, Start):
            for a in s.value.args[1:] if s.value.op == "scan" else ():
                need(a)
            return known, open_ | {s.value.id}
        elif isinstance(s, Accumulate):
            for a in s.needs():
                need(a)
            assert s.value.id in open_, f"{s.value} has no accumulator"
            assert scope >= s.value.deps, f"{s.value} accumulates outside of its loops"
            lanes, only = vector_of(around), s.value.attr.only
            assert lanes is None or only is None or lanes.var not in only.form.vars(), (
                f"{s.value} counts lane by lane")
        elif isinstance(s, Finish):
            assert s.value.id in open_, f"{s.value} has no accumulator"
            return known | {s.value.id}, open_ - {s.value.id}
        elif isinstance(s, Store):
            for v in s.write.needs():
                need(v)
            mine = {a.var for a in around if a.step == 1}
            assert mine == set(s.write.vars), f"{s.write} stands in the wrong loops"
        elif isinstance(s, Weave):
            assert s.array.number in self.written, f"array {s.array.number} is read unwritten"
            assert scope | {s.inside} == set(s.write.vars), f"{s.write} stands in the wrong loops"
            assert vector_of(around) is not None, f"{s.write} is woven without lanes"
        return known, open_


@dataclass(frozen=True, slots=True)
class Function:
    """One function of a kernel. ``buffers``: slot -> dtype, of those it touches. ``lined``: slot ->
    bytes of a copy, of those that are better read where they begin with a cache line; of halves it
    is float32."""

    name: str
    body: tuple[Stmt, ...]
    buffers: Mapping[int, DType]
    symbols: tuple[str, ...]
    lined: Mapping[int, int] = field(default_factory=dict)
