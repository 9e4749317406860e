"""Where a point that is marked in one visit lies in another one, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from duotomo.errors import check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.methods.error_levels import level_within, quantile
from duotomo.methods.level import coarsening
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.transforms import invert_points

FOUND_MM = 0.1
"""A point of the reference has a place in the moving visit if that comes back to it within this distance."""

LEVEL = 0.9
"""Probability of an ellipsoid, unless another one is asked for."""

FLAT_MM = 1e-6
"""Least standard deviation of a place along any axis: without one, an ellipsoid would not hold its middle."""

APART_MM = 8.0
"""Distance of the points of a map of covariances, about."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Correspondence:
    """Places of points in another visit, with ellipsoids that hold the true ones.

    All is NaN where a point has no place there, and all but the places where the data do not say how sure
    they are.

    Parameters
    ----------
    places_mm : torch.Tensor
        In the frame of the other visit, (..., xyz), in mm, float64.
    covariance_mm2 : torch.Tensor
        Of the places, (..., xyz, xyz), in mm^2.
    level : float
        Probability with which an ellipsoid holds the true place.

    Raises
    ------
    DuotomoError
        If the level does not lie between 0 and 1.
    """

    places_mm: torch.Tensor
    covariance_mm2: torch.Tensor = field(repr=False)
    level: float

    def __post_init__(self) -> None:
        quantile(self.level)  # Raises where it is no probability.

    @property
    def is_known(self) -> torch.Tensor:
        """Whether there is an ellipsoid, (...), bool."""
        return self.covariance_mm2.isfinite().all(dim=-1).all(dim=-1)

    @property
    def within_mm(self) -> torch.Tensor:
        """How far an ellipsoid reaches along x, y and z, up and down, (..., xyz), in mm."""
        within: torch.Tensor = (
            self._scale * self.covariance_mm2.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()
        )
        return within

    @property
    def volume_mm3(self) -> torch.Tensor:
        """Volume of the ellipsoids, (...), in mm^3: how much there is to search."""
        determinant = torch.linalg.det(self.covariance_mm2).clamp(min=0)
        volume: torch.Tensor = 4 / 3 * math.pi * self._scale**3 * determinant.sqrt()
        return volume

    @property
    def _scale(self) -> float:
        return math.sqrt(quantile(self.level))

    def ellipsoids_mm(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the half axes of the ellipsoids.

        Returns
        -------
        radii_mm : torch.Tensor
            Their lengths, (..., 3), the longest last, in mm.
        axes : torch.Tensor
            Their directions, (..., xyz, 3), in columns.
        """
        known = self.is_known
        values, vectors = torch.linalg.eigh(torch.where(known[..., None, None], self.covariance_mm2, 0.0))
        radii = self._scale * values.clamp(min=0).sqrt()
        return (
            torch.where(known[..., None], radii, math.nan),
            torch.where(known[..., None, None], vectors, math.nan),
        )

    def holds(self, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return whether points lie in the ellipsoids.

        Parameters
        ----------
        xyz_mm : torch.Tensor
            One for each ellipsoid, (..., xyz), in mm.

        Returns
        -------
        torch.Tensor
            (...), bool; false where no ellipsoid is known.
        """
        each = self._squared(self.places_mm, self.covariance_mm2, xyz_mm.double())
        return self.is_known & (each <= self._scale**2)

    def levels(self, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return the levels of the ellipsoids on which points lie, for each place and each point.

        Parameters
        ----------
        xyz_mm : torch.Tensor
            In the frame of the other visit, (point, xyz), in mm.

        Returns
        -------
        torch.Tensor
            (place, point), float64: 0 at the place itself, up to 1 far away; NaN where no ellipsoid is known.
        """
        places, covariance = self.places_mm.reshape(-1, 1, 3), self.covariance_mm2.reshape(-1, 1, 3, 3)
        squared = self._squared(places, covariance, xyz_mm.double()[None])
        known = self.is_known.reshape(-1, 1)
        return torch.where(known, level_within(squared), math.nan)

    @staticmethod
    def _squared(places: torch.Tensor, covariance: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        """Return squared distances in units of the covariance."""
        known = covariance.isfinite().all(dim=-1).all(dim=-1)[..., None, None]
        values, vectors = torch.linalg.eigh(torch.where(known, covariance, 0.0))
        along = ((points - places)[..., None, :] @ vectors)[..., 0, :]
        # A flat ellipsoid holds nothing beside its plane.
        squared: torch.Tensor = (along.square() / values.clamp(min=FLAT_MM**2)).sum(dim=-1)
        return squared

    def words(self) -> list[str]:
        """Return the places in words.

        Returns
        -------
        list of str
            A line for each point.

        Examples
        --------
        >>> place, none = torch.tensor([[1.0, 20.0, 30.5]]), torch.full((1, 3, 3), math.nan)
        >>> Correspondence(places_mm=place, covariance_mm2=none, level=0.9).words()
        ['x 1.0, y 20.0, z 30.5 mm, how surely is not known']
        >>> Correspondence(places_mm=place, covariance_mm2=torch.eye(3)[None], level=0.9).words()
        ['x 1.0, y 20.0, z 30.5 mm, within 2.6 x 2.6 x 2.6 mm at 90 %']
        """
        rows = zip(
            self.places_mm.reshape(-1, 3).tolist(),
            self.within_mm.reshape(-1, 3).tolist(),
            self.is_known.reshape(-1).tolist(),
            strict=True,
        )
        return [self._words(*row) for row in rows]

    def _words(self, place: list[float], within: list[float], known: bool) -> str:
        if any(map(math.isnan, place)):
            return "not known: the motion leads nowhere from there"
        at = ", ".join(f"{name} {mm:.1f}" for name, mm in zip("xyz", place, strict=True))
        if not known:
            return f"{at} mm, how surely is not known"
        reach = " x ".join(f"{mm:.1f}" for mm in within)
        return f"{at} mm, within {reach} mm at {100 * self.level:.0f} %"


@torch.no_grad()
def in_reference(
    uncertainty: MotionUncertainty, xyz_mm: torch.Tensor, *, level: float = LEVEL
) -> Correspondence:
    """Return where points of the moving visit lie in the reference: `T(x)`, with its covariance.

    Parameters
    ----------
    uncertainty : MotionUncertainty
        With the motion T.
    xyz_mm : torch.Tensor
        Points of the moving frame, (..., xyz), in mm.
    level : float
        Of the ellipsoids.

    Returns
    -------
    Correspondence
        In the reference frame.
    """
    check_tensor("in_reference", "xyz_mm", xyz_mm, shape=(3,), axes=("xyz",))
    points = xyz_mm.detach().cpu().double()
    return Correspondence(
        places_mm=uncertainty.motion.points(points).detach(),
        covariance_mm2=known_covariance_mm2(uncertainty, points),
        level=level,
    )


@torch.no_grad()
def in_moving(
    uncertainty: MotionUncertainty, xyz_mm: torch.Tensor, *, level: float = LEVEL
) -> Correspondence:
    """Return where points of the reference lie in the moving visit: `x = T^-1(y)`, with its covariance.

    What is wrong with T at x moves x by as much, back through the motion: the covariance is
    `J^-1 C(x) J^-T`, with the Jacobian J of T at x.

    Parameters
    ----------
    uncertainty : MotionUncertainty
        With the motion T.
    xyz_mm : torch.Tensor
        Points of the reference frame, (..., xyz), in mm.
    level : float
        Of the ellipsoids.

    Returns
    -------
    Correspondence
        In the moving frame.
    """
    check_tensor("in_moving", "xyz_mm", xyz_mm, shape=(3,), axes=("xyz",))
    motion = uncertainty.motion
    back = invert_points(motion, xyz_mm.detach().cpu().double(), tolerance_mm=FOUND_MM / 100)
    found = back.residual_mm <= FOUND_MM
    at = torch.where(found[..., None], back.xyz_mm, 0.0).detach()
    covariance = through(known_covariance_mm2(uncertainty, at), motion.jacobian(at).detach())
    return Correspondence(
        places_mm=torch.where(found[..., None], back.xyz_mm.detach(), math.nan),
        covariance_mm2=torch.where(found[..., None, None], covariance, math.nan),
        level=level,
    )


def through(covariance_mm2: torch.Tensor, jacobian: torch.Tensor) -> torch.Tensor:
    """Return `J^-1 C J^-T`, (..., xyz, xyz); NaN where J is singular."""
    inverse, info = torch.linalg.inv_ex(jacobian)
    result = inverse @ covariance_mm2 @ inverse.transpose(-1, -2)
    return torch.where((info == 0)[..., None, None], result, math.nan)


@torch.no_grad()
def covariance_map_mm2(uncertainty: MotionUncertainty, grid: VolumeGrid) -> tuple[torch.Tensor, VolumeGrid]:
    """Return the covariance of where points go, over a moving visit.

    Parameters
    ----------
    uncertainty : MotionUncertainty
        With the motion.
    grid : VolumeGrid
        Of the moving visit.

    Returns
    -------
    covariance_mm2 : torch.Tensor
        (z, y, x, xyz, xyz), in mm^2, float64; NaN where the data do not determine the motion.
    coarse : VolumeGrid
        Its grid, whose voxels are about 8 mm wide: covariances vary slowly.
    """
    coarse = grid.coarsen(coarsening(grid, APART_MM))
    points = torch.from_numpy(voxel_centers_mm(coarse)).double()
    return known_covariance_mm2(uncertainty, points), coarse


def known_covariance_mm2(uncertainty: MotionUncertainty, points: torch.Tensor) -> torch.Tensor:
    """Return the covariance of where points go, (..., xyz, xyz); NaN where the data do not determine it."""
    along = uncertainty.along(points)
    covariance = uncertainty.covariance_mm2(points, along=along)
    known = uncertainty.is_determined(points, along=along)
    return torch.where(known[..., None, None], covariance, math.nan)
