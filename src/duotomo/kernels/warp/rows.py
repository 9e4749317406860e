"""Where the voxels of one row go: the part that all CPU kernels of the warp share, in Numba.

Positions are computed by the same strict operations wherever they are needed, so that a volume is read and
written at bitwise the same places and the transpose is exact in single precision too.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(inline="always")
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


@njit(inline="always")
def spline_slopes(t, taps):
    """Return the derivatives of `spline_weights`."""
    one = type(t)(1)
    if taps == 2:
        return -one, one, type(t)(0), type(t)(0)
    s = one - t
    half = type(t)(0.5)
    three, four = type(t)(3), type(t)(4)
    return -s * s * half, (three * t - four) * t * half, -(three * s - four) * s * half, t * t * half


@njit
def x_table(matrix, n_x, taps, n_lattice, first, weights):
    """Fill, for each voxel of a row, the first control point along x that acts on it, and its weights.

    first: (x,), counted in a row with `taps` zeros on either side; places beyond those are moved to where
    nothing acts either. weights: (4, x).
    """
    for x in range(n_x):
        at = weights.dtype.type(matrix[2, 3]) + weights.dtype.type(matrix[2, 2]) * weights.dtype.type(x)
        below = math.floor(at)
        w = spline_weights(at - weights.dtype.type(below), taps)
        for i in range(4):
            weights[i, x] = w[i]
        first[x] = min(max(below - (taps // 2 - 1), -taps), n_lattice) + taps


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


@njit
def contract_rows(packed, row, z_at, y_at, contracted):
    """Sum the lattice over z and y, with the weights of a place: contracted, (3, n_x + 2 taps), zeros around.

    row: (offset, n_z, n_y, n_x, taps).
    """
    offset, n_z, n_y, n_x, taps = row
    contracted[:] = 0
    z_below, y_below = math.floor(z_at), math.floor(y_at)
    w_z = spline_weights(z_at - type(z_at)(z_below), taps)
    w_y = spline_weights(y_at - type(y_at)(y_below), taps)
    z_first, y_first = z_below - (taps // 2 - 1), y_below - (taps // 2 - 1)
    for i in range(taps):
        z = z_first + i
        if z < 0 or z >= n_z:
            continue
        for j in range(taps):
            y = y_first + j
            if y < 0 or y >= n_y:
                continue
            weight = w_z[i] * w_y[j]
            for c in range(3):
                start = offset + ((c * n_z + z) * n_y + y) * n_x
                line = packed[start : start + n_x]
                target = contracted[c, taps : taps + n_x]
                for x in range(n_x):
                    target[x] += weight * line[x]


@njit
def aligned_row(packed, row, l, first, weights, contracted, out):
    """Write the displacements of a row that runs along the lattice to out; l and out are (3, x)."""
    taps = row[4]
    contract_rows(packed, row, l[0, 0], l[1, 0], contracted)
    one, two, three = np.uint32(1), np.uint32(2), np.uint32(3)
    for c in range(3):
        line = contracted[c]
        if taps == 4:
            for x in range(l.shape[1]):
                k = first[x]
                u = weights[0, x] * line[k] + weights[1, x] * line[k + one]
                out[c, x] = u + (weights[2, x] * line[k + two] + weights[3, x] * line[k + three])
        else:
            for x in range(l.shape[1]):
                k = first[x]
                out[c, x] = weights[0, x] * line[k] + weights[1, x] * line[k + one]


@njit
def lattice_row(packed, row, l, aligned, first, weights, contracted, out):
    """Write the displacements at the places l of a row to out; both (3, x)."""
    if aligned:
        aligned_row(packed, row, l, first, weights, contracted, out)
    else:
        for x in range(l.shape[1]):
            out[0, x], out[1, x], out[2, x] = displacement(packed, row, l[0, x], l[1, x], l[2, x])


@njit
def displacement(packed, row, z_at, y_at, x_at):
    """Return u, by component, at one place of a lattice."""
    offset, n_z, n_y, n_x, taps = row
    kind = packed.dtype.type
    z_below, y_below, x_below = math.floor(z_at), math.floor(y_at), math.floor(x_at)
    w_z = spline_weights(z_at - kind(z_below), taps)
    w_y = spline_weights(y_at - kind(y_below), taps)
    w_x = spline_weights(x_at - kind(x_below), taps)
    back = taps // 2 - 1
    size = n_z * n_y * n_x
    u_z, u_y, u_x = kind(0), kind(0), kind(0)
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
                u_z += weight * packed[plane + x]
                u_y += weight * packed[plane + size + x]
                u_x += weight * packed[plane + 2 * size + x]
    return u_z, u_y, u_x


@njit
def displacement_jacobian(packed, row, z_at, y_at, x_at, jacobian):
    """Write to `jacobian`, (component, axis), the derivatives of the displacement at one place."""
    offset, n_z, n_y, n_x, taps = row
    kind = packed.dtype.type
    z_below, y_below, x_below = math.floor(z_at), math.floor(y_at), math.floor(x_at)
    t_z, t_y, t_x = z_at - kind(z_below), y_at - kind(y_below), x_at - kind(x_below)
    w_z, w_y, w_x = spline_weights(t_z, taps), spline_weights(t_y, taps), spline_weights(t_x, taps)
    d_z, d_y, d_x = spline_slopes(t_z, taps), spline_slopes(t_y, taps), spline_slopes(t_x, taps)
    back = taps // 2 - 1
    size = n_z * n_y * n_x
    jacobian[:] = 0
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
                along_z = d_z[i] * w_y[j] * w_x[k]
                along_y = w_z[i] * d_y[j] * w_x[k]
                along_x = w_z[i] * w_y[j] * d_x[k]
                for c in range(3):
                    value = packed[plane + c * size + x]
                    jacobian[c, 0] += along_z * value
                    jacobian[c, 1] += along_y * value
                    jacobian[c, 2] += along_x * value


@njit
def follow_row(matrices, packed, layout, aligned, first, weights, contracted, z, y, trail):
    """Write the way of a row of voxels to trail, (2 n + 1, 3, x): before and after each lattice, and the end."""
    start_row(matrices[0], z, y, trail[0])
    for k in range(layout.shape[0]):
        l, moved = trail[2 * k], trail[2 * k + 1]
        lattice_row(packed, layout[k], l, aligned and k == 0, first, weights, contracted, moved)
        moved += l
        apply_matrix(matrices[k + 1], moved, trail[2 * k + 2])


@njit
def room(n_x, layout, aligned, packed):
    """Return what a thread needs to follow rows: the contracted lattice rows, and the trail."""
    width = layout[0, 3] + 2 * layout[0, 4] if aligned else 0
    contracted = np.zeros((3, width), packed.dtype)
    trail = np.zeros((2 * layout.shape[0] + 1, 3, n_x), packed.dtype)
    return contracted, trail
