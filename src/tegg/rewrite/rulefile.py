"""Rule files: egglog text with an enforced header, one subject each, read into plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tegg.errors import RuleError
from tegg.rewrite.problems import Problems
from tegg.rewrite.ruleheader import Header, read_header
from tegg.rewrite.sexpr import Expr, List, Place, Symbol, read, short
from tegg.rewrite.vocabulary import SORTS, Word

COMMANDS = ("ruleset", "rewrite", "birewrite", "rule", "relation", "function")
MAX_LINES, MAX_LEVELS, MAX_ATOMS = 12, 4, 8


@dataclass(frozen=True, slots=True, repr=False)
class Rule:
    """One rule: what it looks for and what it then states. ``law`` is the comment above it.

    A rewrite is kept as a rule on the class ``_e`` of its left side.
    """

    name: str
    law: str
    query: tuple[Expr, ...]
    actions: tuple[Expr, ...]
    place: Place

    @property
    def short_law(self) -> str:
        """The law alone, in one line: without what the comment adds to it."""
        first = self.law.splitlines()[0] if self.law else ""
        return " ".join(re.split(r"\s{3,}", first)[0].split())

    def __repr__(self) -> str:
        return f"<rule {self.name} at {self.place.file}:{self.place.line}>"


@dataclass(frozen=True, slots=True)
class Relation:
    """A declared relation or function. ``means``: what holds of its parameters where it is stated,
    as facts, or empty where that is said in words."""

    word: Word
    parameters: tuple[str, ...]
    means: tuple[List, ...]
    law: str
    place: Place


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RuleSet:
    """One rule file, read; ``text`` is what it holds."""

    header: Header
    file: str
    text: str
    rules: tuple[Rule, ...]
    relations: tuple[Relation, ...]

    @property
    def name(self) -> str:
        return self.header.ruleset

    def __repr__(self) -> str:
        return f"<rule set {self.name}: {len(self.rules)} rules>"


def read_rule_file(path: str | Path, root: Path | None = None) -> RuleSet:
    """Read and check the form of a rule file. ``root``: the folder that its rule set's name counts
    from; without it the name must end in the file's own.

    Raises RuleError that names file, line, column, the text at fault and the remedy.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows writes a mark at the start
    except OSError as e:
        raise RuleError(f"{path}: cannot be read ({e.strerror}); give the path of an .egg file"
                        ) from None
    except UnicodeDecodeError as e:
        raise RuleError(f"{path}: byte {e.start} is not UTF-8; save the file as UTF-8") from None
    parts = path.relative_to(root).with_suffix("").parts if root else path.with_suffix("").parts
    return read_rules(text, str(path), parts, exact=root is not None)


def read_rules(text: str, file: str, parts: tuple[str, ...] = (), exact: bool = False) -> RuleSet:
    """The rule set that a text holds. ``parts``: the folders and stem that its name must match.

    Raises RuleError with everything that is wrong: in the header, in how lists close, or else in
    any of the commands.
    """
    lines = text.splitlines()
    problems = Problems()
    commands: tuple[List, ...] = ()
    with problems.gather():
        header = read_header(lines, file, parts, exact)
    with problems.gather():
        commands = read(text, file)
    problems.tell()
    reader = _Reader(lines, header)
    for command in commands:
        with problems.gather():
            reader.command(command)
    if not reader.declared:
        problems.found.append(f"{file}:1:1: the file never says (ruleset {header.ruleset}); "
                              f"add it below the header")
    problems.tell()
    return RuleSet(header, file, text, tuple(reader.rules.values()), tuple(reader.relations))


@dataclass(slots=True)
class _Reader:
    """What the commands of a file have said so far."""

    lines: list[str]
    header: Header
    rules: dict[str, Rule] = field(default_factory=dict)
    relations: list[Relation] = field(default_factory=list)
    declared: bool = False

    def command(self, command: List) -> None:
        law = _comment_above(self.lines, command.place.line)
        if command.head not in COMMANDS:
            raise RuleError(f"{command.place}: {short(command)} is not allowed in a rule file; "
                            f"it may hold {', '.join(COMMANDS)}")
        if command.head == "ruleset":
            again, self.declared = self.declared, True
            _ruleset(command, self.header, again)
        elif command.head in ("relation", "function"):
            self.relations.append(_relation(command, law))
        else:
            for rule in _rules(command, law, self.header):
                if rule.name in self.rules:
                    raise RuleError(f"{command.place}: the name {rule.name!r} is taken by line "
                                    f"{self.rules[rule.name].place.line}; each rule has its own")
                self.rules[rule.name] = rule


# ---- the commands
def _comment_above(lines: list[str], line: int) -> str:
    """The comment lines that end right above a line."""
    out: list[str] = []
    i = line - 2
    while i >= 0 and lines[i].lstrip().startswith(";"):
        out.append(lines[i].lstrip().lstrip(";").strip())
        i -= 1
    return "\n".join(reversed(out))


def _ruleset(command: List, header: Header, again: bool) -> None:
    name = str(command.items[1]) if len(command.items) == 2 else short(command)
    if again or name != header.ruleset:
        raise RuleError(f"{command.place}: {short(command)}; a file declares its own rule set "
                        f"once: (ruleset {header.ruleset})")


def _relation(command: List, law: str) -> Relation:
    place, items = command.place, command.items
    function = command.head == "function"
    form = ("(function name (Sort ...) Sort :merge (min old new))" if function
            else "(relation name (Sort ...))")
    shaped = (len(items) == (6 if function else 3) and isinstance(items[1], Symbol)
              and isinstance(items[2], List))
    sorts = [str(s) for s in items[2].items] + ([str(items[3])] if function else []) \
        if shaped else []
    if not shaped or any(s not in SORTS for s in sorts):
        raise RuleError(f"{place}: {short(command)} is not of the form {form} with the sorts "
                        f"{', '.join(SORTS)}")
    name, merge = str(items[1]), ""
    if function:
        merge = f"{items[4]} {items[5]}"
        if merge not in (":merge (min old new)", ":merge (max old new)") or sorts[-1] != "i64":
            raise RuleError(f"{place}: {merge} of {name} is not allowed; a function gives an i64 "
                            f"and merges by :merge (min old new) or :merge (max old new)")
        word = Word(name, tuple(sorts[:-1]), sorts[-1], "function", merge=merge)
    else:
        word = Word(name, tuple(sorts), "", "relation")
    parameters, means = _means(name, law, len(word.args), place)
    return Relation(word, parameters, means, law, place)


def _means(name: str, law: str, arity: int, place: Place) -> tuple[tuple[str, ...], tuple]:
    """Read ``(name a b) means (= a (Recip b))`` out of the comment above a relation."""
    text = " ".join(law.splitlines())
    said = re.match(rf"\({re.escape(name)}((?: \w+)*)\) means (.*)$", text)
    if not said or len(said[1].split()) != arity:
        raise RuleError(f"{place}: {name} has no meaning; write above it ';; ({name} a b ...) "
                        f"means ' and terms such as (= a (Recip b)), or what holds in words")
    means = read(said[2], place.file) if said[2].startswith("(") else ()
    return tuple(said[1].split()), means


def _rules(command: List, law: str, header: Header) -> list[Rule]:
    place = command.place
    if not law:
        raise RuleError(f"{place}: {short(command)} has no law; write it above the rule in "
                        f"mathematics, as in ';; a + b * -1  =>  a - b'")
    if command.end - place.line + 1 > MAX_LINES:
        raise RuleError(f"{place}: the rule has {command.end - place.line + 1} lines, at most "
                        f"{MAX_LINES} are allowed; stage it through a relation")
    body, options = _options(command)
    name = _name(options, command, header)
    if command.head == "rule":
        query, actions = body
        if not (isinstance(query, List) and isinstance(actions, List) and actions.items):
            raise RuleError(f"{place}: {short(command)} is not of the form "
                            f"(rule (fact ...) (action ...) :ruleset r :name \"file/slug\")")
        return [Rule(name, law, query.items, actions.items, place)]
    left, right = body
    when = options.get(":when")
    facts = when.items if isinstance(when, List) else ()
    subsume = ":subsume" in options
    made = [_rewrite(name, law, left, right, facts, subsume, place)]
    if command.head == "birewrite":
        back = _rewrite(name, law, right, left, facts, subsume, place)
        made = [_renamed(made[0], name + "=>"), _renamed(back, name + "<=")]
    return made


def _renamed(rule: Rule, name: str) -> Rule:
    return Rule(name, rule.law, rule.query, rule.actions, rule.place)


def _rewrite(name: str, law: str, left: Expr, right: Expr, facts: tuple, subsume: bool,
             place: Place) -> Rule:
    def listed(*items: Expr | str) -> List:
        made = tuple(Symbol(i, place) if isinstance(i, str) else i for i in items)
        return List(made, place, place.line)

    if not isinstance(left, List):
        raise RuleError(f"{left.place}: the left side is {left}; it must be a term, or the rule "
                        f"would match every value")
    actions = (listed("union", "_e", right),) + ((listed("subsume", left),) if subsume else ())
    return Rule(name, law, (listed("=", "_e", left), *facts), actions, place)


def _options(command: List) -> tuple[tuple[Expr, Expr], dict[str, Expr | None]]:
    """The two parts of a rule and its options."""
    allowed = {":ruleset", ":name"} | ({":when", ":subsume"} if command.head != "rule" else set())
    items, options = list(command.items[1:]), {}
    body, items = items[:2], items[2:]
    while items:
        key = items.pop(0)
        if not isinstance(key, Symbol) or key.text not in allowed or key.text in options:
            raise RuleError(f"{key.place}: {short(key)} is not an option here; a {command.head} "
                            f"takes {', '.join(sorted(allowed))}, each once")
        takes_value = key.text != ":subsume"
        if takes_value and not items:
            raise RuleError(f"{key.place}: {key} has no value")
        options[key.text] = items.pop(0) if takes_value else None
    if len(body) != 2:
        raise RuleError(f"{command.place}: {short(command)} lacks its two parts, what it looks "
                        f"for and what it gives")
    return (body[0], body[1]), options


def _name(options: dict, command: List, header: Header) -> str:
    stem = header.ruleset.split(".")[-1]
    name, ruleset = options.get(":name"), options.get(":ruleset")
    if str(ruleset) != header.ruleset:
        raise RuleError(f"{command.place}: {short(command)} belongs to no rule set; write "
                        f":ruleset {header.ruleset}")
    ok = isinstance(name, Symbol) and name.is_string and re.fullmatch(
        rf"{re.escape(stem)}/[a-z0-9][a-z0-9-]*", name.string)
    if not ok:
        raise RuleError(f"{command.place}: the rule is named {name}; write "
                        f":name \"{stem}/slug\" with a slug of letters, digits and dashes")
    return name.string
