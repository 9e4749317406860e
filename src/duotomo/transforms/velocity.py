"""Diffeomorphic deformation by a stationary velocity field."""

from __future__ import annotations

from typing import Self

import torch

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.kernels.warp.reference import lattice_values, spline_weights, voxels
from duotomo.transforms.bspline import BSpline
from duotomo.transforms.fitting import MOST_POINTS
from duotomo.transforms.lattice_transform import LatticeTransform, control_lattice
from duotomo.transforms.maps import LatticeMap, grid_displacement
from duotomo.transforms.motion import Motion
from duotomo.transforms.transform import Physical

N_SQUARINGS = 6

N_CORRECTIONS = 4
"""Corrections of velocities that are fitted to another motion."""


class Velocity(LatticeTransform):
    """Diffeomorphism of a stationary velocity field, `T = exp(v)`, whose inverse is `exp(-v)`.

    T takes points along the flow of v for a unit of time. v is a cubic B-spline; the parameters are its
    coefficients in voxels, (xyz, z, y, x), flattened. The flow is integrated by scaling and squaring:
    `exp(v) = exp(v / 2^n)^(2^n)`, whose first short step is a midpoint step, `h v(x + h v(x) / 2)`, on a
    lattice `finer` times as fine. Between the points of that lattice it is a cubic B-spline, too: T is a
    free-form deformation whose coefficients follow from v.

    The resolution of the finer lattice limits how well `exp(-v)` inverts `exp(v)`: with `finer=2`, to between
    0.1 and 1 % of the largest displacement where v is smooth, and to about 5 % where neighbouring
    coefficients are uncorrelated; each doubling divides that by about ten, and takes eight times the work.

    Parameters
    ----------
    grid, lattice
        As for `BSpline`, with the control points of v.
    finer : int
        Refinement, from 1 on, of the lattice that the flow is integrated on.

    Raises
    ------
    GeometryError
        If there are fewer than 4 control points along an axis, or `finer` is below 1.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((16, 16, 16), (1.0, 1.0, 1.0))
    >>> flow = Velocity.over(grid, (6, 6, 6))
    >>> flow.n_params
    648
    """

    def __init__(self, grid: VolumeGrid, lattice: VolumeGrid, *, finer: int = 2) -> None:
        super().__init__(grid, lattice)
        if finer < 1:
            raise GeometryError(
                f"Velocity: expected finer to be a whole number from 1 on; got {finer}. Leave it at 2."
            )
        self.finer = finer
        # Out to where v has faded to zero, two spacings beyond its last control points.
        n_z, n_y, n_x = (finer * (n + 3) + 1 for n in lattice.shape)
        d_z, d_y, d_x = (d / finer for d in lattice.spacing_mm)
        self.fine = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(d_z, d_y, d_x), center_mm=lattice.center_mm)

    @classmethod
    def over(cls, grid: VolumeGrid, control_shape: tuple[int, int, int], *, finer: int = 2) -> Self:
        """Return the flow with a given number of control points, placed as by `BSpline.over`.

        Parameters
        ----------
        grid : VolumeGrid
            Grid whose box is covered.
        control_shape : tuple of int
            Control points of v, (z, y, x), at least 4 along each axis.
        finer : int
            Refinement of the lattice that the flow is integrated on.

        Returns
        -------
        Velocity
            On that grid.

        Raises
        ------
        GeometryError
            If there are fewer than 4 control points along an axis, or `finer` is below 1.
        """
        return cls(grid, control_lattice(cls.__name__, grid, control_shape), finer=finer)

    def nearest_params(self, motion: Motion) -> torch.Tensor:
        spline = BSpline(self.grid, self.lattice)
        grid = self.grid.coarsened_to(MOST_POINTS)
        params = spline.fit(motion.displacement(grid), grid).params
        for _ in range(N_CORRECTIONS):
            # exp(v + w) is exp(w) exp(v) but for their commutator: w is what S exp(-v) still moves.
            back = self.maps(-params)
            left_mm = grid_displacement((*back, *motion.transform.maps(motion.params)), grid, params.device)
            params = params + spline.fit(left_mm, grid).params
        return params

    def params(self, *, velocities_mm: torch.Tensor) -> torch.Tensor:
        """Return the parameters of given coefficients of v.

        Parameters
        ----------
        velocities_mm : torch.Tensor
            (xyz, z, y, x), one per control point, in mm per unit of time.

        Returns
        -------
        torch.Tensor
            (n_params,), float64, in voxels per unit of time.

        Raises
        ------
        ShapeError, DtypeError, NonFiniteError
            As for `BSpline.params`.
        """
        return self._params_of("velocities_mm", velocities_mm)

    def maps(self, params: torch.Tensor) -> tuple[LatticeMap, ...]:
        device = params.device
        coarse_mm = torch.tensor(self.lattice.spacing_mm[::-1], dtype=torch.float64, device=device)
        velocity = self.coefficients_mm(params) / coarse_mm[:, None, None, None]
        # In units of the fine lattice, components in the order z, y, x.
        velocity = self.finer * velocity.flip(0)
        nodes = voxels(self.fine.shape).to(device)
        step = 0.5**N_SQUARINGS
        half_way = nodes + step / 2 * lattice_values(velocity, nodes / self.finer - 2, 3)
        moved = step * lattice_values(velocity, half_way / self.finer - 2, 3)
        to_coefficients = [_interpolation(n).to(device) for n in self.fine.shape]
        for _ in range(N_SQUARINGS):
            coefficients = torch.einsum("zyxc,kz,jy,ix->ckji", moved, *to_coefficients)
            # (id + u)(id + u) = id + u + u(id + u)
            moved = moved + lattice_values(coefficients, nodes + moved, 3)
        coefficients = torch.einsum("zyxc,kz,jy,ix->ckji", moved, *to_coefficients)
        fine_mm = coarse_mm / self.finer
        coefficients = coefficients.flip(0) * fine_mm[:, None, None, None]
        return (LatticeMap(lattice=self.fine, coefficients=coefficients),)

    def physical(self, params: torch.Tensor) -> Physical:
        """Return the coefficients of v.

        Returns
        -------
        dict of str to torch.Tensor
            `velocities_mm`, (xyz, z, y, x), one per control point, float64, in mm per unit of time.
        """
        return {"velocities_mm": self.coefficients_mm(self.check(params))}

    def inverse(self, params: torch.Tensor) -> Motion:
        return Motion(self, -self.check(params))


def _interpolation(n: int) -> torch.Tensor:
    """Return the matrix from values at n control points to the coefficients that take them there."""
    side, middle = (float(w) for w in spline_weights(torch.tensor(0.0, dtype=torch.float64), 3)[:2])
    weights = torch.diag(torch.full((n,), middle, dtype=torch.float64))
    off = torch.full((n - 1,), side, dtype=torch.float64)
    inverse: torch.Tensor = torch.linalg.inv(weights + torch.diag(off, 1) + torch.diag(off, -1))
    return inverse
