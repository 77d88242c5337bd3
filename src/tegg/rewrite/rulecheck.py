"""What a rule may say: known words, sorts, bound variables, listed actions, short patterns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from tegg.errors import RuleError
from tegg.rewrite.arithmetic import ARITHMETIC, arity
from tegg.rewrite.problems import Problems
from tegg.rewrite.rulefile import MAX_ATOMS, MAX_LEVELS, Rule, RuleSet
from tegg.rewrite.sexpr import Expr, List, Symbol, is_float, is_int, short
from tegg.rewrite.vocabulary import PRIMITIVES, Word

ACTIONS = ("union", "set", "subsume", "panic")
BUILTIN = (*ACTIONS, *PRIMITIVES, "=", "delete")  # no relation can be meant


def check(rules: RuleSet, words: Mapping[str, Word]) -> None:
    """Check every rule of a set against the words it may use.

    Raises RuleError that names file, line, column, the text at fault and the remedy of each.
    """
    problems = Problems()
    read: set[str] = set()
    for rule in rules.rules:
        with problems.gather():
            checker = _Checker(words, rule)
            checker.run(rules.header.kind)
            read |= checker.read
    for relation in rules.relations:
        with problems.gather():
            for term in relation.means:
                _Checker(words, Rule(relation.word.name, "", (term,), (), relation.place)).facts()
    for name in sorted(read - rules.header.uses):
        problems.found.append(f"{rules.file}:1:1: guards read {name}, which 'uses:' does not list; "
                              f"add it there")
    problems.tell()  # a rule that cannot be read may be the one that uses a relation
    for name in sorted(rules.header.uses - read):
        near = get_close_matches(name, read, 1)
        problems.found.append(f"{rules.file}:1:1: 'uses:' lists {name}, which no guard reads; "
                              f"remove it" + (f", or did you mean {near[0]}?" if near else ""))
    problems.tell()


def check_rule_form(rule: Rule, kind: str, words: Mapping[str, Word]) -> None:
    """Check one rule by itself, of a rule set of some class, against the words it may use.

    Raises RuleError as ``check`` does.
    """
    _Checker(words, rule).run(kind)


def variable_sorts(rule: Rule, words: Mapping[str, Word]) -> dict[str, str]:
    """The variables that the left side of a checked rule binds, with their sorts."""
    checker = _Checker(words, rule)
    checker.facts()
    return checker.sorts


@dataclass(slots=True)
class _Checker:
    words: Mapping[str, Word]
    rule: Rule
    sorts: dict[str, str] = field(default_factory=dict)  # of variables
    read: set[str] = field(default_factory=set)
    bound: bool = False  # whether variables must be known already

    def fail(self, e: Expr, fact: str) -> RuleError:
        return RuleError(f"{e.place}: {short(e)} in rule {self.rule.name!r}: {fact}")

    def run(self, kind: str) -> None:
        self.facts()
        atoms = sum(map(_atoms, self.rule.query))
        if atoms > MAX_ATOMS:
            raise self.fail(self.rule.query[0], f"the rule looks for {atoms} terms, at most "
                            f"{MAX_ATOMS} are allowed; stage it through a relation")
        self.bound = True
        for action in self.rule.actions:
            self.action(action, kind)

    # ---- the query
    def facts(self) -> None:
        for fact in self.rule.query:
            self.fact(fact)
            if (levels := _levels(fact)) > MAX_LEVELS:
                raise self.fail(fact, f"it is {levels} levels deep, at most {MAX_LEVELS} are "
                                f"allowed; stage it through a relation")
        for fact in self.rule.query:  # a second time: sorts found later reach earlier variables
            self.fact(fact)
            if fact.head == "!=":
                self.distinct(fact)

    def fact(self, fact: Expr) -> None:
        if not isinstance(fact, List):
            raise self.fail(fact, "a guard is a parenthesised fact, such as (positive x)")
        if fact.head in ARITHMETIC:
            raise self.fail(fact, "a number by itself says nothing; compare it, as in (= j "
                            "(+ k 1))")
        if fact.head == "=" and len(fact.items) != 3:
            raise self.fail(fact, "= takes two sides")
        if fact.head == "=":
            known = [s for e in fact.items[1:] if (s := self.sort(e, None))]
            for e in fact.items[1:]:
                self.sort(e, known[0] if known else None)
        else:
            self.sort(fact, None)

    def distinct(self, fact: List) -> None:
        for e in fact.items[1:]:
            if self.sort(e, None) not in ("i64", "String"):
                raise self.fail(fact, "!= compares numbers or texts only; of terms it would mean "
                                "'not yet in one class'. Prove it by a relation instead")

    def sort(self, e: Expr, want: str | None) -> str | None:
        """The sort of an expression; a variable takes the sort that is wanted."""
        if isinstance(e, List):
            found = self.call(e)
        elif e.is_string:
            found = "String"
        elif e.is_int:
            found = "i64"
            if not -2 ** 63 <= int(e.text[:30]) < 2 ** 63:
                raise self.fail(e, "an integer lies between -2^63 and 2^63 - 1")
        elif is_float(e.text):
            raise self.fail(e, f"a float stands only in (Const {e})")
        else:
            return self.variable(e, want)
        if want and found != want:
            raise self.fail(e, f"it is of sort {found or 'fact'}, where {want} is needed")
        return found

    def variable(self, e: Symbol, want: str | None) -> str | None:
        known = self.sorts.get(e.text)
        if known is None and self.bound:
            near = get_close_matches(e.text, self.sorts, 1)
            raise self.fail(e, "the left side does not bind it"
                            + (f"; did you mean {near[0]}?" if near else ""))
        if e.text.startswith("_") and e.text != "_e":
            raise self.fail(e, "names that begin with _ are the loader's; use another")
        if known and want and known != want:
            raise self.fail(e, f"it is used as {known} and as {want}; use two names")
        if want:
            self.sorts[e.text] = want
        return known or want

    def call(self, e: List) -> str:
        head = e.head
        if head == "Const":
            return self.const(e)
        if head in PRIMITIVES:
            return self.primitive(e)
        word = self.words.get(head)
        if word is None:
            raise self.unknown(e)
        if len(e.items) - 1 != len(word.args):
            raise self.fail(e, f"{head} takes {len(word.args)} arguments "
                            f"({' '.join(word.args) or 'none'}), not {len(e.items) - 1}")
        if word.kind in ("relation", "function") and not self.bound:
            self.read.add(head)
        for item, sort in zip(e.items[1:], word.args):
            self.sort(item, sort)
        return word.out

    def unknown(self, e: List) -> RuleError:
        return self.fail(e, f"{e.head or 'this'} is no op, relation or listed primitive"
                         + (self.near(e.head) or "; ops are in the op table, primitives are "
                            f"{' '.join(PRIMITIVES)}"))

    def near(self, head: str) -> str:
        """The word that may have been meant, as the end of a sentence."""
        near = get_close_matches(head, [*self.words, "Const"], 1)
        return f"; did you mean {near[0]}?" if near else ""

    def primitive(self, e: List) -> str:
        if len(e.items) - 1 != (takes := arity(e.head)):
            raise self.fail(e, f"{e.head} takes "
                            f"{'two arguments' if takes == 2 else 'one argument'}")
        for item in e.items[1:]:
            self.sort(item, None if e.head == "!=" else "i64")
        return "i64" if e.head in ARITHMETIC else ""

    def const(self, e: List) -> str:
        text = str(e.items[1]) if len(e.items) == 2 else ""
        number = is_float(text) or is_int(text)
        if not (number or text in ("true", "false")):
            raise self.fail(e, "write (Const -1.0) for floats, (Const -1) for integers, "
                            "(Const true) for bool")
        if is_int(text) and not -128 <= int(text[:30]) <= 127:
            raise self.fail(e, "an integer constant fits every integer dtype: -128 to 127")
        return "Tensor"

    # ---- the actions
    def action(self, action: Expr, kind: str) -> None:
        if not isinstance(action, List):
            raise self.fail(action, "an action is a parenthesised term")
        head, given = action.head, len(action.items) - 1
        word = self.words.get(head)
        if head == "subsume" and given == 1:
            self.subsume(action)
        elif _has_const(action) and not (head == "union" and isinstance(action.items[1], Symbol)):
            raise self.fail(action, "a constant takes its dtype and shape from the class that is "
                            "matched: it stands only in (union e ...) with a variable e")
        elif head == "union" and given == 2:
            self.union(action, kind)
        elif head == "set" and given == 2 and isinstance(action.items[1], List):
            self.set(action.items[1], action.items[2])
        elif head == "panic" and given == 1:
            if kind != "facts" or len(self.rule.actions) != 1:
                raise self.fail(action, "panic is for tripwires: alone in a rule of class facts")
        elif word is None or head == "=" or word.kind in ("function", "fact"):
            hint = self.near(head) or f"; no relation {head} is declared in this stack; declare " \
                f"it, or stack what does" if word is None and head and head not in BUILTIN else ""
            raise self.fail(action, f"{head or 'this'} is not an action that rules may take; they "
                            f"may {', '.join(ACTIONS)}, state a relation or build a term{hint}")
        else:
            self.call(action)

    def set(self, of: List, value: Expr) -> None:
        sort, word = self.call(of), self.words.get(of.head)
        if word is None or word.kind not in ("function", "fact"):
            raise self.fail(of, "set gives a value to a declared function, a shape or a dtype; of "
                            "terms write (union e term), and state a relation as it is")
        self.sort(value, sort)

    def subsume(self, action: List) -> None:
        matched = {str(e) for fact in self.rule.query if isinstance(fact, List)
                   for e in fact.items if isinstance(e, List)}
        if str(action.items[1]) not in matched:
            raise self.fail(action, "subsume takes a whole term (= e term) of the left side")
        if not self.replaced(str(action.items[1])):
            raise self.fail(action, "nothing else stands for its class; match another form of it, "
                            "(= e other), or union one")

    def replaced(self, term: str) -> bool:
        """Whether the class of a term has another form: one that is matched, or one that is united.
        """
        named = [f for f in self.rule.query if isinstance(f, List) and f.head == "="]
        owners = {str(f.items[1]) for f in named if str(f.items[2]) == term} | {term}
        return any(str(f.items[1]) in owners and isinstance(f.items[2], List)
                   and str(f.items[2]) != term for f in named) or any(
            isinstance(a, List) and a.head == "union"
            and owners & set(map(str, a.items[1:])) for a in self.rule.actions)

    def union(self, action: List, kind: str) -> None:
        if kind == "facts":
            raise self.fail(action, "a rule set of class facts unions nothing; claim another class")
        sorts = [self.sort(e, None) for e in action.items[1:]]
        if len({s for s in sorts if s}) > 1 or not set(sorts) & {"Tensor", "Buffer"}:
            raise self.fail(action, f"union joins two Tensors or two Buffers, not "
                            f"{' and '.join(map(str, sorts))}")


def _levels(e: Expr) -> int:
    """Depth of ops in a fact; constants and attributes count nothing."""
    if not isinstance(e, List) or e.head in ("Const", "Full"):
        return 0
    below = max(map(_levels, e.items), default=0)
    return below + (e.head not in ("=", *PRIMITIVES))


def _atoms(e: Expr) -> int:
    """Terms that must be looked up to match a fact."""
    if not isinstance(e, List):
        return 0
    return (e.head not in ("=", *PRIMITIVES)) + sum(map(_atoms, e.items))


def _has_const(e: Expr) -> bool:
    return isinstance(e, List) and (e.head == "Const" or any(map(_has_const, e.items)))
