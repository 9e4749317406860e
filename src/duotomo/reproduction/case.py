"""A study whose answer is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from duotomo.geometry import Acquisition, VolumeGrid, paper
from duotomo.geometry.frame import voxel_to_world
from duotomo.methods import Study, Visit
from duotomo.phantoms import Phantom
from duotomo.simulate.visit import PHOTONS_PER_MM2, SimulatedVisit, simulate_visit
from duotomo.transforms import Motion


def acquisition_covering(grid: VolumeGrid) -> Acquisition:
    """Return 11 views over 50 degrees on a detector that holds the projections of a whole grid."""
    high_z, high_y, high_x = grid.high_mm
    # The outermost source sees the grid's upper corner furthest out.
    source_x, _, source_z = paper().sources_mm[-1].tolist()
    reach_mm = high_x + (high_x + source_x) * high_z / (source_z - high_z)
    depth_mm = high_y * source_z / (source_z - high_z)
    pixel_mm = grid.spacing_mm[0]
    return paper(
        detector_shape=(math.ceil(depth_mm / pixel_mm), 2 * math.ceil(reach_mm / pixel_mm)),
        pixel_mm=pixel_mm,
    )


MOST_POINTS = 100_000
"""At most about so many points of the object are moved to measure how far a motion is off."""

EDGE = 0.1
"""Points lie at a boundary where the slope exceeds this part of the largest one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A study with two visits, and the truth about it.

    Parameters
    ----------
    study : Study
        The two visits.
    truth : torch.Tensor
        Volume of the reference visit, (z, y, x) on the study's grid, 1/mm.
    moved : torch.Tensor
        Volume of the moving visit, (z, y, x) on its own grid, 1/mm.
    motion : Motion
        The true one, moving_to_reference.
    about : dict
        What a reader must know to make the same case, for the table.
    """

    study: Study
    truth: torch.Tensor = field(repr=False)
    moved: torch.Tensor = field(repr=False)
    motion: Motion
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


CaseMaker = Callable[[int], Case]
"""Makes the case of a number, from 1 on."""


@dataclass(frozen=True, kw_only=True)
class Scans:
    """How the two visits of a case are scanned.

    Parameters
    ----------
    grid : VolumeGrid
        Of the reference visit.
    acquisition : Acquisition
        Of both.
    seed : int or None
        Of the noise; None for data from the reconstruction's own grid, without noise.
    moving_grid : VolumeGrid, optional
        Of the moving visit, like the reference's unless given.
    device : str
        Of the projections.
    """

    grid: VolumeGrid
    acquisition: Acquisition
    seed: int | None
    moving_grid: VolumeGrid | None = None
    device: str = "cpu"

    def moved_by(self, phantom: Phantom, motion: Motion, about: Mapping[str, Any]) -> Case:
        """Return the case of a phantom that moves.

        Parameters
        ----------
        phantom : Phantom
            In the reference frame.
        motion : Motion
            Before the second visit, moving_to_reference.
        about : mapping
            What the table says of the case.

        Returns
        -------
        Case
            With the phantom at both visits as the truth.
        """
        second = self._visit(1, phantom, self.grid, motion=motion, moving_grid=self.moving_grid)
        return self._case(self._visit(0, phantom, self.grid), second, motion, about)

    def of_pair(self, reference: Phantom, moving: Phantom, motion: Motion, about: Mapping[str, Any]) -> Case:
        """Return the case of two phantoms, each in its own frame, between which the motion is known.

        Parameters
        ----------
        reference, moving : Phantom
            The same body at both visits.
        motion : Motion
            Between them, moving_to_reference.
        about : mapping
            What the table says of the case.

        Returns
        -------
        Case
            With both phantoms as the truth.
        """
        second = self._visit(1, moving, self.moving_grid or self.grid)
        return self._case(self._visit(0, reference, self.grid), second, motion, about)

    def _visit(
        self,
        number: int,
        phantom: Phantom,
        grid: VolumeGrid,
        *,
        motion: Motion | None = None,
        moving_grid: VolumeGrid | None = None,
    ) -> SimulatedVisit:
        return simulate_visit(
            phantom,
            grid,
            self.acquisition,
            seed=None if self.seed is None else 10 * self.seed + number,
            motion=motion,
            moving_grid=moving_grid,
            device=self.device,
        )

    def _case(
        self, first: SimulatedVisit, second: SimulatedVisit, motion: Motion, about: Mapping[str, Any]
    ) -> Case:
        visits = (
            Visit(projections=first.projections, acquisition=self.acquisition),
            Visit(projections=second.projections, acquisition=self.acquisition, grid=self.moving_grid),
        )
        noise = {} if self.seed is None else {"noise_seed": self.seed, "photons_per_mm2": PHOTONS_PER_MM2}
        return Case(
            study=Study(grid=self.grid, visits=visits),
            truth=first.truth,
            moved=second.truth,
            motion=motion,
            about={**about, **noise},
        )


def _places(mask: torch.Tensor, grid: VolumeGrid) -> torch.Tensor:
    """Return the centres of some voxels of a mask, evenly spread, (point, xyz)."""
    indices = torch.nonzero(mask)
    indices = indices[:: max(1, -(-len(indices) // MOST_POINTS))]
    return torch.from_numpy(voxel_to_world(grid, indices.numpy()).copy())
