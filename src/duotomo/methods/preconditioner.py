"""The preconditioner of the joint objective: volume and motion on one scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from duotomo.objectives import JointMisfit
from duotomo.objectives.term import shown
from duotomo.transforms import Transform
from duotomo.transforms.transform import FEW_PARAMS

MOTION_SHARE = 0.12
"""The preconditioned curvature along the parameters, in units of the largest of the volume."""

N_PROBES = 4
"""Random signs that the diagonal along many parameters is estimated with."""

LEAST_SHARE = 1e-2
"""Of the largest curvature along a component: control points in air have none of their own."""

LinearMap = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, kw_only=True, eq=False)
class MotionCurvature:
    """Gauss-Newton curvature of the misfit along the parameters of one visit.

    Parameters
    ----------
    diagonal : torch.Tensor
        Of `J^T W J`, (n_params,), float64.
    matrix : torch.Tensor, optional
        The whole, (n_params, n_params); None for many parameters.
    """

    diagonal: torch.Tensor
    matrix: torch.Tensor | None = None


def motion_curvatures(
    misfit: JointMisfit, volume: torch.Tensor, params: Sequence[torch.Tensor]
) -> list[MotionCurvature]:
    """Return the curvature along the parameters of each moving visit."""
    sizes = [len(row) for row in params]
    if sizes and max(sizes) <= FEW_PARAMS:
        matrix = misfit.params_part(volume).normal_equations(torch.cat(list(params)))[2]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        blocks = [matrix[a : a + n, a : a + n] for a, n in zip(starts, sizes, strict=True)]
        return [MotionCurvature(diagonal=block.diagonal(), matrix=block) for block in blocks]
    return [
        MotionCurvature(diagonal=diagonal_estimate(misfit, index, volume, params))
        for index in range(len(params))
    ]


def diagonal_estimate(
    misfit: JointMisfit, index: int, volume: torch.Tensor, params: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Estimate the diagonal of one visit's `J^T W J` by means of `(J^T sqrt(W) n)^2`, n random signs.

    `index` counts the moving visits. Over control points the estimate is averaged with the neighbours'.
    """
    visit = misfit.moving_visits[index]
    data = visit.misfit.data
    generator = torch.Generator(device=data.device).manual_seed(index)
    volume = shown(misfit.basis, volume)
    total = torch.zeros(len(params[index]), dtype=torch.float64)
    for _ in range(N_PROBES):
        signs = torch.randint(0, 2, data.shape, generator=generator, device=data.device).to(data) * 2 - 1
        if visit.misfit.weights is not None:
            signs *= visit.misfit.weights.sqrt()
        image = visit.misfit.operator.adjoint(signs)
        total += visit.pulled_back(params[index], volume, image).square()
    assert visit.transform is not None
    return _averaged(visit.transform, total / N_PROBES)


def inverse_curvature(
    transform: Transform, curvature: MotionCurvature, bending: float, largest: float
) -> LinearMap:
    """Return the product with the inverse curvature along one visit's parameters, of misfit and bending.

    `bending` is the weight of the bending energy, relative to the misfit's mean curvature. Scaled so
    that the curvature left is `MOTION_SHARE * largest`, that of the preconditioned volume being `largest`.
    """
    diagonal = curvature.diagonal
    if curvature.matrix is not None:
        # A little of the diagonal keeps what the data do not see from running away.
        diagonal = diagonal.clamp(min=float(diagonal.max()) * 1e-9 + 1e-30)
        inverse = torch.linalg.inv(curvature.matrix + 1e-6 * torch.diag(diagonal))
        return _product(inverse * (MOTION_SHARE * largest))
    reciprocal = MOTION_SHARE * largest / _raised(transform, diagonal, bending)
    return lambda part: reciprocal.to(part) * part


class Preconditioner:
    """Approximate inverse Hessian of the joint objective, up to a factor: `[f, zeta] -> [P f, c H^-1 zeta]`.

    Parameters
    ----------
    n_voxels : int
        Of f.
    of_volume : callable
        `f -> P f`, on a row of voxels.
    sizes : sequence of int
        Parameters of each moving visit.
    inverses : sequence of callable
        `zeta -> c H^-1 zeta` of each.
    """

    def __init__(
        self, n_voxels: int, of_volume: LinearMap, sizes: Sequence[int], inverses: Sequence[LinearMap]
    ) -> None:
        self._n_voxels, self._of_volume, self._sizes, self._inverses = n_voxels, of_volume, sizes, inverses

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        result, start = torch.empty_like(x), self._n_voxels
        result[:start] = self._of_volume(x[:start])
        for inverse, size in zip(self._inverses, self._sizes, strict=True):
            result[start : start + size] = inverse(x[start : start + size])
            start += size
        return result


def _product(matrix: torch.Tensor) -> LinearMap:
    moved: list[torch.Tensor] = []

    def product(part: torch.Tensor) -> torch.Tensor:
        if not moved:
            moved.append(matrix.to(part))
        return moved[0] @ part

    return product


def _averaged(transform: Transform, diagonal: torch.Tensor) -> torch.Tensor:
    """Return the diagonal, over control points averaged with their neighbours, over others all alike."""
    result, inside = diagonal.clone(), torch.zeros(len(diagonal), dtype=torch.bool)
    for start, part in transform.lattice_parts():
        own = slice(start, start + part.n_params)
        values = diagonal[own].reshape(1, 3, *part.lattice.shape)
        smooth = torch.nn.functional.avg_pool3d(values, 3, stride=1, padding=1, count_include_pad=False)
        result[own], inside[own] = smooth.flatten(), True
    if not bool(inside.all()):
        result[~inside] = diagonal[~inside].mean()
    return result


def _raised(transform: Transform, diagonal: torch.Tensor, bending: float) -> torch.Tensor:
    """Return the diagonal with that of the bending energy, nowhere far below its component's largest."""
    result = diagonal.clamp(min=1e-30)
    for start, part in transform.lattice_parts():
        own = slice(start, start + part.n_params)
        values = result[own].reshape(3, -1)
        most = values.max(dim=1, keepdim=True).values
        raised = torch.maximum(values, LEAST_SHARE * most) + bending * values.mean()
        result[own] = raised.flatten()
    return result
