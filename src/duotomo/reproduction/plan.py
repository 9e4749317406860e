"""At which level, in which size, where, and with whose data an experiment runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from duotomo.errors import DuotomoError


class Level(Enum):
    """How an experiment's data are made.

    AS_PUBLISHED: on the reconstruction's own grid, without noise, as the paper did, for its own algorithms
    and for ours. HONEST: on a finer grid, with Poisson noise. REAL: the same, of bodies that others have made
    or measured.
    """

    AS_PUBLISHED = "as-published"
    HONEST = "honest"
    REAL = "real"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked of an experiment.

    quick: a reduced size. device: "cpu" or "cuda". data: the folder with third-party data, for Level.REAL.
    """

    level: Level
    quick: bool = False
    device: str = "cpu"
    data: Path | None = None

    @property
    def folder_name(self) -> str:
        """Of the folder for this level and size."""
        return self.level.value + ("-quick" if self.quick else "")

    def data_folder(self, experiment: str) -> Path:
        """Return the folder with third-party data."""
        if self.data is None:
            raise DuotomoError(
                f"{experiment}: expected a folder with third-party data at the level real; got none. Pass "
                f"--data DIR; docs/third_party_data.md says what belongs there and where to get it."
            )
        return self.data
