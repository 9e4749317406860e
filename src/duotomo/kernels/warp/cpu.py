"""Warping on the CPU, in Numba. See `reference` for what it computes.

Rows of voxels are followed through the map (`rows`), then the volume is read, or written, where they end.
Writing is a true scatter: each task owns a slab of the volume and lets only what falls into it arrive, in
the order of the voxels, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from duotomo.kernels.compiled import compiled
from duotomo.kernels.threads import share
from duotomo.kernels.warp.corners import LANES
from duotomo.kernels.warp.cpu_derivatives import differentiate_volume, pull_back_image
from duotomo.kernels.warp.cubes import add_to_cube
from duotomo.kernels.warp.interpolation import is_amid, is_far, read_row, read_slopes_row, tap_weights
from duotomo.kernels.warp.point_map import PAD, PointMap
from duotomo.kernels.warp.reference import spline_weights
from duotomo.kernels.warp.rows import (
    displacement_jacobian,
    follow_row,
    room,
)

STEPS = 3.0
"""About how long a voxel takes, in ns."""
SHARE_OF_SUMS, FREE_SUMS = 0.05, 2**20
"""Memory for partial sums of a lattice's gradient: as a share of the image, or numbers that cost nothing."""

_Args = tuple[NDArray[Any], NDArray[Any], NDArray[Any], bool, NDArray[Any], NDArray[Any]]


def gather(volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `out`, (z, y, x), the values of `volume`, (z, y, x), where the voxels of `out` go."""
    args = _arguments(point_map, out)
    call = partial(_gather, volume.numpy(), out.numpy(), *args, cubic)
    share(call, len(out), steps=STEPS * out.numel())


def spread(image: torch.Tensor, volume: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `volume` the transpose of `gather` applied to `image`."""
    args = _arguments(point_map, image)
    call = partial(_spread, image.numpy(), volume.numpy(), *args, _reach_along_z(point_map), cubic)
    # Order is kept for any number of slabs. Rows that meet two of them are followed twice: few parts.
    share(call, len(volume), steps=STEPS * image.numel(), parts=2)


def slopes(volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `out`, (axis, z, y, x), the slopes of `volume`, per voxel, where the voxels of `out` go."""
    args = _arguments(point_map, out[0])
    call = partial(_slopes, volume.numpy(), out.numpy(), *args, cubic)
    share(call, out.shape[1], steps=STEPS * out[0].numel())


def differentiate(
    volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, change: PointMap, *, cubic: bool
) -> None:
    """Write to `out` the derivative of `gather` as the map moves along `change`."""
    args = _arguments(point_map, out)
    d_packed = change.packed(out).numpy()
    moving = np.array([k > 0 or bool(change.matrix_array[0].any()) for k in range(len(args[2]) + 1)])
    call = partial(
        differentiate_volume,
        *(volume.numpy(), out.numpy(), *args),
        *(change.matrix_array, d_packed, moving, cubic),
    )
    share(call, len(out), steps=2 * STEPS * out.numel())


def pull_back(
    volume: torch.Tensor, image: torch.Tensor, point_map: PointMap, *, cubic: bool
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Return the gradient of `<gather(volume), image>` in the matrices and in the coefficients, float64."""
    args = _arguments(point_map, image)
    n_sums = max(args[1].size if len(args[2]) else 1, 1)
    n_chunks = min(image.shape[0], 16, max(1, int(max(SHARE_OF_SUMS * image.numel(), FREE_SUMS) / n_sums)))
    sums = np.zeros((n_chunks, n_sums))
    d_matrices = np.zeros((n_chunks, len(args[2]) + 1, 3, 4))
    fixed = np.array(point_map.fixed or (False,) * len(d_matrices[0]))
    call = partial(pull_back_image, volume.numpy(), image.numpy(), *args, sums, d_matrices, fixed, cubic)
    share(call, n_chunks, steps=2 * STEPS * image.numel())
    total = torch.from_numpy(sums.sum(axis=0))
    return torch.from_numpy(d_matrices.sum(axis=0)), point_map.unpack(total)


def positions(out: torch.Tensor, point_map: PointMap) -> None:
    """Write to `out`, (zyx, z, y, x), where the voxels go."""
    if point_map.n_lattices == 0:
        _places_by_matrix(out, point_map.matrix_array[0])
        return
    call = partial(_positions, out.numpy(), *_arguments(point_map, out[0]))
    share(call, out.shape[1], steps=STEPS * out[0].numel())


def determinants(out: torch.Tensor, point_map: PointMap) -> None:
    """Write to `out`, (z, y, x), the determinant of the map's Jacobian."""
    if point_map.n_lattices == 0:
        out.fill_(float(np.linalg.det(point_map.matrix_array[0, :, :3])))
        return
    call = partial(_determinants, out.numpy(), *_arguments(point_map, out))
    share(call, len(out), steps=STEPS * out.numel())


def _places_by_matrix(out: torch.Tensor, matrix: NDArray[np.float64]) -> None:
    """Write where the voxels go by a matrix alone, by the operations of `start_row`: no loop to wait for."""
    z, y, x = (torch.arange(n, dtype=out.dtype) for n in out.shape[1:])
    for places, (along_z, along_y, along_x, start) in zip(out, matrix.tolist(), strict=True):
        rows = (along_z * z)[:, None] + along_y * y + start
        torch.add(rows[:, :, None], along_x * x, out=places)


def _arguments(point_map: PointMap, image: torch.Tensor) -> _Args:
    packed = point_map.packed(image).numpy()
    # Rows are followed in whole vectors; what hangs over is not used.
    n_x = -(-image.shape[-1] // LANES) * LANES
    table = point_map.kept(("x table", n_x, image.dtype), lambda: _x_table(point_map, n_x, image.dtype))
    return point_map.matrix_array, packed, point_map.layout, point_map.aligned, *table


def _x_table(point_map: PointMap, n_x: int, dtype: torch.dtype) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return, for each voxel of a row, the first control point along x that acts on it, and its weights.

    The former, (x,), is counted in a padded row of the first lattice; the latter are (4, x).
    """
    first, weights = np.zeros(n_x, dtype=np.uint32), torch.zeros(4, n_x, dtype=dtype)
    if point_map.aligned:
        start, step = point_map.matrices[0, 2, 3].to(dtype), point_map.matrices[0, 2, 2].to(dtype)
        at = start + step * torch.arange(n_x, dtype=dtype)
        below = at.floor()
        n_lattice, taps = point_map.layout[0, 3:].tolist()
        weights[:taps] = spline_weights(at - below, point_map.degrees[0]).T
        # As `first_point` has it.
        first[:] = below.clamp(-3, n_lattice - 2 * PAD + 1).numpy() + (PAD - (taps // 2 - 1))
    return first, weights.numpy()


def _reach_along_z(point_map: PointMap) -> NDArray[np.float64]:
    """Return how far along z the lattices can carry a voxel from where the matrices alone would."""
    reach = np.zeros(3)
    for k, matrix in enumerate(point_map.matrix_array[1:]):
        reach = np.abs(matrix[:, :3]) @ (reach + point_map.reach[k])
    return reach[:1]


@compiled
def _gather(volume, out, matrices, packed, layout, aligned, first, weights, cubic, begin, end):
    contracted, trail = room(len(first), layout, aligned, packed)
    line = np.empty(len(first), packed.dtype)
    for z in range(begin, end):
        for y in range(out.shape[1]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            read_row(volume, trail[2 * layout.shape[0]], cubic, line)
            for x in range(out.shape[2]):
                out[z, y, x] = line[x]


@njit(inline="always")
def _row_misses(matrices, n_x, z, y, reach, low, high, margin):
    """Whether no voxel of a row can come within `margin` of low <= z < high."""
    start, step = 0.0, 0.0
    a_z, a_y, a_x = 0.0, 0.0, 0.0
    # The product of all matrices, applied to the first voxel of the row and to the step along it.
    p_z, p_y, p_x = float(z), float(y), 0.0
    s_z, s_y, s_x = 0.0, 0.0, 1.0
    for k in range(matrices.shape[0]):
        m = matrices[k]
        a_z = m[0, 0] * p_z + m[0, 1] * p_y + m[0, 2] * p_x + m[0, 3]
        a_y = m[1, 0] * p_z + m[1, 1] * p_y + m[1, 2] * p_x + m[1, 3]
        a_x = m[2, 0] * p_z + m[2, 1] * p_y + m[2, 2] * p_x + m[2, 3]
        p_z, p_y, p_x = a_z, a_y, a_x
        a_z = m[0, 0] * s_z + m[0, 1] * s_y + m[0, 2] * s_x
        a_y = m[1, 0] * s_z + m[1, 1] * s_y + m[1, 2] * s_x
        a_x = m[2, 0] * s_z + m[2, 1] * s_y + m[2, 2] * s_x
        s_z, s_y, s_x = a_z, a_y, a_x
    start, step = p_z, s_z * (n_x - 1)
    lowest, highest = min(start, start + step) - reach - margin, max(start, start + step) + reach + margin
    return highest < low or lowest > high


@compiled
def _spread(image, volume, matrices, packed, layout, aligned, first, weights, reach, cubic, low, high):
    n_z, n_y, n_x = volume.shape
    flat = volume.reshape(-1)
    kind = volume.dtype.type
    taps = 4 if cubic else 2
    back = taps // 2 - 1
    contracted, trail = room(len(first), layout, aligned, packed)
    end = trail[2 * layout.shape[0]]
    volume[low:high] = 0
    for z in range(image.shape[0]):
        for y in range(image.shape[1]):
            # Rounding of single-precision positions stays far below the half voxel.
            if _row_misses(matrices, image.shape[2], z, y, reach[0], low, high, taps + 0.5):
                continue
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            line = image[z, y]
            for x in range(image.shape[2]):
                z_at, y_at, x_at = end[0, x], end[1, x], end[2, x]
                if is_far(z_at, n_z) or is_far(y_at, n_y) or is_far(x_at, n_x):
                    continue
                i_z, i_y, i_x = math.floor(z_at), math.floor(y_at), math.floor(x_at)
                t_z, t_y, t_x = z_at - kind(i_z), y_at - kind(i_y), x_at - kind(i_x)
                value = line[x]
                in_z, in_y = i_z >= low and i_z < high - 1, i_y >= 0 and i_y < n_y - 1
                if not cubic and in_z and in_y and i_x >= 0 and i_x < n_x - 1:
                    a = np.uint64((i_z * n_y + i_y) * n_x + i_x)
                    b = a + np.uint64(n_x)
                    c = a + np.uint64(n_y * n_x)
                    d = c + np.uint64(n_x)
                    one = np.uint64(1)
                    v_low, v_high = (kind(1) - t_z) * value, t_z * value
                    s_x, s_y = kind(1) - t_x, kind(1) - t_y
                    v_a, v_b, v_c, v_d = s_y * v_low, t_y * v_low, s_y * v_high, t_y * v_high
                    flat[a] += s_x * v_a
                    flat[a + one] += t_x * v_a
                    flat[b] += s_x * v_b
                    flat[b + one] += t_x * v_b
                    flat[c] += s_x * v_c
                    flat[c + one] += t_x * v_c
                    flat[d] += s_x * v_d
                    flat[d + one] += t_x * v_d
                    continue
                w_z, w_y, w_x = tap_weights(t_z, cubic), tap_weights(t_y, cubic), tap_weights(t_x, cubic)
                if cubic and is_amid(i_z, i_y, i_x, low, high, n_y, n_x):
                    shares = (w_z[0] * value, w_z[1] * value, w_z[2] * value, w_z[3] * value)
                    start = ((i_z - 1) * n_y + i_y - 1) * n_x + i_x - 1
                    add_to_cube(volume, start, n_y * n_x, n_x, shares, w_y, w_x)
                    continue
                for i in range(taps):
                    to_z = i_z - back + i
                    if to_z < low or to_z >= high:
                        continue
                    for j in range(taps):
                        to_y = i_y - back + j
                        if to_y < 0 or to_y >= n_y:
                            continue
                        share = w_y[j] * (w_z[i] * value)
                        for k in range(taps):
                            to_x = i_x - back + k
                            if to_x >= 0 and to_x < n_x:
                                volume[to_z, to_y, to_x] += share * w_x[k]


@compiled
def _slopes(volume, out, matrices, packed, layout, aligned, first, weights, cubic, begin, end):
    contracted, trail = room(len(first), layout, aligned, packed)
    lines = np.empty((3, len(first)), packed.dtype)
    for z in range(begin, end):
        for y in range(out.shape[2]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            read_slopes_row(volume, trail[2 * layout.shape[0]], cubic, lines)
            for axis in range(3):
                for x in range(out.shape[3]):
                    out[axis, z, y, x] = lines[axis, x]


@compiled
def _positions(out, matrices, packed, layout, aligned, first, weights, begin, end):
    contracted, trail = room(len(first), layout, aligned, packed)
    places = trail[2 * layout.shape[0]]
    for z in range(begin, end):
        for y in range(out.shape[2]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            for c in range(3):
                for x in range(out.shape[3]):
                    out[c, z, y, x] = places[c, x]


@compiled
def _determinants(out, matrices, packed, layout, aligned, first, weights, begin, end):
    contracted, trail = room(len(first), layout, aligned, packed)
    inner = np.zeros((3, 3), packed.dtype)
    # The determinant of a product is the product of the determinants.
    outer = 1.0
    for k in range(layout.shape[0] + 1):
        outer *= _determinant(matrices[k])
    for z in range(begin, end):
        for y in range(out.shape[1]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            for x in range(out.shape[2]):
                total = outer
                for k in range(layout.shape[0]):
                    at = trail[2 * k]
                    displacement_jacobian(packed, layout[k], at[0, x], at[1, x], at[2, x], inner)
                    for c in range(3):
                        inner[c, c] += 1
                    total *= _determinant(inner)
                out[z, y, x] = total


@njit(inline="always")
def _determinant(m):
    return (
        m[0, 0] * (m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1])
        - m[0, 1] * (m[1, 0] * m[2, 2] - m[1, 2] * m[2, 0])
        + m[0, 2] * (m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0])
    )
