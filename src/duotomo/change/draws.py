"""What visits that did not change may differ by: residuals of other signs, and tissue that is displaced."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from duotomo.geometry import Acquisition, VolumeGrid

DISPLACED_MM = (8.0, 8.0, 8.0, 16.0)
"""Lengths over which displacements go together, in turn: what control points some centimetres apart leave."""

ALIKE_MM = 6.0
"""Distance on the detector over which rays keep their sign together, in all views."""


def drawn_factors(
    residuals: torch.Tensor, acquisition: Acquisition, n: int, generator: torch.Generator
) -> torch.Tensor:
    """Return smooth random fields of variance 1, (draw, 1, v, u), that residuals are multiplied by.

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
    factors: torch.Tensor = torch.fft.ifft2(spectrum).real
    rms = factors.square().mean(dim=(-2, -1), keepdim=True).sqrt()
    return (factors / rms).to(residuals)


def displaced_volumes(
    volume: torch.Tensor, grid: VolumeGrid, n: int, generator: torch.Generator
) -> Iterator[torch.Tensor]:
    """Give by how much a volume changes, (z, y, x), where its tissue moves by 1 mm or so, at random.

    Parameters
    ----------
    volume : torch.Tensor
        (z, y, x).
    grid : VolumeGrid
        Of it.
    n : int
        How many.
    generator : torch.Generator
        Of the random numbers, on the CPU; nothing else may draw from it meanwhile.
    """
    slopes = torch.gradient(volume, spacing=grid.spacing_mm)
    for number in range(n):
        length_mm = DISPLACED_MM[number % len(DISPLACED_MM)]
        fields = [_smooth(grid, length_mm, generator).to(volume) for _ in slopes]
        yield torch.stack([one * along for one, along in zip(fields, slopes, strict=True)]).sum(dim=0)


def _smooth(grid: VolumeGrid, length_mm: float, generator: torch.Generator) -> torch.Tensor:
    """Return a smooth random field of mean square 1, (z, y, x)."""
    spectrum = torch.fft.fftn(torch.randn(grid.shape, generator=generator))
    for axis, (n, edge_mm) in enumerate(zip(grid.shape, grid.spacing_mm, strict=True)):
        decay = 2 * (torch.pi * torch.fft.fftfreq(n) * length_mm / edge_mm) ** 2
        spectrum = spectrum * torch.exp(-decay).view([-1 if one == axis else 1 for one in range(3)])
    field: torch.Tensor = torch.fft.ifftn(spectrum).real
    return field / field.square().mean().sqrt()
