"""One simulated visit: its projections, and the truth about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.phantoms import Phantom
from duotomo.simulate.scanning import same_grid_noise_free, scan
from duotomo.transforms import Motion

PHOTONS_PER_MM2 = 270_000.0
"""In one view, without anything in the beam: near the FDA's ReconDBT example."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedVisit:
    """A scan of a phantom, and the truth about it.

    Parameters
    ----------
    projections : torch.Tensor
        Line integrals, (view, v, u), float32.
    acquisition : Acquisition
        How they were taken.
    grid : VolumeGrid
        Where the body is seen at this visit.
    truth : torch.Tensor
        Its attenuation, (z, y, x) on `grid`, 1/mm, float32.
    photons : float, optional
        Expected counts per pixel without the body; None for projections without noise.
    """

    projections: torch.Tensor = field(repr=False)
    acquisition: Acquisition
    grid: VolumeGrid
    truth: torch.Tensor = field(repr=False)
    photons: float | None = None

    @property
    def thickness_mm(self) -> float:
        """Height of the grid: between the plates, where there are any."""
        return self.grid.size_mm[0]


def simulate_visit(
    phantom: Phantom,
    grid: VolumeGrid,
    acquisition: Acquisition,
    *,
    seed: int | None,
    photons_per_mm2: float = PHOTONS_PER_MM2,
    motion: Motion | None = None,
    moving_grid: VolumeGrid | None = None,
    device: str = "cpu",
) -> SimulatedVisit:
    """Return the scan of a phantom, which a motion may have moved before, with the truth.

    A phantom that was compressed is another phantom, `duotomo.phantoms.compressed.Compressed`.

    Parameters
    ----------
    phantom : Phantom
        What is scanned, in the reference frame.
    grid : VolumeGrid
        Of the reference visit.
    acquisition : Acquisition
        How it is scanned.
    seed : int or None
        Of the noise; None for data from the reconstruction's own grid, without noise.
    photons_per_mm2 : float
        Expected counts for each mm^2 and view, without the body.
    motion : Motion, optional
        Before this visit, moving_to_reference.
    moving_grid : VolumeGrid, optional
        Where the moved body is seen, like `grid` unless given.
    device : str
        Of the projections.

    Returns
    -------
    SimulatedVisit
        On `moving_grid`, if given.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> from duotomo.phantoms import Ellipsoid
    >>> grid = VolumeGrid.on_detector((8, 8, 8), (4.0, 4.0, 4.0))
    >>> ball = Ellipsoid(center_mm=(0.0, 16.0, 16.0), radii_mm=(8.0, 8.0, 8.0), value=0.05)
    >>> visit = simulate_visit(ball, grid, paper().bin(4), seed=0)
    >>> tuple(visit.projections.shape), tuple(visit.truth.shape)
    ((11, 32, 32), (8, 8, 8))
    """
    truth = torch.from_numpy(phantom.voxels(grid, dtype=np.float32))
    if motion is not None:
        truth = motion.warp(grid, moving_grid)(truth)
    photons = None
    if seed is None:
        projections = same_grid_noise_free(
            phantom, grid, acquisition, device=device, motion=motion, moving_grid=moving_grid
        )
    else:
        d_v, d_u = acquisition.pixel_spacing_mm
        photons = photons_per_mm2 * d_v * d_u
        projections = scan(
            phantom,
            grid,
            acquisition,
            generator=torch.Generator(device).manual_seed(seed),
            photons=photons,
            motion=motion,
            moving_grid=moving_grid,
        )
    return SimulatedVisit(
        projections=projections,
        acquisition=acquisition,
        grid=moving_grid or grid,
        truth=truth,
        photons=photons,
    )
