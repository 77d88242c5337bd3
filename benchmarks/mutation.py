"""The mutation score of the rule checker: of mutants of all shipped rules, how many it catches.

    python benchmarks/mutation.py [RULE SET...]

Prints a table, and writes benchmarks/results/mutation.json where all rule sets were asked for.
"""

from __future__ import annotations

import json
import sys
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tegg.cli.output import print_table
from tegg.testing.score import OUTCOMES, Score, Verdict, all_mutants, score

HERE = Path(__file__).parent
RULES = HERE.parent / "tests" / "rules"
sys.path.insert(0, str(RULES))

from shipped import STACK

PARTS = 4  # of a rule set, which processes share


def main(names: list[str]) -> None:
    sets = [s.name for s in STACK.rule_sets if not names or s.name in names]
    rules = sum(len(s.rules) for s in STACK.rule_sets if s.name in sets)
    start = time.perf_counter()
    parts = [(name, i) for name in sets for i in range(PARTS)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        found = Score(tuple(v for part in pool.map(judged, parts) for v in part))
    seconds = time.perf_counter() - start
    print_table(f"{found.caught:.2%} of the mutants that differ in meaning are caught "
                f"({len(found.verdicts)} mutants of {rules} rules, "
                f"{seconds:.0f} s)", ["edit", "mutants", *OUTCOMES], found.table())
    for v in found.verdicts:
        if v.outcome == "survives":
            print(f"survives: {v.mutant.key}")
    if not names:
        path = HERE / "results" / "mutation.json"
        path.write_text(json.dumps(report(found, seconds), indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path}")


def judged(part: tuple[str, int]) -> tuple[Verdict, ...]:
    """Verdicts on one part of the mutants of a rule set."""
    name, number = part
    text = (RULES / "survivors.toml").read_text(encoding="utf-8")
    reviewed = {key: why for table in tomllib.loads(text).values() for key, why in table.items()}
    found = all_mutants([s for s in STACK.rule_sets if s.name == name], STACK)
    return score(found[number::PARTS], STACK, reviewed).verdicts


def report(found: Score, seconds: float) -> dict:
    """The score as plain data; mutants that were caught are counted only."""
    head, *rows = [["edit", "mutants", *OUTCOMES], *found.table()]
    return {"caught": found.caught, "seconds": round(seconds, 1),
            "edits": [dict(zip(head, [row[0], *map(int, row[1:])])) for row in rows],
            "others": [{"mutant": v.mutant.key, "outcome": v.outcome, "why": v.why}
                       for v in found.verdicts if v.outcome != "caught"]}


if __name__ == "__main__":
    main(sys.argv[1:])
