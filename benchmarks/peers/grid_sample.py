"""PyTorch's own resampling: `grid_sample`, on a grid of places that PyTorch makes from parameters.

Without `align_corners`, a grid's coordinates are distances from the middle of the box in half sizes: -1 and 1
are its outer faces. Components are in the order x, y, z. There are zeros beyond the volume, as in duotomo, so
the two compute the same up to the outermost voxel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch.nn import functional

from duotomo.geometry import VolumeGrid
from duotomo.transforms import Affine, BSpline, Transform


class GridSample(ABC):
    """Linear interpolation in float32, and what automatic differentiation makes of it.

    weights: the parameters of the grid of places, in this program's own units.
    """

    def __init__(self, transform: Transform, params: torch.Tensor, device: str) -> None:
        self._shape = transform.grid.shape
        self._params = params.detach().clone().requires_grad_()
        self._weights_of_params = self.weights_of(transform, self._params)
        self.weights = self._weights_of_params.detach().to(device, torch.float32)

    @abstractmethod
    def weights_of(self, transform: Transform, params: torch.Tensor) -> torch.Tensor:
        """Return the weights that make the places of a transform, differentiable in its parameters."""

    @abstractmethod
    def places(self, weights: torch.Tensor) -> torch.Tensor:
        """Return where to read the volume: (1, z, y, x, xyz)."""

    @torch.no_grad()
    def forward(self, volume: torch.Tensor) -> torch.Tensor:
        """Make the places and read the volume there: (z, y, x) -> (z, y, x)."""
        return self._read(volume, self.places(self.weights))

    def adjoint(self, volume: torch.Tensor, image: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Return the backward pass to the volume; the forward pass is done here."""
        leaf = volume.detach().clone().requires_grad_()
        warped = self._read(leaf, self.places(self.weights))
        return lambda: torch.autograd.grad(warped, leaf, image, retain_graph=True)[0]

    def gradient(self, volume: torch.Tensor, image: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Return the backward pass to the weights; the forward pass is done here."""
        leaf = self.weights.clone().requires_grad_()
        warped = self._read(volume.detach(), self.places(leaf))
        return lambda: torch.autograd.grad(warped, leaf, image, retain_graph=True)[0]

    def in_params(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the gradient in the transform's parameters, given that in the weights: the chain rule."""
        of_weights = gradient.to("cpu", torch.float64)
        return torch.autograd.grad(self._weights_of_params, self._params, of_weights, retain_graph=True)[0]

    def _read(self, volume: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        read = functional.grid_sample(
            volume[None, None], places, mode="bilinear", padding_mode="zeros", align_corners=False
        )
        return read[0, 0]


class AffineGrid(GridSample):
    """Places from `affine_grid`. weights: (1, 3, 4), its theta."""

    def weights_of(self, transform: Transform, params: torch.Tensor) -> torch.Tensor:
        matrix = transform.maps(params)[0].matrix
        linear, shift_mm = matrix[:, :3], matrix[:, 3]
        half_mm, middle_mm = half_size_mm(transform.grid), middle(transform.grid)
        shift_mm = linear @ middle_mm + shift_mm - middle_mm
        return torch.cat([linear * half_mm, shift_mm[:, None]], dim=1)[None] / half_mm[:, None]

    def places(self, weights: torch.Tensor) -> torch.Tensor:
        return functional.affine_grid(weights, [1, 1, *self._shape], align_corners=False)


class SplineGrid(GridSample):
    """Places from a separable basis, as three matrix products. weights: (xyz, z, y, x).

    They are places rather than displacements: a spline whose coefficients are the places of its control
    points is the identity, so that none has to be added voxel by voxel.
    """

    def __init__(self, transform: BSpline, params: torch.Tensor, device: str) -> None:
        super().__init__(transform, params, device)
        bases = (axis_basis(transform.lattice, transform.grid, axis) for axis in range(3))
        self._bases = [basis.to(device, torch.float32) for basis in bases]

    def weights_of(self, transform: Transform, params: torch.Tensor) -> torch.Tensor:
        assert isinstance(transform, BSpline)
        axes_mm = (centers_mm(transform.lattice, axis) for axis in range(3))
        z, y, x = torch.meshgrid(*axes_mm, indexing="ij")
        half_mm, middle_mm = (f(transform.grid).view(3, 1, 1, 1) for f in (half_size_mm, middle))
        coefficients_mm = transform.maps(params)[0].coefficients
        return (torch.stack([x, y, z]) - middle_mm + coefficients_mm) / half_mm

    def places(self, weights: torch.Tensor) -> torch.Tensor:
        along_z, along_y, along_x = self._bases
        lines = torch.einsum("ckji,xi->kjxc", weights, along_x)
        planes = torch.einsum("kjxc,yj->kyxc", lines, along_y)
        # The largest product last, and in the order that grid_sample wants.
        return (along_z @ planes.reshape(len(planes), -1)).view(1, *self._shape, 3)


def make(transform: Transform, params: torch.Tensor, device: str) -> GridSample:
    """Return the peer of a transform."""
    if isinstance(transform, Affine):
        return AffineGrid(transform, params, device)
    if isinstance(transform, BSpline):
        return SplineGrid(transform, params, device)
    raise TypeError(f"grid_sample: expected an Affine or a BSpline; got {type(transform).__name__}.")


def half_size_mm(grid: VolumeGrid) -> torch.Tensor:
    """Return half the edges of a grid's box, xyz."""
    return torch.tensor(grid.size_mm[::-1], dtype=torch.float64) / 2


def middle(grid: VolumeGrid) -> torch.Tensor:
    """Return the middle of a grid's box, xyz, in mm."""
    return torch.tensor(grid.center_mm[::-1], dtype=torch.float64)


def centers_mm(grid: VolumeGrid, axis: int) -> torch.Tensor:
    """Return the voxel centres along an axis (0: z)."""
    index = torch.arange(grid.shape[axis], dtype=torch.float64)
    return grid.low_mm[axis] + (index + 0.5) * grid.spacing_mm[axis]


def axis_basis(lattice: VolumeGrid, grid: VolumeGrid, axis: int) -> torch.Tensor:
    """Return the cubic B-spline of each control point at each voxel, (voxel, control point)."""
    apart_mm = centers_mm(grid, axis)[:, None] - centers_mm(lattice, axis)
    t = (apart_mm / lattice.spacing_mm[axis]).abs()
    return torch.where(t < 1, (4 - 6 * t**2 + 3 * t**3) / 6, (2 - t).clamp(min=0) ** 3 / 6)
