"""The command line, one file per command."""

import typer

from duotomo.cli.demo import demo
from duotomo.cli.reproduce import reproduce
from duotomo.cli.results import results
from duotomo.cli.run import run

main = typer.Typer(
    name="duotomo",
    help="Digital breast tomosynthesis from two visits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@main.callback()
def _commands() -> None:
    """Digital breast tomosynthesis from two visits."""


main.command()(demo)
main.command()(run)
main.command()(reproduce)
main.command()(results)

__all__ = ["main"]
