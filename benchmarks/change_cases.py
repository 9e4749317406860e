"""Cases of a trial of change detection: two visits of one breast, in which a lesion may have changed.

    python -m benchmarks.change_cases prepare --cache DIR [--breast-mr DIR]   # once; needs finite elements
    python -m benchmarks.change_cases show NAME --cache DIR --figure x.png    # both visits of one case

A case is made from a file of the cache and its name alone: the same on every machine, up to rounding. The
current visit is the study's reference, the prior one is the moving one.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.ndimage as ndi
import torch
from numpy.typing import NDArray

from benchmarks.change_anatomies import (
    ANATOMIES,
    FAT,
    GLAND,
    MASS,
    SUPPORT_MM,
    Anatomy,
    Floats,
    Placements,
    prepare,
)
from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.geometry.binning import bin_projections
from duotomo.geometry.frame import voxel_to_world
from duotomo.methods import Study, Visit
from duotomo.operators import Projector
from duotomo.phantoms.compression import sampled_motion
from duotomo.phantoms.lesion import LesionBox
from duotomo.phantoms.lesions import CalcificationCluster, SpiculatedMass
from duotomo.simulate.detector import detect, scattered
from duotomo.transforms import Motion, invert_points

Kind = Literal["none", "mass", "growth", "calcifications", "gone"]
Nuisance = Literal["plain", "roll", "chest_wall", "density", "weight", "repeat"]
Xyz = tuple[float, float, float]

NUISANCES: tuple[Nuisance, ...] = ("plain", "roll", "chest_wall", "density", "weight", "repeat")
TISSUES = ("fat", "gland")
CHANGES: tuple[tuple[Kind, float, bool], ...] = (
    *(("mass", size_mm, spiculated) for size_mm in (3.0, 5.0, 8.0, 12.0) for spiculated in (False, True)),
    ("growth", 8.0, False),
    ("growth", 8.0, True),
    ("calcifications", 8.0, False),
    ("gone", 8.0, False),
    ("gone", 12.0, False),
)
"""Kind, size in mm, and whether it is spiculated."""

GROWTH_FROM_MM = 5.0
CYST = 0.081
"""1/mm: water at 20 keV."""

N_VIEWS, ANGLE_DEG, SOURCE_MM = 15, 50.0, 660.0
PHOTONS_PER_MM2 = 2e6
"""Of a whole scan, in air."""

SCATTER = 0.3
"""Share of scattered photons, which are subtracted again, by an estimate that is wrong by some per cent."""


@dataclass(frozen=True, kw_only=True)
class CaseSpec:
    """What a case is to be; all that is random about it follows from its name.

    tissue: where the lesion is sought. size_mm: its diameter, 0 without one.
    """

    name: str
    anatomy: Anatomy
    kind: Kind
    nuisance: Nuisance
    size_mm: float = 0.0
    spiculated: bool = False
    tissue: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ChangeCase:
    """Two visits and the truth about them.

    Parameters
    ----------
    name, anatomy, density, split, kind, nuisance : str
        What it is.
    study : Study
        The current visit, the reference, and the prior one.
    truth, prior_truth : torch.Tensor
        Attenuation at each visit, (z, y, x) on the study's grid, 1/mm.
    to_rest : tuple of Motion
        From the frame of each visit to that of the breast at rest.
    lesion_mm, prior_lesion_mm : tuple of float
        (x, y, z) of the lesion, or of the tissue that it was or will be in, at each visit.
    lesion_size_mm : float
        Diameter; of a cluster that of the ball which holds it, of growth that which it has now.
    lesion_contrast_per_mm : float
        Current minus prior, the mean over what changed; of a cluster over its ball.
    tissue : str
        "fat" or "gland": what fills most of the place of the lesion.
    """

    name: str
    anatomy: str
    density: str
    split: str
    kind: Kind
    nuisance: Nuisance
    study: Study
    truth: torch.Tensor = field(repr=False)
    prior_truth: torch.Tensor = field(repr=False)
    to_rest: tuple[Motion, Motion] = field(repr=False)
    lesion_mm: Xyz | None = None
    prior_lesion_mm: Xyz | None = None
    lesion_size_mm: float = 0.0
    lesion_contrast_per_mm: float = 0.0
    tissue: str | None = None

    @cached_property
    def motion(self) -> Motion:
        """The true one, moving_to_reference."""
        return sampled_motion(carried(self.to_rest[1], self.to_rest[0]), self.study.grid, lattice_mm=4.0)


def plan(n_without: int, n_with: int, *, anatomies: Sequence[Anatomy] = ANATOMIES) -> list[CaseSpec]:
    """Return the cases of a trial, so many without and with a change.

    In each split, every anatomy, nuisance, and kind of change with its size and tissue comes equally often,
    give or take one; which of them come together is drawn, always alike.
    """
    specs = []
    for has_change, n_cases in ((False, n_without), (True, n_with)):
        rounds = _interleaved(anatomies)
        chosen = [rounds[number % len(rounds)] for number in range(n_cases)]
        for split in ("development", "judged"):
            mine = [(number, one) for number, one in enumerate(chosen) if one.split == split]
            rng = np.random.default_rng([has_change, *split.encode()])
            nuisances = _deck(rng, NUISANCES, len(mine))
            changes = _deck(rng, [(*change, tissue) for change in CHANGES for tissue in TISSUES], len(mine))
            for (number, anatomy), nuisance, change in zip(mine, nuisances, changes, strict=True):
                kind, size_mm, spiculated, tissue = change if has_change else ("none", 0.0, False, None)
                what = f"{kind}{size_mm:g}" if has_change else kind
                specs.append(
                    CaseSpec(
                        name=f"{anatomy.name}-{what}-{nuisance}-{number}",
                        anatomy=anatomy,
                        kind=kind,
                        nuisance=nuisance,
                        size_mm=size_mm,
                        spiculated=spiculated,
                        tissue=tissue,
                    )
                )
    return specs


def _interleaved(anatomies: Sequence[Anatomy]) -> list[Anatomy]:
    """Return anatomies so that the first few of them are of both splits, procedural and women's."""
    order = np.random.default_rng(0).permutation(len(anatomies))
    return [anatomies[number] for number in order]


def _deck(rng: np.random.Generator, values: Sequence[Any], n: int) -> list[Any]:
    """Return n values, each equally often, shuffled."""
    first = rng.permutation(len(values))
    return [values[first[number % len(values)]] for number in rng.permutation(n)]


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """How the breast lies, and what is particular to one visit.

    placement: which compression. turn_rad, shift_mm: in the plane of the plates, after it. wave_mm: of a
    smooth displacement in that plane. stretch: of the rim, over the breast's size, by a thicker layer of fat.
    gland: change of the attenuation of gland over that of fat. phases_rad: of what varies smoothly.
    exposure: photons over the usual. scatter_error: relative, of the scatter that is subtracted.
    """

    placement: int
    turn_rad: float
    shift_mm: tuple[float, float]
    wave_mm: float
    stretch: float = 0.0
    gland: float = 0.0
    phases_rad: tuple[float, float, float]
    exposure: float
    blur_mm: float
    scatter_error: float
    seed: int


def arrangements(spec: CaseSpec, rng: np.random.Generator) -> tuple[Arrangement, Arrangement]:
    """Draw how the breast lies at the current visit, and at the prior one."""

    def sign() -> float:
        return float(rng.choice((-1.0, 1.0)))

    def one(placement: int, wave_mm: float) -> Arrangement:
        x, y = rng.uniform((-3, -2), (3, 2))
        a, b, c = rng.uniform(0, 2 * math.pi, 3)
        return Arrangement(
            placement=placement,
            turn_rad=math.radians(rng.uniform(-2, 2)),
            shift_mm=(float(x), float(y)),
            wave_mm=wave_mm,
            phases_rad=(float(a), float(b), float(c)),
            exposure=float(rng.uniform(0.7, 1.4)),
            blur_mm=float(rng.uniform(0.2, 0.4)),
            scatter_error=float(rng.uniform(-0.1, 0.1)),
            seed=int(rng.integers(2**31)),
        )

    first = int(rng.integers(2))
    current = one(first, 0.0)
    prior = one(int(rng.integers(2, 4)) if spec.nuisance == "roll" else 1 - first, 1.0)
    if spec.nuisance == "repeat":
        prior = replace(current, seed=prior.seed)
    elif spec.nuisance == "chest_wall":
        x, y = prior.shift_mm
        prior = replace(prior, shift_mm=(x, y + sign() * float(rng.uniform(5, 10))))
    elif spec.nuisance == "density":
        prior = replace(prior, gland=sign() * float(rng.uniform(0.04, 0.1)))
    elif spec.nuisance == "weight":
        prior = replace(prior, stretch=sign() * float(rng.uniform(0.02, 0.05)))
    return current, prior


@dataclass(frozen=True, kw_only=True, eq=False)
class Arranged:
    """A breast as it lies at one visit."""

    body: Placements
    how: Arrangement

    def to_rest(self, points_mm: Floats) -> Floats:
        """Return where points of the visit's frame, (point, xyz) in mm, lay at rest."""
        how, body = self.how, self.body
        cos, sin = math.cos(how.turn_rad), math.sin(how.turn_rad)
        turn = np.array([[cos, -sin], [sin, cos]])
        low, high = body.low_mm[how.placement], body.high_mm[how.placement]
        middle = np.array([(low[0] + high[0]) / 2, low[1]])
        plane = (points_mm[:, :2] - middle - how.shift_mm) @ turn
        half = np.array([(high[0] - low[0]) / 2, high[1] - low[1]])
        # From the rim to half way inwards: the inner half stays what it was.
        rim = np.clip(2 * np.linalg.norm(plane / half, axis=1) - 1, 0, 1)
        plane = plane * (1 - how.stretch * rim**2 * (3 - 2 * rim))[:, None]
        a, b, _ = how.phases_rad
        x, y = (plane / 90.0 * 2 * math.pi).T
        plane = plane + how.wave_mm * np.stack([np.sin(y + a), np.sin(x + b)], axis=1)
        return body.to_rest(how.placement, np.column_stack([plane + middle, points_mm[:, 2]]))

    def rest(self) -> torch.Tensor:
        """Return the attenuation at rest, (z, y, x)."""
        rest = self.body.rest
        if self.how.gland:
            y, x = np.arange(rest.shape[1])[:, None], np.arange(rest.shape[2])
            wave = np.sin(x / 24 + self.how.phases_rad[0]) * np.sin(y / 24 + self.how.phases_rad[1])
            rest = rest + np.maximum(rest - FAT, 0) * self.how.gland * (0.8 + 0.4 * wave).astype(np.float32)
        return torch.from_numpy(rest)


def carried(here: Motion, there: Motion) -> Callable[[Floats], Floats]:
    """Return the map of points, (point, xyz), from one visit to another, by way of the breast at rest."""

    def move(points_mm: Floats) -> Floats:
        at_rest = here.points(torch.from_numpy(np.ascontiguousarray(points_mm)))
        moved: Floats = invert_points(there, at_rest, tolerance_mm=1e-3, max_steps=20).xyz_mm.numpy()
        return moved

    return move


Share = Callable[[VolumeGrid], Floats]
"""How much of each voxel of a grid a lesion fills."""


@dataclass(frozen=True, kw_only=True)
class Lesion:
    """What is there of a lesion at each visit, where, and of what.

    changed: how much of each voxel changed, in the frame of the visit that has more of it.
    """

    at_mm: Xyz
    prior_at_mm: Xyz
    current: Share | None
    prior: Share | None
    changed: Share
    value_per_mm: float


def lesion_at(spec: CaseSpec, at_mm: Xyz, to_rest: tuple[Motion, Motion], seed: int) -> Lesion:
    """Return the lesion of a case. at_mm: its place at the current visit."""
    current, prior = to_rest
    x, y, z = carried(current, prior)(np.array([at_mm]))[0].tolist()
    prior_at_mm = x, y, z

    def mass(center_mm: Xyz, size_mm: float) -> SpiculatedMass:
        n_spicules, irregularity = (24, 0.15) if spec.spiculated else (0, 0.05)
        return SpiculatedMass(
            center_mm=center_mm,
            radius_mm=size_mm / 2,
            seed=seed,
            n_spicules=n_spicules,
            irregularity=irregularity,
        )

    def of(now: Share | None, before: Share | None, changed: Share, value_per_mm: float) -> Lesion:
        return Lesion(
            at_mm=at_mm,
            prior_at_mm=prior_at_mm,
            current=now,
            prior=before,
            changed=changed,
            value_per_mm=value_per_mm,
        )

    if spec.kind == "calcifications":
        cluster = CalcificationCluster(
            center_mm=at_mm, spread_mm=spec.size_mm / 2, n=10, diameter_mm=0.5, seed=seed
        )
        return of(cluster.share, None, cluster.share, cluster.attenuation_per_mm(20.0))
    if spec.kind == "gone":
        cyst = _mass_share(mass(prior_at_mm, spec.size_mm))
        return of(None, cyst, cyst, CYST)
    new = _mass_share(mass(at_mm, spec.size_mm))
    if spec.kind == "mass":
        return of(new, None, new, MASS)
    small = mass(at_mm, GROWTH_FROM_MM)
    reach_mm = 1.5 * small.reach_mm
    box = VolumeGrid(shape=(2, 2, 2), spacing_mm=(reach_mm,) * 3, center_mm=(z, y, x))
    to_current = sampled_motion(carried(prior, current), box)

    def moved_share(grid: VolumeGrid) -> Floats:
        def contains(points_mm: Any) -> NDArray[np.bool_]:
            return small.contains(to_current.points(torch.from_numpy(points_mm)).numpy())

        return LesionBox.around(grid, prior_at_mm, reach_mm).share(contains, small.radius_mm / APART)

    return of(new, moved_share, lambda grid: new(grid) - _mass_share(small)(grid), MASS)


APART = 6
"""Points of a mass that are counted to know how much of a voxel it fills, along its radius, at least."""


def _mass_share(mass: SpiculatedMass) -> Share:
    """Return its share of voxels, by fewer points than its own: a trial makes many."""
    return lambda grid: LesionBox.around(grid, mass.center_mm, mass.reach_mm).share(
        mass.contains, mass.radius_mm / APART
    )


def _inserted(volume: torch.Tensor, share: Floats, value_per_mm: float) -> torch.Tensor:
    """Return a volume with a lesion in place of its tissue; beyond the skin there is none."""
    return volume + torch.from_numpy(share).to(volume) * (volume > FAT / 2) * (value_per_mm - volume)


def place(
    truth: torch.Tensor, grid: VolumeGrid, spec: CaseSpec, *, from_wall_mm: float, rng: np.random.Generator
) -> Xyz:
    """Draw a place for a lesion in a breast without one: (x, y, z) in mm.

    It is below the skin by half of the lesion and 5 mm, or as deep as the breast is, and at least
    `from_wall_mm` from the edge of the detector; in fat among the fattest places, in gland among the densest.
    """
    volume = truth.numpy()
    # The detector's edge is no skin.
    inside = np.pad(volume > FAT / 2, ((0, 0), (30, 0), (0, 0)), mode="edge")
    depth_mm = ndi.distance_transform_edt(inside, sampling=grid.spacing_mm)[:, 30:]
    y_mm = grid.low_mm[1] + (np.arange(grid.shape[1]) + 0.5) * grid.spacing_mm[1]
    in_view = (y_mm >= from_wall_mm)[None, :, None]
    deep_mm = min(spec.size_mm / 2 + 5.0, 0.9 * float((depth_mm * in_view).max()))
    sigma = [spec.size_mm / 4 / d for d in grid.spacing_mm]
    gland = ndi.gaussian_filter((volume - FAT) / (GLAND - FAT), sigma)
    may = (depth_mm >= deep_mm) & in_view
    values = gland[may]
    if spec.tissue == "fat":
        may &= gland <= max(0.15, float(np.quantile(values, 0.1)))
    else:
        may &= gland >= min(0.8, float(np.quantile(values, 0.98)))
    chosen = np.argwhere(may)
    index = chosen[rng.integers(len(chosen))] + rng.uniform(-0.5, 0.5, 3)
    x, y, z = voxel_to_world(grid, index).tolist()
    return x, y, z


def make(spec: CaseSpec, cache: Path, *, voxel_mm: float = 2.0, device: str = "cpu") -> ChangeCase:
    """Return a case. cache: what `prepare` made. voxel_mm: of the study, also the edge of its pixels."""
    rng = np.random.default_rng([*spec.name.encode()])
    body = Placements.read(cache / f"{spec.anatomy.name}.npz")
    hows = arrangements(spec, rng)
    grid = _grid(body, hows, voxel_mm)
    scanned = _scanned_grid(grid)
    arranged = [Arranged(body=body, how=how) for how in hows]
    current, prior = (sampled_motion(one.to_rest, scanned, lattice_mm=3.0) for one in arranged)
    bodies = [one.rest() for one in arranged]

    def volumes(where: VolumeGrid) -> list[torch.Tensor]:
        both = zip((current, prior), bodies, strict=True)
        return [motion.warp(body.rest_grid, where)(rest) for motion, rest in both]

    finer = grid.refine(2)
    truths, scans = volumes(finer), volumes(scanned)
    about: dict[str, Any] = {}
    if spec.kind != "none":
        # In front of the detector's edge at both visits.
        from_wall_mm = 12.0 + max(0.0, hows[0].shift_mm[1] - hows[1].shift_mm[1])
        at_mm = place(_coarse(truths[0]), grid, spec, from_wall_mm=from_wall_mm, rng=rng)
        lesion = lesion_at(spec, at_mm, (current, prior), int(rng.integers(2**31)))
        about = _about(spec, lesion, truths[1 if lesion.current is None else 0], finer)
        for number, share in enumerate((lesion.current, lesion.prior)):
            if share is not None:
                truths[number] = _inserted(truths[number], share(finer), lesion.value_per_mm)
                scans[number] = _inserted(scans[number], share(scanned), lesion.value_per_mm)
    acquisition = _acquisition(grid, voxel_mm / 2)
    projector = Projector(grid=scanned, acquisition=acquisition)
    visits = tuple(
        _visit(projector(volume.to(device)).cpu(), acquisition, how, device)
        for volume, how in zip(scans, hows, strict=True)
    )
    return ChangeCase(
        name=spec.name,
        anatomy=spec.anatomy.name,
        density=spec.anatomy.density,
        split=spec.anatomy.split,
        kind=spec.kind,
        nuisance=spec.nuisance,
        study=Study(grid=grid, visits=visits),
        truth=_coarse(truths[0]).to(device),
        prior_truth=_coarse(truths[1]).to(device),
        to_rest=(current, prior),
        **about,
    )


def _about(spec: CaseSpec, lesion: Lesion, without: torch.Tensor, grid: VolumeGrid) -> dict[str, Any]:
    """Return what a case says of its lesion. without: the visit that has more of it, before it was put in."""
    share, tissue = lesion.changed(grid), without.numpy()
    amount = float(share.sum())
    added = float((share * (lesion.value_per_mm - tissue)).sum())
    if spec.kind == "calcifications":
        amount = math.pi / 6 * spec.size_mm**3 / math.prod(grid.spacing_mm)
    gland = float((share * (tissue - FAT)).sum() / share.sum()) / (GLAND - FAT)
    return {
        "lesion_mm": lesion.at_mm,
        "prior_lesion_mm": lesion.prior_at_mm,
        "lesion_size_mm": spec.size_mm,
        "lesion_contrast_per_mm": (-1 if spec.kind == "gone" else 1) * added / amount,
        "tissue": "gland" if gland > 0.5 else "fat",
    }


def _grid(body: Placements, hows: Sequence[Arrangement], voxel_mm: float) -> VolumeGrid:
    """Return the grid of a study: between the plates, from the detector's edge, around both visits."""
    margin_mm = 8.0
    used = [how.placement for how in hows]
    low_x, high_x = body.low_mm[used, 0].min() - margin_mm, body.high_mm[used, 0].max() + margin_mm
    high_y = max(body.high_mm[how.placement, 1] + max(how.shift_mm[1], 0.0) for how in hows) + margin_mm
    height_mm = float(body.thickness_mm[used].max())
    n_z, n_y, n_x = (math.ceil(size / voxel_mm) for size in (height_mm, high_y, high_x - low_x))
    n_z += 2
    return VolumeGrid(
        shape=(n_z, n_y, n_x),
        spacing_mm=(voxel_mm,) * 3,
        center_mm=(
            SUPPORT_MM + (n_z / 2 - 1) * voxel_mm,
            n_y / 2 * voxel_mm,
            float(low_x + high_x) / 2,
        ),
    )


def _scanned_grid(grid: VolumeGrid) -> VolumeGrid:
    """Return the grid that scans are made on: twice as fine, larger, and off by a part of a voxel."""
    n_z, n_y, n_x = (2 * n + 4 for n in grid.shape)
    z, y, x = (c + 0.15 * d for c, d in zip(grid.center_mm, grid.spacing_mm, strict=True))
    half_z, half_y, half_x = (d / 2 for d in grid.spacing_mm)
    return VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(half_z, half_y, half_x), center_mm=(z, y, x))


def _acquisition(grid: VolumeGrid, pixel_mm: float) -> Acquisition:
    """Return views on a detector that begins at the chest wall and holds the projections of a whole grid."""
    high_z, high_y, high_x = grid.high_mm
    angle_rad = math.radians(ANGLE_DEG)
    source_x, source_z = SOURCE_MM * math.sin(angle_rad / 2), SOURCE_MM * math.cos(angle_rad / 2)
    half_mm = max(high_x, -grid.low_mm[2])
    reach_mm = half_mm + (half_mm + source_x) * high_z / (source_z - high_z)
    depth_mm = high_y * source_z / (source_z - high_z)
    return Acquisition.arc(
        n_views=N_VIEWS,
        angle_range_rad=angle_rad,
        source_to_detector_mm=SOURCE_MM,
        pivot_height_mm=0.0,
        detector_shape=(2 * math.ceil(depth_mm / pixel_mm / 2), 4 * math.ceil(reach_mm / pixel_mm / 2)),
        pixel_spacing_mm=(pixel_mm, pixel_mm),
    )


def _visit(expected: torch.Tensor, acquisition: Acquisition, how: Arrangement, device: str) -> Visit:
    """Return the scan of exact line integrals (view, v, u): 2 x 2 pixels united, scatter subtracted."""
    d_v, d_u = acquisition.pixel_spacing_mm
    photons = how.exposure * PHOTONS_PER_MM2 / acquisition.n_views * d_v * d_u
    seen = detect(
        expected,
        acquisition,
        generator=torch.Generator().manual_seed(how.seed),
        photons=photons,
        blur_mm=how.blur_mm,
        scatter=SCATTER,
    )
    intensity = bin_projections(torch.exp(-seen.double()), 2)
    scatter = bin_projections(scattered(expected.double(), (d_v, d_u), share=SCATTER), 2)
    primary = (intensity - (1 + how.scatter_error) * scatter).clamp(min=1 / photons)
    # The variance of log(primary), by that of the counts of four pixels.
    weights = 4 * photons * primary**2 / intensity
    return Visit(
        projections=-torch.log(primary).float().to(device),
        acquisition=acquisition.bin(2),
        weights=weights.float().to(device),
    )


def _coarse(volume: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool3d(volume[None, None], 2)[0, 0]


def named(name: str) -> CaseSpec:
    """Return the case of that name, of a trial of any size."""
    for n_cases in (25, 50, 100, 200, 400, 800):
        for spec in plan(n_cases, n_cases):
            if spec.name == name:
                return spec
    raise DuotomoError(
        f"change_cases: expected the name of a case, such as {plan(1, 0)[0].name}; got {name!r}. "
        f"`python -m benchmarks.change_cases list 60 120` lists those of a trial."
    )


def main() -> None:
    """Make the cache, list the cases of a trial, or draw one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("prepare", help="make the files of all anatomies that are not there yet")
    making.add_argument("--cache", type=Path, required=True)
    making.add_argument("--breast-mr", type=Path, default=Path("../shared/data/breast_mr"))
    making.add_argument("--workers", type=int, default=2)
    listing = commands.add_parser("list", help="names of the cases of a trial")
    listing.add_argument("n_without", type=int)
    listing.add_argument("n_with", type=int)
    showing = commands.add_parser("show", help="draw both visits of a case")
    showing.add_argument("name")
    showing.add_argument("--cache", type=Path, required=True)
    showing.add_argument("--figure", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "prepare":
        _prepare_all(options.cache, options.breast_mr, options.workers)
    elif options.command == "list":
        print("\n".join(spec.name for spec in plan(options.n_without, options.n_with)))
    else:
        from benchmarks.change_figure import draw

        began = time.perf_counter()
        case = make(named(options.name), options.cache)
        print(f"{case.name}: made in {time.perf_counter() - began:.1f} s, {case.study.grid}")
        draw(case, options.figure)


def _prepare_all(cache: Path, breast_mr: Path, workers: int) -> None:
    began = time.perf_counter()
    with ProcessPoolExecutor(workers) as pool:
        paths = pool.map(prepare, ANATOMIES, [cache] * len(ANATOMIES), [breast_mr] * len(ANATOMIES))
        for anatomy, path in zip(ANATOMIES, paths, strict=True):
            if path is not None:
                size_mb = path.stat().st_size / 1e6
                print(f"{anatomy.name}: {size_mb:.2f} MB, {time.perf_counter() - began:.0f} s", flush=True)
    total_mb = sum(path.stat().st_size for path in cache.glob("*.npz")) / 1e6
    print(f"{cache}: {total_mb:.1f} MB in all, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
