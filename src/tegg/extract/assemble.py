"""From chosen candidates to a cover: only what is needed is written, in an order that can run."""

from __future__ import annotations

from tegg.ir.classes import KernelSpec
from tegg.extract.candidate import Candidate, Pricer
from tegg.extract.legal import below, products
from tegg.extract.problem import Problem


def assemble(problem: Problem, pricer: Pricer, used: list[int]) -> dict[int, KernelSpec]:
    """Chosen candidate -> kernel, in an order that can run; those that run ahead stand first."""
    writer = problem.writer_of(used)
    order = problem.needed(used)
    order.sort(key=lambda k: not problem.kernels[k].ahead)
    read = {r for k in order for r in problem.reads[k]} | set(problem.wanted)
    specs = {}
    for k in order:
        keep = tuple(o for o, w in zip(problem.kernels[k].outs, problem.writes[k])
                     if writer[w] == k and w in read)
        specs[k] = _spec(problem.kernels[k], keep, pricer)
    return specs


def _spec(k: Candidate, outs: tuple[int, ...], pricer: Pricer) -> KernelSpec:
    """A candidate as a kernel that writes ``outs`` and no more."""
    body, leaves, seconds = k.body, k.leaves, k.seconds
    if outs != k.outs:
        inside: set[int] = set()
        for o in outs:
            inside |= below(o, body)
        body = {c: n for c, n in body.items() if c in inside}
        read = {a for n in body.values() for a in n.args}
        leaves = tuple(a for a in leaves if a in read)
        seconds, _ = pricer.price(outs, leaves, body, k.read, k.write)
    anchors = products(body)
    return KernelSpec(outs, leaves, body, seconds, anchors[0] if anchors else None, k.ahead,
                      _forms(leaves, k.read, pricer), _forms(outs, k.write, pricer))


def _forms(classes: tuple[int, ...], form: str, pricer: Pricer) -> tuple[str, ...]:
    found = tuple(pricer.form(c, form) for c in classes)
    return found if any(found) else ()
