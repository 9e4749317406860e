"""What a covariance is made of: the curvature along some directions, and the covariance of the slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from duotomo.methods.level import Level
from duotomo.methods.profiled_curvature import ProfiledCurvature
from duotomo.methods.solves import Rows

Form = Literal["sandwich", "laplace", "noise"]

BLOCK_MM = 24.0
"""Edge of a block of the detector whose residuals, in all views, count as one draw."""

BLOCKS = {"few": 1.9, "many": 0.35}
"""Weight of the slopes' covariance by blocks of residuals: what goes together far, and over views."""

SPECTRUM = {"few": 5.0, "many": 1.1}
"""Weight of that by the spectrum of the residuals: what goes together near, in the same way everywhere.

Few parameters are taken at full resolution, where the volume explains part of what residuals should show;
many on voxels twice as large, which explain less than those of the run. Fitted on 121 motions of five women.
"""

_FFTS = 32
"""Transforms at once."""

_SLAB = 65536
"""Columns that are taken to float64 at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SandwichParts:
    """Matrices of some directions, whose covariance is `S^-1 M S^-1`.

    Parameters
    ----------
    curvature : torch.Tensor
        S, with the volume profiled out, (direction, direction), float64.
    meat : torch.Tensor
        M, the covariance of the slope, (direction, direction), float64.
    """

    curvature: torch.Tensor = field(repr=False)
    meat: torch.Tensor = field(repr=False)

    @classmethod
    def of(
        cls, level: Level, profiled: ProfiledCurvature, columns: Rows, form: Form, number: str
    ) -> SandwichParts:
        """Return those of columns that were solved for; number: "few" or "many" parameters."""
        rays = columns["rays"]
        white, of_priors = _gram(rays, rays), _gram(columns["volumes"], columns["priors"])
        own = profiled.split(rays)
        if form == "sandwich":
            residuals = profiled.split(profiled.residuals())
            of_blocks = _block_meat(level, own, residuals)
            meat = BLOCKS[number] * of_blocks + SPECTRUM[number] * _spectral_meat(own, residuals)
        else:
            meat = _noise_meat(level, own)
        return cls(curvature=white + (of_priors + of_priors.T) / 2, meat=meat)


def _noise_meat(level: Level, rays: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the covariance of the slopes for white noise: that of each visit, or 1 with weights.

    rays: columns of each visit, (direction, view, v, u); here and below.
    """
    parts = [part.flatten(1) for part in rays]
    grams = [noise**2 * _gram(part, part) for part, noise in zip(parts, level.noises, strict=True)]
    return torch.stack(grams).sum(dim=0)


def _block_meat(
    level: Level, rays: Sequence[torch.Tensor], residuals: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Return the sum over blocks of the detector of the products of what each adds to the slopes."""
    slopes = []
    for own, residual, visit in zip(rays, residuals, level.visits, strict=True):
        edges = [max(1, round(BLOCK_MM / mm)) for mm in visit.acquisition.pixel_spacing_mm]
        added = (own * residual).sum(dim=1)
        blocks = torch.nn.functional.avg_pool2d(added[None], edges, ceil_mode=True, divisor_override=1)[0]
        slopes.append(blocks.flatten(1))
    joined = torch.cat(slopes, dim=1)
    return _gram(joined, joined)


def _spectral_meat(rays: Sequence[torch.Tensor], residuals: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the covariance of the slopes for stationary noise with the spectrum of the residuals."""
    total = torch.zeros(len(rays[0]), len(rays[0]), dtype=torch.float64)
    axes = (-3, -2, -1)
    for own, residual in zip(rays, residuals, strict=True):
        amplitude = torch.fft.fftn(residual).abs() / residual.numel()
        shaped = []
        for start in range(0, len(own), _FFTS):
            spectrum = torch.fft.fftn(own[start : start + _FFTS], dim=axes) * amplitude
            shaped.append(torch.view_as_real(spectrum).flatten(1))
        joined = torch.cat(shaped)
        total += _gram(joined, joined)
    return total


def _gram(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the products of rows, float64 on the CPU."""
    if one.device.type == "cpu" and one.dtype == torch.float32:
        total = torch.zeros(len(one), len(other), dtype=torch.float64)
        for start in range(0, one.shape[1], _SLAB):
            own = slice(start, start + _SLAB)
            total += one[:, own].double() @ other[:, own].double().T
        return total
    return (one.double() @ other.double().T).cpu()
