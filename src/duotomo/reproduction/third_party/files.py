"""What readers of third-party data share: finding files and libraries, and where a subject stands."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.io.paths import FileError
from duotomo.phantoms.sampled import Sampled


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where data come from, under which licence, and how a file of them is made.

    >>> print(Origin(source="example.org/breasts", licence="CC0 1.0", making="Unpack it."))
    Get it from example.org/breasts (licence: CC0 1.0). Unpack it.
    """

    source: str
    licence: str
    making: str

    def __str__(self) -> str:
        return f"Get it from {self.source} (licence: {self.licence}). {self.making}"


def find(folder: str | os.PathLike[str], relative: str, *, how_to_get: Origin | str) -> Path:
    """Return the path of a file below the data folder, or say which is missing and where it comes from.

    relative: with / between its parts, as in "victre_phantom/pcl_1.mha".

    >>> find("nowhere", "breasts/one.nii.gz", how_to_get="Ask the authors.")
    Traceback (most recent call last):
    duotomo.io.paths.FileError: third_party: expected the file breasts/one.nii.gz; got none: there is no folder nowhere. Ask the authors.
    """  # noqa: E501
    path = Path(folder) / relative
    if path.is_file():
        return path
    missing = next(above for above in (Path(folder), *list(path.parents)[::-1], path) if not above.exists())
    kind = "file" if missing == path else "folder"
    raise FileError(
        f"third_party: expected the file {relative}; got none: there is no {kind} {missing}. {how_to_get}"
    )


def scipy_part(name: str) -> Any:
    """Return a module of SciPy, such as "ndimage".

    >>> scipy_part("ndimage").__name__
    'scipy.ndimage'
    """
    try:
        return importlib.import_module(f"scipy.{name}")
    except ImportError as error:
        raise FileError(
            f"third_party: expected scipy.{name} to be installed; got: {error}. Run pip install scipy."
        ) from error


GAP_MM = 5.0
"""From the detector's surface to the lowest voxel: the cover and the grid of a machine."""


def standing(volume: NDArray[Any], spacing_mm: tuple[float, float, float]) -> Sampled:
    """Return a subject `GAP_MM` above the detector, its chest wall at y = 0, centred in x.

    volume: attenuation, 1/mm, (z, y, x) with y from the chest wall to the nipple; becomes float32.

    >>> standing(np.zeros((2, 3, 4)), (1.0, 1.0, 1.0)).grid.low_mm
    (5.0, 0.0, -2.0)
    """
    n_z, n_y, n_x = volume.shape
    return Sampled(
        volume=np.ascontiguousarray(volume, dtype=np.float32),
        grid=VolumeGrid.on_detector((n_z, n_y, n_x), spacing_mm, gap_mm=GAP_MM),
    )
