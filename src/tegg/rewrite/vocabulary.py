"""The words that rules may use, with their sorts: ops of the table, memory, facts, primitives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from tegg.ir.op import ATTR_SORTS, Op, OpTable
from tegg.rewrite.arithmetic import ARITHMETIC, COMPARISONS

SORTS = ("Tensor", "Buffer", "String", "i64")


@dataclass(frozen=True, slots=True)
class Word:
    """A function of the e-graph. kind: ``op memory fact relation function primitive``.

    commutative: the loader matches both orders of its operands. merge: of a declared function.
    """

    name: str
    args: tuple[str, ...]
    out: str
    kind: str
    commutative: bool = False
    merge: str = ""


MEMORY = (
    Word("Load", ("Buffer",), "Tensor", "memory"),
    Word("Store", ("Tensor",), "Buffer", "memory"),
    Word("StoreAs", ("String", "Tensor"), "Buffer", "memory"),
)
FACTS = (Word("shape", ("Tensor",), "String", "fact"), Word("dtype", ("Tensor",), "String", "fact"))
PRIMITIVES = (*ARITHMETIC, *COMPARISONS)


def vocabulary(table: OpTable, declared: Iterable[Word] = ()) -> Mapping[str, Word]:
    """Every word that a rule may use: the ops, memory, shape and dtype, and what was declared."""
    ops = (Word(op.name, ("Tensor",) * op.arity + tuple(ATTR_SORTS[k] for _, k in op.attrs),
                "Tensor", "op", op.commutative) for op in table.values())
    return MappingProxyType({w.name: w for w in (*ops, *MEMORY, *FACTS, *declared)})


def prelude(words: Mapping[str, Word]) -> list[str]:
    """The egglog declarations of a vocabulary, one command each.

    ``shape`` and ``dtype`` have no merge: two different facts about one class stop the run.
    """
    out = ["(sort Tensor)", "(sort Buffer)"]
    for w in words.values():
        args = f"({' '.join(w.args)})"
        if w.kind in ("op", "memory"):
            out.append(f"(constructor {w.name} {args} {w.out})")
        elif w.kind == "relation":
            out.append(f"(relation {w.name} {args})")
        else:
            out.append(f"(function {w.name} {args} {w.out} {w.merge or ':no-merge'})")
    return out + NAMES


# A class is named by (Node i). Loading states a row a node in a relation of all ops with like
# columns, from which one rule an op makes the term, its name and its type.
NAMES = ["(constructor Node (i64) Tensor)"]
RESERVED = ("Node",)
# What no op may be called.
WORDS = frozenset({"Const", *RESERVED, *(w.name for w in (*MEMORY, *FACTS))})


@dataclass(frozen=True, slots=True)
class Loader:
    """The relation that nodes of an op are loaded through, the egglog rule set of the rule that
    makes terms of its rows, and the texts that declare both.

    Its columns: the op's name, numbers of the operands, attributes, number, shape and dtype of the
    node. A relation takes 25 KB and a file to fill, so ops share it.
    """

    relation: str
    ruleset: str
    texts: tuple[str, str]


@lru_cache(maxsize=512)
def loader(op: Op) -> Loader:
    """How nodes of an op are loaded."""
    sorts = ["i64"] * op.arity + [ATTR_SORTS[kind] for _, kind in op.attrs]
    name = "-".join(["loaded", *sorts])
    given = [f"a{i}" for i in range(len(sorts))]
    term = " ".join([op.name, *(f"(Node {a})" for a in given[:op.arity]), *given[op.arity:]])
    ruleset = f"load-{op.name}"
    row = " ".join([f'"{op.name}"', *given, "i s d"])
    return Loader(name, ruleset, (
        f"(relation {name} ({' '.join(['String', *sorts, 'i64 String String'])}))",
        f"(ruleset {ruleset}) (rule (({name} {row})) ((let n (Node i)) (union ({term}) n) "
        f"(set (shape n) s) (set (dtype n) d)) :ruleset {ruleset} :name \"{ruleset}\")"))


def loaders(ops: Iterable[Op]) -> list[str]:
    """The texts that declare how nodes of some ops are loaded, each once."""
    return list(dict.fromkeys(text for op in ops for text in loader(op).texts))
