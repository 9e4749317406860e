"""What `duotomo demo` knows to be true, against what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.io import SavedResult
from duotomo.methods.registration import resample_to_reference
from duotomo.transforms import Translation, target_registration_error

TISSUE_PER_MM = 0.025
"""Half of what fat attenuates."""

SEEN = 0.99
"""The share of a voxel's value that has to come from inside the prior visit's grid."""

CORE, FAR = 0.75, 3.0
"""The mass within so many radii, and the tissue that its spikes do not reach."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a difference of two visits shows.

    mass_per_mm: the mean over the mass. elsewhere_per_mm: the rms over tissue where nothing is new.
    """

    mass_per_mm: float
    elsewhere_per_mm: float

    @property
    def contrast(self) -> float:
        """How far the mass stands out of everything else that differs.

        >>> Change(mass_per_mm=0.02, elsewhere_per_mm=0.005).contrast
        4.0
        """
        return self.mass_per_mm / self.elsewhere_per_mm


def change(
    difference: torch.Tensor,
    tissue: torch.Tensor,
    grid: VolumeGrid,
    mass_mm: Sequence[float],
    radius_mm: float,
) -> Change:
    """Return what a difference, (z, y, x), shows of a mass of so many mm around `mass_mm`, xyz.

    tissue: the voxels that count.

    >>> grid = VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0))
    >>> difference = torch.full(grid.shape, 0.01)
    >>> difference[4, 4, 4] = 0.03
    >>> found = change(difference, difference > 0, grid, (0.5, 4.5, 4.5), 1.0)
    >>> round(found.contrast, 3)
    3.0
    """
    index = np.stack(np.meshgrid(*(np.arange(n) for n in grid.shape), indexing="ij"), axis=-1)
    off_mm = torch.from_numpy(np.linalg.norm(voxel_to_world(grid, index) - np.array(mass_mm), axis=-1))
    # On coarse grids too there is a voxel that is the mass.
    mass = off_mm <= max(CORE * radius_mm, float(off_mm.min()))
    elsewhere = (off_mm > FAR * radius_mm) & tissue
    return Change(
        mass_per_mm=float(difference[mass].mean()),
        elsewhere_per_mm=float(difference[elsewhere].square().mean().sqrt()),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """A result against the truth, before registration and after it.

    tre_mm: the mean distance between where tissue is and where it was taken to be. changes: what the
    differences show. volumes: the later visit, the prior one as it was and registered, on `grid`.
    """

    tre_mm: tuple[float, float]
    changes: tuple[Change, Change]
    volumes: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = field(repr=False)
    grid: VolumeGrid


def compare(
    saved: SavedResult,
    landmarks_mm: tuple[torch.Tensor, torch.Tensor],
    mass_mm: Sequence[float],
    radius_mm: float,
) -> Found:
    """Return how near a result of two visits, the later one its reference, comes to the truth.

    landmarks_mm: tissue at the prior visit, and today: (point, xyz) twice.
    """
    grid = saved.grid
    now, registered = saved.others["visit_1"], saved.others["visit_2_registered"]
    prior, prior_grid = saved.others["visit_2"], saved.grids.get("visit_2", grid)
    transform, params = saved.transforms[0]
    still = Translation(grid)
    as_it_was = still.warp(still.identity(), prior_grid, grid)(prior)
    # Beyond its grid the prior visit shows nothing, and a difference no change.
    everywhere = torch.ones_like(prior)
    seen = resample_to_reference(everywhere, transform, params, grid=grid, moving_grid=prior_grid) > SEEN
    tissue = (now > TISSUE_PER_MM) & seen
    before_mm = target_registration_error(still, still.identity(), *landmarks_mm)
    after_mm = target_registration_error(transform, params, *landmarks_mm)
    return Found(
        tre_mm=(float(before_mm.mean()), float(after_mm.mean())),
        changes=(
            change(now - as_it_was, tissue, grid, mass_mm, radius_mm),
            change(now - registered, tissue, grid, mass_mm, radius_mm),
        ),
        volumes=(now, as_it_was, registered),
        grid=grid,
    )
