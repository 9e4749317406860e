"""Rays held back: does the volume of all visits predict them better than that of one visit alone?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from duotomo.methods.blocks import volume_block
from duotomo.methods.input_checks import OBJECT
from duotomo.methods.level import Factors, Level, coarsening
from duotomo.methods.problem import Problem
from duotomo.methods.scales import Scales, level_of, scales_of
from duotomo.methods.schedule import LEAST_VOXELS
from duotomo.methods.sequential import one_visit
from duotomo.methods.settings import Settings
from duotomo.methods.study import Study, Visit
from duotomo.objectives.term import warped
from duotomo.operators import SplineBasis
from duotomo.transforms import Motion

VOXEL_MM = 4.0
"""Edge of the voxels, about, that rays are predicted with: a breast of them takes a second."""

BLOCK_MM, SHARE = 16.0, 0.1
"""Edge of a block of pixels that is held back, and the share of blocks."""

FIRST_STEPS, MORE_STEPS = 20, 12
"""Steps of the volume of all visits from zeros, and of both that volume and those of one visit from there."""

MEMORY, TOLERANCE = 20, 1e-5


@dataclass(frozen=True, kw_only=True)
class HeldBack:
    """How well rays of one visit are explained, as an RMS of line integrals.

    Parameters
    ----------
    joint, alone : float
        Rays that were held back, as predicted by the volume of all visits, moved by the motion found, and by
        that of this visit alone.
    joint_fit, alone_fit : float
        The same of the rays that both were fitted to.
    """

    joint: float
    alone: float
    joint_fit: float
    alone_fit: float

    @property
    def ratio(self) -> float:
        """`joint / alone`: below 1 where the other visits help; 1 where nothing was held back."""
        return self.joint / self.alone if self.alone > 0 else 1.0

    @property
    def fit_ratio(self) -> float:
        """`joint_fit / alone_fit`: above 1, and the more so the less one volume explains all visits."""
        return self.joint_fit / self.alone_fit if self.alone_fit > 0 else 1.0


@torch.no_grad()
def held_back(
    study: Study, settings: Settings, motions: Sequence[Motion], *, scales: Scales | None = None
) -> tuple[HeldBack, ...]:
    """Predict rays that no volume was fitted to, by all visits together and by each visit alone.

    A tenth of the detector's blocks of 16 mm, drawn at random in every view, is left out. The volume of all
    visits is fitted to the other rays, for the motions given, with voxels of about 4 mm; from there that of
    each visit alone, in as many steps. If the motions are right and the visits show one breast, then more
    visits predict the rays left out better. Costs about 180 projector applications on that coarse grid, for
    two visits.

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
    tuple of HeldBack
        One for each visit.
    """
    factors, scales = coarse_factors(study), scales or scales_of(study, settings.priors)
    level = level_of(study, factors, basis="spline", priors=settings.priors, scales=scales)
    blocks = [_blocks(visit, number) for number, visit in enumerate(level.visits)]
    level.leave_out(blocks)
    params = [motion.params for motion in motions]
    problem = Problem(level, [motion.transform for motion in motions], settings.priors, scales)
    like = study.reference.projections
    zeros = torch.zeros(level.grid.shape, dtype=like.dtype, device=like.device)
    first = fitted(problem, zeros, params, FIRST_STEPS)
    basis, found = SplineBasis(level.grid), []
    last = fitted(problem, first, params, MORE_STEPS)
    for number, held in enumerate(blocks):
        warp = problem.misfit.visits[number].warp(params[number - 1]) if number else None
        start, joint = warped(warp, first), warped(warp, basis(last))
        own, own_scales = one_visit(study, number), scales.of_visit(number)
        single = level_of(own, factors, basis="spline", priors=settings.priors, scales=own_scales)
        used = single.visits[0].weights
        single.leave_out([held])
        alone = fitted(Problem(single, (), settings.priors, own_scales), start, (), MORE_STEPS)
        alone = SplineBasis(single.grid)(alone)
        found.append(
            HeldBack(
                joint=_rms(single, used, joint, held),
                alone=_rms(single, used, alone, held),
                joint_fit=_rms(single, used, joint, ~held),
                alone_fit=_rms(single, used, alone, ~held),
            )
        )
    return tuple(found)


def coarse_factors(study: Study) -> Factors:
    """Return the factors that bring voxels near `VOXEL_MM`, and leave enough of them."""
    longest_mm = max(n * mm for n, mm in zip(study.grid.shape, study.grid.spacing_mm, strict=True))
    return coarsening(study.grid, min(VOXEL_MM, longest_mm / LEAST_VOXELS))


def _blocks(visit: Visit, seed: int) -> torch.Tensor:
    """Return which pixels are held back, (view, v, u)."""
    n_views, *shape = visit.projections.shape
    edges = [max(1, round(BLOCK_MM / mm)) for mm in visit.acquisition.pixel_spacing_mm]
    coarse = [n_views, *(-(-n // edge) for n, edge in zip(shape, edges, strict=True))]
    drawn = torch.rand(coarse, generator=torch.Generator().manual_seed(seed)) < SHARE
    drawn = drawn.repeat_interleave(edges[0], dim=1).repeat_interleave(edges[1], dim=2)
    return drawn[:, : shape[0], : shape[1]].to(visit.projections.device)


def fitted(
    problem: Problem, start: torch.Tensor, params: Sequence[torch.Tensor], n_steps: int
) -> torch.Tensor:
    """Return the volume after so many steps, for fixed motions."""
    block = volume_block(
        problem, start, params, memory=MEMORY, n_steps=n_steps, tolerance=TOLERANCE, on_step=None
    )
    return block.volume


def _rms(level: Level, weights: torch.Tensor | None, volume: torch.Tensor, chosen: torch.Tensor) -> float:
    """Return the RMS of `A f - p` over chosen rays through the object; zero if there are none.

    `weights` are those of all rays, before some were left out: what voxels cannot explain at sharp edges says
    little of a motion.
    """
    visit = level.visits[0]
    assert visit.weights is not None
    residual = level.projectors[0](volume) - visit.projections
    # The exposure of a view is not known: the mean of the other rays is.
    total = visit.weights.sum(dim=(1, 2), keepdim=True)
    residual -= (residual * visit.weights).sum(dim=(1, 2), keepdim=True) / torch.where(total > 0, total, 1.0)
    judged = chosen & (visit.projections > OBJECT * visit.projections.max())
    of_rays = (torch.ones_like(residual) if weights is None else weights)[judged].double()
    if not float(of_rays.sum()) > 0:
        return 0.0
    return math.sqrt(float((of_rays * residual[judged].double().square()).sum() / of_rays.sum()))
