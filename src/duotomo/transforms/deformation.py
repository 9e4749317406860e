"""Statistics of a deformation: displacements, changes of volume, and folding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from duotomo.errors import ShapeError, check_same, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world

if TYPE_CHECKING:
    from duotomo.transforms.motion import Motion

Point = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Folding:
    """Folding of T on a grid: the voxels whose Jacobian determinant is not positive.

    Parameters
    ----------
    n_folded : int
        Voxels whose determinant is not positive.
    n_voxels : int
        Voxels evaluated.
    lowest_determinant : float
        Lowest determinant among them, without unit.
    worst_mm : tuple of float
        Voxel centre of the lowest determinant, (x, y, z) in mm, folded or not.
    """

    n_folded: int
    n_voxels: int
    lowest_determinant: float
    worst_mm: Point


@dataclass(frozen=True, kw_only=True)
class DeformationStatistics:
    """Displacements and changes of volume over a grid, or over a mask on it.

    Parameters
    ----------
    n_voxels : int
        Voxels evaluated.
    mean_mm, median_mm, percentile_95_mm, largest_mm : float
        Of the lengths of the displacements, in mm.
    mean_xyz_mm : tuple of float
        Mean displacement, (x, y, z) in mm.
    mean_determinant, highest_determinant : float
        Of the determinants of the Jacobian, without unit.
    folding : Folding
        Where T folds.
    """

    n_voxels: int
    mean_mm: float
    median_mm: float
    percentile_95_mm: float
    largest_mm: float
    mean_xyz_mm: Point
    mean_determinant: float
    highest_determinant: float
    folding: Folding


def folding(motion: Motion, grid: VolumeGrid | None = None, mask: torch.Tensor | None = None) -> Folding:
    """Count the voxels of a grid, or of a mask on it, where T folds.

    Parameters
    ----------
    motion : Motion
        T with its parameters.
    grid : VolumeGrid, optional
        Of the moving frame; that of the transform unless given.
    mask : torch.Tensor, optional
        The voxels that count, (z, y, x), bool.

    Returns
    -------
    Folding
        Number of folded voxels, and the lowest determinant.

    Raises
    ------
    ShapeError
        If the mask is not a bool tensor on the grid with at least one voxel.
    """
    grid = grid or motion.grid
    chosen = _chosen("folding", mask, grid)
    return _folding(motion.determinants(grid).cpu(), grid, chosen)


def deformation_statistics(
    motion: Motion, grid: VolumeGrid | None = None, mask: torch.Tensor | None = None
) -> DeformationStatistics:
    """Return statistics of T over a grid of the moving frame, or over a mask on it.

    Parameters
    ----------
    motion, grid, mask
        As for `folding`.

    Returns
    -------
    DeformationStatistics
        Lengths in mm, and determinants.

    Raises
    ------
    ShapeError
        As for `folding`.

    Examples
    --------
    >>> from duotomo.transforms import Motion, Translation
    >>> shift = Translation(VolumeGrid.on_detector((4, 4, 4), (1.0, 1.0, 1.0)))
    >>> deformation_statistics(Motion(shift, shift.params(translation_mm=(3.0, 0.0, 4.0)))).mean_mm
    5.0
    """
    grid = grid or motion.grid
    chosen = _chosen("deformation_statistics", mask, grid)
    moved_mm = motion.displacement(grid).cpu()[:, chosen]
    lengths_mm = moved_mm.norm(dim=0)
    ordered_mm = lengths_mm.sort().values
    determinants = motion.determinants(grid).cpu()
    x, y, z = moved_mm.mean(dim=1).tolist()
    last = len(ordered_mm) - 1
    return DeformationStatistics(
        n_voxels=len(lengths_mm),
        mean_mm=float(lengths_mm.mean()),
        median_mm=float(ordered_mm[last // 2]),
        percentile_95_mm=float(ordered_mm[round(0.95 * last)]),
        largest_mm=float(ordered_mm[-1]),
        mean_xyz_mm=(x, y, z),
        mean_determinant=float(determinants[chosen].mean()),
        highest_determinant=float(determinants[chosen].max()),
        folding=_folding(determinants, grid, chosen),
    )


def target_registration_error(
    motion: Motion, moving_mm: torch.Tensor, reference_mm: torch.Tensor
) -> torch.Tensor:
    """Return the target registration error, `|T(m) - r|`, of landmarks known in both frames.

    Parameters
    ----------
    motion : Motion
        T with its parameters.
    moving_mm : torch.Tensor
        The landmarks m in the moving frame, (landmark, xyz), in mm.
    reference_mm : torch.Tensor
        The same landmarks r in the reference frame, (landmark, xyz), in mm.

    Returns
    -------
    torch.Tensor
        (landmark,), in mm, float64.

    Raises
    ------
    ShapeError
        If there are not as many landmarks in both frames.

    Examples
    --------
    >>> from duotomo.transforms import Motion, Translation
    >>> shift = Translation(VolumeGrid.on_detector((4, 4, 4), (1.0, 1.0, 1.0)))
    >>> still = Motion(shift, shift.identity())
    >>> target_registration_error(still, torch.zeros(1, 3), torch.ones(1, 3) * 2).tolist()
    [3.4641016151377544]
    """
    where = "target_registration_error"
    check_tensor(where, "moving_mm", moving_mm, shape=(3,), axes=("xyz",))
    check_tensor(where, "reference_mm", reference_mm, shape=(3,), axes=("xyz",))
    check_same(where, "reference_mm", reference_mm, device=moving_mm.device, dtype=moving_mm.dtype)
    if moving_mm.shape != reference_mm.shape:
        raise ShapeError(
            f"{where}: expected as many landmarks in both frames; got {tuple(moving_mm.shape)} moving and "
            f"{tuple(reference_mm.shape)} reference. Pass them in pairs, in the same order."
        )
    missed_mm = motion.points(moving_mm) - reference_mm.double()
    return missed_mm.square().sum(dim=-1).sqrt()


def _chosen(where: str, mask: torch.Tensor | None, grid: VolumeGrid) -> torch.Tensor:
    if mask is None:
        return torch.ones(grid.shape, dtype=torch.bool)
    if mask.shape != grid.shape or mask.dtype != torch.bool or not bool(mask.any()):
        raise ShapeError(
            f"{where}: expected a mask (z, y, x) = {grid.shape} of torch.bool with at least one voxel; got "
            f"{tuple(mask.shape)} of {mask.dtype} with {int(mask.sum())}. Make it on the same grid."
        )
    return mask.cpu()


def _folding(determinants: torch.Tensor, grid: VolumeGrid, chosen: torch.Tensor) -> Folding:
    candidates = torch.where(chosen, determinants, torch.inf)
    worst = torch.unravel_index(candidates.argmin(), candidates.shape)
    x, y, z = voxel_to_world(grid, [int(i) for i in worst]).tolist()
    return Folding(
        n_folded=int((candidates <= 0).sum()),
        n_voxels=int(chosen.sum()),
        lowest_determinant=float(candidates.min()),
        worst_mm=(x, y, z),
    )
