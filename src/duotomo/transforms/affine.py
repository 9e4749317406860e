"""The general linear map with a translation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.transforms.affine_part import affine_part, shift_about
from duotomo.transforms.maps import MatrixMap
from duotomo.transforms.motion import Motion
from duotomo.transforms.transform import Physical, Transform
from duotomo.transforms.units import center_or_middle, half_size_xyz, spacing_xyz


class Affine(Transform):
    """Linear map and translation, `T(x) = c + M (x - c) + t`: 12 parameters, M row by row, and t.

    The parameters are the differences of M and t from the identity. With `center_mm=(0, 0, 0)`, (M, t) is the
    3 x 4 matrix of homogeneous coordinates.

    Parameters
    ----------
    grid : VolumeGrid
        Grid that scales the parameters, and the default grid of warps.
    center_mm : sequence of float, optional
        c, (x, y, z) in mm; the middle of the grid unless given.

    Raises
    ------
    ShapeError
        If `center_mm` is not three numbers, (x, y, z).

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((4, 6, 8), (1.0, 0.5, 0.5))
    >>> affine = Affine(grid, center_mm=(0.0, 0.0, 0.0))
    >>> params = affine.params(matrix=[[2, 0, 0], [0, 1, 0], [0, 0, 1]], translation_mm=(0, 0, 1))
    >>> affine.points(params, torch.tensor([3.0, 1.0, 0.0])).tolist()
    [6.0, 1.0, 1.0]
    """

    n_params = 12
    is_linear = True

    def __init__(self, grid: VolumeGrid, *, center_mm: Sequence[float] | None = None) -> None:
        self.grid = grid
        self.center_mm = center_or_middle("Affine", center_mm, grid)
        # Entry (i, j) moves a corner along i by half the size along j.
        entries = spacing_xyz(grid)[:, None] / half_size_xyz(grid)[None, :]
        self.scale = torch.cat([entries.reshape(-1), spacing_xyz(grid)])
        self._identity = torch.eye(3, 4, dtype=torch.float64)

    def params(
        self, *, matrix: torch.Tensor | Sequence[Sequence[float]], translation_mm: Sequence[float]
    ) -> torch.Tensor:
        """Return the parameters of a matrix and a translation.

        Parameters
        ----------
        matrix : torch.Tensor or sequence of sequence of float
            M, (3, 3), rows and columns in the order x, y, z; without unit.
        translation_mm : sequence of float
            t, (x, y, z) in mm.

        Returns
        -------
        torch.Tensor
            (n_params,), float64, in units of about a voxel.
        """
        change = torch.as_tensor(matrix, dtype=torch.float64) - torch.eye(3, dtype=torch.float64)
        shift = torch.as_tensor(translation_mm, dtype=torch.float64)
        return torch.cat([change.reshape(-1), shift]) / self.scale

    def check(self, params: torch.Tensor) -> torch.Tensor:
        """Return valid parameters in float64.

        Raises
        ------
        GeometryError
            If the determinant of M is not positive.
        ShapeError, DtypeError, NonFiniteError
            As for `Transform.check`.
        """
        params = super().check(params)
        a, b, c, d, e, f, g, h, i = (params.detach().cpu() * self.scale)[:9].tolist()
        a, e, i = 1 + a, 1 + e, 1 + i
        determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
        if not determinant > 1e-9:
            kind = "reflects" if determinant < -1e-9 else "is singular"
            raise GeometryError(
                f"Affine: expected a matrix with a positive determinant; got {determinant:.6g}, which "
                f"{kind}. Check the order and the signs of its rows."
            )
        return params

    def maps(self, params: torch.Tensor) -> tuple[MatrixMap, ...]:
        scaled = params * self.scale.to(params.device)
        change = scaled[:9].view(3, 3)
        # c + M (x - c) + t = x + (M - 1) x + t - (M - 1) c
        shift = torch.addmv(scaled[9:], change, self.center_mm.to(params.device), alpha=-1)
        matrix = torch.cat([change, shift[:, None]], dim=1)
        return (MatrixMap(matrix=matrix + self._identity.to(params.device)),)

    def physical(self, params: torch.Tensor) -> Physical:
        """Return matrix, translation and centre.

        Returns
        -------
        dict of str to torch.Tensor
            `matrix`, (3, 3), without unit; `translation_mm` and `center_mm`, (xyz,), in mm; all float64.
        """
        params = self.check(params)
        shift = (params * self.scale.to(params.device))[9:]
        return {"matrix": self._matrix(params), "translation_mm": shift, "center_mm": self.center_mm}

    def inverse(self, params: torch.Tensor) -> Motion:
        params = self.check(params)
        matrix = torch.linalg.inv(self._matrix(params))
        scale = self.scale.to(params.device)
        shift = -(matrix @ (params * scale)[9:])
        change = matrix - torch.eye(3, dtype=torch.float64, device=params.device)
        return Motion(self, torch.cat([change.reshape(-1), shift]) / scale)

    def nearest_params(self, motion: Motion) -> torch.Tensor:
        matrix, shift = affine_part(motion, self.grid)
        shift = shift_about(self.center_mm, self.grid, matrix, shift)
        return self.params(matrix=matrix, translation_mm=shift.tolist())

    def _matrix(self, params: torch.Tensor) -> torch.Tensor:
        scaled = params * self.scale.to(params.device)
        return torch.eye(3, dtype=torch.float64, device=params.device) + scaled[:9].reshape(3, 3)
