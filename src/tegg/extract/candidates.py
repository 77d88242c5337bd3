"""From cones to candidate kernels: inner stores, siblings and storage forms."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from tegg.extract.candidate import Body, Candidate, Pricer
from tegg.extract.cones import Cone, Cones
from tegg.extract.legal import below, products
from tegg.extract.roles import Roles
from tegg.extract.siblings import joined


class Candidates:
    """Builds the candidate kernels of a set of cones."""

    def __init__(self, cones: Cones, pricer: Pricer) -> None:
        self.cones, self.pricer, self.roles = cones, pricer, cones.roles
        self.limits = cones.limits

    def all(self) -> list[Candidate]:
        """Every candidate, in a fixed order, without dominated ones."""
        roots = self._reachable()
        found: list[Candidate] = []
        readers: dict[int, set[int]] = defaultdict(set)
        for c in roots:
            for z in self.cones.cuts[c]:
                for a in z.leaves:
                    readers[a].add(c)
        for c in roots:
            for z in self.cones.cuts[c]:
                found.append(self._kernel((c,), z.leaves, z.body, z.seconds))
                for extra in self._stores(z, readers):
                    found.append(self._kernel((c, *extra), z.leaves, z.body))
        for outs, leaves, body in joined(self.cones, roots):
            seconds, values = self.pricer.price(outs, leaves, body)
            if values <= 2 * self.limits.values:
                found.append(self._kernel(outs, leaves, body, seconds))
        # what is known ahead is written ahead, or not stored at all
        found = [k for k in found if k.ahead or self.roles.ahead.isdisjoint(k.outs)]
        return undominated(self._forms(found), self.roles) + self._conversions()

    def _reachable(self) -> list[int]:
        """Classes that some kernel of a cover could have to write, in order."""
        seen: set[int] = set()
        todo = list(self.roles.roots)
        while todo:
            c = todo.pop()
            if c not in seen:
                seen.add(c)
                todo.extend(a for z in self._cuts(c) for a in z.leaves
                            if a not in self.roles.given)
        return sorted(seen, key=self.roles.rank.__getitem__)

    def _cuts(self, c: int) -> list[Cone]:
        """The cones of a class; a constant that is a root is a cone without leaves."""
        if c not in self.cones.cuts:
            body = {c: self.roles.nodes[c][0]}
            seconds, _ = self.pricer.price((c,), (), body)
            self.cones.cuts[c] = [Cone(c, frozenset(), body, seconds)]
        return self.cones.cuts[c]

    def _kernel(self, outs: tuple[int, ...], leaves: Iterable[int], body: Body,
                seconds: float | None = None) -> Candidate:
        order = tuple(sorted(leaves, key=self.roles.rank.__getitem__))
        if seconds is None:
            seconds, _ = self.pricer.price(outs, order, body)
        still = self.roles.still
        return Candidate(outs, order, body, seconds,
                         all(o in self.roles.ahead for o in outs) and still.issuperset(order))

    def _stores(self, z: Cone, readers: dict[int, set[int]]) -> list[tuple[int, ...]]:
        """Sets of inner values that others read and the cone's kernel could write as well.

        All leaves that the run computes must come before such a value, in the one order of all
        classes. Cones and siblings are so by themselves; with this every candidate is, and no
        choice of candidates can wait for itself.
        """
        roles, cones = self.roles, self.cones
        last = roles.last(z.leaves, (z.root,))
        inner = [k for k in z.body if k != z.root and roles.rank[k] > last
                 and (k in roles.roots and k not in roles.constant
                      or cones.storable(k) and readers[k] - set(z.body))]
        if not self.limits.store_prologue:
            anchors = products(z.body)
            packed = below(z.root, z.body) - _above(anchors, z.body) if anchors else set()
            inner = [k for k in inner if k not in packed]
        inner = sorted(inner, key=lambda k: (-cones.flow[k], k))[:self.limits.inner]
        inner.sort(key=roles.rank.__getitem__)
        return [extra for n in range(1, len(inner) + 1)
                for extra in itertools.combinations(inner, n)]

    def _conversions(self) -> list[Candidate]:
        """A weight that has a storage form can be converted to it ahead."""
        out = []
        for c in sorted(self.roles.weights):
            for form in sorted(self.pricer.forms.get(c, ())):
                seconds, _ = self.pricer.price((c,), (c,), {}, "", form)
                out.append(Candidate((c,), (c,), {}, seconds, True, "", form))
        return out

    def _forms(self, kernels: list[Candidate]) -> list[Candidate]:
        """Per form: all reads that have it in it or none, likewise all writes."""
        forms = sorted({f for fs in self.pricer.forms.values() for f in fs})
        out = list(kernels)
        for k in kernels:
            has = {f: ([a for a in k.leaves if self.pricer.form(a, f) != self.pricer.form(a)],
                       [o for o in k.outs if self.pricer.form(o, f) != self.pricer.form(o)])
                   for f in forms}
            for f, (read, write) in has.items():
                for r, w in ((f, ""), ("", f), (f, f)):
                    if (r and not read) or (w and not write):
                        continue
                    seconds, _ = self.pricer.price(k.outs, k.leaves, k.body, r, w)
                    out.append(replace(k, seconds=seconds, read=r, write=w))
        return out


def _above(anchors: list[int], body: Body) -> set[int]:
    """The contractions of a body and what is computed from them."""
    above = set(anchors)
    for c, n in body.items():
        if not above.isdisjoint(n.args):
            above.add(c)
    return above


def undominated(kernels: list[Candidate], roles: Roles) -> list[Candidate]:
    """Drop a kernel if another of the same class, which reads and writes the same forms, reads no
    more, writes no less and costs no more."""
    kept: dict[tuple, list[tuple[frozenset[int], frozenset[int]]]] = defaultdict(list)
    out = []
    for i, k in sorted(enumerate(kernels),
                       key=lambda z: (z[1].seconds, -len(z[1].outs), len(z[1].leaves), z[0])):
        leaves, outs = frozenset(k.leaves) - roles.given, frozenset(k.outs)
        others = kept[k.outs[0], k.read, k.write]
        if any(a <= leaves and b >= outs for a, b in others):
            continue
        others.append((leaves, outs))
        out.append((i, k))
    return [k for _, k in sorted(out, key=lambda z: z[0])]
