"""Models of motion, from stiff to soft, and how the parameters of one become those of another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.transforms import Affine, BSpline, Rigid, Transform, Translation
from duotomo.transforms.units import center_xyz

_LINEAR: dict[str, Callable[[VolumeGrid], Transform]] = {
    "translation": Translation,
    "rigid": Rigid,
    "affine": Affine,
}


MOST_POINTS = 10_000_000
"""Of a lattice: more than a clinical volume has at one for each cubic millimetre."""


@dataclass(frozen=True)
class Model:
    """How a breast may move between visits; `build` makes the transform on a grid.

    name: "translation", "rigid", "affine" or "bspline". control_shape: control points (z, y, x) of a
    B-spline.

    >>> Model.parse("bspline:9,9,9"), str(Model("affine"))
    (Model(name='bspline', control_shape=(9, 9, 9)), 'affine')
    """

    name: str
    control_shape: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        known = self.name in _LINEAR or self.name == "bspline"
        if not known or (self.name == "bspline") != (self.control_shape is not None):
            raise DuotomoError(
                f"Model: expected translation, rigid, affine or bspline with its control points; got "
                f"{str(self)!r}. Write for example 'affine' or 'bspline:9,9,9' (z, y, x)."
            )

    @classmethod
    def parse(cls, text: str) -> Model:
        """Return the model that `str` wrote."""
        name, _, points = text.partition(":")
        try:
            counts = tuple(int(n) for n in points.split(",")) if points else None
        except ValueError:
            counts = ()
        if counts is not None and len(counts) != 3:
            raise DuotomoError(
                f"Model: expected three counts of control points (z, y, x); got {points!r}. Write for "
                f"example 'bspline:9,9,9'."
            )
        if counts is not None and math.prod(counts) > MOST_POINTS:
            raise DuotomoError(
                f"Model: expected at most {MOST_POINTS} control points; got {points}. Use a coarser lattice."
            )
        return cls(name, counts)

    def __str__(self) -> str:
        return self.name + (":" + ",".join(map(str, self.control_shape)) if self.control_shape else "")

    def build(self, grid: VolumeGrid) -> Transform:
        """Return the transform whose points live on `grid`."""
        if self.control_shape is not None:
            return BSpline.over(grid, self.control_shape)
        return _LINEAR[self.name](grid)


def carried_over(source: Transform, params: torch.Tensor, target: Transform) -> torch.Tensor:
    """Return the parameters of `target` whose motion is nearest to that of `source`.

    Exact where the target can move as the source does: translation, rigid, affine, B-spline is such an order.

    >>> grid = VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0))
    >>> shift, affine = Translation(grid), Affine(grid)
    >>> moved = carried_over(shift, shift.params(translation_mm=(1.0, 2.0, 3.0)), affine)
    >>> [round(value, 9) for value in affine.physical(moved)["translation_mm"].tolist()]
    [1.0, 2.0, 3.0]
    """
    if isinstance(target, BSpline):
        return target.fit(source.displacement(params, target.grid)).params
    matrix, shift = _affine_part(source, params, target.grid)
    if isinstance(target, Translation):
        return target.params(translation_mm=shift.tolist())
    if isinstance(target, Affine):
        moved = _about(target.center_mm, target.grid, matrix, shift)
        return target.params(matrix=matrix, translation_mm=moved.tolist())
    if isinstance(target, Rigid):
        u, _, vh = torch.linalg.svd(matrix)
        turned = _about(target.center_mm, target.grid, u @ vh, shift)
        return target.params(rotation_deg=_rotation_deg(u @ vh), translation_mm=turned.tolist())
    raise DuotomoError(
        f"carried_over: expected a translation, rigid, affine or B-spline transform to carry to; got "
        f"{type(target).__name__}. Start it from its identity."
    )


def _affine_part(
    source: Transform, params: torch.Tensor, grid: VolumeGrid
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return M and t of `T(x) = c + M (x - c) + t`, c the middle of the grid, fitted over its box."""
    half = torch.tensor(grid.size_mm[::-1], dtype=torch.float64) / 2
    steps = torch.linspace(-1, 1, 5, dtype=torch.float64)
    offsets = torch.cartesian_prod(steps, steps, steps) * half
    center = center_xyz(grid)
    moved = source.points(params, offsets + center) - center
    # The places are symmetric, so their coordinates and the constant are orthogonal: each is fitted alone.
    # A solver of least squares may round in another way the next time, and a resumed run must not.
    return moved.T @ offsets / offsets.square().sum(dim=0), moved.mean(dim=0)


def _about(
    center_mm: torch.Tensor, grid: VolumeGrid, matrix: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    """Return the translation of the same map about another centre than the middle of the grid."""
    return shift + (matrix - torch.eye(3, dtype=torch.float64)) @ (center_mm - center_xyz(grid))


def _rotation_deg(rotation: torch.Tensor) -> list[float]:
    """Return the rotation vector of a proper rotation matrix, in degrees."""
    axis = torch.stack(
        [
            rotation[2, 1] - rotation[1, 2],
            rotation[0, 2] - rotation[2, 0],
            rotation[1, 0] - rotation[0, 1],
        ]
    )
    # Its length is 2 sin(angle); the arc cosine alone would lose half of the digits of a small angle.
    angle = math.atan2(float(axis.norm()), float(torch.trace(rotation)) - 1)
    # sin(angle) / angle -> 1: the antisymmetric part is then the vector itself.
    factor = 0.5 if angle < 1e-6 else angle / (2 * math.sin(angle))
    return [math.degrees(value) for value in (factor * axis).tolist()]
