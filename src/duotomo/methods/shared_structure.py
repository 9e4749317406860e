"""Structure that visits share: what one visit shows inside the breast, as predicted by the other alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from duotomo.methods.correlation import correlation
from duotomo.methods.detector_filter import spline_filtered
from duotomo.methods.held_back import coarse_factors, fitted
from duotomo.methods.input_checks import OBJECT
from duotomo.methods.problem import Problem
from duotomo.methods.scales import Scales, level_of, scales_of
from duotomo.methods.sequential import one_visit
from duotomo.methods.settings import Settings
from duotomo.methods.study import Study, Visit
from duotomo.objectives import JointMisfit
from duotomo.objectives.term import warped
from duotomo.operators import SplineBasis
from duotomo.transforms import Motion

N_STEPS = 40
"""Of the volume of the reference alone, from zeros."""

WIDE_MM, RIM_MM = 16.0, 10.0
"""What changes over more than the first belongs to the outline and the exposure, which breasts have alike;
so does what lies within the second of the outline's shadow."""


@dataclass(frozen=True, kw_only=True)
class SharedStructure:
    """What a moving visit shows inside the breast, beside what the reference alone predicts.

    Parameters
    ----------
    correlation : float
        Of both, from -1 to 1; 0 where there is nothing to compare.
    structure, noise : float
        RMS of what the visit shows, and of its noise, as line integrals.
    """

    correlation: float
    structure: float
    noise: float


@torch.no_grad()
def shared_structure(
    study: Study, settings: Settings, motions: Sequence[Motion], *, scales: Scales | None = None
) -> tuple[SharedStructure, ...]:
    """Compare what each moving visit shows inside the breast with what the reference alone predicts.

    The volume of the reference visit alone, with voxels of about 4 mm, is moved by the motion found and
    projected as the moving visit was. Of both, predicted and measured line integrals, what changes slowly is
    taken away, and the rim is left out. Tissue of one breast has the same structure at both visits, whatever
    the exposure; that of two breasts does not, however well their outlines were made to agree. Costs about 90
    projector applications on that coarse grid.

    Parameters
    ----------
    study : Study
        The visits, reference first.
    settings : Settings
        Whose priors are used.
    motions : sequence of Motion
        moving_to_reference, of each moving visit.
    scales : Scales, optional
        Of the study, if they are known already.

    Returns
    -------
    tuple of SharedStructure
        One for each moving visit.
    """
    factors, scales = coarse_factors(study), scales or scales_of(study, settings.priors)
    level = level_of(study, factors, basis="spline", priors=settings.priors, scales=scales)
    misfit = JointMisfit(level.terms([motion.transform for motion in motions]), level.grid, basis=level.basis)
    own, own_scales = one_visit(study, 0), scales.of_visit(0)
    single = level_of(own, factors, basis="spline", priors=settings.priors, scales=own_scales)
    like = study.reference.projections
    zeros = torch.zeros(single.grid.shape, dtype=like.dtype, device=like.device)
    alone = fitted(Problem(single, (), settings.priors, own_scales), zeros, (), N_STEPS)
    volume, found = SplineBasis(single.grid)(alone), []
    for number, motion in enumerate(motions, start=1):
        warp = misfit.visits[number].warp(motion.params)
        predicted = level.projectors[number](warped(warp, volume))
        found.append(_compared(study.visits[number], level.visits[number], predicted, scales.sigmas[number]))
    return tuple(found)


def _compared(whole: Visit, visit: Visit, predicted: torch.Tensor, sigma: float) -> SharedStructure:
    """Compare a visit of the level with what is predicted; whole: the same at full resolution."""
    inside = _inside(visit)
    n_pixels = math.prod(visit.acquisition.pixel_spacing_mm) / math.prod(whole.acquisition.pixel_spacing_mm)
    # Noise that has been averaged over n pixels has fallen by sqrt(n).
    noise = sigma / math.sqrt(n_pixels) if whole.weights is None else 0.0
    d_v, d_u = visit.acquisition.pixel_spacing_mm
    rows = []
    for views in (visit.projections, predicted):
        slow = spline_filtered(views, (WIDE_MM / d_v, WIDE_MM / d_u), inside)
        rows.append((views - slow)[inside].double())
    measured, of_reference = rows
    return SharedStructure(
        correlation=correlation(measured, of_reference),
        structure=float(measured.std(correction=0)) if len(measured) else 0.0,
        noise=noise,
    )


def _inside(visit: Visit) -> torch.Tensor:
    """Return the rays through the breast, away from its outline, (view, v, u)."""
    views = visit.projections
    outside = views <= OBJECT * views.max()
    if visit.weights is not None:
        outside |= visit.weights <= 0
    v, u = (round(RIM_MM / mm) for mm in visit.acquisition.pixel_spacing_mm)
    # Beyond the edges, too: there tissue enters that the reference may not have seen.
    padded = torch.nn.functional.pad(outside.to(views)[:, None], (u, u, v, v), value=1.0)
    near = torch.nn.functional.max_pool2d(padded, (2 * v + 1, 2 * u + 1), stride=1)
    return near[:, 0] == 0
