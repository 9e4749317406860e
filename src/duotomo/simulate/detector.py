"""What a detector counts: scatter and blur of the intensity that reaches it, and photons."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition

MOST_COUNTED = 1e8
"""Above this mean, counts are drawn from the normal distribution, which is then as good as Poisson's."""

SCATTER_SPREAD_MM = 20.0
"""Standard deviation of the place where a scattered photon lands. Chosen here: a few centimetres is usual."""


def check_detector(where: str, *, photons: float, blur_mm: float, scatter: float) -> None:
    """Raise unless a detector can have these properties."""
    if not photons > 0:
        raise DuotomoError(f"{where}: expected photons > 0; got {photons}. Give counts per pixel.")
    if not 0 <= blur_mm < math.inf:
        raise DuotomoError(
            f"{where}: expected blur_mm >= 0 and finite; got {blur_mm}. Give a standard deviation in mm."
        )
    if not 0 <= scatter < 1:
        raise DuotomoError(
            f"{where}: expected 0 <= scatter < 1; got {scatter}. Give the scattered share of what arrives, "
            f"S / (S + P); a scatter-to-primary ratio r is the share r / (1 + r)."
        )


def detect(
    line_integrals: torch.Tensor,
    acquisition: Acquisition,
    *,
    generator: torch.Generator,
    photons: float,
    blur_mm: float = 0.0,
    scatter: float = 0.0,
) -> torch.Tensor:
    """Return noisy line integrals, (view, v, u), float32: `-log(max(n, 1) / photons)`, n Poisson.

    The mean of n is `photons * B(P + S)` with `P = exp(-p)`, scatter S as in `scattered`, blur B as in
    `blurred`. line_integrals: p, (view, v, u).

    >>> from duotomo.geometry import paper
    >>> acquisition = paper().bin(32)
    >>> air = torch.zeros(acquisition.shape)
    >>> seen = detect(air, acquisition, generator=torch.Generator().manual_seed(0), photons=1e6)
    >>> bool(seen.abs().max() < 0.01)
    True
    """
    intensity = torch.exp(-line_integrals.double())
    spacing_mm = acquisition.pixel_spacing_mm
    if scatter > 0:
        intensity = intensity + scattered(line_integrals.double(), spacing_mm, share=scatter)
    if blur_mm > 0:
        intensity = blurred(intensity, spacing_mm, blur_mm)
    counts = count(photons * intensity, generator)
    return -torch.log(counts.clamp(min=1) / photons).float()


def scattered(line_integrals: torch.Tensor, spacing_mm: tuple[float, float], *, share: float) -> torch.Tensor:
    """Return the scattered intensity, smooth and added to the primary one, (view, v, u).

    `S = c G(p exp(-p))`: a ray scatters as often as it meets matter, and G spreads that over the detector, a
    Gaussian of `SCATTER_SPREAD_MM`. In each view c makes the scattered share of what arrives behind the
    object, `sum p S / sum p (S + P)`, equal to `share`; the weight p leaves open beam out, and rims that are
    hardly there. Nothing in the beam scatters nothing.

    line_integrals: p, (view, v, u), float64. spacing_mm: of the pixels, (v, u).

    >>> p = torch.full((1, 8, 8), 2.0, dtype=torch.float64)
    >>> s = scattered(p, (1.0, 1.0), share=0.5)
    >>> bool(torch.allclose(s, torch.exp(-p)))
    True
    """
    primary = torch.exp(-line_integrals)
    shape = blurred(line_integrals * primary, spacing_mm, SCATTER_SPREAD_MM)
    primary_behind = (line_integrals * primary).sum((-2, -1), keepdim=True)
    shape_behind = (line_integrals * shape).sum((-2, -1), keepdim=True)
    factor = share / (1 - share) * primary_behind / shape_behind
    return torch.where(shape_behind > 0, factor * shape, 0.0)


def blurred(images: torch.Tensor, spacing_mm: tuple[float, float], sigma_mm: float) -> torch.Tensor:
    """Return images convolved with the discrete Gaussian of standard deviation `sigma_mm`, mirrored at edges.

    Along each axis the transfer function is `exp(s^2 (cos w - 1))`, s in pixels: its kernel `exp(-s^2)
    I_k(s^2)` is positive, sums to one and has the variance s^2 exactly, for any s (Lindeberg 1990). With the
    edges mirrored it is a symmetric matrix, so that the sum of an image stays what it was.

    images: (view, v, u). spacing_mm: (v, u).

    >>> dot = torch.zeros(1, 9, 9)
    >>> dot[0, 4, 4] = 1.0
    >>> float(blurred(dot, (1.0, 1.0), 1.0).sum().round(decimals=5))
    1.0
    """
    sigma = [sigma_mm / pixel_mm for pixel_mm in spacing_mm]
    # One view at a time: the spectra of a whole clinical scan would take several times its memory.
    return torch.stack([_blurred_along(_blurred_along(image, 0, sigma[0]), 1, sigma[1]) for image in images])


def _blurred_along(image: torch.Tensor, axis: int, sigma: float) -> torch.Tensor:
    n = image.shape[axis]
    angle = torch.arange(n + 1, device=image.device, dtype=image.dtype) * (math.pi / n)
    transfer = torch.exp(sigma**2 * (torch.cos(angle) - 1))
    spectrum = torch.fft.rfft(torch.cat([image, image.flip(axis)], dim=axis), dim=axis)
    spectrum *= transfer if axis == 1 else transfer[:, None]
    soft: torch.Tensor = torch.fft.irfft(spectrum, n=2 * n, dim=axis).narrow(axis, 0, n)
    # Rounding leaves values of about -1e-17 where there is nothing.
    return soft.clamp(min=0.0)


def count(mean: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return Poisson counts of these means, as float64."""
    if float(mean.max()) <= MOST_COUNTED:
        return torch.poisson(mean, generator=generator)
    # On a GPU, torch.poisson counts in 32 bits and silently stops at 2^32.
    many = mean > MOST_COUNTED
    few = torch.poisson(torch.where(many, 0.0, mean), generator=generator)
    spread = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    return torch.where(many, mean + torch.sqrt(mean) * spread, few)
