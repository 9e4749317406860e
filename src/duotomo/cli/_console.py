"""A terminal whose words are logged, too."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from duotomo.cli._log import LOG


class LoggedConsole(Console):
    """Prints as any console does, and writes texts to the log, even where it is quiet."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and log what is text."""
        for one in objects:
            if isinstance(one, str):
                LOG.info(one)
        super().print(*objects, **options)
