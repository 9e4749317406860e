"""Bending energy, as a prior on deformations."""

from __future__ import annotations

import torch

from duotomo.objectives.objective import Objective, Product
from duotomo.transforms import BendingEnergy
from duotomo.transforms.lattice_transform import LatticeTransform


class Bending(Objective):
    """Bending energy of a B-spline's parameters, in 1/mm^2; see `BendingEnergy`.

    The argument x is the parameters, (n_params,).

    Parameters
    ----------
    spline : LatticeTransform
        Transform whose coefficients are penalised, such as a `BSpline`.

    Examples
    --------
    >>> from duotomo.geometry import VolumeGrid
    >>> from duotomo.transforms import BSpline
    >>> spline = BSpline.over(VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0)), (5, 5, 5))
    >>> Bending(spline).value(spline.identity())
    0.0
    """

    axes = ("parameter",)

    def __init__(self, spline: LatticeTransform) -> None:
        self.energy = BendingEnergy(spline)
        self.shape = (spline.n_params,)

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        gradient = self.energy.gradient(x)
        # The energy is a quadratic form.
        return 0.5 * float(x.double() @ gradient), gradient.to(x.dtype)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return the product with the Hessian, which is the same for every x."""
        return lambda d: self.energy.hessian_vector(x, d).to(d.dtype)
