"""How stiff tissue is from place to place, over the shear modulus of fat."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import GeometryError, ShapeError, check_lengths
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import world_to_voxel
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.mechanics.mesh import Floats, library

StiffnessMap = Callable[[Floats], Floats]
"""Takes points at rest, (point, xyz) in mm, to the shear modulus there over that of fat, (point,)."""


class Stiffness:
    """A shear modulus over that of fat, at points at rest; maps can be added and multiplied, point by point.

    `gland * muscle` is 1 in fat, where both are; `0.5 * one + 0.5 * other` is their mean.
    """

    def __call__(self, points_mm: Floats) -> Floats:
        """Return the shear modulus over that of fat, (point,), at points at rest, (point, xyz) in mm."""
        raise NotImplementedError

    def __add__(self, other: StiffnessMap) -> Stiffness:
        return _Sum(one=self, other=other)

    def __mul__(self, other: StiffnessMap | float) -> Stiffness:
        return _Product(one=self, other=other)

    __rmul__ = __mul__


@dataclass(frozen=True, kw_only=True)
class _Sum(Stiffness):
    one: StiffnessMap
    other: StiffnessMap

    def __call__(self, points_mm: Floats) -> Floats:
        return self.one(points_mm) + self.other(points_mm)


@dataclass(frozen=True, kw_only=True)
class _Product(Stiffness):
    one: StiffnessMap
    other: StiffnessMap | float

    def __call__(self, points_mm: Floats) -> Floats:
        factor = self.other(points_mm) if callable(self.other) else self.other
        return self.one(points_mm) * factor


@dataclass(frozen=True, kw_only=True)
class GlandInFat(Stiffness):
    """An ellipsoid of gland in fat: `1 + (ratio - 1) (1 + tanh(d / border_mm)) / 2` at a depth d in it.

    Parameters
    ----------
    center_mm, radii_mm : tuple of float
        Of the ellipsoid, (x, y, z), at rest.
    ratio : float
        Stiffness of gland over that of fat.
    border_mm : float
        Over which one becomes the other.

    Examples
    --------
    >>> shape = BreastShape(center_mm=(0.0, 0.0, 40.0), radii_mm=(45.0, 40.0, 30.0))
    >>> gland = GlandInFat.behind_nipple(shape, ratio=4.0)
    >>> gland(np.array([[0.0, 18.0, 40.0], [0.0, 0.0, 65.0]])).round(2).tolist()
    [4.0, 1.0]
    """

    center_mm: tuple[float, float, float]
    radii_mm: tuple[float, float, float]
    ratio: float = 3.0
    border_mm: float = 4.0

    def __post_init__(self) -> None:
        check_lengths("GlandInFat", "radii_mm (x, y, z)", *self.radii_mm)
        check_lengths("GlandInFat", "border_mm", self.border_mm)
        _check_factor("GlandInFat", "ratio", self.ratio)

    @classmethod
    def behind_nipple(
        cls, shape: BreastShape, *, ratio: float = 3.0, share: float = 0.5, border_mm: float = 4.0
    ) -> GlandInFat:
        """Return a gland behind the nipple, at a twentieth of the breast's depth from it.

        Parameters
        ----------
        shape : BreastShape
            At rest.
        ratio : float
            Stiffness of gland over that of fat.
        share : float
            The gland's radii over those of the breast.
        border_mm : float
            Over which one becomes the other.

        Returns
        -------
        GlandInFat
            The gland.
        """
        x, y, z = shape.center_mm
        r_x, r_y, r_z = (share * radius for radius in shape.radii_mm)
        return cls(
            center_mm=(x, y + 0.95 * shape.radii_mm[1] - r_y, z),
            radii_mm=(r_x, r_y, r_z),
            ratio=ratio,
            border_mm=border_mm,
        )

    def __call__(self, points_mm: Floats) -> Floats:
        outline = BreastShape(center_mm=self.center_mm, radii_mm=self.radii_mm)
        return _between(self.ratio, outline.depth_mm(points_mm) / self.border_mm)


@dataclass(frozen=True, kw_only=True)
class PectoralMuscle(Stiffness):
    """A wedge of muscle at the chest wall: `1 + (tension - 1) (1 + tanh(d / border_mm)) / 2` at a depth d.

    It begins at a line through `edge_mm` and grows thicker towards `outward`, along y.

    Parameters
    ----------
    edge_mm : tuple of float
        A point of the line where the wedge has no thickness, (x, y, z), at rest, on the chest wall.
    outward : tuple of float
        Direction in the chest wall in which it grows, (x, z), of any length.
    slope : float
        Its thickness along y for each mm along `outward`.
    tension : float
        Stiffness of the muscle over that of fat: an arm that pulls makes it larger.
    border_mm : float
        Over which one becomes the other.

    Examples
    --------
    >>> shape = BreastShape(center_mm=(0.0, 0.0, 40.0), radii_mm=(45.0, 40.0, 30.0))
    >>> muscle = PectoralMuscle.upper_outer(shape, outer=1, tension=6.0)
    >>> muscle(np.array([[30.0, 0.0, 55.0], [-30.0, 10.0, 40.0]])).round(1).tolist()
    [6.0, 1.0]
    """

    edge_mm: tuple[float, float, float]
    outward: tuple[float, float]
    slope: float
    tension: float = 5.0
    border_mm: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < math.hypot(*self.outward) < math.inf:
            raise GeometryError(
                f"PectoralMuscle: expected a direction outward, (x, z); got {self.outward}. (1, 1) is up "
                f"and towards x."
            )
        if not 0 < self.slope < math.inf:
            raise GeometryError(f"PectoralMuscle: expected slope > 0; got {self.slope}. 0.5 is usual.")
        check_lengths("PectoralMuscle", "border_mm", self.border_mm)
        _check_factor("PectoralMuscle", "tension", self.tension)

    @classmethod
    def upper_outer(
        cls,
        shape: BreastShape,
        *,
        outer: int,
        tension: float = 5.0,
        share: float = 0.35,
        border_mm: float = 3.0,
    ) -> PectoralMuscle:
        """Return a wedge on the upper (+z) and outer side, which begins at the middle of the chest wall.

        Parameters
        ----------
        shape : BreastShape
            At rest.
        outer : int
            1 where the outer side is that of +x, -1 where it is that of -x.
        tension : float
            Stiffness of the muscle over that of fat.
        share : float
            The wedge's thickness at the skin over the breast's depth.
        border_mm : float
            Over which one becomes the other.

        Returns
        -------
        PectoralMuscle
            The wedge.
        """
        if outer not in (-1, 1):
            raise GeometryError(f"PectoralMuscle.upper_outer: expected outer 1 or -1; got {outer}.")
        r_x, r_y, r_z = shape.radii_mm
        # Half the distance across the chest wall, along a diagonal.
        across_mm = math.sqrt(2) / math.hypot(1 / r_x, 1 / r_z)
        return cls(
            edge_mm=shape.center_mm,
            outward=(float(outer), 1.0),
            slope=share * r_y / across_mm,
            tension=tension,
            border_mm=border_mm,
        )

    def __call__(self, points_mm: Floats) -> Floats:
        along = np.asarray(self.outward) / math.hypot(*self.outward)
        away = points_mm - np.asarray(self.edge_mm)
        depth_mm = (self.slope * (away[:, [0, 2]] @ along) - away[:, 1]) / math.hypot(self.slope, 1)
        return _between(self.tension, depth_mm / self.border_mm)


@dataclass(frozen=True, kw_only=True, eq=False)
class GlandVolume(Stiffness):
    """A volume of gland fractions, mixed linearly: `1 + (ratio - 1) fraction`; around the grid is fat.

    Fractions are linear between voxel centres. They are read at four points of each tetrahedron: give them
    averaged over a few mm.

    Parameters
    ----------
    fractions : numpy.ndarray
        Of gland, from 0 to 1, (z, y, x) on the grid.
    grid : VolumeGrid
        At rest.
    ratio : float
        Stiffness of gland over that of fat.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((2, 4, 4), (10.0, 10.0, 10.0))
    >>> mixed = GlandVolume(fractions=np.full(grid.shape, 0.25), grid=grid, ratio=5.0)
    >>> mixed(np.array([[0.0, 20.0, 10.0], [0.0, 200.0, 10.0]])).tolist()
    [2.0, 1.0]
    """

    fractions: NDArray[Any] = field(repr=False)
    grid: VolumeGrid
    ratio: float = 3.0

    def __post_init__(self) -> None:
        if self.fractions.shape != self.grid.shape:
            raise ShapeError(
                f"GlandVolume: expected fractions (z, y, x) = {self.grid.shape}; got {self.fractions.shape}. "
                "Axes reversed?"
            )
        if not ((self.fractions >= 0) & (self.fractions <= 1)).all():
            raise GeometryError(
                f"GlandVolume: expected fractions from 0 to 1; got {self.fractions.min()} to "
                f"{self.fractions.max()}. Divide by the attenuation of gland less that of fat?"
            )
        _check_factor("GlandVolume", "ratio", self.ratio)

    def __call__(self, points_mm: Floats) -> Floats:
        index = world_to_voxel(self.grid, points_mm).T
        interpolate = library("scipy.ndimage").map_coordinates
        fractions = interpolate(
            np.asarray(self.fractions, dtype=np.float64), index, order=1, mode="grid-constant"
        )
        stiffness: Floats = 1 + (self.ratio - 1) * fractions
        return stiffness


def stiffness_at(stiffness: StiffnessMap | None, points_mm: Floats) -> Floats | None:
    """Return a map's stiffness at points, (..., xyz) -> (...); none without a map."""
    if stiffness is None:
        return None
    values = np.asarray(stiffness(points_mm.reshape(-1, 3)), dtype=np.float64)
    expected = (points_mm[..., 0].size,)
    if values.shape != expected:
        raise ShapeError(
            f"compress: expected stiffness of points {(*expected, 3)} to be {expected}; got {values.shape}. "
            "Return one number for each point."
        )
    if not ((values > 0) & np.isfinite(values)).all():
        raise GeometryError(
            f"compress: expected stiffness > 0 at all points; got {values.min()} to {values.max()}. It is "
            "the shear modulus over that of fat."
        )
    return values.reshape(points_mm.shape[:-1])


def _between(factor: float, depth: Floats) -> Floats:
    """Return 1 far outside, `factor` deep inside, and half of each on the border."""
    values: Floats = 1 + (factor - 1) * (1 + np.tanh(depth)) / 2
    return values


def _check_factor(owner: str, name: str, factor: float) -> None:
    if not 0 < factor < math.inf:
        raise GeometryError(f"{owner}: expected {name} > 0; got {factor}. It is a factor over fat.")
