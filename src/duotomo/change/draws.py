"""Residuals as they might have been: the same size at every ray, other signs."""

from __future__ import annotations

import torch

from duotomo.geometry import Acquisition

ALIKE_MM = 6.0
"""Distance on the detector over which rays keep their sign together, in all views."""


def drawn_residuals(
    residuals: torch.Tensor, acquisition: Acquisition, n: int, generator: torch.Generator
) -> torch.Tensor:
    """Return residuals times smooth random fields of variance 1, (draw, view, v, u).

    A wild bootstrap (Wu, 1986) whose factors go together: residuals are large where edges do not fit, and
    those of neighbouring rays, and of one place in all views, have one cause.

    Parameters
    ----------
    residuals : torch.Tensor
        (view, v, u).
    acquisition : Acquisition
        Of their rays.
    n : int
        How many.
    generator : torch.Generator
        Of the random numbers, on the CPU.
    """
    shape = residuals.shape[-2:]
    white = torch.randn(n, 1, *shape, generator=generator)
    spectrum = torch.fft.fft2(white)
    for axis, (pixels, edge_mm) in enumerate(zip(shape, acquisition.pixel_spacing_mm, strict=True)):
        decay = 2 * (torch.pi * torch.fft.fftfreq(pixels) * ALIKE_MM / edge_mm) ** 2
        spectrum = spectrum * torch.exp(-decay).view((-1, 1) if axis == 0 else (1, -1))
    factors = torch.fft.ifft2(spectrum).real
    rms = factors.square().mean(dim=(-2, -1), keepdim=True).sqrt()
    drawn: torch.Tensor = (factors / rms).to(residuals) * residuals
    return drawn
