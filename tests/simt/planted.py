"""Bugs planted into kernels as they are emitted: each kind, at each place, a kernel of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from simt import cases
from simt.metal_module import MetalModule
from simt.simulator import ORDERS, Module, SimulatorError

from tegg.ir.oracle import evaluate
from tegg.kernel.code import KernelCode

_BARRIER = r"(?:__syncthreads|__syncwarp|threadgroup_barrier|simdgroup_barrier)\([^)]*\)+;"
_Change = tuple[str, str | Callable[[re.Match], str]]
# What is wrong: where, and what stands there instead. Bodies alone are changed, not their heads.
ORDER: dict[str, _Change] = {  # each is a bug, wherever it stands
    "no barrier": (_BARRIER, ";"),
    "no wait": (r"copies_wait\(\d+\);", ";"),
    "a group too few is waited for": (r"copies_wait\((\d+)\)",
                                      lambda m: f"copies_wait({int(m[1]) + 1})"),
    "not committed": (r"copies_commit\(\);", ";"),
}
INDEX: dict[str, _Change] = {  # some change what nobody reads, or a loop of one step
    "one too many": (r"(?<=[\w)\]]) < (?=[\w(])", " <= "),
    "two threads are one": (r"\b(thread_id|lane_id)\(\)(?! / \d)", r"(\1() / 2 * 2)"),
    "every other is skipped": (r"\+= ([^;{]+)\) \{", r"+= 2 * (\1)) {"),
    "what was there stays": (r"(?<=  )(\w+\[[^;={}]*\]) = (value|next|x|e);", r"if (\2 != 0) \1 = \2;"),
    "neighbours overlap": (r"\+ (8|16|32) \* (?=[ij]\b)", lambda m: f"+ {int(m[1]) // 2} * "),
    "another row": (r"\* (\d\d+)(?=[)\] ])", lambda m: f"* {int(m[1]) + 1}"),
}


@dataclass(frozen=True, slots=True)
class Planted:
    """A kernel with one bug. line: the line that is wrong, as it was."""

    kind: str
    line: str
    code: KernelCode


def planted(code: KernelCode) -> Iterator[Planted]:
    """A kernel for each bug."""
    number = 0
    for kind, (pattern, wrong) in {**ORDER, **INDEX}.items():
        for m in re.finditer(pattern, code.source):
            start = code.source.rfind("\n", 0, m.start()) + 1
            line = code.source[start:code.source.index("\n", m.start())].strip()
            if re.search(r"\b(void|__shared__|SHARED)\s", line):
                continue
            new = m.expand(wrong) if isinstance(wrong, str) else wrong(m)
            text = f"{code.source[:m.start()]}{new}{code.source[m.end():]}"
            yield Planted(kind, line, renamed(replace(code, source=text), f"m{number}"))
            number += 1


def renamed(code: KernelCode, suffix: str) -> KernelCode:
    """The same, whose functions have other names."""
    text, stages = code.source, []
    for s in code.stages:
        text = re.sub(rf"\b{s.function}\b(?=\()", f"{s.function}_{suffix}", text)
        stages.append(replace(s, function=f"{s.function}_{suffix}"))
    return replace(code, source=text, stages=tuple(stages))


class Wrong(Module):
    """Kernels that a compiler may warn of."""

    WARNINGS = ("-w",)


class WrongMetal(MetalModule):
    WARNINGS = (*MetalModule.WARNINGS, "-w")


def unit(bugs: list[Planted], kit: cases.Kit) -> Module:
    """All of them as one translation unit."""
    text = "\n".join([cases.prelude(kit), *(b.code.source for b in bugs)])
    return (Wrong if kit is cases.CUDA else WrongMetal)(text)


def unseen(c: cases.Case, mutants: Mapping[str, tuple[str, str, str]], **near: float) -> list[str]:
    """The names of those mutants of a CUDA kernel that nothing tells. Each is a pattern, what stands
    in its place, and a pattern of what the simulator says of it; "" where the results may tell, which
    are not ``near`` the oracle's. Raises AssertionError where the kernel itself is wrong."""
    want, made = evaluate(c.outputs, c.inputs, {})[0], []
    for number, (right, wrong, _) in enumerate(mutants.values()):
        body, count = re.subn(right, wrong, c.code.source)
        assert count >= 1, f"{right}\n{c.code.source}"
        made.append(Planted(right, "", renamed(replace(c.code, source=body), f"m{number}")))
    module = unit([Planted("", "", c.code), *made], cases.CUDA)

    def close(code: KernelCode, order: int) -> bool:
        return np.allclose(cases.run(module, replace(c, code=code), order)[0], want, **near)

    assert all(close(c.code, order) for order in ORDERS)
    missed = []
    for number, (name, bug) in enumerate(zip(mutants, made)):
        says = mutants[name][2]
        try:
            if close(bug.code, number % len(ORDERS)) or says:
                missed.append(name)
        except SimulatorError as e:
            if not re.search(says, str(e)):
                missed.append(f"{name}: {e}")
    return missed
