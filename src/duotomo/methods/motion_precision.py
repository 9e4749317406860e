"""What the noise of two acquisitions leaves open of the motion between them, on a body that is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.geometry.field_of_view import seen_box_mm
from duotomo.geometry.frame import voxel_to_world
from duotomo.geometry.sweep import range_rad
from duotomo.methods.least_determined import LeastDetermined
from duotomo.methods.level import FINEST, Level
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.methods.priors import NO_PRIORS
from duotomo.methods.problem import Problem
from duotomo.methods.profiled_curvature import ProfiledCurvature
from duotomo.methods.scales import Scales
from duotomo.methods.study import Study, Visit
from duotomo.methods.uncertainty import covariance_of_few
from duotomo.objectives import Tikhonov
from duotomo.objectives.projection_misfit import photon_weights
from duotomo.operators import Projector, SplineBasis
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.textured_ellipsoid import ENERGY_KEV, textured_ellipsoid
from duotomo.transforms import Affine, Motion

VOXEL_MM = 4.0
"""Edge of a voxel of the body, and about that of a pixel."""

WIDEST_MM, LONGEST_MM = 120.0, 90.0
"""Of the body, along x and y, where the detector has room for it."""

FILLED = 0.9
"""Of what is seen, by the body, where the detector has less room."""

LEAST_RANGE_RAD = math.radians(0.1)
"""Below, the views of a scan are taken from one place."""

TOLERANCE, N_STEPS = 0.02, 60
"""Of the solves for the volume."""

ONE_PLACE = (
    "Depth is not determined: visit {number} {what}. Views from one place show no parallax; take two or more "
    "over a range of angles."
)
SINGULAR = "These acquisitions do not determine all parameters of an affine motion."


@dataclass(frozen=True, kw_only=True, eq=False)
class Body:
    """A textured ellipsoid over the detector, that motions are to be determined of.

    Parameters
    ----------
    grid : VolumeGrid
        Around it.
    volume : torch.Tensor
        Its attenuation, (z, y, x) in 1/mm, float32.
    """

    grid: VolumeGrid
    volume: torch.Tensor = field(repr=False)

    @classmethod
    def over(cls, acquisitions: tuple[Acquisition, ...], *, thickness_mm: float, gap_mm: float) -> Body:
        """Return the body over what half of the views of all acquisitions see; it lies on the detector.

        Parameters
        ----------
        acquisitions : tuple of Acquisition
            In one frame.
        thickness_mm : float
            Of the body.
        gap_mm : float
            From the detector to the body.

        Returns
        -------
        Body
            Up to 120 mm wide (x) and 90 mm long (y).

        Raises
        ------
        GeometryError
            If the body does not fit between source and detector, or nothing is seen by all.
        """
        where = "Body.over"
        top_mm = gap_mm + thickness_mm + 2 * VOXEL_MM
        lowest_mm = min(float(one.sources_mm[:, 2].min()) for one in acquisitions)
        if not (0 < thickness_mm < math.inf and 0 <= gap_mm < math.inf and top_mm < lowest_mm):
            raise GeometryError(
                f"{where}: expected a thickness above 0 and a gap of 0 or more, in mm, below the source at "
                f"{lowest_mm:g} mm; got {thickness_mm:g} and {gap_mm:g}. Check `thickness_mm` and `gap_mm`."
            )
        boxes = np.array([seen_box_mm(one, gap_mm + thickness_mm / 2) for one in acquisitions])
        low, high = boxes[..., 0].max(axis=0), boxes[..., 1].min(axis=0)
        if (high - low).min() < 4 * VOXEL_MM:
            raise GeometryError(
                f"{where}: expected at least {4 * VOXEL_MM:g} mm along y and x that all visits see; got "
                f"{high[0] - low[0]:.4g} and {high[1] - low[1]:.4g} mm. Check the detectors, and that both "
                f"geometries are in one frame."
            )
        length_mm = min(LONGEST_MM, FILLED * float(high[0] - low[0]))
        width_mm = min(WIDEST_MM, FILLED * float(high[1] - low[1]))
        sizes = [math.ceil(size / VOXEL_MM) + 2 for size in (thickness_mm, length_mm, width_mm)]
        middle_mm = (float(low[1] + high[1]) / 2, float(low[0]) + sizes[1] * VOXEL_MM / 2)
        grid = VolumeGrid(
            shape=(sizes[0], sizes[1], sizes[2]),
            spacing_mm=(VOXEL_MM,) * 3,
            center_mm=(gap_mm + sizes[0] * VOXEL_MM / 2, middle_mm[1], middle_mm[0]),
        )
        values = textured_ellipsoid(
            grid,
            center_mm=(*middle_mm, grid.center_mm[0]),
            radii_mm=(width_mm / 2, length_mm / 2, thickness_mm / 2),
        )
        return cls(grid=grid, volume=torch.from_numpy(values).float())

    @cached_property
    def points_mm(self) -> torch.Tensor:
        """Middles of the voxels inside, (point, xyz), in mm, float64."""
        inside = (self.volume > 0.5 * _tissue(Tissue.ADIPOSE)).nonzero().numpy()
        return torch.from_numpy(voxel_to_world(self.grid, inside).copy())


@dataclass(frozen=True, kw_only=True, eq=False)
class MotionPrecision:
    """How precisely two acquisitions determine an affine motion, if noise is all there is.

    Parameters
    ----------
    ranges_deg : tuple of float
        Of the tube's angle, of each visit.
    n_views : tuple of int
        Of each visit.
    deviation_mm : tuple of float
        Standard deviation of where the body's points go, along (x, y, z): an RMS over them. NaN where they
        are not determined.
    shift_mm, tilt_deg, stretch_percent, shear_percent : mapping of str to float
        Standard deviations of the parts of the motion: of the body's middle along x, y and z (depth); of
        turns about x, y and z; of stretches along them; and of shears, "xy", "xz" and "yz".
    least_determined : tuple of LeastDetermined
        How the motion may be wrong, the likeliest first.
    reason : str
        Why there are no numbers; empty if there are.
    """

    ranges_deg: tuple[float, ...]
    n_views: tuple[int, ...]
    deviation_mm: tuple[float, float, float] = (math.nan,) * 3
    shift_mm: Mapping[str, float] = field(default_factory=dict)
    tilt_deg: Mapping[str, float] = field(default_factory=dict)
    stretch_percent: Mapping[str, float] = field(default_factory=dict)
    shear_percent: Mapping[str, float] = field(default_factory=dict)
    least_determined: tuple[LeastDetermined, ...] = ()
    reason: str = ""

    @property
    def is_determined(self) -> bool:
        """Whether there are numbers."""
        return not self.reason

    @property
    def in_plane_mm(self) -> float:
        """Standard deviation along an axis of the plane: the RMS of those along x and y."""
        return math.hypot(*self.deviation_mm[:2]) / math.sqrt(2)

    @property
    def depth_mm(self) -> float:
        """Standard deviation along z."""
        return self.deviation_mm[2]

    @property
    def ratio(self) -> float:
        """Depth over in plane, of where points go: tilts are in both."""
        return self.depth_mm / self.in_plane_mm

    @property
    def shift_in_plane_mm(self) -> float:
        """Standard deviation of a shift along an axis of the plane: the RMS of those along x and y."""
        return math.hypot(*self._shifts()[:2]) / math.sqrt(2)

    @property
    def shift_depth_mm(self) -> float:
        """Standard deviation of a shift along z."""
        return self._shifts()[2]

    @property
    def shift_ratio(self) -> float:
        """Depth over in plane, of shifts: what parallax and magnification tell of depth."""
        return self.shift_depth_mm / self.shift_in_plane_mm

    def _shifts(self) -> tuple[float, float, float]:
        x, y, z = (self.shift_mm.get(name, math.nan) for name in "xyz")
        return x, y, z

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values.

        Returns
        -------
        dict
            Units in the names; `status` is "determined" or "not determined", and then there are no numbers.
        """
        facts: dict[str, Any] = {"ranges_deg": list(self.ranges_deg), "n_views": list(self.n_views)}
        if self.reason:
            return {**facts, "status": "not determined", "reason": self.reason}
        return {
            **facts,
            "status": "determined",
            "deviation_mm": dict(zip("xyz", self.deviation_mm, strict=True)),
            "in_plane_mm": self.in_plane_mm,
            "depth_mm": self.depth_mm,
            "depth_over_in_plane": self.ratio,
            "shift_mm": dict(self.shift_mm),
            "shift_depth_over_in_plane": self.shift_ratio,
            "tilt_deg": dict(self.tilt_deg),
            "stretch_percent": dict(self.stretch_percent),
            "shear_percent": dict(self.shear_percent),
            "least_determined": [vars(one) for one in self.least_determined],
        }


@torch.no_grad()
def motion_precision(
    acquisitions: tuple[Acquisition, Acquisition], body: Body, *, photons_per_mm2: float
) -> MotionPrecision:
    """Return how precisely two acquisitions of a body that does not move determine its affine motion.

    The covariance of the 12 parameters is `S^-1`, S being the curvature of the joint misfit with the volume
    profiled out: the Cramer-Rao bound of photon noise, where the attenuation of a voxel is known beforehand
    to the difference of gland and fat only.

    Parameters
    ----------
    acquisitions : tuple of Acquisition
        Of the reference and of the moving visit.
    body : Body
        Of both.
    photons_per_mm2 : float
        That each visit spends on a mm^2 of the detector, over all of its views.

    Returns
    -------
    MotionPrecision
        With a reason and without numbers if a visit has its views from one place, or a parameter is not
        determined.

    Raises
    ------
    DuotomoError
        If the photons are not a positive number.
    """
    if not 0 < photons_per_mm2 < math.inf:
        raise DuotomoError(
            f"motion_precision: expected `photons_per_mm2` above 0; got {photons_per_mm2}. Give photons per "
            f"mm^2 of the detector, over the whole scan."
        )
    facts = MotionPrecision(
        ranges_deg=tuple(round(math.degrees(range_rad(one)), 6) for one in acquisitions),
        n_views=tuple(one.n_views for one in acquisitions),
    )
    for number, one in enumerate(acquisitions, start=1):
        if one.n_views < 2 or range_rad(one) < LEAST_RANGE_RAD:
            what = "has one view" if one.n_views < 2 else "has a range of less than 0.1 degrees"
            return replace(facts, reason=ONE_PLACE.format(number=number, what=what))
    shown = SplineBasis(body.grid)(body.volume)
    study = Study(
        grid=body.grid, visits=tuple(_visit(one, body.grid, shown, photons_per_mm2) for one in acquisitions)
    )
    level = Level(study, FINEST, basis="spline", unexplained=0.0)
    transform = Affine(body.grid)
    scales = Scales(sigmas=(1.0, 1.0), mismatches=(0.0, 0.0), attenuation=float(body.volume.max()))
    problem = Problem(level, [transform], NO_PRIORS, scales)
    spread = _tissue(Tissue.GLANDULAR) - _tissue(Tissue.ADIPOSE)
    problem.volume_priors.append(spread**-2 * Tikhonov(body.grid))
    motion = Motion(transform, transform.identity())
    profiled = ProfiledCurvature(problem, body.volume, [motion.params], tolerance=TOLERANCE, n_steps=N_STEPS)
    covariance = covariance_of_few(problem, profiled, "laplace")
    if covariance is None:
        return replace(facts, reason=SINGULAR)
    modes = torch.eye(len(covariance), dtype=torch.float64)
    return _told(facts, MotionUncertainty(motion=motion, form="laplace", modes=modes, core=covariance), body)


def _visit(acquisition: Acquisition, grid: VolumeGrid, volume: torch.Tensor, photons_per_mm2: float) -> Visit:
    """Return a visit without noise, weighted by that of its photons, its pixels combined up to a voxel."""
    f_v, f_u = (max(1, int(VOXEL_MM / edge + 1e-6)) for edge in acquisition.pixel_spacing_mm)
    coarse = acquisition.bin((f_v, f_u))
    projections = Projector(grid=grid, acquisition=coarse)(volume)
    photons = photons_per_mm2 * math.prod(coarse.pixel_spacing_mm) / coarse.n_views
    return Visit(projections=projections, acquisition=coarse, weights=photon_weights(projections, photons))


def _told(facts: MotionPrecision, known: MotionUncertainty, body: Body) -> MotionPrecision:
    points = body.points_mm
    rms = known.deviation_mm(points).square().mean(dim=0).sqrt()
    x, y, z = (float(value) for value in rms)
    # An affine motion is what it does to a point and to three steps from there: u(p) = t + M (p - c).
    middle = points.mean(dim=0)
    places = torch.cat([middle[None], middle + torch.eye(3, dtype=torch.float64)])
    transform, params = known.motion.transform, known.motion.params
    along: torch.Tensor = torch.func.jacrev(lambda p: transform.points(p, places))(params)
    shift, matrix = along[0], (along[1:] - along[0]).transpose(0, 1)
    core = known.covariance()

    def deviation(row: torch.Tensor) -> float:
        return math.sqrt(max(0.0, float(row @ core @ row)))

    pairs = {"x": (1, 2), "y": (0, 2), "z": (0, 1)}
    shears = {"xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}
    return replace(
        facts,
        deviation_mm=(x, y, z),
        shift_mm={name: deviation(shift[i]) for i, name in enumerate("xyz")},
        tilt_deg={
            name: math.degrees(deviation((matrix[i, j] - matrix[j, i]) / 2)) for name, (i, j) in pairs.items()
        },
        stretch_percent={name: 100 * deviation(matrix[i, i]) for i, name in enumerate("xyz")},
        shear_percent={
            name: 100 * deviation((matrix[i, j] + matrix[j, i]) / 2) for name, (i, j) in shears.items()
        },
        least_determined=tuple(known.least_determined(points)),
    )


def _tissue(tissue: Tissue) -> float:
    return attenuation_per_mm(tissue, energy_kev=ENERGY_KEV)
