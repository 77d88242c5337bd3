"""``tegg view``: a program and what became of it, as one page for a browser."""

from __future__ import annotations

from pathlib import Path

import click

from tegg.cli.output import print_json, print_text
from tegg.cli.program import load_program
from tegg.errors import ArgumentError
from tegg.explain.page import view as page
from tegg.planning.target import find as find_target
from tegg.rewrite.compiler import named_stack


@click.command()
@click.argument("program")
@click.option("--out", "-o", type=click.Path(dir_okay=False, path_type=Path),
              help="The file to write; NAME.html of the program without it.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--stack", "stack_text", default="generic", show_default=True,
              help="Compilers and rule files, separated by commas.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def view(program: str, out: Path | None, device: str, stack_text: str, as_json: bool) -> None:
    """Write PROGRAM (file.py:function) as a page: graph, e-graph, kernels, time.

    The page needs no network and no other file.
    """
    text = page(load_program(program), named_stack(stack_text), find_target(device), program)
    path = out or Path(f"{program.rpartition(':')[2]}.html")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise ArgumentError(f"{path}: cannot be written ({e.strerror}); give another file by --out"
                            ) from None
    if as_json:
        print_json({"wrote": str(path)})
        return
    print_text(f"wrote {path}: open it in a browser")
