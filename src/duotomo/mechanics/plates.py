"""Two plates, and what they do to the skin between them: push back, and hold it by friction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from duotomo.errors import GeometryError
from duotomo.mechanics.mesh import Floats


@dataclass(frozen=True, kw_only=True)
class Paddle:
    """The upper plate, as a plane that may be turned about x.

    Parameters
    ----------
    tilt_rad : float
        Takes y towards z: positive is higher at the nipple, negative higher at the chest wall.
    at_y_mm : float
        Where the thickness between the plates is meant, in the machine frame.

    Examples
    --------
    >>> round(float(Paddle(tilt_rad=0.1, at_y_mm=20.0).rise_mm(60.0)), 2)
    4.01
    """

    tilt_rad: float = 0.0
    at_y_mm: float = 0.0

    def __post_init__(self) -> None:
        if not abs(self.tilt_rad) < math.pi / 4:
            raise GeometryError(
                f"Paddle: expected tilt_rad between -pi/4 and pi/4; got {self.tilt_rad}. Is it in degrees?"
            )
        if not math.isfinite(self.at_y_mm):
            raise GeometryError(f"Paddle: expected a finite at_y_mm; got {self.at_y_mm}.")

    def rise_mm(self, y_mm: ArrayLike) -> Floats:
        """Return how much higher the plate is than where the thickness is meant.

        Parameters
        ----------
        y_mm : array_like
            Where, (...), in the machine frame.

        Returns
        -------
        numpy.ndarray
            (...), in mm.
        """
        rise: Floats = math.tan(self.tilt_rad) * (np.asarray(y_mm, dtype=np.float64) - self.at_y_mm)
        return rise


@dataclass(frozen=True, kw_only=True, eq=False)
class Friction:
    """Coulomb's friction at a pressure p that is held: the potential `c p (sqrt(|s|^2 + e^2) - e)` per area.

    s is the slip along the plate of a point of the skin from its anchor, where it first met the plate. Below
    about e the skin creeps instead of sticking.

    coefficient: c. anchors_mm: (face, point, xyz). creep_mm: e. depth_mm: (face, point), how far the skin was
    in the plates, as `Plates.depth`, when the pressure was taken; positive in the upper plate.
    """

    coefficient: float
    anchors_mm: Floats
    creep_mm: float
    depth_mm: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Plates:
    """Two rigid plates; slippery unless friction is given.

    The lower one is the plane `z = middle_mm - half_gap_mm`; the upper one goes through
    `z = middle_mm + half_gap_mm` at `paddle.at_y_mm`. They push back with `stiffness` shear moduli per mm
    that a point of the skin has gone into a plate.
    """

    middle_mm: float
    half_gap_mm: float
    stiffness: float = 100.0
    paddle: Paddle = field(default_factory=Paddle)
    friction: Friction | None = None

    def depth(self, places_mm: Floats) -> Floats:
        """Return how far points, (..., xyz), are inside the upper (+) or the lower plate (-), (...)."""
        above, below = self._heights(places_mm)
        depth: Floats = np.maximum(above, 0.0) + np.minimum(below, 0.0)
        return depth

    def room(self, places_mm: Floats) -> Floats:
        """Return how far points, (..., xyz), are from the nearer plate, (...); negative inside it."""
        above, below = self._heights(places_mm)
        room: Floats = np.minimum(-above, below)
        return room

    def _heights(self, places_mm: Floats) -> tuple[Floats, Floats]:
        """Return how high points, (..., xyz), are above the upper plate and above the lower one, (...)."""
        cos, sin = math.cos(self.paddle.tilt_rad), math.sin(self.paddle.tilt_rad)
        z = places_mm[..., 2] - self.middle_mm
        above = (z - self.half_gap_mm) * cos - (places_mm[..., 1] - self.paddle.at_y_mm) * sin
        return above, z + self.half_gap_mm

    def energy(self, places_mm: Floats, areas: Floats) -> float:
        """Return the energy of points of the skin, (..., xyz), that stand for areas, (...)."""
        energy = self.stiffness / 2 * np.sum(areas * self.depth(places_mm) ** 2)
        if self.friction is not None:
            _, length, grip = self._slip(places_mm, self.friction)
            energy += np.sum(areas * grip * (length - self.friction.creep_mm))
        return float(energy)

    def push(self, places_mm: Floats, areas: Floats) -> Floats:
        """Return the energy's derivative in each point's place, (..., xyz)."""
        depth = self.depth(places_mm)
        push = (self.stiffness * areas * depth)[..., None] * self._normals(depth)
        if self.friction is not None:
            slip, length, grip = self._slip(places_mm, self.friction)
            push += (areas * grip / length)[..., None] * slip
        return push

    def bend(self, places_mm: Floats, areas: Floats, *, coupled: bool = False) -> Floats:
        """Return the energy's second derivative in each point's place, (..., xyz, xyz).

        coupled: the derivative of the push, whose friction grows with the depth; it is not symmetric. Else an
        upper bound of the energy's bend, which leaves out that friction bends less along the slip.
        """
        depth = self.depth(places_mm)
        normals = self._normals(depth)
        bend: Floats = (self.stiffness * areas * (depth != 0))[..., None, None] * _outer(normals, normals)
        if self.friction is not None:
            slip, length, grip = self._slip(places_mm, self.friction)
            normals = self._normals(self.friction.depth_mm)
            slip = slip / length[..., None]
            along = np.eye(3) - _outer(normals, normals)
            if coupled:
                along -= _outer(slip, slip)
            bend += (areas * grip / length)[..., None, None] * along
            if coupled:
                per_mm = self.friction.coefficient * self.stiffness * np.sign(self.friction.depth_mm)
                bend += (areas * per_mm)[..., None, None] * _outer(slip, normals)
        return bend

    def held(self, places_mm: Floats, *, share: float = 1.0) -> Plates:
        """Return the plates with friction by the pressure at these places, for a share of it."""
        if self.friction is None:
            return self
        depth = (1 - share) * self.friction.depth_mm + share * self.depth(places_mm)
        return replace(self, friction=replace(self.friction, depth_mm=depth))

    def _slip(self, places_mm: Floats, friction: Friction) -> tuple[Floats, Floats, Floats]:
        """Return the slip, its length made smooth, and the greatest force of friction per area."""
        normals = self._normals(friction.depth_mm)
        moved = places_mm - friction.anchors_mm
        slip = moved - np.sum(moved * normals, axis=-1, keepdims=True) * normals
        length = np.sqrt(np.sum(slip**2, axis=-1) + friction.creep_mm**2)
        return slip, length, friction.coefficient * self.stiffness * np.abs(friction.depth_mm)

    def _normals(self, depth_mm: Floats) -> Floats:
        """Return the upward normals of the plates that points are in, (..., xyz)."""
        tilt = self.paddle.tilt_rad
        upper = np.array([0.0, -math.sin(tilt), math.cos(tilt)])
        normals: Floats = np.where(depth_mm[..., None] > 0, upper, np.array([0.0, 0.0, 1.0]))
        return normals


def _outer(left: Floats, right: Floats) -> Floats:
    product: Floats = left[..., :, None] * right[..., None, :]
    return product
