"""Loops are compiled when they are first used on a machine: a person who waits for that is told."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from duotomo.cli._options import Talk

LOG = logging.getLogger("duotomo.kernels")
"""Hears of every loop that is about to be compiled; importing it from there would take Numba."""

WORDS = (
    "Compiling the loops for this processor: about half a minute, and once. Later runs find them ready, "
    "until duotomo, Numba or the processor changes."
)


class _Announcement(logging.Handler):
    """Says it when the first loop is compiled; nothing where all of them are found ready."""

    def __init__(self, talk: Talk) -> None:
        super().__init__(logging.INFO)
        self._talk, self._said = talk, False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._said:
            self._said = True
            self._talk.progress(WORDS)


def announce_compiling(talk: Talk) -> None:
    """Say it, once, if loops are compiled while the current command runs, or one that it runs itself."""
    context = click.get_current_context(silent=True)
    if context is None or any(isinstance(one, _Announcement) for one in LOG.handlers):
        # No command runs, but somebody who calls its parts; or it will be said already.
        return
    announcement, level = _Announcement(talk), LOG.level
    LOG.addHandler(announcement)
    LOG.setLevel(logging.INFO)

    def end() -> None:
        LOG.removeHandler(announcement)
        LOG.setLevel(level)

    context.call_on_close(end)
