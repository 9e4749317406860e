"""A moving visit in its own frame: where its points lie in the reference, and how sure that is, both ways."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.io import SavedUncertainty
from duotomo.io.uncertainty_files import LOWER
from duotomo.methods.correspondence import LEVEL, through
from duotomo.methods.error_levels import quantile
from duotomo.report.page_deformation import MOST_POINTS, PageDeformation, Point, lattice_over, nearest
from duotomo.transforms import Motion


@dataclass(frozen=True, kw_only=True, eq=False)
class PageOwnFrame:
    """Where a moving visit's points lie in the reference, on a lattice that spans its own grid's box.

    shape, spacing_mm, first_mm: of the lattice, xyz. there: (3, z, y, x), float32: `T(x)` in mm, xyz.
    covariance_there: (6, z, y, x), xx, yx, yy, zx, zy, zz: that of T(x), times the squared radius of an
    ellipsoid of `LEVEL`; NaN where the data do not determine it. covariance_back: the same of `T^-1(r)`, on
    the lattice of the page's deformation. Both are None where nothing is known of how sure the motion is.
    """

    shape: tuple[int, int, int]
    spacing_mm: Point
    first_mm: Point
    there: NDArray[np.float32] = field(repr=False)
    covariance_there: NDArray[np.float32] | None = field(default=None, repr=False)
    covariance_back: NDArray[np.float32] | None = field(default=None, repr=False)


def page_own_frame(
    motion: Motion, own: VolumeGrid, deformation: PageDeformation, known: SavedUncertainty | None = None
) -> PageOwnFrame:
    """Return the lattice of a visit's own frame. own: its grid. deformation: of the same motion.

    >>> from duotomo.report.page_deformation import page_deformation
    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((4, 4, 4), (1.0, 1.0, 1.0))
    >>> shift = Translation(grid)
    >>> motion = Motion(shift, shift.params(translation_mm=(3.0, 0.0, 0.0)))
    >>> found = page_own_frame(motion, grid, page_deformation(motion, grid))
    >>> found.there[:, 0, 0, 0].tolist(), found.covariance_there
    ([1.0, 0.0, 0.0], None)
    """
    points, shape, spacing_mm, first_mm = lattice_over(own, MOST_POINTS)
    there = motion.points(points).detach().T.reshape(3, *shape[::-1]).float().numpy()
    found = PageOwnFrame(shape=shape, spacing_mm=spacing_mm, first_mm=first_mm, there=there)
    if known is None or known.covariance_mm2 is None or known.coarse is None:
        return found
    before = deformation.before_mm
    lost = before.isnan().any(dim=1)
    at = before.nan_to_num(nan=0.0)
    back = through(nearest(known.covariance_mm2, known.coarse, at), motion.jacobian(at).detach())
    back[lost] = torch.nan
    return replace(
        found,
        covariance_there=_scaled(nearest(known.covariance_mm2, known.coarse, points), shape),
        covariance_back=_scaled(back, deformation.shape),
    )


def _scaled(covariance: torch.Tensor, shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Return matrices, (point, xyz, xyz), as the numbers of an ellipsoid, (6, z, y, x)."""
    numbers = quantile(LEVEL) * covariance[:, LOWER[0], LOWER[1]]
    array: NDArray[np.float32] = numbers.T.reshape(6, *shape[::-1]).float().numpy()
    return array
