"""A matrix as an operator."""

from __future__ import annotations

import math

import torch

from duotomo.operators import LinearOperator


class Dense(LinearOperator):
    """A matrix from `domain` to (m,) that counts its applications; after `spoiled` of them it gives NaN."""

    domain_axes = ("column",)
    range_axes = ("row",)

    def __init__(
        self, matrix: torch.Tensor, domain: tuple[int, ...] | None = None, *, spoiled: float = math.inf
    ) -> None:
        self.matrix, self.spoiled = matrix, spoiled
        self.range, self.domain = (matrix.shape[0],), domain or (matrix.shape[1],)
        if len(self.domain) == 3:
            self.domain_axes = ("z", "y", "x")
        self.applications = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._spoil(x.reshape(len(x), -1) @ self.matrix.T)

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self._spoil(y @ self.matrix).reshape(-1, *self.domain)

    def _spoil(self, result: torch.Tensor) -> torch.Tensor:
        self.applications += 1
        return result * math.nan if self.applications > self.spoiled else result
