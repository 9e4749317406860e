"""The breast at rest that two views show, from its outlines: where it is held, and how large it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.mechanics.mesh import library
from duotomo.mechanics.response import HeldView
from duotomo.methods.level import coarsening
from duotomo.methods.study import Visit
from duotomo.operators import Projector

AIR = 0.04
"""Of the largest line integral: rays below it met no breast."""

WALL_MM = 0.0
"""Where the chest wall is taken to be, y: at the edge of the detector."""

EDGE_MM = 3.0
"""Of the voxels of a hull, about."""

NEAR_WALL = 0.25
"""Part of the depth, next to the chest wall, over which a breast is as wide as it is at the wall."""

ROUND = 0.03
"""Weight of the logarithm of the ratio of radii, x over z, beside those of widths and depths."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Where a breast lies between the plates, from the rays that met none of it.

    Parameters
    ----------
    width_mm : float
        Along x, near the chest wall.
    depth_mm : float
        From the chest wall to the nipple.
    middle_mm : float
        Middle of the width, x.
    """

    width_mm: float
    depth_mm: float
    middle_mm: float


@torch.no_grad()
def footprint_of(visit: Visit, grid: VolumeGrid) -> Footprint:
    """Return the footprint of a breast between the plates.

    A voxel belongs to its hull if no ray through it met air only. The hull is too large where no ray touches
    the skin, near the plates, so widths are taken at half of its height.

    Parameters
    ----------
    visit : Visit
        Whose rays count where their weights are not zero.
    grid : VolumeGrid
        Of the visit, from plate to plate.

    Returns
    -------
    Footprint
        Its outermost voxels, in the machine frame.

    Raises
    ------
    DuotomoError
        If no voxel is left.
    """
    coarse = grid.coarsen(coarsening(grid, EDGE_MM))
    views = visit.projections
    counts = torch.ones_like(views) if visit.weights is None else (visit.weights > 0).to(views.dtype)
    air = counts * (views < AIR * views.max())
    back = Projector(grid=coarse, acquisition=visit.acquisition).adjoint
    seen_as_air, seen = back(air), back(counts)
    # A voxel at the outline shares some of its rays with air.
    n_views = views.shape[0]
    hull = (seen_as_air < 0.5 / n_views * seen).cpu().numpy()
    layer = hull[hull.shape[0] // 2]
    if not layer.any():
        raise DuotomoError(
            "footprint_of: expected rays that met a breast; got none that met no air. Check the scan, and "
            "that the grid reaches from plate to plate."
        )
    centers = voxel_centers_mm(coarse)[0]
    rows = np.flatnonzero(layer.any(axis=1))
    depth_mm = float(centers[rows[-1], 0, 1] + coarse.spacing_mm[1] / 2) - WALL_MM
    n_near = math.ceil(NEAR_WALL * (rows[-1] + 1 - rows[0]))
    near = layer[rows[0] : rows[0] + n_near]
    columns = np.flatnonzero(near.any(axis=0))
    low, high = (float(centers[0, column, 0]) for column in (columns[0], columns[-1]))
    return Footprint(
        width_mm=high - low + coarse.spacing_mm[2], depth_mm=depth_mm, middle_mm=(low + high) / 2
    )


def radii_at_rest_mm(
    views: Sequence[HeldView], footprints: Sequence[Footprint], *, refinements: int = 1
) -> tuple[float, float, float]:
    """Return the radii of half an ellipsoid that has the footprints given, between the plates of each view.

    A least-squares fit of the logarithms of widths and depths, through compressions by finite elements on a
    coarse mesh.

    Parameters
    ----------
    views : sequence of HeldView
        How it is held.
    footprints : sequence of Footprint
        What was seen, one for each view.
    refinements : int
        Of the mesh.

    Returns
    -------
    tuple of float
        (x, y, z), in mm.
    """
    optimize: Any = library("scipy.optimize")

    def missed(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
        radii = np.exp(logarithms).tolist()
        rows = [ROUND * (logarithms[0] - logarithms[2])]
        for view, seen in zip(views, footprints, strict=True):
            held = view.compressed(
                radii, roll_deg=view.roll_deg, thickness_mm=view.thickness_mm, refinements=refinements
            )
            size = np.ptp(held.moved_mm, axis=0)
            rows += [math.log(size[0] / seen.width_mm), math.log(size[1] / seen.depth_mm)]
        return np.array(rows)

    width = float(np.mean([one.width_mm for one in footprints]))
    depth = float(np.mean([one.depth_mm for one in footprints]))
    thickness = float(np.mean([one.thickness_mm for one in views]))
    # A stretch that keeps the volume: the compressed breast is half an elliptic slab.
    start = np.log([0.42 * width, 0.88 * depth, max(0.75 * thickness, 0.36 * width)])
    found = optimize.least_squares(missed, start, diff_step=0.02, max_nfev=12, xtol=1e-3, ftol=1e-3)
    x, y, z = np.exp(found.x).tolist()
    return x, y, z
