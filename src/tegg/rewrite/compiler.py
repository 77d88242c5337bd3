"""Compilers: rule sets, op rows and fact providers that a user stacks, and what a stack means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tegg import plugins
from tegg.errors import ArgumentError
from tegg.ir.code import check_row
from tegg.ir.op import OPS, Op, OpTable
from tegg.rewrite.asking import check_provider
from tegg.rewrite.identity import made_of, written
from tegg.rewrite.pipeline import Phase, phases, rule_folders
from tegg.rewrite.problems import Problems
from tegg.rewrite.providers import Provider
from tegg.rewrite.providers.bounds import Bounds
from tegg.rewrite.providers.builtin import BUILTIN
from tegg.rewrite.providers.multiplying import Multiplying
from tegg.rewrite.providers.rounding import Rounding
from tegg.rewrite.rulefile import Rule, RuleSet
from tegg.rewrite.ruletext import rule_texts
from tegg.rewrite.sources import digest, known, read_source, rule_files
from tegg.rewrite.stackcheck import Mentioned, check_stack, mentioned
from tegg.rewrite.vocabulary import WORDS, Word

if TYPE_CHECKING:
    from tegg.planning.target import Target

ROUNDING, BOUNDS = Rounding(), Bounds()  # of Bf16 and Fp16; stacked together they are one
PRECISIONS = MappingProxyType({"bitwise": ("facts", "bitwise"),
                               "reals": ("facts", "bitwise", "reals", "rounds")})


Source = str | Path | RuleSet


class Compiler:
    """Rule sets with the op rows and fact providers that they need.

    rules: paths of ``.egg`` files or of folders of them, names of built-in rule sets or folders
      (``"fuse.sub"``, ``"algebra"``), or rule sets that were read; by position or as ``rules=``,
      one or several. rounds: whether rule sets of
      class ``rounds`` may be among them, so that results lose precision. target: the device that
      they are for, if any; its rows join the op table. phases: limits of phases, and phases of its
      own: ``{"idioms": {"rounds": 8}, "mine": {"after": "idioms"}}``. cost: op -> scalar operations
      per element, in place of what the op's row and the device's profile say.
    """

    __slots__ = ("cost", "name", "ops", "phases", "providers", "rounds", "sources", "target")

    def __init__(self, *positional: Source, rules: Source | Iterable[Source] = (),
                 ops: Iterable[Op] = (), providers: Iterable[Provider] = (), name: str = "",
                 rounds: bool = False, target: Target | None = None,
                 phases: Mapping[str, Mapping[str, Any]] | None = None,
                 cost: Mapping[str, float] | None = None) -> None:
        given = {"rules": (rules,) if isinstance(rules, (str, Path, RuleSet)) else rules,
                 "ops": ops, "providers": providers}
        listed = {key: _several(key, value) for key, value in given.items()}
        rules = self.sources = (*positional, *listed["rules"])
        self.phases, self.cost = _table("phases", phases), _table("cost", cost)
        self.target, self.ops, self.providers = target, listed["ops"], listed["providers"]
        self.name = name or ", ".join(s.name if isinstance(s, RuleSet) else str(s) for s in rules)
        self.rounds = rounds
        if not isinstance(name, str):
            raise ArgumentError(f"name= of a compiler is a text, not {name!r}")

        for source in rules:
            if not isinstance(source, (str, Path, RuleSet)):
                raise ArgumentError(f"compiler {self.name!r} takes paths of rule files, names of "
                                    f"rule sets and rule sets, not {source!r}")
        for op in self.ops:
            if not isinstance(op, Op):
                raise ArgumentError(f"ops= of compiler {self.name!r} takes rows tegg.Op(...), "
                                    f"not {op!r}")
            check_row(op, self.name)
        for p in self.providers:
            check_provider(p, self.name)
        for op_name, value in self.cost.items():
            if not isinstance(op_name, str) or isinstance(value, bool) or not isinstance(
                    value, (int, float, np.integer, np.floating)) or not value >= 0:
                raise ArgumentError(f"cost= of compiler {self.name!r} gives {op_name} {value!r}; "
                                    f"a cost is a number of operations, 0 or more, by the name of "
                                    f"an op")
        self.cost = {n: float(v) for n, v in self.cost.items()}

    def rule_sets(self) -> tuple[RuleSet, ...]:
        """Its rule sets, read. Raises RuleError with all that is malformed or missing."""
        problems = Problems()
        found = self.read(problems)
        problems.tell()
        return tuple(found)

    def read(self, problems: Problems) -> list[RuleSet]:
        """Those of its rule sets that can be read; ``problems`` hears of the others."""
        found: list[RuleSet] = []
        for source in self.sources:
            found += [source] if isinstance(source, RuleSet) else read_source(source, problems)
        for s in found:
            if s.header.kind == "rounds" and not self.rounds:
                problems.found.append(
                    f"{s.file}: rule set {s.name} loses precision (class rounds), which compiler "
                    f"{self.name!r} does not admit; write Compiler(..., rounds=True)")
        return found

    def identity(self) -> str:
        """Everything about it that decides a plan: its rules' texts, its rows, its providers."""
        parts = [self.name, str(self.rounds), str(self.phases), str(self.cost)]
        for source in self.sources:
            if isinstance(source, RuleSet):
                parts.append(source.text)
            else:
                parts += [_digest(path) for path, _ in rule_files(source)]
        parts += [f"{op.name} {op.kind} {op.arity} {op.attrs} {op.cost} {op.commutative} "
                  f"{op.staged} {op.alone} {op.same_bits} {op.code}"
                  for op in self.ops]
        parts += [written(f) for op in self.ops
                  for f in (op.shape, op.dtype, op.meaning, op.expand) if f is not None]
        parts += [made_of(p) for p in self.providers]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return f"<compiler {self.name}>"


def _several(what: str, given: Any) -> tuple:
    """An argument that takes several things, as a tuple."""
    if not isinstance(given, Iterable) or isinstance(given, Op):
        raise ArgumentError(f"{what}= of a compiler takes several, as in {what}=[...], not "
                            f"{given!r}")
    return tuple(given)


def _table(what: str, given: Any) -> dict:
    """An argument that says something of each of several names."""
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError(f"{what}= of a compiler is a dict, not {given!r}")
    return dict(given or {})


def Generic() -> Compiler:
    """Identities, constants, named ops, idioms and contractions: what every device wants."""
    return Compiler(*rule_folders("generic"), name="Generic")


def Bf16() -> Compiler:
    """Weights that products read, and results of products and elementwise work, may rest in memory
    as bfloat16, and operands of products may be rounded to it. Kernels compute and sum in float32;
    norms, softmaxes and reductions rest in float32 too. What is cast to bfloat16 may be rounded
    only where it is stored."""
    return Compiler("half.bf16", providers=(ROUNDING, Multiplying("bf16")), name="Bf16",
                    rounds=True)


def Fp16() -> Compiler:
    """As Bf16, in float16: values only whose range is proven, weights that are checked to fit."""
    return Compiler("half.f16", providers=(ROUNDING, BOUNDS, Multiplying("f16")), name="Fp16",
                    rounds=True)


def Tf32() -> Compiler:
    """Operands of float32 products may be rounded to the ten bits of a TF32 significand, where a
    device multiplies those faster. Everything rests in memory as it was."""
    return Compiler(providers=(Multiplying("tf32"),), name="Tf32", rounds=True)


def Winograd() -> Compiler:
    """Convolutions by 3 x 3 taps with stride 1 may go in transformed tiles: a quarter of the
    multiplications, and an error some ten times that of the direct form. For the CPU."""
    return Compiler("lower.winograd", name="Winograd", rounds=True)


def lowering(target: Target) -> Compiler:
    """What a target puts last into every stack: its rule sets, templates and providers.

    Rules that round are among them; they ask for what Bf16, Fp16 or Tf32 state.
    """
    parts = (target.rules, target.ops, target.providers, target.name)
    try:
        return _lowering(*parts)
    except TypeError:  # a list among them, or what a compiler refuses with a reason
        return _lowering.__wrapped__(*parts)


@lru_cache(maxsize=32)
def _lowering(rules: tuple[Source, ...], ops: tuple[Op, ...], providers: tuple[Provider, ...],
              name: str) -> Compiler:
    """Checked once: every compilation asks for it."""
    return Compiler(*rules, ops=ops, providers=providers, name=name, rounds=True)


def find(name: str) -> Compiler:
    """The compiler that an installed package offers under a name (entry points
    ``tegg.compilers``: a function without arguments that gives a Compiler).

    Raises ArgumentError for a name that nobody offers or two packages do, and for a package that
    does not load.
    """
    if not isinstance(name, str):
        raise ArgumentError(f"compilers are found by name, a text, not {name!r}")
    made = plugins.load("tegg.compilers", "compiler", name, ArgumentError)
    if not isinstance(made, Compiler):
        raise ArgumentError(f"what a package offers as compiler {name!r} gives {made!r}, which is "
                            f"no tegg.Compiler; its entry point names a function that gives one")
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """What a list of compilers means: one op table, checked rule sets in order, providers.

    texts: rule -> the egglog rules that it is made of, with ``{}`` for their rule set.
    phases: in order, with the compilers' own.
    """

    table: OpTable
    rule_sets: tuple[RuleSet, ...]
    providers: tuple[Provider, ...]
    words: Mapping[str, Word]
    texts: Mapping[str, str]
    phases: tuple[Phase, ...]

    @property
    def rules(self) -> dict[str, Rule]:
        """Every rule by name."""
        return {r.name: r for s in self.rule_sets for r in s.rules}

    def unknown_rule(self, name: str) -> str:
        """What to say about a name that is no rule of the stack."""
        near = get_close_matches(name, self.rules, 1)
        return f"the stack has no rule {name!r}" + (
            f"; did you mean {near[0]!r}?" if near else "; 'tegg rules list' shows its rules")


def named_stack(text: str) -> tuple[Compiler, ...]:
    """Compilers named in a text, separated by commas: what packages offer, or rule files, also such
    as round: who names them wants them.

    Raises ArgumentError or RuleError for what is neither.
    """
    offered = plugins.offered("tegg.compilers")
    names = [n.strip() for n in text.split(",") if n.strip()]
    for n in names:
        near = get_close_matches(n.lower(), offered, 1, 0.8)
        if n not in offered and near and not Path(n).exists() and not known(n):
            raise ArgumentError(f"no package offers a compiler {n!r}, and no rules are called so; "
                                f"did you mean {near[0]!r}?")
    return tuple(find(n) if n in offered else Compiler(n, rounds=True) for n in names)


def stack(compilers: Compiler | Sequence[Compiler], table: OpTable = OPS) -> Stack:
    """Read, check and combine compilers over an op table.

    Raises ArgumentError or RuleError where they do not fit together; a RuleError tells everything
    that is wrong with their rule files.
    """
    compilers = (compilers,) if isinstance(compilers, Compiler) else tuple(compilers)
    for c in compilers:
        if not isinstance(c, Compiler):
            raise ArgumentError(f"compilers are tegg.Compiler objects, not {c!r}; "
                                f"write tegg.Compiler({c!r})" if isinstance(c, (str, Path)) else
                                f"compilers are tegg.Compiler objects, not {c!r}")
    rows = _rows(compilers, table)
    problems = Problems()
    sets: dict[str, RuleSet] = {}
    for s in (s for c in compilers for s in c.read(problems)):
        if s.name in sets and Path(sets[s.name].file).resolve() != Path(s.file).resolve():
            problems.found.append(f"rule set {s.name} is defined by {sets[s.name].file} and by "
                                  f"{s.file}; rename one of the files")
        sets.setdefault(s.name, s)
    providers = dict.fromkeys((*BUILTIN, *(p for c in compilers for p in c.providers)))
    order = phases(own=[(c.name, c.phases) for c in compilers])
    if problems.found:  # what can be read is checked all the same
        check_stack(tuple(sets.values()), tuple(providers), rows, order, problems)
        problems.tell()
    _costs(compilers, rows)  # those that do not fit are told before any rule runs
    return _stacked(tuple(rows.values()), tuple(sets.values()), tuple(providers), order)


@lru_cache(maxsize=32)
def _stacked(ops: tuple[Op, ...], sets: tuple[RuleSet, ...],
             providers: tuple[Provider, ...], order: tuple[Phase, ...]) -> Stack:
    """Checked once: a rule file that did not change is the same rule set when it is read again."""
    rows = MappingProxyType({op.name: op for op in ops})
    problems = Problems()
    words = check_stack(sets, providers, rows, order, problems)
    problems.tell()
    texts = {n: text for s in sets for n, text in _texts(s, mentioned(s, words)).items()}
    return Stack(rows, sets, providers, words, texts, order)


@lru_cache(maxsize=512)
def _texts(rules: RuleSet, words: Mentioned) -> Mapping[str, str]:
    """Name of a rule -> its egglog text, with room for the name of a rule set."""
    known = dict(words)
    return {r.name: " ".join(rule_texts(r, known, "{}")) for r in rules.rules}


def _rows(compilers: Iterable[Compiler], table: OpTable) -> OpTable:
    rows = dict(table)
    for c in compilers:
        for op in (*c.ops, *(c.target.ops if c.target else ())):
            if op.name in WORDS:
                raise ArgumentError(f"compiler {c.name!r} brings an op {op.name!r}, which is a "
                                    f"word of rules; give it another name")
            if rows.get(op.name, op) is not op:
                raise ArgumentError(f"compiler {c.name!r} brings an op {op.name!r}, which the op "
                                    f"table has already; give it another name")
            rows[op.name] = op
    return MappingProxyType(rows)


def op_costs(compilers: Sequence[Compiler], table: OpTable) -> dict[str, float]:
    """What compilers say that ops cost, those of a table and their own; no rule file is read.

    Raises ArgumentError for an op that does not exist, or where two compilers do not agree.
    """
    return _costs(compilers, _rows(compilers, table))


def _costs(compilers: Sequence[Compiler], rows: OpTable) -> dict[str, float]:
    found: dict[str, tuple[float, str]] = {}
    for c in compilers:
        for name, value in c.cost.items():
            if name not in rows:
                near = get_close_matches(name, rows, 1)
                raise ArgumentError(f"cost= of compiler {c.name!r} names {name!r}, which is no op"
                                    + (f"; did you mean {near[0]!r}?" if near else ""))
            before, who = found.setdefault(name, (float(value), c.name))
            if before != value:
                raise ArgumentError(f"compilers {who!r} and {c.name!r} give {name} the costs "
                                    f"{before:g} and {value:g}; make them agree")
    return {name: value for name, (value, _) in found.items()}


def _digest(path: Path) -> str:
    """The digest of a rule file, or nothing: reading it as rules says what is wrong with one that
    has none."""
    try:
        return digest(path)
    except OSError:
        return ""
