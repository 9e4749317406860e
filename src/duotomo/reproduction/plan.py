"""With which data, in which size and where an experiment runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from duotomo.errors import DuotomoError


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked of an experiment.

    Parameters
    ----------
    level : DataLevel
        How its data are made.
    quick : bool
        A reduced size.
    device : str
        "cpu" or "cuda".
    data : Path, optional
        Folder with third-party data, for `DataLevel.REAL`.
    """

    level: DataLevel
    quick: bool = False
    device: str = "cpu"
    data: Path | None = None

    @property
    def folder_name(self) -> str:
        """Of the folder for this level and size."""
        return self.level.value + ("-quick" if self.quick else "")

    def data_folder(self, experiment: str) -> Path:
        """Return the folder with third-party data.

        Parameters
        ----------
        experiment : str
            Its name, for the message.

        Returns
        -------
        Path
            As given.

        Raises
        ------
        DuotomoError
            If none was given.
        """
        if self.data is None:
            raise DuotomoError(
                f"{experiment}: expected a folder with third-party data at the level real; got none. Pass "
                f"`data`; docs/third_party_data.md says what belongs there and where to get it."
            )
        return self.data


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
