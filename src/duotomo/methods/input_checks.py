"""Checks of the visits that need no volume: views that miss, saturate, or do not fit together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods.correlation import correlation
from duotomo.methods.initial_guess import centroid_mm, view_centers_mm, view_vectors
from duotomo.methods.remedies import remedy_of
from duotomo.methods.study import Study, Visit

EMPTY = 0.5
"""A view misses if it shows less than this share of the attenuation that the visit's other views show."""

CLIPPED = 0.02
"""Share of the rays through the object, at most, whose line integral is that of the largest of its view."""

APART_MM = 0.7
"""How far a view's centre of attenuation may lie from where the other views place it, on the detector."""

STEP_MM = 0.1
"""From which distance on, on the detector, the centres of attenuation of successive views have an order."""

OUTSIDE = 0.1
"""How far outside its grid a visit's centre of attenuation may lie, relative to the size of the grid."""

SHIFTED_MM, TURNED_DEG = 2.0, 1.0
"""How far the geometries of two visits to one machine may differ, in the mean over the views; for the angle
of the tube, in the median."""

SAME_MM = 15.0
"""Sources that are nearer than this belong to the same view of one machine."""

LATERAL_MM, DEPTH_MM = 0.1, 1.0
"""How exactly a view shows a shift across its rays, and how exactly the depth has to follow from all."""

SMOOTH = 0.5
"""Least correlation of neighbouring pixels: that of a breast is close to 1, that of noise 0."""

OBJECT = 0.05
"""Line integrals above this share of the largest belong to the object."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check of a result or of its data.

    Parameters
    ----------
    name : str
        What was checked.
    passed : bool
        Whether nothing is wrong by this check.
    value, limit : float
        What was measured, in the unit that the text names, and how far it may go.
    text : str
        One sentence; if the check failed, with the likely cause.
    two_views : bool
        Whether what was checked is of two views of one breast, whose remedies differ.
    """

    name: str
    passed: bool
    value: float
    limit: float
    text: str
    two_views: bool = False

    @property
    def remedy(self) -> str:
        """What to do, if the check failed."""
        return "" if self.passed else remedy_of(self.name, two_views=self.two_views)


def input_checks(study: Study) -> tuple[Check, ...]:
    """Return the checks of the data and geometry of all visits, which need no volume.

    Parameters
    ----------
    study : Study
        The visits, reference first.

    Returns
    -------
    tuple of Check
        Of every visit: whether it shows anything, missing views, saturation, order of views, views that do
        not fit together, place of the breast, range of angles. Of every moving visit: number of views and
        geometry beside those of the reference.
    """
    checks = []
    for number, visit in enumerate(study.visits, start=1):
        centers = _Centers.of(visit)
        seen, expected = _places_mm(visit, centers)
        saturated = _saturated(number, visit)
        checks += [
            _shown(number, visit),
            _missing(number, centers),
            saturated,
            _order(number, centers, seen, expected),
            _together(number, seen - expected, saturated=not saturated.passed),
            _in_grid(number, centers, study.grid_of(visit)),
            _depth(number, visit, centers),
        ]
    for number, visit in enumerate(study.moving, start=2):
        checks += [_views(number, visit, study.reference), _machine(number, visit, study.reference)]
    return tuple(checks)


def _shown(number: int, visit: Visit) -> Check:
    """A breast is smooth: neighbouring pixels show nearly the same, those of noise nothing in common."""
    views, used = visit.projections.double(), _used(visit)
    near = torch.stack([views[:, :, :-1], views[:, :, 1:]])[:, used[:, :, :-1] & used[:, :, 1:]]
    value = correlation(near[0], near[1])
    passed = value >= SMOOTH
    return Check(
        name="breast in the views",
        passed=passed,
        value=value,
        limit=SMOOTH,
        text=f"Visit {number}: neighbouring pixels correlate by {value:.2f}"
        + (
            "."
            if passed
            else ": its views show no breast. Was nothing exposed, or are these not projections?"
        ),
    )


def _missing(number: int, centers: _Centers) -> Check:
    mass, alive = centers.mass, centers.alive
    n_missing = int((~alive).sum())
    lost = ", ".join(str(i + 1) for i in (~alive).nonzero()[:, 0].tolist())
    return Check(
        name="missing views",
        passed=n_missing == 0,
        value=float(n_missing),
        limit=0.0,
        text=f"Visit {number}: every one of its {len(mass)} views shows the breast."
        if n_missing == 0
        else f"Visit {number}: {n_missing} of {len(mass)} views ({lost}) show no breast or have no weight. "
        f"Were views lost, or not exposed?",
    )


def _saturated(number: int, visit: Visit) -> Check:
    """Line integrals that are clipped pile up at one value, at the top or, above air, at the bottom."""
    worst = 0.0
    for view, used in zip(visit.projections, _used(visit), strict=True):
        values = view[used]
        if len(values) == 0 or float(values.max()) <= 0:
            continue
        largest, least = float(values.max()), float(values.min())
        near = 1e-4 * largest
        inside = values[values > OBJECT * largest]
        worst = max(worst, float((inside > largest - near).double().mean()))
        if least > OBJECT * largest:
            worst = max(worst, float((inside < least + near).double().mean()))
    passed = worst <= CLIPPED
    return Check(
        name="saturation",
        passed=passed,
        value=worst,
        limit=CLIPPED,
        text=f"Visit {number}: "
        + (
            "no view is saturated."
            if passed
            else f"in a view, {worst:.0%} of the rays through the breast have the same line integral. "
            f"Was the detector saturated, or were values clipped?"
        ),
    )


def _order(number: int, centers: _Centers, seen: torch.Tensor, expected: torch.Tensor) -> Check:
    """From view to view the shadow of the breast moves as the source does; in a wrong order some go back."""
    steps = expected.diff(dim=1)
    found = seen.diff(dim=1)
    if found.shape[1]:
        # Tissue that enters at the edge of the detector adds to all steps alike.
        found = found - (found - steps).median(dim=1, keepdim=True).values
    back = ((found * steps).sum(dim=0) < 0) & (steps.norm(dim=0) > STEP_MM)
    views = centers.alive.nonzero()[:, 0] + 1
    pairs = [f"{int(views[i])} to {int(views[i + 1])}" for i in back.nonzero()[:, 0].tolist()]
    return Check(
        name="order of views",
        passed=not pairs,
        value=float(len(pairs)),
        limit=0.0,
        text=f"Visit {number}: "
        + (
            "from view to view the breast moves as its geometry says."
            if not pairs
            else f"from view {', '.join(pairs)} the breast moves opposite to what the geometry says. "
            "Are views in the wrong order?"
        ),
    )


def _together(number: int, apart_mm: torch.Tensor, *, saturated: bool) -> Check:
    worst = float(apart_mm.norm(dim=0).max())
    passed = worst <= APART_MM
    # A detector turned in its plane moves centres across the sweep, in proportion to their place along it.
    slanted = float(apart_mm[1].abs().max()) > float(apart_mm[0].abs().max())
    cause = "Is the detector turned?" if slanted else "Is a view displaced, or the geometry of some wrong?"
    if saturated:
        cause = "Saturated views do so."
    return Check(
        name="views together",
        passed=passed,
        value=worst,
        limit=APART_MM,
        text=f"Visit {number}: "
        + (
            f"all views place the breast at one point, to {worst:.2f} mm on the detector."
            if passed
            else f"a view shows the breast {worst:.1f} mm from where the other views place it. {cause}"
        ),
    )


def _in_grid(number: int, centers: _Centers, grid: VolumeGrid) -> Check:
    x, y, z = centers.at_mm.tolist()
    outside = 0.0
    for at, low, high in zip((z, y, x), grid.low_mm, grid.high_mm, strict=True):
        outside = max(outside, (low - at) / (high - low), (at - high) / (high - low))
    passed = outside <= OUTSIDE
    return Check(
        name="place of the breast",
        passed=passed,
        value=outside,
        limit=OUTSIDE,
        text=f"Visit {number}: the centre of attenuation, (x, y, z) = ({x:.0f}, {y:.0f}, {z:.0f}) mm, lies "
        + (
            "in its grid."
            if passed
            else "outside its grid. Is the order of the views reversed, or the geometry that of another scan?"
        ),
    )


def _depth(number: int, visit: Visit, centers: _Centers) -> Check:
    """The depth of a point follows from its parallax, `dz = du / (2 tan(range / 2))`."""
    source = torch.tensor(visit.acquisition.source_mm, dtype=torch.float64)[centers.alive]
    ray = torch.nn.functional.normalize(source - centers.at_mm, dim=1)
    cosines = (ray @ ray.T).clamp(-1, 1)
    range_rad = math.acos(float(cosines.min())) if len(ray) else 0.0
    depth_mm = LATERAL_MM / (2 * math.tan(range_rad / 2)) if range_rad > 1e-6 else math.inf
    passed = depth_mm <= DEPTH_MM
    return Check(
        name="range of angles",
        passed=passed,
        value=depth_mm,
        limit=DEPTH_MM,
        text=f"Visit {number}: its views span {math.degrees(range_rad):.0f} degrees, "
        + ("enough for depth." if passed else "too few to determine motion in depth."),
    )


def _views(number: int, visit: Visit, reference: Visit) -> Check:
    """Whether one of two visits has at most 60 % of the views that the same machine took at the other."""
    fewer, more = sorted((visit.acquisition, reference.acquisition), key=lambda one: one.n_views)
    ours = torch.tensor(fewer.source_mm, dtype=torch.float64)
    theirs = torch.tensor(more.source_mm, dtype=torch.float64)
    same = bool((torch.cdist(ours, theirs).min(dim=1).values < SAME_MM).all())
    share = fewer.n_views / more.n_views if same else 1.0
    passed = share > 0.6
    return Check(
        name="number of views",
        passed=passed,
        value=share,
        limit=0.6,
        text=f"Visits 1 and {number} have {len(reference.acquisition)} and {len(visit.acquisition)} views"
        + ("." if passed else " of the same machine. Are views missing from the shorter scan?"),
    )


def _machine(number: int, visit: Visit, reference: Visit) -> Check:
    """What two visits to one machine say of its geometry; a shift of a whole scan looks like a motion."""
    shift_mm, turn_deg = _differences(visit.acquisition, reference.acquisition)
    value = max(shift_mm / SHIFTED_MM, turn_deg / TURNED_DEG)
    passed = value <= 1
    return Check(
        name="geometry of the machine",
        passed=passed,
        value=value,
        limit=1.0,
        text=f"Visits 1 and {number}: "
        + (
            "their geometries do not contradict each other."
            if passed
            else f"the same detector and views, but a geometry that differs by {shift_mm:.1f} mm and "
            f"{turn_deg:.1f} degrees. Is the geometry of one of them wrong? It would be taken for a motion."
        ),
    )


def _differences(ours: Acquisition, theirs: Acquisition) -> tuple[float, float]:
    """Return mean shift, in mm, and turn, in degrees, between two scans; zeros if of different machines."""
    like = (ours.n_views, ours.detector_shape, ours.pixel_spacing_mm)
    if like != (theirs.n_views, theirs.detector_shape, theirs.pixel_spacing_mm):
        return 0.0, 0.0
    a, b = view_vectors(ours), view_vectors(theirs)
    # From the mean over the views: a tube that stops a little early or late in one of them is no error.
    source, center = ((one - other).mean(dim=0).norm() for one, other in zip(a[:2], b[:2], strict=True))
    turns = [
        math.acos(min(1.0, float((one * other).sum(dim=1).mean())))
        for one, other in zip(a[2:], b[2:], strict=True)
    ]
    # The angle of the tube, seen from the middle of the detector; a sweep may also go the other way.
    ways = ((a[0] - other)[:, :2].norm(dim=1).median() for other in (b[0], b[0].flip(0)))
    tube = float(min(ways)) / float((a[0] - a[1]).norm(dim=1).mean())
    return max(float(source), float(center)), math.degrees(max(*turns, tube))


def _used(visit: Visit) -> torch.Tensor:
    if visit.weights is None:
        return torch.ones_like(visit.projections, dtype=torch.bool)
    return visit.weights > 0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Centers:
    """Centres of attenuation of a visit: that of the breast, (xyz,), and those seen in the views, (view,).

    Line integrals count by the cosine of their angle to the detector's normal. The shadow of a small object
    then holds the same attenuation wherever the source stands at one height: all views show the same mass,
    and a centre that moves like that of a point.
    """

    at_mm: torch.Tensor
    mass: torch.Tensor
    u_mm: torch.Tensor
    v_mm: torch.Tensor

    @classmethod
    def of(cls, visit: Visit) -> _Centers:
        upright = replace(visit, projections=visit.projections * _cosines(visit))
        mass, u_mm, v_mm = view_centers_mm(upright)
        return cls(at_mm=centroid_mm(upright), mass=mass, u_mm=u_mm, v_mm=v_mm)

    @property
    def alive(self) -> torch.Tensor:
        """Which views show the object."""
        return self.mass > EMPTY * float(self.mass.sort().values[int(0.9 * (len(self.mass) - 1))])


def _cosines(visit: Visit) -> torch.Tensor:
    """Return the cosine of each ray's angle to the normal of the detector, (view, v, u)."""
    acquisition, like = visit.acquisition, visit.projections
    source, center, u_axis, v_axis = view_vectors(acquisition)
    ray, (d_v, d_u) = center - source, acquisition.pixel_spacing_mm
    _, n_v, n_u = like.shape
    v_mm = (ray * v_axis).sum(dim=1)[:, None] + (torch.arange(n_v) - (n_v - 1) / 2) * d_v
    u_mm = (ray * u_axis).sum(dim=1)[:, None] + (torch.arange(n_u) - (n_u - 1) / 2) * d_u
    height = (ray * torch.linalg.cross(u_axis, v_axis)).sum(dim=1).abs()
    v_mm, u_mm, height = v_mm.to(like)[:, :, None], u_mm.to(like)[:, None, :], height.to(like)[:, None, None]
    cosines: torch.Tensor = height / (height.square() + v_mm.square() + u_mm.square()).sqrt()
    return cosines


def _places_mm(visit: Visit, centers: _Centers) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where each view shows the centre of attenuation, and where all views place it, (uv, view)."""
    acquisition, alive = visit.acquisition, centers.alive
    source, center, u_axis, v_axis = (rows[alive] for rows in view_vectors(acquisition))
    ray, normal = centers.at_mm - source, torch.linalg.cross(u_axis, v_axis)
    reach = ((center - source) * normal).sum(dim=1) / (ray * normal).sum(dim=1)
    shadow = source + reach[:, None] * ray - center
    expected = torch.stack([(shadow * u_axis).sum(dim=1), (shadow * v_axis).sum(dim=1)])
    return torch.stack([centers.u_mm[alive], centers.v_mm[alive]]), expected
