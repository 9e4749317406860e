"""A warp at given parameters, with its derivative in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from duotomo.geometry import VolumeGrid
from duotomo.kernels.dispatch import warp_kernels
from duotomo.kernels.transfer import to_host
from duotomo.operators.derivatives import plain
from duotomo.transforms.maps import map_tensors

if TYPE_CHECKING:
    from duotomo.transforms.transform import Transform


class Linearised:
    """`T(p) f`, the derivative `J d` of it along parameters d, and `J^T b`, for volumes that are checked.

    The map is made of the parameters once for all three, and nobody waits for a GPU.

    Parameters
    ----------
    transform : Transform
        T.
    params : torch.Tensor
        p, (n_params,), float64, checked; on the CPU, or of control points where the volumes are.
    reference, moving : VolumeGrid
        Grids of the volume and of the warped volume.
    cubic : bool
        Whether T interpolates by cubic convolution.

    Attributes
    ----------
    warp : Warp
        T(p).

    Raises
    ------
    GeometryError
        If no voxel of the moving grid lands on the reference grid.
    """

    def __init__(
        self,
        transform: Transform,
        params: torch.Tensor,
        reference: VolumeGrid,
        moving: VolumeGrid,
        *,
        cubic: bool,
    ) -> None:
        self._transform, self._grids = transform, (reference, moving)
        self._params = params.detach()
        if not transform.is_linear:
            self._params = self._params.requires_grad_()
        with torch.enable_grad():
            self.warp = transform.warp_of(self._params, reference, moving, cubic=cubic)

    def along(self, volume: torch.Tensor, d_params: torch.Tensor) -> torch.Tensor:
        """Return `J d`, (z, y, x) on the moving grid.

        Parameters
        ----------
        volume : torch.Tensor
            f, (z, y, x) on the reference grid.
        d_params : torch.Tensor
            d, (n_params,), float64.
        """
        tangents = self._transform.tangents(self._params.detach(), d_params, *self._grids)
        return self.warp.along(volume[None], tangents)[0]

    def pull_back(self, volume: torch.Tensor, image: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Begin with `J^T b`; return what gives it, (n_params,), float64, there or on a GPU that works on it.

        Parameters
        ----------
        volume : torch.Tensor
            f, (z, y, x) on the reference grid, contiguous.
        image : torch.Tensor
            b, (z, y, x) on the moving grid, contiguous.
        """
        d_matrices, d_coefficients = warp_kernels(volume.device).pull_back(
            volume, image, self.warp.point_map, cubic=self.warp.cubic
        )
        if self._transform.is_linear:
            gradient = self._by_factors(d_matrices, d_coefficients)
            return lambda: gradient
        arrive = to_host(d_matrices, *d_coefficients)

        def finish() -> torch.Tensor:
            pairs = zip(self.warp.tensors, arrive(), strict=True)
            used = [(tensor, part.to(tensor)) for tensor, part in pairs if tensor.requires_grad]
            tensors, parts = [tensor for tensor, _ in used], [part for _, part in used]
            (gradient,) = torch.autograd.grad(tensors, self._params, parts, retain_graph=True)
            return gradient

        return finish

    def _by_factors(self, d_matrices: torch.Tensor, d_coefficients: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Return the gradient in parameters that the map is linear in."""
        factors = linear_factors(self._transform, *self._grids, d_matrices.device)
        if d_coefficients:
            # A coefficient is a multiple of one parameter, and the map counts components backwards.
            return (d_coefficients[0].double() * factors).flip(0).reshape(-1)
        return d_matrices.double().reshape(-1) @ factors


@lru_cache(maxsize=64)
def linear_factors(
    transform: Transform, reference: VolumeGrid, moving: VolumeGrid, device: torch.device
) -> torch.Tensor:
    """Return the derivative of the map's tensors in parameters that it is linear in, on a device.

    Of a matrix, (entry, parameter); of coefficients, (component, z, y, x), each in the one it is made of.
    """

    if transform.lattice_parts():
        ones = torch.ones(transform.n_params, dtype=torch.float64)
        return map_tensors(transform.maps(ones), reference, moving)[1][0].to(device)
    return plain(matrix_derivatives(transform, transform.identity(), reference, moving)).to(device)


def matrix_derivatives(
    transform: Transform, params: torch.Tensor, reference: VolumeGrid, moving: VolumeGrid
) -> torch.Tensor:
    """Return the derivative of the entries of a map's only matrix in the parameters, (entry, parameter)."""
    # Row by row: `torch.func.jacfwd` would import PyTorch's compiler, for seconds and a hundred megabytes.
    with torch.enable_grad():
        leaf = params.detach().requires_grad_()
        entries = map_tensors(transform.maps(leaf), reference, moving)[0].reshape(-1)
        rows = [torch.autograd.grad(entry, leaf, retain_graph=True)[0] for entry in entries]
    return torch.stack(rows)
