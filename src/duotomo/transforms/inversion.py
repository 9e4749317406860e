"""The inverse of a transform: in closed form where there is one, by iteration elsewhere."""

from __future__ import annotations

import enum
import warnings
from dataclasses import dataclass

import torch

from duotomo.errors import check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.kernels.warp.reference import voxels
from duotomo.transforms.composition import Composition
from duotomo.transforms.deformation import Folding, folding
from duotomo.transforms.displacement_field import DisplacementField
from duotomo.transforms.maps import MatrixMap, index_matrix
from duotomo.transforms.transform import Transform


class InverseStatus(enum.Enum):
    """How an inversion ended."""

    CLOSED_FORM = "in closed form"
    CONVERGED = "every point came back within the tolerance"
    NOT_CONVERGED = "some points did not come back within the tolerance; see residual_mm"
    FOLDED = "the transform folds, so some points have no single inverse; see residual_mm and folding"


@dataclass(frozen=True, kw_only=True, eq=False)
class InvertedPoints:
    """Points that T takes to the points asked for. residual_mm: (...), how far from them it does."""

    xyz_mm: torch.Tensor
    residual_mm: torch.Tensor
    status: InverseStatus


@dataclass(frozen=True, kw_only=True, eq=False)
class Inverse:
    """A transform that undoes another one.

    residual_mm: the farthest that a voxel centre of the grid is from where it started after the inverse and
    then T. folding: None if the inverse has a closed form.
    """

    transform: Transform
    params: torch.Tensor
    residual_mm: float
    status: InverseStatus
    folding: Folding | None = None


def invert_points(
    transform: Transform,
    params: torch.Tensor,
    xyz_mm: torch.Tensor,
    *,
    tolerance_mm: float = 1e-6,
    max_steps: int = 50,
) -> InvertedPoints:
    """Find x with T(x) = y for points y, (..., xyz), by Newton's method.

    `x <- x - T'(x)^-1 (T(x) - y)`, halved where it does not bring the point nearer.

    >>> from duotomo.transforms import BSpline
    >>> spline = BSpline.over(VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0)), (5, 5, 5))
    >>> params = torch.linspace(-1, 1, spline.n_params).double()
    >>> x = torch.tensor([[0.5, 4.0, 3.0]]).double()
    >>> found = invert_points(spline, params, spline.points(params, x))
    >>> bool((found.xyz_mm - x).abs().max() < 1e-5), found.status.name
    (True, 'CONVERGED')
    """
    params = transform.check(params).detach()
    check_tensor("invert_points", "xyz_mm", xyz_mm, shape=(3,), axes=("xyz",))
    target = xyz_mm.detach().double()
    back = torch.linalg.inv(_product_of_matrices(transform, params))[:3].to(target.device)
    at = MatrixMap(matrix=back).points(target)
    missed = transform.points(params, at).detach() - target
    size = torch.ones_like(target[..., :1])
    for _ in range(max_steps):
        length = missed.norm(dim=-1, keepdim=True)
        if bool((length <= tolerance_mm).all()):
            break
        jacobian = transform.jacobian(params, at).detach()
        step, _ = torch.linalg.solve_ex(jacobian, missed[..., None])
        step = torch.nan_to_num(step[..., 0])
        tried = at - size * step
        tried_missed = transform.points(params, tried).detach() - target
        nearer = tried_missed.norm(dim=-1, keepdim=True) < length
        at, missed = torch.where(nearer, tried, at), torch.where(nearer, tried_missed, missed)
        size = torch.where(nearer, (2 * size).clamp(max=1), size / 2)
    residual_mm = missed.norm(dim=-1)
    converged = bool((residual_mm <= tolerance_mm).all())
    status = InverseStatus.CONVERGED if converged else InverseStatus.NOT_CONVERGED
    return InvertedPoints(xyz_mm=at, residual_mm=residual_mm, status=status)


def inverse(
    transform: Transform,
    params: torch.Tensor,
    grid: VolumeGrid | None = None,
    *,
    tolerance_mm: float = 1e-6,
    max_steps: int = 100,
) -> Inverse:
    """Return the inverse of T: in closed form, or as displacements on a grid of the reference frame.

    Without a closed form, the displacements w solve `x + w = T^-1(x)` at the voxel centres x, by the
    fixed-point iteration `w <- w - M^-1 (T(x + w) - x)`, M being the product of T's matrices. Between centres
    they are linear. Where T folds there is no inverse: the status says so, and a warning names the place.
    """
    params = transform.check(params).detach()
    closed = transform.inverse(params)
    grid = grid or transform.grid
    if closed is not None:
        return Inverse(
            transform=closed[0],
            params=closed[1],
            residual_mm=_farthest_mm(Composition(closed[0], transform), closed[1], params, grid),
            status=InverseStatus.CLOSED_FORM,
        )
    fold = folding(transform, params, grid)
    field = DisplacementField(grid)
    there_and_back = Composition(field, transform)
    back = torch.linalg.inv(_product_of_matrices(transform, params))[:3]
    # With the matrices alone: w = M^-1 x - x.
    centers_mm = MatrixMap(matrix=index_matrix(grid)[:3]).points(voxels(grid.shape)).to(params.device)
    w = (MatrixMap(matrix=back).points(centers_mm) - centers_mm).movedim(-1, 0)
    residual_mm, best = torch.inf, w
    for _ in range(max_steps):
        moved = torch.cat([field.params(displacement_mm=w), params])
        missed = there_and_back.displacement(moved, grid)
        farthest_mm = float(missed.norm(dim=0).max())
        if farthest_mm < residual_mm:
            residual_mm, best = farthest_mm, w
        if farthest_mm <= tolerance_mm:
            break
        w = w - torch.einsum("ij,jzyx->izyx", back[:, :3], missed)
    status = InverseStatus.CONVERGED if residual_mm <= tolerance_mm else InverseStatus.NOT_CONVERGED
    if fold.n_folded:
        status = InverseStatus.FOLDED
        x, y, z = fold.worst_mm
        warnings.warn(
            f"inverse: {type(transform).__name__} folds at {fold.n_folded} of {fold.n_voxels} voxels, worst "
            f"(determinant {fold.lowest_determinant:.3g}) at (x, y, z) = ({x:.4g}, {y:.4g}, {z:.4g}) mm. "
            f"There is no inverse there; add bending energy, or use a Velocity transform.",
            RuntimeWarning,
            stacklevel=2,
        )
    return Inverse(
        transform=field,
        params=field.params(displacement_mm=best),
        residual_mm=residual_mm,
        status=status,
        folding=fold,
    )


def _product_of_matrices(transform: Transform, params: torch.Tensor) -> torch.Tensor:
    """Return the product, (4, 4), of the matrices among a transform's maps."""
    product = torch.eye(4, dtype=torch.float64, device=params.device)
    for one in transform.maps(transform.check(params).detach()):
        if isinstance(one, MatrixMap):
            product = torch.cat([one.matrix @ product, product[3:]])
    return product


def _farthest_mm(
    there_and_back: Composition, first: torch.Tensor, second: torch.Tensor, grid: VolumeGrid
) -> float:
    moved_mm = there_and_back.displacement(torch.cat([first, second]), grid)
    return float(moved_mm.norm(dim=0).max())
