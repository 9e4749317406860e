"""How well a warped volume agrees with another, as a function of the transform's parameters."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch

from duotomo.errors import GeometryError, check_same, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.objectives.norms import half_norm_sq, normal_equations
from duotomo.objectives.objective import Objective, Product
from duotomo.objectives.projection_misfit import check_not_negative
from duotomo.transforms import Transform


class ImageMisfit(Objective):
    """A misfit between `T(params) f` and g, both in the moving frame: what a registration minimises.

    x is a row of parameters, (n_params,), float64 on the CPU; the volumes lie on any device. Where the
    transform is not defined, because its matrix is singular or the grids miss each other, the value is
    infinite and the gradient zero.

    volume: f, (z, y, x) on `reference`. target: g, (z, y, x) on `moving`; both grids are the transform's
    unless given. mask: how much each voxel of the target counts, zero for not at all; None for 1.
    central_step: differentiate the warp by central differences of this step, in parameters; None for exactly.

    A new one writes `compare` and `image_curvature`.
    """

    axes = ("parameter",)

    def __init__(
        self,
        transform: Transform,
        volume: torch.Tensor,
        target: torch.Tensor,
        *,
        reference: VolumeGrid | None = None,
        moving: VolumeGrid | None = None,
        mask: torch.Tensor | None = None,
        central_step: float | None = None,
    ) -> None:
        where, axes = type(self).__name__, ("z", "y", "x")
        self.transform, self.volume, self.target, self.mask = transform, volume, target, mask
        self.reference = reference or transform.grid
        self.moving = moving or self.reference
        self.central_step = checked_step(where, central_step)
        self.shape = (transform.n_params,)
        check_tensor(where, "volume", volume, shape=self.reference.shape, axes=axes, batch_ok=False)
        others = [("target", target)] if mask is None else [("target", target), ("mask", mask)]
        for name, tensor in others:
            check_tensor(where, name, tensor, shape=self.moving.shape, axes=axes, batch_ok=False)
            check_same(where, name, tensor, device=volume.device, dtype=volume.dtype)
        if mask is not None:
            check_not_negative(where, "mask", mask)

    @abstractmethod
    def compare(self, image: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Return the misfit of an image, (z, y, x), and its gradient in the image; it may overwrite both."""

    @abstractmethod
    def image_curvature(self, image: torch.Tensor) -> Product:
        """Return Gauss-Newton's curvature of the misfit in the image, at `image`."""

    def warped(self, params: torch.Tensor) -> torch.Tensor:
        """Return `T(params) f`, (z, y, x) on the moving grid."""
        warp = self.transform.warp(params, self.reference, self.moving)
        return warp.forward(self.volume[None])[0]

    def value(self, x: torch.Tensor) -> float:
        self.check(x)
        try:
            return self.compare(self.warped(x))[0]
        except GeometryError:
            return math.inf

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.check(x)
        try:
            value, slope = self.compare(self.warped(x))
            return value, self._pulled_back(x, slope)
        except GeometryError:
            return math.inf, torch.zeros_like(x)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return `d -> J^T M J d`, J the derivative of the warp, M the misfit's curvature in the image."""
        self.check(x)
        image_curvature = self.image_curvature(self.warped(x))

        def product(d: torch.Tensor) -> torch.Tensor:
            along = self.transform.jvp(
                x, self.volume, d, self.reference, self.moving, central_step=self.central_step
            )
            return self._pulled_back(x, image_curvature(along))

        return product

    def _pulled_back(self, params: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        gradient = self.transform.vjp(
            params, self.volume, image, self.reference, self.moving, central_step=self.central_step
        )
        return gradient.to(params)


class SumOfSquares(ImageMisfit):
    """`F(params) = 1/2 sum over voxels of m (T(params) f - g)^2`, m the mask.

    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((1, 1, 4), (1.0, 1.0, 1.0))
    >>> f, g = torch.tensor([[[[0.0, 2.0, 4.0, 0.0]]], [[[2.0, 4.0, 0.0, 0.0]]]])
    >>> misfit = SumOfSquares(Translation(grid), f, g)
    >>> round(misfit.value(torch.zeros(3)), 6), misfit.value(torch.tensor([1.0, 0.0, 0.0]))
    (12.0, 0.0)
    """

    def residual(self, params: torch.Tensor) -> torch.Tensor:
        """Return `sqrt(m) (T(params) f - g)`, whose squares F sums."""
        residual = self.warped(params).sub_(self.target)
        return residual if self.mask is None else residual.mul_(self.mask.sqrt())

    def compare(self, image: torch.Tensor) -> tuple[float, torch.Tensor]:
        residual = image.sub_(self.target)
        if self.mask is None:
            return half_norm_sq(residual), residual
        roots = self.mask.sqrt()
        value = half_norm_sq(residual.mul_(roots))
        return value, residual.mul_(roots)

    def image_curvature(self, image: torch.Tensor) -> Product:
        mask = self.mask
        return (lambda d: d) if mask is None else lambda d: d.mul_(mask)

    def normal_equations(self, params: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """Return F, its gradient and `J^T m J`, (n_params, n_params), from one image per parameter."""
        self.check(params)
        images = self.transform.derivative_images(
            params, self.volume, self.reference, self.moving, central_step=self.central_step
        )
        if self.mask is not None:
            images *= self.mask.sqrt()
        return normal_equations(images, self.residual(params))


def checked_step(where: str, central_step: float | None) -> float | None:
    """Return the step; raise unless it is None or positive."""
    # Here, because a GeometryError of the transform's is taken for parameters that go too far.
    if central_step is not None and not 0 < central_step < math.inf:
        raise GeometryError(
            f"{where}: expected a positive central_step; got {central_step}. Use 0.01, or None for the "
            f"exact derivative."
        )
    return central_step
