"""The inverse of a transform: in closed form where there is one, by iteration elsewhere."""

from __future__ import annotations

import enum
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from duotomo.errors import check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.kernels.warp.reference import voxels
from duotomo.transforms.deformation import Folding, folding
from duotomo.transforms.displacement_field import DisplacementField
from duotomo.transforms.maps import (
    ElementaryMap,
    LatticeMap,
    MatrixMap,
    grid_displacement,
    index_matrix,
)

if TYPE_CHECKING:
    from duotomo.transforms.motion import Motion


SLOWEST, MOST_IDLE = 0.9, 3
"""Steps in a row, at most, that bring no more points back, nor the farthest nearer by a tenth."""


class InverseStatus(enum.Enum):
    """How an inversion ended."""

    CLOSED_FORM = "in closed form"
    CONVERGED = "every point came back within the tolerance"
    NOT_CONVERGED = "some points did not come back within the tolerance; see residual_mm"
    FOLDED = "the transform folds, so some points have no single inverse; see residual_mm and folding"


@dataclass(frozen=True, kw_only=True, eq=False)
class InvertedPoints:
    """Points that T takes to given points.

    Parameters
    ----------
    xyz_mm : torch.Tensor
        The points found, (..., xyz), in mm.
    residual_mm : torch.Tensor
        Distance of T of the points found from the given points, (...), in mm.
    status : InverseStatus
        How the inversion ended.
    """

    xyz_mm: torch.Tensor
    residual_mm: torch.Tensor
    status: InverseStatus


@dataclass(frozen=True, kw_only=True, eq=False)
class Inverse:
    """The inverse of a motion, and its error.

    Parameters
    ----------
    motion : Motion
        Reference frame to moving frame.
    residual_mm : float
        Largest distance, over the voxel centres x of the grid, of `T(T^-1(x))` from x, in mm.
    status : InverseStatus
        How the inversion ended.
    folding : Folding, optional
        Where T folds; None if the inverse has a closed form.
    """

    motion: Motion
    residual_mm: float
    status: InverseStatus
    folding: Folding | None = None


def invert_points(
    motion: Motion,
    xyz_mm: torch.Tensor,
    *,
    tolerance_mm: float = 1e-6,
    max_steps: int = 50,
) -> InvertedPoints:
    """Find x with `T(x) = y` for points y, by Newton's method.

    `x <- x - T'(x)^-1 (T(x) - y)`, with half the step where it does not reduce the distance.

    Parameters
    ----------
    motion : Motion
        T with its parameters.
    xyz_mm : torch.Tensor
        Points y of the reference frame, (..., xyz), in mm.
    tolerance_mm : float
        Largest distance of T(x) from y, in mm.
    max_steps : int
        Newton steps, at most.

    Returns
    -------
    InvertedPoints
        The points x, with their residuals.

    Examples
    --------
    >>> from duotomo.transforms import BSpline, Motion
    >>> spline = BSpline.over(VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0)), (5, 5, 5))
    >>> motion = Motion(spline, torch.linspace(-1, 1, spline.n_params).double())
    >>> x = torch.tensor([[0.5, 4.0, 3.0]]).double()
    >>> found = invert_points(motion, motion.points(x))
    >>> bool((found.xyz_mm - x).abs().max() < 1e-5), found.status.name
    (True, 'CONVERGED')
    """
    motion = replace(motion, params=motion.params.detach())
    check_tensor("invert_points", "xyz_mm", xyz_mm, shape=(3,), axes=("xyz",))
    target = xyz_mm.detach().double()
    back = torch.linalg.inv(_product_of_matrices(motion.transform.maps(motion.params)))[:3].to(target.device)
    at = MatrixMap(matrix=back).points(target)
    missed = motion.points(at).detach() - target
    size = torch.ones_like(target[..., :1])
    for _ in range(max_steps):
        length = missed.norm(dim=-1, keepdim=True)
        if bool((length <= tolerance_mm).all()):
            break
        jacobian = motion.jacobian(at).detach()
        step, _ = torch.linalg.solve_ex(jacobian, missed[..., None])
        step = torch.nan_to_num(step[..., 0])
        tried = at - size * step
        tried_missed = motion.points(tried).detach() - target
        nearer = tried_missed.norm(dim=-1, keepdim=True) < length
        at, missed = torch.where(nearer, tried, at), torch.where(nearer, tried_missed, missed)
        size = torch.where(nearer, (2 * size).clamp(max=1), size / 2)
    residual_mm = missed.norm(dim=-1)
    converged = bool((residual_mm <= tolerance_mm).all())
    status = InverseStatus.CONVERGED if converged else InverseStatus.NOT_CONVERGED
    return InvertedPoints(xyz_mm=at, residual_mm=residual_mm, status=status)


def invert(
    motion: Motion,
    grid: VolumeGrid | None = None,
    *,
    tolerance_mm: float = 1e-6,
    max_steps: int = 100,
) -> Inverse:
    """Return the inverse of a motion: in closed form, or as displacements on a grid of the reference frame.

    Without a closed form, the displacements w solve `x + w = T^-1(x)` at the voxel centres x, by the
    fixed-point iteration `w <- w - M^-1 (T(x + w) - x)`, M being the product of T's matrices. Between centres
    they are linear. Where T folds there is no inverse: the status says so, and a warning gives the position.

    Parameters
    ----------
    motion
        As for `invert_points`.
    grid : VolumeGrid, optional
        Of the reference frame; that of the transform unless given.
    tolerance_mm : float
        Largest distance of `T(x + w)` from x, over all voxel centres, in mm.
    max_steps : int
        Fixed-point steps, at most; they end before once three in a row bring no more points back.

    Returns
    -------
    Inverse
        The inverse motion, its residual, and where T folds.
    """
    found = best_inverse(motion, grid, tolerance_mm=tolerance_mm, max_steps=max_steps)
    if found.status is InverseStatus.FOLDED:
        assert found.folding is not None
        fold, (x, y, z) = found.folding, found.folding.worst_mm
        warnings.warn(
            f"invert: {type(motion.transform).__name__} folds at {fold.n_folded} of {fold.n_voxels} voxels, "
            f"worst (determinant {fold.lowest_determinant:.3g}) at (x, y, z) = ({x:.4g}, {y:.4g}, {z:.4g}) "
            f"mm. There is no inverse there; add bending energy, or use a Velocity transform.",
            RuntimeWarning,
            stacklevel=2,
        )
    return found


def best_inverse(
    motion: Motion,
    grid: VolumeGrid | None = None,
    *,
    tolerance_mm: float = 1e-6,
    max_steps: int = 100,
) -> Inverse:
    """Return what `invert` does, without a warning, for callers that read the status.

    Parameters
    ----------
    motion, grid, tolerance_mm, max_steps
        As for `invert`.

    Returns
    -------
    Inverse
        Where T folds, of the status `FOLDED`, what comes nearest to an inverse.
    """
    params = motion.params.detach()
    maps = motion.transform.maps(params)
    closed = motion.transform.inverse(params)
    grid = grid or motion.grid
    if closed is not None:
        there_and_back = (*closed.transform.maps(closed.params), *maps)
        missed = grid_displacement(there_and_back, grid, params.device)
        return Inverse(
            motion=closed, residual_mm=float(missed.norm(dim=0).max()), status=InverseStatus.CLOSED_FORM
        )
    fold = folding(motion, grid)
    best, lengths_mm = inverse_displacement(motion, grid, tolerance_mm=tolerance_mm, max_steps=max_steps)
    residual_mm = float(lengths_mm.max())
    status = InverseStatus.CONVERGED if residual_mm <= tolerance_mm else InverseStatus.NOT_CONVERGED
    if fold.n_folded:
        status = InverseStatus.FOLDED
    field = DisplacementField(grid)
    return Inverse(
        motion=replace(motion, transform=field, params=field.params(displacement_mm=best)),
        residual_mm=residual_mm,
        status=status,
        folding=fold,
    )


def inverse_displacement(
    motion: Motion, grid: VolumeGrid, *, tolerance_mm: float = 1e-6, max_steps: int = 100
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find w with `T(x + w) = x` at the voxel centres x of a grid, by the fixed-point iteration of `invert`.

    Parameters
    ----------
    motion, grid, tolerance_mm, max_steps
        As for `invert`.

    Returns
    -------
    displacement_mm : torch.Tensor
        w, (xyz, z, y, x), float64, in mm.
    residual_mm : torch.Tensor
        Distance of `T(x + w)` from x, (z, y, x), in mm.
    """
    params = motion.params.detach()
    maps = motion.transform.maps(params)
    back = torch.linalg.inv(_product_of_matrices(maps))[:3]
    # With the matrices alone: w = M^-1 x - x.
    centers_mm = MatrixMap(matrix=index_matrix(grid)[:3]).points(voxels(grid.shape)).to(params.device)
    field = DisplacementField(grid)
    w = (MatrixMap(matrix=back).points(centers_mm) - centers_mm).movedim(-1, 0)
    fewest, residual_mm, best, n_idle = math.inf, math.inf, w, 0
    lengths_best = torch.full_like(w[0], math.inf)
    for _ in range(max_steps):
        there_and_back = (*field.maps(field.params(displacement_mm=w)), *maps)
        missed = grid_displacement(there_and_back, grid, params.device)
        lengths_mm = missed.norm(dim=0)
        n_missed, farthest_mm = int((lengths_mm > tolerance_mm).sum()), float(lengths_mm.max())
        n_idle = 0 if n_missed < fewest or farthest_mm < SLOWEST * residual_mm else n_idle + 1
        # Points without an inverse, as beyond a lattice, must not hold back the others.
        if (n_missed, farthest_mm) < (fewest, residual_mm):
            fewest, residual_mm, best, lengths_best = n_missed, farthest_mm, w, lengths_mm
        if n_missed == 0 or n_idle == MOST_IDLE:
            break
        w = w - torch.einsum("ij,jzyx->izyx", back[:, :3], missed)
    return best, lengths_best


def _product_of_matrices(maps: Sequence[ElementaryMap]) -> torch.Tensor:
    """Return the product, (4, 4), of the matrices among the maps of a transform."""
    first = maps[0]
    like = first.coefficients if isinstance(first, LatticeMap) else first.matrix
    product = torch.eye(4, dtype=torch.float64, device=like.device)
    for one in maps:
        if isinstance(one, MatrixMap):
            product = torch.cat([one.matrix @ product, product[3:]])
    return product
