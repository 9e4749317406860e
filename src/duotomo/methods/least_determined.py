"""How a motion may be wrong, in words: the principal ways in which points may be displaced."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

WORDS = (
    "shift along x",
    "shift along y",
    "shift along depth",
    "tilt about x",
    "tilt about y",
    "turn about z",
    "stretch along x",
    "stretch along y",
    "stretch along depth",
    "shear of x along y",
    "shear of depth along x",
    "shear of depth along y",
)


@dataclass(frozen=True, kw_only=True)
class LeastDetermined:
    """A way in which a motion may be wrong.

    Parameters
    ----------
    words : str
        Such as "shift along depth".
    deviation_mm : float
        Standard deviation of the displacement by it, an RMS over points.
    share : float
        Of the variance of all displacements.
    """

    words: str
    deviation_mm: float
    share: float


def named_components(points: torch.Tensor, fields: torch.Tensor, n: int) -> list[LeastDetermined]:
    """Return the principal components of displacements, the largest first, at most n.

    Parameters
    ----------
    points : torch.Tensor
        (point, xyz), in mm, float64.
    fields : torch.Tensor
        Displacements of them, independent of each other, (point, xyz, field), in mm.
    n : int
        How many.

    Returns
    -------
    list of LeastDetermined
        Each by the nearest of an affine motion's twelve, or as "bending".
    """
    left, sizes, _ = torch.linalg.svd(fields.flatten(0, 1), full_matrices=False)
    shares = sizes.square() / sizes.square().sum().clamp(min=1e-300)
    known = _affine_fields(points)
    return [
        LeastDetermined(
            words=_named(left[:, i], known),
            deviation_mm=float(sizes[i]) / math.sqrt(len(points)),
            share=float(shares[i]),
        )
        for i in range(min(n, len(sizes)))
    ]


def _affine_fields(points: torch.Tensor) -> torch.Tensor:
    """Return the fields of `WORDS` at points, orthonormal in their order, (point and xyz, field)."""
    x, y, z = (points - points.mean(dim=0)).T
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    rows = (
        (one, zero, zero),
        (zero, one, zero),
        (zero, zero, one),
        (zero, -z, y),
        (z, zero, -x),
        (-y, x, zero),
        (x, zero, zero),
        (zero, y, zero),
        (zero, zero, z),
        (y, x, zero),
        (z, zero, x),
        (zero, z, y),
    )
    fields = torch.stack([torch.stack(row, dim=1).flatten() for row in rows], dim=1)
    orthonormal: torch.Tensor = torch.linalg.qr(fields)[0]
    return orthonormal


def _named(field_of: torch.Tensor, fields: torch.Tensor) -> str:
    shares = (fields.T @ field_of).square()
    if float(shares.sum()) < 0.5 * float(field_of.square().sum()):
        return "bending"
    return WORDS[int(shares.argmax())]
