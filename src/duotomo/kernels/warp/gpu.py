"""Warping on the GPU, in Triton. See `reference` for what it computes.

A program follows a block of neighbouring voxels of one plane through a run of planes. Where a run starts is
computed in double precision; within a run, places are whole voxels plus short ways in the volume's precision.
Where voxel rows run along the only lattice, a run stays between two of its planes, and the sums over y and x
are made once per run.

Sums over many voxels (gradients of lattices, and the transpose if PyTorch is asked for deterministic
algorithms) are made in 64-bit integers, whose order does not matter.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
import torch
import triton
import triton.language as tl

from duotomo.kernels.warp.gpu_derivatives import (
    differentiate_block,
    pull_cells,
    pull_lattice,
    pull_matrix,
)
from duotomo.kernels.warp.gpu_lattices import (
    displacement,
)
from duotomo.kernels.warp.gpu_matrices import (
    apply_matrix,
    turn,
)
from duotomo.kernels.warp.gpu_places import (
    carry,
    start_run,
    step_run,
)
from duotomo.kernels.warp.gpu_volumes import (
    SHAPES,
    own_voxels,
    plane_offset,
    read_slopes,
    store_three,
    tap_row,
    tap_weights,
)
from duotomo.kernels.warp.point_map import PointMap

BLOCK = 128
"""Voxels of a plane that a program follows."""
LONGEST_RUN = 40
"""Planes that it follows them through, at most."""
SIDE = 16
"""The same, along y and x, where a program stays between neighbouring control points."""


def gather(volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `out`, (z, y, x), the values of `volume`, (z, y, x), where the voxels of `out` go."""
    grid, arguments, options = _launch(point_map, out, volume)
    _gather[grid](volume, out, *arguments, **options, CUBIC=cubic)


def spread(image: torch.Tensor, volume: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `volume` the transpose of `gather` applied to `image`."""
    grid, arguments, options = _launch(point_map, image, volume)
    kernel = _spread_cubic if cubic else _spread_linear
    if not torch.are_deterministic_algorithms_enabled():
        volume.zero_()
        kernel[grid](image, volume, volume, *arguments, **options, FIXED=False)
        return
    # No sum exceeds the number of voxels times the largest value (times 2, for cubic weights).
    scale = _fixed_point(2 * image.numel() * _largest(image))
    sums = torch.zeros(volume.shape, dtype=torch.int64, device=volume.device)
    kernel[grid](image, sums, scale, *arguments, **options, FIXED=True)
    volume.copy_(sums / scale)


def slopes(volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `out`, (axis, z, y, x), the slopes of `volume`, per voxel, where the voxels of `out` go."""
    grid, arguments, options = _launch(point_map, out[0], volume)
    _slopes[grid](volume, out, *arguments, **options, CUBIC=cubic)


def differentiate(
    volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, change: PointMap, *, cubic: bool
) -> None:
    """Write to `out` the derivative of `gather` as the map moves along `change`."""
    grid, arguments, options = _launch(point_map, out, volume)
    moves_first = bool(change.matrix_array[0].any())
    d_matrices, d_lattices = change.on_device(out)
    differentiate_block[grid](
        volume, out, d_matrices, d_lattices, *arguments, **options, CUBIC=cubic, MOVES_FIRST=moves_first
    )


def pull_back(
    volume: torch.Tensor, image: torch.Tensor, point_map: PointMap, *, cubic: bool
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Return the gradient of `<gather(volume), image>` in the matrices and in the coefficients, float64."""
    grid, arguments, options = _launch(point_map, image, volume)
    n = point_map.n_lattices
    d_matrices = torch.zeros(n + 1, 3, 4, dtype=torch.float64, device=image.device)
    for k in range(n + 1):
        if not (point_map.fixed and point_map.fixed[k]):
            sums = torch.empty(grid[0] * grid[1], 12, dtype=torch.float64, device=image.device)
            pull_matrix[grid](volume, image, sums, *arguments, **options, CUBIC=cubic, FROM=k)
            d_matrices[k] = sums.sum(dim=0).view(3, 4)
    if n == 0:
        return d_matrices, ()
    sums = torch.zeros(arguments[1].numel(), dtype=torch.int64, device=image.device)
    steepest = np.abs(point_map.matrix_array[1:, :, :3]).sum(axis=1).max(axis=1).clip(min=1.0).prod()
    # Slopes are at most 8 times the largest value, and a lattice stretches by no more than its own slopes.
    stretch = np.prod(1.0 + 8.0 * point_map.reach[1:].max(axis=1, initial=0.0))
    most = _largest(volume) * _largest(image)
    scale = _fixed_point(float(8 * image.numel() * steepest * stretch) * most)
    if point_map.n_lattices == 1 and point_map.aligned and _points_per_voxel(point_map).max() <= 0.25:
        _, n_y, n_x = image.shape
        rows = _runs_on_device(point_map, n_y, 1, SIDE, image.device)
        columns = _runs_on_device(point_map, n_x, 2, SIDE, image.device)
        planes = arguments[3]
        cells = (len(columns) // 2, len(rows) // 2, len(planes) // 2)
        pull_cells[cells](
            volume,
            image,
            sums,
            scale,
            rows,
            columns,
            *arguments,
            **options | {"BLOCK": SIDE, "num_warps": 8},
            CUBIC=cubic,
        )
    else:
        for k in range(n):
            pull_lattice[grid](volume, image, sums, scale, *arguments, **options, CUBIC=cubic, FROM=k)
    return d_matrices, point_map.unpack(sums / scale)


def positions(out: torch.Tensor, point_map: PointMap) -> None:
    """Write to `out`, (zyx, z, y, x), where the voxels go."""
    grid, arguments, options = _launch(point_map, out[0], out[0])
    _positions[grid](out, *arguments, **options)


def determinants(out: torch.Tensor, point_map: PointMap) -> None:
    """Write to `out`, (z, y, x), the determinant of the map's Jacobian."""
    grid, arguments, options = _launch(point_map, out, out)
    _determinants[grid](out, *arguments, **options)


def _largest(values: torch.Tensor) -> torch.Tensor:
    """Return the largest absolute value, without a copy of them all."""
    largest: torch.Tensor = torch.linalg.vector_norm(values, ord=torch.inf)
    return largest.double()


def _fixed_point(most: torch.Tensor) -> torch.Tensor:
    """Return the factor, a power of two, that lets sums up to `most` fit into 62 bits."""
    return torch.exp2(62 - torch.ceil(torch.log2(most.clamp(min=1e-300))))


def _launch(point_map: PointMap, image: torch.Tensor, volume: torch.Tensor):
    """Return the launch grid, the arguments that all kernels share, and their constants."""
    n_z, n_y, n_x = image.shape
    matrices, lattices = point_map.on_device(image)
    runs = _runs_on_device(point_map, n_z, 0, LONGEST_RUN, image.device)
    layout = _on_device(tuple(point_map.layout.reshape(-1).tolist()), image.device)
    grid = (triton.cdiv(n_y * n_x, BLOCK), len(runs) // 2)
    arguments = (matrices, lattices, layout, runs, n_z, n_y, n_x, *volume.shape)
    options = {
        "N": point_map.n_lattices,
        "ALIGNED": point_map.aligned and point_map.n_lattices == 1,
        "WIDE": max(volume.numel(), 3 * image.numel()) >= 2**31,
        "BLOCK": BLOCK,
        "num_warps": 4,
    }
    return grid, arguments, options


def _runs_on_device(
    point_map: PointMap, n: int, axis: int, longest: int, device: torch.device
) -> torch.Tensor:
    """Return the runs of voxels along an axis that programs follow; see `_runs`."""
    scale, shift = 0.0, 0.0
    if point_map.aligned:
        scale, shift = (float(point_map.matrix_array[0, axis, i]) for i in (axis, 3))
    return _runs(n, scale, shift, longest, device)


def _points_per_voxel(point_map: PointMap) -> np.ndarray:
    """Return how many control points of the first lattice there are per voxel, along each axis."""
    return np.abs(np.diagonal(point_map.matrix_array[0, :, :3]))


@lru_cache(maxsize=64)
def _runs(n: int, scale: float, shift: float, longest: int, device: torch.device) -> torch.Tensor:
    """Return runs of n voxels, (first, length) after (first, length), in one row.

    Voxel i lies at scale i + shift along a lattice, and a run stays between two neighbouring control points.
    """
    cells = np.floor(scale * np.arange(n) + shift)
    edges = [0, *(np.flatnonzero(np.diff(cells)) + 1).tolist(), n]
    runs: list[int] = []
    for low, high in itertools.pairwise(edges):
        n_parts = -(-(high - low) // longest)
        cuts = [low + (high - low) * i // n_parts for i in range(n_parts + 1)]
        runs += [value for a, b in itertools.pairwise(cuts) for value in (a, b - a)]
    return _on_device(tuple(runs), device)


@lru_cache(maxsize=64)
def _on_device(values: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return a short table on a device; the same tables are asked for again and again."""
    return torch.tensor(values or (0,), dtype=torch.int32).to(device)


@triton.jit(do_not_specialize=SHAPES)
def _gather(
    volume, out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
):  # fmt: skip
    TAPS: tl.constexpr = 4 if CUBIC else 2
    BACK: tl.constexpr = 1 if CUBIC else 0
    flat, y, x, inside, first, length = own_voxels(runs, n_y, n_x, BLOCK)
    start = start_run(matrices, lattices, layout, first, y, x, N, ALIGNED)
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = step_run(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        w_z, w_y, w_x = tap_weights(t_z, CUBIC), tap_weights(t_y, CUBIC), tap_weights(t_x, CUBIC)
        total = 0 * t_z
        for i in tl.static_range(TAPS):
            for j in tl.static_range(TAPS):
                row, in_row = tap_row(i_z - BACK + i, i_y - BACK + j, v_z, v_y, inside, WIDE)
                line = volume + row * v_x + i_x - BACK
                value = 0 * t_z
                for m in tl.static_range(TAPS):
                    to_x = i_x - BACK + m
                    f = tl.load(line + m, mask=in_row & (to_x >= 0) & (to_x < v_x), other=0.0)
                    value += w_x[m] * f
                total += w_z[i] * w_y[j] * value
        tl.store(out + plane_offset(z, flat, n_y, n_x, WIDE), total, mask=inside)


@triton.jit
def _add(volume, at, part, factor, mask, FIXED: tl.constexpr):
    if FIXED:
        part = (part.to(tl.float64) * factor).to(tl.int64)
    tl.atomic_add(volume + at, part, mask=mask, sem="relaxed")


@triton.jit
def _add_square(
    volume, z, y, x, a, b, c, d, v_z, v_y, v_x, mask, factor, WIDE: tl.constexpr, FIXED: tl.constexpr
):
    """Add to the four voxels (z, y, x) to (z, y + 1, x + 1)."""
    row = z * v_y + y
    if WIDE:
        row = row.to(tl.int64)
    at = row * v_x + x
    mask &= (z >= 0) & (z < v_z)
    y_0, y_1 = mask & (y >= 0) & (y < v_y), mask & (y >= -1) & (y < v_y - 1)
    x_0, x_1 = (x >= 0) & (x < v_x), (x >= -1) & (x < v_x - 1)
    _add(volume, at, a, factor, y_0 & x_0, FIXED)
    _add(volume, at + 1, b, factor, y_0 & x_1, FIXED)
    _add(volume, at + v_x, c, factor, y_1 & x_0, FIXED)
    _add(volume, at + v_x + 1, d, factor, y_1 & x_1, FIXED)


@triton.jit(do_not_specialize=SHAPES)
def _spread_linear(
    image, volume, scale, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """Spread with linear weights; what neighbours along z add to the same four voxels is added first."""
    T: tl.constexpr = image.dtype.element_ty
    flat, y, x, inside, first, length = own_voxels(runs, n_y, n_x, BLOCK)
    start = start_run(matrices, lattices, layout, first, y, x, N, ALIGNED)
    factor = 0.0
    if FIXED:
        factor = tl.load(scale)
    # Waiting to be added to plane k_z, from voxel (k_y, k_x) on.
    k_z, k_y, k_x = 0 * flat - 9, 0 * flat, 0 * flat
    none = tl.zeros((BLOCK,), T)
    k_a, k_b, k_c, k_d = none, none, none, none
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = step_run(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        value = tl.load(image + plane_offset(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        same = (i_z == k_z) & (i_y == k_y) & (i_x == k_x)
        other = inside & (same == 0)
        _add_square(
            volume, k_z, k_y, k_x, k_a, k_b, k_c, k_d, v_z, v_y, v_x, other, factor, WIDE, FIXED
        )  # fmt: skip
        high = t_z * value
        low = value - high
        b_low, b_high = t_y * low, t_y * high
        a_low, a_high = low - b_low, high - b_high
        l_b, l_d, h_b, h_d = t_x * a_low, t_x * b_low, t_x * a_high, t_x * b_high
        l_a, l_c = a_low - l_b, b_low - l_d
        l_a, l_b = l_a + tl.where(same, k_a, 0.0), l_b + tl.where(same, k_b, 0.0)
        l_c, l_d = l_c + tl.where(same, k_c, 0.0), l_d + tl.where(same, k_d, 0.0)
        _add_square(
            volume, i_z, i_y, i_x, l_a, l_b, l_c, l_d, v_z, v_y, v_x, inside, factor, WIDE, FIXED
        )  # fmt: skip
        k_z, k_y, k_x = i_z + 1, i_y, i_x
        k_a, k_b, k_c, k_d = a_high - h_b, h_b, b_high - h_d, h_d
    _add_square(
        volume, k_z, k_y, k_x, k_a, k_b, k_c, k_d, v_z, v_y, v_x, inside, factor, WIDE, FIXED
    )  # fmt: skip


@triton.jit
def _add_plane(volume, z, y, x, parts, v_z, v_y, v_x, mask, factor, WIDE: tl.constexpr, FIXED: tl.constexpr):
    """Add to the sixteen voxels (z, y, x) to (z, y + 3, x + 3)."""
    for j in tl.static_range(4):
        row, in_row = tap_row(z, y + j, v_z, v_y, mask, WIDE)
        for m in tl.static_range(4):
            to_x = x + m
            there = in_row & (to_x >= 0) & (to_x < v_x)
            _add(volume, row * v_x + to_x, parts[4 * j + m], factor, there, FIXED)


@triton.jit
def _plane_parts(share, w_y, w_x):
    """Return what a voxel gives to the sixteen voxels of a plane."""
    a, b, c, d = share * w_y[0], share * w_y[1], share * w_y[2], share * w_y[3]
    return (
        a * w_x[0], a * w_x[1], a * w_x[2], a * w_x[3], b * w_x[0], b * w_x[1], b * w_x[2], b * w_x[3],
        c * w_x[0], c * w_x[1], c * w_x[2], c * w_x[3], d * w_x[0], d * w_x[1], d * w_x[2], d * w_x[3],
    )  # fmt: skip


@triton.jit
def _with_waiting(parts, waiting, same):
    """Return a plane's parts with what waits for the same voxels."""
    return (
        parts[0] + tl.where(same, waiting[0], 0.0), parts[1] + tl.where(same, waiting[1], 0.0),
        parts[2] + tl.where(same, waiting[2], 0.0), parts[3] + tl.where(same, waiting[3], 0.0),
        parts[4] + tl.where(same, waiting[4], 0.0), parts[5] + tl.where(same, waiting[5], 0.0),
        parts[6] + tl.where(same, waiting[6], 0.0), parts[7] + tl.where(same, waiting[7], 0.0),
        parts[8] + tl.where(same, waiting[8], 0.0), parts[9] + tl.where(same, waiting[9], 0.0),
        parts[10] + tl.where(same, waiting[10], 0.0), parts[11] + tl.where(same, waiting[11], 0.0),
        parts[12] + tl.where(same, waiting[12], 0.0), parts[13] + tl.where(same, waiting[13], 0.0),
        parts[14] + tl.where(same, waiting[14], 0.0), parts[15] + tl.where(same, waiting[15], 0.0),
    )  # fmt: skip


@triton.jit(do_not_specialize=SHAPES)
def _spread_cubic(
    image, volume, scale, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """Spread with cubic weights; what neighbours along z add to the same voxels is added first.

    Of the four planes that a voxel gives to, the lowest is written, and three wait for the next voxel.
    """
    T: tl.constexpr = image.dtype.element_ty
    flat, y, x, inside, first, length = own_voxels(runs, n_y, n_x, BLOCK)
    start = start_run(matrices, lattices, layout, first, y, x, N, ALIGNED)
    factor = 0.0
    if FIXED:
        factor = tl.load(scale)
    k_z, k_y, k_x = 0 * flat - 9, 0 * flat, 0 * flat
    none = tl.zeros((BLOCK,), T)
    low = (none, none, none, none, none, none, none, none, none, none, none, none, none, none, none, none)
    middle, high = low, low
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = step_run(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        value = tl.load(image + plane_offset(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        same = (i_z - 1 == k_z) & (i_y - 1 == k_y) & (i_x - 1 == k_x)
        other = inside & (same == 0)
        _add_plane(volume, k_z, k_y, k_x, low, v_z, v_y, v_x, other, factor, WIDE, FIXED)
        _add_plane(volume, k_z + 1, k_y, k_x, middle, v_z, v_y, v_x, other, factor, WIDE, FIXED)
        _add_plane(volume, k_z + 2, k_y, k_x, high, v_z, v_y, v_x, other, factor, WIDE, FIXED)
        w_z, w_y, w_x = tap_weights(t_z, True), tap_weights(t_y, True), tap_weights(t_x, True)
        full = _with_waiting(_plane_parts(w_z[0] * value, w_y, w_x), low, same)
        _add_plane(volume, i_z - 1, i_y - 1, i_x - 1, full, v_z, v_y, v_x, inside, factor, WIDE, FIXED)
        low = _with_waiting(_plane_parts(w_z[1] * value, w_y, w_x), middle, same)
        middle = _with_waiting(_plane_parts(w_z[2] * value, w_y, w_x), high, same)
        high = _plane_parts(w_z[3] * value, w_y, w_x)
        k_z, k_y, k_x = i_z, i_y - 1, i_x - 1
    _add_plane(volume, k_z, k_y, k_x, low, v_z, v_y, v_x, inside, factor, WIDE, FIXED)
    _add_plane(volume, k_z + 1, k_y, k_x, middle, v_z, v_y, v_x, inside, factor, WIDE, FIXED)
    _add_plane(volume, k_z + 2, k_y, k_x, high, v_z, v_y, v_x, inside, factor, WIDE, FIXED)


@triton.jit(do_not_specialize=SHAPES)
def _slopes(
    volume, out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = own_voxels(runs, n_y, n_x, BLOCK)
    start = start_run(matrices, lattices, layout, first, y, x, N, ALIGNED)
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = step_run(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        s_z, s_y, s_x = read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        store_three(out, s_z, s_y, s_x, z, flat, n_z, n_y, n_x, inside, WIDE)


@triton.jit(do_not_specialize=SHAPES)
def _positions(
    out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = own_voxels(runs, n_y, n_x, BLOCK)
    start = start_run(matrices, lattices, layout, first, y, x, N, ALIGNED)
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = step_run(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        store_three(out, i_z + t_z, i_y + t_y, i_x + t_x, z, flat, n_z, n_y, n_x, inside, WIDE)


@triton.jit(do_not_specialize=SHAPES)
def _determinants(
    out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = own_voxels(runs, n_y, n_x, BLOCK)
    for z in range(first, first + length):
        p_z, p_y, p_x = apply_matrix(matrices, 0, z, y, x)
        one, zero = 0 * p_z + 1, 0 * p_z
        # Columns of the Jacobian of voxel index to place.
        a_z, a_y, a_x = turn(matrices, 0, one, zero, zero)
        b_z, b_y, b_x = turn(matrices, 0, zero, one, zero)
        c_z, c_y, c_x = turn(matrices, 0, zero, zero, one)
        for k in tl.static_range(N):
            u_z, u_y, u_x = displacement(lattices, layout, k, p_z, p_y, p_x)
            a_z, a_y, a_x = carry(matrices, lattices, layout, k, p_z, p_y, p_x, a_z, a_y, a_x)
            b_z, b_y, b_x = carry(matrices, lattices, layout, k, p_z, p_y, p_x, b_z, b_y, b_x)
            c_z, c_y, c_x = carry(matrices, lattices, layout, k, p_z, p_y, p_x, c_z, c_y, c_x)
            p_z, p_y, p_x = apply_matrix(matrices, k + 1, p_z + u_z, p_y + u_y, p_x + u_x)
        total = a_z * (b_y * c_x - b_x * c_y) - b_z * (a_y * c_x - a_x * c_y) + c_z * (a_y * b_x - a_x * b_y)
        tl.store(out + plane_offset(z, flat, n_y, n_x, WIDE), total, mask=inside)
