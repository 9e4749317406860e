"""Parameters of one transform that follow the motion of another, by least squares over points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.kernels.warp.reference import voxels
from duotomo.transforms.maps import ElementaryMap, MatrixMap, index_matrix, move_points

if TYPE_CHECKING:
    from duotomo.transforms.motion import Motion

MOST_POINTS = 5_000
"""A grid is coarsened to at most this many voxels, over whose centres parameters are fitted."""

N_STEPS, N_INNER, TOLERANCE = 8, 40, 1e-10
"""Gauss-Newton steps, conjugate-gradient steps in each, and the relative decrease at which they end."""

Maps = Callable[[torch.Tensor], Sequence[ElementaryMap]]


def fitted_params(maps: Maps, grid: VolumeGrid, n_params: int, motion: Motion) -> torch.Tensor:
    """Return the parameters that minimise `sum over points of |T(params)(x) - S(x)|^2`, S the motion.

    Gauss-Newton from the identity, its normal equations solved by conjugate gradients: no matrix is made.
    """
    coarse = grid.coarsened_to(MOST_POINTS)
    points_mm = MatrixMap(matrix=index_matrix(coarse)[:3]).points(voxels(coarse.shape)).reshape(-1, 3)
    target_mm = motion.points(points_mm).detach()

    def residual(params: torch.Tensor) -> torch.Tensor:
        return move_points(maps(params), points_mm) - target_mm

    params = torch.zeros(n_params, dtype=torch.float64)
    try:
        missed = residual(params)
        for _ in range(N_STEPS):
            before = float(missed.square().sum())
            tried = params - _gauss_newton_step(residual, params)
            missed_there = residual(tried)
            after = float(missed_there.square().sum())
            if after < before:
                params, missed = tried, missed_there
            if not before - after > TOLERANCE * before:
                break
    except RuntimeError as error:
        raise DuotomoError(
            f"convert: expected a transform whose maps are differentiable in its parameters; got: {error}. "
            f"Write them with PyTorch operations, or override nearest_params."
        ) from error
    if not bool(params.isfinite().all()):
        raise DuotomoError(
            f"convert: expected a motion that {n_params} parameters can follow; got one that is not finite. "
            f"Start the transform from its identity, or override nearest_params."
        )
    return params.detach()


def _gauss_newton_step(
    residual: Callable[[torch.Tensor], torch.Tensor], params: torch.Tensor
) -> torch.Tensor:
    """Return d that minimises `|J d - r|`, by conjugate gradients on the normal equations, from zero."""
    missed, pull_back = torch.func.vjp(residual, params)[:2]
    slope = pull_back(missed)[0]
    step, direction, norm_sq = torch.zeros_like(params), slope.clone(), float(slope @ slope)
    first = norm_sq
    for _ in range(min(N_INNER, 2 * len(params))):
        if norm_sq <= TOLERANCE**2 * first:
            break
        along = torch.func.jvp(residual, (params,), (direction,))[1]
        curvature = float(along.square().sum())
        if curvature <= 0:
            break
        step = step + (norm_sq / curvature) * direction
        slope = slope - (norm_sq / curvature) * pull_back(along)[0]
        before, norm_sq = norm_sq, float(slope @ slope)
        direction = slope + (norm_sq / before) * direction
    return step
