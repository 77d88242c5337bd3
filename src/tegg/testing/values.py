"""Values for drawn graphs: as adversarial as the class of a rule admits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from tegg.bits import value_of
from tegg.dim import evaluate as size_of
from tegg.dtype import DType
from tegg.ir.graph import Graph, Node
from tegg.rewrite.rulefile import Rule
from tegg.rewrite.ruleheader import Header
from tegg.testing.instance import Instance
from tegg.testing.sizes import bindings
from tegg.testing.terms import constants

SPECIALS = (0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, 6e4)
MEETING = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)  # few, so that operands are equal now and then
WIDE = 0.2  # of integers are anywhere in their dtype, or at its ends


@dataclass(frozen=True, slots=True)
class Run:
    """Values of a drawn graph: a size per symbol, and an array per input slot.

    meeting: whether floats are few numbers, equal ones and those at which a rule's constants stand
    among them: there laws of the reals have their steps, and their poles.
    """

    sizes: Mapping[str, int]
    arrays: Mapping[int, np.ndarray]
    meeting: bool = False

    def shape(self, n: Node) -> tuple[int, ...]:
        """The shape of a node at these sizes."""
        return tuple(size_of(d, self.sizes) for d in n.shape)


def draw_runs(made: Instance, header: Header) -> tuple[Run, ...]:
    """Values for an instance, as adversarial as the class of its rule admits; for symbolic dims at
    several sizes, among them some that coincide."""
    draw = _Draw(made, header)
    sizes = bindings(made.symbols, made.rng)
    runs = [draw.run(at) for at in sizes]
    if header.kind in ("reals", "rounds"):
        runs.append(draw.run(made.rng.choice(sizes), meeting=True))
    return tuple(runs)


class _Draw:
    """Draws the inputs of one instance."""

    def __init__(self, made: Instance, header: Header) -> None:
        self.made, self.rng = made, made.rng
        self.special, self.large = header.kind in ("bitwise", "facts"), header.kind == "rounds"
        self.near = beside(made.constants)

    def run(self, sizes: Mapping[str, int], meeting: bool = False) -> Run:
        return Run(sizes, {n.attrs[0]: self.array(n, domain, sizes, meeting)
                           for n, domain in self.made.inputs}, meeting)

    def array(self, n: Node, domain: str, sizes: Mapping[str, int], meeting: bool) -> np.ndarray:
        if any(a is n and d == "index" for m in self.made.graph.nodes
               for a, d in zip(m.args, m.op.domains)):
            domain = "index"
        shape = tuple(size_of(d, sizes) for d in n.shape)
        pool = (*MEETING, *self.near) if meeting else SPECIALS + self.near if self.special else ()
        array = draw_array(shape, n.dtype, domain, self.special, self.rng, pool, meeting)
        if (self.large and not meeting and n.dtype.is_float and n.dtype.itemsize > 2
                and self.rng.random() < 0.5):
            array *= (1e4 if domain == "f16" else 1e6)  # to where float16 ends, or beyond
        return array


def numbers(rule: Rule, graph: Graph) -> tuple[float, ...]:
    """The finite numbers that a rule names, or that stand in a graph of its left side."""
    written = [float(str(c.items[1])) for part in (*rule.query, *rule.actions)
               for c in constants(part) if str(c.items[1]) not in ("true", "false")]
    there = [float(value_of(n.attrs[2], n.dtype)) for n in graph.nodes if n.op.name == "Full"]
    return tuple(dict.fromkeys(v for v in (*written, *there) if np.isfinite(v)))


def beside(constants: Sequence[float]) -> tuple[float, ...]:
    """Constants of a rule, and numbers on both sides of each."""
    return tuple(dict.fromkeys(v for c in constants for v in (c, c - 1, c + 1, 2 * c, -c)))


def draw_array(shape: tuple, dtype: DType, domain: str, special: bool, rng: Random,
               pool: Sequence[float] = (), meeting: bool = False) -> np.ndarray:
    """An array of a shape and dtype, from a domain of the op table. pool: numbers that matter, of
    which half of the floats are drawn, or all where they shall be ``meeting``, and some integers.
    """
    count = int(np.prod(shape))
    values: list[float]
    if dtype.kind == "bool":
        values = [domain == "positive" or rng.random() < 0.5 for _ in range(count)]
    elif dtype.kind == "int":
        values = [_integer(dtype, domain, pool, rng) for _ in range(count)]
        return np.asarray(values, dtype.numpy).reshape(shape)
    elif domain == "positive":
        least = float(np.nextafter(dtype.numpy.type(0), dtype.numpy.type(1)))
        with np.errstate(over="ignore"):
            good = [v for v in pool if 0 < float(dtype.numpy.type(v)) < np.inf]
        some = [least, np.inf, *good] if special else good if meeting else []
        values = [rng.choice(some) if some and (meeting or rng.random() < 0.6)
                  else rng.uniform(0.1, 4.0) for _ in range(count)]
    elif meeting:
        values = [rng.choice(pool) for _ in range(count)]
    else:
        values = [rng.choice(pool) if special and rng.random() < 0.5 else rng.uniform(-4, 4)
                  for _ in range(count)]
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(dtype.numpy).reshape(shape)


def _integer(dtype: DType, domain: str, pool: Sequence[float], rng: Random) -> int:
    """A small integer, most of the time; else one at an end of its dtype, anywhere in it, or one
    that a rule's constants make interesting."""
    info = np.iinfo(dtype.numpy)
    if domain == "any" and rng.random() < WIDE:
        whole = [int(v) for v in pool if np.isfinite(v) and v == int(v)
                 and info.min <= v <= info.max]
        return rng.choice((info.min, info.max, rng.randint(info.min, info.max),
                           *rng.sample(whole, min(2, len(whole)))))
    low = 1 if domain == "positive" else 0 if dtype.name == "u8" or domain == "index" else -3
    return rng.randrange(low, 4)
