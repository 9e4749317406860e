"""How noisy the projections are, and how much total variation that asks for: from the data alone."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError
from duotomo.operators import LinearOperator
from duotomo.reconstruct.photon_noise import LOW, OBJECT, fit_noise, patch_squares

KAPPA = 0.4
"""The weight of total variation, in units of the RMS of the gradient of noise and mismatch.

Of 0.2, 0.4 and 0.6, tried on four breasts of 11 views at 3 mm voxels with pixels combined to match, 0.6 was
best on three and 0.2 on one; 0.4 was within 9 % of the best on all of them."""

LEAST_PATCHES = 16
# The median of |x| for a standard normal x.
_MEDIAN = 0.6745


def noise_level(projections: torch.Tensor, weights: torch.Tensor | None = None) -> float:
    """Return the standard deviation of the noise in projections, anatomy apart.

    The variance is `exp(p) / photons`, or the same everywhere where the data contradict that, or with
    weights a multiple of `1 / w`; the RMS behind the object is returned. It is measured by differences along
    u of differences along v, which see white noise at full strength and smooth anatomy hardly: in air, if
    some is in the picture and its values are as they were measured, and otherwise in that eighth of the line
    integrals where it is lowest relative to the model. There differences of order 2 and 6 are compared: what
    they do not see alike is anatomy.

    Where air is seen, noise that neighbouring pixels share, as behind a scintillator, counts with its power
    in blocks of up to 3 x 3 pixels. Without air such noise is taken for anatomy in part, and the level comes
    out too low. Without air, detail of the size of a pixel is taken for noise, and the level comes out too
    high: on breasts of 1 mm pixels by a few per cent, binned to 3 mm by a factor of about 2.

    Parameters
    ----------
    projections : torch.Tensor
        Line integrals, (view, v, u).
    weights : torch.Tensor, optional
        Inverse variances, (view, v, u). Then about 1 is returned if they are right. A pixel of weight zero is
        left out.

    Returns
    -------
    float
        In the units of the projections; with weights, relative to what they say.

    Raises
    ------
    DuotomoError
        If fewer than 16 patches of 3 x 3 pixels lie behind the object.

    Examples
    --------
    >>> noise = 0.02 * torch.randn(2, 80, 90, generator=torch.Generator().manual_seed(0))
    >>> abs(noise_level(1.0 + noise) / 0.02 - 1) < 0.1
    True
    """
    values, used = _usable(projections, weights)
    fit = fit_noise(values, used, weights)
    if fit is None:
        return _of_few(values, used, weights)
    if weights is not None or fit.counted is False:
        return math.sqrt(fit.factor)
    behind = values[used & (values > OBJECT * float(values.max()))]
    return math.sqrt(fit.factor * float(torch.exp(behind).mean(dtype=torch.float64)))


def estimated_photons(projections: torch.Tensor) -> float | None:
    """Return how many photons a pixel in air counts, from the noise of its logarithm, `exp(p) / photons`.

    Noise is told from anatomy as by `noise_level`; with electronic noise, blur or gain, it is the number of
    photons that would leave as much noise. For `duotomo.objectives.photon_weights`.

    Parameters
    ----------
    projections : torch.Tensor
        Line integrals, (view, v, u).

    Returns
    -------
    float or None
        Photons of a pixel; None where the data do not tell: there are fewer than 500 patches of 7 x 7 pixels
        behind the object, the noise does not grow with p as that of photons does, or there is none.

    Examples
    --------
    >>> from duotomo.geometry import VolumeGrid, paper
    >>> from duotomo.phantoms import Ellipsoid
    >>> from duotomo.simulate import scan
    >>> grid = VolumeGrid.on_detector((16, 24, 24), (3.0, 3.0, 3.0))
    >>> ball = Ellipsoid(center_mm=(0.0, 36.0, 24.0), radii_mm=(30.0, 30.0, 20.0), value=0.05)
    >>> machine = paper(detector_shape=(80, 120))
    >>> data = scan(ball, grid, machine, generator=torch.Generator().manual_seed(0), photons=2e4)
    >>> abs(estimated_photons(data) / 2e4 - 1) < 0.1
    True
    """
    fit = fit_noise(*_usable(projections, None), None)
    return 1 / fit.factor if fit is not None and fit.counted and fit.factor > 0 else None


def _usable(projections: torch.Tensor, weights: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the projections, zero where the weights are, and which pixels count."""
    if weights is None:
        return projections, torch.ones_like(projections, dtype=torch.bool)
    used = weights > 0
    # Pixels of weight zero may hold anything.
    return torch.where(used, projections, projections.new_zeros(())), used


def _of_few(values: torch.Tensor, used: torch.Tensor, weights: torch.Tensor | None) -> float:
    """Return the level from few patches, of 3 x 3 pixels each: their median, whatever anatomy adds.

    J. Immerkaer, "Fast noise variance estimation", Comput. Vis. Image Underst. 64, 1996.
    """
    chosen = used & (values > OBJECT * float(values.max()))
    if min(values.shape[1:]) < LOW + 1:
        raise _too_few(0)
    shape = torch.ones_like(values) if weights is None else torch.where(used, weights, 1.0).reciprocal()
    squares = patch_squares(values, chosen, shape, LOW)[1]
    if len(squares) < LEAST_PATCHES:
        raise _too_few(len(squares))
    return float(squares.median().sqrt()) / _MEDIAN


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
    >>> round(total_variation_weight(A, 0.1, kappa=1.0), 1), round(total_variation_weight(A, 0.1, kappa=10.0))
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
