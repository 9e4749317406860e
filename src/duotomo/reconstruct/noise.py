"""How noisy the projections are, and how much total variation that asks for: from the data alone."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError
from duotomo.operators import LinearOperator

KAPPA = 1.0
"""The weight of total variation, in units of the RMS of the noise gradient."""

LEAST_PATCHES = 16
_OBJECT = 0.01
# The median of |x| for a standard normal x.
_MEDIAN = 0.6745


def noise_level(projections: torch.Tensor, weights: torch.Tensor | None = None) -> float:
    """Return the standard deviation of the noise in projections.

    The median of |d| / 0.6745 over patches of 3 x 3 pixels, all of them above 1 % of the largest value, where
    d, a sixth of the second difference along u of the second difference along v, has the variance of white
    noise (J. Immerkaer, "Fast noise variance estimation", Comput. Vis. Image Underst. 64, 1996). Whatever is
    linear along v or along u drops out, and the median leaves the few patches on edges out. Where detail of
    the size of a pixel outweighs the noise, the level comes out too high.

    Parameters
    ----------
    projections : torch.Tensor
        Line integrals, (view, v, u).
    weights : torch.Tensor, optional
        Inverse variances, (view, v, u). Then d is divided by what they expect of it, and about 1 is returned
        if they are right. A pixel of weight zero is left out.

    Returns
    -------
    float
        In the units of the projections; with weights, relative to what they say.

    Raises
    ------
    DuotomoError
        If fewer than 16 patches lie behind the object.

    Examples
    --------
    >>> noise = 0.02 * torch.randn(2, 80, 90, generator=torch.Generator().manual_seed(0))
    >>> abs(noise_level(1.0 + noise) / 0.02 - 1) < 0.05
    True
    """
    if min(projections.shape[1:]) < 3:
        raise _too_few(0)
    used = None if weights is None else weights > 0
    # Pixels of weight zero may hold anything.
    values = projections if used is None else torch.where(used, projections, projections.new_zeros(()))
    chosen = values > _OBJECT * float(values.max())
    for axis in (1, 2):
        n = chosen.shape[axis] - 2
        chosen = chosen.narrow(axis, 0, n) & chosen.narrow(axis, 1, n) & chosen.narrow(axis, 2, n)
    differences = (values.diff(n=2, dim=1).diff(n=2, dim=2) / 6)[chosen]
    if len(differences) < LEAST_PATCHES:
        raise _too_few(len(differences))
    if weights is not None and used is not None:
        # Where a weight is zero the patch is left out anyway; the one avoids a division by it.
        variance = torch.where(used, weights, torch.ones_like(weights)).reciprocal_()
        for axis in (1, 2):
            n = variance.shape[axis] - 2
            outer = variance.narrow(axis, 0, n) + variance.narrow(axis, 2, n)
            variance = outer.add_(variance.narrow(axis, 1, n), alpha=4)
        differences = differences / (variance[chosen] / 36).sqrt_()
    return float(differences.abs().median()) / _MEDIAN


def total_variation_weight(
    projector: LinearOperator,
    sigma: float,
    weights: torch.Tensor | None = None,
    *,
    kappa: float = KAPPA,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> float:
    """Return the weight of total variation that balances `kappa` times the RMS of the noise gradient.

    `kappa * rms over voxels of A^T W n`, n white noise of standard deviation sigma, or sigma / sqrt(w) with
    weights `W = diag(w)`: the gradient of the misfit that noise leaves at the true volume. The gradient of
    total variation is about 1. One application of the adjoint, to noise that is always the same.

    Parameters
    ----------
    projector : LinearOperator
        A.
    sigma : float
        Standard deviation of the noise, from `noise_level`.
    weights : torch.Tensor, optional
        Inverse variances, of the projector's range.
    kappa : float
        Factor.
    device, dtype
        Where and in which precision the noise is made; without weights only, which have their own.

    Returns
    -------
    float
        In the units of the misfit's gradient.

    Raises
    ------
    DuotomoError
        If sigma or kappa is negative or not finite.

    Examples
    --------
    >>> from duotomo.operators import Weighting
    >>> A = Weighting(torch.full((50, 50), 3.0))
    >>> round(total_variation_weight(A, 0.1), 1), round(total_variation_weight(A, 0.1, kappa=10.0))
    (0.3, 3)
    """
    if not 0 <= sigma < math.inf or not 0 <= kappa < math.inf:
        raise DuotomoError(
            f"total_variation_weight: expected sigma >= 0 and kappa >= 0, both finite; got {sigma} and "
            f"{kappa}. sigma comes from noise_level."
        )
    if weights is not None:
        device, dtype = weights.device, weights.dtype
    generator = torch.Generator(device=device).manual_seed(0)
    noise = sigma * torch.randn(projector.range, generator=generator, device=device, dtype=dtype)
    if weights is not None:
        noise *= torch.sqrt(weights)
    gradient = projector.adjoint(noise)
    norm = float(torch.linalg.vector_norm(gradient, dtype=torch.float64))
    return kappa * norm / math.sqrt(gradient.numel())


def _too_few(n_patches: int) -> DuotomoError:
    return DuotomoError(
        f"noise_level: expected at least {LEAST_PATCHES} patches of 3 x 3 pixels behind the object; got "
        f"{n_patches}. Give the weight of total variation, tv_weight, yourself."
    )
