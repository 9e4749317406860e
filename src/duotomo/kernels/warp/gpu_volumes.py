"""Reading volumes at places, and which voxels a program owns, in Triton."""

from __future__ import annotations

import triton
import triton.language as tl

SHAPES = ["n_z", "n_y", "n_x", "v_z", "v_y", "v_x"]
"""Arguments that change from volume to volume, and are not worth compiling for."""


@triton.jit
def tap_weights(t, CUBIC: tl.constexpr):
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
def tap_slopes(t, CUBIC: tl.constexpr):
    """Return the derivatives of `tap_weights`."""
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
def tap_row(z, y, v_z, v_y, inside, WIDE: tl.constexpr):
    """Return the number of a row of voxels, and where it lies inside the volume."""
    row = z * v_y + y
    if WIDE:
        row = row.to(tl.int64)
    return row, inside & (z >= 0) & (z < v_z) & (y >= 0) & (y < v_y)


@triton.jit
def read_slopes(
    volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC: tl.constexpr, WIDE: tl.constexpr
):
    """Return the slopes of the volume at places."""
    TAPS: tl.constexpr = 4 if CUBIC else 2
    BACK: tl.constexpr = 1 if CUBIC else 0
    w_z, w_y, w_x = tap_weights(t_z, CUBIC), tap_weights(t_y, CUBIC), tap_weights(t_x, CUBIC)
    d_z, d_y, d_x = tap_slopes(t_z, CUBIC), tap_slopes(t_y, CUBIC), tap_slopes(t_x, CUBIC)
    s_z, s_y, s_x = 0 * t_z, 0 * t_z, 0 * t_z
    for i in tl.static_range(TAPS):
        for j in tl.static_range(TAPS):
            row, in_row = tap_row(i_z - BACK + i, i_y - BACK + j, v_z, v_y, inside, WIDE)
            line = volume + row * v_x + i_x - BACK
            value, slope = 0 * t_z, 0 * t_z
            for m in tl.static_range(TAPS):
                to_x = i_x - BACK + m
                f = tl.load(line + m, mask=in_row & (to_x >= 0) & (to_x < v_x), other=0.0)
                value += w_x[m] * f
                slope += d_x[m] * f
            s_z += d_z[i] * w_y[j] * value
            s_y += w_z[i] * d_y[j] * value
            s_x += w_z[i] * w_y[j] * slope
    return s_z, s_y, s_x


@triton.jit
def own_voxels(runs, n_y, n_x, BLOCK: tl.constexpr):
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
def store_three(out, a, b, c, z, flat, n_z, n_y, n_x, inside, WIDE: tl.constexpr):
    """Write three images of a block's voxels, one behind the other."""
    tl.store(out + plane_offset(z, flat, n_y, n_x, WIDE), a, mask=inside)
    tl.store(out + plane_offset(n_z + z, flat, n_y, n_x, WIDE), b, mask=inside)
    tl.store(out + plane_offset(2 * n_z + z, flat, n_y, n_x, WIDE), c, mask=inside)


@triton.jit
def plane_offset(z, flat, n_y, n_x, WIDE: tl.constexpr):
    """Return the place of a block's voxels in an image."""
    if WIDE:
        return (0 * flat + z).to(tl.int64) * n_y * n_x + flat
    else:
        return z * (n_y * n_x) + flat
