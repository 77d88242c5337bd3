"""Rows of the result, and the tables that are printed."""

from __future__ import annotations

import importlib.metadata
import platform
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

PACKAGES = ("tegg", "numpy", "torch", "onnxruntime", "jax", "numba", "egglog")

OWN = "tegg"  # with its usual compilers
NEAR = 1.2    # times the fastest's median: closer than that, few rounds do not tell who is faster

_LEAST = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One workload: per contender seconds, first call, peak memory and error. paired: of tegg's
    columns and rivals, medians over rounds of the one's time over the other's in the same round."""

    workload: str
    limit: float
    median: Mapping[str, float]
    best: Mapping[str, float]
    first: Mapping[str, float]
    peak: Mapping[str, int]
    error: Mapping[str, float]
    paired: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def ours(self, bf16: bool = False, times: str = "median") -> str | None:
        """The fastest of tegg's columns; those in bfloat16 are among themselves."""
        seconds = getattr(self, times)
        names = [n for n in seconds if is_own(n) and n.endswith(".bf16") == bf16]
        return min(names, key=seconds.__getitem__, default=None)

    def against(self, own: str, rival: str, times: str = "median") -> float:
        """The one's time over the other's: below 1 is ahead."""
        if times == "median" and own in self.paired:
            return self.paired[own][rival]
        seconds = getattr(self, times)
        return seconds[own] / seconds[rival]

    def rival(self, own: str, times: str = "median") -> str | None:
        """Of the rivals that may be the fastest, the one that our column is the least ahead of, or
        the furthest behind."""
        seconds = getattr(self, times)
        names = [n for n in seconds
                 if not is_own(n) and n.endswith(".bf16") == own.endswith(".bf16")]
        limit = NEAR * min((seconds[n] for n in names), default=0.0)
        return max((n for n in names if seconds[n] <= limit),
                   key=lambda n: self.against(own, n, times), default=None)

    def ratio(self, times: str = "median", bf16: bool = False) -> float | None:
        """Our fastest column's time over that rival's."""
        own = self.ours(bf16, times)
        rival = own and self.rival(own, times)
        return self.against(own, rival, times) if own and rival else None

    @property
    def fraction(self) -> float | None:
        """How much of the machine's limit tegg reaches with its usual compilers: the limit counts
        the operations of the direct form."""
        return self.limit / self.best[OWN] if OWN in self.best else None

    @property
    def memory(self) -> float | None:
        """tegg's peak over the least of its rivals': below 1 is less. Those in float32 count, and
        less than a megabyte as one: so much comes and goes in any process."""
        theirs = [b for n, b in self.peak.items() if n in self.median
                  and not is_own(n) and not n.endswith(".bf16")]
        return (max(self.peak[OWN], _LEAST) / max(min(theirs), _LEAST)
                if OWN in self.peak and theirs else None)

    def record(self) -> dict:
        own, narrow = self.ours(), self.ours(bf16=True)
        return asdict(self) | {
            "rival": own and self.rival(own), "ratio": self.ratio(),
            "ratio_of_best": self.ratio("best"), "fraction_of_limit": self.fraction,
            "ratio_of_peak": self.memory, "rival_bf16": narrow and self.rival(narrow),
            "ratio_bf16": self.ratio(bf16=True)}


def is_own(name: str) -> bool:
    """Whether it is one of tegg's columns."""
    return name.split(".")[0] == OWN


def paired(times: Mapping[str, list[dict]]) -> dict[str, dict[str, float]]:
    """What ``Row.paired`` holds: each round has a reply of each contender, until it dies."""
    def ratio(own: str, rival: str) -> float:
        return statistics.median(a["median"] / b["median"]
                                 for a, b in zip(times[own], times[rival], strict=False))

    return {own: {n: ratio(own, n) for n in times if not is_own(n)} for own in times if is_own(own)}


def rows_of(said: Mapping[str, Mapping[str, dict]], times: Mapping[str, Mapping[str, list[dict]]],
            limits: Mapping[str, float]) -> list[Row]:
    """From the workers' replies: medians over rounds of medians, and of ratios in a round."""
    out = []
    for w, replies in said.items():
        good = {n: r for n, r in replies.items() if r["ok"]}
        out.append(Row(
            w, limits[w],
            {n: statistics.median(r["median"] for r in rs) for n, rs in times[w].items()},
            {n: min(r["best"] for r in rs) for n, rs in times[w].items()},
            {n: r["first_s"] for n, r in good.items()},
            {n: r["peak_bytes"] for n, r in good.items() if "peak_bytes" in r},
            {n: r["error"] for n, r in good.items()}, paired(times[w])))
    return out


def table(rows: list[Row], title: str) -> str:
    """Median milliseconds; then first calls in seconds and peak memory in MB."""
    names = list(dict.fromkeys(n for r in rows for n in r.first))

    def line(head: str, cells: list[str]) -> str:
        return f"{head:14}" + "".join(f"{c:>15}" for c in cells)

    def number(x: float | None) -> str:
        return "-" if x is None else f"{x:.2f}"

    narrow = any(n.endswith(".bf16") for n in names)
    out = ["", f"{title}: median ms",
           line("", [*names, "best peer", "ratio", "of best calls", "of the limit",
                      "of peak memory", *(["in bf16"] if narrow else [])])]
    for r in rows:
        own = r.ours()
        out.append(line(r.workload, [
            *(f"{r.median[n] * 1e3:.4g}" if n in r.median else "-" for n in names),
            own and r.rival(own) or "-", number(r.ratio()), number(r.ratio("best")),
            number(r.fraction), number(r.memory),
            *([number(r.ratio(bf16=True))] if narrow else [])]))
    for head, values, scale in (("best call, ms", "best", 1e3), ("first call, s", "first", 1.0),
                                ("peak memory, MB", "peak", 2.0**-20)):
        out += ["", f"{title}: {head}", line("", names)]
        out += [line(r.workload, [f"{getattr(r, values)[n] * scale:.4g}"
                                  if n in getattr(r, values) else "-" for n in names])
                for r in rows]
    return "\n".join(out)


def machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    out = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        out["cc"] = subprocess.run(["cc", "--version"], capture_output=True, text=True,
                                   check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        pass
    return out
