"""What the model cannot explain of the projections: more than noise is left by the best fit."""

from __future__ import annotations

import math

import torch

from duotomo.objectives import ProjectionMisfit, TotalVariation
from duotomo.reconstruct._rays import projector_of
from duotomo.reconstruct.noise import KAPPA, noise_level, total_variation_weight
from duotomo.reconstruct.photon_noise import OBJECT
from duotomo.solvers import PrimalDual

STEPS = 100
"""Of the fit that finds the mismatch: by then a breast is explained to a few times its noise."""


def residual_mismatch(
    residual: torch.Tensor, projections: torch.Tensor, sigma: float, weights: torch.Tensor | None = None
) -> float:
    """Return the RMS of what a fit leaves beyond the noise, over the rays through the object.

    `m^2 = max(0, mean(r^2 - v))`, v the variance of the noise: sigma^2, or sigma^2 / w with weights.

    Parameters
    ----------
    residual : torch.Tensor
        `A f - p`, (view, v, u), unweighted.
    projections : torch.Tensor
        p, line integrals, (view, v, u). Rays above 1 % of the largest go through the object.
    sigma : float
        Of the noise, from `noise_level`; with weights relative to them.
    weights : torch.Tensor, optional
        Inverse variances, (view, v, u). Rays of weight zero are left out.

    Returns
    -------
    float
        m, in the units of the projections; zero if no ray goes through the object.

    Examples
    --------
    >>> round(residual_mismatch(torch.full((1, 4, 4), 0.5), torch.ones(1, 4, 4), 0.3), 6)
    0.4
    """
    rays = torch.ones_like(projections, dtype=torch.bool) if weights is None else weights > 0
    values = torch.where(rays, projections, projections.new_zeros(()))
    rays &= values > OBJECT * float(values.max())
    if not bool(rays.any()):
        return 0.0
    square = residual[rays].double().square()
    noise = torch.full_like(square, sigma**2) if weights is None else sigma**2 / weights[rays].double()
    return math.sqrt(max(0.0, float((square - noise).mean())))


def with_mismatch(
    weights: torch.Tensor | None, sigma: float, mismatch: float
) -> tuple[torch.Tensor | None, float]:
    """Return weights and the sigma that belongs to them with the mismatch added to the noise.

    The variance of a ray becomes `sigma^2 / w + m^2`: rays with little noise, such as those past the outline
    of the object, no longer outweigh all others by what the model cannot explain there.

    Parameters
    ----------
    weights : torch.Tensor, optional
        Inverse variances, (view, v, u).
    sigma : float
        Of the noise; with weights relative to them.
    mismatch : float
        m, in the units of the projections.

    Returns
    -------
    weights : torch.Tensor or None
        `1 / (sigma^2 / w + m^2)`, zero where w is; None if none were given.
    sigma : float
        1 with weights; `sqrt(sigma^2 + m^2)` without.

    Examples
    --------
    >>> with_mismatch(None, 3.0, 4.0)
    (None, 5.0)
    >>> with_mismatch(torch.tensor([1.0, 0.25, 0.0]), 1.0, 2.0)
    (tensor([0.2000, 0.1250, 0.0000]), 1.0)
    """
    if weights is None:
        return None, math.hypot(sigma, mismatch)
    # Without a division by w, which may be zero.
    return weights / (sigma**2 + mismatch**2 * weights), 1.0


@torch.no_grad()
def model_mismatch(
    misfit: ProjectionMisfit, sigma: float | None = None, *, kappa: float = KAPPA, n_steps: int = STEPS
) -> float:
    """Return the RMS of what no volume explains of the projections, noise apart.

    A wrong geometry, tissue beside the grid, a view of another exposure, scatter, and voxels that are too
    coarse leave more than noise behind, whatever the volume. A short fit with little total variation over
    `f >= 0`, without weights, is compared with the noise by `residual_mismatch`. What a longer fit would
    still explain is counted, too.

    Parameters
    ----------
    misfit : ProjectionMisfit
        Of a `Projector`: A, p, (view, v, u), and weights or None.
    sigma : float, optional
        Of the noise, with weights relative to them; from `noise_level` unless given.
    kappa : float
        Of total variation, in units of the noise gradient.
    n_steps : int
        Of the fit, two applications each.

    Returns
    -------
    float
        m, in the units of the projections.

    Raises
    ------
    DuotomoError
        If the misfit is not that of a Projector, or the noise cannot be told and is not given.
    """
    grid = projector_of("model_mismatch", misfit).grid
    data, weights = misfit.data, misfit.weights
    if sigma is None:
        sigma = noise_level(data, weights)
    used = None if weights is None else (weights > 0).to(data)
    if weights is None or used is None:
        plain = sigma
    else:
        # The RMS of sigma / sqrt(w): the fit itself is not weighted, for weights trust what is in question.
        inverse = torch.where(weights > 0, weights, torch.ones_like(weights)).reciprocal() * used
        plain = sigma * math.sqrt(float(inverse.sum() / used.sum()))
    unweighted = ProjectionMisfit(misfit.operator, data, used)
    tv_weight = total_variation_weight(
        misfit.operator, plain, used, kappa=kappa, device=data.device, dtype=data.dtype
    )
    solver = PrimalDual(n_steps=n_steps, tolerance=0.0)
    volume = solver.minimise(unweighted + tv_weight * TotalVariation(grid)).value
    residual = misfit.operator(volume).sub_(data)
    return residual_mismatch(residual, data, sigma, weights)
