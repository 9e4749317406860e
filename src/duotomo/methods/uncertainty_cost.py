"""What it costs to tell how sure a motion is: counted in projections, and in bytes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from duotomo.methods.detector_filter import voxel_shadow
from duotomo.methods.level import Factors
from duotomo.methods.memory import PROJECTIONS, VOLUMES
from duotomo.methods.result import Result
from duotomo.methods.settings import Settings
from duotomo.methods.solves import n_at_once
from duotomo.methods.study import Study
from duotomo.methods.uncertainty import N_EXTRA, N_MODES, are_few, level_factors
from duotomo.transforms import Motion

PER_PARAM = 45
"""Projector applications that one of few parameters needs, about."""

PER_MODE = 60
"""The same of a direction of many parameters."""

OF_STEP = {"few": 0.8, "many": 0.3}
"""What an application in a solve takes, of one in a step of a run on the same level: a step also pulls
gradients back to the parameters, and combines the steps that it remembers; a batch of solves shares calls."""

HELD = {"few": 20, "many": 32}
"""Volumes that each solve of a batch was measured to hold, few parameters or many: in large batches, a third
of that is memory that the allocator does not use again."""

AFFORDABLE = 0.5
"""Share of the cost of a run up to which telling how sure its motion is comes unasked on a CPU."""


@dataclass(frozen=True, kw_only=True)
class UncertaintyCost:
    """What `uncertainty_of` costs, about.

    Parameters
    ----------
    applications : float
        Of projectors or adjoints, in units of those at full resolution.
    share : float
        Of the time that the run took; infinite where its history does not tell.
    seconds : float
        By what applications took in the run, on the level nearest; infinite where its history does not tell.
    n_bytes : int
        Peak memory of the arrays.
    """

    applications: float
    share: float
    seconds: float
    n_bytes: int

    @property
    def is_affordable(self) -> bool:
        """Whether it adds little to what the run took."""
        return self.share < AFFORDABLE


def uncertainty_cost(study: Study, settings: Settings, result: Result) -> UncertaintyCost:
    """Estimate what `uncertainty_of` costs, from what the run did.

    Few parameters need about 45 applications each, at the resolution of the result. Control points need
    about 500 solves of 60 applications, on voxels that are twice as large. What one takes, the steps of the
    run on that level tell, or on the nearest, and the number of voxels. Applications alone do not: at small
    sizes one on a coarse level takes more than its share of the voxels.

    Parameters
    ----------
    study : Study
        The visits.
    settings : Settings
        Of the run.
    result : Result
        Of it, with its history.

    Returns
    -------
    UncertaintyCost
        An estimate.
    """
    n_params = sum(motion.transform.n_params for motion in result.motions)
    n_first, n_modes = (min(n, n_params) for n in (N_MODES + N_EXTRA, N_MODES))
    few, factors = are_few(result.motions), level_factors(study, result.motions)
    solves = PER_PARAM * n_params if few else PER_MODE * (n_first + n_modes)
    each = _seconds_of_one(settings, result, factors) * OF_STEP["few" if few else "many"]
    return UncertaintyCost(
        applications=solves / math.prod(factors),
        share=solves * each / result.seconds if result.seconds > 0 else math.inf,
        seconds=solves * each,
        n_bytes=uncertainty_bytes(study, result.motions),
    )


def uncertainty_bytes(study: Study, motions: Sequence[Motion]) -> int:
    """Estimate the peak memory of the arrays of `uncertainty_of`.

    Of each of K directions, parameters or modes, the changes of the rays and of the volume are kept, twice
    while they are put together; and M are solved at once, each with h volumes and 3 copies of its rays:
    `b ((24 + 4 K + h M) N + (8 + 3 K + 3 M) R)`, h = 20 for few parameters and 32 for many.

    Parameters
    ----------
    study : Study
        The visits.
    motions : sequence of Motion
        Of each moving visit: only their models count.

    Returns
    -------
    int
        Bytes.
    """
    n_params = sum(motion.transform.n_params for motion in motions)
    n_kept = n_params if are_few(motions) else min(N_MODES, n_params)
    factors = level_factors(study, motions)
    grids = [study.grid_of(visit).coarsen(factors) for visit in study.visits]
    n_voxels = max(grid.n_voxels for grid in grids)
    n_rays = 0
    for visit, grid in zip(study.visits, grids, strict=True):
        shadow = (max(1, math.floor(edge)) for edge in voxel_shadow(visit.acquisition, grid))
        n_rays += visit.projections.numel() // math.prod(shadow)
    size = study.reference.projections.element_size()
    n_batch = min(n_kept, n_at_once(n_voxels * size))
    numbers = (VOLUMES + 4 * n_kept + HELD["few" if are_few(motions) else "many"] * n_batch) * n_voxels
    numbers += (PROJECTIONS + 3 * (n_kept + n_batch)) * n_rays
    # The factor of the prior, and the modes, in float64.
    lattice = 0 if are_few(motions) else 8 * (2 * N_MODES * n_params + 2 * (n_params // 3) ** 2)
    return numbers * size + lattice


def most_uncertainty_bytes(study: Study, settings: Settings) -> int:
    """Estimate the same before a run, for the larger of the models that it may end with.

    Parameters
    ----------
    study : Study
        The visits.
    settings : Settings
        Of the run.

    Returns
    -------
    int
        Bytes; 0 if no motion is estimated.
    """
    found = []
    for stages in (settings.stages, settings.stiffer):
        models = [stage.model for stage in stages if stage.model is not None]
        if models:
            transforms = [models[-1](study.grid_of(visit)) for visit in study.moving]
            found.append(uncertainty_bytes(study, [Motion(one, one.identity()) for one in transforms]))
    return max(found, default=0)


def _seconds_of_one(settings: Settings, result: Result, factors: Factors) -> float:
    """Return what an application took in the steps of a run on a level; infinite if its history is empty.

    Without steps there, it is that on the level that is nearest in size, by the number of voxels.
    """
    bends = any(motion.transform.control_spacing_mm is not None for motion in result.motions)
    stages = settings.stages if bends or not settings.stiffer else settings.stiffer
    counts: dict[Factors, int] = defaultdict(int)
    seconds: dict[Factors, float] = defaultdict(float)
    steps = [(0, 0, 0.0), *((step.stage, step.applications, step.seconds) for step in result.history)]
    for (_, count, began), (stage, applications, ended) in pairwise(steps):
        level = stages[min(stage, len(stages) - 1)].coarsen
        counts[level] += max(0, applications - count)
        seconds[level] += max(0.0, ended - began)
    known = {level: seconds[level] / n for level, n in counts.items() if n > 0 and seconds[level] > 0}
    if not known:
        return math.inf
    size = math.prod(factors)
    nearest = min(known, key=lambda level: abs(math.log(math.prod(level) / size)))
    return known[nearest] * math.prod(nearest) / size
