"""Classes that are alike: what is found out about one of them holds of all.

A model repeats its blocks, and each of its classes looks, as far as a kernel reaches, like one of
the block before. Two classes are alike where their e-nodes, and what can stand in for operands of
these, are the same but for names, and but for where slices start: the same choices of parts then
make the ways to compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tegg.extract.candidate import Body, Pricer
from tegg.ir.classes import ENode

Pick = tuple[int, ...]  # the number of an e-node of a class, then of a part for each operand of it


@dataclass(slots=True, eq=False)
class Told:
    """What is said of all bodies that one pick makes of classes that are alike.

    packs: whether panels are read in the place of leaves. rough, price: filled in by who asks.
    """

    pick: Pick
    packs: bool = False
    rough: float | None = None
    price: tuple[float, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """The ways to compute classes that are alike, and the least one: none where there is no way."""

    number: int
    least: Told | None
    ways: tuple[Told, ...]


@dataclass(frozen=True, slots=True)
class Names:
    """The key of a class, equal for those that it is like, and in their order the classes that its
    bodies can consist of."""

    key: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Form:
    """What stands in for a class, besides itself: a number, equal where the bodies are the same but
    for names; and the classes in them, itself first, in an order that is the same, too."""

    number: int
    order: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Alike:
    """Tells which classes are alike, operands before users. traits: all that extraction asks about
    a class by itself."""

    pricer: Pricer
    traits: Callable[[int], tuple]
    recipes: dict[tuple[int, ...], Recipe] = field(default_factory=dict)
    _numbers: dict[tuple, int] = field(default_factory=dict)
    _traits: dict[int, int] = field(default_factory=dict)
    _forms: dict[int, _Form] = field(default_factory=dict)
    _walks: dict[tuple, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def names(self, c: int) -> Names:
        """The names of a class, whose operands were all kept, or are no kernel's to compute."""
        nodes, states = self.pricer.roles.nodes[c], self.pricer.work.states
        operands = dict.fromkeys(a for n in nodes for a in n.args)
        key = [self._trait(c), len(nodes), len(operands)]
        number: dict[int, int] = {}
        for a in operands:
            form = self._form(a)
            key += (self._trait(a), form.number)
            key += [number.setdefault(x, len(number)) for x in form.order]
        for n in nodes:
            key.append(self.pricer.step(n))
            key += [number[a] for a in n.args]
            key.append(bool(n.args) and (n.args[0], c) in states)
        return Names(tuple(key), (c, *number))

    def learn(self, names: Names, least: Told | None, ways: Sequence[Told]) -> Recipe:
        """Remember how the ways of a class are made."""
        made = self.recipes[names.key] = Recipe(len(self.recipes), least, tuple(ways))
        return made

    def keep(self, c: int, names: Names, recipe: Recipe, kept: Sequence[Told],
             bodies: Iterable[Body]) -> None:
        """Which ways stand in for a class, besides itself: their bodies, after its least one."""
        key = (recipe.number, *(t.pick for t in kept))
        known = self._walks.get(key)
        if known is None:
            number, order = self._walked(c, bodies)
            place = {x: i for i, x in enumerate(names.order)}
            known = self._walks[key] = number, tuple(place[x] for x in order)
        number, places = known
        self._forms[c] = _Form(number, tuple(names.order[i] for i in places))

    def changed(self, c: int) -> None:
        """The traits of a class are no longer what they were."""
        self._traits.pop(c, None)

    def _walked(self, c: int, bodies: Iterable[Body]) -> tuple[int, tuple[int, ...]]:
        """A number for bodies, equal where they are the same but for names, and their classes in
        the order in which they come up."""
        number = {c: 0}
        found: list[int] = []
        for body in bodies:
            found.append(len(body))
            for k, n in body.items():
                found.append(self.pricer.step(n))
                for a in (*n.args, k):
                    if a not in number:
                        number[a] = len(number)
                        found.append(self._trait(a))
                    found.append(number[a])
                found += self._also(k, n)
        return self._number("bodies", *found), tuple(number)

    def _also(self, c: int, node: ENode) -> list[int]:
        """What else matters of an e-node in a body: whether it updates a state, and what takes its
        place where it may not stand (``Cones``)."""
        others = [self.pricer.step(n) for n in self.pricer.roles.nodes[c]
                  if n.args == node.args] if node.op.alone else []
        return [bool(node.args) and (node.args[0], c) in self.pricer.work.states,
                len(others), *others]

    def _form(self, c: int) -> _Form:
        found = self._forms.get(c)
        if found is None:  # it is given, or spelled in kernels
            roles = self.pricer.roles
            steps = [self.pricer.step(roles.nodes[c][0])] if c in roles.constant else []
            found = self._forms[c] = _Form(self._number("itself", *steps), (c,))
        return found

    def _trait(self, c: int) -> int:
        found = self._traits.get(c)
        if found is None:
            found = self._traits[c] = self._number("trait", *self.traits(c))
        return found

    def _number(self, *what: object) -> int:
        return self._numbers.setdefault(what, len(self._numbers))
