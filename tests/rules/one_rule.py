"""A rule file of one rule, and what is found of it."""

from __future__ import annotations

from tegg.rewrite.compiler import Compiler, Generic
from tegg.rewrite.rulefile import read_rules
from tegg.testing.workbench import Finding, check_rules

FILE = """\
;; A rule set of a test.
;;
;; ruleset:  mine
;; class:    {kind}
;; phase:    {phase}
;; uses:     {uses}
;; grows:    no
;; targets:  any

(ruleset mine)
{relation}
;; a law
({rule} :ruleset mine :name "mine/rule")
"""


def findings(rule: str, kind: str = "reals", uses: str = "-",
             relation: str = "") -> dict[str, Finding]:
    """Check -> what is wrong of a rule, beside those of Generic."""
    text = FILE.format(rule=rule, kind=kind, uses=uses, relation=relation,
                       phase="facts" if kind == "facts" else "names")
    mine = read_rules(text, "mine.egg", ("mine",))
    found = check_rules([mine], [Generic(), Compiler(mine, rounds=True)])
    return {f.check: f for f in found if f.problem}
