"""The weights of the priors on volume and motion."""

from __future__ import annotations

import math
from dataclasses import dataclass

from duotomo.errors import DuotomoError


@dataclass(frozen=True, kw_only=True)
class Priors:
    """Weights of the priors, relative to the noise and to the curvature of the misfit; zero omits a prior.

    Parameters
    ----------
    total_variation : float
        In units of the RMS of the noise gradient: at 1, an edge must explain more of the data than noise
        could, and true detail is lost with it.
    smoothing : float
        Of the total variation, relative to the object's attenuation.
    depth_weight : float
        Factor of the differences along z in the total variation.
    nonnegativity : float
        Quadratic penalty on negative attenuation, in units of the misfit's mean curvature per voxel.
    bending : float
        Mean curvature of the bending energy over the parameters of a transform with control points, relative
        to the misfit's, for each mm of the voxels' edges: what voxels cannot explain grows with them, and a
        motion must not.
    least_noise : float
        What a grid of voxels cannot explain: a standard deviation of the line integrals, relative to the
        largest, for each mm of the voxels' edges. It adds to the noise.
    edges : float
        The same at sharp edges: the share of the change of line integrals over a voxel's shadow that adds to
        the standard deviation of a ray. It does not count where a motion without control points is refined
        at full resolution: edges know it best.
    offset : float
        Standard deviation of what is not known of each view's exposure: of an offset of its line integrals,
        which is minimised out.

    Raises
    ------
    DuotomoError
        If a weight is negative or not finite, or `smoothing` is zero with total variation.
    """

    total_variation: float = 0.06
    smoothing: float = 0.01
    depth_weight: float = 1.0
    nonnegativity: float = 1.0
    bending: float = 3e-3
    least_noise: float = 1e-3
    edges: float = 0.1
    offset: float = 0.02

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < math.inf:
                raise DuotomoError(
                    f"Priors: expected {name} >= 0 and finite; got {value}. Zero leaves it out."
                )
        if self.total_variation > 0 and self.smoothing == 0:
            raise DuotomoError(
                "Priors: expected smoothing > 0 with total_variation; got 0. Use 0.01, or "
                "duotomo.reconstruct.TvLeastSquares for the unsmoothed one."
            )


NO_PRIORS = Priors(total_variation=0, nonnegativity=0, bending=0, edges=0, offset=0)
"""The misfit alone: no total variation, no penalty on negative values, no bending energy, edges not apart,
known exposures."""

TWO_VIEW_PRIORS = Priors(bending=0.03)
"""Between two compressions, control points are ten times as stiff: they must not follow what modes can."""
