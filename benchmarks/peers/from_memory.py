"""Workloads whose arrays come from memory at every call, not from the last cache.

    python benchmarks/peers/from_memory.py [--only matvec,matvec_t] [--peers tegg,numpy]
                                           [--threads 1,2] [--sets 10] [--rounds 16]

Each contender, in a process of its own, builds a workload for several sets of arrays and calls them
in turns. Contenders take turns in rotating order, with time for threads of others to stop between
them. Reported are medians of all calls, and of the ratios to the first contender in a round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from worker import CONTENDERS, find
from workloads import SUITE

_SETTLE = 0.06  # seconds


def worker(name: str, workload: str, threads: int, sets: int) -> None:
    """Answer each line with the seconds of a call of each set."""
    contender, w = find(name)(threads), SUITE[workload]
    calls = [contender.build(w, contender.given(w.inputs())) for _ in range(sets)]
    for call in calls:
        call()
    print("ready", flush=True)
    for _ in sys.stdin:
        time.sleep(_SETTLE)
        took = []
        for call in calls:
            start = time.perf_counter()
            call()
            took.append(time.perf_counter() - start)
        print(json.dumps(took), flush=True)


def timed(names: list[str], workload: str, threads: int, sets: int, rounds: int) -> None:
    pin = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if threads == 1 else []
    peers = {n: subprocess.Popen(
        [*pin, sys.executable, __file__, "--worker", n, workload, str(threads), str(sets)],
        env=os.environ | find(n).environment(threads), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True) for n in names}
    try:
        for p in peers.values():
            p.stdout.readline()
        found: dict[str, list[list[float]]] = {n: [] for n in names}
        for k in range(rounds):
            for n in names[k % len(names):] + names[:k % len(names)]:
                peers[n].stdin.write("\n")
                peers[n].stdin.flush()
                found[n].append(json.loads(peers[n].stdout.readline()))
    finally:
        for p in peers.values():
            p.kill()
    first = found[names[0]]
    for n, took in found.items():
        every = statistics.median(s for calls in took for s in calls)
        over = statistics.median(statistics.median(a) / statistics.median(b)
                                 for a, b in zip(took, first, strict=True))
        print(f"{workload:12} {threads} thread(s)  {n:14} {every * 1e3:8.3f} ms"
              f"  {over:.2f} of {names[0]}", flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", default="matvec,matvec_t")
    p.add_argument("--peers", default="numpy,tegg", help=f"some of {', '.join(CONTENDERS)}")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--sets", type=int, default=10)
    p.add_argument("--rounds", type=int, default=16)
    args = p.parse_args()
    for option, known in (("only", SUITE), ("peers", CONTENDERS)):
        unknown = [n for n in getattr(args, option).split(",") if n not in known]
        if unknown:
            p.error(f"--{option}: {', '.join(unknown)} is none of {', '.join(known)}")
    for w in args.only.split(","):
        for threads in map(int, args.threads.split(",")):
            timed(args.peers.split(","), w, threads, args.sets, args.rounds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:4], *map(int, sys.argv[4:6]))
    else:
        main()
