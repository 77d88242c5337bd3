"""Whether the rule sets of a stack fit together: words, phases, names, and who proves what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from functools import lru_cache

from tegg.errors import RuleError
from tegg.ir.op import OpTable
from tegg.rewrite.pipeline import FACTS, Phase
from tegg.rewrite.problems import Problems
from tegg.rewrite.providers import Provider
from tegg.rewrite.rulecheck import check
from tegg.rewrite.rulefile import Rule, RuleSet
from tegg.rewrite.sexpr import List, short
from tegg.rewrite.sources import text_of
from tegg.rewrite.vocabulary import FACTS as FACT_WORDS, MEMORY, RESERVED, Word, loader, vocabulary


def check_stack(sets: Sequence[RuleSet], providers: Sequence[Provider], rows: OpTable,
                order: tuple[Phase, ...], problems: Problems) -> Mapping[str, Word]:
    """The words of a stack; ``problems`` hears what does not fit.

    Rule sets that use what files declare that could not be read, or what is declared in two ways,
    are not judged.
    """
    declared, unsure = _declared(sets, providers, rows, problems)
    words = vocabulary(rows, declared)
    unsure |= {name for path in problems.unread for name in _declares(text_of(path))}
    _check_sets([s for s in sets if not unsure & _parts(s.text)], words, order, problems)
    _check_means(sets, problems)
    if not problems.unread:
        _check_stated(sets, {n for p in providers for n in p.relations}, problems)
    return words


Mentioned = tuple[tuple[str, Word], ...]


def mentioned(rules: RuleSet, words: Mapping[str, Word]) -> Mentioned:
    """Those of a stack's words on which what a rule set means depends: most of its other words are
    of no concern to it, and so it means the same in other stacks."""
    return tuple((n, words[n]) for n in sorted(_parts(rules.text) & words.keys()))


@lru_cache(maxsize=512)
def _parts(text: str) -> frozenset[str]:
    return frozenset(re.split(r"[\s()]+", text))


@lru_cache(maxsize=512)
def _fits(rules: RuleSet, words: Mentioned) -> bool:
    """Whether a rule set says what it may."""
    try:
        check(rules, dict(words))
    except RuleError:
        return False
    return True


def _declares(text: str) -> list[str]:
    """The relations and functions that a text seems to declare, however malformed it is."""
    return re.findall(r"\(\s*(?:relation|function)\s+([^\s()]+)", text)


def _declared(sets: Iterable[RuleSet], providers: Iterable[Provider], rows: OpTable,
              problems: Problems) -> tuple[list[Word], set[str]]:
    """Relations and functions of rule sets and providers; the same twice is one. And the names of
    those that are declared in two ways."""
    found: dict[str, tuple[Word, str]] = {}
    taken = {*rows, *(loader(op).relation for op in rows.values()),
             *(w.name for w in (*MEMORY, *FACT_WORDS)), *RESERVED}
    unsure: set[str] = set()
    sources = [(Word(n, tuple(sorts), "", "relation"), f"provider {p.name}")
               for p in providers for n, sorts in p.relations.items()]
    sources += [(r.word, str(r.place)) for s in sets for r in s.relations]
    for word, where in sources:
        if word.name in taken:
            problems.found.append(f"{where}: {word.name} is the name of an op or a built-in "
                                  f"function; choose another")
            continue
        if word.name in found and found[word.name][0] != word:
            problems.found.append(f"{where}: {word.name} is declared otherwise by "
                                  f"{found[word.name][1]}; make them agree or rename one")
            unsure.add(word.name)
        found.setdefault(word.name, (word, where))
    return [w for w, _ in found.values()], unsure


def _check_sets(sets: Iterable[RuleSet], words: Mapping[str, Word],
                order: tuple[Phase, ...], problems: Problems) -> None:
    names: dict[str, Rule] = {}
    known = (FACTS, *(p.name for p in order))
    for s in sets:
        for phase in s.header.phases:
            if phase not in known:
                near = get_close_matches(phase, known, 1)
                problems.found.append(f"{s.file}:1:1: there is no phase {phase!r}; there are "
                                      f"{', '.join(known)}"
                                      + (f"; did you mean {near[0]}?" if near else ""))
        if not _fits(s, mentioned(s, words)):
            with problems.gather():  # with what may be meant by names that are not known
                check(s, words)
        for r in s.rules:
            if r.name in names:
                problems.found.append(f"{r.place}: the name {r.name!r} is taken by "
                                      f"{names[r.name].place}; each rule has its own")
            names.setdefault(r.name, r)


def _check_means(sets: Sequence[RuleSet], problems: Problems) -> None:
    """What relations mean ends in terms."""
    means = {r.word.name: [f.head for f in r.means] for s in sets for r in s.relations}
    for r in (r for s in sets for r in s.relations):
        seen: set[str] = set()
        todo = list(means[r.word.name])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += means.get(name, ())
        if r.word.name in seen:
            problems.found.append(f"{r.place}: {r.word.name} is said to mean what is said to mean "
                                  f"it; say one of them in terms of ops, as in (= a (Recip b))")


def _check_stated(sets: Iterable[RuleSet], provided: AbstractSet[str],
                  problems: Problems) -> None:
    """Guards read what somebody states."""
    stated = {a.head for s in sets for r in s.rules for a in r.actions if isinstance(a, List)}
    stated |= {a.items[1].head for s in sets for r in s.rules for a in r.actions
               if isinstance(a, List) and a.head == "set" and isinstance(a.items[1], List)}
    declared = {r.word.name: r for s in sets for r in s.relations}
    for s in sets:
        for rule in s.rules:
            for fact in rule.query:
                name = fact.head if isinstance(fact, List) else ""
                if name in declared and name not in stated and name not in provided:
                    problems.found.append(
                        f"{fact.place}: nobody proves {short(fact)}, which guards rule "
                        f"{rule.name!r}: no rule of the stack states {name}, and no provider; "
                        f"stack what does, or write a rule that states it")
