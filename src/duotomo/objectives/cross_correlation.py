"""Normalised cross-correlation, for volumes whose values are scaled or shifted against each other."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.objectives.image_misfit import ImageMisfit
from duotomo.objectives.norms import half_norm_sq
from duotomo.objectives.objective import Product


class CrossCorrelation(ImageMisfit):
    """Normalised cross-correlation, `F(params) = 1 - <a, b>`, of a warped volume and a target.

    a and b are `T(params) f` and g less their means, and of norm 1; means and inner products are weighted by
    the mask. F is 0 where one image is the other scaled by a positive number and shifted, and at most 2.
    Since `1 - <a, b> = 1/2 |a - b|^2`, it has a Gauss-Newton curvature. The value of an image without
    contrast is infinite.

    Parameters
    ----------
    transform, volume, target, reference, moving, mask, central_step, cubic
        As for `ImageMisfit`, as are the errors that they raise.

    Raises
    ------
    DuotomoError
        If the mask is zero everywhere, or the target is constant inside it.

    Examples
    --------
    >>> from duotomo.geometry import VolumeGrid
    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((1, 1, 4), (1.0, 1.0, 1.0))
    >>> f = torch.tensor([[[0.0, 2.0, 4.0, 0.0]]])
    >>> CrossCorrelation(Translation(grid), f, 3 * f + 5).value(torch.zeros(3)) < 1e-12
    True
    """

    def prepare(self) -> None:
        mask, target = self.mask, self.target
        self._roots = None if mask is None else mask.sqrt()
        self._total = float(target.numel() if mask is None else mask.sum(dtype=torch.float64))
        if self._total == 0:
            raise DuotomoError(
                "CrossCorrelation: expected a mask that is positive somewhere; got zeros. "
                "Pass None to count every voxel."
            )
        self._goal, norm = self._normalised(target.clone())
        if norm == 0:
            raise DuotomoError(
                "CrossCorrelation: expected a target that varies inside the mask; got a constant. "
                "Nothing correlates with it; check the target and the mask."
            )

    def compare(self, image: torch.Tensor) -> tuple[float, torch.Tensor]:
        a, norm = self._normalised(image)
        if norm == 0:
            return math.inf, a.zero_()
        value = half_norm_sq(a - self._goal)
        # P (a - b) / norm, P = 1 - a a^T, and <a, a - b> = value.
        slope = a.mul_(1 - value).sub_(self._goal).div_(norm)
        return value, slope if self._roots is None else slope.mul_(self._roots)

    def image_curvature(self, image: torch.Tensor) -> Product:
        a, norm = self._normalised(image)
        if norm == 0:
            raise GeometryError(
                "CrossCorrelation: expected a warped volume that varies inside the mask; got a constant. "
                "Start from parameters whose value is finite."
            )

        def product(d: torch.Tensor) -> torch.Tensor:
            # da = P C d / norm: C takes the mean off, P what lies along a. Both are symmetric projections.
            d = self._centered(d, self._mean(d))
            d.sub_(a, alpha=float(torch.dot(a.flatten(), d.flatten()))).div_(norm**2)
            return d if self._roots is None else d.mul_(self._roots)

        return product

    def voxel_curvature(self, params: torch.Tensor) -> torch.Tensor | float:
        _, norm = self._normalised(self.warped(params))
        # Projections only take away. Without contrast there is no curvature; one of zero stops the solver.
        weight = 1 / norm**2 if norm > 0 else 0.0
        return weight if self.mask is None else self.mask * weight

    def _normalised(self, image: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Return the image less its mean, times sqrt(m), of norm 1; and its norm, zero if it is constant."""
        mean = self._mean(image)
        image = self._centered(image, mean)
        norm = float(torch.linalg.vector_norm(image, dtype=torch.float64))
        # What rounding leaves of a constant is no contrast.
        rounding = 4 * torch.finfo(image.dtype).eps * abs(mean) * math.sqrt(self._total)
        return (image.div_(norm), norm) if norm > rounding else (image, 0.0)

    def _centered(self, image: torch.Tensor, mean: float) -> torch.Tensor:
        image -= mean
        return image if self._roots is None else image.mul_(self._roots)

    def _mean(self, image: torch.Tensor) -> float:
        weighted = image if self.mask is None else image * self.mask
        return float(weighted.sum(dtype=torch.float64)) / self._total
