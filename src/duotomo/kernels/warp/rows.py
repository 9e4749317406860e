"""Where the voxels of one row go: the part that all CPU kernels of the warp share, in Numba.

Positions are computed by the same strict operations wherever they are needed, so that a volume is read and
written at bitwise the same places and the transpose is exact in single precision too.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numba import njit

from duotomo.kernels.inner import inner
from duotomo.kernels.warp.cubes import read_cube_slopes
from duotomo.kernels.warp.point_map import PAD


@partial(inner, forceinline=True)
def spline_weights(t, taps):
    """Return four weights of control points around t in [0, 1); the first two if taps is 2."""
    one = type(t)(1)
    if taps == 2:
        return one - t, t, type(t)(0), type(t)(0)
    s = one - t
    sixth = type(t)(1 / 6)
    three, four, six = type(t)(3), type(t)(4), type(t)(6)
    return (
        s * s * s * sixth,
        ((three * t - six) * t * t + four) * sixth,
        ((three * s - six) * s * s + four) * sixth,
        t * t * t * sixth,
    )


@partial(inner, forceinline=True)
def spline_slopes(t, taps):
    """Return the derivatives of `spline_weights`."""
    one = type(t)(1)
    if taps == 2:
        return -one, one, type(t)(0), type(t)(0)
    s = one - t
    half = type(t)(0.5)
    three, four = type(t)(3), type(t)(4)
    return -s * s * half, (three * t - four) * t * half, -(three * s - four) * s * half, t * t * half


@njit(inline="always")
def first_point(below, n, taps):
    """Return the first control point that acts above an index, counted in a padded row of n."""
    # Places beyond the lattice are moved to where only the zeros around it act.
    return min(max(below, -3), n - 2 * PAD + 1) + PAD - (taps // 2 - 1)


@njit(inline="always")
def start_row(matrix, z, y, p):
    """Write `M_0 (z, y, x, 1)` for all x to p, (3, x)."""
    kind = p.dtype.type
    for c in range(3):
        start = kind(matrix[c, 0] * z + matrix[c, 1] * y + matrix[c, 3])
        step = kind(matrix[c, 2])
        for x in range(p.shape[1]):
            p[c, x] = start + step * kind(x)


@njit(inline="always")
def apply_matrix(matrix, p, out):
    """Write `M (p, 1)` to out; both (3, x)."""
    kind = p.dtype.type
    for c in range(3):
        a, b, d, e = kind(matrix[c, 0]), kind(matrix[c, 1]), kind(matrix[c, 2]), kind(matrix[c, 3])
        for x in range(p.shape[1]):
            out[c, x] = a * p[0, x] + b * p[1, x] + d * p[2, x] + e


@inner
def contract_rows(packed, row, z_at, y_at, contracted):
    """Sum the lattice over z and y, with the weights of a place: contracted, (3, n_x).

    row: (offset, n_z, n_y, n_x, taps).
    """
    offset, n_z, n_y, n_x, taps = row
    z_below, y_below = math.floor(z_at), math.floor(y_at)
    w_z = spline_weights(z_at - type(z_at)(z_below), taps)
    w_y = spline_weights(y_at - type(y_at)(y_below), taps)
    z_first, y_first = first_point(z_below, n_z, taps), first_point(y_below, n_y, taps)
    contracted[:] = 0
    for i in range(taps):
        for j in range(taps):
            weight = w_z[i] * w_y[j]
            for c in range(3):
                start = offset + ((c * n_z + z_first + i) * n_y + y_first + j) * n_x
                line = packed[start : start + n_x]
                target = contracted[c]
                for x in range(n_x):
                    target[x] += weight * line[x]


@inner
def aligned_row(packed, row, at, first, weights, contracted, out):
    """Write the displacements of a row that runs along the lattice to out; at and out are (3, x)."""
    contract_rows(packed, row, at[0, 0], at[1, 0], contracted)
    one, two, three = np.uint32(1), np.uint32(2), np.uint32(3)
    for c in range(3):
        line = contracted[c]
        if row[4] == 4:
            for x in range(at.shape[1]):
                k = first[x]
                u = weights[0, x] * line[k] + weights[1, x] * line[k + one]
                out[c, x] = u + (weights[2, x] * line[k + two] + weights[3, x] * line[k + three])
        else:
            for x in range(at.shape[1]):
                k = first[x]
                out[c, x] = weights[0, x] * line[k] + weights[1, x] * line[k + one]


@inner
def lattice_row(packed, row, at, aligned, first, weights, contracted, out):
    """Write the displacements at the places at of a row to out; both (3, x)."""
    if aligned:
        aligned_row(packed, row, at, first, weights, contracted, out)
    elif row[4] == 4:
        cubic_row(packed, row, at, out)
    else:
        linear_row(packed, row, at, out)


@njit(inline="always")
def _place(at, n, taps):
    """Return the first control point that acts on a place, and how far it is above the one below it."""
    below = math.floor(at)
    return first_point(below, n, taps), at - type(at)(below)


@inner
def cubic_row(packed, row, at, out):
    """Write the displacements of a cubic spline at any places."""
    offset, n_z, n_y, n_x, _ = row
    kind = packed.dtype.type
    size = np.uint64(n_z * n_y * n_x)
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for x in range(at.shape[1]):
        i_z, t_z = _place(at[0, x], n_z, 4)
        i_y, t_y = _place(at[1, x], n_y, 4)
        i_x, t_x = _place(at[2, x], n_x, 4)
        w_z, w_y, w_x = spline_weights(t_z, 4), spline_weights(t_y, 4), spline_weights(t_x, 4)
        # The four control points along x side by side: they become the lanes of a vector.
        z_0, z_1, z_2, z_3 = kind(0), kind(0), kind(0), kind(0)
        y_0, y_1, y_2, y_3 = kind(0), kind(0), kind(0), kind(0)
        x_0, x_1, x_2, x_3 = kind(0), kind(0), kind(0), kind(0)
        for i in range(4):
            for j in range(4):
                w = w_z[i] * w_y[j]
                a = np.uint64(offset + ((i_z + i) * n_y + i_y + j) * n_x + i_x)
                z_0 += w * packed[a]
                z_1 += w * packed[a + one]
                z_2 += w * packed[a + two]
                z_3 += w * packed[a + three]
                a += size
                y_0 += w * packed[a]
                y_1 += w * packed[a + one]
                y_2 += w * packed[a + two]
                y_3 += w * packed[a + three]
                a += size
                x_0 += w * packed[a]
                x_1 += w * packed[a + one]
                x_2 += w * packed[a + two]
                x_3 += w * packed[a + three]
        out[0, x] = w_x[0] * z_0 + w_x[1] * z_1 + w_x[2] * z_2 + w_x[3] * z_3
        out[1, x] = w_x[0] * y_0 + w_x[1] * y_1 + w_x[2] * y_2 + w_x[3] * y_3
        out[2, x] = w_x[0] * x_0 + w_x[1] * x_1 + w_x[2] * x_2 + w_x[3] * x_3


@inner
def linear_row(packed, row, at, out):
    """Write the displacements of a linear spline at any places."""
    offset, n_z, n_y, n_x, _ = row
    size = n_z * n_y * n_x
    for x in range(at.shape[1]):
        i_z, t_z = _place(at[0, x], n_z, 2)
        i_y, t_y = _place(at[1, x], n_y, 2)
        i_x, t_x = _place(at[2, x], n_x, 2)
        for c in range(3):
            a = offset + c * size + (i_z * n_y + i_y) * n_x + i_x
            out[c, x] = 0
            for i in range(2):
                w_z = t_z if i else type(t_z)(1) - t_z
                for j in range(2):
                    w = w_z * (t_y if j else type(t_y)(1) - t_y)
                    b = a + (i * n_y + j) * n_x
                    out[c, x] += w * (packed[b] + t_x * (packed[b + 1] - packed[b]))


@inner
def displacement_jacobian(packed, row, z_at, y_at, x_at, jacobian):
    """Write to `jacobian`, (component, axis), the derivatives of the displacement at one place."""
    offset, n_z, n_y, n_x, taps = row
    kind = packed.dtype.type
    i_z, t_z = _place(z_at, n_z, taps)
    i_y, t_y = _place(y_at, n_y, taps)
    i_x, t_x = _place(x_at, n_x, taps)
    w_z, w_y, w_x = spline_weights(t_z, taps), spline_weights(t_y, taps), spline_weights(t_x, taps)
    d_z, d_y, d_x = spline_slopes(t_z, taps), spline_slopes(t_y, taps), spline_slopes(t_x, taps)
    size = n_z * n_y * n_x
    for c in range(3):
        start = offset + c * size + (i_z * n_y + i_y) * n_x + i_x
        if taps == 4:
            slopes = read_cube_slopes(packed, start, n_y * n_x, n_x, w_z, w_y, w_x, d_z, d_y, d_x)
            jacobian[c, 0], jacobian[c, 1], jacobian[c, 2] = slopes
            continue
        along_z, along_y, along_x = kind(0), kind(0), kind(0)
        for i in range(taps):
            for j in range(taps):
                a = np.uint64(start + (i * n_y + j) * n_x)
                value, slope = kind(0), kind(0)
                for k in range(taps):
                    f = packed[a + np.uint64(k)]
                    value += w_x[k] * f
                    slope += d_x[k] * f
                along_z += d_z[i] * w_y[j] * value
                along_y += w_z[i] * d_y[j] * value
                along_x += w_z[i] * w_y[j] * slope
        jacobian[c, 0], jacobian[c, 1], jacobian[c, 2] = along_z, along_y, along_x


@inner
def follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail):
    """Write the way of a row to trail, (2 n + 1, 3, x): before and after each lattice, and the end."""
    start_row(matrices[0], z, y, trail[0])
    for k in range(layout.shape[0]):
        at, moved = trail[2 * k], trail[2 * k + 1]
        lattice_row(packed, layout[k], at, aligned and k == 0, first, weights, contracted, moved)
        moved += at
        apply_matrix(matrices[k + 1], moved, trail[2 * k + 2])


@inner
def room(n_x, layout, aligned, packed):
    """Return what a thread needs to follow rows: the contracted lattice rows, and the trail."""
    width = layout[0, 3] if aligned else 0
    contracted = np.zeros((3, width), packed.dtype)
    trail = np.zeros((2 * layout.shape[0] + 1, 3, n_x), packed.dtype)
    return contracted, trail
