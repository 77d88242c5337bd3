"""``tegg prepare``: compile ahead what programs on this machine share."""

from __future__ import annotations

import time

import click

from tegg.cli.output import print_json, print_text
from tegg.display import counted
from tegg.progress import progress
from tegg.runtime.prepare import STEPS, prepare as compile_ahead


@click.command()
@click.option("--device", default="cpu", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def prepare(device: str, as_json: bool) -> None:
    """Compile ahead what most programs need, once for this machine.

    First calls find it in the cache then: the library of the device, products of two arrays,
    and attention.
    """
    start = time.perf_counter()
    with progress("compiling", STEPS, quiet=as_json) as step:
        kernels = compile_ahead(device, step)
    seconds = time.perf_counter() - start
    if as_json:
        print_json({"kernels": kernels, "seconds": seconds})
    else:
        print_text(f"{counted(kernels, 'kernel')} ready after {seconds:.1f} s")
