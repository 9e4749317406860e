"""A study whose answer is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Study, Visit
from duotomo.simulate import same_grid_noise_free, scan
from duotomo.simulate.scanning import Phantom
from duotomo.transforms import Transform

PHOTONS_PER_MM2 = 270_000.0
"""In one view, without anything in the beam: near the FDA's ReconDBT example."""

MOST_POINTS = 100_000
"""At most about so many points of the object are moved to measure how far a motion is off."""

EDGE = 0.1
"""Points lie at a boundary where the slope exceeds this part of the largest one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A study with two visits, and the truth about it.

    truth: the volume of the reference visit, on the study's grid; moved: that of the moving visit, on its
    own; both (z, y, x), 1/mm. transform, params: the motion, moving_to_reference. about: what a reader must
    know to make the same case, for the table.
    """

    study: Study
    truth: torch.Tensor = field(repr=False)
    moved: torch.Tensor = field(repr=False)
    transform: Transform
    params: torch.Tensor = field(repr=False)
    about: dict[str, Any]

    @property
    def moving_grid(self) -> VolumeGrid:
        """The grid of the moving visit."""
        return self.study.grid_of(self.study.moving[0])

    @cached_property
    def points_mm(self) -> torch.Tensor:
        """Points of the object, evenly spread, in the moving frame, (point, xyz)."""
        return _places(self._inside, self.moving_grid)

    @cached_property
    def edge_points_mm(self) -> torch.Tensor:
        """Points at the boundaries of tissues, in the moving frame, (point, xyz)."""
        slope = torch.stack(torch.gradient(self.moved)).norm(dim=0)
        return _places((slope > EDGE * slope.max()) & self._inside, self.moving_grid)

    @cached_property
    def _inside(self) -> torch.Tensor:
        """Where the moved object is: attenuation above a tenth of what little exceeds."""
        present = self.moved[self.moved > 0]
        dense = torch.quantile(present[:: -(-present.numel() // MOST_POINTS)], 0.99)
        return self.moved > 0.1 * dense


class Remembered:
    """A phantom that is made once for every grid: the cases of an experiment share it."""

    def __init__(self, phantom: Phantom) -> None:
        self.phantom = phantom
        self._made: dict[VolumeGrid, NDArray[Any]] = {}

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return attenuation, 1/mm, (z, y, x)."""
        if grid not in self._made:
            self._made[grid] = self.phantom.voxels(grid, dtype=np.float32)
        return self._made[grid].astype(dtype, copy=False)


@dataclass(frozen=True, kw_only=True)
class Scans:
    """How the two visits of a case are scanned.

    seed: of the noise; None for data from the reconstruction's own grid, without noise. moving_grid: like the
    reference's, unless given.
    """

    grid: VolumeGrid
    acquisition: Acquisition
    seed: int | None
    moving_grid: VolumeGrid | None = None
    device: str = "cpu"

    def moved_by(self, phantom: Phantom, transform: Transform, params: torch.Tensor, **about: Any) -> Case:
        """Return the case of a phantom that a transform moves, moving_to_reference."""
        motion = {"transform": transform, "params": params, "moving_grid": self.moving_grid}
        truth = torch.from_numpy(phantom.voxels(self.grid, dtype=np.float32))
        warp = transform.warp(params, self.grid, self.moving_grid)
        first, second = self._scan(phantom, 0), self._scan(phantom, 1, **motion)
        return self._case(first, second, truth, warp(truth), transform, params, about)

    def of_pair(
        self, reference: Phantom, moving: Phantom, transform: Transform, params: torch.Tensor, **about: Any
    ) -> Case:
        """Return the case of two phantoms, each in its own frame, between which the motion is known."""
        moving_grid = self.moving_grid or self.grid
        truth = torch.from_numpy(reference.voxels(self.grid, dtype=np.float32))
        moved = torch.from_numpy(moving.voxels(moving_grid, dtype=np.float32))
        first, second = self._scan(reference, 0), replace(self, grid=moving_grid)._scan(moving, 1)
        return self._case(first, second, truth, moved, transform, params, about)

    def _scan(self, phantom: Phantom, visit: int, **motion: Any) -> torch.Tensor:
        if self.seed is None:
            return same_grid_noise_free(phantom, self.grid, self.acquisition, device=self.device, **motion)
        height_mm, width_mm = self.acquisition.pixel_spacing_mm
        return scan(
            phantom,
            self.grid,
            self.acquisition,
            generator=torch.Generator(self.device).manual_seed(10 * self.seed + visit),
            photons=PHOTONS_PER_MM2 * height_mm * width_mm,
            **motion,
        )

    def _case(
        self,
        first: torch.Tensor,
        second: torch.Tensor,
        truth: torch.Tensor,
        moved: torch.Tensor,
        transform: Transform,
        params: torch.Tensor,
        about: dict[str, Any],
    ) -> Case:
        visits = (
            Visit(projections=first, acquisition=self.acquisition),
            Visit(projections=second, acquisition=self.acquisition, grid=self.moving_grid),
        )
        noise = {} if self.seed is None else {"noise_seed": self.seed, "photons_per_mm2": PHOTONS_PER_MM2}
        return Case(
            study=Study(grid=self.grid, visits=visits),
            truth=truth,
            moved=moved,
            transform=transform,
            params=params,
            about={**about, **noise},
        )


def _places(mask: torch.Tensor, grid: VolumeGrid) -> torch.Tensor:
    indices = torch.nonzero(mask)
    indices = indices[:: max(1, -(-len(indices) // MOST_POINTS))].double()
    low, spacing = torch.tensor(grid.low_mm).double(), torch.tensor(grid.spacing_mm).double()
    return (low + (indices + 0.5) * spacing).flip(1)


CaseMaker = Callable[[int], Case]
