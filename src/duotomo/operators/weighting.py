"""Multiplication by fixed weights, one per element: `W = diag(w)`."""

from __future__ import annotations

import torch

from duotomo.errors import check_finite, check_same, check_tensor
from duotomo.operators.derivatives import Tensors, is_tracked, plain
from duotomo.operators.linear import LinearOperator


class Weighting(LinearOperator):
    """`W x = w * x`, for example rays weighted by their photon statistics: `Weighting(w) @ A`.

    Parameters
    ----------
    weights : torch.Tensor
        w, of any shape; zero leaves an element out. Gradients reach them.

    Raises
    ------
    DtypeError, NonFiniteError
        If the weights are not finite numbers of single or double precision.

    Examples
    --------
    >>> Weighting(torch.tensor([1.0, 0.0, 2.0]))(torch.ones(3))
    tensor([1., 0., 2.])
    """

    def __init__(self, weights: torch.Tensor) -> None:
        check_tensor("Weighting", "weights", weights, shape=(), axes=(), finite=False)
        check_finite("Weighting", "weights", plain(weights))
        axes = tuple(f"axis {i}" for i in range(weights.ndim))
        self.weights = weights
        self.domain = self.range = tuple(weights.shape)
        self.domain_axes = self.range_axes = axes

    @property
    def tensors(self) -> Tensors:
        return (self.weights,) if is_tracked(self.weights) else ()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        check_same("Weighting", "input", x, device=self.weights.device, dtype=self.weights.dtype)
        return self.weights * x

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.forward(y)

    def tracked(self, x: torch.Tensor) -> torch.Tensor:
        # PyTorch itself can differentiate a product, in both factors.
        return self.forward(x)

    def tracked_transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.forward(y)
