"""Few edges: the smoothed, isotropic total variation."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.objectives.objective import Objective, Product
from duotomo.objectives.priors.differences import Differences


class TotalVariation(Objective):
    """`F(f) = sum over voxels of (sqrt(|D f|^2 + e^2) - e)`, e being the smoothing.

    D f are the differences to the next voxel along z, y and x, zero at the far edge, each times (smallest
    spacing / spacing), so that voxels of any form are weighed by their true slope; along z also times
    `depth_weight`. Far below e, F is quadratic; far above, the length of edges times their height. It counts
    voxels, not millimetres.

    The curvature is that of lagged diffusivity, `D^T diag(1 / sqrt(|D f|^2 + e^2)) D`: it makes a quadratic
    that touches F at f and nowhere lies below it.

    smoothing: 1/mm, as f. f: (z, y, x).

    >>> grid = VolumeGrid.on_detector((1, 1, 4), (1.0, 1.0, 1.0))
    >>> step = torch.tensor([[[0.0, 0.0, 3.0, 3.0]]])
    >>> TotalVariation(grid, smoothing=4.0).value(step), round(TotalVariation(grid, 1e-6).value(step), 5)
    (1.0, 3.0)
    """

    axes = ("z", "y", "x")

    def __init__(self, grid: VolumeGrid, smoothing: float, depth_weight: float = 1.0) -> None:
        if not 0 < smoothing < math.inf:
            raise DuotomoError(
                f"TotalVariation: expected smoothing > 0 and finite, in 1/mm; got {smoothing}. "
                f"A hundredth of the object's attenuation keeps its edges."
            )
        self.grid, self.smoothing, self.depth_weight, self.shape = grid, smoothing, depth_weight, grid.shape
        self._differences = Differences(grid, depth_weight=depth_weight, where="TotalVariation")

    def value(self, x: torch.Tensor) -> float:
        return self._total(self.denominator(x))

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.check(x)
        parts = self._differences.of(x)
        lengths = self._lengths(parts)
        for part in parts:
            part /= lengths
        return self._total(lengths), self._differences.transposed(parts)

    def curvature(self, x: torch.Tensor) -> Product:
        diffusivity = self.denominator(x).reciprocal_()

        def product(d: torch.Tensor) -> torch.Tensor:
            self.check(d, "d")
            parts = self._differences.of(d)
            for part in parts:
                part *= diffusivity
            return self._differences.transposed(parts)

        return product

    def denominator(self, x: torch.Tensor) -> torch.Tensor:
        """Return `sqrt(|D f|^2 + e^2)`, (z, y, x)."""
        self.check(x)
        return self._lengths(self._differences.of(x))

    def _lengths(self, parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
        lengths = torch.full_like(parts[0], self.smoothing**2)
        for part, scale_sq in zip(parts, self._differences.scales_sq, strict=True):
            lengths.addcmul_(part, part, value=scale_sq)
        return lengths.sqrt_()

    def _total(self, lengths: torch.Tensor) -> float:
        # Less what a flat volume has, rounded alike: a constant then has no variation, in any precision.
        flat = float(torch.full((1,), self.smoothing**2, dtype=lengths.dtype).sqrt_())
        return float(lengths.sum(dtype=torch.float64)) - lengths.numel() * flat
