"""Small differences between neighbours."""

from __future__ import annotations

import torch

from duotomo.geometry import VolumeGrid
from duotomo.objectives.norms import half_norm_sq
from duotomo.objectives.objective import Objective, Product
from duotomo.operators import Gradient


class Smoothness(Objective):
    """`F(f) = 1/2 |D f|^2`, D f the `Gradient` of the volume: Tikhonov's of first order.

    Parameters
    ----------
    grid : VolumeGrid
        Grid of the volume, f, (z, y, x).
    depth_weight : float
        Factor of the differences along z.

    Raises
    ------
    DuotomoError
        If the depth weight is negative or not finite.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((1, 1, 3), (1.0, 1.0, 1.0))
    >>> Smoothness(grid).value_and_gradient(torch.tensor([[[0.0, 2.0, 2.0]]]))
    (2.0, tensor([[[-2.,  2.,  0.]]]))
    """

    axes = ("z", "y", "x")

    def __init__(self, grid: VolumeGrid, depth_weight: float = 1.0) -> None:
        self.grid, self.depth_weight, self.shape = grid, depth_weight, grid.shape
        self.differences = Gradient(grid, depth_weight=depth_weight)

    def value(self, x: torch.Tensor) -> float:
        self.check(x)
        return self._half_norm_sq(self.differences.unweighted(x))

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.check(x)
        parts = self.differences.unweighted(x)
        return self._half_norm_sq(parts), self.differences.weighted_transpose(parts)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return `d -> D^T D d`, the Hessian wherever x is."""

        def product(d: torch.Tensor) -> torch.Tensor:
            self.check(d, "d")
            return self.differences.weighted_transpose(self.differences.unweighted(d))

        return product

    def _half_norm_sq(self, parts: tuple[torch.Tensor, ...]) -> float:
        weighted = zip(parts, self.differences.scales_sq, strict=True)
        return sum(scale_sq * half_norm_sq(part) for part, scale_sq in weighted)
