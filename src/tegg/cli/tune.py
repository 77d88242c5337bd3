"""``tegg tune``: measure a device, and keep what its kernels cost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from tegg.cli.output import print_json, print_table, print_text
from tegg.env import COSTS
from tegg.errors import ArgumentError, BackendError
from tegg.extract.cost import Costs
from tegg.extract.profile import Profile, chosen_costs, read_profile, user_profile
from tegg.planning.target import Target, Tunable, find as find_target
from tegg.progress import progress

UNREST = 0.15  # above this a profile is worth measuring again


@click.command()
@click.option("--device", default="cpu", show_default=True)
@click.option("--quick", is_flag=True, help="Fewer measures: under 15 seconds instead of 60.")
@click.option("--show", is_flag=True, help="Only print the profile in use.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the profile to this file instead of the cache.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def tune(device: str, quick: bool, show: bool, output: Path | None, as_json: bool) -> None:
    """Measure this machine, and write the profile that prices kernels.

    What is compiled from then on uses it. Best run while the machine does nothing else.
    """
    target = find_target(device)
    if show:
        _show(target, as_json)
        return
    if not isinstance(target, Tunable):
        raise BackendError(f"the device {device!r} cannot be measured by tegg tune; its costs are "
                           f"those of the profile {target.costs().name!r}")
    if output is not None and output.suffix != ".toml":  # seen before, not after, a minute
        raise ArgumentError(f"{output} is no name of a profile, which ends in .toml; give another "
                            f"--output")
    if output is not None and not output.parent.is_dir():
        raise ArgumentError(f"{output} cannot be written: {output.parent} is no folder; make it, "
                            f"or give another --output")
    start = time.perf_counter()
    with progress("measuring", target.tune_steps(quick), quiet=as_json) as step:
        profile = target.tune(quick, step)
    path = profile.write(output)
    seconds = time.perf_counter() - start
    if as_json:
        print_json({"path": str(path), "seconds": seconds, **_data(profile.costs, profile)})
        return
    _print(profile.costs, profile)
    print_text(f"wrote {path} after {seconds:.0f} s" + (
        "" if output is None else f"; TEGG_COSTS={path} makes programs use it"))


def _show(target: Target, as_json: bool) -> None:
    """The profile in use, and why it is that one."""
    path, profile, problem = None, None, ""
    chosen = COSTS.get() if chosen_costs(target.name) is not None else None
    if isinstance(target, Tunable) and chosen is None:
        path = user_profile(target.name, target.machine())
        if path.exists():
            try:
                profile = read_profile(path, target.name, target.machine())
            except ArgumentError as e:
                problem = str(e)
    costs = target.costs() if not problem else _shipped(target)
    if as_json:
        print_json({"path": str(path) if profile else None, "problem": problem or None,
                    **_data(costs, profile)})
        return
    if profile is not None:
        why = f"measured on {profile.date}: {path}"
    elif problem:
        why = f"shipped, since what was measured cannot be used: {problem}"
    elif chosen is not None and isinstance(target, Tunable):
        why = f"as TEGG_COSTS={chosen} says"
    else:
        why = "shipped" + (f"; tegg tune --device {target.name} measures this machine"
                           if isinstance(target, Tunable) else "")
    print_text(f"profile {costs.name!r}, {why}")
    _print(costs, profile)


def _shipped(target: Target) -> Costs:
    import warnings
    with warnings.catch_warnings():  # what is wrong is printed
        warnings.simplefilter("ignore")
        return target.costs()


def _data(costs: Costs, profile: Profile | None) -> dict[str, Any]:
    return {"profile": costs, "machine": profile.machine if profile else None,
            "date": profile.date if profile else None,
            "figures": dict(profile.figures) if profile else {}}


def _print(costs: Costs, profile: Profile | None) -> None:
    rows = [("threads", str(costs.threads)),
            ("start of a stage, all threads", _micro(costs.launch)),
            ("start of a stage, one thread",
             _micro(costs.launch if costs.call is None else costs.call)),
            ("memory time hidden behind arithmetic", f"{costs.overlap:.0%}"),
            ("loops, G operations/s and thread", f"{costs.loop_rate / 1e9:.1f}"),
            ("products, GFLOP/s and thread", f"{costs.product_rate / 1e9:.1f}")]
    for level in costs.levels:
        where = "beyond" if level.size == float("inf") else f"up to {level.size / 1e6:.3g} MB"
        store = costs.store if level.store is None else level.store
        rows.append((f"buffers {where}: GB/s of 1 thread, of all; a written byte in read ones",
                     f"{level.thread / 1e9:.1f}, {level.total / 1e9:.1f}; {store:.2f}"))
    for title, table in (("operations of", costs.ops), ("time of loops in", costs.loop_dtypes),
                         ("time of products in", costs.product_dtypes),
                         ("time of form", costs.templates)):
        rows += [(f"{title} {name}", f"{value:.3g}") for name, value in sorted(table.items())]
    print_table(f"profile {costs.name}", ("what", "value"), rows)
    if profile is not None and profile.unrest > UNREST:
        print_text(f"Other programs disturbed the measures: half of them were {profile.unrest:.0%} "
                   f"or more above their best. Measure again when the machine has nothing else to "
                   f"do.")
    if profile is not None and profile.figures:
        print_table("measured", ("what", "value"),
                    [(name, f"{value:.4g}") for name, value in profile.figures.items()])


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us"
