"""A penalty that keeps a B-spline from folding."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.kernels.warp.reference import spline_weights
from duotomo.objectives.objective import Objective, Product
from duotomo.objectives.spline_misfit import along_axes, along_axes_adjoint
from duotomo.transforms import BSpline
from duotomo.transforms.bspline import axis_basis
from duotomo.transforms.units import field_scale

POINTS_PER_INTERVAL = 4
"""Points between two control points, along each axis, at which the determinant is evaluated."""


class FoldingPenalty(Objective):
    """Penalty on compression, `F(params) = 1/(2 n) sum over n points of max(0, log(t / det T'))^2`.

    It is zero where no volume shrinks below t times its size, grows as volumes approach zero, and is infinite
    where T folds at one of the points: a solver whose objective never grows does not get there. The points
    lie on the box that the spline is complete on, four between two control points along each axis.

    The argument x is the parameters, (n_params,).

    Parameters
    ----------
    spline : BSpline
        T.
    threshold : float
        t, the determinant from which on nothing is penalised.

    Raises
    ------
    DuotomoError
        If the threshold is not positive and finite.

    Examples
    --------
    >>> spline = BSpline.over(VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0)), (5, 5, 5))
    >>> FoldingPenalty(spline).value(spline.identity())
    0.0
    """

    axes = ("parameter",)

    def __init__(self, spline: BSpline, *, threshold: float = 0.5) -> None:
        if not 0 < threshold < math.inf:
            raise DuotomoError(
                f"FoldingPenalty: expected a positive threshold; got {threshold}. Use 0.5, or a determinant "
                f"that is still plausible."
            )
        self.spline, self.threshold, self.shape = spline, threshold, (spline.n_params,)
        lattice = spline.lattice
        n_z, n_y, n_x = ((n - 3) * POINTS_PER_INTERVAL + 1 for n in lattice.shape)
        d_z, d_y, d_x = (d / POINTS_PER_INTERVAL for d in lattice.spacing_mm)
        points = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(d_z, d_y, d_x), center_mm=lattice.center_mm)
        values = [axis_basis(lattice, points, axis) for axis in range(3)]
        slopes = [axis_slopes(lattice, points, axis) for axis in range(3)]
        # The derivatives along x, y and z, each of a basis along z, y and x.
        self._bases = [
            [slopes[axis] if axis == along else values[axis] for axis in range(3)] for along in (2, 1, 0)
        ]
        self._n_points = points.n_voxels
        self._scale = field_scale(spline.grid, spline.identity())

    def value(self, x: torch.Tensor) -> float:
        self.check(x)
        return self._evaluated(x)[0]

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.check(x)
        value, residual, slope = self._evaluated(x)
        if not 0 < value < math.inf:
            return value, torch.zeros_like(x)
        return value, self._pulled_back(slope, residual).to(x)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return the Gauss-Newton product: `log(t / det)` is the residual."""
        self.check(x)
        _, residual, slope = self._evaluated(x)
        if not bool(residual.any()):
            return torch.zeros_like

        def product(d: torch.Tensor) -> torch.Tensor:
            field = self.spline.coefficients_mm(d.double())
            along = sum(
                (slope[:, j] * along_axes(field, bases)).sum(0) for j, bases in enumerate(self._bases)
            )
            assert isinstance(along, torch.Tensor)
            return self._pulled_back(slope, along).to(d)

        return product

    def _evaluated(self, x: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """Return F, the residual r at each point, (z, y, x), and its derivative by T', (i, j, z, y, x)."""
        field = self.spline.coefficients_mm(x.double())
        jacobian = torch.stack([along_axes(field, bases) for bases in self._bases], dim=1)
        for i in range(3):
            jacobian[i, i] += 1
        matrices = jacobian.movedim((0, 1), (-2, -1))
        determinants = torch.linalg.det(matrices)
        if not float(determinants.min()) > 0:
            return math.inf, torch.zeros_like(determinants), torch.zeros_like(jacobian)
        residual = (self.threshold / determinants).log_().clamp_(min=0)
        if not bool(residual.any()):
            return 0.0, residual, torch.zeros_like(jacobian)
        value = 0.5 * float(residual.square().sum()) / self._n_points
        # d log det A = trace(A^-1 dA).
        slope = -torch.linalg.inv(matrices).mT.movedim((-2, -1), (0, 1)) * (residual > 0)
        return value, residual, slope

    def _pulled_back(self, slope: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(3, *self.spline.lattice.shape, dtype=torch.float64)
        for j, bases in enumerate(self._bases):
            total += along_axes_adjoint(slope[:, j] * values, bases)
        return (total * self._scale).reshape(-1) / self._n_points


def axis_slopes(lattice: VolumeGrid, points: VolumeGrid, axis: int) -> torch.Tensor:
    """Return the derivative, per mm, of the weight of each control point along one axis: (point, control)."""
    n_points, n_control = points.shape[axis], lattice.shape[axis]
    at_mm = (torch.arange(n_points, dtype=torch.float64) - (n_points - 1) / 2) * points.spacing_mm[axis]
    at = (at_mm + points.center_mm[axis] - lattice.center_mm[axis]) / lattice.spacing_mm[axis]
    at = at + (n_control - 1) / 2
    below = at.floor()
    weights = spline_weights(at - below, 3, derivative=1) / lattice.spacing_mm[axis]
    index = below.long()[:, None] - 1 + torch.arange(4)
    return (weights[:, :, None] * (index[:, :, None] == torch.arange(n_control))).sum(dim=1)
