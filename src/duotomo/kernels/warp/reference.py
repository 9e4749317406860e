"""Warping, slow and obvious: positions by the formula, weights in one dense matrix.

A volume is the linear (or cubic) interpolant of its voxels, with zeros in all voxels beyond its grid, so it
fades to zero within one voxel (two) of the outermost centres. Cubic is Keys' convolution with a = -1/2,
which needs no prefilter and reproduces quadratic polynomials.
"""

from __future__ import annotations

import torch

from duotomo.kernels.warp.point_map import TAPS, PointMap


def spline_weights(t: torch.Tensor, degree: int, *, derivative: int = 0) -> torch.Tensor:
    """Return the weights, (..., taps), of the control points around a place between two of them.

    t: how far, in [0, 1), the place lies from the control point below it. degree: 1 or 3. derivative: 0 or 1.

    >>> spline_weights(torch.tensor(0.0), 3)
    tensor([0.1667, 0.6667, 0.1667, 0.0000])
    """
    if (degree, derivative) == (1, 0):
        return torch.stack([1 - t, t], dim=-1)
    if (degree, derivative) == (1, 1):
        return torch.stack([-torch.ones_like(t), torch.ones_like(t)], dim=-1)
    s = 1 - t
    if derivative == 0:
        inner = [(3 * t**3 - 6 * t**2 + 4) / 6, (3 * s**3 - 6 * s**2 + 4) / 6]
        return torch.stack([s**3 / 6, *inner, t**3 / 6], dim=-1)
    inner = [(3 * t**2 - 4 * t) / 2, -(3 * s**2 - 4 * s) / 2]
    return torch.stack([-(s**2) / 2, *inner, t**2 / 2], dim=-1)


def keys_weights(t: torch.Tensor, *, derivative: int = 0) -> torch.Tensor:
    """Return Keys' cubic interpolation weights, (..., 4), a = -1/2.

    >>> keys_weights(torch.tensor(0.5))
    tensor([-0.0625,  0.5625,  0.5625, -0.0625])
    """
    if derivative == 0:
        rows = [
            t * (-0.5 + t * (1 - 0.5 * t)),
            1 + t**2 * (-2.5 + 1.5 * t),
            t * (0.5 + t * (2 - 1.5 * t)),
            t**2 * (-0.5 + 0.5 * t),
        ]
    else:
        rows = [-0.5 + 2 * t - 1.5 * t**2, t * (-5 + 4.5 * t), 0.5 + 4 * t - 4.5 * t**2, t * (-1 + 1.5 * t)]
    return torch.stack(rows, dim=-1)


def lattice_values(coefficients: torch.Tensor, at: torch.Tensor, degree: int) -> torch.Tensor:
    """Return the spline's values, (..., component), at places in lattice units; zero coefficients beyond it.

    coefficients: (component, z, y, x). at: (..., zyx). Differentiable in both.
    """
    below = at.detach().floor()
    weights = spline_weights(at - below, degree)
    first = below.long() - (TAPS[degree] // 2 - 1)
    shape = torch.tensor(coefficients.shape[1:], device=at.device)
    index = first[..., None] + torch.arange(TAPS[degree], device=at.device)
    inside = (index >= 0) & (index < shape[:, None])
    weights = torch.where(inside, weights, 0.0)
    index = torch.minimum(index.clamp(min=0), shape[:, None] - 1)
    (i_z, i_y, i_x), (w_z, w_y, w_x) = index.unbind(-2), weights.unbind(-2)
    n_y, n_x = coefficients.shape[2:]
    flat = ((i_z * n_y)[..., :, None] + i_y[..., None, :])[..., None] * n_x + i_x[..., None, None, :]
    near = coefficients.flatten(1)[:, flat]
    return torch.einsum("c...zyx,...z,...y,...x->...c", near, w_z, w_y, w_x)


def move(point_map: PointMap, index: torch.Tensor) -> torch.Tensor:
    """Return where voxel indices go: (..., zyx) -> (..., zyx)."""
    matrices = point_map.matrices.to(index)
    p = index @ matrices[0, :, :3].T + matrices[0, :, 3]
    for k, (values, degree) in enumerate(zip(point_map.coefficients, point_map.degrees, strict=True)):
        p = p + lattice_values(values.to(index), p, degree)
        p = p @ matrices[k + 1, :, :3].T + matrices[k + 1, :, 3]
    return p


def voxels(shape: tuple[int, int, int]) -> torch.Tensor:
    """Return the indices of all voxels: (z, y, x, zyx)."""
    axes = [torch.arange(n, dtype=torch.float64) for n in shape]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)


def matrix(
    point_map: PointMap,
    shape: tuple[int, int, int],
    volume_shape: tuple[int, int, int],
    *,
    cubic: bool,
    slope_axis: int | None = None,
) -> torch.Tensor:
    """Return the weights of volume voxels in warped voxels: (n warped, n volume).

    slope_axis: 0, 1 or 2 for the derivative along that axis of the volume's index instead of the value.
    """
    at = move(point_map, voxels(shape)).reshape(-1, 3)
    below = at.floor()
    factors = []
    for axis in range(3):
        t, derivative = (at - below)[:, axis], int(slope_axis == axis)
        weights = (
            keys_weights(t, derivative=derivative) if cubic else spline_weights(t, 1, derivative=derivative)
        )
        taps = weights.shape[-1]
        index = below[:, axis, None].long() - (taps // 2 - 1) + torch.arange(taps)
        # Voxels beyond the grid match no column.
        match = index[:, :, None] == torch.arange(volume_shape[axis])
        factors.append((weights[:, :, None] * match).sum(dim=1))
    full = torch.einsum("nz,ny,nx->nzyx", *factors)
    return full.reshape(len(at), -1)
