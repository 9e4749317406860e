"""The scales that the data set: how strong the noise is, and how strongly the object attenuates."""

from __future__ import annotations

from duotomo.methods.level import Level
from duotomo.methods.problem import Scales
from duotomo.methods.settings import Settings, pyramid
from duotomo.methods.study import Study, Visit
from duotomo.errors import DuotomoError
from duotomo.reconstruct.noise import noise_level
from duotomo.solvers import Cgls

_QUANTILE = 0.99


def scales_of(study: Study, settings: Settings) -> Scales:
    """Return noise and attenuation, from the data alone.

    Noise: that of `noise_level`, of each visit, but at least the part of its largest line integral that the
    priors name; with weights it is what they say, 1. Attenuation: what 99 % of a coarse reconstruction of the
    reference stay below, of those voxels that attenuate at all.
    """
    sigmas = [_sigma(visit, settings.priors.least_noise) for visit in study.visits]
    level = Level(study, pyramid(study.grid)[0])
    reference = level.visits[0]
    volume = Cgls(n_steps=5).solve(level.projectors[0], reference.projections).value
    positive = volume[volume > 0.05 * volume.max()].double().sort().values
    return Scales(sigmas, float(positive[int(_QUANTILE * (len(positive) - 1))]))


def _sigma(visit: Visit, least_noise: float) -> float:
    if visit.weights is not None:
        return 1.0
    floor = least_noise * float(visit.projections.max())
    try:
        return max(floor, noise_level(visit.projections))
    except DuotomoError:
        # Too few pixels behind the object to tell.
        return floor
