"""Pictures of motions that no matrix describes: lattices, and all slices of volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch

from duotomo.geometry import VolumeGrid
from duotomo.report.control_grids import control_grids
from duotomo.report.montage import montage
from duotomo.report.style import Floats
from duotomo.reproduction.shown_case import Shown
from duotomo.transforms import Affine, BSpline, Motion, Rigid, Translation

LINES = 9
"""Of a lattice in each direction, where the motion has no control points."""

MOST_SLICES = 40

UNIT = "1/mm"
_LINEAR = (Affine, Rigid, Translation)


def bends(motion: Motion) -> bool:
    """Return whether a motion is none that a matrix describes."""
    return not isinstance(motion.transform, _LINEAR)


def control_lattices(
    shown: Shown, true: Motion, found: Mapping[str, Motion], grid: VolumeGrid, out: Path, tail: str
) -> Iterator[Path]:
    """Draw the regular lattice in the middle of the moving grid, and where the motions take it."""
    points = torch.from_numpy(_lattice(true, grid))
    for name, motion in found.items():
        lattices = {
            "regular": points.numpy(),
            "true": true.points(points).numpy(),
            name: motion.points(points).numpy(),
        }
        yield from control_grids(
            out / f"control-grids{tail}-{name.replace(' ', '-')}",
            lattices=lattices,
            grid=shown.grid,
            volume=shown.truth,
            window=shown.window,
        )


def _lattice(motion: Motion, grid: VolumeGrid) -> Floats:
    """Return points in the middle of a grid, (row, column, xyz): the control points, where there are some."""
    transform = motion.transform
    places = []
    for axis in (1, 2):
        low, high = grid.low_mm[axis], grid.high_mm[axis]
        at: Floats = np.linspace(low, high, LINES)
        if isinstance(transform, BSpline):
            lattice = transform.lattice
            at = lattice.low_mm[axis] + (np.arange(lattice.shape[axis]) + 0.5) * lattice.spacing_mm[axis]
            room = 1e-6 * (high - low)
            at = at[(at >= low - room) & (at <= high + room)]
        places.append(at)
    y, x = np.meshgrid(*places, indexing="ij")
    return np.stack([x, y, np.full_like(x, grid.center_mm[0])], axis=-1)


def montages(shown: Shown, named: Mapping[str, tuple[torch.Tensor, VolumeGrid]], out: Path) -> Iterator[Path]:
    """Draw the slices parallel to the detector of volumes (z, y, x) by name, all in the truth's greys."""
    for name, (volume, grid) in named.items():
        yield from montage(
            out / f"montage-{name}",
            volume=volume,
            grid=grid,
            unit=UNIT,
            every=_every(grid),
            window=shown.window,
        )


def difference_montage(shown: Shown, found: torch.Tensor, stem: Path) -> Iterator[Path]:
    """Draw the slices parallel to the detector of `found - truth`."""
    yield from montage(
        stem,
        volume=found - shown.truth,
        grid=shown.grid,
        unit=UNIT,
        every=_every(shown.grid),
        difference=True,
    )


def _every(grid: VolumeGrid) -> int:
    return -(-grid.shape[0] // MOST_SLICES)
