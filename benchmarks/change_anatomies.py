"""Breasts for a trial of change detection: procedural ones and women's, under several compressions.

Each is kept as one small .npz: the breast at rest, and where points between the plates lay at rest, for a few
placements. Making them needs finite elements; reading them needs numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.ndimage as ndi
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm, world_to_voxel
from duotomo.mechanics.compression import Compression
from duotomo.mechanics.compression_mask import compress_mask
from duotomo.phantoms import Breast, BreastShape, Density, Tissue, attenuation_per_mm, compress
from duotomo.phantoms.attenuation import JOHNS_YAFFE_20_KEV_PER_MM

Floats = NDArray[np.float64]

FAT, GLAND, MASS = (JOHNS_YAFFE_20_KEV_PER_MM[t] for t in (Tissue.ADIPOSE, Tissue.GLANDULAR, Tissue.MASS))
REST_MM, LATTICE_MM = 1.0, 4.0
SUPPORT_MM = 5.0
"""Height of the lower plate above the detector."""

WALL_MM = 12.0
"""Of breast behind the detector's edge, y = 0: tissue that no ray sees, and that a shift brings into view."""

ROLLS_DEG = (0.0, 0.0, 7.0, -6.0)
SQUEEZES = (1.03, 0.96, 1.0, 1.0)
"""Placements: how the breast is rolled about the axis to the nipple, and how thick it is, over its usual."""

DENSITIES = {"fatty": Density.A, "scattered": Density.B, "heterogeneous": Density.C, "dense": Density.D}
N_EACH = 4
"""Procedural breasts of each density."""

HIGHEST_PER_MM = 0.1
"""What 255 stands for in a file."""


@dataclass(frozen=True, kw_only=True)
class Anatomy:
    """One breast.

    name: such as "fatty1", or "AL" for the left breast of woman A. split: "development" or "judged".
    chest_wall_mm: of a woman's image to leave out; None for a procedural breast.
    """

    name: str
    density: str
    split: str
    chest_wall_mm: float | None = None


# Sides as the images are good; densities and chest walls read off them.
_WOMEN = {
    "A": ("RL", "scattered", 18.0),
    "C": ("RL", "heterogeneous", 18.0),
    "G": ("RL", "scattered", 24.0),
    "H": ("RL", "scattered", 24.0),
    "I": ("L", "heterogeneous", 28.0),
    "K": ("R", "fatty", 24.0),
    "M": ("R", "fatty", 18.0),
    "O": ("RL", "dense", 10.0),
}
_DEVELOPMENT = "ACGKO"


def _split(development: bool) -> str:
    return "development" if development else "judged"


ANATOMIES = (
    *(
        Anatomy(name=f"{density}{number}", density=density, split=_split(number % 2 == 1))
        for number in range(1, N_EACH + 1)
        for density in DENSITIES
    ),
    *(
        Anatomy(name=woman + side, density=density, split=_split(woman in _DEVELOPMENT), chest_wall_mm=wall)
        for woman, (sides, density, wall) in _WOMEN.items()
        for side in sides
    ),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Placements:
    """A breast at rest, and under each of its compressions.

    rest: attenuation at rest, (z, y, x) on rest_grid, 1/mm, float32. fields_mm: `to_rest(x) - x` between the
    plates, (placement, xyz, z, y, x) at the voxel centres of `lattice`. thickness_mm: (placement,).
    low_mm, high_mm: the box of what attenuates, (placement, xyz).
    """

    rest: NDArray[np.float32] = field(repr=False)
    rest_grid: VolumeGrid
    fields_mm: Floats = field(repr=False)
    lattice: VolumeGrid
    thickness_mm: Floats
    low_mm: Floats
    high_mm: Floats

    def to_rest(self, placement: int, points_mm: Floats) -> Floats:
        """Return where points between the plates, (point, xyz) in mm, lay at rest."""
        at = world_to_voxel(self.lattice, points_mm).T
        shifts = [ndi.map_coordinates(u, at, order=1, mode="nearest") for u in self.fields_mm[placement]]
        moved: Floats = points_mm + np.stack(shifts, axis=-1)
        return moved

    def write(self, path: Path) -> None:
        """Write it, whole or not at all."""
        part = path.with_suffix(".part.npz")
        np.savez_compressed(
            part,
            rest=np.round(self.rest * (255 / HIGHEST_PER_MM)).clip(0, 255).astype(np.uint8),
            rest_grid=self.rest_grid.to_json(),
            fields_mm=self.fields_mm.astype(np.float16),
            lattice=self.lattice.to_json(),
            thickness_mm=self.thickness_mm,
            low_mm=self.low_mm,
            high_mm=self.high_mm,
        )
        part.replace(path)

    @classmethod
    def read(cls, path: Path) -> Placements:
        """Read what `write` wrote."""
        if not path.is_file():
            raise DuotomoError(
                f"change_anatomies: expected {path.name} in {path.parent}; it is not there. Make it with "
                f"`python -m benchmarks.change_cases prepare --cache {path.parent}`."
            )
        with np.load(path) as file:
            return cls(
                rest=file["rest"].astype(np.float32) * np.float32(HIGHEST_PER_MM / 255),
                rest_grid=VolumeGrid.from_json(str(file["rest_grid"])),
                fields_mm=file["fields_mm"].astype(np.float64),
                lattice=VolumeGrid.from_json(str(file["lattice"])),
                thickness_mm=file["thickness_mm"],
                low_mm=file["low_mm"],
                high_mm=file["high_mm"],
            )


def procedural(anatomy: Anatomy) -> Placements:
    """Return a procedural breast under its compressions."""
    rng = np.random.default_rng([*anatomy.name.encode()])
    r_x, r_y, r_z = (float(r) for r in rng.uniform((56, 70, 36), (74, 92, 46)))
    return half_ellipsoid_placements(
        BreastShape(center_mm=(0.0, -WALL_MM, r_z), radii_mm=(r_x, r_y, r_z)),
        DENSITIES[anatomy.density],
        seed=int(rng.integers(2**31)),
        thickness_mm=2 * r_z * float(rng.uniform(0.62, 0.70)),
    )


def half_ellipsoid_placements(
    shape: BreastShape, density: Density, *, seed: int, thickness_mm: float
) -> Placements:
    """Return a procedural breast of any size, `thickness_mm` thick where nothing else is done to it."""
    breast = Breast(shape=shape, density=density, seed=seed, nipple_radius_mm=4.0)
    x, y, z = shape.center_mm
    r_x, r_y, r_z = shape.radii_mm
    n_z, n_y, n_x = (math.ceil(size / REST_MM) + 4 for size in (2 * r_z, r_y + 6, 2 * r_x))
    # Nothing lies behind the chest wall: it is a face of voxels.
    grid = VolumeGrid(
        shape=(n_z, n_y, n_x), spacing_mm=(REST_MM,) * 3, center_mm=(z, y + (n_y / 2 - 2) * REST_MM, x)
    )
    adipose, gland = (attenuation_per_mm(t, energy_kev=20.0) for t in (Tissue.ADIPOSE, Tissue.GLANDULAR))
    rest = breast.voxels(grid, oversample=2)
    # The same two values for fat and gland as women's breasts have.
    inside = FAT + (rest - adipose) * (GLAND - FAT) / (gland - adipose)
    compressions = [
        compress(
            shape,
            thickness_mm=squeeze * thickness_mm,
            roll_rad=math.radians(roll_deg),
            support_mm=SUPPORT_MM,
            refinements=2,
        )
        for squeeze, roll_deg in zip(SQUEEZES, ROLLS_DEG, strict=True)
    ]
    return _placements(np.where(rest > adipose, inside, rest * FAT / adipose), grid, compressions)


def woman(anatomy: Anatomy, folder: Path) -> Placements:
    """Return a woman's breast, mediolateral, under its compressions. folder: of the images."""
    files = sorted(folder.glob(f"{anatomy.name[0]}_*.nii.gz"))
    files = [path for path in files if "nofatsat" not in path.name and "t5_post" not in path.name]
    if not files:
        raise FileNotFoundError(f"no {anatomy.name[0]}_*.nii.gz in {folder}")
    assert anatomy.chest_wall_mm is not None
    rest = _one_body(attenuation(files[0], anatomy.name[1])[:, round(anatomy.chest_wall_mm / REST_MM) :])
    (z, y, x), (n_z, n_y, n_x) = np.argwhere(rest).min(axis=0), np.ptp(np.argwhere(rest), axis=0) + 1
    rest = np.pad(rest[z : z + n_z, y : y + n_y, x : x + n_x], 2)
    center = (n_z / 2 * REST_MM, n_y / 2 * REST_MM - WALL_MM, 0.0)
    grid = VolumeGrid(shape=rest.shape, spacing_mm=(REST_MM,) * 3, center_mm=center)
    thickness_mm = 0.7 * n_z * REST_MM
    compressions = [
        _rolled_and_compressed(rest > FAT / 2, grid, squeeze * thickness_mm, math.radians(roll_deg))
        for squeeze, roll_deg in zip(SQUEEZES, ROLLS_DEG, strict=True)
    ]
    return _placements(rest, grid, compressions)


def attenuation(path: Path, side: str) -> NDArray[np.float32]:
    """Return one breast, "R" or "L", of a fat-suppressed magnetic resonance image, (z, y, x), 1/mm.

    Voxels of `REST_MM`: z is left, y anterior, x superior. Fat below the 30th percentile of the brightness,
    gland above the 97th, and between them what is between.
    """
    import SimpleITK as sitk

    image = sitk.DICOMOrient(  # type: ignore[no-untyped-call]
        sitk.ReadImage(str(path), sitk.sitkFloat32), "LPS"
    )
    bright, spacing_mm = sitk.GetArrayFromImage(image), image.GetSpacing()
    half = bright.shape[2] // 2
    bright = bright[:, :, :half] if side == "R" else bright[:, :, half:]
    body = ndi.gaussian_filter(bright, 1.5) > 0.25 * np.percentile(bright, 90)
    body = _one_body(ndi.binary_fill_holes(ndi.binary_opening(body, iterations=2)))
    body = ndi.binary_fill_holes(ndi.binary_closing(body, iterations=3))
    low, high = np.percentile(bright[body], [30, 97])
    found = body * (FAT + (GLAND - FAT) * np.clip((bright - low) / (high - low), 0, 1))
    found = ndi.zoom(found.transpose(2, 1, 0)[:, ::-1, :], [d / REST_MM for d in spacing_mm], order=1)
    # A single voxel of tissue at the back is no chest wall.
    filled = np.flatnonzero((found > 0).any(axis=(0, 2)))
    return np.ascontiguousarray(found[:, filled[0] :], dtype=np.float32)


def _one_body(values: NDArray[Any]) -> NDArray[Any]:
    """Return values where the largest connected part of what is not zero is; zero elsewhere."""
    labels, n_parts = ndi.label(values > 0)
    largest = 1 + int(np.argmax(ndi.sum_labels(values > 0, labels, range(1, n_parts + 1))))
    kept: NDArray[Any] = np.where(labels == largest, values, 0)
    return kept


_TRIES = ((20.0, 1.0), (24.0, 1.0), (30.0, 1.0), (24.0, 1.08), (30.0, 1.12), (30.0, 1.25))
"""Edge of the cells in mm, and thickness over that wanted: not all meshes come to rest between the plates."""


def _rolled_and_compressed(
    mask: NDArray[np.bool_], grid: VolumeGrid, thickness_mm: float, roll_rad: float
) -> Compression:
    """Return a body turned about the axis to the nipple and then compressed, as `compress` does."""
    cos, sin = math.cos(roll_rad), math.sin(roll_rad)
    turn = np.array([[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]])
    center = np.array(grid.center_mm[::-1])
    coarse_mm = 2.0
    n_z, n_y, n_x = (math.ceil(size / coarse_mm) for size in grid.size_mm)
    # Room for the roll, and faces at the chest wall.
    n_z, n_x = n_z + 16, n_x + 8
    back_mm = grid.low_mm[1] + 2 * REST_MM
    coarse = VolumeGrid(
        shape=(n_z, n_y, n_x),
        spacing_mm=(coarse_mm,) * 3,
        center_mm=(center[2], back_mm + n_y * coarse_mm / 2, center[0]),
    )
    at = world_to_voxel(grid, center + (voxel_centers_mm(coarse).reshape(-1, 3) - center) @ turn).T
    turned = (ndi.map_coordinates(mask.astype(np.float32), at, order=1) > 0.5).reshape(coarse.shape)
    # Thin ends would be cells of little but air, which fold.
    turned = _one_body(turned & (ndi.uniform_filter(turned.astype(np.float32), 10) > 0.35))
    height_mm = float(np.ptp(np.flatnonzero(turned.any(axis=(1, 2)))) + 1) * coarse_mm
    factor = thickness_mm / height_mm
    for edge_mm, thicker in _TRIES:
        try:
            found = compress_mask(
                turned, coarse, thickness_factor=min(thicker * factor, 0.95), edge_mm=edge_mm, most_steps=30
            )
            break
        except DuotomoError as error:
            failed = error
    else:
        raise failed
    lift_mm = SUPPORT_MM - found.moved_mm[:, 2].min()
    return replace(
        found,
        rest_mm=center + (found.rest_mm - center) @ turn,
        moved_mm=found.moved_mm + np.array([0.0, 0.0, lift_mm]),
    )


def _placements(rest: NDArray[Any], grid: VolumeGrid, compressions: list[Compression]) -> Placements:
    """Return what a file keeps of a body and its compressions."""
    moved = np.concatenate([one.moved_mm for one in compressions])
    low, high = moved.min(axis=0) - 2 * LATTICE_MM, moved.max(axis=0) + 2 * LATTICE_MM
    n_z, n_y, n_x = (math.ceil(size / LATTICE_MM) for size in (high - low)[::-1])
    z, y, x = ((low + high) / 2)[::-1].tolist()
    lattice = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(LATTICE_MM,) * 3, center_mm=(z, y, x))
    fields = np.stack([one.field(lattice, lattice_mm=LATTICE_MM).numpy() for one in compressions])
    whole = Placements(
        rest=np.asarray(rest, dtype=np.float32),
        rest_grid=grid,
        fields_mm=fields,
        lattice=lattice,
        thickness_mm=np.array([one.thickness_mm for one in compressions]),
        low_mm=np.zeros((len(compressions), 3)),
        high_mm=np.zeros((len(compressions), 3)),
    )
    points = voxel_centers_mm(lattice.refine(2)).reshape(-1, 3)
    for number in range(len(compressions)):
        at = world_to_voxel(grid, whole.to_rest(number, points)).T
        seen = points[ndi.map_coordinates(whole.rest, at, order=1) > FAT / 2]
        whole.low_mm[number], whole.high_mm[number] = seen.min(axis=0), seen.max(axis=0)
    return whole


def prepare(
    anatomy: Anatomy, cache: Path, breast_mr: Path, *, say: Callable[[str], None] = print
) -> Path | None:
    """Make the file of one anatomy unless it is there; None if it cannot be made."""
    path = cache / f"{anatomy.name}.npz"
    if path.is_file():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    try:
        made = procedural(anatomy) if anatomy.chest_wall_mm is None else woman(anatomy, breast_mr)
    except (FileNotFoundError, DuotomoError) as error:
        say(f"{anatomy.name}: left out: {error}")
        return None
    made.write(path)
    return path
