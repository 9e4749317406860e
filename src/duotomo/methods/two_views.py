"""Settings for two views of one breast, such as CC and MLO, which are two compressions of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from duotomo.errors import DuotomoError
from duotomo.mechanics import BetweenViews, HeldView
from duotomo.methods.held_breast import WALL_MM, footprint_of, radii_at_rest_mm
from duotomo.methods.level import FINEST
from duotomo.methods.priors import TWO_VIEW_PRIORS, Priors
from duotomo.methods.schedule import FIRST_STEPS, Stage
from duotomo.methods.settings import AUTOMATIC_MM, N_STEPS, Alternating, Coupled, Settings
from duotomo.methods.study import Study

BEHIND_MM = 15.0
"""Tissue behind the detector's edge in one view may lie before it in the other."""

ROUNDED_MM = 0.1
"""Estimates are rounded to this, so that a run that is resumed begins with the same ones."""


def two_view_settings(
    study: Study,
    *,
    roll_deg: float,
    plates_mm: Sequence[tuple[float, float]] | None = None,
    control_mm: float | None = AUTOMATIC_MM,
    solver: Coupled | Alternating | None = None,
    priors: Priors | None = None,
    n_steps: int = N_STEPS,
) -> Settings:
    """Return the staged settings for two views of one breast, the first of them the reference.

    From the outlines of the breast in both views follow the place and the size of the breast at rest, by
    finite elements. About these the modes of both compressions are estimated first, in a short stage, and
    then, on voxels that can explain the outlines, together with control points for what they leave.

    Parameters
    ----------
    study : Study
        Two visits, each with a grid of its own.
    roll_deg : float
        How far the breast is turned about y in the moving view, relative to the reference: what the gantry
        turns by. A positive roll takes z towards x.
    plates_mm : sequence of (float, float), optional
        Heights of the lower and the upper plate's surface above the detector, of each view. Unless given,
        each grid reaches from plate to plate.
    control_mm : float or None
        Distance of the control points; None for the modes alone.
    solver
        As for `Settings.for_study`.
    priors : Priors, optional
        `TWO_VIEW_PRIORS` unless given.
    n_steps
        As for `Settings.for_study`.

    Returns
    -------
    Settings
        For `simultaneous`.

    Raises
    ------
    DuotomoError
        If there are not two visits, or a view shows no breast.
    """
    if len(study.visits) != 2:
        raise DuotomoError(
            f"two_view_settings: expected two visits, one for each view; got {len(study.visits)}. Take the "
            f"views two by two."
        )
    modes = between_views(study, roll_deg=roll_deg, plates_mm=plates_mm)
    model = replace(modes, control_mm=control_mm)
    settings = Settings.staged(
        study.grid,
        model,
        solver=solver,
        priors=priors or TWO_VIEW_PRIORS,
        through=() if control_mm is None else (modes,),
        n_steps=n_steps,
    )
    return replace(settings, initial_guess=False, stages=_soon_fine(settings.stages, modes))


def _soon_fine(stages: tuple[Stage, ...], modes: BetweenViews) -> tuple[Stage, ...]:
    """Return a schedule with one short stage of the modes on coarse voxels, the finest of these.

    Coarse voxels cannot explain the outline of a breast that is no half ellipsoid, and modes that are refined
    on them pay for that: they end farther off than they began.
    """
    coarse = [one for one in stages if one.model == modes and one.coarsen != FINEST]
    if not coarse:
        return stages
    rest = [one for one in stages if one not in coarse]
    first = replace(coarse[-1], n_steps=FIRST_STEPS, fresh=False)
    return (first, replace(rest[0], fresh=True), *rest[1:])


AnyStudy = TypeVar("AnyStudy", bound=Study)


def with_tissue_behind(study: AnyStudy, behind_mm: float = BEHIND_MM) -> AnyStudy:
    """Return a study whose volume goes on behind the edge of the detector, at the chest wall.

    The reference sees nothing there, but another view does: without these voxels, its motion has to keep all
    tissue that it sees in front of that edge, however the breast was pulled forward.

    Parameters
    ----------
    study : Study
        Two views of one breast.
    behind_mm : float
        How far.

    Returns
    -------
    Study
        On a longer grid; those of the moving visits stay.
    """
    grid = study.grid
    n_more = round(behind_mm / grid.spacing_mm[1])
    (n_z, n_y, n_x), (z, y, x) = grid.shape, grid.center_mm
    longer = replace(
        grid, shape=(n_z, n_y + n_more, n_x), center_mm=(z, y - n_more * grid.spacing_mm[1] / 2, x)
    )
    reference = replace(study.reference, grid=None)
    moving = (replace(visit, grid=study.grid_of(visit)) for visit in study.moving)
    return replace(study, grid=longer, visits=(reference, *moving))


def between_views(
    study: Study, *, roll_deg: float, plates_mm: Sequence[tuple[float, float]] | None = None
) -> BetweenViews:
    """Return the model of the motion between two views, from the outlines of the breast in both.

    Parameters
    ----------
    study, roll_deg, plates_mm
        As for `two_view_settings`.

    Returns
    -------
    BetweenViews
        Without control points.
    """
    grids = [study.grid_of(visit) for visit in study.visits]
    plates = plates_mm or [(grid.low_mm[0], grid.high_mm[0]) for grid in grids]
    seen = [footprint_of(visit, grid) for visit, grid in zip(study.visits, grids, strict=True)]
    held = [
        HeldView(
            thickness_mm=high - low,
            roll_deg=roll,
            center_mm=(_rounded(one.middle_mm), WALL_MM),
            support_mm=low,
        )
        for (low, high), roll, one in zip(plates, (0.0, roll_deg), seen, strict=True)
    ]
    x, y, z = (_rounded(mm) for mm in radii_at_rest_mm(held, seen))
    reference, moving = held
    return BetweenViews(radii_mm=(x, y, z), reference=reference, moving=moving)


def _rounded(value_mm: float) -> float:
    return round(value_mm / ROUNDED_MM) * ROUNDED_MM
