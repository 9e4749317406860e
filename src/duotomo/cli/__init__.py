"""The command line, one file per command: `duotomo.cli.NAME` has the function `NAME`."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import duotomo
from duotomo.cli._errors import guarded
from duotomo.cli._flatten import flattened

COMMANDS = (
    "joint",
    "change",
    "cohort",
    "reconstruct",
    "register",
    "report",
    "view",
    "info",
    "observe",
    "convert",
    "simulate",
    "demo",
    "reproduce",
    "results",
)


class _Commands(TyperGroup):
    """Imports the module of a command when the command is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, the main ones first."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        function = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
        alone.command(cmd_name)(guarded(flattened(function)))
        return typer.main.get_command(alone)


main = typer.Typer(
    name="duotomo",
    cls=_Commands,
    help="Digital breast tomosynthesis from two visits.",
    epilog="Exit codes: 0 done, 2 refused and nothing written, 3 a result not to be trusted, "
    "4 cases of a cohort that have none, 130 Ctrl-C.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"duotomo {duotomo.__version__}")
        raise typer.Exit


@main.callback()
def _commands(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_say_version, help="Show the version, and exit."),
    ] = False,
) -> None:
    """Digital breast tomosynthesis from two visits."""


__all__ = ["main"]
