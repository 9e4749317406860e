"""The volume of the current visit, in which findings keep the contrast that this visit alone gives them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from duotomo.change.refit import Refit
from duotomo.geometry import VolumeGrid

REACH = 1.25
"""Radius about a finding, in units of the largest diameter that it may have, that is the current visit's."""

FADE = 1.5
"""Radius, in units of that, beyond which the shared volume stands."""


def undiluted(
    volume: torch.Tensor, alone: torch.Tensor, refits: Sequence[Refit], grid: VolumeGrid
) -> torch.Tensor:
    """Return the shared volume, and about findings that of the current visit alone.

    A volume that two visits share shows a new mass at half of its contrast. Where the visits differ, only the
    current one speaks of what is there now; between both, volumes fade into each other.

    Parameters
    ----------
    volume, alone : torch.Tensor
        (z, y, x), in 1/mm: of both visits, and of the current one.
    refits : sequence of Refit
        Of the findings.
    grid : VolumeGrid
        Of both.
    """
    share = torch.zeros_like(volume)
    for one in refits:
        radius_mm = REACH * one.size_interval_mm[1]
        x, y, z = (
            (_centers_mm(grid, axis) - middle).abs().to(volume)
            for axis, middle in zip((2, 1, 0), one.place_mm, strict=True)
        )
        # Views smear along z.
        z = (z - one.smear_mm / 2).clamp(min=0.0)
        away_mm = (z[:, None, None] ** 2 + y[:, None] ** 2 + x**2).sqrt()
        share = torch.maximum(share, ((FADE - away_mm / radius_mm) / (FADE - 1)).clamp(0.0, 1.0))
    return volume + share * (alone.to(volume) - volume)


def _centers_mm(grid: VolumeGrid, axis: int) -> torch.Tensor:
    """Return the centres of voxels along one axis."""
    middle = (grid.shape[axis] - 1) / 2
    steps = torch.arange(grid.shape[axis], dtype=torch.float64) - middle
    return grid.center_mm[axis] + steps * grid.spacing_mm[axis]
