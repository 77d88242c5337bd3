"""How runs scale from one thread to all, and what calls from several Python threads at once cost.

    python benchmarks/threads.py [--most N] [--only mlp,softmax] [--json FILE]

Per workload of the suite: the median time with 1, 2, 4 ... threads, in turns, and the speed against
one thread, of calls without a pause and of calls after one, when workers sleep and an idle core may
have been given to others; the mean beside a process that wants a core for itself and has it in
turns; then calls per second of 1, 2, 4 ... Python threads that call the program at once, and how
many threads of the process exist then: one pool serves all, callers that find it busy run alone,
and each who does takes a thread from the rounds of the others. Writes
benchmarks/results/threads.md and .json, unless --only leaves workloads out. Takes some minutes;
best run on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 0.5  # that callers call together
PAUSE = 0.02   # seconds before a call
HOW = {"steady": "", "rested": ", after a pause", "beside": ", beside a busy process"}


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--most", type=int, default=0, help="threads at most; 0: those that are allowed")
    p.add_argument("--only", default="", help="comma-separated workload names")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--json", type=Path, default=None)
    return p.parse_args()


def counts(most: int) -> list[int]:
    """1, 2, 4 ... and the most."""
    out = [1]
    while out[-1] * 2 < most:
        out.append(out[-1] * 2)
    return sorted({*out, most})


def scaling(name: str, threads: list[int], rounds: int) -> dict[str, dict[int, float]]:
    """Seconds of a run by threads: medians without pauses and after them, means beside a process
    that is busy."""
    import tegg
    from graphs import workload
    from timing import interleaved
    body, free = workload(name)
    runs = {}
    for n in threads:
        os.environ["TEGG_THREADS"] = str(n)
        runs[str(n)] = tegg.compile(body).bind(*[a.copy() for a in free.values()])
    steady = {int(n): t.median for n, t in interleaved(runs, rounds).items()}
    rested = {int(n): statistics.median(timed(run, PAUSE) for _ in range(5 * rounds))
              for n, run in runs.items()}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        time.sleep(0.1)
        beside = {int(n): statistics.mean(timed(run) for _ in range(max(9, int(1 / steady[1]))))
                  for n, run in runs.items()}
        other.kill()
    return {"steady": steady, "rested": rested, "beside": beside}


def timed(run: Callable[[], object], pause: float = 0.0) -> float:
    """Seconds of a run, after a pause."""
    if pause:
        time.sleep(pause)
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def together(name: str, callers: int) -> dict:
    """Calls per second of so many Python threads, and the threads of the process meanwhile."""
    import tegg
    from graphs import workload
    body, free = workload(name)
    program = tegg.compile(body)
    arguments = [[a.copy() for a in free.values()] for _ in range(callers)]
    program(*arguments[0])
    done = [0] * callers
    start = threading.Barrier(callers + 1)

    def call(i: int) -> None:
        start.wait()
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            program(*arguments[i])
            done[i] += 1
    workers = [threading.Thread(target=call, args=(i,)) for i in range(callers)]
    for w in workers:
        w.start()
    start.wait()
    began = time.perf_counter()
    time.sleep(SECONDS / 2)
    alive = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else None
    for w in workers:
        w.join()
    return {"callers": callers, "calls_per_s": sum(done) / (time.perf_counter() - began),
            "threads": alive}


def text(record: dict, threads: list[int]) -> str:
    """The figures as Markdown."""
    columns = ("workload", *(f"{n} threads{how}" for how in HOW.values() for n in threads[1:]),
               *(f"{n} callers, calls/s (threads)" for n in threads))
    lines = [f"# Threads\n\n{record['machine']}, {record['cores']} cores, {record['allowed']} "
             f"allowed, {record['date']}: `python benchmarks/threads.py`. Speed against one "
             f"thread, of calls without a pause, after {PAUSE * 1e3:.0f} ms, and beside a busy "
             f"process (means); then calls a second of several Python threads, and the threads of "
             f"the process.\n",
             f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for r in record["rows"]:
        cells = (r["workload"], *(f"{r['speedup'][how][n]:.2f}" for how in HOW
                                  for n in threads[1:]),
                 *(f"{t['calls_per_s']:.0f} ({t['threads']})" for t in r["together"]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    args = parse()
    sys.path.insert(0, str(HERE))
    import graphs
    from run import cpu_name, versions
    from tegg.backends.cpu.threads import threads
    from tegg.cores import available
    most = args.most or threads()
    rows = []
    for name in graphs.names():
        if args.only and name not in args.only.split(","):
            continue
        seconds = scaling(name, counts(most), args.rounds)
        os.environ["TEGG_THREADS"] = str(most)
        rows.append({"workload": name, "seconds": seconds,
                     "speedup": {how: {n: t[1] / s for n, s in t.items()}
                                 for how, t in seconds.items()},
                     "together": [together(name, n) for n in counts(most)]})
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    record = {"date": date.today().isoformat(), "machine": cpu_name(), "cores": os.cpu_count(),
              "allowed": available(), "versions": versions(), "rows": rows}
    out = text(record, counts(most))
    print(out)
    path = args.json or (None if args.only else HERE / "results" / "threads.json")
    if path is not None:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(out, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
