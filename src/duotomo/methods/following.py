"""The joint objective in coordinates in which the volume follows the motion."""

from __future__ import annotations

from dataclasses import replace

import torch

from duotomo.objectives import JointMisfit, Objective
from duotomo.objectives.norms import Scalar
from duotomo.objectives.objective import Pending
from duotomo.objectives.term import BoundTerm, warped, warped_adjoint


class Following(Pending):
    """An objective of `x = [f, zeta_1, ...]` as one of `y = [g, xi_1, ...]`: the volume follows the motion.

    `zeta_k = zeta0_k + xi_k` and `f = f0 + g - 1/K sum over moving visits k of T_k^T D_k xi_k`,

    D_k the derivative of `T_k(zeta_k) f` in the parameters, both at `[f0, zeta0]`, and K the number of
    visits. When the motion of one visit changes, the volume that fits all visits best moves by `-1/K` of
    that, pulled back to its frame, whatever the projectors are: the misfits of the others hold it in place.
    In x a minimiser must find this out voxel by voxel, as slowly as the volume itself converges; in y it is
    one step along xi.

    T and D interpolate linearly, which costs a fraction of what the objective costs: these are coordinates,
    and any will do.

    Parameters
    ----------
    objective : Objective
        Of x.
    misfit : JointMisfit
        That x belongs to.
    x : torch.Tensor
        `[f0, zeta0_1, ...]`; it is y = 0.
    """

    axes = ("element",)

    def __init__(self, objective: Objective, misfit: JointMisfit, x: torch.Tensor) -> None:
        self.objective, self.shape, self.operators = objective, objective.shape, objective.operators
        self._misfit, self._x, self._n_voxels = misfit, x, misfit.grid.n_voxels
        self._volume, rows = misfit.split_pending(x)
        linear = [replace(term, cubic=False) for term in misfit.terms if term.transform is not None]
        moving = [BoundTerm(term, misfit.grid, None) for term in linear]
        self._moved = [(one.n_params, one.moved(row())) for one, row in zip(moving, rows, strict=True)]
        self._share = 1 / len(misfit.visits)

    def point(self, y: torch.Tensor) -> torch.Tensor:
        """Return x."""
        x, (_, along) = self._x + y, self._misfit.split_pending(y)
        for (_, moved), d in zip(self._moved, along, strict=True):
            pulled = warped_adjoint(moved.warp, moved.along(self._volume, d()))
            x[: self._n_voxels] -= self._share * pulled.flatten()
        return x

    def value(self, x: torch.Tensor) -> float:
        return self.objective.value(self.point(x))

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        value, gradient = self.objective.evaluate(self.point(x))
        of_volume, start = gradient[: self._n_voxels].reshape(self._volume.shape), self._n_voxels
        for n_params, moved in self._moved:
            pulled = moved.pulled_back(self._volume, warped(moved.warp, of_volume))()
            gradient[start : start + n_params] -= self._share * pulled.to(gradient)
            start += n_params
        return value, gradient
