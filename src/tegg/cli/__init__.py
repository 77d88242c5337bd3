"""The command line: ``tegg rules ...`` to write, check and explain rules, ``tegg view`` to see,
``tegg tune`` to measure, ``tegg prepare`` to compile ahead."""

from __future__ import annotations

import click

from tegg.cli.prepare import prepare
from tegg.cli.rules import rules
from tegg.cli.tune import tune
from tegg.cli.view import view
from tegg.errors import TeggError
from tegg.version import __version__


class Shell(click.Group):
    """Our errors as one line and exit status 1, without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TeggError as e:
            raise click.ClickException(str(e)) from None


@click.group(cls=Shell)
@click.version_option(__version__, prog_name="tegg")
def main() -> None:
    """A tensor compiler whose compilers are rules."""


main.add_command(prepare)
main.add_command(rules)
main.add_command(tune)
main.add_command(view)
