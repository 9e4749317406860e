"""Warping on the CPU, in Numba. See `reference` for what it computes.

Rows of voxels are followed through the map (`rows`), then the volume is read, or written, where they end.
Writing is a true scatter: each thread owns a slab of the volume and lets only what falls into it arrive, in
the order of the voxels, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math

import numba
import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray

from duotomo.kernels.warp.corners import LANES, read_corners
from duotomo.kernels.warp.point_map import PointMap
from duotomo.kernels.warp.rows import (
    apply_matrix,
    displacement_jacobian,
    follow_row,
    lattice_row,
    room,
    spline_weights,
    x_table,
)

SHARE_OF_SUMS = 0.05
"""Memory for partial sums of a lattice's gradient, as a share of the image."""

_Args = tuple[NDArray[np.float64], NDArray, NDArray, bool, NDArray, NDArray]


def gather(volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `out`, (z, y, x), the values of `volume`, (z, y, x), where the voxels of `out` go."""
    args = _arguments(point_map, out)
    kernel = _gather_cubic if cubic else _gather_linear
    kernel(volume.numpy(), out.numpy(), *args)


def spread(image: torch.Tensor, volume: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `volume` the transpose of `gather` applied to `image`."""
    args = _arguments(point_map, image)
    # Order is kept for any number of slabs; more than one per thread balances their loads.
    n_slabs = 2 * numba.get_num_threads() if numba.get_num_threads() > 1 else 1
    reach = np.ascontiguousarray(_reach_along_z(point_map))
    _spread(image.numpy(), volume.numpy(), *args, reach, cubic, min(n_slabs, volume.shape[0]))


def slopes(volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, *, cubic: bool) -> None:
    """Write to `out`, (axis, z, y, x), the slopes of `volume`, per voxel, where the voxels of `out` go."""
    args = _arguments(point_map, out[0])
    _slopes(volume.numpy(), out.numpy(), *args, cubic)


def differentiate(
    volume: torch.Tensor, out: torch.Tensor, point_map: PointMap, change: PointMap, *, cubic: bool
) -> None:
    """Write to `out` the derivative of `gather` as the map's matrices and coefficients move along `change`."""
    args = _arguments(point_map, out)
    d_packed = change.packed(out).numpy()
    moving = np.array([k > 0 or bool(change.matrix_array[0].any()) for k in range(len(args[2]) + 1)])
    _differentiate(volume.numpy(), out.numpy(), *args, change.matrix_array, d_packed, moving, cubic)


def pull_back(
    volume: torch.Tensor, image: torch.Tensor, point_map: PointMap, *, cubic: bool
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Return the gradient of `<gather(volume), image>` in the matrices and in the coefficients, float64."""
    args = _arguments(point_map, image)
    n_sums = max(args[1].size if len(args[2]) else 1, 1)
    n_chunks = min(image.shape[0], 16, max(1, int(SHARE_OF_SUMS * image.numel() / n_sums)))
    sums = np.zeros((n_chunks, n_sums))
    d_matrices = np.zeros((n_chunks, len(args[2]) + 1, 3, 4))
    fixed = np.array(point_map.fixed or (False,) * len(d_matrices[0]))
    _pull_back(volume.numpy(), image.numpy(), *args, sums, d_matrices, fixed, cubic)
    total = torch.from_numpy(sums.sum(axis=0))
    return torch.from_numpy(d_matrices.sum(axis=0)), point_map.unpack(total)


def positions(out: torch.Tensor, point_map: PointMap) -> None:
    """Write to `out`, (zyx, z, y, x), where the voxels go."""
    _positions(out.numpy(), *_arguments(point_map, out[0]))


def determinants(out: torch.Tensor, point_map: PointMap) -> None:
    """Write to `out`, (z, y, x), the determinant of the map's Jacobian."""
    _determinants(out.numpy(), *_arguments(point_map, out))


def _arguments(point_map: PointMap, image: torch.Tensor) -> _Args:
    packed = point_map.packed(image).numpy()
    layout = point_map.layout
    # Rows are followed in whole vectors; what hangs over is not used.
    n_x = -(-image.shape[-1] // LANES) * LANES
    first = np.zeros(n_x, dtype=np.uint32)
    weights = np.zeros((4, n_x), dtype=packed.dtype)
    if point_map.aligned:
        x_table(point_map.matrix_array[0], n_x, layout[0, 4], layout[0, 3], first, weights)
    return point_map.matrix_array, packed, layout, point_map.aligned, first, weights


def _reach_along_z(point_map: PointMap) -> NDArray[np.float64]:
    """Return how far along z the lattices can carry a voxel from where the matrices alone would."""
    reach = np.zeros(3)
    for k, matrix in enumerate(point_map.matrix_array[1:]):
        reach = np.abs(matrix[:, :3]) @ (reach + point_map.reach[k])
    return reach[:1]


@njit(inline="always")
def _keys(t):
    kind = type(t)
    half, one, two = kind(0.5), kind(1), kind(2)
    return (
        t * (-half + t * (one - half * t)),
        one + t * t * (kind(-2.5) + kind(1.5) * t),
        t * (half + t * (two - kind(1.5) * t)),
        t * t * (-half + half * t),
    )


@njit(inline="always")
def _keys_slopes(t):
    kind = type(t)
    half, two = kind(0.5), kind(2)
    return (
        -half + two * t - kind(1.5) * t * t,
        t * (kind(-5) + kind(4.5) * t),
        half + kind(4) * t - kind(4.5) * t * t,
        t * (kind(-1) + kind(1.5) * t),
    )


@njit(inline="always")
def _tap_weights(t, cubic):
    return _keys(t) if cubic else spline_weights(t, 2)


@njit(inline="always")
def _tap_slopes(t, cubic):
    kind = type(t)
    return _keys_slopes(t) if cubic else (kind(-1), kind(1), kind(0), kind(0))


@njit(inline="always")
def _far(at, n):
    # Beyond every tap, or not a number that an index could hold.
    return not (at > type(at)(-2.5) and at < type(at)(n + 1.5))


@njit
def _read(volume, z_at, y_at, x_at, cubic):
    """Return the value of the volume at a place, with a test for each voxel."""
    n_z, n_y, n_x = volume.shape
    kind = volume.dtype.type
    total = kind(0)
    if _far(z_at, n_z) or _far(y_at, n_y) or _far(x_at, n_x):
        return total
    i_z, i_y, i_x = math.floor(z_at), math.floor(y_at), math.floor(x_at)
    w_z = _tap_weights(z_at - kind(i_z), cubic)
    w_y = _tap_weights(y_at - kind(i_y), cubic)
    w_x = _tap_weights(x_at - kind(i_x), cubic)
    taps = 4 if cubic else 2
    back = taps // 2 - 1
    for i in range(taps):
        z = i_z - back + i
        if z < 0 or z >= n_z:
            continue
        for j in range(taps):
            y = i_y - back + j
            if y < 0 or y >= n_y:
                continue
            for k in range(taps):
                x = i_x - back + k
                if x >= 0 and x < n_x:
                    total += w_z[i] * w_y[j] * w_x[k] * volume[z, y, x]
    return total


@njit
def _read_slopes(volume, z_at, y_at, x_at, cubic):
    """Return the slopes of the volume at a place, along z, y and x."""
    n_z, n_y, n_x = volume.shape
    kind = volume.dtype.type
    s_z, s_y, s_x = kind(0), kind(0), kind(0)
    if _far(z_at, n_z) or _far(y_at, n_y) or _far(x_at, n_x):
        return s_z, s_y, s_x
    i_z, i_y, i_x = math.floor(z_at), math.floor(y_at), math.floor(x_at)
    t_z, t_y, t_x = z_at - kind(i_z), y_at - kind(i_y), x_at - kind(i_x)
    w_z, w_y, w_x = _tap_weights(t_z, cubic), _tap_weights(t_y, cubic), _tap_weights(t_x, cubic)
    d_z, d_y, d_x = _tap_slopes(t_z, cubic), _tap_slopes(t_y, cubic), _tap_slopes(t_x, cubic)
    taps = 4 if cubic else 2
    back = taps // 2 - 1
    for i in range(taps):
        z = i_z - back + i
        if z < 0 or z >= n_z:
            continue
        for j in range(taps):
            y = i_y - back + j
            if y < 0 or y >= n_y:
                continue
            value, slope = kind(0), kind(0)
            for k in range(taps):
                x = i_x - back + k
                if x >= 0 and x < n_x:
                    value += w_x[k] * volume[z, y, x]
                    slope += d_x[k] * volume[z, y, x]
            s_z += d_z[i] * w_y[j] * value
            s_y += w_z[i] * d_y[j] * value
            s_x += w_z[i] * w_y[j] * slope
    return s_z, s_y, s_x


@njit(inline="always")
def _linear_slopes(volume, flat, z_at, y_at, x_at):
    """Return the slopes of the linear interpolant, quickly where all eight voxels exist."""
    n_z, n_y, n_x = volume.shape
    kind = volume.dtype.type
    i_z, i_y, i_x = math.floor(z_at), math.floor(y_at), math.floor(x_at)
    if i_z >= 0 and i_z < n_z - 1 and i_y >= 0 and i_y < n_y - 1 and i_x >= 0 and i_x < n_x - 1:
        t_z, t_y, t_x = z_at - kind(i_z), y_at - kind(i_y), x_at - kind(i_x)
        a = np.uint64((i_z * n_y + i_y) * n_x + i_x)
        b = a + np.uint64(n_x)
        c = a + np.uint64(n_y * n_x)
        d = c + np.uint64(n_x)
        one = np.uint64(1)
        f_a, f_b, f_c, f_d = flat[a], flat[b], flat[c], flat[d]
        s_a, s_b, s_c, s_d = flat[a + one] - f_a, flat[b + one] - f_b, flat[c + one] - f_c, flat[d + one] - f_d
        v_a, v_b, v_c, v_d = f_a + t_x * s_a, f_b + t_x * s_b, f_c + t_x * s_c, f_d + t_x * s_d
        low, high = v_a + t_y * (v_b - v_a), v_c + t_y * (v_d - v_c)
        y_low, y_high = v_b - v_a, v_d - v_c
        x_low, x_high = s_a + t_y * (s_b - s_a), s_c + t_y * (s_d - s_c)
        return high - low, y_low + t_z * (y_high - y_low), x_low + t_z * (x_high - x_low)
    return _read_slopes(volume, z_at, y_at, x_at, False)


@njit(parallel=True, error_model="numpy", cache=True)
def _gather_linear(volume, out, matrices, packed, layout, aligned, first, weights):
    n_x = out.shape[2]
    for z in prange(out.shape[0]):
        contracted, trail = room(len(first), layout, aligned, packed)
        end = trail[2 * layout.shape[0]]
        t, f = np.zeros((3, LANES), volume.dtype), np.zeros((8, LANES), volume.dtype)
        line = np.zeros(len(first), volume.dtype)
        for y in range(out.shape[1]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            for start in range(0, n_x, LANES):
                read_corners(volume, end, start, t, f)
                for i in range(LANES):
                    a = f[0, i] + t[2, i] * (f[1, i] - f[0, i])
                    b = f[2, i] + t[2, i] * (f[3, i] - f[2, i])
                    c = f[4, i] + t[2, i] * (f[5, i] - f[4, i])
                    d = f[6, i] + t[2, i] * (f[7, i] - f[6, i])
                    low, high = a + t[1, i] * (b - a), c + t[1, i] * (d - c)
                    line[start + i] = low + t[0, i] * (high - low)
            for x in range(n_x):
                out[z, y, x] = line[x]


@njit(parallel=True, error_model="numpy", cache=True)
def _gather_cubic(volume, out, matrices, packed, layout, aligned, first, weights):
    for z in prange(out.shape[0]):
        contracted, trail = room(out.shape[2], layout, aligned, packed)
        end = trail[2 * layout.shape[0]]
        for y in range(out.shape[1]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            for x in range(out.shape[2]):
                out[z, y, x] = _read(volume, end[0, x], end[1, x], end[2, x], True)


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


@njit(parallel=True, error_model="numpy", cache=True)
def _spread(image, volume, matrices, packed, layout, aligned, first, weights, reach, cubic, n_slabs):
    n_z, n_y, n_x = volume.shape
    flat = volume.reshape(-1)
    kind = volume.dtype.type
    taps = 4 if cubic else 2
    back = taps // 2 - 1
    # Rounding of single-precision positions stays far below this.
    margin = taps + 0.5
    for slab in prange(n_slabs):
        low, high = slab * n_z // n_slabs, (slab + 1) * n_z // n_slabs
        volume[low:high] = 0
        contracted, trail = room(image.shape[2], layout, aligned, packed)
        end = trail[2 * layout.shape[0]]
        for z in range(image.shape[0]):
            for y in range(image.shape[1]):
                if _row_misses(matrices, image.shape[2], z, y, reach[0], low, high, margin):
                    continue
                follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
                line = image[z, y]
                for x in range(image.shape[2]):
                    z_at, y_at, x_at = end[0, x], end[1, x], end[2, x]
                    i_z, i_y, i_x = math.floor(z_at), math.floor(y_at), math.floor(x_at)
                    if (
                        not cubic
                        and i_z >= low
                        and i_z < high - 1
                        and i_y >= 0
                        and i_y < n_y - 1
                        and i_x >= 0
                        and i_x < n_x - 1
                    ):
                        t_z, t_y, t_x = z_at - kind(i_z), y_at - kind(i_y), x_at - kind(i_x)
                        a = np.uint64((i_z * n_y + i_y) * n_x + i_x)
                        b = a + np.uint64(n_x)
                        c = a + np.uint64(n_y * n_x)
                        d = c + np.uint64(n_x)
                        one = np.uint64(1)
                        value = line[x]
                        v_high = t_z * value
                        v_low = (kind(1) - t_z) * value
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
                    if i_z - back >= high or i_z - back + taps <= low or _far(z_at, n_z):
                        continue
                    if _far(y_at, n_y) or _far(x_at, n_x):
                        continue
                    w_z = _tap_weights(z_at - kind(i_z), cubic)
                    w_y = _tap_weights(y_at - kind(i_y), cubic)
                    w_x = _tap_weights(x_at - kind(i_x), cubic)
                    for i in range(taps):
                        to_z = i_z - back + i
                        if to_z < low or to_z >= high:
                            continue
                        for j in range(taps):
                            to_y = i_y - back + j
                            if to_y < 0 or to_y >= n_y:
                                continue
                            for k in range(taps):
                                to_x = i_x - back + k
                                if to_x >= 0 and to_x < n_x:
                                    volume[to_z, to_y, to_x] += w_z[i] * w_y[j] * w_x[k] * line[x]


@njit(parallel=True, error_model="numpy", cache=True)
def _slopes(volume, out, matrices, packed, layout, aligned, first, weights, cubic):
    flat = volume.reshape(-1)
    for z in prange(out.shape[1]):
        contracted, trail = room(out.shape[3], layout, aligned, packed)
        end = trail[2 * layout.shape[0]]
        for y in range(out.shape[2]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            for x in range(out.shape[3]):
                if cubic:
                    s = _read_slopes(volume, end[0, x], end[1, x], end[2, x], True)
                else:
                    s = _linear_slopes(volume, flat, end[0, x], end[1, x], end[2, x])
                out[0, z, y, x], out[1, z, y, x], out[2, z, y, x] = s


@njit(parallel=True, error_model="numpy", cache=True)
def _differentiate(
    volume, out, matrices, packed, layout, aligned, first, weights, d_matrices, d_packed, moving, cubic
):
    flat = volume.reshape(-1)
    n_x, last = out.shape[2], layout.shape[0]
    for z in prange(out.shape[0]):
        contracted, trail = room(n_x, layout, aligned, packed)
        index, change, turned = _three_rows(n_x, packed)
        jacobian = np.zeros((3, 3), packed.dtype)
        for y in range(out.shape[1]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            _fill_index(index, z, y)
            apply_matrix(d_matrices[0], index, change)
            for k in range(last):
                l = trail[2 * k]
                lattice_row(d_packed, layout[k], l, aligned and k == 0, first, weights, contracted, turned)
                if moving[k]:
                    # d(l + u(l)) = dl + du + u'(l) dl
                    for x in range(n_x):
                        displacement_jacobian(packed, layout[k], l[0, x], l[1, x], l[2, x], jacobian)
                        for c in range(3):
                            turned[c, x] += change[c, x]
                            for i in range(3):
                                turned[c, x] += jacobian[c, i] * change[i, x]
                apply_matrix(d_matrices[k + 1], trail[2 * k + 1], change)
                for c in range(3):
                    for i in range(3):
                        factor = packed.dtype.type(matrices[k + 1, c, i])
                        for x in range(n_x):
                            change[c, x] += factor * turned[i, x]
            end = trail[2 * last]
            for x in range(n_x):
                if cubic:
                    s = _read_slopes(volume, end[0, x], end[1, x], end[2, x], True)
                else:
                    s = _linear_slopes(volume, flat, end[0, x], end[1, x], end[2, x])
                out[z, y, x] = s[0] * change[0, x] + s[1] * change[1, x] + s[2] * change[2, x]


@njit(parallel=True, error_model="numpy", cache=True)
def _pull_back(
    volume, image, matrices, packed, layout, aligned, first, weights, sums, d_matrices, fixed, cubic
):
    flat = volume.reshape(-1)
    n_z, n_y, n_x = image.shape
    last, n_chunks = layout.shape[0], sums.shape[0]
    for chunk in prange(n_chunks):
        contracted, trail = room(n_x, layout, aligned, packed)
        gathered = np.zeros(contracted.shape)
        index, pull, turned = _three_rows(n_x, packed)
        jacobian = np.zeros((3, 3), packed.dtype)
        for z in range(chunk * n_z // n_chunks, (chunk + 1) * n_z // n_chunks):
            for y in range(n_y):
                follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
                end = trail[2 * last]
                for x in range(n_x):
                    if cubic:
                        s = _read_slopes(volume, end[0, x], end[1, x], end[2, x], True)
                    else:
                        s = _linear_slopes(volume, flat, end[0, x], end[1, x], end[2, x])
                    value = image[z, y, x]
                    pull[0, x], pull[1, x], pull[2, x] = s[0] * value, s[1] * value, s[2] * value
                # Backwards through the map: pull is the gradient in the places after stage k.
                for k in range(last, -1, -1):
                    if not fixed[k]:
                        if k > 0:
                            _add_products(pull, trail[2 * k - 1], d_matrices[chunk, k])
                        else:
                            _fill_index(index, z, y)
                            _add_products(pull, index, d_matrices[chunk, 0])
                    if k == 0:
                        break
                    _transpose_matrix(matrices[k], pull, turned)
                    l = trail[2 * k - 2]
                    if aligned and k == 1:
                        _add_aligned(sums[chunk], layout[0], l, first, weights, turned, gathered)
                    else:
                        for x in range(n_x):
                            _add_at(sums[chunk], layout[k - 1], l[0, x], l[1, x], l[2, x], turned[:, x])
                    if k == 1 and fixed[0]:
                        break
                    for x in range(n_x):
                        displacement_jacobian(packed, layout[k - 1], l[0, x], l[1, x], l[2, x], jacobian)
                        for i in range(3):
                            pull[i, x] = turned[i, x]
                            for c in range(3):
                                pull[i, x] += jacobian[c, i] * turned[c, x]


@njit
def _add_products(pull, places, total):
    """Add the sums over a row of `pull (places, 1)^T` to total, (3, 4)."""
    for c in range(3):
        plain, along_z, along_y, along_x = 0.0, 0.0, 0.0, 0.0
        for x in range(pull.shape[1]):
            value = float(pull[c, x])
            plain += value
            along_z += value * places[0, x]
            along_y += value * places[1, x]
            along_x += value * places[2, x]
        total[c, 0] += along_z
        total[c, 1] += along_y
        total[c, 2] += along_x
        total[c, 3] += plain


@njit
def _transpose_matrix(matrix, pull, out):
    kind = pull.dtype.type
    for i in range(3):
        a, b, c = kind(matrix[0, i]), kind(matrix[1, i]), kind(matrix[2, i])
        for x in range(pull.shape[1]):
            out[i, x] = a * pull[0, x] + b * pull[1, x] + c * pull[2, x]


@njit
def _add_aligned(sums, row, l, first, weights, pull, gathered):
    """Add the transpose of `aligned_row` applied to pull, (3, x), to the packed sums."""
    offset, n_z, n_y, n_x, taps = row
    gathered[:] = 0
    start = 0
    while start < pull.shape[1]:
        # Voxels between the same control points share their sums.
        stop = start + 1
        while stop < pull.shape[1] and first[stop] == first[start]:
            stop += 1
        k = first[start]
        for c in range(3):
            s_0, s_1, s_2, s_3 = 0.0, 0.0, 0.0, 0.0
            for x in range(start, stop):
                value = float(pull[c, x])
                s_0 += weights[0, x] * value
                s_1 += weights[1, x] * value
                s_2 += weights[2, x] * value
                s_3 += weights[3, x] * value
            gathered[c, k] += s_0
            gathered[c, k + 1] += s_1
            if taps == 4:
                gathered[c, k + 2] += s_2
                gathered[c, k + 3] += s_3
        start = stop
    z_below, y_below = math.floor(l[0, 0]), math.floor(l[1, 0])
    w_z = spline_weights(l[0, 0] - type(l[0, 0])(z_below), taps)
    w_y = spline_weights(l[1, 0] - type(l[1, 0])(y_below), taps)
    for i in range(taps):
        z = z_below - (taps // 2 - 1) + i
        if z < 0 or z >= n_z:
            continue
        for j in range(taps):
            y = y_below - (taps // 2 - 1) + j
            if y < 0 or y >= n_y:
                continue
            for c in range(3):
                begin = offset + ((c * n_z + z) * n_y + y) * n_x
                target = sums[begin : begin + n_x]
                for x in range(n_x):
                    target[x] += w_z[i] * w_y[j] * gathered[c, taps + x]


@njit
def _add_at(sums, row, z_at, y_at, x_at, pull):
    """Add the transpose of `displacement` at one place, applied to pull, (3,), to the packed sums."""
    offset, n_z, n_y, n_x, taps = row
    kind = type(z_at)
    z_below, y_below, x_below = math.floor(z_at), math.floor(y_at), math.floor(x_at)
    w_z = spline_weights(z_at - kind(z_below), taps)
    w_y = spline_weights(y_at - kind(y_below), taps)
    w_x = spline_weights(x_at - kind(x_below), taps)
    back = taps // 2 - 1
    size = n_z * n_y * n_x
    for i in range(taps):
        z = z_below - back + i
        if z < 0 or z >= n_z:
            continue
        for j in range(taps):
            y = y_below - back + j
            if y < 0 or y >= n_y:
                continue
            plane = offset + (z * n_y + y) * n_x
            for k in range(taps):
                x = x_below - back + k
                if x < 0 or x >= n_x:
                    continue
                weight = w_z[i] * w_y[j] * w_x[k]
                sums[plane + x] += weight * pull[0]
                sums[plane + size + x] += weight * pull[1]
                sums[plane + 2 * size + x] += weight * pull[2]


@njit(inline="always")
def _fill_index(index, z, y):
    for x in range(index.shape[1]):
        index[0, x], index[1, x], index[2, x] = z, y, x


@njit
def _three_rows(n_x, packed):
    return np.zeros((3, n_x), packed.dtype), np.zeros((3, n_x), packed.dtype), np.zeros((3, n_x), packed.dtype)


@njit(parallel=True, error_model="numpy", cache=True)
def _positions(out, matrices, packed, layout, aligned, first, weights):
    for z in prange(out.shape[1]):
        contracted, trail = room(out.shape[3], layout, aligned, packed)
        for y in range(out.shape[2]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            out[:, z, y, :] = trail[2 * layout.shape[0]]


@njit(parallel=True, error_model="numpy", cache=True)
def _determinants(out, matrices, packed, layout, aligned, first, weights):
    for z in prange(out.shape[0]):
        contracted, trail = room(out.shape[2], layout, aligned, packed)
        inner = np.zeros((3, 3), packed.dtype)
        for y in range(out.shape[1]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            for x in range(out.shape[2]):
                # det(M u' M') is the product of the determinants.
                total = _determinant(matrices[0])
                for k in range(layout.shape[0]):
                    l = trail[2 * k]
                    displacement_jacobian(packed, layout[k], l[0, x], l[1, x], l[2, x], inner)
                    for c in range(3):
                        inner[c, c] += 1
                    total *= _determinant(inner) * _determinant(matrices[k + 1])
                out[z, y, x] = total


@njit(inline="always")
def _determinant(m):
    return (
        m[0, 0] * (m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1])
        - m[0, 1] * (m[1, 0] * m[2, 2] - m[1, 2] * m[2, 0])
        + m[0, 2] * (m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0])
    )
