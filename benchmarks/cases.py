"""The benchmark cases as data: what is projected, from where, what of it is known exactly; what is warped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import cos, radians, sin

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.phantoms import Ellipsoid, EllipticCylinder
from duotomo.transforms import Affine, BSpline, Transform

VALUE_PER_MM = 0.05
GAP_MM = 5.0


def sweep(*, n_views: int, detector_shape: tuple[int, int], pixel_mm: float) -> Acquisition:
    """Return `n_views` over +-25 degrees, the source at 660 mm, turning over a static detector (v, u)."""
    return Acquisition.arc(
        n_views=n_views,
        angle_range_rad=radians(50.0),
        source_to_detector_mm=660.0,
        pivot_height_mm=0.0,
        detector_shape=detector_shape,
        pixel_spacing_mm=(pixel_mm, pixel_mm),
    )


def grid(shape: tuple[int, int, int], spacing_mm: tuple[float, float, float]) -> VolumeGrid:
    """Return a grid (z, y, x) that rests above the detector."""
    return VolumeGrid.on_detector(shape, spacing_mm, gap_mm=GAP_MM)


CASES: dict[str, tuple[VolumeGrid, Acquisition]] = {
    "a": (
        grid((70, 70, 70), (1.0, 1.0, 1.0)),
        sweep(n_views=11, detector_shape=(128, 128), pixel_mm=1.0),
    ),
    "b": (
        grid((125, 292, 267), (0.48, 0.48, 0.48)),
        sweep(n_views=11, detector_shape=(400, 400), pixel_mm=0.48),
    ),
    "c": (
        grid((208, 208, 511), (0.215, 0.215, 0.215)),
        sweep(n_views=11, detector_shape=(320, 700), pixel_mm=0.215),
    ),
    "clinical": (
        grid((60, 1000, 2000), (1.0, 0.1, 0.1)),
        sweep(n_views=15, detector_shape=(1300, 2400), pixel_mm=0.1),
    ),
    # As many voxels, for programs that know no slabs.
    "cubes": (
        grid((60, 1000, 2000), (0.1, 0.1, 0.1)),
        sweep(n_views=15, detector_shape=(1300, 2400), pixel_mm=0.1),
    ),
}
FOR_A_GPU = ("clinical", "cubes")
"""Cases that take most programs minutes on a CPU."""

# One field of 60 x 100 x 60 mm (x, y, z) in slabs and in cubes, seen by one scan.
SLAB_ACCURACY: dict[str, VolumeGrid] = {
    "slabs 0.1 x 0.1 x 1 mm": grid((60, 1000, 600), (1.0, 0.1, 0.1)),
    "cubes 0.1 mm": grid((600, 1000, 600), (0.1, 0.1, 0.1)),
}
SLAB_ACQUISITION = sweep(n_views=15, detector_shape=(1150, 1300), pixel_mm=0.1)


def solid_for(name: str) -> Ellipsoid | EllipticCylinder:
    """Return the solid that a case is judged on."""
    volume_grid, _ = CASES[name]
    return slab_cylinder(volume_grid) if name == "clinical" else ellipsoid(volume_grid)


def line_integrals(solid: Ellipsoid | EllipticCylinder, acquisition: Acquisition) -> NDArray[np.float64]:
    """Return a solid's exact line integrals, averaged over each pixel, (view, v, u); views in parallel."""
    with ThreadPoolExecutor() as pool:
        return np.concatenate(list(pool.map(solid.line_integrals, acquisition)))


def ellipsoid(volume_grid: VolumeGrid) -> Ellipsoid:
    """Return the ellipsoid in the grid's middle whose semi-axes are 0.42 of its extent."""
    z, y, x = volume_grid.center_mm
    size_z, size_y, size_x = volume_grid.size_mm
    radii_mm = (0.42 * size_x, 0.42 * size_y, 0.42 * size_z)
    return Ellipsoid(center_mm=(x, y, z), radii_mm=radii_mm, value=VALUE_PER_MM)


def slab_cylinder(volume_grid: VolumeGrid) -> EllipticCylinder:
    """Return the cylinder of 0.42 of the extent in the grid's middle, its flat faces on faces of slabs."""
    z, y, x = volume_grid.center_mm
    _, size_y, size_x = volume_grid.size_mm
    n_slabs, slab_mm = volume_grid.shape[0], volume_grid.spacing_mm[0]
    margin = round(0.08 * n_slabs)
    return EllipticCylinder(
        center_mm=(x, y, z),
        radii_mm=(0.42 * size_x, 0.42 * size_y),
        height_mm=(n_slabs - 2 * margin) * slab_mm,
        value=VALUE_PER_MM,
    )


WARP_SPACING_MM = (0.215, 0.215, 0.215)


def affine(volume_grid: VolumeGrid, control_shape: tuple[int, int, int]) -> tuple[Transform, torch.Tensor]:
    """Return an affine transform with parameters that turn, stretch and shear, and shift by some voxels."""
    transform = Affine(volume_grid)
    turn_z, turn_x = radians(6.0), radians(-4.0)
    about_z = [[cos(turn_z), -sin(turn_z), 0.0], [sin(turn_z), cos(turn_z), 0.0], [0.0, 0.0, 1.0]]
    about_x = [[1.0, 0.0, 0.0], [0.0, cos(turn_x), -sin(turn_x)], [0.0, sin(turn_x), cos(turn_x)]]
    stretch = [[1.05, 0.03, 0.0], [0.0, 0.97, 0.02], [0.01, 0.0, 1.02]]
    matrix = torch.tensor(about_z) @ torch.tensor(about_x) @ torch.tensor(stretch)
    d_z, d_y, d_x = volume_grid.spacing_mm
    return transform, transform.params(matrix=matrix, translation_mm=(2.3 * d_x, -1.7 * d_y, 3.1 * d_z))


def bspline(volume_grid: VolumeGrid, control_shape: tuple[int, int, int]) -> tuple[Transform, torch.Tensor]:
    """Return a B-spline with random coefficients of about three voxels."""
    transform = BSpline.over(volume_grid, control_shape)
    generator = torch.Generator().manual_seed(0)
    return transform, 3.0 * torch.randn(transform.n_params, generator=generator, dtype=torch.float64)


WARPS = {"affine": affine, "bspline": bspline}


def warp(
    name: str, shape: tuple[int, int, int], control_shape: tuple[int, int, int]
) -> tuple[Transform, torch.Tensor]:
    """Return a transform on a grid of `shape` (z, y, x), and its parameters."""
    return WARPS[name](grid(shape, WARP_SPACING_MM), control_shape)
