"""Rotation and translation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from duotomo.geometry import VolumeGrid
from duotomo.transforms.affine_part import affine_part, rotation_vector_deg, shift_about
from duotomo.transforms.maps import MatrixMap
from duotomo.transforms.motion import Motion
from duotomo.transforms.transform import Physical, Transform
from duotomo.transforms.units import center_or_middle, spacing_xyz, turn_rad


class Rigid(Transform):
    """Rotation and translation, `T(x) = c + R (x - c) + t`: 6 parameters, a rotation vector w and t.

    The rotation vector points along the axis and is as long as the angle: `R = exp([w])`, right-handed.

    Parameters
    ----------
    grid, center_mm
        As for `Affine`.

    Raises
    ------
    ShapeError
        As for `Affine`.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((4, 6, 8), (1.0, 0.5, 0.5))
    >>> rigid = Rigid(grid, center_mm=(0.0, 0.0, 0.0))
    >>> params = rigid.params(rotation_deg=(0.0, 0.0, 90.0), translation_mm=(0.0, 0.0, 1.0))
    >>> rigid.points(params, torch.tensor([1.0, 0.0, 0.0])).round(decimals=9).tolist()
    [0.0, 1.0, 1.0]
    """

    n_params = 6

    def __init__(self, grid: VolumeGrid, *, center_mm: Sequence[float] | None = None) -> None:
        self.grid = grid
        self.center_mm = center_or_middle("Rigid", center_mm, grid)
        self.scale = torch.cat([torch.full((3,), turn_rad(grid), dtype=torch.float64), spacing_xyz(grid)])

    def params(self, *, rotation_deg: Sequence[float], translation_mm: Sequence[float]) -> torch.Tensor:
        """Return the parameters of a rotation vector and a translation.

        Parameters
        ----------
        rotation_deg : sequence of float
            Rotation vector, (x, y, z) in degrees.
        translation_mm : sequence of float
            t, (x, y, z) in mm.

        Returns
        -------
        torch.Tensor
            w and t, (n_params,), float64, in units of about a voxel.
        """
        turn = torch.as_tensor(rotation_deg, dtype=torch.float64) * (math.pi / 180)
        return torch.cat([turn, torch.as_tensor(translation_mm, dtype=torch.float64)]) / self.scale

    def maps(self, params: torch.Tensor) -> tuple[MatrixMap, ...]:
        scaled = params * self.scale.to(params.device)
        x, y, z = scaled[:3]
        zero = torch.zeros_like(x)
        cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
        rotation = torch.linalg.matrix_exp(cross)
        center = self.center_mm.to(params.device)
        shift = center - rotation @ center + scaled[3:]
        return (MatrixMap(matrix=torch.cat([rotation, shift[:, None]], dim=1)),)

    def physical(self, params: torch.Tensor) -> Physical:
        """Return rotation vector, translation and centre.

        Returns
        -------
        dict of str to torch.Tensor
            `rotation_deg` in degrees, `translation_mm` and `center_mm` in mm; each (xyz,), float64.
        """
        scaled = self.check(params) * self.scale.to(params.device)
        return {
            "rotation_deg": torch.rad2deg(scaled[:3]),
            "translation_mm": scaled[3:],
            "center_mm": self.center_mm,
        }

    def inverse(self, params: torch.Tensor) -> Motion:
        params = self.check(params)
        matrix = self.maps(params)[0].matrix
        scale = self.scale.to(params.device)
        # y = c + R (x - c) + t  <=>  x = c + R^T (y - c) - R^T t
        back = -(matrix[:, :3].T @ (params * scale)[3:]) / scale[3:]
        return Motion(self, torch.cat([-params[:3], back]))

    def nearest_params(self, motion: Motion) -> torch.Tensor:
        matrix, shift = affine_part(motion, self.grid)
        u, _, vh = torch.linalg.svd(matrix)
        shift = shift_about(self.center_mm, self.grid, u @ vh, shift)
        return self.params(rotation_deg=rotation_vector_deg(u @ vh), translation_mm=shift.tolist())
