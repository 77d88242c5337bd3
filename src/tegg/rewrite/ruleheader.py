"""The header of a rule file: what its comments up to the first blank line claim."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from tegg.errors import RuleError
from tegg.rewrite.problems import Problems

KEYS = ("ruleset", "class", "phase", "uses", "grows", "targets")
_REMEDIES = {"ruleset": "ruleset: fuse.sub", "class": "class: bitwise, reals, rounds 2^-K or facts",
             "phase": "phase: some of rules/pipelines.toml", "uses": "uses: - or relations",
             "grows": "grows: no, or yes N", "targets": "targets: any, or cpu, cuda>=80"}


@dataclass(frozen=True, slots=True)
class Header:
    """What a rule file claims. ``kind`` is its class; ``error`` the bound of class ``rounds``.

    grows: rounds it may run, or None where it may saturate. targets: names, with ``>=`` and a
    number where a feature is needed; empty for any.
    """

    sentence: str
    ruleset: str
    kind: str
    phases: tuple[str, ...]
    uses: frozenset[str]
    grows: int | None
    targets: tuple[str, ...]
    error: float = 0.0


def read_header(lines: list[str], file: str, parts: tuple[str, ...], exact: bool) -> Header:
    """Read a header. ``parts``: folders and stem of the path, of which the name is the end, or
    all of it where ``exact``. Raises RuleError with everything that is wrong in it.
    """
    problems = Problems()
    sentence, found = _claims(lines, file, problems)
    if not sentence.endswith((".", "!")) or sentence.startswith(tuple(f"{k}:" for k in KEYS)):
        problems.found.append(f"{file}:1:1: the header begins with a sentence, not {sentence!r}; "
                              f"say in a comment what the file is for, with a full stop")
    for key in KEYS:
        if key not in found:
            problems.found.append(f"{file}:1:1: the header lacks '{key}:'; add a comment line "
                                  f"'{_REMEDIES[key]}'")
    kind, error, grows = "", 0.0, None
    targets: tuple[str, ...] = ()
    if "ruleset" in found:
        with problems.gather():
            _check_name(*found["ruleset"], file, parts, exact)
    if "class" in found:
        with problems.gather():
            kind, error = _kind(*found["class"], file)
    if "phase" in found and not found["phase"][0]:
        problems.found.append(str(_bad(file, found["phase"][1], "phase", "")))
    if "grows" in found:
        with problems.gather():
            grows = _grows(*found["grows"], file)
    if "targets" in found:
        with problems.gather():
            targets = _targets(*found["targets"], file)
    problems.tell()
    return Header(sentence, found["ruleset"][0], kind, tuple(found["phase"][0].split()),
                  _words(found["uses"][0]), grows, targets, error)


def _claims(lines: list[str], file: str,
            problems: Problems) -> tuple[str, dict[str, tuple[str, int]]]:
    """The sentence of a header, and its keys with their texts and lines."""
    found: dict[str, tuple[str, int]] = {}
    sentence = ""
    for number, line in enumerate(lines, 1):
        if not line.startswith(";"):
            break
        body = line.lstrip(";").strip()
        said = re.match(r"([a-z]+):\s*(.*)$", body)
        if not sentence:
            sentence = body
        elif said and said[1] in found:
            problems.found.append(f"{file}:{number}:1: the header says '{said[1]}:' again, after "
                                  f"line {found[said[1]][1]}; keep one of them")
        elif said and said[1] in KEYS:
            found[said[1]] = (re.split(r"\s+;", said[2])[0].strip(), number)
        elif said:
            near = get_close_matches(said[1], KEYS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.found.append(f"{file}:{number}:1: unknown key {said[1]!r} in the header; it "
                                  f"has {', '.join(KEYS)}{hint}")
    return sentence, found


def _check_name(name: str, line: int, file: str, parts: tuple[str, ...], exact: bool) -> None:
    want = parts if exact else parts[-len(name.split(".")):]
    if parts and tuple(name.split(".")) != want:
        raise RuleError(f"{file}:{line}:1: ruleset {name!r} does not match the path; "
                        f"call it {'.'.join(want)!r} or move the file")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.replace(",", " ").split()) - {"-"}


def _bad(file: str, line: int, key: str, text: str) -> RuleError:
    return RuleError(f"{file}:{line}:1: '{key}: {text}' is not understood; write {_REMEDIES[key]}")


def _kind(text: str, line: int, file: str) -> tuple[str, float]:
    rounds = re.fullmatch(r"rounds 2\^-(\d{1,3})", text)
    if rounds:
        return "rounds", 2.0 ** -int(rounds[1])
    if text not in ("bitwise", "reals", "facts"):
        raise _bad(file, line, "class", text)
    return text, 0.0


def _grows(text: str, line: int, file: str) -> int | None:
    if text == "no":
        return None
    yes = re.fullmatch(r"yes ([1-9]\d*)", text)
    if not yes:
        raise _bad(file, line, "grows", text)
    return int(yes[1])


def _targets(text: str, line: int, file: str) -> tuple[str, ...]:
    names = tuple(t.strip() for t in text.split(","))
    if names == ("any",):
        return ()
    if "any" in names or not all(re.fullmatch(r"[a-z][\w-]*(>=\d+)?", t) for t in names):
        raise _bad(file, line, "targets", text)
    return names
