"""A pair of volumes whose motion is known, by which the direction of every program's transforms is checked.

The reference is a smooth ellipsoid f with blobs in it; the moving volume is f(T(x)). T is not given to the
program by its start, turns, stretches and shears, and with `deformable` also bends: a transform taken in the
wrong direction, in the wrong order or with wrong signs of its axes ends millimetres off.
"""

from __future__ import annotations

import numpy as np

from benchmarks.peers.exchange import Array

SHAPE, SPACING_MM, ORIGIN_MM = (27, 35, 32), 3.0, np.array([-47.0, -20.0, 3.0])
CENTER_MM = ORIGIN_MM + SPACING_MM * (np.array(SHAPE[::-1]) - 1) / 2
START_MM = np.array([3.0, -1.0, 2.0])
"""The start handed to the programs: a part of the shift only, so that both shares are needed."""
_LINEAR = np.array([[1.03, -0.12, 0.03], [0.11, 0.97, 0.06], [-0.04, -0.05, 1.02]])
_SHIFT_MM = np.array([7.0, -5.0, 4.0])


def motion(points_mm: Array, *, deformable: bool) -> Array:
    """Return where points of the moving frame lie in the reference frame, (n, xyz)."""
    moved = (points_mm - CENTER_MM) @ _LINEAR.T + CENTER_MM + _SHIFT_MM
    if deformable:
        x, y, z = ((points_mm - CENTER_MM) * (2 * np.pi / 90.0)).T
        moved = moved + np.stack([2.5 * np.sin(y + 0.4), 2.5 * np.sin(z + x), 2.0 * np.cos(x - y)], axis=1)
    return np.asarray(moved)


def volumes(*, deformable: bool) -> tuple[Array, Array]:
    """Return the reference and the moving volume, (z, y, x), float32, 1/mm."""
    z, y, x = np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij")
    places_mm = ORIGIN_MM + SPACING_MM * np.stack([x, y, z], axis=-1).reshape(-1, 3)
    moved_mm = motion(places_mm, deformable=deformable)
    reference, moving = (
        _body(points_mm).reshape(SHAPE).astype(np.float32) for points_mm in (places_mm, moved_mm)
    )
    return reference, moving


def points(*, deformable: bool) -> tuple[Array, Array]:
    """Return points inside the body, of the moving frame and of the reference frame, (n, xyz)."""
    rng = np.random.default_rng(5)
    places_mm = CENTER_MM - _SHIFT_MM + rng.uniform(-17, 17, (200, 3))
    return places_mm, motion(places_mm, deformable=deformable)


def _body(points_mm: Array) -> Array:
    rng = np.random.default_rng(3)
    radius = np.sqrt((((points_mm - CENTER_MM) / [36.0, 40.0, 30.0]) ** 2).sum(1))
    body = 0.0456 / (1 + np.exp((radius - 1) / 0.04))
    for _ in range(40):
        place_mm = CENTER_MM + rng.uniform(-26, 26, 3)
        width_mm = rng.uniform(3.0, 7.0)
        distance_sq = ((points_mm - place_mm) ** 2).sum(1)
        body = body + (radius < 1) * 0.03 * np.exp(-distance_sq / (2 * width_mm**2))
    return np.asarray(body)
