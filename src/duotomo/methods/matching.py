"""Which finding of one view may be which of the other: those that lie in each other's ellipsoids."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from duotomo.methods.correspondence import LEVEL, in_moving
from duotomo.methods.motion_uncertainty import MotionUncertainty


@dataclass(frozen=True, kw_only=True)
class Match:
    """A finding of the reference that may be one of the moving view.

    Parameters
    ----------
    reference, moving : int
        Their numbers in the lists, from 0.
    level : float
        Probability with which the true place lies nearer, in units of the ellipsoid: the smaller, the better
        the match.
    """

    reference: int
    moving: int
    level: float


def matches(
    uncertainty: MotionUncertainty,
    reference_mm: torch.Tensor,
    moving_mm: torch.Tensor,
    *,
    level: float = LEVEL,
) -> tuple[Match, ...]:
    """Return which findings of two views may be the same tissue.

    A pair is one if the finding of the moving view lies in the ellipsoid of a level about the place that the
    motion predicts for that of the reference. One finding may have several partners, or none; nothing is
    matched where it is not known how sure the motion is.

    Parameters
    ----------
    uncertainty : MotionUncertainty
        Of the motion between the views.
    reference_mm, moving_mm : torch.Tensor
        Places of the findings, (finding, xyz), in mm, each in the frame of its view.
    level : float
        Of the ellipsoids.

    Returns
    -------
    tuple of Match
        The best one first.
    """
    found = in_moving(uncertainty, reference_mm, level=level)
    levels = found.levels(moving_mm)
    pairs = (levels <= level).nonzero().tolist()
    rows = [Match(reference=i, moving=j, level=float(levels[i, j])) for i, j in pairs]
    return tuple(sorted(rows, key=lambda one: one.level))
