"""What tissue a point of a breast is: the loops over points and voxels, in Numba.

A point's tissue follows from its position alone. Positions are mm from the middle of the chest-wall section.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from duotomo.kernels.compiled import compiled
from duotomo.phantoms.breast_noise import cells, gradient_noise

Floats = NDArray[np.float64]

AIR, ADIPOSE, GLANDULAR, SKIN, LIGAMENT, DUCT, NIPPLE = range(7)
"""The numbers of `BreastTissue`, which Numba cannot read."""

POINT_STEPS = 300.0
"""About how long a point takes, in ns."""
_APEX_MM = 12.0
"""How far in front of the nipple the point lies that the texture runs towards."""
_STRETCH = 0.3
"""By which power of the distance to the apex the texture is finer: 0 would make it the same everywhere."""
_ENVELOPE, _LOBULES = 2.85, 5.2
"""Weights of the gland's outline and of the fat lobules in it, beside a texture of unit variance."""
_COMPARTMENT = 2.6
"""Size of the compartments between ligaments, in lobules."""
_SUBCUTANEOUS_MM, _RETROMAMMARY_MM = 2.5, 4.0
"""Over which depth the gland is kept away from skin and chest wall."""


class Anatomy(NamedTuple):
    """The numbers that a breast is made of.

    radii_mm: (xyz). octaves: (octave, xyz, 4), of each the affine map from mm to lattice cells; amplitudes:
    (octave). gland_center, gland_radii: (xyz), in radii. lobule_mm: from one fat lobule to the next.
    threshold: of the gland field, by density; softness: over how much of the field fat turns into gland.
    """

    radii_mm: Floats
    skin_mm: float
    nipple_radius_mm: float
    octaves: Floats
    amplitudes: Floats
    gland_center: Floats
    gland_radii: Floats
    lobule_mm: float
    ligament_mm: float
    threshold: float
    softness: float


class Ducts(NamedTuple):
    """Capsules in bins: those that reach into a bin are `items[starts[bin] : starts[bin + 1]]`.

    capsules: (capsule, value), with the two ends (xyz, xyz) and the radius, mm. low_mm: (xyz), the corner of
    the bins; n_bins: (xyz).
    """

    capsules: Floats
    low_mm: Floats
    bin_mm: float
    n_bins: NDArray[np.int64]
    starts: NDArray[np.int64]
    items: NDArray[np.int64]


@njit(inline="always")
def _octave(m, lattice, x, y, z):
    return gradient_noise(
        lattice,
        m[0, 0] * x + m[0, 1] * y + m[0, 2] * z + m[0, 3],
        m[1, 0] * x + m[1, 1] * y + m[1, 2] * z + m[1, 3],
        m[2, 0] * x + m[2, 1] * y + m[2, 2] * z + m[2, 3],
    )


@njit(error_model="numpy", fastmath={"contract", "nsz"})
def _in_duct(ducts, x, y, z):
    i = math.floor((x - ducts.low_mm[0]) / ducts.bin_mm)
    j = math.floor((y - ducts.low_mm[1]) / ducts.bin_mm)
    k = math.floor((z - ducts.low_mm[2]) / ducts.bin_mm)
    n = ducts.n_bins
    if i < 0 or j < 0 or k < 0 or i >= n[0] or j >= n[1] or k >= n[2]:
        return False
    at = (i * n[1] + j) * n[2] + k
    for item in range(ducts.starts[at], ducts.starts[at + 1]):
        c = ducts.capsules[ducts.items[item]]
        ax, ay, az = c[3] - c[0], c[4] - c[1], c[5] - c[2]
        px, py, pz = x - c[0], y - c[1], z - c[2]
        t = (px * ax + py * ay + pz * az) / (ax * ax + ay * ay + az * az)
        t = min(max(t, 0.0), 1.0)
        if (px - t * ax) ** 2 + (py - t * ay) ** 2 + (pz - t * az) ** 2 <= c[6] * c[6]:
            return True
    return False


@njit(error_model="numpy", fastmath={"contract", "nsz"})
def _envelope(anatomy, x, y, z, depth):
    """Return where gland is likely: 0.35 in the middle of it, 0 at its border, far below at the skin."""
    r = anatomy.radii_mm
    qx, qy, qz = x / r[0], y / r[1], z / r[2]
    c, g = anatomy.gland_center, anatomy.gland_radii
    body = 1 - math.sqrt(((qx - c[0]) / g[0]) ** 2 + ((qy - c[1]) / g[1]) ** 2 + ((qz - c[2]) / g[2]) ** 2)
    # A cone that narrows to the nipple, and fades away from it.
    cone = 0.9 - math.sqrt(qx * qx + qz * qz) / (0.06 + 0.75 * max(1 - qy, 0.0))
    inside = min(max(body, min(cone, 0.1 + 0.5 * qy)), 0.35)
    away = 1 - math.exp(-(x * x + z * z + (y - r[1]) ** 2) / 64.0)
    inside -= 2.5 * away * math.exp(-(depth - anatomy.skin_mm) / _SUBCUTANEOUS_MM)
    return inside - 0.8 * math.exp(-y / _RETROMAMMARY_MM)


@njit(error_model="numpy", fastmath={"contract", "nsz"})
def _tissue(anatomy, lattice, ducts, x, y, z):
    """Return the tissue at a point, and the gland field there: 0 in air, skin, nipple and ducts."""
    r = anatomy.radii_mm
    if y < 0:
        return AIR, 0.0
    length_sq = (x / r[0]) ** 2 + (y / r[1]) ** 2 + (z / r[2]) ** 2
    nipple = x * x + (y - r[1]) ** 2 + z * z <= anatomy.nipple_radius_mm**2
    if length_sq > 1 and not nipple:
        return AIR, 0.0
    if _in_duct(ducts, x, y, z):
        return DUCT, 0.0
    if nipple:
        return NIPPLE, 0.0
    length = math.sqrt(length_sq)
    slope = math.sqrt((x / r[0] ** 2) ** 2 + (y / r[1] ** 2) ** 2 + (z / r[2] ** 2) ** 2)
    depth = (1 - length) * length / max(slope, 1e-12) if length > 1e-9 else min(r[0], r[1], r[2])
    if depth < anatomy.skin_mm:
        return SKIN, 0.0
    # Drawn towards the nipple, the texture is longer along the radius than across, by 1 / (1 - stretch).
    w = y - r[1] - _APEX_MM
    pull = 1.15 * (40.0**2 / (x * x + w * w + z * z)) ** (_STRETCH / 2)
    tx, ty, tz = pull * x, pull * w, pull * z
    texture = coarse = middle = 0.0
    for octave in range(len(anatomy.amplitudes)):
        noise = _octave(anatomy.octaves[octave], lattice, tx, ty, tz)
        texture += anatomy.amplitudes[octave] * noise
        coarse = noise if octave == 0 else coarse
        middle = noise if octave == 1 else middle
    # Bent, so that lobules are no balls and ligaments no planes.
    bx, by, bz = tx + 4.0 * coarse, ty + 2.0 * middle, tz - 4.0 * coarse
    size = anatomy.lobule_mm
    to_site, _ = cells(lattice, bx / size, by / size, bz / size)
    field = texture + _ENVELOPE * _envelope(anatomy, x, y, z, depth) + _LOBULES * min(to_site - 0.6, 0.05)
    if field >= anatomy.threshold:
        return GLANDULAR, field
    # A ligament is there where the noise is high, and thins out towards its rim.
    thickness = anatomy.ligament_mm * min(5.0 * (coarse + 0.4 * middle - 0.03), 1.0)
    if thickness > 0:
        size *= _COMPARTMENT
        # Some cells further on, for walls that have nothing to do with the lobules.
        _, to_wall = cells(lattice, bx / size + 50.0, by / size, bz / size)
        if to_wall * size < thickness / 2:
            return LIGAMENT, field
    return ADIPOSE, field


@njit(inline="always")
def _attenuation(anatomy, values, tissue, field):
    if tissue != ADIPOSE and tissue != GLANDULAR:
        return values[tissue]
    t = min(max((field - anatomy.threshold) / anatomy.softness + 0.5, 0.0), 1.0)
    return values[ADIPOSE] + t * t * (3 - 2 * t) * (values[GLANDULAR] - values[ADIPOSE])


@compiled
def fill_tissues(anatomy, lattice, ducts, points, tissues, fields, begin, end):
    """Write the tissue and the gland field at points begin to end of (n, xyz)."""
    for i in range(begin, end):
        tissue, field = _tissue(anatomy, lattice, ducts, points[i, 0], points[i, 1], points[i, 2])
        tissues[i], fields[i] = tissue, field


@compiled
def fill_values(anatomy, values, tissues, fields, out):
    """Write the attenuation of each point; values: per tissue, out: (n)."""
    for i in range(len(out)):
        out[i] = _attenuation(anatomy, values, tissues[i], fields[i])


@compiled
def fill_layer(anatomy, lattice, ducts, values, heights, low, step, oversample, layer, begin, end):
    """Write the mean attenuation over the points of each voxel of rows begin to end of one layer, (y, x).

    heights: z of the points. low, step: (y, x), of `oversample` points along each edge of a voxel.
    """
    for j in range(begin, end):
        for i in range(layer.shape[1]):
            total = 0.0
            for z in heights:
                for b in range(oversample):
                    y = low[0] + (j + (b + 0.5) / oversample) * step[0]
                    for a in range(oversample):
                        x = low[1] + (i + (a + 0.5) / oversample) * step[1]
                        tissue, field = _tissue(anatomy, lattice, ducts, x, y, z)
                        total += _attenuation(anatomy, values, tissue, field)
            layer[j, i] = total / (len(heights) * oversample**2)
