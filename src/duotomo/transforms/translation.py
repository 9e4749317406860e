"""Translation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from duotomo.geometry import VolumeGrid
from duotomo.transforms.affine_part import affine_part
from duotomo.transforms.maps import MatrixMap
from duotomo.transforms.motion import Motion
from duotomo.transforms.transform import Physical, Transform
from duotomo.transforms.units import spacing_xyz


class Translation(Transform):
    """Translation, `T(x) = x + t`: 3 parameters, t in voxels along x, y and z.

    Parameters
    ----------
    grid : VolumeGrid
        Grid whose voxels scale the parameters, and the default grid of warps.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((4, 6, 8), (1.0, 0.5, 0.5))
    >>> shift = Translation(grid)
    >>> params = shift.params(translation_mm=(1.0, 0.0, -2.0))
    >>> params.tolist(), shift.points(params, torch.zeros(3)).tolist()
    ([2.0, 0.0, -2.0], [1.0, 0.0, -2.0])
    """

    n_params = 3
    is_linear = True

    def __init__(self, grid: VolumeGrid) -> None:
        self.grid = grid

    def params(self, *, translation_mm: Sequence[float]) -> torch.Tensor:
        """Return the parameters of a translation.

        Parameters
        ----------
        translation_mm : sequence of float
            t, (x, y, z) in mm.

        Returns
        -------
        torch.Tensor
            t, (xyz,), float64, in voxels.
        """
        return torch.as_tensor(translation_mm, dtype=torch.float64) / spacing_xyz(self.grid)

    def maps(self, params: torch.Tensor) -> tuple[MatrixMap, ...]:
        shift = params * spacing_xyz(self.grid).to(params.device)
        eye = torch.eye(3, dtype=torch.float64, device=params.device)
        return (MatrixMap(matrix=torch.cat([eye, shift[:, None]], dim=1)),)

    def physical(self, params: torch.Tensor) -> Physical:
        """Return the translation.

        Returns
        -------
        dict of str to torch.Tensor
            `translation_mm`, (xyz,), float64, in mm.
        """
        return {"translation_mm": self.check(params) * spacing_xyz(self.grid).to(params.device)}

    def inverse(self, params: torch.Tensor) -> Motion:
        return Motion(self, -self.check(params))

    def nearest_params(self, motion: Motion) -> torch.Tensor:
        return self.params(translation_mm=affine_part(motion, self.grid)[1].tolist())
