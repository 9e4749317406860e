"""Loops are compiled when they are first used on a machine: a person who waits for that is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duotomo.cli._options import Talk

LOG = logging.getLogger("duotomo.kernels")
"""Hears of every loop that is about to be compiled; importing it from there would take Numba."""

WORDS = (
    "Compiling the loops for this processor: ten to twenty seconds, and once. Later runs find them ready, "
    "until duotomo, Numba or the processor changes."
)


class _Announcement(logging.Handler):
    """Says it when the first loop is compiled; nothing where all of them are found ready."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.talk: Talk | None = None
        self._said = False

    def emit(self, record: logging.LogRecord) -> None:
        if self.talk is not None and not self._said:
            self._said = True
            self.talk.progress(WORDS)


@contextmanager
def announcing() -> Iterator[None]:
    """Listen while a command runs: it says to whom."""
    announcement, level = _Announcement(), LOG.level
    LOG.addHandler(announcement)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(announcement)
        LOG.setLevel(level)


def announce_compiling(talk: Talk) -> None:
    """Say it, once, if loops are compiled while the current command runs, or one that it runs itself."""
    for one in LOG.handlers:
        if isinstance(one, _Announcement) and one.talk is None:
            one.talk = talk
