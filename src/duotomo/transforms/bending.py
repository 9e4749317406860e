"""The bending energy of a B-spline deformation: the mean square of its second derivatives."""

from __future__ import annotations

import numpy as np
import torch

from duotomo.kernels.warp.reference import spline_weights
from duotomo.transforms.lattice_transform import LatticeTransform
from duotomo.transforms.units import field_scale


class BendingEnergy:
    """Bending energy of a B-spline deformation, in 1/mm^2.

    `E = 1/V integral over the box of sum over i, j, c of (d^2 u_c / dx_i dx_j)^2`. Here u is the displacement
    in mm, a cubic spline in each coordinate, and V the volume of the box that the spline is complete on. The
    integral is exact: a quadratic form `c^T K c` in the coefficients, where K is a sum of products of three
    small matrices, one per axis. It is zero for affine displacements.

    Parameters
    ----------
    spline : LatticeTransform
        Whose splines are u, such as a `BSpline`; of a `Velocity` they are the velocities.

    Examples
    --------
    >>> from duotomo.geometry import VolumeGrid
    >>> from duotomo.transforms import BSpline
    >>> spline = BSpline.over(VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0)), (5, 5, 5))
    >>> energy = BendingEnergy(spline)
    >>> energy.value(spline.identity())
    0.0
    """

    def __init__(self, spline: LatticeTransform) -> None:
        self.spline = spline
        axes = zip(spline.lattice.shape, spline.lattice.spacing_mm, strict=True)
        self._grams = [torch.stack(_grams(n, d)) for n, d in axes]

    def value(self, params: torch.Tensor) -> float:
        """Return the energy.

        Parameters
        ----------
        params : torch.Tensor
            Coefficients, (n_params,), in voxels.

        Returns
        -------
        float
            E, in 1/mm^2.
        """
        return 0.5 * float(self.spline.check(params) @ self.gradient(params))

    def gradient(self, params: torch.Tensor) -> torch.Tensor:
        """Return the gradient of the energy in the parameters, `2 K c` scaled to them.

        Parameters
        ----------
        params : torch.Tensor
            At which the gradient is taken, (n_params,).

        Returns
        -------
        torch.Tensor
            (n_params,), float64, in 1/mm^2 per voxel.
        """
        return self.hessian_vector(params, params)

    def hessian_vector(self, params: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        """Return the product of the Hessian of E, which is the same everywhere, with a direction.

        Parameters
        ----------
        params : torch.Tensor
            Where the Hessian is taken, (n_params,); checked, but without influence.
        direction : torch.Tensor
            Direction in the parameters, (n_params,).

        Returns
        -------
        torch.Tensor
            (n_params,), float64.
        """
        self.spline.check(params)
        return self.product(self.spline.check(direction))

    def product(self, direction: torch.Tensor) -> torch.Tensor:
        """Return `hessian_vector` of a direction that is known to be one.

        Parameters
        ----------
        direction : torch.Tensor
            Direction in the parameters, (n_params,), float64.

        Returns
        -------
        torch.Tensor
            (n_params,), float64.
        """
        coefficients = self.spline.coefficients_mm(direction)
        self._grams = [grams.to(coefficients.device) for grams in self._grams]
        z, y, x = self._grams
        # Each pair of derivatives is one product of one-dimensional integrals; mixed ones count twice.
        x_0, x_1, x_2 = (coefficients @ gram for gram in x)
        y_0 = y[0] @ x_0
        y_1 = 2 * (y[1] @ x_0 + y[0] @ x_1)
        y_2 = y[2] @ x_0 + 2 * (y[1] @ x_1) + y[0] @ x_2
        parts = torch.stack([y_2, y_1, y_0], dim=1).flatten(-2)
        total = torch.matmul(z, parts).sum(dim=1).reshape(coefficients.shape)
        return (2 * total * field_scale(self.spline.grid, total)).reshape(-1)


def _grams(n: int, spacing_mm: float) -> list[torch.Tensor]:
    """Return, for derivatives of order 0, 1 and 2, the mean over the box of products of basis functions.

    Each (n, n), along one axis: `G[a, b] = 1/L integral of B_a^(order) B_b^(order)`, over the n - 3 spacings
    where the spline is complete.
    """
    # Products of two cubics have degree 6: four Gauss points per spacing integrate them exactly.
    nodes, weights = (torch.from_numpy(values) for values in np.polynomial.legendre.leggauss(4))
    t, weights = (1 + nodes) / 2, weights / 2
    n_cells = n - 3
    grams = []
    for order in range(3):
        values = _derivatives(t, order) / spacing_mm**order
        cell = torch.einsum("ga,gb,g->ab", values, values, weights) / n_cells
        gram = torch.zeros(n, n, dtype=torch.float64)
        for start in range(n_cells):
            gram[start : start + 4, start : start + 4] += cell
        grams.append(gram)
    return grams


def _derivatives(t: torch.Tensor, order: int) -> torch.Tensor:
    if order < 2:
        return spline_weights(t, 3, derivative=order)
    return torch.stack([1 - t, 3 * t - 2, 1 - 3 * t, t], dim=-1)
