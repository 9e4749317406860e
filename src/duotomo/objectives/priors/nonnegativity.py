"""Attenuation is not negative."""

from __future__ import annotations

import torch

from duotomo.geometry import VolumeGrid
from duotomo.objectives.norms import half_norm_sq
from duotomo.objectives.objective import Objective, Product


class Nonnegativity(Objective):
    """`F(f) = 1/2 |min(f, 0)|^2`: a quadratic penalty on negative attenuation, which allows small values.

    The gradient has kinks where f is zero; the curvature is one of its generalised derivatives there, as a
    semismooth Newton method needs.

    Parameters
    ----------
    grid : VolumeGrid
        Grid of the volume, f, (z, y, x).

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((1, 1, 2), (1.0, 1.0, 1.0))
    >>> Nonnegativity(grid).value_and_gradient(torch.tensor([[[3.0, -4.0]]]))
    (8.0, tensor([[[ 0., -4.]]]))
    """

    axes = ("z", "y", "x")

    def __init__(self, grid: VolumeGrid) -> None:
        self.grid, self.shape = grid, grid.shape

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.check(x)
        below = x.clamp(max=0)
        return half_norm_sq(below), below

    def curvature(self, x: torch.Tensor) -> Product:
        """Return `d -> d` where x is negative, zero elsewhere."""
        self.check(x)
        negative = x < 0

        def product(d: torch.Tensor) -> torch.Tensor:
            self.check(d, "d")
            return d * negative

        return product
