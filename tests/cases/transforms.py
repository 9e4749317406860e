"""Every kind of transform, once. A new transform is one more line in `transforms`."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.kernels.warp.reference import voxels
from duotomo.transforms import (
    Affine,
    BSpline,
    Composition,
    DisplacementField,
    Rigid,
    Transform,
    Translation,
    Velocity,
)
from duotomo.transforms.compressions import Compressions, Mode, Response, n_monomials
from duotomo.transforms.recompression import Recompression

TransformCase = tuple[str, Callable[[VolumeGrid], Transform]]

REFERENCE = VolumeGrid(shape=(6, 7, 9), spacing_mm=(1.5, 1.0, 0.8), center_mm=(8.0, 3.0, -1.0))
MOVING = VolumeGrid(shape=(5, 6, 8), spacing_mm=(1.2, 1.1, 1.0), center_mm=(7.5, 3.5, -0.5))
"""Two grids that overlap and have nothing else in common."""


def transforms() -> list[TransformCase]:
    """Return the name of every case, and what builds it for a grid."""
    return [
        ("translation", Translation),
        ("rigid", Rigid),
        ("affine", Affine),
        ("affine about the origin", lambda grid: Affine(grid, center_mm=(0.0, 0.0, 0.0))),
        ("B-spline", lambda grid: BSpline.over(grid, (4, 5, 6))),
        # Integrated on few points: its derivatives are exact however coarse the flow is.
        ("velocity", lambda grid: Velocity.over(grid, (4, 4, 5), finer=1)),
        ("displacement field", DisplacementField),
        (
            "recompression",
            lambda grid: Recompression(grid, compressions(grid), BSpline.over(grid, (4, 4, 5))),
        ),
        ("rigid after translation", lambda grid: Composition(Translation(grid), Rigid(grid))),
        ("B-spline after affine", lambda grid: Composition(Affine(grid), BSpline.over(grid, (4, 4, 5)))),
        ("affine after B-spline", lambda grid: Composition(BSpline.over(grid, (4, 4, 5)), Affine(grid))),
        (
            "field after rigid after B-spline",
            lambda grid: Composition(
                BSpline.over(grid, (4, 4, 4)), Rigid(grid), DisplacementField(grid.coarsen(2))
            ),
        ),
    ]


def compressions(grid: VolumeGrid, *, expected_mm: float = 0.0) -> Compressions:
    """Return compressions of a body that nobody computed, two modes of which act through responses.

    expected_mm: of what is expected of them; without it, nothing moves unless modes do.
    """
    size_mm = max(grid.size_mm)
    modes = [Mode(name=name, expected=0.0, reach=12.0) for name in ("roll_moving_deg", "roll_reference_deg")]
    modes += [Mode(name=name, expected=0.0, reach=size_mm) for name in ("shift_x_mm", "shift_y_mm")]
    modes += [Mode(name=name, expected=0.0, reach=12.0) for name in ("lean_x_deg", "lean_z_deg")]
    modes += [Mode(name=name, expected=40.0, reach=4.0) for name in ("thickness_mm", "radius_mm")]
    d_z, d_y, d_x = (mm / 4 for mm in grid.size_mm)
    around = VolumeGrid(shape=(7, 7, 7), spacing_mm=(d_z, d_y, d_x), center_mm=grid.center_mm)

    def response(seed: int, of: tuple[int, ...]) -> Response:
        values = normal((n_monomials(len(of)), 3, *around.shape), seed=seed)
        sizes = torch.full((len(values),), 0.05 * size_mm, dtype=torch.float64)
        sizes[0] = expected_mm
        return Response(lattice=around, modes=of, coefficients=values * sizes[:, None, None, None, None])

    z, y, x = grid.center_mm
    return Compressions(
        modes=tuple(modes),
        release=response(1, (0, 6, 7)),
        press=response(2, (1, 7)),
        moving_center_mm=(x, y, z),
        reference_center_mm=(x, y, z),
    )


def normal(shape: tuple[int, ...], *, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Return signed normal numbers: positive ones would hide errors that cancel."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def centers_mm(grid: VolumeGrid) -> torch.Tensor:
    """Return the voxel centres of a grid, (z, y, x, xyz)."""
    return torch.from_numpy(voxel_to_world(grid, voxels(grid.shape)).copy())


def draw_params(
    transform: Transform,
    *,
    seed: int,
    size_voxels: float = 1.5,
    turn_deg: float = 180.0,
    stretch: float = 0.2,
) -> torch.Tensor:
    """Return random parameters that move points by a few voxels, either way along each axis.

    size_voxels: the spread of translations and of a lattice's coefficients. turn_deg: the largest rotation.
    stretch: the spread of the matrix whose exponential stretches and shears.
    """
    if isinstance(transform, Composition):
        parts = enumerate(transform.parts)
        drawn = [
            draw_params(p, seed=seed + i, size_voxels=size_voxels, turn_deg=turn_deg, stretch=stretch)
            for i, p in parts
        ]
        return transform.join(*drawn)
    generator = torch.Generator().manual_seed(seed)
    if not isinstance(transform, Rigid | Affine):
        return size_voxels * torch.randn(transform.n_params, generator=generator, dtype=torch.float64)
    axis, shift = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    shift_mm = size_voxels * shift * torch.tensor(transform.grid.spacing_mm[::-1], dtype=torch.float64)
    angle_deg = turn_deg * torch.rand((), generator=generator, dtype=torch.float64)
    turn = axis / axis.norm() * angle_deg
    if isinstance(transform, Rigid):
        return transform.params(rotation_deg=turn.tolist(), translation_mm=shift_mm.tolist())
    x, y, z = (turn * math.pi / 180).tolist()
    cross = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
    grow = stretch * torch.randn(3, 3, generator=generator, dtype=torch.float64)
    # The determinant of an exponential is positive, whatever the draw.
    matrix = torch.linalg.matrix_exp(cross) @ torch.linalg.matrix_exp(grow)
    middle = torch.tensor(transform.grid.center_mm[::-1], dtype=torch.float64) - transform.center_mm
    # Turned about the grid's middle, so that it stays where it is however far away the centre lies.
    return transform.params(matrix=matrix, translation_mm=(middle - matrix @ middle + shift_mm).tolist())
