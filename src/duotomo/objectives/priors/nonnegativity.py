"""Attenuation is not negative."""

from __future__ import annotations

import torch

from duotomo.geometry import VolumeGrid
from duotomo.kernels.dispatch import fused_priors
from duotomo.objectives.norms import Scalar, pending_half_norm_sq
from duotomo.objectives.objective import Pending, Product


class Nonnegativity(Pending):
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

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        self.check(x)
        below = x.clamp(max=0)
        return pending_half_norm_sq(below), below

    def add_gradient(self, x: torch.Tensor, total: torch.Tensor, factor: float = 1.0) -> Scalar:
        kernels = fused_priors(x.device)
        if kernels is None:
            return super().add_gradient(x, total, factor)
        self.check(x)
        value: torch.Tensor = kernels.add_negative(x.contiguous(), total, factor)
        return value

    def curvature(self, x: torch.Tensor) -> Product:
        """Return `d -> d` where x is negative, zero elsewhere."""
        self.check(x)
        negative = x < 0

        def product(d: torch.Tensor) -> torch.Tensor:
            self.check(d, "d")
            return d * negative

        return product
