"""Seeded motions of bodies."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.transforms import Affine, BSpline, Motion

Matrix = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """How far random affine motions go: numbers are drawn evenly from minus to plus this, scales about 1."""

    rotation_deg: float
    scale: float
    shear: float
    translation_mm: float


LARGE = Ranges(rotation_deg=15.0, scale=0.1, shear=0.1, translation_mm=8.0)
MODERATE = Ranges(rotation_deg=10.0, scale=0.05, shear=0.05, translation_mm=5.0)


def random_affine(transform: Affine, seed: int, ranges: Ranges) -> Motion:
    """Return a random rotation, shear, scaling and translation.

    >>> from duotomo.geometry import VolumeGrid
    >>> transform = Affine(VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0)))
    >>> torch.equal(random_affine(transform, 3, LARGE).params, random_affine(transform, 3, LARGE).params)
    True
    """
    generator = np.random.default_rng(seed)
    turn = rotation(*np.radians(generator.uniform(-ranges.rotation_deg, ranges.rotation_deg, 3)))
    scale = np.diag(generator.uniform(1 - ranges.scale, 1 + ranges.scale, 3))
    shear = np.eye(3)
    shear[0, 1], shear[0, 2], shear[1, 2] = generator.uniform(-ranges.shear, ranges.shear, 3)
    shift = generator.uniform(-ranges.translation_mm, ranges.translation_mm, 3)
    params = transform.params(matrix=(turn @ shear @ scale).tolist(), translation_mm=shift.tolist())
    return Motion(transform, params)


def published_motion(transform: Affine) -> Motion:
    """Return the paper's large motion: the body moves by (10, 0, -20) mm and turns by -30 degrees about y."""
    turn = rotation(0.0, math.radians(-30.0), 0.0)
    body = transform.params(matrix=turn.tolist(), translation_mm=(10.0, 0.0, -20.0))
    # Where the body goes is the inverse of where a moved point came from.
    return Motion(transform, body).inverse()


def random_offsets(spline: BSpline, seed: int, most_mm: tuple[float, float, float]) -> Motion:
    """Return a motion by even random offsets of all control points; most_mm along (x, y, z)."""
    offsets = np.random.default_rng(seed).uniform(-1, 1, (3, *spline.lattice.shape))
    coefficients_mm = torch.from_numpy(offsets * np.reshape(most_mm, (3, 1, 1, 1)))
    return Motion(spline, spline.params(coefficients_mm=coefficients_mm))


def rotation(about_x: float, about_y: float, about_z: float) -> Matrix:
    """Return the rotation about x, then y, then z, by angles in radians."""
    (cx, cy, cz), (sx, sy, sz) = np.cos([about_x, about_y, about_z]), np.sin([about_x, about_y, about_z])
    turn_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    turn_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    turn_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    product: Matrix = turn_z @ turn_y @ turn_x
    return product
