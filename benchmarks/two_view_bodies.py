"""Breasts at rest for cases of two views: their outline, attenuation and stiffness.

The frame is that of the craniocaudal machine before anything is pressed: x to the patient's right, y from the
chest wall to the nipple, z up. The outlines are not half ellipsoids, so that no model which is fitted to a
case is the one that made it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.ndimage as ndi
from numpy.typing import NDArray

from benchmarks.change_anatomies import (
    ANATOMIES,
    DENSITIES,
    FAT,
    GLAND,
    MASS,
    REST_MM,
    WALL_MM,
    Anatomy,
    _one_body,
    attenuation,
)
from benchmarks.hexahedra import Floats
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm, world_to_voxel
from duotomo.phantoms import Breast, BreastShape, Tissue, attenuation_per_mm
from duotomo.phantoms.attenuation import JOHNS_YAFFE_20_KEV_PER_MM

MUSCLE = JOHNS_YAFFE_20_KEV_PER_MM[Tissue.GLANDULAR] * 1.08
"""Attenuation of the pectoral muscle, 1/mm: a little above gland."""

N_LESIONS = 3
_DIRECTIONS, _SMOOTH_RAD = 1500, 0.20
_ALONG_WALL, _WIDEST_MM, _AROUND_MM = 0.3, 62.0, 4.0
"""Directions of a lower y than this run along the chest wall, and the breast reaches at most so far there."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RestBody:
    """A breast at rest.

    Parameters
    ----------
    name, side, density, split : str
        side: "R" or "L". split: "development" or "judged".
    place : callable
        Takes the half ball `|q| <= 1`, `q_y >= 0` to the body, (point, xyz) in mm.
    anatomy : callable
        Takes it to the frame of `rest`. Where the two differ, the breast hangs.
    rest : numpy.ndarray
        Attenuation, (z, y, x) on `grid`, 1/mm.
    nipple_mm : numpy.ndarray
        (xyz,), in the frame of `rest`; lesions_mm: (lesion, xyz); lesion_sizes_mm: their diameters.
    muscle : callable
        Takes points of the frame of `rest` to how much of them is muscle.
    skin_mm : float
        Nothing that is less deep counts as gland: skin attenuates alike.
    """

    name: str
    side: str
    density: str
    split: str
    place: Callable[[Floats], Floats]
    anatomy: Callable[[Floats], Floats]
    rest: Floats = field(repr=False)
    grid: VolumeGrid
    nipple_mm: Floats
    lesions_mm: Floats
    lesion_sizes_mm: Floats
    muscle: Callable[[Floats], Floats]
    skin_mm: float = 3.5

    def value_at(self, points_mm: Floats, volume: Floats | None = None) -> Floats:
        """Return the attenuation at points, (point, xyz), in the frame of `rest`."""
        at = world_to_voxel(self.grid, points_mm).T
        values: Floats = ndi.map_coordinates(self.rest if volume is None else volume, at, order=1)
        return values

    def gland_share(self, points_mm: Floats, over_mm: float) -> Floats:
        """Return the share of gland in fat and gland around points, 0 to 1, over a cube of some mm."""
        share = np.clip((self.rest - FAT) / (GLAND - FAT), 0, 1) * (self.rest > FAT / 2)
        mean: Floats = self.value_at(points_mm, ndi.uniform_filter(share, round(over_mm / REST_MM)))
        return mean


def bodies(breast_mr: Path | None) -> list[tuple[str, str]]:
    """Return the names and sides of all breasts, women's only where their images are there.

    Densities take turns, and procedural breasts with women's, so that the first few cases differ.
    """
    procedural = [one.name for one in ANATOMIES if one.chest_wall_mm is None]
    items = [(name, "RL"[(n // 4 + n) % 2]) for n, name in enumerate(procedural)]
    there = {path.name[0] for path in breast_mr.glob("*.nii.gz")} if breast_mr is not None else set()
    women = [one.name for one in ANATOMIES if one.chest_wall_mm and one.name[0] in there]
    # One breast of each woman first.
    second = [name for name in women if name[1] == "L" and f"{name[0]}R" in women]
    sides = [(name, name[1]) for name in women if name not in second] + [(name, "L") for name in second]
    return items[:8] + sides[:6] + items[8:] + sides[6:]


def make_body(name: str, side: str, breast_mr: Path | None) -> RestBody:
    """Return a breast; all that is random about it follows from its name."""
    anatomy = next(one for one in ANATOMIES if one.name == name)
    if anatomy.chest_wall_mm is None:
        return _procedural(anatomy, side)
    if breast_mr is None:
        raise FileNotFoundError(f"two_view_bodies: no folder of images for {name}")
    return _woman(anatomy, side, breast_mr)


def _procedural(anatomy: Anatomy, side: str) -> RestBody:
    rng = np.random.default_rng([2, *anatomy.name.encode()])
    r_x, r_y, r_z = (float(r) for r in rng.uniform((52, 58, 44), (68, 84, 56)))
    center = np.array([0.0, -WALL_MM, 0.0])
    shape = BreastShape(center_mm=(0.0, -WALL_MM, 0.0), radii_mm=(r_x, r_y, r_z))
    breast = Breast(
        shape=shape, density=DENSITIES[anatomy.density], seed=int(rng.integers(2**31)), nipple_radius_mm=4.0
    )
    n_z, n_y, n_x = (math.ceil(size / REST_MM) + 4 for size in (2 * r_z, r_y + 6, 2 * r_x))
    # Nothing lies behind the chest wall: it is a face of voxels.
    grid = VolumeGrid(
        shape=(n_z, n_y, n_x),
        spacing_mm=(REST_MM,) * 3,
        center_mm=(0.0, center[1] + (n_y / 2 - 2) * REST_MM, 0.0),
    )
    adipose, gland = (attenuation_per_mm(t, energy_kev=20.0) for t in (Tissue.ADIPOSE, Tissue.GLANDULAR))
    rest = breast.voxels(grid, oversample=2)
    inside = FAT + (rest - adipose) * (GLAND - FAT) / (gland - adipose)
    rest = np.where(rest > adipose, inside, rest * FAT / adipose)
    radii = np.array([r_x, r_y, r_z])
    full, hang_mm, wide = (float(v) for v in rng.uniform((0.05, 4.0, 0.03), (0.15, 12.0, 0.10)))

    def place(q: Floats) -> Floats:
        x, y, z = q.T
        # Fuller below than above, wider below, and the nipple hangs.
        bent = np.stack([x * (1 - wide * z), y, z * (1 - full * z) - hang_mm / r_z * y**2], axis=-1)
        placed: Floats = center + radii * bent
        return placed

    return _with_parts(
        rng,
        name=anatomy.name,
        side=side,
        anatomy=anatomy,
        place=place,
        frame=lambda q: center + radii * q,
        rest=rest,
        grid=grid,
        nipple=center + np.array([0.0, r_y, 0.0]),
        radii=radii,
    )


def _woman(anatomy: Anatomy, side: str, folder: Path) -> RestBody:
    """Return a woman's breast. Its outline is smoothed, and what stands out of that is carried along."""
    files = sorted(folder.glob(f"{anatomy.name[0]}_*.nii.gz"))
    files = [path for path in files if "nofatsat" not in path.name and "t5_post" not in path.name]
    if not files or anatomy.chest_wall_mm is None:
        raise FileNotFoundError(f"two_view_bodies: no {anatomy.name[0]}_*.nii.gz in {folder}")
    rng = np.random.default_rng([2, *anatomy.name.encode()])
    # From z left, x up to z up, x right.
    found = attenuation(files[0], side)[:, round(anatomy.chest_wall_mm / REST_MM) :].transpose(2, 1, 0)[
        :, :, ::-1
    ]
    rest = _one_body(found)
    (z, y, x), (n_z, n_y, n_x) = np.argwhere(rest).min(axis=0), np.ptp(np.argwhere(rest), axis=0) + 1
    rest = np.pad(rest[z : z + n_z, y : y + n_y, x : x + n_x], 2)
    grid = VolumeGrid(
        shape=rest.shape, spacing_mm=(REST_MM,) * 3, center_mm=(0.0, n_y / 2 * REST_MM - WALL_MM, 0.0)
    )
    mask = rest > FAT / 2
    outline = _star(mask, grid)

    def place(q: Floats) -> Floats:
        placed: Floats = outline.center_mm + q * outline.reach_mm(q)[:, None]
        return placed

    rest = rest * _near(outline, grid)
    mask = rest > FAT / 2
    tips = voxel_centers_mm(grid)[mask]
    nipple = tips[tips[:, 1] > tips[:, 1].max() - 3.0].mean(axis=0)
    return _with_parts(
        rng,
        name=anatomy.name,
        side=side,
        anatomy=anatomy,
        place=place,
        frame=place,
        rest=rest.astype(np.float64),
        grid=grid,
        nipple=nipple,
        radii=np.full(3, np.median(outline.lengths_mm)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Outline:
    """How far a body reaches from the middle of its chest wall, in directions, (direction, xyz)."""

    center_mm: Floats
    directions: Floats
    lengths_mm: Floats

    def reach_mm(self, vectors: Floats) -> Floats:
        """Return how far it reaches in the directions of vectors, (point, xyz), smoothed."""
        size = np.linalg.norm(vectors, axis=1, keepdims=True)
        way = np.where(size > 1e-9, vectors / np.maximum(size, 1e-9), [0.0, 1.0, 0.0])
        weights = np.zeros((len(way), len(self.directions)))
        # Mirrored at the chest wall, so that the outline meets it at a right angle.
        for mirror in ((1.0, 1.0, 1.0), (1.0, -1.0, 1.0)):
            weights += np.exp(((way * mirror) @ self.directions.T - 1) / _SMOOTH_RAD**2)
        reach: Floats = weights @ self.lengths_mm / weights.sum(axis=1)
        return reach


def _star(mask: NDArray[np.bool_], grid: VolumeGrid) -> _Outline:
    """Return the outline of a body that is seen from the middle of its chest wall."""
    points = voxel_centers_mm(grid)
    behind = points[:, :10][mask[:, :10]]
    center = np.array([behind[:, 0].mean(), -WALL_MM, behind[:, 2].mean()])
    number = np.arange(_DIRECTIONS) + 0.5
    y, around = number / _DIRECTIONS, np.pi * (1 + math.sqrt(5)) * number
    flat = np.sqrt(1 - y**2)
    directions = np.stack([flat * np.cos(around), y, flat * np.sin(around)], axis=1)
    steps = np.arange(1.0, 160.0)
    at = world_to_voxel(grid, center + np.array([0, 1.5, 0]) + directions[:, None] * steps[:, None])
    inside = ndi.map_coordinates(mask.astype(np.float32), np.moveaxis(at, -1, 0), order=1) > 0.5
    # The first way out: folds of skin beyond air do not count.
    lengths = np.where(inside.all(axis=1), steps[-1], steps[np.argmin(inside, axis=1)])
    # Along the chest wall an image goes on where the breast has ended.
    most = np.where(y < _ALONG_WALL, _WIDEST_MM, np.inf)
    return _Outline(center_mm=center, directions=directions, lengths_mm=np.minimum(lengths, most))


def _near(outline: _Outline, grid: VolumeGrid) -> NDArray[np.float32]:
    """Return 1 inside an outline and up to some mm around it, and 0 beyond, (z, y, x)."""
    coarse = voxel_centers_mm(grid)[::3, ::3, ::3]
    away = coarse - outline.center_mm
    beyond = np.linalg.norm(away, axis=-1) - outline.reach_mm(away.reshape(-1, 3)).reshape(away.shape[:3])
    at = np.indices(grid.shape) / 3
    near = ndi.map_coordinates(beyond, at, order=1, mode="nearest") < _AROUND_MM
    mask: NDArray[np.float32] = near.astype(np.float32)
    return mask


def _with_parts(
    rng: np.random.Generator,
    *,
    name: str,
    side: str,
    anatomy: Anatomy,
    place: Callable[[Floats], Floats],
    frame: Callable[[Floats], Floats],
    rest: Floats,
    grid: VolumeGrid,
    nipple: Floats,
    radii: Floats,
) -> RestBody:
    """Return the body with a pectoral muscle behind it, and lesions in it."""
    outwards = 1.0 if side == "R" else -1.0
    thick_mm = float(rng.uniform(18, 30))

    def muscle(points_mm: Floats) -> Floats:
        # A wedge on the chest wall, thicker towards the armpit.
        up = (outwards * points_mm[..., 0] / radii[0] + points_mm[..., 2] / radii[2]) / math.sqrt(2)
        thickness = thick_mm * np.clip((up - 0.1) / 0.8, 0, 1)
        share: Floats = np.clip(thickness - (points_mm[..., 1] + WALL_MM), 0, 1)
        return share

    points = voxel_centers_mm(grid)
    tissue = rest > FAT / 2
    deep = ndi.distance_transform_edt(np.pad(tissue, ((0, 0), (1, 0), (0, 0)), mode="edge"))[:, 1:]
    inner = tissue & (deep > 3.0)
    rest = np.where(inner, rest + (MUSCLE - rest) * muscle(points), rest)
    # Lesions where gland meets fat, well inside the breast and apart from each other.
    share = ndi.uniform_filter(np.clip((rest - FAT) / (GLAND - FAT), 0, 1), 11)
    good = (deep > 12) & (points[..., 1] > 12) & (muscle(points) == 0) & (share > 0.15) & (share < 0.75)
    places = points[good]
    chosen: list[Floats] = []
    for number in rng.permutation(len(places)):
        if all(np.linalg.norm(places[number] - other) > 20 for other in chosen):
            chosen.append(places[number])
        if len(chosen) == N_LESIONS:
            break
    sizes = rng.uniform(6, 11, len(chosen))
    for middle, size in zip(chosen, sizes, strict=True):
        away = np.linalg.norm(points - middle, axis=-1)
        rest = rest + (np.maximum(MASS, rest) - rest) * np.clip(size / 2 - away + 0.5, 0, 1)
    return RestBody(
        name=name,
        side=side,
        density=anatomy.density,
        split=anatomy.split,
        place=place,
        anatomy=frame,
        rest=rest,
        grid=grid,
        nipple_mm=nipple,
        lesions_mm=np.array(chosen).reshape(-1, 3),
        lesion_sizes_mm=sizes,
        muscle=muscle,
        # Beside a coil, images are bright for some way below the skin.
        skin_mm=3.5 if anatomy.chest_wall_mm is None else 7.0,
    )
