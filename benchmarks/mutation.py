"""The mutation score of the rule checker: of mutants of all shipped rules, how many it catches.

    python benchmarks/mutation.py [RULE SET...]

Prints a table, and writes benchmarks/results/mutation.json where all rule sets were asked for.
"""

from __future__ import annotations

import json
import sys
import time
import tomllib
from pathlib import Path

from tegg.cli.output import print_table
from tegg.rewrite.compiler import Bf16, Fp16, Generic, stack
from tegg.runtime.driver import Options, resolve
from tegg.testing.score import OUTCOMES, Score, all_mutants, score

HERE = Path(__file__).parent
REVIEWED = HERE.parent / "tests" / "rules" / "survivors.toml"


def main(names: list[str]) -> None:
    stacked = stack(resolve(Options((Generic(), Bf16(), Fp16())))[0])
    reviewed = {key: why for part in tomllib.loads(REVIEWED.read_text(encoding="utf-8")).values()
                for key, why in part.items()}
    sets = [s for s in stacked.rule_sets if not names or s.name in names]
    start = time.perf_counter()
    found = score(all_mutants(sets, stacked), stacked, reviewed)
    seconds = time.perf_counter() - start
    print_table(f"{found.caught:.2%} of the mutants that differ in meaning are caught "
                f"({len(found.verdicts)} mutants of {sum(len(s.rules) for s in sets)} rules, "
                f"{seconds:.0f} s)", ["edit", "mutants", *OUTCOMES], found.table())
    for v in found.verdicts:
        if v.outcome == "survives":
            print(f"survives: {v.mutant.key}")
    if not names:
        path = HERE / "results" / "mutation.json"
        path.write_text(json.dumps(report(found, seconds), indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path}")


def report(found: Score, seconds: float) -> dict:
    """The score as plain data; mutants that were caught are counted only."""
    head, *rows = [["edit", "mutants", *OUTCOMES], *found.table()]
    return {"caught": found.caught, "seconds": round(seconds, 1),
            "edits": [dict(zip(head, [row[0], *map(int, row[1:])])) for row in rows],
            "others": [{"mutant": v.mutant.key, "outcome": v.outcome, "why": v.why}
                       for v in found.verdicts if v.outcome != "caught"]}


if __name__ == "__main__":
    main(sys.argv[1:])
