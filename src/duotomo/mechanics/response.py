"""What the compressions of one breast in two views do to it, as polynomials of a few modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import DuotomoError, check_lengths
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.mechanics.compression import Compression, about_y, compress
from duotomo.mechanics.mesh import Floats, library
from duotomo.transforms.compressions import Compressions, Mode, Response, monomials, n_monomials

LATTICE_MM = 8.0
MARGIN_MM = 24.0
"""Of the lattices around the breast: where it is air, displacements level off."""

ROLL_DEG, THICKNESS = 2.5, 0.02
"""How far modes reach that a scan's header tells nearly: rolls, and thicknesses as a share."""

SHIFT_MM, LEAN_DEG, RADIUS = 15.0, 12.0, 0.15
"""How far others reach: shifts and angles of the chest wall, and radii as a share."""

SAMPLES_PER_MONOMIAL = 1.5
"""Compressions that are computed for each coefficient of a polynomial."""

REFINEMENTS = 2
"""Of the meshes: fine enough to follow the finest one to 0.1 mm, and done in half a second."""

_SHAPE = (8, 9, 10)


@dataclass(frozen=True, kw_only=True)
class HeldView:
    """How a breast is held in one view.

    Parameters
    ----------
    thickness_mm : float
        Between the plates.
    roll_deg : float
        How far the breast is turned about y with respect to the machine; a positive roll takes z towards x.
        0 for a craniocaudal view; what the gantry turns by, with its sign, for an oblique one.
    center_mm : tuple of float
        Middle of the chest wall, (x, y), in the machine frame.
    support_mm : float
        Height of the lower plate's surface.
    """

    thickness_mm: float
    roll_deg: float = 0.0
    center_mm: tuple[float, float] = (0.0, 0.0)
    support_mm: float = 0.0

    def __post_init__(self) -> None:
        check_lengths("HeldView", "thickness_mm", self.thickness_mm)

    @property
    def middle_mm(self) -> tuple[float, float, float]:
        """Middle of the chest wall, (x, y, z), halfway between the plates."""
        return (*self.center_mm, self.support_mm + self.thickness_mm / 2)

    def compressed(
        self, radii_mm: Sequence[float], *, roll_deg: float, thickness_mm: float, refinements: int
    ) -> Compression:
        """Return a breast that is held like this, with a roll and thickness of its own.

        Parameters
        ----------
        radii_mm : sequence of float
            Of the breast at rest, (x, y, z).
        roll_deg, thickness_mm : float
            Instead of those of the view.
        refinements : int
            Of the mesh, as for `compress`.

        Returns
        -------
        Compression
            In the machine frame of the view.
        """
        x, y, z = radii_mm
        return compress(
            BreastShape(center_mm=self.middle_mm, radii_mm=(x, y, z)),
            thickness_mm=thickness_mm,
            roll_rad=math.radians(roll_deg),
            support_mm=self.support_mm,
            refinements=refinements,
        )


def compressions_of(
    radii_mm: Sequence[float],
    *,
    moving: HeldView,
    reference: HeldView,
    grid: VolumeGrid,
    refinements: int = REFINEMENTS,
) -> Compressions:
    """Return what two compressions do to a breast, by modes about what is expected.

    Both are computed by finite elements for some tens of values of the modes, spread evenly over their range,
    and quadratic polynomials are fitted.

    Parameters
    ----------
    radii_mm : sequence of float
        Of the breast at rest, (x, y, z), half an ellipsoid.
    moving, reference : HeldView
        Of the two views.
    grid : VolumeGrid
        Of the moving visit.
    refinements : int
        Of the mesh, as for `compress`.

    Returns
    -------
    Compressions
        For `Recompression`.

    Raises
    ------
    DuotomoError
        If too few of the compressions find a balance.
    """
    modes = _modes(radii_mm, moving, reference)
    released, pressed = (0, 6, *_SHAPE), (1, 7, *_SHAPE)
    around = _lattice(np.array(grid.low_mm[::-1]), np.array(grid.high_mm[::-1]))
    middle, reach = np.array(reference.middle_mm), max(radii_mm) * (1 + RADIUS)
    at_rest = _lattice(
        middle - np.array([reach, 0.0, reach]), middle + np.array([reach, radii_mm[1] * (1 + RADIUS), reach])
    )
    values = _spread(len(released))

    def of(view: HeldView, numbers: tuple[int, ...], lattice: VolumeGrid, *, back: bool) -> Response:
        points = voxel_centers_mm(lattice).reshape(-1, 3)
        center = np.array(view.middle_mm)

        def displaced(shares: Floats) -> Floats | None:
            roll, thickness, *radii = (
                modes[k].expected + modes[k].reach * s for k, s in zip(numbers, shares, strict=True)
            )
            try:
                held = view.compressed(radii, roll_deg=roll, thickness_mm=thickness, refinements=refinements)
            except DuotomoError:
                return None
            turn = about_y(math.radians(roll))
            if back:
                there = center + (held.to_rest(points) - center) @ turn.T
            else:
                there = held.from_rest(center + (points - center) @ turn)
            moved: Floats = there - points
            return moved

        return _fitted(lattice, numbers, values, [displaced(shares) for shares in values])

    return Compressions(
        modes=modes,
        release=of(moving, released, around, back=True),
        press=of(reference, pressed, at_rest, back=False),
        moving_center_mm=moving.middle_mm,
        reference_center_mm=reference.middle_mm,
    )


def _modes(radii_mm: Sequence[float], moving: HeldView, reference: HeldView) -> tuple[Mode, ...]:
    shape = [
        Mode(name=f"radius_{axis}_mm", expected=radius, reach=RADIUS * radius)
        for axis, radius in zip("xyz", radii_mm, strict=True)
    ]
    thickness = [
        Mode(name=f"thickness_{name}_mm", expected=view.thickness_mm, reach=THICKNESS * view.thickness_mm)
        for name, view in (("moving", moving), ("reference", reference))
    ]
    return (
        Mode(name="roll_moving_deg", expected=moving.roll_deg, reach=ROLL_DEG),
        Mode(name="roll_reference_deg", expected=reference.roll_deg, reach=ROLL_DEG),
        Mode(name="shift_x_mm", expected=0.0, reach=SHIFT_MM),
        Mode(name="shift_y_mm", expected=0.0, reach=SHIFT_MM),
        Mode(name="lean_x_deg", expected=0.0, reach=LEAN_DEG),
        Mode(name="lean_z_deg", expected=0.0, reach=LEAN_DEG),
        *thickness,
        *shape,
    )


def _spread(n_modes: int) -> Floats:
    """Return values in [-1, 1] that fill the range of all modes evenly, (sample, mode)."""
    qmc: Any = library("scipy.stats.qmc")
    n = math.ceil(SAMPLES_PER_MONOMIAL * n_monomials(n_modes))
    drawn: Floats = 2 * qmc.LatinHypercube(n_modes, rng=0, optimization="random-cd").random(n) - 1
    return drawn


def _lattice(low_mm: NDArray[Any], high_mm: NDArray[Any]) -> VolumeGrid:
    """Return a lattice of cubes over a box, (x, y, z), and its margin."""
    size, middle = high_mm - low_mm + 2 * MARGIN_MM, (low_mm + high_mm) / 2
    n_x, n_y, n_z = (math.ceil(mm / LATTICE_MM) + 1 for mm in size)
    x, y, z = middle.tolist()
    return VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(LATTICE_MM,) * 3, center_mm=(z, y, x))


def _fitted(
    lattice: VolumeGrid, numbers: tuple[int, ...], values: Floats, found: Sequence[Floats | None]
) -> Response:
    """Return the polynomial that is nearest to the displacements, (point, xyz), of samples."""
    good = [k for k, one in enumerate(found) if one is not None]
    least = n_monomials(len(numbers)) + 2
    if len(good) < least:
        raise DuotomoError(
            f"compressions_of: expected at least {least} compressions that find a balance; got {len(good)} "
            f"of {len(found)}. Check radii_mm, thickness_mm and roll_deg: is the breast so thin?"
        )
    matrix = monomials(torch.from_numpy(values[good])).numpy()
    rows = np.stack([np.asarray(found[k]).reshape(-1) for k in good])
    solved = np.linalg.lstsq(matrix, rows, rcond=None)[0].reshape(-1, *lattice.shape, 3)
    splines = np.moveaxis(solved, -1, 1)
    ndimage: Any = library("scipy.ndimage")
    for axis in (2, 3, 4):
        splines = ndimage.spline_filter1d(splines, axis=axis, mode="mirror")
    return Response(
        lattice=lattice, modes=numbers, coefficients=torch.from_numpy(np.ascontiguousarray(splines))
    )
