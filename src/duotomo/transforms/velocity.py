"""Diffeomorphic deformation by a stationary velocity field."""

from __future__ import annotations

import torch

from duotomo.errors import GeometryError, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.kernels.warp.reference import lattice_values, spline_weights, voxels
from duotomo.transforms.bending import OnLattice
from duotomo.transforms.bspline import BSpline, check_lattice, control_lattice
from duotomo.transforms.fitting import few_voxels
from duotomo.transforms.maps import LatticeMap, grid_displacement
from duotomo.transforms.models import LatticeModel
from duotomo.transforms.motion import Motion
from duotomo.transforms.transform import Physical, Transform
from duotomo.transforms.units import field_scale

N_SQUARINGS = 6

N_CORRECTIONS = 4
"""Of the velocities that are to follow another motion."""


class Velocity(Transform):
    """`T = exp(v)`: where points are after flowing along v for a unit of time; its inverse is `exp(-v)`.

    v is a cubic B-spline. Its flow is integrated by scaling and squaring, `exp(v) = exp(v / 2^n)^(2^n)`, on a
    lattice `finer` times as fine, between whose points it is a cubic B-spline too: T is a free-form
    deformation whose coefficients follow from v. The first short step is a midpoint step, `h v(x + h v(x) /
    2)`. What the finer lattice cannot hold limits how well `exp(-v)` undoes `exp(v)`: with finer=2, to 0.1 to
    1 % of the largest displacement where v is smooth, and to about 5 % where neighbouring coefficients have
    nothing to do with each other; each doubling divides that by about ten, and takes eight times the work.

    Parameters are the coefficients of v in voxels, (xyz, z, y, x) in one row.

    >>> grid = VolumeGrid.on_detector((16, 16, 16), (1.0, 1.0, 1.0))
    >>> flow = Velocity.over(grid, (6, 6, 6))
    >>> flow.n_params
    648
    """

    def __init__(self, grid: VolumeGrid, lattice: VolumeGrid, *, finer: int = 2) -> None:
        """lattice: its voxel centres are the control points of v."""
        check_lattice("Velocity", lattice.shape)
        if finer < 1:
            raise GeometryError(
                f"Velocity: expected finer to be a whole number from 1 on; got {finer}. Leave it at 2."
            )
        self.grid, self.lattice, self.finer = grid, lattice, finer
        self.n_params = 3 * lattice.n_voxels
        # Out to where v has faded to zero, two spacings beyond its last control points.
        n_z, n_y, n_x = (finer * (n + 3) + 1 for n in lattice.shape)
        d_z, d_y, d_x = (d / finer for d in lattice.spacing_mm)
        self.fine = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(d_z, d_y, d_x), center_mm=lattice.center_mm)

    @classmethod
    def over(cls, grid: VolumeGrid, control_shape: tuple[int, int, int], *, finer: int = 2) -> Velocity:
        """Return the flow with `control_shape` (z, y, x) control points, placed as `BSpline.over` does."""
        return cls(grid, control_lattice(grid, control_shape), finer=finer)

    @classmethod
    def shaped(cls, control_shape: tuple[int, int, int]) -> LatticeModel:
        """Return the model of a flow with so many control points, on any grid; see `BSpline.shaped`.

        Parameters
        ----------
        control_shape : tuple of int
            Control points of v, (z, y, x), at least 4 along each axis.

        Returns
        -------
        LatticeModel
            Builds `Velocity.over(grid, control_shape)`.
        """
        return LatticeModel(cls, control_shape=control_shape)

    @classmethod
    def spaced(cls, spacing_mm: float) -> LatticeModel:
        """Return the model of a flow whose control points are at most so far apart, on any grid.

        Parameters
        ----------
        spacing_mm : float
            Distance of neighbouring control points of v, in mm.

        Returns
        -------
        LatticeModel
            Builds the coarsest flow with that distance or less.
        """
        return LatticeModel(cls, spacing_mm=spacing_mm)

    @property
    def control_spacing_mm(self) -> tuple[float, float, float]:
        return self.lattice.spacing_mm

    def lattice_parts(self) -> tuple[tuple[int, OnLattice], ...]:
        return ((0, self),)

    def nearest_params(self, motion: Motion) -> torch.Tensor:
        spline = BSpline(self.grid, self.lattice)
        grid = few_voxels(self.grid)
        params = spline.fit(motion.displacement(grid), grid).params
        for _ in range(N_CORRECTIONS):
            # exp(v + w) is exp(w) after exp(v) but for their commutator: w is what S after exp(-v) still moves.
            back = self.maps(-params)
            left_mm = grid_displacement((*back, *motion.transform.maps(motion.params)), grid, params.device)
            params = params + spline.fit(left_mm, grid).params
        return params

    def params(self, *, velocities_mm: torch.Tensor) -> torch.Tensor:
        """Return the parameters of the coefficients of v, (xyz, z, y, x), in mm per unit of time."""
        check_tensor(
            "Velocity",
            "velocities_mm",
            velocities_mm,
            shape=(3, *self.lattice.shape),
            axes=("xyz", "z", "y", "x"),
            batch_ok=False,
        )
        return (velocities_mm.double() / field_scale(self.grid, velocities_mm)).reshape(-1)

    def maps(self, params: torch.Tensor) -> tuple[LatticeMap, ...]:
        device = params.device
        coarse_mm = torch.tensor(self.lattice.spacing_mm[::-1], dtype=torch.float64, device=device)
        velocity = self._velocities(params) / coarse_mm[:, None, None, None]
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
        return {"velocities_mm": self._velocities(self.check(params))}

    def inverse(self, params: torch.Tensor) -> Motion:
        return Motion(self, -self.check(params))

    def _velocities(self, params: torch.Tensor) -> torch.Tensor:
        return params.reshape(3, *self.lattice.shape) * field_scale(self.grid, params)


def _interpolation(n: int) -> torch.Tensor:
    """Return the matrix from values at n control points to the coefficients that take them there."""
    side, middle = (float(w) for w in spline_weights(torch.tensor(0.0, dtype=torch.float64), 3)[:2])
    weights = torch.diag(torch.full((n,), middle, dtype=torch.float64))
    off = torch.full((n - 1,), side, dtype=torch.float64)
    inverse: torch.Tensor = torch.linalg.inv(weights + torch.diag(off, 1) + torch.diag(off, -1))
    return inverse
