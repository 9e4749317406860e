"""Warping on the GPU, in Triton. See `reference` for what it computes.

A program follows a block of neighbouring voxels of one plane through a run of planes. Positions are in double
precision, so that a volume is read and written at the same places. Where voxel rows run along the first
lattice, a run stays between two of its planes, and the sums over y and x are made once per run.

Sums over many voxels (gradients of lattices, and the transpose if PyTorch is asked for deterministic
algorithms) are made in 64-bit integers, whose order does not matter.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from duotomo.kernels.warp.point_map import PointMap

BLOCK = 128
LONGEST_RUN = 16


def gather(volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `out`, (z, y, x), the values of `volume`, (z, y, x), where the voxels of `out` go."""
    grid, arguments, options = _launch(point_map, out, volume)
    _gather[grid](volume, out, *arguments, **options, CUBIC=cubic)


def spread(image: torch.Tensor, volume: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `volume` the transpose of `gather` applied to `image`."""
    grid, arguments, options = _launch(point_map, image, volume)
    if not torch.are_deterministic_algorithms_enabled():
        volume.zero_()
        _spread[grid](image, volume, volume, *arguments, **options, CUBIC=cubic, FIXED=False)
        return
    # No sum exceeds the number of voxels times the largest value (times 2, for cubic weights).
    scale = _fixed_point(2 * image.numel() * image.abs().max().double())
    sums = torch.zeros(volume.shape, dtype=torch.int64, device=volume.device)
    _spread[grid](image, sums, scale, *arguments, **options, CUBIC=cubic, FIXED=True)
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
    lattices = arguments[1]
    sums = torch.zeros(lattices.numel(), dtype=torch.int64, device=image.device)
    steepest = np.abs(point_map.matrix_array[1:, :, :3]).sum(axis=1).max(axis=1).clip(min=1.0).prod()
    # Slopes are at most 8 times the largest value, and no lattice stretches by more than its own slopes.
    stretch = np.prod(1.0 + 8.0 * point_map.reach.max(axis=1))
    most = volume.abs().max().double() * image.abs().max().double()
    scale = _fixed_point(float(8 * image.numel() * steepest * stretch) * most)
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


def _fixed_point(most: torch.Tensor) -> torch.Tensor:
    """Return the factor, a power of two, that lets sums up to `most` fit into 62 bits."""
    return torch.exp2(62 - torch.ceil(torch.log2(most.clamp(min=1e-300))))


def _launch(point_map: PointMap, image: torch.Tensor, volume: torch.Tensor):
    """Return the launch grid, the arguments that all kernels share, and their constants."""
    n_z, n_y, n_x = image.shape
    matrices, lattices = point_map.on_device(image)
    runs, layout = point_map.kept((image.device, n_z), lambda: _tables(point_map, n_z, image.device))
    grid = (triton.cdiv(n_y * n_x, BLOCK), len(runs))
    arguments = (matrices, lattices, layout, runs, n_z, n_y, n_x, *volume.shape)
    options = {
        "N": point_map.n_lattices,
        "ALIGNED": point_map.aligned,
        "WIDE": max(volume.numel(), 3 * image.numel()) >= 2**31,
        "BLOCK": BLOCK,
        "num_warps": 4,
    }
    return grid, arguments, options


def _tables(point_map: PointMap, n_z: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the runs of planes, (run, 2) with the first plane and their number, and the lattices' layout."""
    cells = np.arange(n_z) // LONGEST_RUN
    if point_map.aligned:
        matrix = point_map.matrix_array[0]
        cell = np.floor(matrix[0, 0] * np.arange(n_z) + matrix[0, 3])
        cells = np.stack([cells, cell])
        new = np.any(np.diff(cells, axis=1) != 0, axis=0)
    else:
        new = np.diff(cells) != 0
    starts = np.concatenate([[0], np.flatnonzero(new) + 1, [n_z]])
    runs = np.stack([starts[:-1], np.diff(starts)], axis=1).astype(np.int32)
    layout = point_map.layout.astype(np.int32).reshape(-1)
    return torch.from_numpy(runs).to(device), torch.from_numpy(layout).to(device)


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
    """Return the i-th of four weights, i not being known to the compiler: unrolled lattices compile slowly."""
    return tl.where(i == 0, weights[0], tl.where(i == 1, weights[1], tl.where(i == 2, weights[2], weights[3])))


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
def _sum_plane(lattices, layout, i: tl.constexpr, c: tl.constexpr, z, y, x):
    """Return, at places of lattice 0, the sum over y and x of its component c in the i-th plane around z."""
    T: tl.constexpr = lattices.dtype.element_ty
    offset, n_z, n_y, n_x, taps = _lattice(layout, 0)
    i_z, _ = _below(z, n_z - 8, 3, T)
    i_y, t_y = _below(y, n_y - 8, 3, T)
    i_x, t_x = _below(x, n_x - 8, 3, T)
    plane = lattices + offset + (c * n_z + i_z + 3 + i) * n_y * n_x
    w_y, w_x = _splines(t_y, taps), _splines(t_x, taps)
    total = 0 * t_x
    for j in range(4):
        line = plane + (i_y + 3 + j) * n_x + i_x + 3
        row = w_x[0] * tl.load(line) + w_x[1] * tl.load(line + 1)
        row += w_x[2] * tl.load(line + 2) + w_x[3] * tl.load(line + 3)
        total += _pick(w_y, j) * row
    return total


@triton.jit
def _sum_planes(lattices, layout, matrices, z, y, x):
    """Return the sums of four planes for three components, for a run of planes that starts at z."""
    l_z, l_y, l_x = _apply(matrices, 0, z, y, x)
    return (
        _sum_plane(lattices, layout, 0, 0, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 1, 0, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 2, 0, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 3, 0, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 0, 1, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 1, 1, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 2, 1, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 3, 1, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 0, 2, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 1, 2, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 2, 2, l_z, l_y, l_x),
        _sum_plane(lattices, layout, 3, 2, l_z, l_y, l_x),
    )


@triton.jit
def _mix(planes, layout, c: tl.constexpr, z, T: tl.constexpr):
    """Return the displacement's component c at height z of lattice 0, from its sums of planes."""
    taps = tl.load(layout + 4)
    t = (z - tl.floor(z)).to(T)
    w = _splines(t, taps)
    total = w[0] * planes[4 * c] + w[1] * planes[4 * c + 1]
    return total + w[2] * planes[4 * c + 2] + w[3] * planes[4 * c + 3]


@triton.jit
def _displace(lattices, layout, planes, k: tl.constexpr, z, y, x, ALIGNED: tl.constexpr):
    T: tl.constexpr = lattices.dtype.element_ty
    if ALIGNED and k == 0:
        return _mix(planes, layout, 0, z, T), _mix(planes, layout, 1, z, T), _mix(planes, layout, 2, z, T)
    else:
        return _displacement(lattices, layout, k, z, y, x)


@triton.jit
def _follow(matrices, lattices, layout, planes, z, y, x, N: tl.constexpr, ALIGNED: tl.constexpr):
    """Return where voxels go."""
    p_z, p_y, p_x = _apply(matrices, 0, z, y, x)
    for k in tl.static_range(N):
        u_z, u_y, u_x = _displace(lattices, layout, planes, k, p_z, p_y, p_x, ALIGNED)
        p_z, p_y, p_x = _apply(matrices, k + 1, p_z + u_z, p_y + u_y, p_x + u_x)
    return p_z, p_y, p_x


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
def _read_slopes(volume, z, y, x, v_z, v_y, v_x, inside, CUBIC: tl.constexpr, WIDE: tl.constexpr):
    """Return the slopes of the volume at places."""
    T: tl.constexpr = volume.dtype.element_ty
    TAPS: tl.constexpr = 4 if CUBIC else 2
    BACK: tl.constexpr = 1 if CUBIC else 0
    i_z, t_z = _below(z, v_z, 3, T)
    i_y, t_y = _below(y, v_y, 3, T)
    i_x, t_x = _below(x, v_x, 3, T)
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
    T: tl.constexpr = volume.dtype.element_ty
    TAPS: tl.constexpr = 4 if CUBIC else 2
    BACK: tl.constexpr = 1 if CUBIC else 0
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    planes = 0
    if ALIGNED:
        planes = _sum_planes(lattices, layout, matrices, first, y, x)
    for z in range(first, first + length):
        p_z, p_y, p_x = _follow(matrices, lattices, layout, planes, z, y, x, N, ALIGNED)
        i_z, t_z = _below(p_z, v_z, 3, T)
        i_y, t_y = _below(p_y, v_y, 3, T)
        i_x, t_x = _below(p_x, v_x, 3, T)
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


@triton.jit(do_not_specialize=_SHARED)
def _spread(
    image, volume, scale, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
    FIXED: tl.constexpr,
):  # fmt: skip
    T: tl.constexpr = image.dtype.element_ty
    TAPS: tl.constexpr = 4 if CUBIC else 2
    BACK: tl.constexpr = 1 if CUBIC else 0
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    planes = 0
    if ALIGNED:
        planes = _sum_planes(lattices, layout, matrices, first, y, x)
    if FIXED:
        factor = tl.load(scale)
    for z in range(first, first + length):
        p_z, p_y, p_x = _follow(matrices, lattices, layout, planes, z, y, x, N, ALIGNED)
        i_z, t_z = _below(p_z, v_z, 3, T)
        i_y, t_y = _below(p_y, v_y, 3, T)
        i_x, t_x = _below(p_x, v_x, 3, T)
        w_z, w_y, w_x = _taps(t_z, CUBIC), _taps(t_y, CUBIC), _taps(t_x, CUBIC)
        value = tl.load(image + _plane(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
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
                share = w_z[i] * w_y[j] * value
                for m in tl.static_range(TAPS):
                    to_x = i_x - BACK + m
                    mask = in_y & (to_x >= 0) & (to_x < v_x)
                    part = share * w_x[m]
                    if FIXED:
                        whole = (part.to(tl.float64) * factor).to(tl.int64)
                        tl.atomic_add(line + m, whole, mask=mask, sem="relaxed")
                    else:
                        tl.atomic_add(line + m, part, mask=mask, sem="relaxed")


@triton.jit(do_not_specialize=_SHARED)
def _slopes(
    volume, out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    planes = 0
    if ALIGNED:
        planes = _sum_planes(lattices, layout, matrices, first, y, x)
    for z in range(first, first + length):
        p_z, p_y, p_x = _follow(matrices, lattices, layout, planes, z, y, x, N, ALIGNED)
        s_z, s_y, s_x = _read_slopes(volume, p_z, p_y, p_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
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
    planes = 0
    d_planes = 0
    if ALIGNED:
        planes = _sum_planes(lattices, layout, matrices, first, y, x)
        d_planes = _sum_planes(d_lattices, layout, matrices, first, y, x)
    for z in range(first, first + length):
        p_z, p_y, p_x = _apply(matrices, 0, z, y, x)
        c_z, c_y, c_x = _apply(d_matrices, 0, z, y, x)
        for k in tl.static_range(N):
            u_z, u_y, u_x = _displace(lattices, layout, planes, k, p_z, p_y, p_x, ALIGNED)
            e_z, e_y, e_x = _displace(d_lattices, layout, d_planes, k, p_z, p_y, p_x, ALIGNED)
            if MOVES_FIRST or k > 0:
                # d(l + u(l)) = dl + du + u'(l) dl
                c_z, c_y, c_x = _add_slopes(lattices, layout, k, p_z, p_y, p_x, c_z, c_y, c_x)
            c_z, c_y, c_x = c_z + e_z, c_y + e_y, c_x + e_x
            p_z, p_y, p_x = p_z + u_z, p_y + u_y, p_x + u_x
            a_z, a_y, a_x = _apply(d_matrices, k + 1, p_z, p_y, p_x)
            b_z = a_z + _turn(matrices, k + 1, 0, c_z, c_y, c_x)
            b_y = a_y + _turn(matrices, k + 1, 1, c_z, c_y, c_x)
            b_x = a_x + _turn(matrices, k + 1, 2, c_z, c_y, c_x)
            c_z, c_y, c_x = b_z, b_y, b_x
            p_z, p_y, p_x = _apply(matrices, k + 1, p_z, p_y, p_x)
        s_z, s_y, s_x = _read_slopes(volume, p_z, p_y, p_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        total = s_z * c_z.to(T) + s_y * c_y.to(T) + s_x * c_x.to(T)
        tl.store(out + _plane(z, flat, n_y, n_x, WIDE), total, mask=inside)


@triton.jit
def _carry(matrices, lattices, layout, FROM: tl.constexpr, k: tl.constexpr, z, y, x, a_z, a_y, a_x):
    """Return a direction carried through lattice k, and through the matrix behind it."""
    if k >= FROM:
        a_z, a_y, a_x = _add_slopes(lattices, layout, k, z, y, x, a_z, a_y, a_x)
    b_z = _turn(matrices, k + 1, 0, a_z, a_y, a_x)
    b_y = _turn(matrices, k + 1, 1, a_z, a_y, a_x)
    b_x = _turn(matrices, k + 1, 2, a_z, a_y, a_x)
    return b_z, b_y, b_x


@triton.jit
def _pulled(
    volume, value, matrices, lattices, layout, planes, z, y, x, v_z, v_y, v_x, inside,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, CUBIC: tl.constexpr,
    FROM: tl.constexpr, AFTER_LATTICE: tl.constexpr,
):  # fmt: skip
    """Return places on the way, and the gradient of `value f(T)` in what comes out of the stage there.

    The stage is matrix FROM, met at the places; or with AFTER_LATTICE, lattice FROM.
    """
    p_y, p_x = y.to(tl.float64), x.to(tl.float64)
    p_z = 0 * p_x + z
    q_z, q_y, q_x = p_z, p_y, p_x
    # Three unit directions, carried forward from the stage on: the columns of the rest's Jacobian.
    one, zero = 0 * p_z + 1, 0 * p_z
    a_z, a_y, a_x = one, zero, zero
    b_z, b_y, b_x = zero, one, zero
    c_z, c_y, c_x = zero, zero, one
    p_z, p_y, p_x = _apply(matrices, 0, p_z, p_y, p_x)
    for k in tl.static_range(N):
        if AFTER_LATTICE and k == FROM:
            q_z, q_y, q_x = p_z, p_y, p_x
        u_z, u_y, u_x = _displace(lattices, layout, planes, k, p_z, p_y, p_x, ALIGNED)
        if k >= FROM:
            SKIP: tl.constexpr = FROM + 1 if AFTER_LATTICE else FROM
            a_z, a_y, a_x = _carry(matrices, lattices, layout, SKIP, k, p_z, p_y, p_x, a_z, a_y, a_x)
            b_z, b_y, b_x = _carry(matrices, lattices, layout, SKIP, k, p_z, p_y, p_x, b_z, b_y, b_x)
            c_z, c_y, c_x = _carry(matrices, lattices, layout, SKIP, k, p_z, p_y, p_x, c_z, c_y, c_x)
        p_z, p_y, p_x = p_z + u_z, p_y + u_y, p_x + u_x
        if not AFTER_LATTICE and k + 1 == FROM:
            q_z, q_y, q_x = p_z, p_y, p_x
        p_z, p_y, p_x = _apply(matrices, k + 1, p_z, p_y, p_x)
    s_z, s_y, s_x = _read_slopes(volume, p_z, p_y, p_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
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
    planes = 0
    if ALIGNED:
        planes = _sum_planes(lattices, layout, matrices, first, y, x)
    none = tl.zeros((BLOCK,), tl.float64)
    z_z, z_y, z_x, z_1 = none, none, none, none
    y_z, y_y, y_x, y_1 = none, none, none, none
    x_z, x_y, x_x, x_1 = none, none, none, none
    for z in range(first, first + length):
        value = tl.load(image + _plane(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        q_z, q_y, q_x, g_z, g_y, g_x = _pulled(
            volume, value, matrices, lattices, layout, planes, z, y, x, v_z, v_y, v_x, inside,
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
    planes = 0
    if ALIGNED:
        planes = _sum_planes(lattices, layout, matrices, first, y, x)
    ALONG: tl.constexpr = ALIGNED and FROM == 0
    if ALONG:
        # All planes of the run lie between the same two planes of the lattice: sum over them first.
        none = tl.zeros((BLOCK,), T)
        z_0, z_1, z_2, z_3 = none, none, none, none
        y_0, y_1, y_2, y_3 = none, none, none, none
        x_0, x_1, x_2, x_3 = none, none, none, none
    for z in range(first, first + length):
        value = tl.load(image + _plane(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        q_z, q_y, q_x, g_z, g_y, g_x = _pulled(
            volume, value, matrices, lattices, layout, planes, z, y, x, v_z, v_y, v_x, inside,
            N, ALIGNED, WIDE, CUBIC, FROM, True,
        )  # fmt: skip
        i_z, t_z = _below(q_z, l_z - 8, 3, T)
        g_z, g_y, g_x = g_z.to(T), g_y.to(T), g_x.to(T)
        if ALONG:
            w_0, w_1, w_2, w_3 = _splines(t_z, taps)
            z_0, z_1, z_2, z_3 = z_0 + w_0 * g_z, z_1 + w_1 * g_z, z_2 + w_2 * g_z, z_3 + w_3 * g_z
            y_0, y_1, y_2, y_3 = y_0 + w_0 * g_y, y_1 + w_1 * g_y, y_2 + w_2 * g_y, y_3 + w_3 * g_y
            x_0, x_1, x_2, x_3 = x_0 + w_0 * g_x, x_1 + w_1 * g_x, x_2 + w_2 * g_x, x_3 + w_3 * g_x
        else:
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
    if ALONG:
        q_z, q_y, q_x = _apply(matrices, 0, first, y, x)
        i_z, t_z = _below(q_z, l_z - 8, 3, T)
        i_y, t_y = _below(q_y, l_y - 8, 3, T)
        i_x, t_x = _below(q_x, l_x - 8, 3, T)
        w_y, w_x = _splines(t_y, taps), _splines(t_x, taps)
        for j in range(4):
            for m in tl.static_range(4):
                w = _pick(w_y, j) * w_x[m]
                to = sums + offset + ((i_z + 3) * l_y + i_y + 3 + j) * l_x + i_x + 3 + m
                step = l_y * l_x
                _add_whole(to, w * z_0, factor, inside)
                _add_whole(to + step, w * z_1, factor, inside)
                _add_whole(to + 2 * step, w * z_2, factor, inside)
                _add_whole(to + 3 * step, w * z_3, factor, inside)
                _add_whole(to + size, w * y_0, factor, inside)
                _add_whole(to + size + step, w * y_1, factor, inside)
                _add_whole(to + size + 2 * step, w * y_2, factor, inside)
                _add_whole(to + size + 3 * step, w * y_3, factor, inside)
                _add_whole(to + 2 * size, w * x_0, factor, inside)
                _add_whole(to + 2 * size + step, w * x_1, factor, inside)
                _add_whole(to + 2 * size + 2 * step, w * x_2, factor, inside)
                _add_whole(to + 2 * size + 3 * step, w * x_3, factor, inside)


@triton.jit(do_not_specialize=_SHARED)
def _positions(
    out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    planes = 0
    if ALIGNED:
        planes = _sum_planes(lattices, layout, matrices, first, y, x)
    for z in range(first, first + length):
        p_z, p_y, p_x = _follow(matrices, lattices, layout, planes, z, y, x, N, ALIGNED)
        tl.store(out + _plane(z, flat, n_y, n_x, WIDE), p_z, mask=inside)
        tl.store(out + _plane(n_z + z, flat, n_y, n_x, WIDE), p_y, mask=inside)
        tl.store(out + _plane(2 * n_z + z, flat, n_y, n_x, WIDE), p_x, mask=inside)


@triton.jit(do_not_specialize=_SHARED)
def _determinants(
    out, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    flat, y, x, inside, first, length = _block(runs, n_y, n_x, BLOCK)
    planes = 0
    if ALIGNED:
        planes = _sum_planes(lattices, layout, matrices, first, y, x)
    for z in range(first, first + length):
        p_z, p_y, p_x = _apply(matrices, 0, z, y, x)
        one, zero = 0 * p_z + 1, 0 * p_z
        # Columns of the Jacobian of voxel index to place.
        a_z, a_y, a_x = (
            _turn(matrices, 0, 0, one, zero, zero),
            _turn(matrices, 0, 1, one, zero, zero),
            _turn(matrices, 0, 2, one, zero, zero),
        )
        b_z, b_y, b_x = (
            _turn(matrices, 0, 0, zero, one, zero),
            _turn(matrices, 0, 1, zero, one, zero),
            _turn(matrices, 0, 2, zero, one, zero),
        )
        c_z, c_y, c_x = (
            _turn(matrices, 0, 0, zero, zero, one),
            _turn(matrices, 0, 1, zero, zero, one),
            _turn(matrices, 0, 2, zero, zero, one),
        )
        for k in tl.static_range(N):
            u_z, u_y, u_x = _displace(lattices, layout, planes, k, p_z, p_y, p_x, ALIGNED)
            a_z, a_y, a_x = _carry(matrices, lattices, layout, 0, k, p_z, p_y, p_x, a_z, a_y, a_x)
            b_z, b_y, b_x = _carry(matrices, lattices, layout, 0, k, p_z, p_y, p_x, b_z, b_y, b_x)
            c_z, c_y, c_x = _carry(matrices, lattices, layout, 0, k, p_z, p_y, p_x, c_z, c_y, c_x)
            p_z, p_y, p_x = _apply(matrices, k + 1, p_z + u_z, p_y + u_y, p_x + u_x)
        total = a_z * (b_y * c_x - b_x * c_y) - b_z * (a_y * c_x - a_x * c_y) + c_z * (a_y * b_x - a_x * b_y)
        tl.store(out + _plane(z, flat, n_y, n_x, WIDE), total, mask=inside)
