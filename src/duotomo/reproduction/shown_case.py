"""The files of the case that an experiment shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io import FileError, SavedResult, read_result, read_study, read_transform, read_volume
from duotomo.io.result_index import has_result
from duotomo.methods import Study
from duotomo.reproduction.table import Table, TableMethod
from duotomo.transforms import Motion

MOST_VALUES = 1_000_000
"""Quantiles are taken of at most about so many values."""

SLAB = 2_000_000
"""At most about so many voxels have their displacement in memory at once."""

INSIDE = 0.1
"""The object is where the attenuation exceeds this part of what little exceeds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """The truth of the shown case, on its grid; all else is read when asked for, and None if it is not there.

    truth: (z, y, x), 1/mm.
    """

    home: Path
    truth: torch.Tensor = field(repr=False)
    grid: VolumeGrid

    @cached_property
    def window(self) -> tuple[float, float]:
        """The values drawn black and white: a few dense spots do not darken the rest."""
        values = _some_of(self.truth)
        low, high = min(0.0, float(values.min())), 1.05 * float(np.quantile(values, 0.999))
        return (low, high) if low < high else (low, low + 1.0)

    @cached_property
    def middle_mm(self) -> tuple[float, float, float]:
        """The centre of attenuation xyz, through which slices are cut."""
        return middle_of(self.truth, self.grid)

    def moved(self) -> tuple[torch.Tensor, VolumeGrid] | None:
        """Return the truth of the moving visit, (z, y, x), and its grid."""
        path = self.home / "moved.nii.gz"
        return read_volume(path) if path.exists() else None

    def motion(self, grid: VolumeGrid) -> Motion | None:
        """Return the true motion, moving_to_reference."""
        path = self.home / "truth.tfm"
        return read_transform(path, grid) if path.exists() else None

    def study(self) -> Study | None:
        """Return the projections of both visits."""
        path = self.home / "study.h5"
        return read_study(path) if path.exists() else None

    def result(self, method: TableMethod) -> SavedResult | None:
        """Return what a method found."""
        folder = self.home / method.name
        return read_result(folder) if has_result(folder) else None


def read_shown(folder: Path, table: Table) -> Shown:
    """Return the case that an experiment's folder shows; raise if its truth is not there."""
    home = Path(folder) / f"case_{table.shown:02d}"
    path = home / "truth.nii.gz"
    if not path.exists():
        raise FileError(
            f"draw_experiment: expected the truth of case {table.shown} at {path}; got nothing there. "
            f"Run `reproduce` for this case first."
        )
    truth, grid = read_volume(path)
    return Shown(home=home, truth=truth, grid=grid)


def middle_of(volume: torch.Tensor, grid: VolumeGrid) -> tuple[float, float, float]:
    """Return the centre xyz of a volume's values; the grid's middle where it has none.

    >>> grid = VolumeGrid.on_detector((4, 5, 6), (1.0, 1.0, 1.0))
    >>> middle_of(torch.ones(4, 5, 6), grid)
    (0.0, 2.5, 2.0)
    """
    total = float(volume.sum(dtype=torch.float64))
    if total <= 0:
        return grid.center_mm[2], grid.center_mm[1], grid.center_mm[0]
    middle = []
    for axis in (2, 1, 0):
        along = volume.sum(dim=[other for other in range(3) if other != axis], dtype=torch.float64)
        places = grid.low_mm[axis] + (torch.arange(len(along)) + 0.5) * grid.spacing_mm[axis]
        at = float((along * places).sum()) / total
        middle.append(min(max(at, grid.low_mm[axis]), grid.high_mm[axis]))
    return middle[0], middle[1], middle[2]


def inside_of(volume: torch.Tensor) -> torch.Tensor:
    """Return where the object of a volume is, (z, y, x)."""
    values = _some_of(volume)
    present = values[values > 0]
    dense = float(np.quantile(present, 0.99)) if len(present) else 0.0
    return volume > INSIDE * dense


def distances_mm(one: Motion, other: Motion, grid: VolumeGrid) -> torch.Tensor:
    """Return how far apart two motions take the voxel centres of a grid: (z, y, x), float32."""
    found = torch.empty(grid.shape, dtype=torch.float32)
    n_z, n_y, n_x = grid.shape
    step = max(1, SLAB // (n_y * n_x))
    for first in range(0, n_z, step):
        last = min(first + step, n_z)
        slab = grid.slab(first, last)
        found[first:last] = (one.displacement(slab) - other.displacement(slab)).norm(dim=0)
    return found


def _some_of(volume: torch.Tensor) -> np.ndarray:
    flat = volume.reshape(-1)
    values: np.ndarray = flat[:: max(1, -(-flat.numel() // MOST_VALUES))].numpy()
    return values
