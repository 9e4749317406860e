"""A displacement for every voxel of a grid."""

from __future__ import annotations

import torch

from duotomo.errors import check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.transforms.maps import LatticeMap
from duotomo.transforms.transform import Physical, Transform
from duotomo.transforms.units import field_scale


class DisplacementField(Transform):
    """Displacement at every voxel of a grid, `T(x) = x + u(x)`, with u linear between voxel centres.

    The parameters are u in voxels, (xyz, z, y, x), flattened. Beyond the outermost centres u decreases to
    zero within one voxel.

    Parameters
    ----------
    grid : VolumeGrid
        Grid of the displacements, and the default grid of warps.

    Examples
    --------
    >>> field = DisplacementField(VolumeGrid.on_detector((2, 2, 2), (1.0, 1.0, 1.0)))
    >>> u_mm = torch.zeros(3, 2, 2, 2)
    >>> u_mm[0] = 0.25
    >>> field.points(field.params(displacement_mm=u_mm), torch.tensor([0.0, 1.0, 1.0])).tolist()
    [0.25, 1.0, 1.0]
    """

    def __init__(self, grid: VolumeGrid) -> None:
        self.grid = grid
        self.n_params = 3 * grid.n_voxels

    def params(self, *, displacement_mm: torch.Tensor) -> torch.Tensor:
        """Return the parameters of a displacement field.

        Parameters
        ----------
        displacement_mm : torch.Tensor
            u, (xyz, z, y, x), at the voxel centres of the grid, in mm.

        Returns
        -------
        torch.Tensor
            u in voxels, flattened: (n_params,), float64.

        Raises
        ------
        ShapeError, DtypeError, NonFiniteError
            If this is no field on the grid.
        """
        check_tensor(
            "DisplacementField",
            "displacement_mm",
            displacement_mm,
            shape=(3, *self.grid.shape),
            axes=("xyz", "z", "y", "x"),
            batch_ok=False,
        )
        return (displacement_mm.double() / field_scale(self.grid, displacement_mm)).reshape(-1)

    @property
    def control_spacing_mm(self) -> tuple[float, float, float]:
        return self.grid.spacing_mm

    def maps(self, params: torch.Tensor) -> tuple[LatticeMap, ...]:
        field = params.reshape(3, *self.grid.shape) * field_scale(self.grid, params)
        return (LatticeMap(lattice=self.grid, coefficients=field, degree=1),)

    def physical(self, params: torch.Tensor) -> Physical:
        """Return the displacement field.

        Returns
        -------
        dict of str to torch.Tensor
            `displacement_mm`, (xyz, z, y, x), float64, in mm.
        """
        return {"displacement_mm": self.maps(self.check(params))[0].coefficients}
