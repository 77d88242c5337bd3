"""K-feasible cones: per class the best few ways to compute it from values that rest in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from tegg.errors import ExtractionError
from tegg.ir.classes import ENode
from tegg.extract.alike import Alike, Names, Pick, Recipe, Told
from tegg.extract.borders import Borders
from tegg.extract.candidate import Body, Pricer
from tegg.extract.legal import Legality
from tegg.extract.limits import Limits
from tegg.extract.roles import Roles
from tegg.ir.template import OWN


@dataclass(frozen=True, slots=True, eq=False)
class Cone:
    """A class computed from leaves. ``body`` lists operands before users."""

    root: int
    leaves: frozenset[int]
    body: Body
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What stands in for an operand: a leaf, or a body down to leaves."""

    leaves: frozenset[int]
    body: Body


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """A way to compute a class, and what is said of all that are like it."""

    leaves: frozenset[int]
    body: Body
    told: Told


class Cones:
    """The cones of every class, and the area flow that ranks them.

    The flow of a class is what it costs per reader: its best cone with the flow of that cone's
    leaves, shared between the readers.
    """

    def __init__(self, roles: Roles, pricer: Pricer, limits: Limits,
                 borders: Borders) -> None:
        self.roles, self.pricer, self.limits = roles, pricer, limits
        self.inner, self.together = set(borders.inner), borders.together
        self.legality = Legality(roles.classes, pricer.work, limits)
        self.cuts: dict[int, list[Cone]] = {}
        self._least: dict[int, _Part] = {}  # with every border taken: always possible
        self.flow: dict[int, float] = dict.fromkeys(roles.nodes, 0.0)
        self.tried = 0
        self._parts: dict[int, list[_Part]] = {}
        self._rough: dict[int, float] = {}
        self._settled = frozenset(c for c in roles.weighted if self.storable(c)
                                  and pricer.values.size[c] <= limits.settled)
        self._shareable = {c for c in roles.nodes if self._wanted(c)}
        self._alike = Alike(pricer, self._traits)
        for c in roles.nodes:
            if c not in roles.given and c not in roles.constant:
                self._enumerate(c)
        del self._alike  # it asks this object for traits: nothing else would be freed in time

    def storable(self, c: int) -> bool:
        """Whether a kernel may leave the class in memory for others."""
        return self.roles.computed(c) and c not in self.inner

    def shared(self, cone: Cone) -> frozenset[int]:
        """Inner values that the cone's kernel could store for other readers."""
        return frozenset(cone.body.keys() & self._shareable) - {cone.root}

    def _wanted(self, c: int) -> bool:
        """Whether others would read a class, if a kernel stored it."""
        return c in self.roles.roots or (self.storable(c) and len(self.roles.users[c]) > 1)

    def _traits(self, c: int) -> tuple:
        """All that the ways to compute a class, and its readers, depend on of the class by itself:
        not on its flow, nor on who reads it, by which they are ranked."""
        roles = self.roles
        return (self.pricer.kind(c), roles.classes.shape[c], c in roles.given,
                c in roles.constant, c in roles.known, c in self._settled, self.storable(c))

    # ---- enumeration
    def _choices(self, c: int) -> list[_Part]:
        found = self._parts.get(c)
        if found is None:
            roles = self.roles
            if c in roles.constant:
                found = [_Part(frozenset(), {c: roles.nodes[c][0]})]
            elif c in roles.given:
                found = [_Part(frozenset((c,)), {})]
            else:
                first = _Part(frozenset((c,)), {}) if self.storable(c) else self._least[c]
                found = [first, *(_Part(z.leaves, z.body) for z in self.cuts[c]
                                  if z.body[c].op.kind != "copy")]
            self._parts[c] = found
        return found

    def _choices_for(self, c: int, a: int) -> list[_Part]:
        """What can stand in for an operand of ``c``. A run reads what depends on weights alone and
        is small, and does not compute it: reading costs no more, and each way to compute it would
        be tried with each way to compute the rest."""
        choices = self._choices(a)
        if a not in self.roles.known or c in self.roles.known:
            return choices
        return [choices[0], *(p for p in choices[1:] if self._settled.isdisjoint(p.body))]

    def _enumerate(self, c: int) -> None:
        if self._cut(c):
            return
        self._release(c)  # what it takes in cannot be one kernel with it: borders again
        if not self._cut(c):
            ops = ", ".join(sorted({n.op.name for n in self.roles.nodes[c]}))
            raise ExtractionError(
                f"no kernel can be made of {ops}: what it takes in has no form that stands in one "
                "kernel with it; let the target lower more forms of it, or leave out the rules "
                "that state this one")

    def _release(self, c: int) -> None:
        """Make every class below ``c`` a border, and movement on the way to it a reader of it."""
        bases = {b for n in self.roles.nodes[c] for b, _ in self.roles.references(n, every=True)}
        ways = {m for n in self.roles.nodes[c] for _, way in self.roles.references(n, every=True)
                for m in way}
        self.inner -= bases
        self._shareable |= {b for b in bases if self._wanted(b)}
        for b in bases | ways:
            self._parts.pop(b, None)
            self._alike.changed(b)
        for m in sorted(ways, key=self.roles.rank.__getitem__):
            self._cut(m)

    def _cut(self, c: int) -> bool:
        """Find the cones of a class, as they were found of one that is like it. Whether there are
        any."""
        names = self._alike.names(c)
        recipe = self._alike.recipes.get(names.key) or self._learned(c, names)
        if recipe.least is None:
            return False
        least = self._way(c, recipe.least)
        self._least[c] = _Part(least.leaves, least.body)
        kept = self._keep(c, least, [self._way(c, told) for told in recipe.ways])
        self._alike.keep(c, names, recipe, [z.told for z in kept],
                         [z.body for z in (least, *kept)])
        return True

    def _learned(self, c: int, names: Names) -> Recipe:
        """How the ways of a class are made: per set of leaves the body that looks best; where
        leaves have storage forms, also the best of those that read leaves, and not panels that are
        packed from them ahead."""
        found: dict[tuple[frozenset[int], bool], list[tuple[Pick, Body]]] = {}
        least: Told | None = None
        for i, n in self._forms(c):
            width = max(2, int(self.limits.combinations ** (1 / max(1, len(set(n.args))))))
            options = [enumerate(self._choices_for(c, a)[:width]) for a in dict.fromkeys(n.args)]
            for chosen in itertools.product(*options):
                self.tried += 1
                leaves, body = self._joined(c, n, [part for _, part in chosen])
                if body is None or not self.legality.allows(c, body):
                    continue
                pick = (i, *(j for j, _ in chosen))
                if least is None:
                    least = Told(pick)
                elif self._acts(leaves) > self.limits.inputs:
                    continue
                found.setdefault((leaves, self._packs(leaves, body)), []).append((pick, body))
        return self._alike.learn(names, least, [
            self._likeliest(bodies, packs) for (_, packs), bodies in found.items()])

    def _way(self, c: int, told: Told) -> _Way:
        """The way of a class that a pick makes."""
        i, *chosen = told.pick
        n = self.roles.nodes[c][i]
        leaves, body = self._joined(c, n, [self._choices_for(c, a)[j] for a, j in
                                           zip(dict.fromkeys(n.args), chosen)])
        assert body is not None, "a pick of a class that is not like this one"
        return _Way(leaves, body, told)

    def _forms(self, c: int) -> list[tuple[int, ENode]]:
        """The e-nodes of a class, numbered; of the tiles that one template has for the same product
        the one that looks best, for all that they could be joined with is the same."""
        alike: dict[tuple, list[tuple[int, ENode]]] = {}
        for i, n in enumerate(self.roles.nodes[c]):
            own = (n.attrs[:OWN], bool(self.pricer.forms) and self.pricer.packs_ahead(n, c)) \
                if n.op.template else n.attrs
            alike.setdefault((n.op.name, n.args, own), []).append((i, n))
        return [ns[0] if len(ns) == 1 else min(ns, key=lambda x: self._roughly(x[1], c))
                for ns in alike.values()]

    def _likeliest(self, bodies: list[tuple[Pick, Body]], packs: bool) -> Told:
        """Of bodies with the same leaves the one that looks best; that is asked only where there
        are several."""
        if len(bodies) == 1:
            return Told(bodies[0][0], packs)
        rough, pick = min(((self._rough_of(b), i) for i, (_, b) in enumerate(bodies)))
        return Told(bodies[pick][0], packs, rough)

    def _joined(self, c: int, node: ENode,
                parts: Iterable[_Part]) -> tuple[frozenset[int], Body | None]:
        """The parts as one body: one meaning per class, nothing both read and computed."""
        leaves: frozenset[int] = frozenset()
        body: dict[int, ENode] = {}
        for p in parts:
            leaves |= p.leaves
            if body and any(p.body[k] is not body[k] for k in p.body.keys() & body.keys()):
                return leaves, None
            body.update(p.body)
        if not leaves.isdisjoint(body):
            return leaves, None
        if node.op.kind == "attention":
            body = {k: self._beside(k, n) for k, n in body.items()}
        body[c] = node
        return leaves, body

    def _beside(self, c: int, node: ENode) -> ENode:
        """The e-node, or in the place of a product that stands alone in its kernel the form of it
        that looks best among those that do not."""
        if not node.op.alone:
            return node
        others = [n for n in self.roles.nodes[c] if n.op.kind == node.op.kind and not n.op.alone
                  and (n.args, n.attrs[0]) == (node.args, node.attrs[0])]
        return min(others, key=lambda n: self.pricer.rough(n, c), default=node)

    def _packs(self, leaves: frozenset[int], body: Body) -> bool:
        """Whether a body reads panels in place of leaves that have storage forms."""
        return (not leaves.isdisjoint(self.pricer.forms)
                and any(self.pricer.packs_ahead(n, k) for k, n in body.items()))

    def _acts(self, leaves: frozenset[int]) -> int:
        """Leaves that are activations: weights do not count against the limit."""
        return len(leaves - self.roles.still)

    def _rank(self, way: _Way) -> float:
        """A rough price with the flow of the leaves, to choose which cones are priced."""
        if way.told.rough is None:
            way.told.rough = self._rough_of(way.body)
        return sum([self.flow[a] + self.pricer.stored(a) for a in way.leaves]) + way.told.rough

    def _rough_of(self, body: Body) -> float:
        return sum([self._roughly(n, k) for k, n in body.items()])

    def _roughly(self, node: ENode, c: int) -> float:
        """``Pricer.rough`` of an e-node of the roles, which lives as long."""
        known = self._rough.get(id(node))
        if known is None:
            known = self._rough[id(node)] = self.pricer.rough(node, c)
        return known

    def _keep(self, c: int, least: _Way, ways: list[_Way]) -> list[_Way]:
        """Price the most promising cones, drop dominated ones, keep the best few, and with them the
        one that waits for fewest values: flow makes what is read several times look cheap in
        memory, also where one kernel holds all its readers, and theirs again. The ways of those
        that are kept, in the order of the cones."""
        best, most = ways, 2 * self.limits.cuts
        if len(best) > most:
            best.sort(key=lambda z: (self._rank(z), sorted(z.leaves), z.told.packs))
            best[most:] = [min(best[most:], key=lambda z: self._waits(z.leaves))]
        priced = []
        for way in best:
            seconds, values = self._price(c, way)
            if values <= self.limits.values:
                priced.append((Cone(c, way.leaves, way.body, seconds), way))
        priced.sort(key=lambda z: (self._total(z[0]), len(z[0].body), sorted(z[0].leaves)))
        made = dict(priced)
        kept = self._undominated(list(made))
        if kept:
            alone = min(kept, key=lambda z: (self._waits(z.leaves), z.seconds))
            kept = list(dict.fromkeys([kept[0], alone, *kept]))[:self.limits.cuts]
        if not any(z.leaves <= least.leaves for z in kept):
            cone = Cone(c, least.leaves, least.body, self._price(c, least)[0])
            made[cone] = least
            kept.append(cone)
        self.cuts[c] = kept
        self.flow[c] = self._flow(c, kept[0])
        return [made[z] for z in kept]

    def _price(self, c: int, way: _Way) -> tuple[float, int]:
        """Seconds of a way as a kernel, and how many values its code computes."""
        if way.told.price is None:
            way.told.price = self.pricer.price((c,), way.leaves, way.body)
        return way.told.price

    def _waits(self, leaves: frozenset[int]) -> int:
        """How many values other kernels must compute first."""
        return len(leaves - self.roles.given)

    def _flow(self, c: int, best: Cone) -> float:
        """What a class costs each reader. Nothing, where it is an argument in another memory: all
        covers copy that, and a reader of the copy is no dearer than one of what is computed from it
        for several readers."""
        roles = self.roles
        if all(n.op.kind == "copy" and roles.given.issuperset(n.args) for n in roles.nodes[c]):
            return 0.0
        return self._total(best) / max(1, len(roles.users[c]) if roles.computed(c) else 1)

    def _total(self, cone: Cone) -> float:
        return cone.seconds + sum(self.flow[a] for a in cone.leaves)

    def _undominated(self, cones: list[Cone]) -> list[Cone]:
        """Drop a cone if another reads less, costs no more, and could store as many values."""
        shared = [self.shared(z) for z in cones]
        out = []
        for i, z in enumerate(cones):
            if not any(i != j and y.leaves < z.leaves and y.seconds <= z.seconds
                       and shared[j] >= shared[i] for j, y in enumerate(cones)):
                out.append(z)
        return out
