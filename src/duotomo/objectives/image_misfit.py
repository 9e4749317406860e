"""Misfits between a warped volume and another volume, as functions of the transform's parameters."""

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
    """Misfit between `T(params) f` and g, both in the moving frame, which a registration minimises.

    The argument x is the parameters, (n_params,), float64 on the CPU; the volumes lie on any device. Where
    the transform is not defined, because its matrix is singular or the grids do not overlap, the value is
    infinite and the gradient zero.

    A new misfit implements `compare`, `image_curvature` and `voxel_curvature`, and `prepare` where it has
    something to check or to compute once.

    Parameters
    ----------
    transform : Transform
        T, moving_to_reference.
    volume : torch.Tensor
        f, (z, y, x) on `reference`, in 1/mm.
    target : torch.Tensor
        g, (z, y, x) on `moving`, in 1/mm, on the device of the volume.
    reference, moving : VolumeGrid, optional
        Grids of f and g; both are the transform's unless given, and `moving` is like `reference`.
    mask : torch.Tensor, optional
        Weight m of each voxel of the target, (z, y, x), without unit; zero leaves a voxel out. 1 unless
        given.
    central_step : float, optional
        Differentiate the warp by central differences of this step, in parameters; exactly unless given.
    cubic : bool
        Interpolate by Keys' cubic convolution instead of linearly. Linear interpolation blurs a volume that
        is moved by half a voxel, which biases the motion towards whole voxels.

    Raises
    ------
    ShapeError, DtypeError, DeviceError, NonFiniteError
        If volume, target and mask do not fit the grids or each other.
    GeometryError
        If `central_step` is not positive and finite.
    DuotomoError
        If the mask is negative somewhere.
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
        cubic: bool = False,
    ) -> None:
        where, axes = type(self).__name__, ("z", "y", "x")
        self.transform, self.volume, self.target, self.mask = transform, volume, target, mask
        self.reference = reference or transform.grid
        self.moving = moving or self.reference
        self.central_step = checked_step(where, central_step)
        self.cubic = cubic
        self.shape = (transform.n_params,)
        check_tensor(where, "volume", volume, shape=self.reference.shape, axes=axes, batch_ok=False)
        others = [("target", target)] if mask is None else [("target", target), ("mask", mask)]
        for name, tensor in others:
            check_tensor(where, name, tensor, shape=self.moving.shape, axes=axes, batch_ok=False)
            check_same(where, name, tensor, device=volume.device, dtype=volume.dtype)
        if mask is not None:
            check_not_negative(where, "mask", mask)
        self.prepare()

    def prepare(self) -> None:
        """Compute what depends on the target and the mask only, once these are checked."""

    @abstractmethod
    def compare(self, image: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Return the misfit of an image to the target, and its gradient in the image.

        Parameters
        ----------
        image : torch.Tensor
            (z, y, x) on the moving grid; may be overwritten.

        Returns
        -------
        value : float
            The misfit.
        gradient : torch.Tensor
            (z, y, x); may share memory with `image`.
        """

    @abstractmethod
    def image_curvature(self, image: torch.Tensor) -> Product:
        """Return the Gauss-Newton curvature M of the misfit in the image.

        Parameters
        ----------
        image : torch.Tensor
            Where it is taken, (z, y, x) on the moving grid; may be overwritten.

        Returns
        -------
        Product
            `d -> M d`, both (z, y, x); may overwrite d.
        """

    @abstractmethod
    def voxel_curvature(self, params: torch.Tensor) -> torch.Tensor | float:
        """Return weights w of the voxels with `M <= diag(w)`, M the curvature of `image_curvature`.

        Parameters
        ----------
        params : torch.Tensor
            Where it is taken, (n_params,).

        Returns
        -------
        torch.Tensor or float
            (z, y, x) on the moving grid, or one number for all voxels.

        Raises
        ------
        GeometryError
            If the transform is not defined.
        """

    def warped(self, params: torch.Tensor) -> torch.Tensor:
        """Return the volume resampled to the moving frame, `T(params) f`.

        Parameters
        ----------
        params : torch.Tensor
            (n_params,).

        Returns
        -------
        torch.Tensor
            (z, y, x) on the moving grid, in 1/mm.

        Raises
        ------
        GeometryError
            If the transform is not defined.
        """
        warp = self.transform.warp(params, self.reference, self.moving, cubic=self.cubic)
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
        """Return the Gauss-Newton product, `d -> J^T M J d`.

        J is the derivative of the warp, and M the curvature of the misfit in the image.

        Raises
        ------
        GeometryError
            If the transform is not defined.
        """
        self.check(x)
        image_curvature = self.image_curvature(self.warped(x))

        def product(d: torch.Tensor) -> torch.Tensor:
            along = self.transform.jvp(
                x,
                self.volume,
                d,
                self.reference,
                self.moving,
                cubic=self.cubic,
                central_step=self.central_step,
            )
            return self._pulled_back(x, image_curvature(along))

        return product

    def _pulled_back(self, params: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        gradient = self.transform.vjp(
            params,
            self.volume,
            image,
            self.reference,
            self.moving,
            cubic=self.cubic,
            central_step=self.central_step,
        )
        return gradient.to(params)


class SumOfSquares(ImageMisfit):
    """Sum of squared differences, `F(params) = 1/2 sum over voxels of m (T(params) f - g)^2`, m the mask.

    Parameters
    ----------
    transform, volume, target, reference, moving, mask, central_step, cubic
        As for `ImageMisfit`.

    Examples
    --------
    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((1, 1, 4), (1.0, 1.0, 1.0))
    >>> f, g = torch.tensor([[[[0.0, 2.0, 4.0, 0.0]]], [[[2.0, 4.0, 0.0, 0.0]]]])
    >>> misfit = SumOfSquares(Translation(grid), f, g)
    >>> round(misfit.value(torch.zeros(3)), 6), misfit.value(torch.tensor([1.0, 0.0, 0.0]))
    (12.0, 0.0)
    """

    def residual(self, params: torch.Tensor) -> torch.Tensor:
        """Return the residual, `sqrt(m) (T(params) f - g)`.

        Parameters
        ----------
        params : torch.Tensor
            Where the residual is taken, (n_params,).

        Returns
        -------
        torch.Tensor
            (z, y, x) on the moving grid, in 1/mm.
        """
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

    def voxel_curvature(self, params: torch.Tensor) -> torch.Tensor | float:
        return 1.0 if self.mask is None else self.mask

    def normal_equations(self, params: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """Return F, its gradient and the Gauss-Newton matrix, from one derivative image per parameter.

        Parameters
        ----------
        params : torch.Tensor
            (n_params,), at most 64 parameters.

        Returns
        -------
        value : float
            F.
        gradient : torch.Tensor
            Of F, (n_params,), float64 on the CPU.
        matrix : torch.Tensor
            `J^T m J`, (n_params, n_params), float64 on the CPU, J the derivative of the warp.

        Raises
        ------
        ShapeError
            If there are more parameters.
        GeometryError
            If the transform is not defined.
        """
        self.check(params)
        images = self.transform.derivative_images(
            params,
            self.volume,
            self.reference,
            self.moving,
            cubic=self.cubic,
            central_step=self.central_step,
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
