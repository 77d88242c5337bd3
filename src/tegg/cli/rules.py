"""``tegg rules``: write, list, show, check and explain rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from math import log2
from pathlib import Path
from typing import Any

import click

from tegg.cli.output import print_json, print_table, print_text
from tegg.cli.program import load_program
from tegg.cli.template import new_rule_file
from tegg.errors import ArgumentError, RuleError, TeggError
from tegg.explain.difference import difference
from tegg.explain.explanation import explain
from tegg.explain.whynot import why_not
from tegg.planning.target import Target, Varied, find as find_target, on_device
from tegg.plugins import offered
from tegg.progress import progress
from tegg.rewrite.compiler import Compiler, Stack, find, lowering, named_stack, stack
from tegg.rewrite.egraph import saturate
from tegg.rewrite.rulefile import Rule, RuleSet
from tegg.testing.workbench import Finding, check_rules

STACK_HELP = "Compilers and rule files, separated by commas; 'generic' alone by default."


def _options(f: Callable) -> Callable:
    """What every command of a program takes."""
    for option in (click.option("--json", "as_json", is_flag=True, help="Print JSON."),
                   click.option("--device", default="cpu", show_default=True),
                   click.option("--stack", "stack_text", default="generic", help=STACK_HELP)):
        f = option(f)
    return f


def _stack(text: str, device: str, complete: bool = False,
           ) -> tuple[tuple[Compiler, ...], Target]:
    """The compilers that a text names with what the device brings itself, and the device; or a
    ``complete`` one, which has what some machines lack."""
    target = find_target(device)
    if complete and isinstance(target, Varied):
        target = target.complete()
    return (*named_stack(text), lowering(target)), target


@click.group()
def rules() -> None:
    """Write, list, show, check and explain rules."""


@rules.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def new(name: str, as_json: bool) -> None:
    """Write NAME.egg, a rule file that passes all checks, to start from."""
    path = new_rule_file(name)
    if as_json:
        print_json({"wrote": str(path)})
    else:
        print_text(f"wrote {path}\ncheck it:  tegg rules check {path}")


@rules.command()
@click.argument("files", nargs=-1)
@click.option("--stack", "stack_text", default="generic",
              help="The compilers that the files are used with, separated by commas.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--seed", default=0, show_default=True, help="Draws the same graphs each time.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(ctx: click.Context, files: tuple[str, ...], stack_text: str, device: str, seed: int,
          as_json: bool) -> None:
    """Check FILES (rule files or folders; all rules of the stack without any).

    Format, soundness, that each rule fires, that each guard is needed, and that nothing grows
    for ever. Exit status 1 where something is wrong; a counterexample is a Python program.
    """
    compilers, _ = _stack(stack_text, device, complete=True)
    mine = tuple(Compiler(f, rounds=True) for f in files)
    sets: list[RuleSet] = []
    found: list[Finding] = []
    try:
        everything = stack((*compilers, *mine)).rule_sets
    except RuleError as e:  # nothing else can be checked
        found = [Finding("", "form", problem) for problem in e.problems]
    else:
        own = {s.name for c in mine for s in c.rule_sets()}
        sets = [s for s in everything if s.name in own or not mine]
        with progress("checking", sum(len(s.rules) for s in sets), quiet=as_json) as step:
            for finding in check_rules(sets, (*compilers, *mine), seed):
                found.append(finding)
                if finding.check == "sound":
                    step(finding.rule)
    _print_findings(found, sum(len(s.rules) for s in sets), as_json)
    ctx.exit(1 if any(f.problem for f in found) else 0)


def _print_findings(found: list[Finding], rules: int, as_json: bool) -> None:
    wrong = [f for f in found if f.problem]
    if as_json:
        print_json({"rules": rules, "checks": len(found), "problems": wrong})
        return
    for f in wrong:
        print_text(f"{f.rule}: {f.check}: {f.problem}\n{f.program}\n" if f.rule else f.problem)
    print_text(f"{rules} rules, {len(found)} checks, {len(wrong)} problems")


@rules.command("list")
@_options
def list_(stack_text: str, device: str, as_json: bool) -> None:
    """The rules of a stack: name, class, phase, targets, law and place."""
    found = [_row(rule, home) for home, rule in _rules(stack(_stack(stack_text, device)[0]))]
    if as_json:
        print_json(found)
    else:
        print_table(f"{len(found)} rules", list(found[0]) if found else [],
                    [list(row.values()) for row in found])


@rules.command()
@click.argument("name")
@_options
def show(name: str, stack_text: str, device: str, as_json: bool) -> None:
    """One rule: its law, its text, its rule set, and the compilers that use it.

    Those of the stack, and those that installed packages offer.
    """
    compilers, _ = _stack(stack_text, device)
    named = {n.strip() for n in stack_text.split(",")}
    every = (*compilers, *_readable(n for n in offered("tegg.compilers") if n not in named))
    home, rule = _rule(name, stack(compilers), every)
    row: dict[str, Any] = {
        **_row(rule, home), "why": " ".join(rule.law.split()), "text": _source(rule, home),
        "compilers": [c.name for c in every
                      if any(s.file == home.file for s in c.rule_sets())]}
    if as_json:
        print_json(row)
    else:
        print_text("\n".join([f"{rule.name}   {rule.place.file}:{rule.place.line}",
                              f"class {row['class']}, phase {row['phase']}, "
                              f"targets {row['targets']}, in {', '.join(row['compilers'])}", "",
                              row["text"]]))


@rules.command()
@click.argument("program")
@_options
def why(program: str, stack_text: str, device: str, as_json: bool) -> None:
    """Why PROGRAM (file.py:function) becomes what it is."""
    compilers, target = _stack(stack_text, device)
    told = explain(load_program(program), compilers, target)
    if as_json:
        print_json(told)
    else:
        print_text(told.show())


@rules.command("why-not")
@click.argument("rule")
@click.argument("program")
@_options
def why_not_(rule: str, program: str, stack_text: str, device: str, as_json: bool) -> None:
    """Why RULE does not fire on PROGRAM: the nearest match, and what failed there."""
    compilers, target = _stack(stack_text, device)
    graph = load_program(program)
    graph = on_device(graph, target)
    done = saturate(graph, compilers, trace=True, features=(target.name, *target.features))
    told = why_not(rule, graph, done, stack(compilers, graph.table))
    if as_json:
        print_json({"rule": told.rule.name, "fired": told.fired, "held": told.held,
                    "failed": told.failed, "because": told.because})
    else:
        print_text(told.show())


@rules.command()
@click.argument("first")
@click.argument("second")
@click.argument("program")
@click.option("--device", default="cpu", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(first: str, second: str, program: str, device: str, as_json: bool) -> None:
    """What two stacks make of one PROGRAM: rules, kernels and predicted time.

    FIRST and SECOND are stacks: compilers and rule files, separated by commas.
    """
    graph = load_program(program)
    told = difference(*(explain(graph, *_stack(s, device)) for s in (first, second)))
    if as_json:
        print_json(told)
    else:
        print_text(told.show(first, second))


# ---- rules by name
def _readable(names: Iterable[str]) -> Iterator[Compiler]:
    """What packages offer under names, but for what does not load, or holds files that cannot be
    read: whoever asks for another rule has no use for that."""
    for name in names:
        with suppress(TeggError):
            found = find(name)
            found.rule_sets()
            yield found


def _rules(stacked: Stack) -> list[tuple[RuleSet, Rule]]:
    return [(s, r) for s in stacked.rule_sets for r in s.rules]


def _rule(name: str, stacked: Stack, beside: Sequence[Compiler]) -> tuple[RuleSet, Rule]:
    """A rule of a stack, or else of compilers beside it."""
    for home, rule in (*_rules(stacked),
                       *((s, r) for c in beside for s in c.rule_sets() for r in s.rules)):
        if rule.name == name:
            return home, rule
    raise ArgumentError(stacked.unknown_rule(name))


def _row(rule: Rule, home: RuleSet) -> dict[str, str]:
    header = home.header
    kind = header.kind if header.kind != "rounds" else f"rounds 2^{log2(header.error):g}"
    return {"rule": rule.name, "class": kind, "phase": " ".join(header.phases),
            "targets": ", ".join(header.targets) or "any", "law": rule.short_law,
            "where": f"{Path(rule.place.file).name}:{rule.place.line}"}


def _source(rule: Rule, home: RuleSet) -> str:
    """The rule as its file has it, with the comment above."""
    lines = home.text.splitlines()
    start = rule.place.line - 1
    end = start + 1
    depth = 0
    for end in range(start, len(lines)):
        depth += lines[end].count("(") - lines[end].count(")")
        if depth <= 0:
            break
    while start > 0 and lines[start - 1].lstrip().startswith(";"):
        start -= 1
    return "\n".join(lines[start:end + 1])

