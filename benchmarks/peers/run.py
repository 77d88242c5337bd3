"""``make bench-peers``: tegg beside what users pick instead, in one interleaved run.

    python benchmarks/peers/run.py [--threads 1,2] [--peers torch,jax] [--only softmax,mlp]
                                   [--rounds 7] [--closer 60] [--firsts 3] [--weigh numpy,jax]
                                   [--json FILE]

Every contender runs in a process of its own. Each workload is checked against float64 NumPy, then
timed in rounds, in which contenders take turns in rotating order. Who is near the fastest is timed
in further rounds of short turns: of ten that are equally fast, the luckiest of few rounds is no
measure, and where a machine is slower for tenths of a second, those who are compared shall share
them. Reported are the median over rounds of each round's median, the best single call, and of two
the median of their ratios in the same round; of the peers that are near the fastest, the one named
is the hardest to beat. A first call is timed once a process, with free pages, those of the process
itself and inputs of the right dtype at hand: of tegg and of what it is compared with there, the
median of several. Peak memory is that of processes which do one workload each, at most threads.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np

from limits import measure
from report import NEAR, OWN, Row, is_own, machine, rows_of, table, versions
from worker import CONTENDERS, find
from workloads import SUITE, write_inputs

HERE = Path(__file__).resolve().parent

_NOBODY = "none"
_SETTLE = 0.05  # seconds that threads of others have to stop
_SHORT = 5      # times as short as those of all are the turns of those who are near
# whose first calls are compared
_COMPILED = ("tegg", "tegg.winograd", "tegg.bf16", "torch.compile", "torch.compile.bf16")


class Peer:
    """The driver's end of a worker."""

    def __init__(self, name: str, threads: int, log) -> None:
        cls = find(name)
        self.name = cls.name
        pin = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if threads == 1 else []
        self.process = subprocess.Popen(
            [*pin, sys.executable, str(HERE / "worker.py"), name, str(threads)],
            env=os.environ | cls.environment(threads), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        self.ready = self._read(180)["ok"]

    def _read(self, timeout: float) -> dict:
        answered, _, _ = select.select([self.process.stdout], [], [], timeout)
        line = self.process.stdout.readline() if answered else ""
        if line:
            return json.loads(line)
        self.stop()
        return {"ok": False, "why": "it died" if answered else f"no answer in {timeout:.0f} s"}

    def ask(self, timeout: float = 600, **command: object) -> dict:
        if self.process.poll() is not None:
            return {"ok": False, "why": "it died"}
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._read(timeout)

    def stop(self) -> None:
        """End the worker and the compilers that it started, which share its session."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def available(name: str) -> bool:
    """Whether its packages are there, and the machine is one for it."""
    cls = find(name)
    return cls.sensible() and all(importlib.util.find_spec(p) for p in cls.needs)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--threads", default="1,2", help="comma-separated numbers of threads")
    p.add_argument("--peers", default="", help=f"some of {', '.join(CONTENDERS)}; "
                                               "default: all that are"
                                               " installed and make sense here")
    p.add_argument("--also", action="append", default=[], metavar="FILE.py:Class")
    p.add_argument("--only", default="", help="comma-separated workload names")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--closer", type=int, default=60, metavar="ROUNDS",
                   help="further rounds, of short turns, of those whose medians are near the"
                        " fastest's")
    p.add_argument("--firsts", type=int, default=3, help="processes whose first calls are timed")
    p.add_argument("--weigh", default="", help="of which others peak memory is measured; default:"
                                               " all; none: of nobody")
    p.add_argument("--budget", type=float, default=0.15, help="seconds per contender and round")
    p.add_argument("--json", type=Path, default=None, help="default: results/peers.json")
    args = p.parse_args(argv)
    weighed = [*CONTENDERS, _NOBODY]
    for option, known in (("peers", CONTENDERS), ("weigh", weighed), ("only", SUITE)):
        names = [n for n in getattr(args, option).split(",") if n]
        unknown = [n for n in names if n not in known and ".py:" not in n]
        if unknown:
            p.error(f"--{option} {','.join(names)}: {', '.join(unknown)} is none of "
                    f"{', '.join(known)}")
    return args


def built(peers: list[Peer], names: list[str], folder: Path,
          ) -> tuple[dict, dict[str, list[Peer]]]:
    """What the first calls said, and who can be timed, per workload. folder: of the references."""
    said: dict[str, dict[str, dict]] = {}
    live: dict[str, list[Peer]] = {}
    for w in names:
        said[w], live[w] = {}, []
        for p in peers:
            r = p.ask(do="build", name=w, references=str(folder / f"{w}.npz"), settle=_SETTLE)
            if r.get("skipped"):
                continue
            said[w][p.name] = r
            if r["ok"] and r["good"]:
                live[w].append(p)
            else:
                print(f"{w}: {p.name} " + (f"is wrong by {r['error']:.1e}" if r["ok"]
                                           else r["why"]), file=sys.stderr)
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return said, live


def compiled_again(name: str, times: int, threads: int, said: dict, folder: Path, log) -> None:
    """Put the median over several processes in the place of one first call."""
    firsts = {w: [r[name]["first_s"]] for w, r in said.items() if r.get(name, {}).get("ok")}
    for _ in range(times - 1):
        p = Peer(name, threads, log)
        for w, found in firsts.items():
            r = p.ask(do="build", name=w, references=str(folder / f"{w}.npz"), settle=_SETTLE)
            found += [r["first_s"]] if r["ok"] else []
        p.stop()
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for w, found in firsts.items():
        said[w][name]["first_s"] = statistics.median(found)


def weighed(chosen: Sequence[str], names: list[str], threads: int, said: dict, folder: Path,
            log) -> None:
    """Add to the replies the peaks of memory, each from a process of its own: of those in float32,
    which are compared. What torch.max tunes holds what torch.compile does."""
    for w in names:
        for name in (n for n in chosen if not n.endswith(".bf16") and n != "torch.max"):
            cls = find(name)
            if not said[w].get(cls.name, {}).get("good"):
                continue
            p = Peer(name, threads, log)
            r = p.ask(do="weigh", name=w, inputs=str(folder)) if p.ready else {}
            p.stop()
            if "peak_bytes" in r:
                said[w][cls.name]["peak_bytes"] = r["peak_bytes"]
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def timed(live: dict[str, list[Peer]], rounds: int, budget: float, out: dict) -> None:
    """Add to ``out``, workload -> contender -> replies, one reply per round."""
    for k in range(rounds):
        for w, peers in live.items():
            turn = k % max(1, len(peers))
            for p in peers[turn:] + peers[:turn]:
                r = p.ask(do="time", name=w, budget=budget, settle=_SETTLE)
                if r["ok"]:
                    out[w].setdefault(p.name, []).append(r)


def near(times: dict[str, list[dict]]) -> set[str]:
    """Who may be the fastest of those that are compared: tegg and others, in float32 or bfloat16.
    None where tegg is far from all of them."""
    medians = {n: statistics.median(r["median"] for r in rs) for n, rs in times.items()}
    found = set()
    for own, narrow in ((OWN, False), (f"{OWN}.bf16", True)):
        among = {n: m for n, m in medians.items()
                 if n == own or (not is_own(n) and n.endswith(".bf16") == narrow)}
        limit = NEAR * min(among.values(), default=0.0)
        close = {n for n, m in among.items() if m <= limit}
        if own in close and len(close) > 1:
            found |= close
    return found


def one_run(args: argparse.Namespace, threads: int, names: list[str], folder: Path,
            weigh: bool) -> tuple[list[Row], dict]:
    chosen = args.peers.split(",") if args.peers else list(filter(available, CONTENDERS))
    limits = measure(threads, [SUITE[n] for n in names])
    with open(os.devnull if not os.environ.get("PEERS_LOG") else os.environ["PEERS_LOG"],
              "a") as log:
        peers = []
        try:
            for name in [*chosen, *args.also]:
                peers.append(Peer(name, threads, log))
                if not peers[-1].ready:
                    print(f"{name} did not start", file=sys.stderr)
            peers = [p for p in peers if p.ready]
            said, live = built(peers, names, folder)
            times: dict[str, dict[str, list[dict]]] = {w: {} for w in live}
            timed(live, args.rounds, args.budget, times)
            close = {w: near(times[w]) for w in live}
            timed({w: [p for p in ps if p.name in close[w]] for w, ps in live.items()},
                  args.closer, args.budget / _SHORT, times)
        finally:
            for p in peers:
                p.stop()
        for name in (n for n in _COMPILED if n in chosen):
            compiled_again(name, args.firsts, threads, said, folder, log)
        if weigh:
            ours = [n for n in chosen if is_own(n)]
            others = args.weigh.split(",") if args.weigh else [*chosen, *args.also]
            weighed(list(dict.fromkeys([*ours, *others])), names, threads, said, folder, log)
    rows = rows_of(said, times, {n: limits.seconds(SUITE[n]) for n in names})
    return rows, {"threads": threads, "flops_per_s": limits.flops,
                  "read_bytes_per_s": {str(int(k)): v for k, v in limits.bytes.items()}}


def main() -> int:
    args = parse()
    names = args.only.split(",") if args.only else list(SUITE)
    record = {"date": date.today().isoformat(), "machine": machine(), "cores": os.cpu_count(),
              "versions": versions(), "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder  # what contenders keep goes with it
        for n in names:
            np.savez(Path(folder, f"{n}.npz"), *SUITE[n].reference())
            write_inputs(Path(folder), n)
        counts = [int(n) for n in args.threads.split(",")]
        for threads in counts:
            weigh = threads == max(counts) and args.weigh != _NOBODY
            rows, facts = one_run(args, threads, names, Path(folder), weigh)
            record["runs"].append(facts | {"load": os.getloadavg()[0],
                                           "rows": [r.record() for r in rows]})
            print(table(rows, f"{record['machine']}, {threads} thread(s)"), flush=True)
    path = args.json or HERE.parent / "results" / "peers.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
