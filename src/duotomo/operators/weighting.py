"""Multiplication by fixed weights, one per element: `W = diag(w)`."""

from __future__ import annotations

import torch

from duotomo.errors import check_same, check_tensor
from duotomo.operators.linear import LinearOperator


class Weighting(LinearOperator):
    """`W x = w * x`, for example rays weighted by their photon statistics: `Weighting(w) @ A`.

    weights: any shape; zero leaves an element out.

    >>> Weighting(torch.tensor([1.0, 0.0, 2.0]))(torch.ones(3))
    tensor([1., 0., 2.])
    """

    def __init__(self, weights: torch.Tensor) -> None:
        check_tensor("Weighting", "weights", weights, shape=(), axes=())
        axes = tuple(f"axis {i}" for i in range(weights.ndim))
        self.weights = weights
        self.domain = self.range = tuple(weights.shape)
        self.domain_axes = self.range_axes = axes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        check_same("Weighting", "input", x, device=self.weights.device, dtype=self.weights.dtype)
        return self.weights * x

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.forward(y)
