"""What a pair of acquisitions can determine of the motion between two visits, before any scan is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition
from duotomo.geometry.sweep import resweep
from duotomo.methods.motion_precision import VOXEL_MM, Body, MotionPrecision, motion_precision

PHOTONS_PER_MM2 = 2e6
"""Of a scan, on the detector, without a breast."""

RANGE_FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
N_VIEWS = (5, 9, 15, 25)

WIDEST_RAD = math.radians(60)
"""Angle of the tube beyond which no range is tried."""

LIMITS = (
    "Noise alone, on one textured body, for an affine motion near the identity. No blur, scatter, movement "
    "during a scan or tissue that changes, and nothing that voxels cannot explain: real errors are larger. "
    "Detail below the voxel is not used."
)
"""What is left out, for people."""

OnPrecision = Callable[[MotionPrecision, int, int], None]
"""Called with what was found, how many are found, and of how many."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Observability:
    """How precisely a protocol determines a motion, and how others with the same photons would.

    Parameters
    ----------
    given : MotionPrecision
        Of the acquisitions as they are.
    by_range : tuple of MotionPrecision
        The same numbers of views over other ranges of angles, the narrowest first, `given` among them.
    by_views : tuple of MotionPrecision
        Other numbers of views over the same ranges, the fewest first, `given` among them.
    photons_per_mm2 : float
        That each visit spends, over all of its views.
    body : Body
        Whose motion is determined.
    """

    given: MotionPrecision
    by_range: tuple[MotionPrecision, ...]
    by_views: tuple[MotionPrecision, ...]
    photons_per_mm2: float
    body: Body = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values.

        Returns
        -------
        dict
            Units in the names. `status` and `reason` are those of the given protocol.
        """
        z, y, x = (n * VOXEL_MM for n in self.body.grid.shape)
        return {
            "status": "determined" if self.given.is_determined else "not determined",
            "reason": self.given.reason,
            "photons_per_mm2": self.photons_per_mm2,
            "model": "affine",
            "limits": LIMITS,
            "grid": {"shape": list(self.body.grid.shape), "voxel_mm": VOXEL_MM, "size_mm": [z, y, x]},
            "given": self.given.to_dict(),
            "by_range": [one.to_dict() for one in self.by_range],
            "by_views": [one.to_dict() for one in self.by_views],
        }


def observability(
    acquisitions: Sequence[Acquisition],
    *,
    photons_per_mm2: float = PHOTONS_PER_MM2,
    thickness_mm: float = 50.0,
    gap_mm: float = 0.0,
    range_factors: Sequence[float] = RANGE_FACTORS,
    n_views: Sequence[int] = N_VIEWS,
    on_precision: OnPrecision | None = None,
) -> Observability:
    """Return what acquisitions can determine of an affine motion, if noise is all there is.

    A textured ellipsoid of fat and gland over the detector is seen at both visits, unmoved. The covariance
    of a motion's 12 parameters is the inverse of the joint misfit's curvature, with the volume profiled out.
    Then the angles of the tube are scaled about the middle of the sweep, and the number of views is changed,
    the photons of a scan staying the same.

    Parameters
    ----------
    acquisitions : sequence of Acquisition
        One, of both visits; or that of the reference, and that of the moving visit.
    photons_per_mm2 : float
        That each visit spends on a mm^2 of the detector, over all of its views, without a breast.
    thickness_mm : float
        Of the body.
    gap_mm : float
        From the detector to the body.
    range_factors : sequence of float
        By which ranges are multiplied; those that would lead the tube beyond 60 degrees are left out.
    n_views : sequence of int
        Numbers of views, 2 or more, for both visits.
    on_precision : callable, optional
        Hears of each protocol.

    Returns
    -------
    Observability
        Of the given protocol and the others; without numbers, but with reasons, where depth is not
        determined.

    Raises
    ------
    DuotomoError
        If there are no acquisitions or more than two, or the photons or numbers of views cannot be.
    GeometryError
        If the body does not fit.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> found = observability([paper()[5]])
    >>> found.given.is_determined, found.given.reason[:27]
    (False, 'Depth is not determined: vi')
    """
    where = "observability"
    if len(acquisitions) not in (1, 2):
        raise DuotomoError(
            f"{where}: expected one acquisition, or two; got {len(acquisitions)}. Pass that of both visits, "
            f"or the reference's and the other's."
        )
    if min(n_views, default=2) < 2:
        raise DuotomoError(f"{where}: expected `n_views` of 2 or more; got {min(n_views)}. Leave it out.")
    pair = (acquisitions[0], acquisitions[-1])
    body = Body.over(pair, thickness_mm=thickness_mm, gap_mm=gap_mm)
    given = motion_precision(pair, body, photons_per_mm2=photons_per_mm2)
    factors = sorted({1.0, *(f for f in range_factors if max(_widest(one, f) for one in pair) <= WIDEST_RAD)})
    own = pair[0].n_views if pair[0].n_views == pair[1].n_views else None
    counts = sorted({*n_views, *(() if own is None else (own,))})
    if not given.is_determined:
        factors, counts = [1.0], []
    n = len(factors) + sum(count != own for count in counts)
    done = 0

    def heard(found: MotionPrecision) -> MotionPrecision:
        nonlocal done
        done += 1
        if on_precision is not None:
            on_precision(found, done, n)
        return found

    def of(factor: float, count: int | None) -> MotionPrecision:
        one, other = (resweep(each, factor=factor, n_views=count) for each in pair)
        return heard(motion_precision((one, other), body, photons_per_mm2=photons_per_mm2))

    heard(given)
    return Observability(
        given=given,
        by_range=tuple(given if factor == 1 else of(factor, None) for factor in factors),
        by_views=tuple(given if count == own else of(1.0, count) for count in counts),
        photons_per_mm2=photons_per_mm2,
        body=body,
    )


def _widest(acquisition: Acquisition, factor: float) -> float:
    """Return the largest angle of the tube once its range is multiplied, in radians."""
    angles = acquisition.angles_rad
    middle = (angles.min() + angles.max()) / 2
    return float(np.abs(middle + factor * (angles - middle)).max())
