"""``check_compilers``: one call that holds a stack of compilers against the meaning of its ops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tegg.dtype import DTYPES
from tegg.ir.code import code_of
from tegg.ir.op import OPS
from tegg.planning.target import find
from tegg.rewrite.compiler import Compiler, Generic, stack
from tegg.testing.agree import check_egraph
from tegg.testing.programs import Program, programs as random_programs
from tegg.testing.rows import check_elementwise
from tegg.testing.property import HealthCheck, given, seed as seeded, settings
from tegg.testing.workbench import Finding, check_rules

AMPLIFIED = 200.0  # a difference of one op may be amplified inside of a longer idiom


@dataclass(slots=True)
class CompilersReport:
    """What was checked of a stack. rules, rows: their names. classes: how many agree."""

    rules: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    checks: int = 0
    programs: int = 0
    classes: int = 0

    def __str__(self) -> str:
        rows = f"{len(self.rows)} rows in C, " if self.rows else ""
        return (f"{len(self.rules)} rules, {rows}{self.checks} checks; {self.classes} e-classes of "
                f"{self.programs} programs agree")


def check_compilers(compilers: Compiler | Sequence[Compiler], *, beside: Sequence[Compiler] = (),
                    examples: int = 20, seed: int = 0) -> CompilersReport:
    """Check every rule of compilers (sound, live, its guards needed, without growth), the C of
    their elementwise rows on the CPU in every dtype, and that every e-class of random programs
    agrees, in both precisions.

    beside: what they are stacked on, by default ``tegg.Generic()``; its rules are not checked.
    examples: how many programs are drawn. seed: the same seed draws the same graphs.
    Raises AssertionError with the smallest counterexample, as a Python program.
    """
    own = (compilers,) if isinstance(compilers, Compiler) else tuple(compilers)
    whole = (*(tuple(beside) or (Generic(),)), *own)
    report = CompilersReport()
    for finding in check_rules(_sets(own), whole, seed):
        assert not finding.problem, _told(finding)
        report.checks += 1
        if finding.rule not in report.rules:
            report.rules.append(finding.rule)

    report.rows += _check_rows(own, seed)

    @settings(max_examples=examples, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))
    @seeded(seed)
    @given(program=random_programs())
    def run(program: Program) -> None:
        report.classes += check_classes(program, whole)
        report.programs += 1

    run()
    return report


def _check_rows(own: Sequence[Compiler], seed: int) -> list[str]:
    """Run the C of elementwise rows beside what they mean. Their names."""
    rows = {op.name: op for c in own for op in c.ops if code_of(op, "c") is not None
            and op.kind == "elementwise" and not op.attrs}
    ran: set[str] = set()
    for d in DTYPES.values() if rows else ():
        ran |= check_elementwise(find("cpu"), {**OPS, **rows}, d, seed, rows)
    return sorted(ran)


def check_classes(program: Program, compilers: Sequence[Compiler], slack: float = 1.0,
                  features: Iterable[str] = ("cpu",)) -> int:
    """Every e-class of a random program agrees, in both precisions. How many classes.

    features: of the target, for rules that ask for some.
    """
    found = 0
    for precision in ("bitwise", "reals"):
        done = check_egraph(program.graph, compilers, program.inputs, program.sizes, precision,
                            AMPLIFIED * slack, features)
        found += len(done.classes.nodes)
    return found


def _sets(own: Sequence[Compiler]) -> list:
    mine = {s.name for c in own for s in c.rule_sets()}
    return [s for s in stack((Generic(), *own)).rule_sets if s.name in mine]


def _told(finding: Finding) -> str:
    return f"{finding.rule}: {finding.check}: {finding.problem}\n{finding.program}"
