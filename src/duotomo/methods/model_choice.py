"""Which model of motion the data ask for: control points, or an affine transform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.methods.level import Level
from duotomo.methods.preconditioner import motion_curvatures
from duotomo.methods.priors import Priors
from duotomo.methods.problem import Problem
from duotomo.methods.scales import Scales
from duotomo.methods.study import Study
from duotomo.transforms import Model, Motion

MOST, MOST_AT_MM = 10.0, 4.0
"""The largest score of a motion that needs no control points, for voxels up to so large.

On breasts of five women at 4 mm, 33 affine motions had scores up to 8.3; 38 others from 16.6 on, but for two,
4.9 and 5.9, of small breasts of which the chest wall hid half. The limit falls with the square of the edges.
"""

SEEN = 0.05
"""Parameters count if the curvature along them is at least this share of the largest."""

MOVED_MM = 1.0
"""Control points that move tissue by more than this, on the mean, are needed, whatever the score."""

_BODY, _MOST_POINTS = 0.2, 4000
"""Tissue has this share of the largest attenuation; so many of its voxels are asked."""


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """Whether a motion needs control points, and the score that says so.

    Parameters
    ----------
    score : float
        Median over the parameters of `g^2 / (s^2 H)`: g the slope of the misfit along each, H its curvature
        and s^2 the mean square of the residuals. About 0.5 where the residuals are white; as many times
        larger as control points would explain more of them than noise can. A mean would follow the few
        points at the edge of what is seen, and grow with the breast.
    limit : float
        The largest score of a motion without control points.
    """

    score: float
    limit: float

    @property
    def needs_lattice(self) -> bool:
        """Whether the score is above the limit."""
        return self.score > self.limit


@torch.no_grad()
def model_choice(
    study: Study,
    level: Level,
    scales: Scales,
    priors: Priors,
    *,
    volume: torch.Tensor,
    motions: tuple[Motion, ...],
    model: Model,
) -> ModelChoice:
    """Return whether the motions that were found without control points need those of a model.

    The score test of statistics (Rao, 1948): it asks for the slope at the motions found, not for the motions
    that the larger model would find.

    Parameters
    ----------
    study : Study
        The visits.
    level : Level
        Where volume and motions were found.
    scales, priors
        Of the run.
    volume : torch.Tensor
        (z, y, x) on the grid of the level, in 1/mm.
    motions : tuple of Motion
        Of the moving visits.
    model : Model
        With control points.

    Returns
    -------
    ModelChoice
        Of the visit that asks for it most.
    """
    transforms = tuple(model(study.grid_of(visit)) for visit in study.moving)
    pairs = zip(motions, transforms, strict=True)
    params = [motion.convert(transform).params for motion, transform in pairs]
    misfit = Problem(level, transforms, priors, scales).misfit
    value, gradient = misfit.value_and_gradient(misfit.join(volume, params))
    slopes = misfit.split(gradient)[1]
    mean_square = 2 * value / sum(visit.projections.numel() for visit in level.visits)
    scores = []
    for slope, curvature in zip(slopes, motion_curvatures(misfit, volume, params), strict=True):
        seen = curvature.diagonal > SEEN * curvature.diagonal.max()
        scores.append(float((slope[seen].square() / curvature.diagonal[seen]).median()) / mean_square)
    edge_mm = max(level.grid.spacing_mm)
    return ModelChoice(score=max(scores), limit=MOST * min(1.0, MOST_AT_MM / edge_mm) ** 2)


@torch.no_grad()
def apart_mm(
    some: Sequence[Motion], others: Sequence[Motion], volume: torch.Tensor, grid: VolumeGrid
) -> float:
    """Return how far from each other two motions put tissue: the mean, of the visit where that is most.

    Parameters
    ----------
    some, others : sequence of Motion
        Of each moving visit.
    volume : torch.Tensor
        (z, y, x), which shows where there is tissue.
    grid : VolumeGrid
        Of the volume.

    Returns
    -------
    float
        In mm; 0 without tissue.
    """
    tissue = (volume > _BODY * volume.max()).nonzero()
    tissue = tissue[:: -(-len(tissue) // _MOST_POINTS) or 1].cpu()
    if not len(tissue):
        return 0.0
    places_mm = torch.from_numpy(voxel_to_world(grid, tissue.numpy()).copy())
    pairs = zip(some, others, strict=True)
    apart = [(one.points(places_mm) - other.points(places_mm)).norm(dim=-1).mean() for one, other in pairs]
    return float(max(apart))
