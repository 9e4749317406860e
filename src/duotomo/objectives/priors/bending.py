"""Bending energy, as a prior on deformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from duotomo.objectives.embedded import Embedded
from duotomo.objectives.norms import Scalar, scalar
from duotomo.objectives.objective import Objective, Pending, Product
from duotomo.transforms import BendingEnergy, Transform
from duotomo.transforms.lattice_transform import LatticeTransform


class Bending(Pending):
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

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        self.check(x)
        wide = x.double()
        gradient = self.energy.product(wide)
        # The energy is a quadratic form.
        return 0.5 * scalar(wide @ gradient), gradient.to(x.dtype)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return the product with the Hessian, which is the same for every x."""
        return lambda d: self.energy.hessian_vector(x, d).to(d.dtype)


def bending_priors(transform: Transform) -> list[tuple[slice, Objective]]:
    """Return a bending energy for each part of a transform that has control points.

    Parameters
    ----------
    transform : Transform
        Of any kind; one without control points has none.

    Returns
    -------
    list of (slice, Objective)
        The parameters that each one acts on, and the energy as a function of all parameters, (n_params,).
    """
    found: list[tuple[slice, Objective]] = []
    for start, part in transform.lattice_parts():
        own = slice(start, start + part.n_params)
        energy: Objective = Bending(part)
        if part.n_params != transform.n_params:
            energy = Embedded(energy, length=transform.n_params, start=start)
        found.append((own, energy))
    return found


def weighted_bending(transform: Transform, weight: float, curvatures: Sequence[float]) -> Objective | None:
    """Return the bending energies, each with a mean curvature of `weight` times that of the misfit.

    `curvatures` are those of the misfit along the parameters of each part, means over the diagonal.
    """
    total: Objective | None = None
    for (own, energy), curvature in zip(bending_priors(transform), curvatures, strict=True):
        trace = sign_form(energy.curvature(transform.identity()), transform.n_params, own)
        term = (weight * curvature / (trace / (own.stop - own.start))) * energy
        total = term if total is None else total + term
    return total


def sign_form(product: Callable[[torch.Tensor], torch.Tensor], n: int, own: slice | None = None) -> float:
    """Return `s^T H s` for random signs s, zero outside of `own`: an unbiased estimate of the trace of H."""
    own = own or slice(0, n)
    generator = torch.Generator().manual_seed(0)
    signs = torch.zeros(n, dtype=torch.float64)
    signs[own] = torch.randint(0, 2, (own.stop - own.start,), generator=generator).double() * 2 - 1
    return float(signs @ product(signs))
