"""Whether a result can be trusted, judged without ground truth, and which volume to use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods.cut_off import cut_off
from duotomo.methods.held_back import HeldBack, held_back
from duotomo.methods.input_checks import Check, input_checks
from duotomo.methods.quality import Quality, moved, plain
from duotomo.methods.result import Result
from duotomo.methods.scales import scales_of
from duotomo.methods.settings import Settings
from duotomo.methods.shared_structure import SharedStructure, shared_structure
from duotomo.methods.study import Study
from duotomo.solvers import Status
from duotomo.transforms import Motion
from duotomo.transforms.recompression import Recompression

Use = Literal["both", "reference"]
"""Whose volume predicts the reference visit better: that of both visits, or that of the reference alone."""

UNEXPLAINED, WORSE = 1.33, 1.2
"""Residuals of all visits together, relative to those of one visit alone: of the rays that were fitted, above
which one volume and the motion found do not explain all visits; and of rays that were held back, above which
the visits hardly show one breast."""

ALIKE, VISIBLE = 0.8, 4.0
"""Correlation of the structure inside the breast at two visits, below which they hardly show one breast; and
the structure, in units of the noise, from which on that is judged."""

EXPLAINED, PREDICTED, REFERENCE = "explained rays", "held-back rays", "reference visit"
"""Names of the checks that compare all visits with each alone, by their rays."""

RAYS = frozenset((EXPLAINED, PREDICTED, REFERENCE))
"""All of these: a change between visits fails them too, however right the motion is."""

FAR = 3.0
"""Residuals of all visits together, relative to those of one visit alone, which no change in a breast
explains: with lesions of up to 12 mm, and without, they were 1.5 at most."""

STRETCH = 1.5
"""By how much, up or down, a compressed breast may change its local volume."""


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Whether a result can be trusted, and why.

    Parameters
    ----------
    trusted : bool
        Whether all checks passed.
    checks : tuple of Check
        All of them, also those that passed.
    reason : str
        What failed, one sentence for each check, or that nothing did.
    use : str
        "both": the joint volume predicts the reference visit at least as well as that of the reference alone.
        "reference": it does not, or the result is not trusted; use the volume of the reference visit alone.

    Examples
    --------
    >>> Trust.of_checks((Check(name="convergence", passed=True, value=0.0, limit=0.0, text="It converged."),))
    ...     # doctest: +ELLIPSIS
    Trust(trusted=True, checks=..., reason='All 1 checks passed.', use='both')
    """

    trusted: bool
    checks: tuple[Check, ...]
    reason: str
    use: Use

    @classmethod
    def of_checks(cls, checks: Sequence[Check]) -> Trust:
        """Return the verdict that follows from checks.

        Parameters
        ----------
        checks : sequence of Check
            Of the data and of the result.

        Returns
        -------
        Trust
            Trusted if all of them passed.
        """
        failed = [check.text for check in checks if not check.passed]
        reference = next((check.value for check in checks if check.name == REFERENCE), 0.0)
        return cls(
            trusted=not failed,
            checks=tuple(checks),
            reason=" ".join(failed) if failed else f"All {len(checks)} checks passed.",
            use="reference" if failed or reference > 1 else "both",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values, which JSON can hold.

        Returns
        -------
        dict
            By name; numbers that are not finite become None.
        """
        names = ("name", "passed", "value", "limit", "text", "remedy")
        rows = [{name: plain(getattr(check, name)) for name in names} for check in self.checks]
        return {"trusted": self.trusted, "reason": self.reason, "use": self.use, "checks": rows}


def may_be_a_change(name: str, value: float | None) -> bool:
    """Return whether a check that failed may have failed because the breast itself changed.

    Parameters
    ----------
    name : str
        Of the check.
    value : float or None
        What was measured; None where that is not finite.

    Examples
    --------
    >>> may_be_a_change(EXPLAINED, 1.5), may_be_a_change(EXPLAINED, 5.0), may_be_a_change("folding", 1.0)
    (True, False, False)
    """
    return name in RAYS and (name != EXPLAINED or (value is not None and value <= FAR))


@torch.no_grad()
def trust_of(study: Study, settings: Settings, result: Result, *, quality: Quality | None = None) -> Trust:
    """Judge a result of several visits by the data alone.

    The data are checked for views that miss, saturate, stand in a wrong order or do not fit together, and
    for a geometry that differs between visits to one machine, and of two views for a breast that the
    detector's edge cuts off; the motion for folding and for changes of
    volume that tissue does not make; the run for convergence. Last, all visits together are compared with
    each alone: by the rays that they explain, and by rays that were held back from both; and what each moving
    visit shows inside the breast with what the reference alone predicts of it.

    Rays are not held back where a check of the data has failed already. A shift of a whole scan, or a source
    that is off by some millimetres in all views, looks like a motion of the breast, and no volume can tell:
    it is noticed only if another visit to the same machine was described otherwise.

    Parameters
    ----------
    study : Study
        The visits, reference first.
    settings : Settings
        Of the run.
    result : Result
        Volume and motions.
    quality : Quality, optional
        Of the result, which counts the voxels that fold; they are counted unless given.

    Returns
    -------
    Trust
        For a study of one visit, of its data and convergence alone.
    """
    checks = [*input_checks(study), _converged(result)]
    two_views = any(is_of_two_views(motion) for motion in result.motions)
    if two_views:
        checks += [cut_off(number, visit) for number, visit in enumerate(study.visits, start=1)]
    for index, (visit, motion) in enumerate(zip(study.moving, result.motions, strict=True)):
        grid = study.grid_of(visit)
        known = None if quality is None else quality.folded_voxels[index]
        n_folded = moved(result.volume, result.grid, grid, motion).folded_voxels if known is None else known
        checks += _motion_checks(index + 2, motion, grid, n_folded)
    if study.moving and all(check.passed for check in checks):
        scales = scales_of(study, settings.priors)
        rows = held_back(study, settings, result.motions, scales=scales)
        predicted = _predicted(rows)
        explained = _explained(rows, predicted=predicted.passed, two_views=two_views)
        checks += [explained, predicted, _reference_predicted(rows[0])]
        shared = shared_structure(study, settings, result.motions, scales=scales)
        checks += [_alike(number, one) for number, one in enumerate(shared, start=2)]
    return Trust.of_checks(checks)


@torch.no_grad()
def trust_of_run(
    result: Result, moving_grids: Sequence[VolumeGrid] = (), folded: Sequence[int] = ()
) -> Trust:
    """Judge a result by the run and its motions alone, where there are no projections of several visits.

    Parameters
    ----------
    result : Result
        Of one visit, or of two volumes.
    moving_grids : sequence of VolumeGrid
        Of the volume that each motion moves.
    folded : sequence of int
        Voxels in which each motion folds.

    Returns
    -------
    Trust
        Of convergence, and of folding and changes of volume where there are motions.
    """
    checks = [_converged(result)]
    rows = zip(result.motions, moving_grids, folded, strict=True)
    for number, (motion, grid, n_folded) in enumerate(rows, start=2):
        checks += _motion_checks(number, motion, grid, n_folded)
    return Trust.of_checks(checks)


def _motion_checks(number: int, motion: Motion, grid: VolumeGrid, n_folded: int) -> list[Check]:
    folds = _folds(number, n_folded, two_views=is_of_two_views(motion))
    return [folds, _stretch(number, motion.determinants(grid.coarsen(_STRIDE)))]


def is_of_two_views(motion: Motion) -> bool:
    """Return whether a motion leads from one compression of a breast to another."""
    return isinstance(motion.transform, Recompression)


_STRIDE = 4
"""Voxels between the points where changes of volume are looked at."""


def _converged(result: Result) -> Check:
    passed = result.status is Status.CONVERGED
    remedy = " Allow more steps." if result.status is Status.STEP_LIMIT else ""
    text = "The run converged." if passed else f"The run did not converge: {result.reason}{remedy}"
    return Check(name="convergence", passed=passed, value=float(not passed), limit=0.0, text=text)


def _folds(number: int, n_folded: int, *, two_views: bool) -> Check:
    text = f"Visit {number}: the motion folds nowhere."
    if n_folded:
        text = (
            f"Visit {number}: the motion folds in {n_folded} voxels. Is the model too fine for the data; do "
        )
        text += "the visits show the same breast, the same side?"
    passed = n_folded == 0
    return Check(
        name="folding", passed=passed, value=float(n_folded), limit=0.0, text=text, two_views=two_views
    )


def volume_ratio(determinants: torch.Tensor) -> float:
    """Return by how much a motion with these determinants changes volumes.

    The median over the grid: at its border a B-spline is hardly determined, and shows no tissue.
    """
    return float(determinants.double().median())


def stretch_of(ratio: float) -> float:
    """Return a change of volumes up or down as a factor of 1 or more.

    >>> stretch_of(0.5), stretch_of(-1.0)
    (2.0, inf)
    """
    return max(ratio, 1 / ratio) if ratio > 0 else math.inf


def _stretch(number: int, determinants: torch.Tensor) -> Check:
    typical = volume_ratio(determinants)
    value = stretch_of(typical)
    passed = value <= STRETCH
    text = f"Visit {number}: the motion changes volumes by a factor of {typical:.2f}"
    text += "." if passed else ", more than tissue does. Do the visits show the same breast, the same side?"
    return Check(name="change of volume", passed=passed, value=value, limit=STRETCH, text=text)


def _explained(rows: Sequence[HeldBack], *, predicted: bool, two_views: bool) -> Check:
    """The geometric mean over the visits of the ratios of residuals of fitted rays.

    predicted: whether held-back rays are predicted, as those of one breast are. If not, more freedom is no
    remedy.
    """
    value = _mean([row.fit_ratio for row in rows])
    text = f"All visits together leave {value:.2f} times the residual of one visit alone"
    passed = value <= UNEXPLAINED
    text += "." if passed else ": the motion found does not explain them."
    if predicted and not passed:
        text += " Do the visits show the same breast, the same side? If so, try a model with more freedom."
    return Check(
        name=EXPLAINED, passed=passed, value=value, limit=UNEXPLAINED, text=text, two_views=two_views
    )


def _predicted(rows: Sequence[HeldBack]) -> Check:
    """The geometric mean over the visits of the ratios of errors."""
    value = _mean([row.ratio for row in rows])
    text = f"All visits together predict rays that were held back with {value:.2f} times the error of one "
    text += "visit alone"
    passed = value <= WORSE
    text += "." if passed else ". Do the visits show the same breast, the same side; is the geometry right?"
    return Check(name=PREDICTED, passed=passed, value=value, limit=WORSE, text=text)


def _alike(number: int, shared: SharedStructure) -> Check:
    """Whether two visits show the same structure inside the breast."""
    text, passed = f"Visit {number}: inside the breast ", True
    if shared.structure < VISIBLE * shared.noise:
        text += "there is too little structure to compare with the reference."
    else:
        passed = shared.correlation >= ALIKE
        text += f"its structure correlates by {shared.correlation:.2f} with what the reference predicts"
        text += "." if passed else ". Do the visits show the same breast, the same side?"
    return Check(name="structure inside", passed=passed, value=shared.correlation, limit=ALIKE, text=text)


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(math.log(max(ratio, 1e-6)) for ratio in ratios) / len(ratios))


def _reference_predicted(row: HeldBack) -> Check:
    """Whether the volume of all visits is one to use for the reference visit."""
    text = f"Held-back rays of visit 1 are predicted by all visits with {row.ratio:.2f} times its own error "
    text += "alone." if row.ratio <= WORSE else "alone: use its volume alone."
    return Check(name=REFERENCE, passed=row.ratio <= WORSE, value=row.ratio, limit=WORSE, text=text)
