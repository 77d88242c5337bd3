"""Facts about permutations, which text rules cannot compose."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from tegg.rewrite.providers import Fact
from tegg.rewrite.view import View


class Permutations:
    """``(perm-compose p q r)``: permuting by p, then by q, is permuting by r. ``(perm-id p)``.

    ``(perm-units p s t)``: permuting a tensor of shape s by p moves only axes of size 1, so it
    is a reshape to t.
    """

    name = "permutations"
    relations = MappingProxyType({"perm-compose": ("String", "String", "String"),
                                  "perm-id": ("String",),
                                  "perm-units": ("String", "String", "String")})

    def facts(self, view: View) -> Iterable[Fact]:
        used = {(n.attrs[0], view.shape[n.args[0]]) for _, n in view.having("Permute")}
        perms = {p for p, _ in used}
        for p in perms:
            if _identity(p):
                yield ("perm-id", p)
        inner = {(n.attrs[0], m.attrs[0]) for _, n in view.having("Permute")
                 for m in view.nodes[n.args[0]] if m.op.name == "Permute"}
        for q, p in inner:
            r = tuple(p[i] for i in q)
            yield ("perm-compose", p, q, r)
            if _identity(r):
                yield ("perm-id", r)
        for p, s in used:
            moved = [i for i in p if s[i] != 1]
            if moved == sorted(moved) and not _identity(p):
                yield ("perm-units", p, s, tuple(s[i] for i in p))


def _identity(p: tuple[int, ...]) -> bool:
    return p == tuple(range(len(p)))
