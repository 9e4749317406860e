"""Projections and the voxels of a volume: smoothed alike, and how they change over a voxel's shadow."""

from __future__ import annotations

import math

import torch

from duotomo.geometry import Acquisition, VolumeGrid


def voxel_shadow(acquisition: Acquisition, grid: VolumeGrid) -> tuple[float, float]:
    """Return the edges, along (v, u), of the shadow of a voxel in the middle of a grid, in pixels.

    A mean over the views of `edge * magnification / pixel`, the edges being those along y and x.
    """
    z, y, x = grid.center_mm
    middle = torch.tensor([x, y, z], dtype=torch.float64)
    normals = torch.as_tensor(acquisition.normals, dtype=torch.float64)
    source, center = (
        torch.tensor(rows, dtype=torch.float64)
        for rows in (acquisition.source_mm, acquisition.detector_center_mm)
    )
    to_detector, to_middle = (((source - end) * normals).sum(dim=1) for end in (center, middle))
    magnification = float((to_detector / to_middle).mean())
    _, d_y, d_x = grid.spacing_mm
    d_v, d_u = acquisition.pixel_spacing_mm
    return d_y * magnification / d_v, d_x * magnification / d_u


def spline_filtered(
    projections: torch.Tensor, widths: tuple[float, float], used: torch.Tensor | None = None
) -> torch.Tensor:
    """Return projections (view, v, u) smoothed by the cubic B-spline of given widths along (v, u), in pixels.

    A width of 1 gives the weights (1, 4, 1) / 6, which `SplineBasis` gives the volume. Beyond the edges the
    outermost pixels go on. Where `used` is false, a pixel holds anything: its neighbours do without it.
    """
    if used is not None:
        used = used.to(projections)
        share = _smoothed(used, widths).clamp(min=torch.finfo(projections.dtype).tiny)
        return _smoothed(used * projections, widths) / share
    return _smoothed(projections, widths)


def change_over(
    projections: torch.Tensor, widths: tuple[float, float], used: torch.Tensor | None = None
) -> torch.Tensor:
    """Return by how much projections (view, v, u) change over given widths along (v, u), in pixels.

    `hypot(w_v dp/dv, w_u dp/du)` by central differences, at the edges one-sided. Where `used` is false, a
    pixel holds anything: a difference with it does not count.
    """
    squares = torch.zeros_like(projections)
    for axis, width in zip((1, 2), widths, strict=True):
        n_pixels = projections.shape[axis]
        at = torch.arange(n_pixels, device=projections.device)
        before, after = (at - 1).clamp(min=0), (at + 1).clamp(max=n_pixels - 1)
        shape = [n_pixels if one == axis else 1 for one in range(3)]
        apart = (after - before).clamp(min=1).reshape(shape).to(projections)
        slope = (projections.index_select(axis, after) - projections.index_select(axis, before)) / apart
        if used is not None:
            slope = slope.masked_fill(
                ~(used.index_select(axis, after) & used.index_select(axis, before)), 0.0
            )
        squares += (width * slope).square()
    return squares.sqrt()


def _smoothed(projections: torch.Tensor, widths: tuple[float, float]) -> torch.Tensor:
    smoothed = torch.empty_like(projections)
    # View by view: PyTorch's convolution works on copies that are tens of times as large.
    for view, out in zip(projections, smoothed, strict=True):
        out.copy_(_smoothed_view(view[None], widths)[0])
    return smoothed


def _smoothed_view(projections: torch.Tensor, widths: tuple[float, float]) -> torch.Tensor:
    for axis, width in zip((1, 2), widths, strict=True):
        reach = math.ceil(2 * width) - 1
        if reach < 1:
            continue
        at = (torch.arange(-reach, reach + 1, dtype=torch.float64) / width).abs()
        weights = torch.where(at < 1, 2 / 3 - at**2 + at**3 / 2, (2 - at).clamp(min=0) ** 3 / 6)
        weights = (weights / weights.sum()).to(projections)
        lines = projections.movedim(axis, -1)
        rows = torch.nn.functional.pad(
            lines.reshape(-1, 1, lines.shape[-1]), (reach, reach), mode="replicate"
        )
        filtered = torch.nn.functional.conv1d(rows, weights[None, None])
        projections = filtered.reshape(lines.shape).movedim(-1, axis).contiguous()
    return projections
