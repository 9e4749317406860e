"""An objective of a part of a longer vector."""

from __future__ import annotations

import math

import torch

from duotomo.errors import ShapeError
from duotomo.objectives.norms import Scalar
from duotomo.objectives.objective import Objective, Pending, Product


class Embedded(Pending):
    """Objective of a part of a vector, `F(x[start : start + n])`, such as a prior in a joint objective.

    The argument x is (length,); its n elements from `start` on are reshaped to the argument of F.

    Parameters
    ----------
    objective : Objective
        F, whose argument has n elements.
    length : int
        Elements of x.
    start : int
        Index of the first element that F depends on.

    Raises
    ------
    ShapeError
        If the part, `x[start : start + n]`, does not lie within x.

    Examples
    --------
    >>> from duotomo.geometry import VolumeGrid
    >>> from duotomo.objectives.priors import Tikhonov
    >>> energy = Tikhonov(VolumeGrid.on_detector((1, 1, 2), (1.0, 1.0, 1.0)))
    >>> Embedded(energy, length=4, start=1).value_and_gradient(torch.tensor([9.0, 3.0, 4.0, 9.0]))
    (12.5, tensor([0., 3., 4., 0.]))
    """

    axes = ("element",)

    def __init__(self, objective: Objective, *, length: int, start: int) -> None:
        stop = start + math.prod(objective.shape)
        if not 0 <= start <= stop <= length:
            raise ShapeError(
                f"Embedded: expected {objective!r} to lie within a row of {length}; got elements {start} to "
                f"{stop}. Check start, and the shape the objective was built for."
            )
        self.objective, self.start, self.stop = objective, start, stop
        self.shape, self.operators = (length,), objective.operators

    def value(self, x: torch.Tensor) -> float:
        return self.objective.value(self._part(x))

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        value, slope = self.objective.evaluate(self._part(x))
        return value, self._whole(slope, x)

    def add_gradient(self, x: torch.Tensor, total: torch.Tensor, factor: float = 1.0) -> Scalar:
        own = total[self.start : self.stop].view(self.objective.shape)
        return self.objective.add_gradient(self._part(x), own, factor)

    def curvature(self, x: torch.Tensor) -> Product:
        product = self.objective.curvature(self._part(x))
        return lambda d: self._whole(product(self._part(d)), d)

    def _part(self, x: torch.Tensor) -> torch.Tensor:
        self.check(x)
        return x[self.start : self.stop].reshape(self.objective.shape)

    def _whole(self, part: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        whole = torch.zeros_like(like)
        whole[self.start : self.stop] = part.flatten()
        return whole
