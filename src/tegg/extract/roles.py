"""What each class is to extraction: given, constant, moved, ahead, or a possible border."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tegg.ir.classes import EClasses, ENode
from tegg.dim import Poly
from tegg.extract.coarsen import coarsened
from tegg.extract.order import ordered
from tegg.ir.reading import widened
from tegg.extract.prune import Lowerable, Nodes, lowered, roots

CONSTANT = ("Full", "Iota", "Size")
Reference = tuple[int, tuple[int, ...]]  # a computed class, and the movement on the way to it


@dataclass(slots=True)
class Roles:
    """The e-classes as extraction works on them: acyclic, coarse, lowerable, in order.

    given: inputs. weights: those of known size that change only between runs. constant: spelled
    inside kernels. moved: movement of others and nothing else; they never rest in memory, the
    reader moves. counted: sums and products of positions, which cost less than to read what they
    give, and floats of 16 bits made wide, which are read as those: no kernel stores them for
    others. known: what depends on weights and constants of known size alone. ahead: of these what
    is computed; a kernel that runs when weights change may store it. weighted: of these again what
    depends on weights, and is not made of constants alone. carried: on either side of a copy to
    another memory: they lie in their own dtype. still: what lies in memory, or can, before a run
    starts, or is read as what does. users: computed class -> those that read it, through movement.
    """

    classes: EClasses
    nodes: Nodes
    rank: dict[int, int]
    roots: tuple[int, ...]
    given: frozenset[int]
    weights: frozenset[int]
    constant: frozenset[int]
    moved: frozenset[int]
    counted: frozenset[int]
    known: frozenset[int]
    ahead: frozenset[int]
    weighted: frozenset[int]
    carried: frozenset[int]
    still: frozenset[int]
    users: dict[int, list[int]]
    _evaluated: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self._evaluated = frozenset(self.nodes) - self.given - self.constant - self.moved

    def computed(self, c: int) -> bool:
        """Whether a kernel of some plan has to evaluate the class."""
        return c in self._evaluated

    def last(self, leaves: Iterable[int], outs: Iterable[int]) -> int:
        """The place, in the one order of all classes, of the last one that a kernel waits for: what
        is ahead is there before a run starts. -1 where it waits for none."""
        done = self.given if self.ahead.issuperset(outs) else self.given | self.ahead
        return max((self.rank[a] for a in leaves if a not in done), default=-1)

    def references(self, node: ENode, every: bool = False) -> list[Reference]:
        """The classes below an e-node's operands, through movement, each with its way.

        Where movement has alternatives the first is followed, or ``every`` one.
        """
        found: dict[Reference, None] = {}
        todo: list[Reference] = [(a, ()) for a in reversed(node.args)]
        while todo:
            c, way = todo.pop()
            if c in self.moved:
                for n in self.nodes[c][:None if every else 1]:
                    todo.append((n.args[0], (*way, c)))
            else:
                found[c, way] = None
        return list(found)


def assign(classes: EClasses, lowerable: Lowerable, target: str) -> Roles:
    """The roles of the classes that the roots need."""
    wanted = roots(classes)
    nodes, rank = ordered(lowered(classes, lowerable, target))
    nodes = coarsened(nodes, rank, wanted)
    slots = {c: n.attrs[0] for c, ns in nodes.items() for n in ns if n.op.name == "Input"}
    given = frozenset(slots)
    weights = frozenset(c for c, s in slots.items() if classes.graph.inputs[s].kind == "weight"
                        and not any(isinstance(d, Poly) for d in classes.shape[c]))
    copied = {c: {a for n in ns if n.op.kind == "copy" for a in n.args}
              for c, ns in nodes.items() if any(n.op.kind == "copy" for n in ns)}
    stored = given.union(*copied.values())  # a copy reads memory
    constant = frozenset(c for c, ns in nodes.items()
                         if c not in stored and any(n.op.name in CONSTANT for n in ns))
    nodes = {c: ([n for n in ns if not n.args] if c in given or c in constant else ns)
             for c, ns in nodes.items()}
    moved = frozenset(c for c, ns in nodes.items() if c not in stored and c not in constant
                      and all(n.op.kind == "movement" for n in ns))
    written = {*wanted, *(a for c in wanted for a in copied.get(c, ()))}
    known, plain = (_known(classes, nodes, rank, ws, written) for ws in (weights, frozenset()))
    wide = {c for c, ns in nodes.items() if any(widened(c, n, classes.dtype) for n in ns)}
    wide -= {*stored, *moved, *wanted}
    counted = frozenset(wide | _counted(classes, nodes, rank, constant) - stored - moved
                        - set(wanted))
    ahead = known - weights - constant - moved - counted
    still = weights | ahead | frozenset(wide & known)
    for c in ahead:
        nodes[c] = [n for n in nodes[c] if known.issuperset(n.args) and not _symbolic(n)]
    roles = Roles(classes, nodes, rank, wanted, given, weights, constant, moved, counted, known,
                  ahead, ahead - plain, frozenset(copied).union(*copied.values()), still, {})
    roles.users = _users(roles)
    return roles


def _known(classes: EClasses, nodes: Nodes, rank: dict[int, int], weights: frozenset[int],
           wanted: set[int]) -> frozenset[int]:
    """Classes whose value is known before a run: no argument, no state, no symbolic size.

    A root is written at each run, and so is what needs it.
    """
    known = set(weights)
    for c in sorted(nodes, key=rank.__getitem__):
        if c in wanted or any(isinstance(d, Poly) for d in classes.shape[c]):
            continue
        if any(n.op.name != "Input" and known.issuperset(n.args) and not _symbolic(n)
               for n in nodes[c]):
            known.add(c)
    return frozenset(known)


def _counted(classes: EClasses, nodes: Nodes, rank: dict[int, int],
             constant: frozenset[int]) -> frozenset[int]:
    """Classes of integers that are sums and products of positions, moved or not, and comparisons
    of those along one axis with a number, such as where a part of a row ends."""
    found = {c for c in constant if classes.dtype[c].kind == "int"}
    masks: set[int] = set()
    for c in sorted(nodes, key=rank.__getitem__):
        if any((n.op.name in ("Add", "Mul") or n.op.kind == "movement")
               and n.args and found.issuperset(n.args) for n in nodes[c]):
            found.add(c)
        elif sum(d != 1 for d in classes.shape[c]) == 1 and any(
                n.op.name == "LessThan" and found.issuperset(n.args) for n in nodes[c]):
            masks.add(c)
    return frozenset((found | masks) - constant)


def _symbolic(node: ENode) -> bool:
    return any(isinstance(d, Poly) for a in node.attrs if isinstance(a, tuple) for d in a)


def _users(roles: Roles) -> dict[int, list[int]]:
    """Per computed class its readers; a moved root reads as a computed class does."""
    users: dict[int, dict[int, None]] = {c: {} for c in roles.nodes}
    for c, ns in roles.nodes.items():
        if roles.computed(c) or (c in roles.moved and c in roles.roots):
            for n in ns:
                for base, _ in roles.references(n, every=True):
                    users[base][c] = None
    return {c: list(u) for c, u in users.items()}
