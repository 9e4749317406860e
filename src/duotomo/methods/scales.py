"""Scales estimated from the data: the noise of the projections, and the attenuation of the object."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from duotomo.errors import DuotomoError
from duotomo.methods.level import Basis, Factors, Level
from duotomo.methods.priors import Priors
from duotomo.methods.schedule import pyramid
from duotomo.methods.study import Study, Visit
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import LinearOperator, Weighting
from duotomo.reconstruct.noise import noise_level
from duotomo.solvers import Cgls

_QUANTILE = 0.99


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Scales that the weights of the priors are relative to.

    Parameters
    ----------
    sigmas : tuple of float
        Noise of each visit at full resolution, without unit, and with weights relative to what they imply.
    mismatches : tuple of float
        What a grid of voxels cannot explain of each visit, per mm of their edges.
    attenuation : float
        Of the object, in 1/mm.
    """

    sigmas: tuple[float, ...]
    mismatches: tuple[float, ...]
    attenuation: float

    def of_visit(self, index: int) -> Scales:
        """Return those of a study of one of the visits alone."""
        own = slice(index, index + 1)
        return replace(self, sigmas=self.sigmas[own], mismatches=self.mismatches[own])


def scales_of(study: Study, priors: Priors) -> Scales:
    """Estimate noise, mismatch and attenuation from the data alone.

    Noise: that of `noise_level`, of each visit; with weights it is what they imply, 1. Mismatch:
    `priors.least_noise` times the largest line integral. Attenuation: the 99th percentile of a coarse
    reconstruction of the reference, over those voxels that attenuate at all.
    """
    level = Level(study, pyramid(study.grid)[0])
    projector: LinearOperator = level.projectors[0]
    data, weights = level.visits[0].projections, level.visits[0].weights
    if weights is not None:
        # Rays that do not count hold anything.
        counts = (weights > 0).to(data)
        projector, data = Weighting(counts) @ projector, counts * data
    volume = Cgls(n_steps=5).minimise(ProjectionMisfit(projector, data)).value
    inside = volume[volume > 0.05 * volume.max()].double().sort().values
    return Scales(
        sigmas=tuple(_sigma(visit) for visit in study.visits),
        mismatches=tuple(priors.least_noise * _largest(visit) for visit in study.visits),
        attenuation=float(inside[int(_QUANTILE * (len(inside) - 1))]),
    )


def level_of(study: Study, coarsen: Factors, *, basis: Basis, priors: Priors, scales: Scales) -> Level:
    """Return a level with what voxels cannot explain, and what is not known of exposures, counted in."""
    return Level(
        study,
        coarsen,
        basis=basis,
        sigmas=scales.sigmas,
        mismatches=scales.mismatches,
        edges=priors.edges,
        offset=priors.offset,
    )


def _sigma(visit: Visit) -> float:
    if visit.weights is not None:
        return 1.0
    try:
        sigma = noise_level(visit.projections)
    except DuotomoError:
        # Too few pixels behind the object to tell.
        return 0.0
    # Pixels that are all alike leave rounding, or NaN: no noise is known then.
    return sigma if sigma > torch.finfo(visit.projections.dtype).eps * _largest(visit) else 0.0


def _largest(visit: Visit) -> float:
    used = visit.projections if visit.weights is None else visit.projections[visit.weights > 0]
    return float(used.max())
