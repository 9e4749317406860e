"""Reading a volume along a row of places: values and slopes, in Numba."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numba import njit

from duotomo.kernels.inner import inner
from duotomo.kernels.warp.corners import LANES, read_corners
from duotomo.kernels.warp.cubes import keys_slopes, keys_weights, read_cube, read_cube_slopes
from duotomo.kernels.warp.rows import spline_weights


@partial(inner, forceinline=True)
def tap_weights(t, cubic):
    return keys_weights(t) if cubic else spline_weights(t, 2)


@partial(inner, forceinline=True)
def _tap_slopes(t, cubic):
    kind = type(t)
    return keys_slopes(t) if cubic else (kind(-1), kind(1), kind(0), kind(0))


@njit(inline="always")
def is_far(at, n):
    # Beyond every tap, or not a number that an index could hold.
    return not (at > type(at)(-2.5) and at < type(at)(n + 1.5))


@njit(inline="always")
def is_amid(i_z, i_y, i_x, first, end, n_y, n_x):
    """Whether the four by four by four voxels around a place all exist, along z from `first` to `end`."""
    return i_z > first and i_z < end - 2 and i_y > 0 and i_y < n_y - 2 and i_x > 0 and i_x < n_x - 2


@inner
def _read(volume, z_at, y_at, x_at, cubic):
    """Return the value of the volume at a place."""
    n_z, n_y, n_x = volume.shape
    kind = volume.dtype.type
    total = kind(0)
    if is_far(z_at, n_z) or is_far(y_at, n_y) or is_far(x_at, n_x):
        return total
    i_z, i_y, i_x = math.floor(z_at), math.floor(y_at), math.floor(x_at)
    w_z = tap_weights(z_at - kind(i_z), cubic)
    w_y = tap_weights(y_at - kind(i_y), cubic)
    w_x = tap_weights(x_at - kind(i_x), cubic)
    if cubic and is_amid(i_z, i_y, i_x, 0, n_z, n_y, n_x):
        start = ((i_z - 1) * n_y + i_y - 1) * n_x + i_x - 1
        return read_cube(volume, start, n_y * n_x, n_x, w_z, w_y, w_x)
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


# By itself, not `inner`: as a part of the loop alone it takes a fifth longer.
@njit
def _read_slopes(volume, z_at, y_at, x_at, cubic):
    """Return the slopes of the volume at a place, along z, y and x."""
    n_z, n_y, n_x = volume.shape
    kind = volume.dtype.type
    s_z, s_y, s_x = kind(0), kind(0), kind(0)
    if is_far(z_at, n_z) or is_far(y_at, n_y) or is_far(x_at, n_x):
        return s_z, s_y, s_x
    i_z, i_y, i_x = math.floor(z_at), math.floor(y_at), math.floor(x_at)
    t_z, t_y, t_x = z_at - kind(i_z), y_at - kind(i_y), x_at - kind(i_x)
    w_z, w_y, w_x = tap_weights(t_z, cubic), tap_weights(t_y, cubic), tap_weights(t_x, cubic)
    d_z, d_y, d_x = _tap_slopes(t_z, cubic), _tap_slopes(t_y, cubic), _tap_slopes(t_x, cubic)
    if cubic and is_amid(i_z, i_y, i_x, 0, n_z, n_y, n_x):
        start = ((i_z - 1) * n_y + i_y - 1) * n_x + i_x - 1
        return read_cube_slopes(volume, start, n_y * n_x, n_x, w_z, w_y, w_x, d_z, d_y, d_x)
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


@inner
def read_row(volume, places, cubic, out):
    """Write the values of the volume at places, (3, x), to out, (x,); x a multiple of LANES."""
    if cubic or volume.shape[2] < 2:
        for x in range(places.shape[1]):
            out[x] = _read(volume, places[0, x], places[1, x], places[2, x], cubic)
        return
    t, f = np.empty((3, LANES), volume.dtype), np.empty((8, LANES), volume.dtype)
    for start in range(0, places.shape[1], LANES):
        read_corners(volume, places, start, t, f)
        for i in range(LANES):
            a = f[0, i] + t[2, i] * (f[1, i] - f[0, i])
            b = f[2, i] + t[2, i] * (f[3, i] - f[2, i])
            c = f[4, i] + t[2, i] * (f[5, i] - f[4, i])
            d = f[6, i] + t[2, i] * (f[7, i] - f[6, i])
            low, high = a + t[1, i] * (b - a), c + t[1, i] * (d - c)
            out[start + i] = low + t[0, i] * (high - low)


@inner
def read_slopes_row(volume, places, cubic, out):
    """Write the slopes of the volume at places, (3, x), to out, (3, x); x a multiple of LANES."""
    if cubic or volume.shape[2] < 2:
        for x in range(places.shape[1]):
            slopes = _read_slopes(volume, places[0, x], places[1, x], places[2, x], cubic)
            out[0, x], out[1, x], out[2, x] = slopes
        return
    t, f = np.empty((3, LANES), volume.dtype), np.empty((8, LANES), volume.dtype)
    for start in range(0, places.shape[1], LANES):
        read_corners(volume, places, start, t, f)
        for i in range(LANES):
            t_z, t_y, t_x = t[0, i], t[1, i], t[2, i]
            s_a, s_b = f[1, i] - f[0, i], f[3, i] - f[2, i]
            s_c, s_d = f[5, i] - f[4, i], f[7, i] - f[6, i]
            a, b = f[0, i] + t_x * s_a, f[2, i] + t_x * s_b
            c, d = f[4, i] + t_x * s_c, f[6, i] + t_x * s_d
            x_low, x_high = s_a + t_y * (s_b - s_a), s_c + t_y * (s_d - s_c)
            out[0, start + i] = (c + t_y * (d - c)) - (a + t_y * (b - a))
            out[1, start + i] = (b - a) + t_z * ((d - c) - (b - a))
            out[2, start + i] = x_low + t_z * (x_high - x_low)
