"""Elementary maps that every transform is composed of: matrices, and lattices of displacements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_matrix
from duotomo.kernels.dispatch import warp_kernels
from duotomo.kernels.warp.point_map import PointMap
from duotomo.kernels.warp.reference import lattice_values
from duotomo.operators.derivatives import plain


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixMap:
    """Affine map of points, `x -> M (x, 1)`.

    Parameters
    ----------
    matrix : torch.Tensor
        M, (3, 4), float64: rows x, y, z; the last column in mm, the others without unit.
    """

    matrix: torch.Tensor

    def points(self, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return where points, (..., xyz) in mm, go."""
        matrix = self.matrix.to(xyz_mm.device)
        return xyz_mm @ matrix[:, :3].T + matrix[:, 3]


@dataclass(frozen=True, kw_only=True, eq=False)
class LatticeMap:
    """B-spline displacement of points, `x -> x + sum over control points j of B((x - x_j) / spacing) c_j`.

    B is a product of B-splines, one per axis. There are no control points beyond the lattice, so
    displacements decrease to zero around it.

    Parameters
    ----------
    lattice : VolumeGrid
        Its voxel centres are the control points.
    coefficients : torch.Tensor
        c, (xyz, z, y, x), float64, in mm.
    degree : int
        Of the B-splines: 3 for cubic, 1 for linear.
    """

    lattice: VolumeGrid
    coefficients: torch.Tensor
    degree: int = 3

    def points(self, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return where points, (..., xyz) in mm, go."""
        to_lattice = _world_matrix(self.lattice).to(xyz_mm.device)
        at = xyz_mm @ to_lattice[:3, :3].T + to_lattice[:3, 3]
        return xyz_mm + lattice_values(self.coefficients.to(xyz_mm.device), at, self.degree)


ElementaryMap = MatrixMap | LatticeMap


@lru_cache(maxsize=64)
def index_matrix(grid: VolumeGrid) -> torch.Tensor:
    """Return the matrix, (4, 4), from (z, y, x, 1), a voxel index, to (x, y, z, 1) in mm.

    Examples
    --------
    >>> index_matrix(VolumeGrid.on_detector((2, 4, 6), (1, 1, 1))) @ torch.tensor([0.0, 0, 0, 1]).double()
    tensor([-2.5000,  0.5000,  0.5000,  1.0000], dtype=torch.float64)
    """
    return plain(torch.from_numpy(voxel_matrix(grid)))


def move_points(maps: Sequence[ElementaryMap], xyz_mm: torch.Tensor) -> torch.Tensor:
    """Move points, (..., xyz), through all maps. Differentiable in points, matrices and coefficients."""
    for one in maps:
        xyz_mm = one.points(xyz_mm)
    return xyz_mm


def map_tensors(
    maps: Sequence[ElementaryMap], reference: VolumeGrid, moving: VolumeGrid
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Return the matrices and coefficients of a `PointMap`, differentiable in those of the maps."""
    to_world = index_matrix(moving)
    matrices, coefficients = [], []
    for one in maps:
        if isinstance(one, MatrixMap):
            matrix = one.matrix.cpu()
            to_world = torch.cat([matrix @ to_world, to_world[3:]])
        else:
            from_lattice = index_matrix(one.lattice)
            matrices.append((_world_matrix(one.lattice) @ to_world)[:3])
            spacing_mm = _spacing_mm(one.lattice, one.coefficients.device)
            coefficients.append(one.coefficients.flip(0) / spacing_mm)
            to_world = from_lattice
    matrices.append((_world_matrix(reference) @ to_world)[:3])
    return torch.stack(matrices), tuple(coefficients)


def map_points(
    maps: Sequence[ElementaryMap], tensors: tuple[torch.Tensor, tuple[torch.Tensor, ...]]
) -> PointMap:
    """Return the map from voxel indices of the moving grid to those of the reference grid.

    `tensors` is what `map_tensors` returns for these maps.
    """
    matrices, coefficients = tensors
    fixed, is_fixed = [], True
    for one in maps:
        if isinstance(one, MatrixMap):
            is_fixed = False
        else:
            fixed.append(is_fixed)
            is_fixed = True
    return PointMap(
        matrices=matrices.detach(),
        coefficients=tuple(values.detach() for values in coefficients),
        degrees=tuple(one.degree for one in maps if isinstance(one, LatticeMap)),
        fixed=(*fixed, is_fixed),
    )


def grid_map(maps: Sequence[ElementaryMap], grid: VolumeGrid) -> PointMap:
    """Return the map from voxel indices of a grid to voxel indices of the same grid."""
    return map_points(maps, map_tensors(maps, grid, grid))


def grid_displacement(
    maps: Sequence[ElementaryMap], grid: VolumeGrid, device: torch.device | str
) -> torch.Tensor:
    """Return the displacement of the voxel centres of a grid: (xyz, z, y, x), in mm, float64."""
    point_map = grid_map(maps, grid)
    where = torch.empty(3, *grid.shape, dtype=torch.float64, device=device)
    warp_kernels(where.device).positions(where, point_map)
    for at, n, spacing_mm, axis in zip(where, grid.shape, grid.spacing_mm, range(3), strict=True):
        index = torch.arange(n, dtype=torch.float64, device=where.device)
        at -= index.reshape(-1, *(1,) * (2 - axis))
        at *= spacing_mm
    return where.flip(0)


@lru_cache(maxsize=64)
def _spacing_mm(lattice: VolumeGrid, device: torch.device) -> torch.Tensor:
    """Return the distances of control points along z, y and x, (3, 1, 1, 1)."""
    spacing_mm = torch.tensor(lattice.spacing_mm, dtype=torch.float64).to(device)
    return plain(spacing_mm[:, None, None, None])


@lru_cache(maxsize=64)
def _world_matrix(grid: VolumeGrid) -> torch.Tensor:
    """Return the inverse of `index_matrix`."""
    # Written out, so that zeros stay exactly zero: rows of voxels are known to run along a lattice by them.
    matrix = index_matrix(grid)
    inverse = torch.zeros(4, 4, dtype=torch.float64)
    for world, index in ((0, 2), (1, 1), (2, 0)):
        inverse[index, world] = 1 / matrix[world, index]
        inverse[index, 3] = -matrix[world, 3] / matrix[world, index]
    inverse[3, 3] = 1
    return plain(inverse)
