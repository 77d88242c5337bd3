"""What a saturation did: per phase rounds, size, time and limits; per rule matches and time."""

from __future__ import annotations

from dataclasses import dataclass, field

from tegg.rewrite.growth import Growth


@dataclass(slots=True)
class RuleReport:
    """One rule: how often it matched, and how long that took."""

    matches: int = 0
    ms: float = 0.0

    def add(self, matches: int, ms: float) -> None:
        """Count a round."""
        self.matches += matches
        self.ms += ms


@dataclass(slots=True)
class PhaseReport:
    """One phase. ``hit``: the limit that ended it, or an empty text where it saturated.
    ``grew``: where a limit ended it, what rules added by themselves in its last round, those left
    out that cannot have added most."""

    name: str
    rounds: int = 0
    enodes: int = 0
    ms: float = 0.0
    hit: str = ""
    grew: dict[str, Growth] = field(default_factory=dict)
    provided: dict[str, int] = field(default_factory=dict)  # provider -> facts it stated
    provider_ms: float = 0.0
    rules: dict[str, RuleReport] = field(default_factory=dict)  # those that matched in it

    @property
    def stopped(self) -> str:
        """Where a limit ended it: which, the rule that grew most, and of time the slowest."""
        most = max(self.grew, key=lambda n: (self.grew[n], n), default="")
        grew = f"; the rule that grew most is {most}, by {self.grew[most]} in the last round" \
            if most else ""
        slow = max(self.rules, key=lambda n: (self.rules[n].ms, n), default="")
        if self.hit.startswith("ms ") and slow and self.rules[slow].ms:
            grew += f"; the slowest is {slow}, {_ms(self.rules[slow].ms)}"
        return f"stopped by {self.hit}{grew}" if self.hit else ""

    def show(self) -> list[str]:
        """The phase as lines: what happened, then each rule that matched."""
        facts = "".join(f", {n} {k}" for k, n in self.provided.items() if n)
        fired = sorted(self.rules, key=lambda n: (-self.rules[n].matches, n))
        return [f"phase {self.name}: {self.rounds} rounds, {self.enodes} e-nodes, {self.ms:.1f} ms"
                f" + providers {self.provider_ms:.1f} ms{facts}"
                + (f"; {self.stopped}" if self.hit else ""),
                *(f"  {n}: {self.rules[n].matches} matches, {_ms(self.rules[n].ms)}"
                  for n in fired)]


def _ms(ms: float) -> str:
    """Milliseconds; the engine may count whole ones only."""
    return f"{ms:.2f} ms" if ms >= 0.005 else "under 1 ms"


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
            lines += p.show()
        lines += [f"  skipped {name}: {why}" for name, why in self.skipped.items()]
        return "\n".join(lines)
