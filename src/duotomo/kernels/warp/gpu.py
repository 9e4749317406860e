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
    _differentiate[grid](
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
            _pull_matrix[grid](volume, image, sums, *arguments, **options, CUBIC=cubic, FROM=k)
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
        _pull_cells[cells](
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
            _pull_lattice[grid](volume, image, sums, scale, *arguments, **options, CUBIC=cubic, FROM=k)
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


_SHARED = ["n_z", "n_y", "n_x", "v_z", "v_y", "v_x"]


@triton.jit
def _splines(t, taps):
    """Return the weights of the four control points around t; a linear spline uses the two in the middle."""
    s = 1 - t
    cubic = taps == 4
    return (
        tl.where(cubic, s * s * s / 6, 0.0),
        tl.where(cubic, ((3 * t - 6) * t * t + 4) / 6, s),
        tl.where(cubic, ((3 * s - 6) * s * s + 4) / 6, t),
        tl.where(cubic, t * t * t / 6, 0.0),
    )


@triton.jit
def _spline_slopes(t, taps):
    """Return the derivatives of `_splines`."""
    s = 1 - t
    cubic = taps == 4
    return (
        tl.where(cubic, -s * s / 2, 0.0),
        tl.where(cubic, (3 * t - 4) * t / 2, -1.0),
        tl.where(cubic, -(3 * s - 4) * s / 2, 1.0),
        tl.where(cubic, t * t / 2, 0.0),
    )


@triton.jit
def _pick(weights, i):
    """Return the i-th of four weights, for loops that are not unrolled: those would compile slowly."""
    low = tl.where(i == 0, weights[0], weights[1])
    return tl.where(i < 2, low, tl.where(i == 2, weights[2], weights[3]))


@triton.jit
def _taps(t, CUBIC: tl.constexpr):
    """Return the interpolation weights of the voxels around a place."""
    if CUBIC:
        return (
            t * (-0.5 + t * (1 - 0.5 * t)),
            1 + t * t * (-2.5 + 1.5 * t),
            t * (0.5 + t * (2 - 1.5 * t)),
            t * t * (-0.5 + 0.5 * t),
        )
    else:
        return (1 - t, t)


@triton.jit
def _tap_slopes(t, CUBIC: tl.constexpr):
    """Return the derivatives of `_taps`."""
    if CUBIC:
        return (
            -0.5 + 2 * t - 1.5 * t * t,
            t * (-5 + 4.5 * t),
            0.5 + 4 * t - 4.5 * t * t,
            t * (-1 + 1.5 * t),
        )
    else:
        return (0 * t - 1, 0 * t + 1)


@triton.jit
def _below(at, n, pad, T: tl.constexpr):
    """Return the index below a place, kept within `pad` of n places, and the fraction above it."""
    low = tl.floor(at)
    # Far outside there is nothing, however far; an index must hold it.
    index = tl.minimum(tl.maximum(low, -pad), n + pad).to(tl.int32)
    return index, (at - low).to(T)


@triton.jit
def _row(matrices, k: tl.constexpr, c: tl.constexpr, z, y, x):
    m = matrices + 12 * k + 4 * c
    return tl.load(m) * z + tl.load(m + 1) * y + tl.load(m + 2) * x + tl.load(m + 3)


@triton.jit
def _apply(matrices, k: tl.constexpr, z, y, x):
    return _row(matrices, k, 0, z, y, x), _row(matrices, k, 1, z, y, x), _row(matrices, k, 2, z, y, x)


@triton.jit
def _turn(matrices, k: tl.constexpr, c: tl.constexpr, z, y, x):
    m = matrices + 12 * k + 4 * c
    return tl.load(m) * z + tl.load(m + 1) * y + tl.load(m + 2) * x


@triton.jit
def _turn_all(matrices, k: tl.constexpr, z, y, x):
    return _turn(matrices, k, 0, z, y, x), _turn(matrices, k, 1, z, y, x), _turn(matrices, k, 2, z, y, x)


@triton.jit
def _lattice(layout, k: tl.constexpr):
    m = layout + 5 * k
    return tl.load(m), tl.load(m + 1), tl.load(m + 2), tl.load(m + 3), tl.load(m + 4)


@triton.jit
def _displacement(lattices, layout, k: tl.constexpr, z, y, x):
    """Return u at places of lattice k, by component. Lattices have four zeros around them (PAD)."""
    T: tl.constexpr = lattices.dtype.element_ty
    offset, n_z, n_y, n_x, taps = _lattice(layout, k)
    i_z, t_z = _below(z, n_z - 8, 3, T)
    i_y, t_y = _below(y, n_y - 8, 3, T)
    i_x, t_x = _below(x, n_x - 8, 3, T)
    w_z, w_y, w_x = _splines(t_z, taps), _splines(t_y, taps), _splines(t_x, taps)
    u_z, u_y, u_x = 0 * t_z, 0 * t_z, 0 * t_z
    size = n_z * n_y * n_x
    for i in range(4):
        for j in range(4):
            w = _pick(w_z, i) * _pick(w_y, j)
            line = lattices + offset + ((i_z + 3 + i) * n_y + i_y + 3 + j) * n_x + i_x + 3
            for m in tl.static_range(4):
                weight = w * w_x[m]
                u_z += weight * tl.load(line + m)
                u_y += weight * tl.load(line + size + m)
                u_x += weight * tl.load(line + 2 * size + m)
    return u_z, u_y, u_x


@triton.jit
def _dot(line, w):
    """Return the sum of four neighbouring coefficients with weights."""
    low = w[0] * tl.load(line) + w[1] * tl.load(line + 1)
    return low + (w[2] * tl.load(line + 2) + w[3] * tl.load(line + 3))


@triton.jit
def _sum_planes(lattices, layout, matrices, z, y, x):
    """Return, for a run of planes that starts at z, the sums over y and x of the lattice's planes around it.

    Twelve: four planes for each of three components.
    """
    T: tl.constexpr = lattices.dtype.element_ty
    offset, n_z, n_y, n_x, taps = _lattice(layout, 0)
    l_z, l_y, l_x = _apply(matrices, 0, z, y, x)
    i_z, _ = _below(l_z, n_z - 8, 3, T)
    i_y, t_y = _below(l_y, n_y - 8, 3, T)
    i_x, t_x = _below(l_x, n_x - 8, 3, T)
    w_y, w_x = _splines(t_y, taps), _splines(t_x, taps)
    plane = n_y * n_x
    size = n_z * plane
    line = lattices + offset + ((i_z + 3) * n_y + i_y + 3) * n_x + i_x + 3
    none = 0 * t_x
    z_0, z_1, z_2, z_3 = none, none, none, none
    y_0, y_1, y_2, y_3 = none, none, none, none
    x_0, x_1, x_2, x_3 = none, none, none, none
    for j in tl.range(4, loop_unroll_factor=1):
        w = _pick(w_y, j)
        z_0 += w * _dot(line, w_x)
        z_1 += w * _dot(line + plane, w_x)
        z_2 += w * _dot(line + 2 * plane, w_x)
        z_3 += w * _dot(line + 3 * plane, w_x)
        y_0 += w * _dot(line + size, w_x)
        y_1 += w * _dot(line + size + plane, w_x)
        y_2 += w * _dot(line + size + 2 * plane, w_x)
        y_3 += w * _dot(line + size + 3 * plane, w_x)
        x_0 += w * _dot(line + 2 * size, w_x)
        x_1 += w * _dot(line + 2 * size + plane, w_x)
        x_2 += w * _dot(line + 2 * size + 2 * plane, w_x)
        x_3 += w * _dot(line + 2 * size + 3 * plane, w_x)
        line += n_x
    return z_0, z_1, z_2, z_3, y_0, y_1, y_2, y_3, x_0, x_1, x_2, x_3


@triton.jit
def _turn_planes(planes, matrices, c: tl.constexpr, i: tl.constexpr):
    """Return the i-th plane's displacement along axis c behind the last matrix."""
    T: tl.constexpr = planes[0].dtype
    m = matrices + 12 + 4 * c
    a, b, d = tl.load(m).to(T), tl.load(m + 1).to(T), tl.load(m + 2).to(T)
    return a * planes[i] + b * planes[4 + i] + d * planes[8 + i]


@triton.jit
def _split(p, T: tl.constexpr):
    """Return a place as a whole number and the way from there, however far outside it lies."""
    low = tl.minimum(tl.maximum(tl.floor(p), -1e8), 1e8)
    return low.to(tl.int32), tl.minimum(tl.maximum(p - low, 0.0), 1.0).to(T)


@triton.jit
def _start(matrices, lattices, layout, first, y, x, N: tl.constexpr, ALIGNED: tl.constexpr):
    """Return what is needed to follow voxels along z from plane `first` on, for `_step`.

    A place on the way is whole + way + step (z - first), plus mixed planes of the lattice.
    """
    T: tl.constexpr = lattices.dtype.element_ty
    if N == 0:
        p_z, p_y, p_x = _apply(matrices, 0, first, y, x)
        i_z, t_z = _split(p_z, T)
        i_y, t_y = _split(p_y, T)
        i_x, t_x = _split(p_x, T)
        return i_z, i_y, i_x, t_z, t_y, t_x
    elif ALIGNED:
        q_z, q_y, q_x = _apply(matrices, 0, first, y, x)
        p_z, p_y, p_x = _apply(matrices, 1, q_z, q_y, q_x)
        i_z, t_z = _split(p_z, T)
        i_y, t_y = _split(p_y, T)
        i_x, t_x = _split(p_x, T)
        a = _sum_planes(lattices, layout, matrices, first, y, x)
        return (
            i_z, i_y, i_x, t_z, t_y, t_x,
            _turn_planes(a, matrices, 0, 0), _turn_planes(a, matrices, 0, 1),
            _turn_planes(a, matrices, 0, 2), _turn_planes(a, matrices, 0, 3),
            _turn_planes(a, matrices, 1, 0), _turn_planes(a, matrices, 1, 1),
            _turn_planes(a, matrices, 1, 2), _turn_planes(a, matrices, 1, 3),
            _turn_planes(a, matrices, 2, 0), _turn_planes(a, matrices, 2, 1),
            _turn_planes(a, matrices, 2, 2), _turn_planes(a, matrices, 2, 3),
        )  # fmt: skip
    else:
        return (0,)


@triton.jit
def _z_weights(matrices, layout, first, z, T: tl.constexpr):
    """Return the weights of the four lattice planes around plane z, all of a run's being the same four."""
    scale, shift = tl.load(matrices), tl.load(matrices + 3)
    t = (scale * z + shift) - tl.floor(scale * first + shift)
    return _splines(t.to(T), tl.load(layout + 4))


@triton.jit
def _move(whole, way):
    low = tl.floor(way)
    return whole + low.to(tl.int32), way - low


@triton.jit
def _step(matrices, lattices, layout, start, first, z, y, x, N: tl.constexpr, ALIGNED: tl.constexpr):
    """Return the voxels below the places where the voxels of plane z go, and the fractions above them."""
    T: tl.constexpr = lattices.dtype.element_ty
    if N == 0 or ALIGNED:
        s_z, s_y, s_x = tl.load(matrices), tl.load(matrices + 4), tl.load(matrices + 8)
        if ALIGNED:
            # Along z alone, since rows of voxels run along the lattice.
            s_x, s_y, s_z = (
                tl.load(matrices + 20) * s_z, tl.load(matrices + 16) * s_z, tl.load(matrices + 12) * s_z
            )  # fmt: skip
        n = (z - first) * 1.0
        n = tl.cast(n, T)
        w_z, w_y, w_x = (start[3] + s_z.to(T) * n, start[4] + s_y.to(T) * n, start[5] + s_x.to(T) * n)
        if ALIGNED:
            w = _z_weights(matrices, layout, first, z, T)
            w_z += w[0] * start[6] + w[1] * start[7] + w[2] * start[8] + w[3] * start[9]
            w_y += w[0] * start[10] + w[1] * start[11] + w[2] * start[12] + w[3] * start[13]
            w_x += w[0] * start[14] + w[1] * start[15] + w[2] * start[16] + w[3] * start[17]
        i_z, t_z = _move(start[0], w_z)
        i_y, t_y = _move(start[1], w_y)
        i_x, t_x = _move(start[2], w_x)
        return i_z, i_y, i_x, t_z, t_y, t_x
    else:
        p_z, p_y, p_x = _apply(matrices, 0, z, y, x)
        for k in tl.static_range(N):
            u_z, u_y, u_x = _displacement(lattices, layout, k, p_z, p_y, p_x)
            p_z, p_y, p_x = _apply(matrices, k + 1, p_z + u_z, p_y + u_y, p_x + u_x)
        i_z, t_z = _split(p_z, T)
        i_y, t_y = _split(p_y, T)
        i_x, t_x = _split(p_x, T)
        return i_z, i_y, i_x, t_z, t_y, t_x


@triton.jit
def _add_slopes(lattices, layout, k: tl.constexpr, z, y, x, d_z, d_y, d_x):
    """Return `d + u'(l) d` for a direction d at places l of lattice k."""
    T: tl.constexpr = lattices.dtype.element_ty
    offset, n_z, n_y, n_x, taps = _lattice(layout, k)
    i_z, t_z = _below(z, n_z - 8, 3, T)
    i_y, t_y = _below(y, n_y - 8, 3, T)
    i_x, t_x = _below(x, n_x - 8, 3, T)
    w_z, w_y, w_x = _splines(t_z, taps), _splines(t_y, taps), _splines(t_x, taps)
    s_z, s_y, s_x = _spline_slopes(t_z, taps), _spline_slopes(t_y, taps), _spline_slopes(t_x, taps)
    out_z, out_y, out_x = d_z, d_y, d_x
    size = n_z * n_y * n_x
    for i in range(4):
        for j in range(4):
            line = lattices + offset + ((i_z + 3 + i) * n_y + i_y + 3 + j) * n_x + i_x + 3
            wz, wy = _pick(w_z, i), _pick(w_y, j)
            across = _pick(s_z, i) * wy * d_z + wz * _pick(s_y, j) * d_y
            along = wz * wy * d_x
            for m in tl.static_range(4):
                weight = across * w_x[m] + along * s_x[m]
                out_z += weight * tl.load(line + m)
                out_y += weight * tl.load(line + size + m)
                out_x += weight * tl.load(line + 2 * size + m)
    return out_z, out_y, out_x


@triton.jit
def _read_slopes(
    volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC: tl.constexpr, WIDE: tl.constexpr
):
    """Return the slopes of the volume at places."""
    TAPS: tl.constexpr = 4 if CUBIC else 2
    BACK: tl.constexpr = 1 if CUBIC else 0
    w_z, w_y, w_x = _taps(t_z, CUBIC), _taps(t_y, CUBIC), _taps(t_x, CUBIC)
    d_z, d_y, d_x = _tap_slopes(t_z, CUBIC), _tap_slopes(t_y, CUBIC), _tap_slopes(t_x, CUBIC)
    s_z, s_y, s_x = 0 * t_z, 0 * t_z, 0 * t_z
    for i in tl.static_range(TAPS):
        to_z = i_z - BACK + i
        in_z = inside & (to_z >= 0) & (to_z < v_z)
        for j in tl.static_range(TAPS):
            to_y = i_y - BACK + j
            in_y = in_z & (to_y >= 0) & (to_y < v_y)
            row = to_z * v_y + to_y
            if WIDE:
                row = row.to(tl.int64)
            line = volume + row * v_x + i_x - BACK
            value, slope = 0 * t_z, 0 * t_z
            for m in tl.static_range(TAPS):
                to_x = i_x - BACK + m
                f = tl.load(line + m, mask=in_y & (to_x >= 0) & (to_x < v_x), other=0.0)
                value += w_x[m] * f
                slope += d_x[m] * f
            s_z += d_z[i] * w_y[j] * value
            s_y += w_z[i] * d_y[j] * value
            s_x += w_z[i] * w_y[j] * slope
    return s_z, s_y, s_x


@triton.jit
def _block(runs, n_y, n_x, BLOCK: tl.constexpr):
    """Return this program's voxels: y, x, whether they exist, and its run of planes."""
    flat = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    run = tl.program_id(1)
    return (
        flat,
        flat // n_x,
        flat % n_x,
        flat < n_y * n_x,
        tl.load(runs + 2 * run),
        tl.load(runs + 2 * run + 1),
    )


@triton.jit
def _plane(z, flat, n_y, n_x, WIDE: tl.constexpr):
    """Return the place of a block's voxels in an image."""
    if WIDE:
        return (0 * flat + z).to(tl.int64) * n_y * n_x + flat
    else:
        return z * (n_y * n_x) + flat


@triton.jit(do_not_specialize=_SHARED)
def _gather(
    volume, out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
):  # fmt: skip
    TAPS: tl.constexpr = 4 if CUBIC else 2
    BACK: tl.constexpr = 1 if CUBIC else 0
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    start = _start(matrices, lattices, layout, first, y, x, N, ALIGNED)
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = _step(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        w_z, w_y, w_x = _taps(t_z, CUBIC), _taps(t_y, CUBIC), _taps(t_x, CUBIC)
        total = 0 * t_z
        for i in tl.static_range(TAPS):
            to_z = i_z - BACK + i
            in_z = inside & (to_z >= 0) & (to_z < v_z)
            for j in tl.static_range(TAPS):
                to_y = i_y - BACK + j
                in_y = in_z & (to_y >= 0) & (to_y < v_y)
                row = to_z * v_y + to_y
                if WIDE:
                    row = row.to(tl.int64)
                line = volume + row * v_x + i_x - BACK
                value = 0 * t_z
                for m in tl.static_range(TAPS):
                    to_x = i_x - BACK + m
                    f = tl.load(line + m, mask=in_y & (to_x >= 0) & (to_x < v_x), other=0.0)
                    value += w_x[m] * f
                total += w_z[i] * w_y[j] * value
        tl.store(out + _plane(z, flat, n_y, n_x, WIDE), total, mask=inside)


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


@triton.jit(do_not_specialize=_SHARED)
def _spread_linear(
    image, volume, scale, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """Spread with linear weights; what neighbours along z add to the same four voxels is added first."""
    T: tl.constexpr = image.dtype.element_ty
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    start = _start(matrices, lattices, layout, first, y, x, N, ALIGNED)
    factor = 0.0
    if FIXED:
        factor = tl.load(scale)
    # Waiting to be added to plane k_z, from voxel (k_y, k_x) on.
    k_z, k_y, k_x = 0 * flat - 9, 0 * flat, 0 * flat
    none = tl.zeros((BLOCK,), T)
    k_a, k_b, k_c, k_d = none, none, none, none
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = _step(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        value = tl.load(image + _plane(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
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


@triton.jit(do_not_specialize=_SHARED)
def _spread_cubic(
    image, volume, scale, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    start = _start(matrices, lattices, layout, first, y, x, N, ALIGNED)
    factor = 0.0
    if FIXED:
        factor = tl.load(scale)
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = _step(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        w_z, w_y, w_x = _taps(t_z, True), _taps(t_y, True), _taps(t_x, True)
        value = tl.load(image + _plane(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        for i in tl.static_range(4):
            to_z = i_z - 1 + i
            in_z = inside & (to_z >= 0) & (to_z < v_z)
            for j in tl.static_range(4):
                to_y = i_y - 1 + j
                in_y = in_z & (to_y >= 0) & (to_y < v_y)
                row = to_z * v_y + to_y
                if WIDE:
                    row = row.to(tl.int64)
                share = w_z[i] * w_y[j] * value
                for m in tl.static_range(4):
                    to_x = i_x - 1 + m
                    mask = in_y & (to_x >= 0) & (to_x < v_x)
                    _add(volume, row * v_x + to_x, share * w_x[m], factor, mask, FIXED)


@triton.jit(do_not_specialize=_SHARED)
def _slopes(
    volume, out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    start = _start(matrices, lattices, layout, first, y, x, N, ALIGNED)
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = _step(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        s_z, s_y, s_x = _read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        tl.store(out + _plane(z, flat, n_y, n_x, WIDE), s_z, mask=inside)
        tl.store(out + _plane(n_z + z, flat, n_y, n_x, WIDE), s_y, mask=inside)
        tl.store(out + _plane(2 * n_z + z, flat, n_y, n_x, WIDE), s_x, mask=inside)


@triton.jit(do_not_specialize=_SHARED)
def _differentiate(
    volume, out, d_matrices, d_lattices, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
    MOVES_FIRST: tl.constexpr,
):  # fmt: skip
    T: tl.constexpr = volume.dtype.element_ty
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    for z in range(first, first + length):
        p_z, p_y, p_x = _apply(matrices, 0, z, y, x)
        c_z, c_y, c_x = _apply(d_matrices, 0, z, y, x)
        for k in tl.static_range(N):
            u_z, u_y, u_x = _displacement(lattices, layout, k, p_z, p_y, p_x)
            e_z, e_y, e_x = _displacement(d_lattices, layout, k, p_z, p_y, p_x)
            if MOVES_FIRST or k > 0:
                # d(l + u(l)) = dl + du + u'(l) dl
                c_z, c_y, c_x = _add_slopes(lattices, layout, k, p_z, p_y, p_x, c_z, c_y, c_x)
            c_z, c_y, c_x = c_z + e_z, c_y + e_y, c_x + e_x
            p_z, p_y, p_x = p_z + u_z, p_y + u_y, p_x + u_x
            a_z, a_y, a_x = _apply(d_matrices, k + 1, p_z, p_y, p_x)
            b_z, b_y, b_x = _turn_all(matrices, k + 1, c_z, c_y, c_x)
            c_z, c_y, c_x = a_z + b_z, a_y + b_y, a_x + b_x
            p_z, p_y, p_x = _apply(matrices, k + 1, p_z, p_y, p_x)
        i_z, t_z = _split(p_z, T)
        i_y, t_y = _split(p_y, T)
        i_x, t_x = _split(p_x, T)
        s_z, s_y, s_x = _read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        total = s_z * c_z.to(T) + s_y * c_y.to(T) + s_x * c_x.to(T)
        tl.store(out + _plane(z, flat, n_y, n_x, WIDE), total, mask=inside)


@triton.jit
def _carry(matrices, lattices, layout, k: tl.constexpr, z, y, x, a_z, a_y, a_x):
    """Return a direction carried through lattice k, and through the matrix behind it."""
    a_z, a_y, a_x = _add_slopes(lattices, layout, k, z, y, x, a_z, a_y, a_x)
    return _turn_all(matrices, k + 1, a_z, a_y, a_x)


@triton.jit
def _pulled(
    volume, value, matrices, lattices, layout, start, first, z, y, x, v_z, v_y, v_x, inside,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, CUBIC: tl.constexpr,
    FROM: tl.constexpr, AFTER_LATTICE: tl.constexpr,
):  # fmt: skip
    """Return places on the way, and the gradient of `value f(T)` in what comes out of the stage there.

    The stage is matrix FROM, met at the places; or with AFTER_LATTICE, lattice FROM.
    """
    T: tl.constexpr = volume.dtype.element_ty
    q_y, q_x = y.to(tl.float64), x.to(tl.float64)
    q_z = 0 * q_x + z
    if FROM == N:
        # Nothing comes behind the last matrix.
        i_z, i_y, i_x, t_z, t_y, t_x = _step(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        if N > 0:
            q_z, q_y, q_x = _apply(matrices, 0, q_z, q_y, q_x)
            for k in tl.static_range(N):
                u_z, u_y, u_x = _displacement(lattices, layout, k, q_z, q_y, q_x)
                q_z, q_y, q_x = q_z + u_z, q_y + u_y, q_x + u_x
                if k + 1 < N:
                    q_z, q_y, q_x = _apply(matrices, k + 1, q_z, q_y, q_x)
        s_z, s_y, s_x = _read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        return q_z, q_y, q_x, s_z * value, s_y * value, s_x * value
    else:
        # Three unit directions, carried forward from the stage on: the columns of the rest's Jacobian.
        one, zero = 0 * q_z + 1, 0 * q_z
        a_z, a_y, a_x = one, zero, zero
        b_z, b_y, b_x = zero, one, zero
        c_z, c_y, c_x = zero, zero, one
        p_z, p_y, p_x = _apply(matrices, 0, q_z, q_y, q_x)
        for k in tl.static_range(N):
            if AFTER_LATTICE and k == FROM:
                q_z, q_y, q_x = p_z, p_y, p_x
            u_z, u_y, u_x = _displacement(lattices, layout, k, p_z, p_y, p_x)
            if k >= FROM:
                if AFTER_LATTICE and k == FROM:
                    a_z, a_y, a_x = _turn_all(matrices, k + 1, a_z, a_y, a_x)
                    b_z, b_y, b_x = _turn_all(matrices, k + 1, b_z, b_y, b_x)
                    c_z, c_y, c_x = _turn_all(matrices, k + 1, c_z, c_y, c_x)
                else:
                    a_z, a_y, a_x = _carry(matrices, lattices, layout, k, p_z, p_y, p_x, a_z, a_y, a_x)
                    b_z, b_y, b_x = _carry(matrices, lattices, layout, k, p_z, p_y, p_x, b_z, b_y, b_x)
                    c_z, c_y, c_x = _carry(matrices, lattices, layout, k, p_z, p_y, p_x, c_z, c_y, c_x)
            p_z, p_y, p_x = p_z + u_z, p_y + u_y, p_x + u_x
            if not AFTER_LATTICE and k + 1 == FROM:
                q_z, q_y, q_x = p_z, p_y, p_x
            p_z, p_y, p_x = _apply(matrices, k + 1, p_z, p_y, p_x)
        i_z, t_z = _split(p_z, T)
        i_y, t_y = _split(p_y, T)
        i_x, t_x = _split(p_x, T)
        s_z, s_y, s_x = _read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        s_z, s_y, s_x = s_z * value, s_y * value, s_x * value
        g_z = s_z * a_z + s_y * a_y + s_x * a_x
        g_y = s_z * b_z + s_y * b_y + s_x * b_x
        g_x = s_z * c_z + s_y * c_y + s_x * c_x
        return q_z, q_y, q_x, g_z, g_y, g_x


@triton.jit(do_not_specialize=_SHARED)
def _pull_matrix(
    volume, image, sums, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
    FROM: tl.constexpr,
):  # fmt: skip
    """Write this program's part of the gradient in matrix FROM: (program, 12)."""
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    start = _start(matrices, lattices, layout, first, y, x, N, ALIGNED)
    none = tl.zeros((BLOCK,), tl.float64)
    z_z, z_y, z_x, z_1 = none, none, none, none
    y_z, y_y, y_x, y_1 = none, none, none, none
    x_z, x_y, x_x, x_1 = none, none, none, none
    for z in range(first, first + length):
        value = tl.load(image + _plane(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        q_z, q_y, q_x, g_z, g_y, g_x = _pulled(
            volume, value, matrices, lattices, layout, start, first, z, y, x, v_z, v_y, v_x, inside,
            N, ALIGNED, WIDE, CUBIC, FROM, False,
        )  # fmt: skip
        z_z, z_y, z_x, z_1 = z_z + g_z * q_z, z_y + g_z * q_y, z_x + g_z * q_x, z_1 + g_z
        y_z, y_y, y_x, y_1 = y_z + g_y * q_z, y_y + g_y * q_y, y_x + g_y * q_x, y_1 + g_y
        x_z, x_y, x_x, x_1 = x_z + g_x * q_z, x_y + g_x * q_y, x_x + g_x * q_x, x_1 + g_x
    to = sums + 12 * (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0))
    tl.store(to, tl.sum(z_z, 0))
    tl.store(to + 1, tl.sum(z_y, 0))
    tl.store(to + 2, tl.sum(z_x, 0))
    tl.store(to + 3, tl.sum(z_1, 0))
    tl.store(to + 4, tl.sum(y_z, 0))
    tl.store(to + 5, tl.sum(y_y, 0))
    tl.store(to + 6, tl.sum(y_x, 0))
    tl.store(to + 7, tl.sum(y_1, 0))
    tl.store(to + 8, tl.sum(x_z, 0))
    tl.store(to + 9, tl.sum(x_y, 0))
    tl.store(to + 10, tl.sum(x_x, 0))
    tl.store(to + 11, tl.sum(x_1, 0))


@triton.jit
def _add_whole(to, part, factor, mask):
    whole = (part.to(tl.float64) * factor).to(tl.int64)
    tl.atomic_add(to, whole, mask=mask, sem="relaxed")


@triton.jit(do_not_specialize=_SHARED)
def _pull_lattice(
    volume, image, sums, scale, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
    FROM: tl.constexpr,
):  # fmt: skip
    """Add this program's part of the gradient in lattice FROM to integer sums."""
    T: tl.constexpr = volume.dtype.element_ty
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    offset, l_z, l_y, l_x, taps = _lattice(layout, FROM)
    factor = tl.load(scale)
    size = l_z * l_y * l_x
    start = (0,)
    for z in range(first, first + length):
        value = tl.load(image + _plane(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        q_z, q_y, q_x, g_z, g_y, g_x = _pulled(
            volume, value, matrices, lattices, layout, start, first, z, y, x, v_z, v_y, v_x, inside,
            N, ALIGNED, WIDE, CUBIC, FROM, True,
        )  # fmt: skip
        i_z, t_z = _below(q_z, l_z - 8, 3, T)
        i_y, t_y = _below(q_y, l_y - 8, 3, T)
        i_x, t_x = _below(q_x, l_x - 8, 3, T)
        w_z, w_y, w_x = _splines(t_z, taps), _splines(t_y, taps), _splines(t_x, taps)
        for i in range(4):
            for j in range(4):
                w = _pick(w_z, i) * _pick(w_y, j)
                line = sums + offset + ((i_z + 3 + i) * l_y + i_y + 3 + j) * l_x + i_x + 3
                for m in tl.static_range(4):
                    weight = w * w_x[m]
                    _add_whole(line + m, weight * g_z, factor, inside)
                    _add_whole(line + size + m, weight * g_y, factor, inside)
                    _add_whole(line + 2 * size + m, weight * g_x, factor, inside)


@triton.jit
def _add_cell(to, a, w_y, w_x, factor, step):
    """Add the sums over a tile of a, (y, x), times the weights of 16 control points, to integer sums.

    w_y: (y, 4). w_x: (x, 4).
    """
    along_x = tl.sum(a[:, :, None] * w_x[None, :, :], axis=1)
    total = tl.sum(along_x[:, None, :] * w_y[:, :, None], axis=0)
    four = tl.arange(0, 4)
    whole = (total.to(tl.float64) * factor).to(tl.int64)
    tl.atomic_add(to + four[:, None] * step + four[None, :], whole, sem="relaxed")


@triton.jit
def _four_splines(at, taps, T: tl.constexpr):
    """Return the weights at places, (n,), side by side: (n, 4)."""
    t = (at - tl.floor(at)).to(T)
    w = _splines(t[:, None], taps)
    return _pick(w, tl.arange(0, 4)[None, :])


@triton.jit(do_not_specialize=_SHARED)
def _pull_cells(
    volume, image, sums, scale, rows, columns, matrices, lattices, layout, runs,
    n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
):  # fmt: skip
    """Add the gradient in the only lattice, along which voxel rows run, to integer sums.

    A program's voxels all lie between the same control points, so it sums before it adds.
    """
    T: tl.constexpr = volume.dtype.element_ty
    columns += 2 * tl.program_id(0)
    rows += 2 * tl.program_id(1)
    runs += 2 * tl.program_id(2)
    first, length = tl.load(runs), tl.load(runs + 1)
    along_y, along_x = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (along_y < tl.load(rows + 1)) & (along_x < tl.load(columns + 1))
    y = tl.load(rows) + along_y + 0 * along_x
    x = tl.load(columns) + along_x + 0 * along_y
    flat = y * n_x + x
    start = _start(matrices, lattices, layout, first, y, x, N, ALIGNED)
    none = tl.zeros((BLOCK, BLOCK), T)
    z_0, z_1, z_2, z_3 = none, none, none, none
    y_0, y_1, y_2, y_3 = none, none, none, none
    x_0, x_1, x_2, x_3 = none, none, none, none
    for z in range(first, first + length):
        value = tl.load(image + _plane(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        i_z, i_y, i_x, t_z, t_y, t_x = _step(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        s_z, s_y, s_x = _read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        s_z, s_y, s_x = s_z * value, s_y * value, s_x * value
        w = _z_weights(matrices, layout, first, z, T)
        z_0, z_1, z_2, z_3 = z_0 + w[0] * s_z, z_1 + w[1] * s_z, z_2 + w[2] * s_z, z_3 + w[3] * s_z
        y_0, y_1, y_2, y_3 = y_0 + w[0] * s_y, y_1 + w[1] * s_y, y_2 + w[2] * s_y, y_3 + w[3] * s_y
        x_0, x_1, x_2, x_3 = x_0 + w[0] * s_x, x_1 + w[1] * s_x, x_2 + w[2] * s_x, x_3 + w[3] * s_x
    offset, l_z, l_y, l_x, taps = _lattice(layout, 0)
    along = tl.arange(0, BLOCK)
    w_y = _four_splines(_row(matrices, 0, 1, first, tl.load(rows) + along, 0), taps, T)
    w_x = _four_splines(_row(matrices, 0, 2, first, 0, tl.load(columns) + along), taps, T)
    # The control points are those of the tile's first voxel.
    q_z, q_y, q_x = _apply(matrices, 0, first, tl.load(rows), tl.load(columns))
    i_z, _ = _below(q_z, l_z - 8, 3, T)
    i_y, _ = _below(q_y, l_y - 8, 3, T)
    i_x, _ = _below(q_x, l_x - 8, 3, T)
    to = sums + offset + ((i_z + 3) * l_y + i_y + 3) * l_x + i_x + 3
    factor = tl.load(scale)
    step, size = l_y * l_x, l_z * l_y * l_x
    m = matrices + 12
    for c in tl.static_range(3):
        # Back through the last matrix.
        a, b, d = tl.load(m + c).to(T), tl.load(m + 4 + c).to(T), tl.load(m + 8 + c).to(T)
        at = to + c * size
        _add_cell(at, a * z_0 + b * y_0 + d * x_0, w_y, w_x, factor, l_x)
        _add_cell(at + step, a * z_1 + b * y_1 + d * x_1, w_y, w_x, factor, l_x)
        _add_cell(at + 2 * step, a * z_2 + b * y_2 + d * x_2, w_y, w_x, factor, l_x)
        _add_cell(at + 3 * step, a * z_3 + b * y_3 + d * x_3, w_y, w_x, factor, l_x)


@triton.jit(do_not_specialize=_SHARED)
def _positions(
    out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    start = _start(matrices, lattices, layout, first, y, x, N, ALIGNED)
    for z in range(first, first + length):
        i_z, i_y, i_x, t_z, t_y, t_x = _step(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        tl.store(out + _plane(z, flat, n_y, n_x, WIDE), i_z + t_z, mask=inside)
        tl.store(out + _plane(n_z + z, flat, n_y, n_x, WIDE), i_y + t_y, mask=inside)
        tl.store(out + _plane(2 * n_z + z, flat, n_y, n_x, WIDE), i_x + t_x, mask=inside)


@triton.jit(do_not_specialize=_SHARED)
def _determinants(
    out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    for z in range(first, first + length):
        p_z, p_y, p_x = _apply(matrices, 0, z, y, x)
        one, zero = 0 * p_z + 1, 0 * p_z
        # Columns of the Jacobian of voxel index to place.
        a_z, a_y, a_x = _turn_all(matrices, 0, one, zero, zero)
        b_z, b_y, b_x = _turn_all(matrices, 0, zero, one, zero)
        c_z, c_y, c_x = _turn_all(matrices, 0, zero, zero, one)
        for k in tl.static_range(N):
            u_z, u_y, u_x = _displacement(lattices, layout, k, p_z, p_y, p_x)
            a_z, a_y, a_x = _carry(matrices, lattices, layout, k, p_z, p_y, p_x, a_z, a_y, a_x)
            b_z, b_y, b_x = _carry(matrices, lattices, layout, k, p_z, p_y, p_x, b_z, b_y, b_x)
            c_z, c_y, c_x = _carry(matrices, lattices, layout, k, p_z, p_y, p_x, c_z, c_y, c_x)
            p_z, p_y, p_x = _apply(matrices, k + 1, p_z + u_z, p_y + u_y, p_x + u_x)
        total = a_z * (b_y * c_x - b_x * c_y) - b_z * (a_y * c_x - a_x * c_y) + c_z * (a_y * b_x - a_x * b_y)
        tl.store(out + _plane(z, flat, n_y, n_x, WIDE), total, mask=inside)
