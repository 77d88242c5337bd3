"""What a saturation did: per phase rounds, size, time and limits; per rule matches and time."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class PhaseReport:
    """One phase. ``hit``: the limit that ended it, or an empty text where it saturated.

    made: rule -> how many terms its matches in this phase stated, old ones among them.
    """

    name: str
    rounds: int = 0
    enodes: int = 0
    ms: float = 0.0
    hit: str = ""
    provided: dict[str, int] = field(default_factory=dict)  # provider -> facts it stated
    provider_ms: float = 0.0
    made: dict[str, int] = field(default_factory=dict)

    @property
    def stopped(self) -> str:
        """Where a limit ended it: which, and the rule that grew most."""
        most = max(self.made, key=lambda n: (self.made[n], n), default="none")
        return (f"stopped by {self.hit}; the rule that grew most is {most}, with "
                f"{self.made.get(most, 0)} terms" if self.hit else "")


@dataclass(slots=True)
class RuleReport:
    """One rule: how often it matched and how long that took, over all phases."""

    matches: int = 0
    ms: float = 0.0


@dataclass(slots=True)
class Report:
    """The whole saturation. ``skipped``: rule set -> why it did not run."""

    phases: list[PhaseReport] = field(default_factory=list)
    rules: dict[str, RuleReport] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    declare_ms: float = 0.0
    load_ms: float = 0.0
    freeze_ms: float = 0.0
    loaded: int = 0   # nodes of the graph
    enodes: int = 0   # e-nodes that are handed on
    classes: int = 0

    @property
    def ms(self) -> float:
        """Milliseconds of everything together."""
        return self.declare_ms + self.load_ms + self.freeze_ms + sum(
            p.ms + p.provider_ms for p in self.phases)

    @property
    def fired(self) -> list[str]:
        """Names of the rules that matched, the most frequent first."""
        return sorted((n for n, r in self.rules.items() if r.matches),
                      key=lambda n: (-self.rules[n].matches, n))

    def show(self) -> str:
        """The report as text: what was loaded, each phase, each rule that matched."""
        lines = [f"declare {self.declare_ms:.1f} ms, load {self.loaded} nodes "
                 f"{self.load_ms:.1f} ms, freeze {self.enodes} e-nodes in {self.classes} classes "
                 f"{self.freeze_ms:.1f} ms"]
        for p in self.phases:
            facts = "".join(f", {n} {k}" for k, n in p.provided.items() if n)
            lines.append(f"phase {p.name}: {p.rounds} rounds, {p.enodes} e-nodes, {p.ms:.1f} ms"
                         f" + providers {p.provider_ms:.1f} ms{facts}"
                         + (f"; {p.stopped}" if p.hit else ""))
        lines += [f"  {name}: {self.rules[name].matches} matches, {self.rules[name].ms:.2f} ms"
                  for name in self.fired]
        lines += [f"  skipped {name}: {why}" for name, why in self.skipped.items()]
        return "\n".join(lines)
