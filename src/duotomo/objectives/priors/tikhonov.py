"""Nearness to a volume that is expected."""

from __future__ import annotations

import torch

from duotomo.errors import check_same, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.objectives.norms import half_norm_sq
from duotomo.objectives.objective import Objective, Product


class Tikhonov(Objective):
    """`F(f) = 1/2 |f - f_0|^2`. For differences between voxels, see `Smoothness`.

    Parameters
    ----------
    grid : VolumeGrid
        Grid of the volume, f, (z, y, x).
    expected : torch.Tensor, optional
        f_0, (z, y, x) in 1/mm; zero unless given.

    Raises
    ------
    ShapeError, DtypeError, NonFiniteError
        If f_0 is no volume on the grid.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((1, 1, 2), (1.0, 1.0, 1.0))
    >>> Tikhonov(grid).value_and_gradient(torch.tensor([[[3.0, 4.0]]]))
    (12.5, tensor([[[3., 4.]]]))
    """

    axes = ("z", "y", "x")

    def __init__(self, grid: VolumeGrid, expected: torch.Tensor | None = None) -> None:
        self.grid, self.expected, self.shape = grid, expected, grid.shape
        if expected is not None:
            check_tensor(
                "Tikhonov", "expected", expected, shape=grid.shape, axes=("z", "y", "x"), batch_ok=False
            )

    def check(self, x: torch.Tensor, name: str = "x") -> None:
        super().check(x, name)
        if self.expected is not None:
            check_same("Tikhonov", name, x, device=self.expected.device, dtype=self.expected.dtype)

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.check(x)
        left = x.clone() if self.expected is None else x - self.expected
        return half_norm_sq(left), left

    def curvature(self, x: torch.Tensor) -> Product:
        """Return the identity, the Hessian wherever x is."""
        return torch.clone
