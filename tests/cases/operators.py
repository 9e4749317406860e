"""Every kind of linear operator, once. A new operator is one more line in `operators`."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Gradient, LinearOperator, Projector, SplineBasis, Weighting
from duotomo.operators.counted import Counted
from duotomo.transforms import Transform
from tests.cases.scans import arc
from tests.cases.transforms import MOVING, REFERENCE, draw_params, transforms

OperatorCase = tuple[str, Callable[[torch.dtype], LinearOperator]]

GRID = VolumeGrid.on_detector((4, 6, 7), (1.5, 1.0, 0.8), gap_mm=3.0)


def sweep(*, n_views: int = 3, tilt_rad: float = 0.0, source_y_mm: float = 0.0) -> Acquisition:
    """Return a sweep over 40 degrees above a detector of 9 x 11 pixels."""
    return Acquisition.arc(
        n_views=n_views,
        angle_range_rad=math.radians(40),
        detector_tilt_range_rad=tilt_rad,
        source_to_detector_mm=200.0,
        pivot_height_mm=0.0,
        detector_shape=(9, 11),
        pixel_spacing_mm=(0.9, 1.1),
        source_y_mm=source_y_mm,
    )


def turned_sweep(u_axis: tuple[float, float, float], v_axis: tuple[float, float, float]) -> Acquisition:
    """Return the static sweep with its detector's axes replaced in every view."""
    scan = sweep()
    return Acquisition(
        source_mm=scan.source_mm,
        detector_center_mm=scan.detector_center_mm,
        u_axis=[u_axis] * scan.n_views,
        v_axis=[v_axis] * scan.n_views,
        pixel_spacing_mm=scan.pixel_spacing_mm,
        detector_shape=scan.detector_shape,
    )


def projector(acquisition: Acquisition, grid: VolumeGrid = GRID) -> Callable[[torch.dtype], LinearOperator]:
    """Return what builds a projector; it works in any precision."""
    return lambda dtype: Projector(grid=grid, acquisition=acquisition)


def weighting(dtype: torch.dtype) -> Weighting:
    """Return weights of both signs, one of them zero, for projections."""
    weights = torch.randn(sweep().shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    weights[0, 0, 0] = 0.0
    return Weighting(weights.to(dtype))


def warp(
    name: str,
    *,
    cubic: bool = False,
    reference: VolumeGrid = REFERENCE,
    moving: VolumeGrid = MOVING,
    size_voxels: float = 1.5,
) -> Callable[[torch.dtype], LinearOperator]:
    """Return what builds a warp by one of the transforms; it works in any precision."""
    transform: Transform = dict(transforms())[name](reference)
    params = draw_params(transform, seed=4, size_voxels=size_voxels, turn_deg=60.0)
    return lambda dtype: transform.warp(params, reference, moving, cubic=cubic)


def operators() -> list[OperatorCase]:
    """Return the name and the builder of every case."""
    static, tilting = projector(sweep()), projector(sweep(tilt_rad=math.radians(10)))
    # The source is 20 mm above the slab's top: rays lean strongly, footprints are far wider than voxels.
    near = arc((9, 11), (0.9, 1.1), n_views=2, degrees=math.degrees(1.0), source_to_detector_mm=30.0)
    seen = warp("affine", moving=GRID)
    column = VolumeGrid(shape=(5, 4, 1), spacing_mm=(1.5, 1.0, 4.0), center_mm=(8.0, 3.0, -1.0))
    return [
        ("projector static", static),
        ("projector tilting", tilting),
        ("projector turned 90 degrees in plane", projector(turned_sweep((0, 1, 0), (-1, 0, 0)))),
        ("projector turned 30 degrees in plane", projector(turned_sweep(*_turned(math.radians(30))))),
        ("projector u flipped", projector(turned_sweep((-1, 0, 0), (0, 1, 0)))),
        ("projector truncated", projector(sweep(), VolumeGrid.on_detector((4, 20, 30), (1.5, 1.0, 1.0)))),
        ("projector one slice", projector(sweep(), VolumeGrid.on_detector((1, 6, 7), (1.5, 1.0, 0.8)))),
        ("projector one row", projector(sweep(), VolumeGrid.on_detector((4, 1, 7), (1.5, 1.0, 0.8)))),
        ("projector one column", projector(sweep(), VolumeGrid.on_detector((4, 6, 1), (1.5, 1.0, 0.8)))),
        ("projector one view", projector(sweep(n_views=1))),
        ("projector source off-centre", projector(sweep(source_y_mm=25.0))),
        ("projector source near", projector(near, VolumeGrid.on_detector((4, 6, 7), (1.5, 1.0, 0.8)))),
        # Wider than a vector and than a block of the CPU kernel, in both directions.
        ("projector wide", projector(sweep(), VolumeGrid.on_detector((3, 40, 150), (1.0, 0.2, 0.08)))),
        ("warp by a rigid transform", warp("rigid")),
        ("warp by a rigid transform, cubic", warp("rigid", cubic=True)),
        ("warp by a B-spline", warp("B-spline")),
        ("warp by a B-spline, cubic", warp("B-spline", cubic=True)),
        ("warp through two lattices", warp("field after rigid after B-spline")),
        ("warp of one column", warp("rigid", reference=column, moving=column, size_voxels=0.3)),
        # Rows of several vectors of the CPU kernel, and a remainder.
        ("warp to long rows", warp("velocity", moving=MOVING.refine((1, 1, 5)))),
        ("counted", lambda dtype: Counted(tilting(dtype))),
        ("weighting", weighting),
        ("gradient", lambda dtype: Gradient(GRID, depth_weight=0.7)),
        ("spline basis", lambda dtype: SplineBasis(GRID)),
        ("spline basis of thick slices", lambda dtype: SplineBasis(GRID.coarsen((4, 1, 1)))),
        ("gradient of one slice", lambda dtype: Gradient(GRID.coarsen((4, 1, 1)), depth_weight=0.7)),
        ("weighted projector", lambda dtype: weighting(dtype) @ static(dtype)),
        ("adjoint of the projector", lambda dtype: static(dtype).adjoint),
        ("projector of a warped volume", lambda dtype: static(dtype) @ seen(dtype)),
        ("normal operator", lambda dtype: tilting(dtype).adjoint @ tilting(dtype)),
        ("sum", lambda dtype: static(dtype) + tilting(dtype)),
        ("scaled", lambda dtype: -2.5 * tilting(dtype)),
        ("difference", lambda dtype: weighting(dtype) @ static(dtype) + -1.0 * tilting(dtype)),
    ]


def _turned(angle_rad: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    cos, sin = math.cos(angle_rad), math.sin(angle_rad)
    return (cos, sin, 0.0), (-sin, cos, 0.0)
