"""What a command says, and where: progress to standard error, what came out to standard output."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class Talk:
    """Says what a command does, and what came out: in words, or as one JSON object at the end."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")
    ] = False

    @functools.cached_property
    def console(self) -> Console:
        """Where progress is shown."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True, markup=False, quiet=self.quiet)

    def progress(self, text: str) -> None:
        """Say what is being done."""
        self.console.print(text)

    def say(self, text: str) -> None:
        """Say what came out; with --json, beside the progress."""
        if self.as_json:
            self.console.print(text)
        elif not self.quiet:
            typer.echo(text)

    def wrote(self, paths: Iterable[Path]) -> None:
        """Say which files were written."""
        self.say("Wrote")
        for path in paths:
            self.say(f"  {path}")

    def finish(self, content: Mapping[str, Any]) -> None:
        """End with what came out, as one JSON object if that was asked for."""
        if self.as_json:
            typer.echo(json.dumps(content))
