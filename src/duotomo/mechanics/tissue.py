"""Tissue that yields its shape easily and its volume hardly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from duotomo.errors import GeometryError
from duotomo.mechanics.mesh import Floats


@dataclass(frozen=True, kw_only=True)
class ElasticTissue:
    """A neo-Hookean solid: `(J^(-2/3) tr(F^T F) - 3) / 2 + k ((J^2 - 1) / 2 - ln J) / 2` per volume.

    F is the gradient of the deformation and J its determinant; volumes are those at rest. Energies are in
    units of the shear modulus, which no displacement depends on; `k = 2 (1 + nu) / (3 (1 - 2 nu))` with
    Poisson's ratio nu.

    Parameters
    ----------
    poisson_ratio : float
        nu, from 0 to below 0.5.

    Examples
    --------
    >>> round(ElasticTissue(poisson_ratio=0.495).bulk_modulus, 2)
    99.67
    """

    poisson_ratio: float = 0.495

    def __post_init__(self) -> None:
        if not 0 <= self.poisson_ratio < 0.5:
            raise GeometryError(
                f"ElasticTissue: expected 0 <= poisson_ratio < 0.5; got {self.poisson_ratio}. At 0.5 volumes "
                f"cannot change at all; at 0.495 they do so by about a thousandth."
            )

    @property
    def bulk_modulus(self) -> float:
        """Bulk modulus over shear modulus."""
        return 2 * (1 + self.poisson_ratio) / (3 * (1 - 2 * self.poisson_ratio))

    def energy(self, gradients: Floats) -> Floats:
        """Return the energy per volume; infinite where J <= 0.

        Parameters
        ----------
        gradients : numpy.ndarray
            F, (..., 3, 3).

        Returns
        -------
        numpy.ndarray
            (...), in shear moduli.
        """
        j = np.linalg.det(gradients)
        safe = np.where(j > 0, j, 1.0)
        square = np.sum(gradients**2, axis=(-2, -1))
        shear = (safe ** (-2 / 3) * square - 3) / 2
        bulk = self.bulk_modulus * ((safe**2 - 1) / 2 - np.log(safe)) / 2
        energy: Floats = np.where(j > 0, shear + bulk, math.inf)
        return energy

    def stress(self, gradients: Floats) -> Floats:
        """Return the first derivative of the energy in F.

        Parameters
        ----------
        gradients : numpy.ndarray
            F, (..., 3, 3).

        Returns
        -------
        numpy.ndarray
            (..., 3, 3), in shear moduli.
        """
        j, h, square, shear = self._parts(gradients)
        stress: Floats = shear * (gradients - square / 3 * h) + self.bulk_modulus * (j**2 - 1) / 2 * h
        return stress

    def stiffness(self, gradients: Floats, *, tension: Floats | None = None) -> Floats:
        """Return the second derivative of the energy in F.

        Parameters
        ----------
        gradients : numpy.ndarray
            F, (..., 3, 3).
        tension : numpy.ndarray, optional
            U'(J), (...), of the bulk energy U, taken as it is given instead of from F.

        Returns
        -------
        numpy.ndarray
            (..., 9, 9), in shear moduli.
        """
        j, h, square, shear = self._parts(gradients)
        k = self.bulk_modulus
        flat_h, flat_f = (a.reshape(*a.shape[:-2], 9, 1) for a in (h, gradients))
        h_h = flat_h * flat_h.swapaxes(-1, -2)
        f_h = flat_f * flat_h.swapaxes(-1, -2)
        # dF^-T = -F^-T dF^T F^-T
        crossed = np.einsum("...il,...kj->...ijkl", h, h).reshape(h_h.shape)
        of_shear = shear * (
            np.eye(9) - 2 / 3 * (f_h + f_h.swapaxes(-1, -2)) + square / 9 * (2 * h_h + 3 * crossed)
        )
        if tension is None:
            stiffness: Floats = of_shear + k * j**2 * h_h - k * (j**2 - 1) / 2 * crossed
        else:
            # U'' J' J' + U' J''
            bulk = k * (j**2 + 1) / 2 * h_h + tension[..., None, None] * j * (h_h - crossed)
            stiffness = of_shear + bulk
        return stiffness

    def tension(self, gradients: Floats, changes: Floats) -> Floats:
        """Return U'(J) of the bulk energy U at F + dF, to first order in dF.

        Parameters
        ----------
        gradients : numpy.ndarray
            F, (..., 3, 3).
        changes : numpy.ndarray
            dF, (..., 3, 3).

        Returns
        -------
        numpy.ndarray
            (...), in shear moduli.
        """
        j = np.linalg.det(gradients)
        change = j * np.einsum("...ij,...ji->...", np.linalg.inv(gradients), changes)
        tension: Floats = self.bulk_modulus / 2 * (j - 1 / j + (1 + 1 / j**2) * change)
        return tension

    def _parts(self, gradients: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        j = np.linalg.det(gradients)[..., None, None]
        h = np.asarray(np.linalg.inv(gradients).swapaxes(-1, -2), dtype=np.float64)
        return j, h, np.sum(gradients**2, axis=(-2, -1), keepdims=True), j ** (-2 / 3)
