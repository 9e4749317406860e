"""Loops are compiled when they are first used on a machine: a person who waits for that is told."""

from __future__ import annotations

from collections.abc import Callable

import click
from numba.core import event

WORDS = (
    "Compiling the loops for this processor: a minute or two, and once. Later runs find them ready, until "
    "duotomo, Numba or the processor changes."
)


class _Announcement(event.Listener):
    """Says it when the first loop is compiled; nothing where all of them are found ready."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, False

    def on_start(self, event: event.Event) -> None:
        if not self._said:
            self._said = True
            self._say(WORDS)

    def on_end(self, event: event.Event) -> None:
        """The time that is left says enough."""


def announce_compiling(say: Callable[[str], None]) -> None:
    """Say it, once, if loops are compiled while the current command runs."""
    context = click.get_current_context(silent=True)
    if context is None:
        # No command runs, but somebody who calls its parts.
        return
    listener = _Announcement(say)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    context.call_on_close(lambda: event.unregister("numba:compile", listener))  # type: ignore[no-untyped-call]
