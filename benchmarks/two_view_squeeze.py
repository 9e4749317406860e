"""A breast at rest pressed for one view by CalculiX: weight, friction, stiff gland and muscle, a held wall.

The chest wall does not stay where it was: as the patient leans in, it tilts and bends by some millimetres.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.calculix import Load, Solved, solve
from benchmarks.hexahedra import Floats, Hexahedra, half_ball
from benchmarks.two_view_bodies import RestBody
from duotomo.errors import DuotomoError
from duotomo.mechanics import Compression
from duotomo.mechanics.mesh import signed_volumes

WEIGHT_KPA_PER_MM = 9.81e-3 * 0.95
_STIFFNESSES = 6
"""Different stiffnesses of elements, from all fat to all gland."""


@dataclass(frozen=True, kw_only=True)
class Squeeze:
    """How a breast is pressed for one view.

    roll_rad: of the breast about the axis to the nipple, seen from the machine. thickness_mm: between the
    plates. shift_mm: where the breast lies on the detector, (x, y). lean_mm: how far the chest wall goes
    along y at its rim in the direction of x, in that of z, and at all of its rim. The others say what the
    breast is made of and how it is held; stiffnesses are shear moduli.
    """

    roll_rad: float
    thickness_mm: float
    shift_mm: tuple[float, float]
    lean_mm: tuple[float, float, float]
    support_mm: float
    fat_kpa: float
    gland_over_fat: float
    muscle_over_fat: float
    friction: float
    wall_kpa_per_mm: float
    poisson_ratio: float = 0.495


def turned(points_mm: Floats, roll_rad: float) -> Floats:
    """Return points, (point, xyz), turned about y: a positive roll takes z towards x."""
    cos, sin = math.cos(roll_rad), math.sin(roll_rad)
    x, y, z = points_mm.T
    return np.stack([cos * x + sin * z, y, cos * z - sin * x], axis=-1)


def shear_kpa(mesh: Hexahedra, frame_mm: Floats, body: RestBody, squeeze: Squeeze) -> Floats:
    """Return the shear modulus of each element, (element,). frame_mm: its nodes in the frame of `rest`."""
    at = frame_mm[mesh.elements]
    middles = at[:, 8:].sum(axis=1) / 4 - at[:, :8].sum(axis=1) / 4
    points = np.concatenate([at, middles[:, None]], axis=1)
    flat = points.reshape(-1, 3)
    shape = points.shape[:2]
    share = body.gland_share(flat, 5.0).reshape(shape).mean(axis=1)
    share = np.round(share * (_STIFFNESSES - 1)) / (_STIFFNESSES - 1)
    muscle = body.muscle(flat).reshape(shape).mean(axis=1) > 0.5
    ratio = np.where(muscle, squeeze.muscle_over_fat, 1 + (squeeze.gland_over_fat - 1) * share)
    shear: Floats = squeeze.fat_kpa * ratio
    return shear


def leaned(mesh: Hexahedra, lean_mm: tuple[float, float, float]) -> Floats:
    """Return how far the nodes of the chest wall go along y, (node of the wall,)."""
    at = mesh.nodes_mm[mesh.wall][:, [0, 2]]
    x, z = ((at - at.mean(axis=0)) / (np.ptp(at, axis=0) / 2)).T
    along_x, along_z, rim = lean_mm
    travel: Floats = along_x * x + along_z * z + rim * (x**2 + z**2)
    return travel


def height_mm(body: RestBody, roll_rad: float) -> float:
    """Return how high a breast at rest is, turned so."""
    z = turned(half_ball(body.place, n_core=4, n_layers=1).nodes_mm, roll_rad)[:, 2]
    return float(np.ptp(z))


_TRIES = (14, 28, 50)
"""Increments: not all breasts get to the end in few."""


def press(
    body: RestBody, squeeze: Squeeze, folder: Path, *, n_core: int = 4, n_layers: int = 3
) -> tuple[Compression, Solved]:
    """Return where the tissue of a breast goes, from the frame of `rest` to that of the machine."""
    mesh = half_ball(lambda q: turned(body.place(q), squeeze.roll_rad), n_core=n_core, n_layers=n_layers)
    frame_mm = half_ball(body.anatomy, n_core=n_core, n_layers=n_layers).nodes_mm
    middle = float(mesh.nodes_mm[:, 2].min() + mesh.nodes_mm[:, 2].max()) / 2
    x, y, z = turned(np.array([[0.0, 0.0, -WEIGHT_KPA_PER_MM]]), squeeze.roll_rad)[0].tolist()
    nu = squeeze.poisson_ratio
    for n_increments in _TRIES:
        load = Load(
            low_mm=middle - squeeze.thickness_mm / 2,
            high_mm=middle + squeeze.thickness_mm / 2,
            shear_kpa=shear_kpa(mesh, frame_mm, body, squeeze),
            bulk_over_shear=2 * (1 + nu) / (3 * (1 - 2 * nu)),
            gravity_kpa_per_mm=(x, y, z),
            friction=squeeze.friction,
            wall_kpa_per_mm=squeeze.wall_kpa_per_mm,
            wall_travel_mm=leaned(mesh, squeeze.lean_mm),
            plate_kpa_per_mm=50 * squeeze.fat_kpa,
            n_increments=n_increments,
        )
        try:
            solved = solve(mesh, load, folder)
            break
        except DuotomoError:
            if n_increments == _TRIES[-1]:
                raise
    lift = squeeze.support_mm - (middle - squeeze.thickness_mm / 2)
    moved = mesh.with_middles(solved.moved_mm) + np.array([*squeeze.shift_mm, lift])
    rest = mesh.with_middles(frame_mm)
    tetrahedra = mesh.tetrahedra()
    grown = signed_volumes(moved, tetrahedra) / signed_volumes(rest, tetrahedra)
    pressed = Compression(
        rest_mm=rest,
        moved_mm=moved,
        tetrahedra=tetrahedra,
        thickness_mm=squeeze.thickness_mm,
        least_jacobian=float(grown.min()),
    )
    return pressed, solved
