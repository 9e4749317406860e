"""Noise as a function of position: smooth gradient noise, and the cells around scattered sites.

Both live on a lattice of unit cells whose corners draw their values from a shuffled table, so that a point
has the same noise on every grid.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

TABLE = 256
"""Lattice corners before the noise repeats, along each axis."""


class Lattice(NamedTuple):
    """The random numbers of a lattice, (entry, xyz); `order` shuffles the entries of the others."""

    order: NDArray[np.int64]
    gradients: NDArray[np.float64]
    sites: NDArray[np.float64]


def lattice(rng: np.random.Generator) -> Lattice:
    """Return a lattice drawn from `rng`.

    >>> table = lattice(np.random.default_rng(1))
    >>> bool(np.allclose(np.linalg.norm(table.gradients, axis=1), 1))
    True
    """
    gradients = rng.normal(size=(TABLE, 3))
    gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
    return Lattice(rng.permutation(TABLE), gradients, rng.uniform(size=(TABLE, 3)))


def random_rotation(rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a rotation matrix, (3, 3), uniform over all of them."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    rotation: NDArray[np.float64] = q * np.linalg.det(q)
    return rotation


@njit(inline="always")
def _entry(order, i, j, k):
    mask = TABLE - 1
    return order[(order[(order[i & mask] + j) & mask] + k) & mask]


@njit(inline="always")
def _corner(table, i, j, k, x, y, z):
    gradient = table.gradients[_entry(table.order, i, j, k)]
    return gradient[0] * x + gradient[1] * y + gradient[2] * z


@njit(error_model="numpy", fastmath={"contract", "nsz"})
def gradient_noise(table, x, y, z):
    """Return smooth noise at a point: zero at every corner, about 0.19 in standard deviation, within +-1."""
    i, j, k = math.floor(x), math.floor(y), math.floor(z)
    x, y, z = x - i, y - j, z - k
    # The fade 6t^5 - 15t^4 + 10t^3 keeps two derivatives continuous across cells.
    u = x * x * x * (x * (x * 6 - 15) + 10)
    v = y * y * y * (y * (y * 6 - 15) + 10)
    w = z * z * z * (z * (z * 6 - 15) + 10)
    total = 0.0
    for corner in range(8):
        a, b, c = corner & 1, (corner >> 1) & 1, corner >> 2
        weight = (u if a else 1 - u) * (v if b else 1 - v) * (w if c else 1 - w)
        total += weight * _corner(table, i + a, j + b, k + c, x - a, y - b, z - c)
    return total


@njit(error_model="numpy", fastmath={"contract", "nsz"})
def cells(table, x, y, z):
    """Return the distance to the nearest site, and to the wall between it and the next (one site per cell).

    The wall between sites s and t is their bisecting plane: `(|p - t|^2 - |p - s|^2) / (2 |s - t|)` away.
    """
    i, j, k = math.floor(x), math.floor(y), math.floor(z)
    near = next_near = 1e9
    sx = sy = sz = tx = ty = tz = 0.0
    for c in range(k - 1, k + 2):
        for b in range(j - 1, j + 2):
            for a in range(i - 1, i + 2):
                site = table.sites[_entry(table.order, a, b, c)]
                px, py, pz = a + site[0], b + site[1], c + site[2]
                d = (px - x) ** 2 + (py - y) ** 2 + (pz - z) ** 2
                if d < near:
                    next_near, tx, ty, tz = near, sx, sy, sz
                    near, sx, sy, sz = d, px, py, pz
                elif d < next_near:
                    next_near, tx, ty, tz = d, px, py, pz
    apart = math.sqrt((sx - tx) ** 2 + (sy - ty) ** 2 + (sz - tz) ** 2)
    return math.sqrt(near), (next_near - near) / (2 * max(apart, 1e-9))
