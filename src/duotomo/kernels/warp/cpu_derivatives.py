"""The derivatives of a warp in its map, on the CPU, in Numba."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from duotomo.kernels.compiled import compiled
from duotomo.kernels.inner import inner
from duotomo.kernels.warp.cubes import add_to_cube
from duotomo.kernels.warp.interpolation import read_slopes_row
from duotomo.kernels.warp.rows import (
    apply_matrix,
    displacement_jacobian,
    first_point,
    follow_row,
    lattice_row,
    room,
    spline_weights,
)


@compiled
def differentiate_volume(
    volume,
    out,
    matrices,
    packed,
    layout,
    aligned,
    first,
    weights,
    d_matrices,
    d_packed,
    moving,
    cubic,
    begin,
    end,
):
    """Write the derivative of planes begin to end."""
    last, n_x = layout.shape[0], len(first)
    contracted, trail = room(n_x, layout, aligned, packed)
    index, change, turned, slopes = _four_rows(n_x, packed)
    jacobian = np.zeros((3, 3), packed.dtype)
    for z in range(begin, end):
        for y in range(out.shape[1]):
            follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
            _fill_index(index, z, y)
            apply_matrix(d_matrices[0], index, change)
            for k in range(last):
                at = trail[2 * k]
                lattice_row(d_packed, layout[k], at, aligned and k == 0, first, weights, contracted, turned)
                if moving[k]:
                    # d(l + u(l)) = dl + du + u'(l) dl
                    for x in range(n_x):
                        displacement_jacobian(packed, layout[k], at[0, x], at[1, x], at[2, x], jacobian)
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
            read_slopes_row(volume, trail[2 * last], cubic, slopes)
            for x in range(out.shape[2]):
                total = slopes[0, x] * change[0, x] + slopes[1, x] * change[1, x]
                out[z, y, x] = total + slopes[2, x] * change[2, x]


@compiled
def pull_back_image(
    volume,
    image,
    matrices,
    packed,
    layout,
    aligned,
    first,
    weights,
    all_sums,
    all_d_matrices,
    fixed,
    cubic,
    begin,
    end,
):
    """Add up the gradients of chunks begin to end, each of them apart."""
    n_z, n_chunks = image.shape[0], len(all_sums)
    last, n_x = layout.shape[0], len(first)
    contracted, trail = room(n_x, layout, aligned, packed)
    gathered = np.zeros(contracted.shape)
    index, pull, turned, _ = _four_rows(n_x, packed)
    jacobian = np.zeros((3, 3), packed.dtype)
    for chunk in range(begin, end):
        sums, d_matrices = all_sums[chunk], all_d_matrices[chunk]
        for z in range(chunk * n_z // n_chunks, (chunk + 1) * n_z // n_chunks):
            for y in range(image.shape[1]):
                follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail)
                read_slopes_row(volume, trail[2 * last], cubic, pull)
                line = image[z, y]
                for c in range(3):
                    for x in range(len(line)):
                        pull[c, x] *= line[x]
                    pull[c, len(line) :] = 0
                # Backwards through the map: pull is the gradient in the places after stage k.
                for k in range(last, -1, -1):
                    if not fixed[k]:
                        if k == 0:
                            _fill_index(index, z, y)
                        _add_products(pull, trail[2 * k - 1] if k > 0 else index, d_matrices[k])
                    if k == 0:
                        break
                    _transpose_matrix(matrices[k], pull, turned)
                    at = trail[2 * k - 2]
                    if aligned and k == 1:
                        _add_aligned(sums, layout[0], at, first, weights, turned, gathered)
                    else:
                        _add_row(sums, layout[k - 1], at, turned)
                    if k == 1 and fixed[0]:
                        break
                    for x in range(n_x):
                        displacement_jacobian(packed, layout[k - 1], at[0, x], at[1, x], at[2, x], jacobian)
                        for i in range(3):
                            pull[i, x] = turned[i, x]
                            for c in range(3):
                                pull[i, x] += jacobian[c, i] * turned[c, x]


@inner
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


@inner
def _transpose_matrix(matrix, pull, out):
    kind = pull.dtype.type
    for i in range(3):
        a, b, c = kind(matrix[0, i]), kind(matrix[1, i]), kind(matrix[2, i])
        for x in range(pull.shape[1]):
            out[i, x] = a * pull[0, x] + b * pull[1, x] + c * pull[2, x]


@inner
def _add_aligned(sums, row, at, first, weights, pull, gathered):
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
    z_below, y_below = math.floor(at[0, 0]), math.floor(at[1, 0])
    w_z = spline_weights(at[0, 0] - type(at[0, 0])(z_below), taps)
    w_y = spline_weights(at[1, 0] - type(at[1, 0])(y_below), taps)
    z_first, y_first = first_point(z_below, n_z, taps), first_point(y_below, n_y, taps)
    for i in range(taps):
        for j in range(taps):
            weight = w_z[i] * w_y[j]
            for c in range(3):
                begin = offset + ((c * n_z + z_first + i) * n_y + y_first + j) * n_x
                target, line = sums[begin : begin + n_x], gathered[c]
                for x in range(n_x):
                    target[x] += weight * line[x]


@inner
def _add_row(sums, row, at, pull):
    """Add the transpose of `lattice_row` at any places, applied to pull, (3, x), to the packed sums."""
    offset, n_z, n_y, n_x, taps = row
    kind = at.dtype.type
    size = n_z * n_y * n_x
    for x in range(at.shape[1]):
        z_below, y_below, x_below = math.floor(at[0, x]), math.floor(at[1, x]), math.floor(at[2, x])
        w_z = spline_weights(at[0, x] - kind(z_below), taps)
        w_y = spline_weights(at[1, x] - kind(y_below), taps)
        w_x = spline_weights(at[2, x] - kind(x_below), taps)
        i_z, i_y = first_point(z_below, n_z, taps), first_point(y_below, n_y, taps)
        i_x = first_point(x_below, n_x, taps)
        for c in range(3):
            value = float(pull[c, x])
            start = offset + c * size + (i_z * n_y + i_y) * n_x + i_x
            if taps == 4:
                add_to_cube(
                    sums, start, n_y * n_x, n_x, _times(w_z, value), _times(w_y, 1.0), _times(w_x, 1.0)
                )
                continue
            for i in range(taps):
                for j in range(taps):
                    weight = w_z[i] * w_y[j] * value
                    a = np.uint64(start + (i * n_y + j) * n_x)
                    for k in range(taps):
                        sums[a + np.uint64(k)] += weight * w_x[k]


@njit(inline="always")
def _times(weights, value):
    """Return four weights, times a value, in double precision."""
    return weights[0] * value, weights[1] * value, weights[2] * value, weights[3] * value


@njit(inline="always")
def _fill_index(index, z, y):
    for x in range(index.shape[1]):
        index[0, x], index[1, x], index[2, x] = z, y, x


@inner
def _four_rows(n_x, packed):
    rows = np.zeros((4, 3, n_x), packed.dtype)
    return rows[0], rows[1], rows[2], rows[3]
