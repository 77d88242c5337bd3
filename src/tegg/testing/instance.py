"""Instances of a rule's left side: small graphs that it matches, drawn inside its guards."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tegg.dim import Symbol as DimSymbol, symbols
from tegg.dtype import DTYPES, DType, bool_, dtype as as_dtype, i64
from tegg.errors import TeggError
from tegg.ir.graph import Graph, Node
from tegg.ir.op import Op, OpTable
from tegg.rewrite.arithmetic import ARITHMETIC, COMPARISONS
from tegg.rewrite.providers import Completing, Provider
from tegg.rewrite.rulefile import Relation, Rule
from tegg.rewrite.sexpr import Expr, List, Symbol
from tegg.testing.guards import BUILDERS, DOMAINS, LIKELY, POLICIES, TESTS, Miss
from tegg.testing.preimage import choose
from tegg.testing.sizes import Sizes
from tegg.testing.terms import const_bits, is_kind, leaves, literal, named_dtypes, rename

MEMORY = ("Load", "Store")  # where a value rests changes nothing about it
ROUNDED = "StoreAs"  # a form that is a dtype: the value after a cast to it and back
SYMBOLIC_TRIES = 40  # graphs of symbolic dims that are drawn before numbers are


@dataclass(slots=True)
class Instance:
    """A graph that a rule matches. env: variable -> node or attribute."""

    sizes: Sizes
    table: OpTable
    relations: Mapping[str, Relation]
    dtypes: tuple[DType, ...]
    providers: tuple[Provider, ...] = ()
    graph: Graph = field(default_factory=Graph)
    env: dict[str, object] = field(default_factory=dict)
    defined: dict[str, Expr] = field(default_factory=dict)  # variable -> the term it must be
    built: dict[str, tuple[str, tuple[Expr, ...]]] = field(default_factory=dict)  # by a guard
    guards: list[List] = field(default_factory=list)
    domains: dict[str, str] = field(default_factory=dict)  # variable -> where its values lie
    loose: dict[str, None] = field(default_factory=dict)  # variables that only guards may name
    made: set[str] = field(default_factory=set)  # of them, those that an op may compute
    typed: dict[str, DType] = field(default_factory=dict)  # variable -> the dtype a guard names
    near: dict[str, list[int]] = field(default_factory=dict)  # variable -> what it is compared with
    likely: dict[str, tuple[int, ...]] = field(default_factory=dict)  # what a guard says it may be
    inputs: list[tuple[Node, str]] = field(default_factory=list)  # node, domain
    constants: tuple[float, ...] = ()  # numbers that the rule, or the graph, names
    owner: Node | None = None  # of constants on a right side: the class that was matched

    @property
    def rng(self) -> Random:
        """Where everything is drawn from."""
        return self.sizes.rng

    @property
    def symbols(self) -> set[DimSymbol]:
        """The symbols of the dims that were drawn."""
        return {s for n in self.graph.nodes for d in n.shape for s in symbols(d)} | {
            s for n in self.graph.nodes if n.op.name == "Size" for s in symbols(n.attrs[1][0])}

    # ---- reading the query
    def take(self, facts: tuple[Expr, ...]) -> None:
        """Sort the facts of a query: definitions of variables, and guards."""
        for fact in facts:
            relation = self.relations.get(fact.head)
            if relation is not None and relation.means:
                self.take(tuple(rename(t, relation, fact) for t in relation.means))
            elif fact.head in BUILDERS and str(fact.items[1]) not in self.defined:
                self.built[str(fact.items[1])] = (fact.head, fact.items[2:])
                self.guards.append(fact)
            elif fact.head in DOMAINS:
                self.domains[str(fact.items[1])] = DOMAINS[fact.head]
                self.loose[str(fact.items[1])] = None
            elif fact.head in POLICIES:
                self.loose[str(fact.items[1])] = None
                self.made.add(str(fact.items[1]))
            elif self.is_term(fact):
                self.defined[f"_{len(self.defined)}"] = fact
            elif fact.head == "=" and any(map(self.is_term, fact.items[1:])):
                term, name = sorted(fact.items[1:], key=self.is_term, reverse=True)
                self.defined[str(name)] = term
            else:
                self.guards.append(fact)
                self.note(fact)

    def note(self, guard: List) -> None:
        """Remember the ends of comparisons, and what an argument is that few draws would be."""
        sides = guard.items[1:]
        if guard.head in LIKELY:
            place, values = LIKELY[guard.head]
            self.likely[str(sides[place])] = values
        if guard.head in COMPARISONS:
            for name, end in (sides, sides[::-1]):
                if isinstance(end, Symbol) and end.is_int:
                    self.near.setdefault(str(name), []).append(int(end.text))

    def is_term(self, e: Expr) -> bool:
        return isinstance(e, List) and (e.head in self.table
                                        or e.head in ("Const", ROUNDED, *MEMORY))

    def draw(self) -> None:
        """Draw everything that the query names. Raises Miss where the draw does not fit."""
        inner = {str(s) for t in self.defined.values() for s in leaves(t)}
        inner |= {str(s) for _, args in self.built.values() for a in args for s in leaves(a)}
        roots = [v for v in (*self.defined, *self.built, *self.loose) if v not in inner]
        self.typed = named_dtypes(self.guards)
        dtypes = tuple(dict.fromkeys((*self.dtypes, *self.typed.values())))
        for v in roots:
            shape = self.sizes.shape()
            self.node(Symbol(v, None), shape, self.typed.get(v) or self.rng.choice(dtypes))
        waiting = list(self.guards)
        while waiting:
            left = [g for g in waiting if not self.holds(g)]
            if len(left) == len(waiting):
                raise Miss
            waiting = left

    # ---- guards
    def holds(self, guard: List) -> bool:
        """Whether a guard could be decided (and holds); it may bind variables. Raises Miss."""
        if guard.head == "=":
            return self.equal(*guard.items[1:])
        if guard.head in COMPARISONS:
            a, b = map(self.valued, guard.items[1:])
            if a is None or b is None:
                return False
            ok: bool | None = COMPARISONS[guard.head](_text(a), _text(b))
            if not ok:
                raise Miss
            return True
        values = [self.env.get(str(a), a) if isinstance(a, Symbol) and a.is_name
                  else literal(a) for a in guard.items[1:]]
        if guard.head in BUILDERS:
            ok = True if guard.items[1].text in self.env else None
        elif guard.head in TESTS:
            ok = TESTS[guard.head](self, *values)
        else:
            ok = self.completed(guard.head, values)
        if ok is None:
            return False
        if not ok:
            raise Miss
        return True

    def completed(self, head: str, values: list[Any]) -> bool | None:
        """Whether a provider says so; the arguments that it completes are drawn from what it says.

        Raises AssertionError for a relation that nothing can draw.
        """
        says = next((p for p in self.providers
                     if head in p.relations and isinstance(p, Completing)), None)
        if says is None:
            raise AssertionError(f"the relation {head} has no strategy in tegg.testing.guards, "
                                 f"and its provider no method 'completions'; write one, or say "
                                 f"above its declaration in terms what it means")
        free = [i for i, v in enumerate(values) if isinstance(v, Symbol)]
        if any(i < says.known for i in free):
            return None
        try:
            found = says.completions(head, *values[:says.known])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            # A mistaken rule asks about a text of another kind, or about operands that do not fit.
            return False
        found = [f for f in found if all(_text(v) == _text(f[i])
                                         for i, v in enumerate(values[says.known:])
                                         if not isinstance(v, Symbol))]
        if not found:
            return False
        chosen = self.rng.choice(found)
        self.env.update({values[i].text: chosen[i - says.known] for i in free})
        return True

    def equal(self, left: Expr, right: Expr) -> bool:
        """``(= s (shape x))``, ``(= j (+ k 1))`` and their like, either way round: bind or compare,
        once a side is known."""
        for side, other in ((left, right), (right, left)):
            value = self.valued(side)
            known = not isinstance(other, List) or self.valued(other) is not None
            if value is not None and known:
                self.bind(other, value)
                return True
        return False

    def valued(self, e: Expr) -> Any:
        """An attribute, a number, or ``(shape x)``; None where it is not known yet. Raises Miss for
        a term, and where a number is divided by 0."""
        if isinstance(e, Symbol):
            return self.env.get(e.text) if e.is_name else literal(e)
        if e.head in ("shape", "dtype"):
            node = self.env.get(str(e.items[1]))
            return None if node is None else getattr(node, e.head)
        if e.head not in ARITHMETIC:
            raise Miss
        values = [self.valued(a) for a in e.items[1:]]
        if not all(isinstance(v, int) for v in values):
            return None
        try:
            return ARITHMETIC[e.head](*values)
        except ZeroDivisionError:
            raise Miss from None

    def bind(self, e: Expr, value: object) -> None:
        """A variable, a literal or what is known is this value. Raises Miss where it is another."""
        known = (self.env.setdefault(e.text, value) if isinstance(e, Symbol) and e.is_name
                 else self.valued(e))
        if _text(known) != _text(value):
            raise Miss

    # ---- terms
    def node(self, e: Expr, shape: tuple, dtype: DType) -> Node:
        """A node for a pattern, of this shape and dtype. Raises Miss."""
        if isinstance(e, Symbol):
            return self.variable(e.text, shape, dtype)
        if e.head in MEMORY:
            return self.node(e.items[1], shape, dtype)
        if e.head == ROUNDED:
            return self.rounded(self.node(e.items[2], shape, dtype), e)
        if e.head == "Const":
            return self.graph.op("Full", dtype, shape, const_bits(e, dtype))
        done = self.known(e)
        if done is None:
            op = self.table[e.head]
            done = self.operation(op, e.items[1:1 + op.arity], e.items[1 + op.arity:], shape, dtype)
        if done.shape != shape or done.dtype is not dtype:
            raise Miss
        return done

    def variable(self, name: str, shape: tuple, dtype: DType) -> Node:
        domain = self.domains.get(name, "any")
        if (name in self.domains and not dtype.is_float) or any(
                isinstance(n, int) and n < 0 for n in shape):
            raise Miss
        node = self.env.get(name)
        if node is None and name in self.defined:
            node = self.node(self.defined[name], shape, dtype)
        elif node is None and name in self.built:
            builder, args = self.built[name]
            node = BUILDERS[builder](self, args, shape, dtype)
        elif node is None and domain == "positive" and self.rng.random() < 0.5:
            node = self.graph.full(self.rng.choice((0.5, 2.0)), dtype, shape)
        elif (node is None and name in self.made and dtype.is_float
              and self.rng.random() < 0.5):
            node = self.graph.op("Sin", self.graph.input(f"{name}{len(self.inputs)}", shape, dtype))
            self.inputs.append((node.args[0], "any"))
        elif node is None:
            node = self.graph.input(f"{name}{len(self.inputs)}", shape, dtype)
            self.inputs.append((node, domain))
        if not isinstance(node, Node) or node.shape != shape or node.dtype is not dtype:
            raise Miss
        self.env[name] = node
        return node

    def known(self, e: Expr) -> Node | None:
        """The node of a term whose variables are all bound."""
        if isinstance(e, Symbol):
            found = self.env.get(e.text)
            if found is None and e.text in self.defined:
                found = self.known(self.defined[e.text])
                if found is not None:
                    self.env[e.text] = found
            return found if isinstance(found, Node) else None
        if e.head in MEMORY:
            return self.known(e.items[1])
        if e.head == ROUNDED:
            found = self.known(e.items[2])
            return None if found is None else self.rounded(found, e)
        if e.head == "Const" and self.owner is not None:
            return self.graph.op("Full", self.owner.dtype, self.owner.shape,
                                 const_bits(e, self.owner.dtype))
        if e.head not in self.table:
            return None
        op = self.table[e.head]
        args = [self.known(a) for a in e.items[1:1 + op.arity]]
        attrs = [self.attribute(a) for a in e.items[1 + op.arity:]]
        if any(a is None for a in (*args, *attrs)):
            return None
        return self.record(op, args, attrs)

    def rounded(self, node: Node, e: List) -> Node:
        """A value as a storage form keeps it. Raises Miss for a form that is no dtype."""
        form = DTYPES.get(str(literal(e.items[1])))
        if form is None:
            raise Miss
        return self.graph.cast(self.graph.cast(node, form), node.dtype)

    def attribute(self, e: Expr) -> Any:
        """A bound attribute, a literal, or ``(shape x)``; None where it is free."""
        if isinstance(e, List) and e.head in ("shape", "dtype"):
            node = self.known(e.items[1])
            return None if node is None else getattr(node, e.head)
        return self.valued(e)

    def beside(self, e: Expr) -> Any:
        """An attribute; of a free one that guards speak of, often what they say, or beside it."""
        known = self.attribute(e)
        if known is None and str(e) in self.likely and self.rng.random() < 0.9:
            return self.rng.choice(self.likely[str(e)])
        if known is None and str(e) in self.near and self.rng.random() < 0.5:
            return self.rng.choice(self.near[str(e)]) + self.rng.choice((-1, 0, 1))
        return known

    def record(self, op: Op, args: list[Node], attrs: list) -> Node:
        """An op on known operands. Raises Miss where the op table, or an attribute's kind, says no.
        """
        attrs = [_text(a) if kind == "mode" else a for a, (_, kind) in zip(attrs, op.attrs)]
        if not all(is_kind(a, kind) for a, (_, kind) in zip(attrs, op.attrs)):
            raise Miss
        attrs = [as_dtype(a) if kind == "dtype" else a for a, (_, kind) in zip(attrs, op.attrs)]
        try:
            return self.graph.op(op.name, *args, *attrs)
        except TeggError:
            raise Miss from None

    def operation(self, op: Op, args: tuple[Expr, ...], attrs: tuple[Expr, ...], shape: tuple,
                  dtype: DType) -> Node:
        """An op whose operands are still free: choose shapes and attributes that give ``shape``."""
        bound = [self.beside(a) for a in attrs]
        if not all(b is None or is_kind(b, kind) for b, (_, kind) in zip(bound, op.attrs)):
            raise Miss
        below = [self.known(a) for a in args]
        shapes, values = choose(op, shape, dtype, bound, below, self.sizes)
        values = [as_dtype(v) if kind == "dtype" else v
                  for v, (_, kind) in zip(values, op.attrs)]
        for a, v in zip(attrs, values):
            if not isinstance(a, List):
                self.bind(a, v)
        named = self.typed.get(str(args[0])) if args else None
        dtypes = self.operand_dtypes(op, dtype, values, named)
        nodes = [self.node(a, s, d) if k is None else k
                 for a, s, d, k in zip(args, shapes, dtypes, below)]
        return self.record(op, nodes, values)

    def operand_dtypes(self, op: Op, dtype: DType, attrs: list,
                       named: DType | None) -> list[DType]:
        """Dtypes of operands that give a result of this dtype; ``named``: what a guard says of the
        first."""
        if op.name == "Select":
            return [bool_, dtype, dtype]
        if op.kind == "index":
            return [dtype, i64, dtype][:op.arity]
        if op.name in ("Cast", "Held") or (dtype is bool_ and op.kind == "elementwise"):
            for other in (named,) if named else self.rng.sample(self.dtypes, len(self.dtypes)):
                with suppress(TeggError):
                    if op.dtype([other] * op.arity, attrs) is dtype:
                        return [other] * op.arity
        return [dtype] * op.arity


def instance(rule: Rule, table: OpTable, relations: Mapping[str, Relation],
             dtypes: tuple[DType, ...], rng: Random, tries: int = 10_000,
             providers: tuple[Provider, ...] = (), symbolic: bool = False) -> Instance:
    """Draw until a graph fits the rule's left side. Raises AssertionError where none was found.

    symbolic: whether sizes are known only at run time, where the rule matches such a graph.
    """
    for i in range(tries):
        sizes = Sizes(rng, symbolic and i < SYMBOLIC_TRIES)
        made = Instance(sizes, table, relations, dtypes, providers, Graph(table))
        try:
            made.take(rule.query)
            if i == 0 and (name := _inside_itself(made.defined)) is not None:
                raise AssertionError(f"{rule!r}: {name} stands inside of its own term, and no "
                                     f"graph is recorded so; write the rule without that")
            made.draw()
        except Miss:
            continue
        return made
    raise AssertionError(f"{rule!r}: no graph was found that its left side matches; a guard may be "
                         f"false always, or has no strategy in tegg.testing.guards")


def _text(value: object) -> object:
    """An attribute as rules read it: a dtype is its name."""
    return value.name if isinstance(value, DType) else value


def _inside_itself(defined: Mapping[str, Expr]) -> str | None:
    """A variable that must be a term which it is part of."""
    holds = {name: set(map(str, leaves(term))) for name, term in defined.items()}
    for name, todo in holds.items():
        seen: set[str] = set()
        todo = set(todo)
        while todo and name not in seen:
            inner = todo.pop()
            todo |= holds.get(inner, set()) - seen
            seen.add(inner)
        if name in seen:
            return name
    return None
