"""How the data of an experiment are made."""

from __future__ import annotations

from enum import Enum


class DataLevel(Enum):
    """How an experiment's data are made.

    Attributes
    ----------
    AS_PUBLISHED
        On the reconstruction's own grid, without noise, as the paper did, for its own algorithms and for
        ours.
    HONEST
        On a finer grid, with Poisson noise.
    REAL
        The same, of bodies that others have made or measured.
    """

    AS_PUBLISHED = "as-published"
    HONEST = "honest"
    REAL = "real"
