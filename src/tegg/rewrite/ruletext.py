"""Rules as egglog text: constants spelled out, mirror images of commutative ops, safe names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tegg.bits import bits_of
from tegg.dtype import bool_, f64, i64
from tegg.rewrite.rulefile import Rule
from tegg.rewrite.sexpr import Expr, List, Place, Symbol, is_float
from tegg.rewrite.vocabulary import Word


GUARDS = ("float-type", "int-type", "signed-int-type")  # what constants add to a rule


def rule_texts(rule: Rule, words: Mapping[str, Word], ruleset: str, also: str = "") -> list[str]:
    """The egglog rules of one rule: itself, and one for each mirror image of its pattern.

    The first is named as the rule is; mirror images get ``~1``, ``~2``... after the name. also:
    an action more, as egglog text (``variable`` spells variables).
    """
    images: list[tuple[Expr, ...]] = [()]
    for fact in rule.query:
        images = [(*done, image) for done in images for image in _images(fact, words)]
    texts: dict[str, None] = {}
    for image in images:
        matched = {str(e): m for fact, found in zip(rule.query, image)
                   for e, m in zip(fact.items, found.items)}
        actions = tuple(List((a.items[0], matched[str(a.items[1])]), a.place, a.end)
                        if a.head == "subsume" else a for a in rule.actions)
        texts.setdefault(_Writer(words).body(image, actions, also))
    return [f'(rule {body} :ruleset {ruleset} :name "{rule.name}{f"~{i}" if i else ""}")'
            for i, body in enumerate(texts)]


def variable(name: str) -> str:
    """A variable of a rule as egglog text, where functions have names of the same kind."""
    return "?" + name


def plain_name(name: str) -> str:
    """The rule that a name in egglog's report belongs to."""
    return name.partition("~")[0]


def is_constant(e: Expr) -> bool:
    """Whether a pattern is a constant, which the loader puts last."""
    return isinstance(e, List) and e.head in ("Const", "Full")


def _images(e: Expr, words: Mapping[str, Word]) -> list[Expr]:
    """A pattern with the operands of its commutative ops in every order that may be loaded."""
    if not isinstance(e, List):
        return [e]
    items: list[tuple[Expr, ...]] = [()]
    for item in e.items:
        items = [(*done, image) for done in items for image in _images(item, words)]
    word = words.get(e.head)
    out: dict[str, Expr] = {}
    for chosen in items:
        orders = [chosen]
        if word and word.commutative:
            head, a, b = chosen
            mirror = (head, b, a)
            orders = ([chosen] if is_constant(b) else [mirror] if is_constant(a)
                      else [chosen, mirror])
        for order in orders:
            made = List(order, e.place, e.end)
            out.setdefault(str(made), made)
    return list(out.values())


@dataclass(slots=True)
class _Writer:
    """Writes one rule. ``guards`` collects the facts that constants need; ``constants`` keeps how
    the pattern's were written, for terms that are subsumed."""

    words: Mapping[str, Word]
    guards: list[str] = field(default_factory=list)
    constants: dict[Place, str] = field(default_factory=dict)
    owner: str = ""  # while actions are written: the class that is matched, as text

    def body(self, query: tuple[Expr, ...], actions: tuple[Expr, ...], also: str) -> str:
        facts = [self.write(f) for f in query]
        done = []
        for action in actions:
            self.owner = self.write(action.items[1]) if action.head == "union" else ""
            done.append(self.write(action))
        return f"({' '.join(facts + self.guards)}) ({' '.join([*done, also]).strip()})"

    def write(self, e: Expr) -> str:
        if isinstance(e, Symbol):
            return variable(e.text) if e.is_name else e.text
        if e.head == "Const":
            if self.owner:
                return self.const(e.items[1].text)
            if e.place not in self.constants:
                self.constants[e.place] = self.const(e.items[1].text)
            return self.constants[e.place]
        items = list(e.items[1:])
        word = self.words.get(e.head)
        if self.owner and word and word.commutative:
            items.sort(key=lambda x: 2 if is_constant(x) else
                       1 if isinstance(x, List) and x.head == "Expand" else 0)
        if e.head == "panic":
            return str(e)
        return f"({' '.join([e.head, *map(self.write, items)])})"

    def const(self, text: str) -> str:
        """A Full: of any dtype and shape in a pattern, of the matched class's own in an action."""
        if text in ("true", "false"):
            dtype, bits = '"bool"', bits_of(text == "true", bool_)
        else:
            kind = f64 if is_float(text) else i64
            bits = bits_of(float(text) if kind is f64 else int(text), kind)
            dtype = "?_d" if self.owner else f"?_d{len(self.constants)}"
            guard = GUARDS[0] if kind is f64 else GUARDS[1] if bits >= 0 else GUARDS[2]
            self.guard(f"({guard} {dtype})")
        shape = "?_s" if self.owner else f"?_s{len(self.constants)}"
        if self.owner:
            self.guard(f"(= ?_s (shape {self.owner}))")
            if dtype == "?_d":
                self.guard(f"(= ?_d (dtype {self.owner}))")
        return f"(Full {dtype} {shape} {bits})"

    def guard(self, fact: str) -> None:
        if fact not in self.guards:
            self.guards.append(fact)
