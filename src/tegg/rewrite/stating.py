"""Writing facts into the e-graph: classes named by terms, missing shapes worked out."""

from __future__ import annotations

from tegg.ir.classes import ENode
from tegg.dim import Shape
from tegg.dtype import DType
from tegg.rewrite.encode import Codec
from tegg.rewrite.engine import Conflict, Engine, Row, fits
from tegg.errors import RuleError, TeggError
from tegg.ir.op import OpTable
from tegg.rewrite.asking import asked
from tegg.rewrite.providers import Fact, Provider
from tegg.rewrite.view import View


_SHORT = 200  # characters of a term that stands for a class wherever facts are stated of it


class Stater:
    """States facts about the classes of a view; text names a class by a node or a short term."""

    def __init__(self, engine: Engine, table: OpTable, codec: Codec, first_name: int) -> None:
        self.engine, self.table, self.codec = engine, table, codec
        self.next_name = first_name  # names for classes without a node of the graph
        self.said: set[Fact] = set()   # of classes by their numbers, which views keep
        self.known: set[str] = set()   # the same as texts: two classes may be one by now
        self.names: dict[int, str] = {}  # class -> a short term of it

    def state(self, provider: Provider, view: View) -> int:
        """State the facts of a provider, of which the view learns. How many were new."""
        try:
            every = asked(provider, view)
        except RuleError:
            self.valid(view)  # what rules built wrongly no provider understands
            raise
        for fact in every:
            if fact[0] in view.stated:
                view.stated[fact[0]].setdefault(fact[1], set()).add(tuple(
                    self.codec.encode("dims", a) if isinstance(a, tuple) else a
                    for a in fact[2:]))
        facts = [(f, provider.relations[f[0]]) for f in every if f not in self.said]
        if not facts:
            return 0
        self.said.update(f for f, _ in facts)
        terms = self.terms(view, {a for f, sorts in facts for a, s in zip(f[1:], sorts)
                                  if s == "Tensor"})
        texts = [self._text(f, sorts, terms) for f, sorts in facts]
        new = {t: f for t, f in zip(texts, facts) if t not in self.known}
        rows: dict[str, list[Row]] = {}
        for text, (fact, sorts) in new.items():
            if "Tensor" not in sorts and fits(row := self._row(fact, sorts)):
                rows.setdefault(fact[0], []).append(row)
            else:  # each by itself: many in one text take egglog the square of that
                self.engine.run(text)
        if rows:
            self.engine.insert(rows)
        self.known.update(new)
        return len(new)

    def _row(self, fact: Fact, sorts: tuple[str, ...]) -> Row:
        """A fact of numbers and texts."""
        return tuple(value if sort == "i64" else self.codec.encode(_kind(value), value)
                     for value, sort in zip(fact[1:], sorts))

    @staticmethod
    def valid(view: View) -> None:
        """Raises RuleError where the op table refuses an e-node."""
        for nodes in view.nodes.values():
            for n in nodes:
                if all(a in view.shape and a in view.dtype for a in n.args):
                    type_of(n, view)

    def _text(self, fact: Fact, sorts: tuple[str, ...], terms: dict[int, str]) -> str:
        def argument(value, sort: str) -> str:
            if sort == "Tensor":
                return terms[value]
            if sort == "i64":
                return str(value)
            return self.codec.quoted(_kind(value), value)

        return f"({fact[0]} {' '.join(map(argument, fact[1:], sorts))})"

    # ---- naming classes
    def terms(self, view: View, wanted: set[int]) -> dict[int, str]:
        """A short term for each wanted class; one that has none is given one."""
        if not self.names:
            self.names = {c: _term(i) for i, c in view.of.items()}
        names = self.names
        waiting = {c for c in wanted if c not in names}
        unnamed = [c for c in view.nodes if c not in names] if waiting else []
        while waiting:
            before = len(names)
            for c in unnamed:
                ready = next((n for n in view.nodes[c] if c not in names
                              and all(a in names for a in n.args)), None)
                if ready is not None:
                    names[c] = self._named(ready)
                    waiting.discard(c)
            assert len(names) > before, "a class without a finite term"
        return {c: names[c] for c in wanted}

    def _named(self, n: ENode) -> str:
        """A short term for the class of an e-node whose operands have one: the e-node, also where a
        rule subsumes it later, or a new name, which takes egglog, that rebuilds its tables, as long
        as several facts."""
        args = " ".join(self.names[a] for a in n.args)
        term = f"({n.op.name} {args} {self.codec.attrs(n.op, n.attrs)})"
        if len(term) <= _SHORT:
            return term
        name = _term(self.next_name)
        self.engine.run(f"(union {name} {term})")
        self.next_name += 1
        return name

    # ---- shapes and dtypes
    def complete(self, view: View) -> int:
        """Work out shape and dtype of classes that rules made; the view learns them too."""
        missing = {c for c in view.nodes if c not in view.shape or c not in view.dtype}
        found: dict[int, ENode] = {}
        while True:
            ready = {c: n for c in missing - set(found) for n in view.nodes[c]
                     if all(a in view.shape and a in view.dtype for a in n.args)}
            if not ready:
                break
            for c, n in ready.items():
                view.shape[c], view.dtype[c] = type_of(n, view)
            found.update(ready)
        terms = self.terms(view, set(found))
        for c, n in found.items():
            shape = self.codec.quoted("shape", view.shape[c])
            try:
                self.engine.run(f"(set (shape {terms[c]}) {shape})"
                                f"(set (dtype {terms[c]}) \"{view.dtype[c].name}\")")
            except Conflict:
                raise RuleError(f"{n!r} has shape {shape} by the op table, and its class another; "
                                f"a rule built it without a guard on shapes") from None
        return len(found)


def _kind(value: str | Shape) -> str:
    """The kind of attribute that a text of a fact is written as."""
    return "mode" if isinstance(value, str) else "dims"


def _term(name: int) -> str:
    return f"(Node {name})"


def type_of(n: ENode, view: View) -> tuple[Shape, DType]:
    """Shape and dtype of an e-node by its row of the op table; the dims are canonical.

    Raises RuleError where the row refuses: then a rule built it.
    """
    try:
        shape = n.op.shape([view.shape[a] for a in n.args], n.attrs, view.codec.facts)
        dtype = n.op.dtype([view.dtype[a] for a in n.args], n.attrs)
    except TeggError as e:
        raise RuleError(f"a rule built {n!r}, which is no valid op: {e}; add the guard that the "
                        f"rule lacks") from None
    except Exception as e:
        raise RuleError(f"the row of op {n.op.name!r} fails for {n!r}: {type(e).__name__}: {e}; "
                        f"shape= takes (shapes, attrs, facts), dtype= takes (dtypes, attrs)") from e
    if not isinstance(shape, tuple) or not isinstance(dtype, DType):
        raise RuleError(f"the row of op {n.op.name!r} gives {n!r} the shape {shape!r} and dtype "
                        f"{dtype!r}; it gives a tuple of sizes and a tegg dtype, such as tegg.f32")
    return tuple(map(view.codec.facts.canonical, shape)), dtype
