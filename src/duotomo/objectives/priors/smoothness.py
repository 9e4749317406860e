"""Small differences between neighbours."""

from __future__ import annotations

import torch

from duotomo.geometry import VolumeGrid
from duotomo.objectives.norms import half_norm_sq
from duotomo.objectives.objective import Objective, Product
from duotomo.objectives.priors.differences import Differences


class Smoothness(Objective):
    """`F(f) = 1/2 |D f|^2`, D f the weighted differences of `TotalVariation`: Tikhonov's of first order.

    f: (z, y, x).

    >>> grid = VolumeGrid.on_detector((1, 1, 3), (1.0, 1.0, 1.0))
    >>> Smoothness(grid).value_and_gradient(torch.tensor([[[0.0, 2.0, 2.0]]]))
    (2.0, tensor([[[-2.,  2.,  0.]]]))
    """

    axes = ("z", "y", "x")

    def __init__(self, grid: VolumeGrid, depth_weight: float = 1.0) -> None:
        self.grid, self.depth_weight, self.shape = grid, depth_weight, grid.shape
        self._differences = Differences(grid, depth_weight=depth_weight, where="Smoothness")

    def value(self, x: torch.Tensor) -> float:
        self.check(x)
        return self._half_norm_sq(self._differences.of(x))

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.check(x)
        parts = self._differences.of(x)
        return self._half_norm_sq(parts), self._differences.transposed(parts)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return `d -> D^T D d`, the Hessian wherever x is."""

        def product(d: torch.Tensor) -> torch.Tensor:
            self.check(d, "d")
            return self._differences.transposed(self._differences.of(d))

        return product

    def _half_norm_sq(self, parts: tuple[torch.Tensor, ...]) -> float:
        weighted = zip(parts, self._differences.scales_sq, strict=True)
        return sum(scale_sq * half_norm_sq(part) for part, scale_sq in weighted)
