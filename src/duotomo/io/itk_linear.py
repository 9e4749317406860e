"""The linear transforms of ITK, from their parameters as ITK counts them: x -> c + M (x - c) + t, in LPS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearMap:
    """matrix: M, (3, 3). translation_mm: t. center_mm: c."""

    matrix: Floats
    translation_mm: Floats
    center_mm: Floats


@dataclass(frozen=True, kw_only=True)
class LinearKind:
    """A kind of transform. n_params, n_fixed: counts that it may have. matrix, shift: of its parameters."""

    n_params: int
    n_fixed: tuple[int, ...] = (3,)
    matrix: Callable[[Floats, Floats], Floats]
    shift: slice

    def map(self, params: Floats, fixed: Floats) -> LinearMap:
        """Return the map. fixed: the centre, and for some kinds more."""
        shift, center = np.zeros(3), np.zeros(3)
        shift[: len(params[self.shift])] = params[self.shift]
        center[: len(fixed[:3])] = fixed[:3]
        return LinearMap(matrix=self.matrix(params, fixed), translation_mm=shift, center_mm=center)


def _rows(params: Floats, fixed: Floats) -> Floats:
    return params[:9].reshape(3, 3)


def _identity(params: Floats, fixed: Floats) -> Floats:
    return np.eye(3)


def _euler(params: Floats, fixed: Floats) -> Floats:
    """Turn about y, then x, then z; about x, then y, then z if a fourth fixed parameter says so."""
    about_x, about_y, about_z = (_turn(axis, params[axis]) for axis in range(3))
    zyx = len(fixed) > 3 and fixed[3] != 0
    return about_z @ about_y @ about_x if zyx else about_z @ about_x @ about_y


def _turn(axis: int, angle_rad: float) -> Floats:
    matrix, (j, k) = np.eye(3), ((axis + 1) % 3, (axis + 2) % 3)
    matrix[j, j] = matrix[k, k] = np.cos(angle_rad)
    matrix[k, j] = np.sin(angle_rad)
    matrix[j, k] = -matrix[k, j]
    return matrix


def _quaternion(params: Floats, fixed: Floats) -> Floats:
    """Return the matrix of x, y, z, w, which ITK does not make of length one."""
    x, y, z, w = params[:4]
    return np.array(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), w * w - x * x + y * y - z * z, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), w * w - x * x - y * y + z * z],
        ]
    )


_VERSOR_ROUNDING = 1e-10


def _versor(params: Floats, fixed: Floats) -> Floats:
    """Return the turn of a quaternion of length one, of which x, y and z are given."""
    axis, length = params[:3], float(np.linalg.norm(params[:3]))
    if length >= 1 - _VERSOR_ROUNDING:
        axis = axis / (length + _VERSOR_ROUNDING * length)
    w = np.sqrt(1 - axis @ axis)
    return _quaternion(np.array([*axis, w]), fixed)


def _similarity(params: Floats, fixed: Floats) -> Floats:
    scaled: Floats = params[6] * _versor(params, fixed)
    return scaled


def _scale_versor(params: Floats, fixed: Floats) -> Floats:
    # ITK adds the scales to the turn; it does not multiply.
    return _versor(params, fixed) + np.diag(params[6:9] - 1)


def _scale_skew_versor(params: Floats, fixed: Floats) -> Floats:
    skew = np.zeros((3, 3))
    skew[~np.eye(3, dtype=bool)] = params[9:15]
    return _scale_versor(params, fixed) + skew


def _composed_scale_skew_versor(params: Floats, fixed: Floats) -> Floats:
    skew = np.eye(3)
    skew[np.triu_indices(3, k=1)] = params[9:12]
    return _versor(params, fixed) @ np.diag(params[6:9]) @ skew


_AFFINE = LinearKind(n_params=12, matrix=_rows, shift=slice(9, 12))
_NOWHERE = slice(0, 0)

LINEAR: Mapping[str, LinearKind] = {
    "IdentityTransform": LinearKind(n_params=0, n_fixed=(0, 3), matrix=_identity, shift=_NOWHERE),
    "ScaleTransform": LinearKind(n_params=3, matrix=lambda p, _: np.diag(p), shift=_NOWHERE),
    "ScaleLogarithmicTransform": LinearKind(
        n_params=3, matrix=lambda p, _: np.diag(np.exp(p)), shift=_NOWHERE
    ),
    "Euler3DTransform": LinearKind(n_params=6, n_fixed=(3, 4), matrix=_euler, shift=slice(3, 6)),
    "VersorTransform": LinearKind(n_params=3, matrix=_versor, shift=_NOWHERE),
    "VersorRigid3DTransform": LinearKind(n_params=6, matrix=_versor, shift=slice(3, 6)),
    "Similarity3DTransform": LinearKind(n_params=7, matrix=_similarity, shift=slice(3, 6)),
    "ScaleVersor3DTransform": LinearKind(n_params=9, matrix=_scale_versor, shift=slice(3, 6)),
    "ScaleSkewVersor3DTransform": LinearKind(n_params=15, matrix=_scale_skew_versor, shift=slice(3, 6)),
    "ComposeScaleSkewVersor3DTransform": LinearKind(
        n_params=12, matrix=_composed_scale_skew_versor, shift=slice(3, 6)
    ),
    "QuaternionRigidTransform": LinearKind(n_params=7, matrix=_quaternion, shift=slice(4, 7)),
    "AffineTransform": _AFFINE,
    "MatrixOffsetTransformBase": _AFFINE,
}
