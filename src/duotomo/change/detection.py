"""What changed between two visits: the joint result says what they share, and what is left is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import torch

from duotomo.change.change import Change, Silent, stated_litres
from duotomo.change.difference import Difference
from duotomo.change.draws import displaced_volumes, drawn_factors
from duotomo.change.false_findings import expected_above, false_findings, threshold_for
from duotomo.change.finding import Finding, Xyz
from duotomo.change.peaks import Index, peaks
from duotomo.change.place import place_words
from duotomo.change.refit import Refit, refit
from duotomo.change.score import Draws, Score, best, score
from duotomo.change.silent import depth_mm, silent_voxels
from duotomo.change.templates import TEMPLATES, too_coarse
from duotomo.change.undiluted import undiluted
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods import MotionUncertainty, Result, Settings, Study
from duotomo.methods.comparison import REFERENCE, visit_alone
from duotomo.methods.level import FINEST, Level
from duotomo.methods.problem import Problem
from duotomo.methods.scales import level_of, scales_of
from duotomo.methods.schedule import models_of, stages_of
from duotomo.solvers import Status
from duotomo.transforms import BSpline
from duotomo.transforms.inversion import invert_points

N_DRAWS, AT_ONCE = 8, 4
"""Draws of each kind for variances, and how many of them are solved for in one batch."""

CONTROL_MM = 33.0
"""Distance of control points, for tissue to be followed, and no mass of 12 mm to vanish."""

EXPECTED = 0.1
"""False findings per breast that the threshold allows, unless told otherwise."""

MOST_FINDINGS = 12

OnPart = Callable[[int, int], None]
"""Called with how many solves are done, and of how many."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreMap:
    """Scores of all templates where statements are made.

    Parameters
    ----------
    difference : Difference
        Of the visits.
    slope : torch.Tensor
        Along a change of each voxel, (z, y, x).
    scores : tuple of Score
        Of each template.
    z : torch.Tensor
        (z, y, x), that of the template that fits best; NaN where nothing is said.
    silent : torch.Tensor
        (z, y, x), uint8, a `Silent`.
    depth_mm : torch.Tensor
        (z, y, x), distance to what is not breast.
    """

    difference: Difference
    slope: torch.Tensor = field(repr=False)
    scores: tuple[Score, ...] = field(repr=False)
    z: torch.Tensor = field(repr=False)
    silent: torch.Tensor = field(repr=False)
    depth_mm: torch.Tensor = field(repr=False)

    @property
    def grid(self) -> VolumeGrid:
        """Of the maps."""
        return self.difference.grid

    @property
    def litres(self) -> float:
        """Volume that statements are made about."""
        return stated_litres(self.silent, self.grid)


def refusal(study: Study, result: Result, uncertainty: MotionUncertainty | None = None) -> str:
    """Return why two visits cannot be compared; empty if they can.

    Parameters
    ----------
    study : Study
        The visits.
    result : Result
        Of a joint method.
    uncertainty : MotionUncertainty, optional
        Of its motion.
    """
    if len(study.visits) != 2:
        return f"A change is one between two visits; there are {len(study.visits)}."
    if coarse := too_coarse(study.grid):
        return coarse
    if result.status is not Status.CONVERGED or result.grid != study.grid:
        return f"The joint run did not converge, so what is left is no change. {result.reason}"
    if uncertainty is not None and not uncertainty.is_known:
        return f"It is not known how sure the motion is. {uncertainty.reason}"
    return ""


def for_change(settings: Settings, study: Study) -> Settings:
    """Return the settings of a run whose changes are looked for: control points, not too near.

    `Settings.automatic` chooses a stiff model where that explains the rays as well; but what a stiff motion
    leaves of compressed tissue, some millimetres, looks like a change, or hides one. Control points 22 mm
    apart can shrink a mass of 12 mm to a point, and so explain that it was not there.

    Parameters
    ----------
    settings : Settings
        Of any run.
    study : Study
        The visits.

    Returns
    -------
    Settings
        With control points 33 mm apart where the model was left to the data; else the same.
    """
    if not settings.stiffer:
        return settings
    through, n_steps = models_of(settings.stiffer), settings.stages[-1].n_steps
    stages = stages_of(study.grid, BSpline.spaced(CONTROL_MM), through=through, n_steps=n_steps)
    return replace(settings, stages=stages, stiffer=())


@torch.no_grad()
def score_map(
    study: Study,
    settings: Settings,
    result: Result,
    *,
    uncertainty: MotionUncertainty | None = None,
    n_draws: int = N_DRAWS,
    on_part: OnPart | None = None,
) -> ScoreMap:
    """Return the scores of a change at every voxel, with the volume profiled out.

    Parameters
    ----------
    study : Study
        The current visit, the reference, and the prior one.
    settings : Settings
        Of the joint run.
    result : Result
        Its volume and motion.
    uncertainty : MotionUncertainty, optional
        Of the motion: where it is not sure enough, nothing is said.
    n_draws : int
        Of each kind, for the variances.
    on_part : callable, optional
        Hears of every batch of solves.

    Returns
    -------
    ScoreMap
        Of all templates; without scores where no part of the breast is seen well by both visits.

    Raises
    ------
    DuotomoError
        If voxels are larger than what is looked for.
    """
    if coarse := too_coarse(study.grid):
        raise DuotomoError(f"score_map: {coarse} Choose a finer grid.")
    motion = result.motions[0]
    scales = scales_of(study, settings.priors)
    level = level_of(study, FINEST, basis=settings.basis, priors=settings.priors, scales=scales)
    problem = Problem(level, [motion.transform], settings.priors, scales)
    difference = Difference(problem, result.volume, [motion.params])
    rays, n_solves = _drawn_rays(difference, level, n_draws), 1 + 2 * n_draws
    slope = result.volume.new_empty(study.grid.shape)
    drawn = slope.new_empty(2 * n_draws, *slope.shape)
    for start in range(0, n_solves, AT_ONCE):
        current, prior = map(torch.stack, zip(*islice(rays, AT_ONCE), strict=True))
        for number, found in enumerate(difference.slopes(current, prior), start):
            (drawn[number - 1] if number else slope).copy_(found)
        if on_part is not None:
            on_part(min(start + AT_ONCE, n_solves), n_solves)
    deep_mm = depth_mm(result.volume, study.grid)
    silent = silent_voxels(study, deep_mm, motion, uncertainty)
    stated = (silent == int(Silent.STATED)).to(slope.device)
    if not bool(stated.any()):
        scores: tuple[Score, ...] = ()
        z_map = torch.full(study.grid.shape, torch.nan)
    else:
        draws = Draws(rays=drawn[:n_draws], motion=drawn[n_draws:])
        scores = tuple(score(one, slope, draws, stated, study.grid) for one in TEMPLATES)
        z_map = torch.where(stated, best(scores)[0], torch.nan).float().cpu()
    return ScoreMap(
        difference=difference,
        slope=slope,
        scores=scores,
        z=z_map,
        silent=silent,
        depth_mm=deep_mm,
    )


def _drawn_rays(difference: Difference, level: Level, n: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Give whitened rays of both visits: the residuals, then n drawn anew, then n of displaced tissue.

    One after the other: all of them together would take much memory.
    """
    generator = torch.Generator().manual_seed(0)
    current, prior = difference.residuals
    factors = [
        drawn_factors(own, visit.acquisition, n, generator)
        for own, visit in zip(difference.residuals, level.visits, strict=True)
    ]
    yield current, prior
    for one, two in zip(*factors, strict=True):
        yield one * current, two * prior
    still = torch.zeros_like(current)
    moved = displaced_volumes(difference.prior_volume, level.grids[1], n, generator)
    for displaced in difference.prior.misfit.columns(torch.stack(list(moved))):
        yield still, displaced


@torch.no_grad()
def change_of(
    study: Study,
    settings: Settings,
    result: Result,
    *,
    uncertainty: MotionUncertainty | None = None,
    expected: float = EXPECTED,
    on_part: OnPart | None = None,
) -> Change:
    """Find what changed between the prior visit and the current one.

    Parameters
    ----------
    study, settings, result
        As for `score_map`.
    uncertainty : MotionUncertainty, optional
        Of the motion; that of the result unless given.
    expected : float
        False findings per breast that the threshold allows.
    on_part
        As for `score_map`.

    Returns
    -------
    Change
        With findings, the surest first; or with a reason why there are none.
    """
    if uncertainty is None and result.uncertainties:
        uncertainty = result.uncertainties[0]
    reason = refusal(study, result, uncertainty)
    if reason:
        return Change.none(result.grid, result.volume, reason)
    maps = score_map(study, settings, result, uncertainty=uncertainty, on_part=on_part)
    if not maps.scores:
        return Change.none(result.grid, result.volume, "No part of the breast is seen well by both visits.")
    threshold = threshold_for(expected, maps.litres)
    places = peaks(maps.z, maps.grid, threshold, MOST_FINDINGS)
    refits = [refit(maps.difference, maps.slope, maps.scores, place) for place in places]
    volume = result.volume
    if refits:
        alone = result.others.get(REFERENCE)
        volume = undiluted(
            volume, visit_alone(study, settings, 0) if alone is None else alone, refits, maps.grid
        )
    return Change(
        grid=study.grid,
        z_map=maps.z,
        silent=maps.silent,
        volume=volume,
        findings=_findings(maps, places, refits, result),
        threshold=threshold,
        false_findings=false_findings(maps.litres),
    )


def _findings(
    maps: ScoreMap, places: Sequence[Index], refits: Sequence[Refit], result: Result
) -> tuple[Finding, ...]:
    found = []
    n_places = max(1.0, 1000 * maps.litres)
    scores = [float(maps.z[place]) for place in places]
    above = [expected_above(abs(z), maps.litres) for z in scores]
    rates = [false / number for number, false in enumerate(above, start=1)]
    for number, (z, false, one) in enumerate(zip(scores, above, refits, strict=True), start=1):
        before = invert_points(result.motions[0], torch.tensor([one.place_mm], dtype=torch.float64)).xyz_mm[0]
        found.append(
            Finding(
                number=number,
                kind="new" if z > 0 else "gone",
                template=maps.scores[one.template].template.name,
                place_mm=one.place_mm,
                place_deviation_mm=one.place_deviation_mm,
                prior_place_mm=_xyz(before),
                size_mm=one.size_mm,
                size_interval_mm=one.size_interval_mm,
                contrast_per_mm=one.contrast_per_mm,
                contrast_interval_per_mm=one.contrast_interval_per_mm,
                z=z,
                p_value=min(1.0, false / n_places),
                false_findings=false,
                # A rate never falls when less sure findings are let in.
                false_discovery_rate=min(1.0, *rates[number - 1 :]),
                smear_mm=one.smear_mm,
                slice_index=one.slice_index,
                words=place_words(one.place_mm, maps.depth_mm, maps.grid),
            )
        )
    return tuple(found)


def _xyz(point: torch.Tensor) -> Xyz:
    x, y, z = point.tolist()
    return x, y, z
