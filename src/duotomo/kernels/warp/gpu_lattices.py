"""Splines on lattices of control points, in Triton. Packed lattices have four zeros around them (PAD)."""

from __future__ import annotations

import triton
import triton.language as tl

from duotomo.kernels.warp.gpu_matrices import (
    apply_matrix,
)


@triton.jit
def spline_weights(t, taps):
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
def spline_slopes(t, taps):
    """Return the derivatives of `spline_weights`."""
    s = 1 - t
    cubic = taps == 4
    return (
        tl.where(cubic, -s * s / 2, 0.0),
        tl.where(cubic, (3 * t - 4) * t / 2, -1.0),
        tl.where(cubic, -(3 * s - 4) * s / 2, 1.0),
        tl.where(cubic, t * t / 2, 0.0),
    )


@triton.jit
def pick(weights, i):
    """Return the i-th of four weights, for loops that are not unrolled: those would compile slowly."""
    low = tl.where(i == 0, weights[0], weights[1])
    return tl.where(i < 2, low, tl.where(i == 2, weights[2], weights[3]))


@triton.jit
def four_splines(at, taps, T: tl.constexpr):
    """Return the weights at places, (n,), side by side: (n, 4)."""
    t = (at - tl.floor(at)).to(T)
    w = spline_weights(t[:, None], taps)
    return pick(w, tl.arange(0, 4)[None, :])


@triton.jit
def below(at, n, pad, T: tl.constexpr):
    """Return the index below a place, kept within `pad` of n places, and the fraction above it."""
    low = tl.floor(at)
    # Far outside there is nothing, however far; an index must hold it.
    index = tl.minimum(tl.maximum(low, -pad), n + pad).to(tl.int32)
    return index, (at - low).to(T)


@triton.jit
def cell_below(z, y, x, n_z, n_y, n_x, T: tl.constexpr):
    """Return the control points below places of a packed lattice, without its padding, and the fractions."""
    # From -3 to n + 1, n = n_z - 8: the four around either meet zeros only, and none beyond the padding.
    i_z, t_z = below(z, n_z - 10, 3, T)
    i_y, t_y = below(y, n_y - 10, 3, T)
    i_x, t_x = below(x, n_x - 10, 3, T)
    return i_z, i_y, i_x, t_z, t_y, t_x


@triton.jit
def lattice_layout(layout, k: tl.constexpr):
    m = layout + 5 * k
    return tl.load(m), tl.load(m + 1), tl.load(m + 2), tl.load(m + 3), tl.load(m + 4)


@triton.jit
def displacement(lattices, layout, k: tl.constexpr, z, y, x):
    """Return u at places of lattice k, by component. Lattices have four zeros around them (PAD)."""
    T: tl.constexpr = lattices.dtype.element_ty
    offset, n_z, n_y, n_x, taps = lattice_layout(layout, k)
    i_z, i_y, i_x, t_z, t_y, t_x = cell_below(z, y, x, n_z, n_y, n_x, T)
    w_z, w_y, w_x = spline_weights(t_z, taps), spline_weights(t_y, taps), spline_weights(t_x, taps)
    u_z, u_y, u_x = 0 * t_z, 0 * t_z, 0 * t_z
    size = n_z * n_y * n_x
    for i in range(4):
        for j in range(4):
            w = pick(w_z, i) * pick(w_y, j)
            line = lattices + offset + ((i_z + 3 + i) * n_y + i_y + 3 + j) * n_x + i_x + 3
            for m in tl.static_range(4):
                weight = w * w_x[m]
                u_z += weight * tl.load(line + m)
                u_y += weight * tl.load(line + size + m)
                u_x += weight * tl.load(line + 2 * size + m)
    return u_z, u_y, u_x


@triton.jit
def dot_four(line, w):
    """Return the sum of four neighbouring coefficients with weights."""
    low = w[0] * tl.load(line) + w[1] * tl.load(line + 1)
    return low + (w[2] * tl.load(line + 2) + w[3] * tl.load(line + 3))


@triton.jit
def sum_planes(lattices, layout, matrices, z, y, x):
    """Return, for a run of planes that starts at z, the sums over y and x of the lattice's planes around it.

    Twelve: four planes for each of three components.
    """
    T: tl.constexpr = lattices.dtype.element_ty
    offset, n_z, n_y, n_x, taps = lattice_layout(layout, 0)
    l_z, l_y, l_x = apply_matrix(matrices, 0, z, y, x)
    i_z, i_y, i_x, _, t_y, t_x = cell_below(l_z, l_y, l_x, n_z, n_y, n_x, T)
    w_y, w_x = spline_weights(t_y, taps), spline_weights(t_x, taps)
    plane = n_y * n_x
    size = n_z * plane
    line = lattices + offset + ((i_z + 3) * n_y + i_y + 3) * n_x + i_x + 3
    none = 0 * t_x
    z_0, z_1, z_2, z_3 = none, none, none, none
    y_0, y_1, y_2, y_3 = none, none, none, none
    x_0, x_1, x_2, x_3 = none, none, none, none
    for j in tl.range(4, loop_unroll_factor=1):
        w = pick(w_y, j)
        z_0 += w * dot_four(line, w_x)
        z_1 += w * dot_four(line + plane, w_x)
        z_2 += w * dot_four(line + 2 * plane, w_x)
        z_3 += w * dot_four(line + 3 * plane, w_x)
        y_0 += w * dot_four(line + size, w_x)
        y_1 += w * dot_four(line + size + plane, w_x)
        y_2 += w * dot_four(line + size + 2 * plane, w_x)
        y_3 += w * dot_four(line + size + 3 * plane, w_x)
        x_0 += w * dot_four(line + 2 * size, w_x)
        x_1 += w * dot_four(line + 2 * size + plane, w_x)
        x_2 += w * dot_four(line + 2 * size + 2 * plane, w_x)
        x_3 += w * dot_four(line + 2 * size + 3 * plane, w_x)
        line += n_x
    return z_0, z_1, z_2, z_3, y_0, y_1, y_2, y_3, x_0, x_1, x_2, x_3


@triton.jit
def add_slopes(lattices, layout, k: tl.constexpr, z, y, x, d_z, d_y, d_x):
    """Return `d + u'(l) d` for a direction d at places l of lattice k."""
    T: tl.constexpr = lattices.dtype.element_ty
    offset, n_z, n_y, n_x, taps = lattice_layout(layout, k)
    i_z, i_y, i_x, t_z, t_y, t_x = cell_below(z, y, x, n_z, n_y, n_x, T)
    w_z, w_y, w_x = spline_weights(t_z, taps), spline_weights(t_y, taps), spline_weights(t_x, taps)
    s_z, s_y, s_x = spline_slopes(t_z, taps), spline_slopes(t_y, taps), spline_slopes(t_x, taps)
    out_z, out_y, out_x = d_z, d_y, d_x
    size = n_z * n_y * n_x
    for i in range(4):
        for j in range(4):
            line = lattices + offset + ((i_z + 3 + i) * n_y + i_y + 3 + j) * n_x + i_x + 3
            wz, wy = pick(w_z, i), pick(w_y, j)
            across = pick(s_z, i) * wy * d_z + wz * pick(s_y, j) * d_y
            along = wz * wy * d_x
            for m in tl.static_range(4):
                weight = across * w_x[m] + along * s_x[m]
                out_z += weight * tl.load(line + m)
                out_y += weight * tl.load(line + size + m)
                out_x += weight * tl.load(line + 2 * size + m)
    return out_z, out_y, out_x
