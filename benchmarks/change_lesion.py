"""Lesions of a trial of change detection: where they are put, and what of them each visit has."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.ndimage as ndi
import torch
from numpy.typing import NDArray

from benchmarks.change_anatomies import FAT, GLAND, MASS, Floats
from benchmarks.change_arrangement import Arranged, carried
from benchmarks.change_plan import CaseSpec
from duotomo.change.finding import Xyz
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.mechanics.compression import sampled_motion
from duotomo.phantoms.lesion import LesionBox
from duotomo.phantoms.lesions import CalcificationCluster, SpiculatedMass

GROWTH_FROM_MM = 5.0
CYST = 0.081
"""1/mm: water at 20 keV."""

APART = 6
"""Points of a mass that are counted to know how much of a voxel it fills, along its radius, at least."""

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


def lesion_at(spec: CaseSpec, at_mm: Xyz, visits: tuple[Arranged, Arranged], seed: int) -> Lesion:
    """Return the lesion of a case. at_mm: its place at the current visit."""
    current, prior = visits
    x, y, z = carried(np.array([at_mm]), current, prior)[0].tolist()
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
    to_current = sampled_motion(lambda points: carried(points, prior, current), box)

    def moved_share(grid: VolumeGrid) -> Floats:
        def contains(points_mm: Any) -> NDArray[np.bool_]:
            return small.contains(to_current.points(torch.from_numpy(points_mm)).numpy())

        return LesionBox.around(grid, prior_at_mm, reach_mm).share(contains, small.radius_mm / APART)

    return of(new, moved_share, lambda grid: new(grid) - _mass_share(small)(grid), MASS)


def _mass_share(mass: SpiculatedMass) -> Share:
    """Return its share of voxels, by fewer points than its own: a trial makes many."""
    return lambda grid: LesionBox.around(grid, mass.center_mm, mass.reach_mm).share(
        mass.contains, mass.radius_mm / APART
    )


def inserted(volume: torch.Tensor, share: Floats, value_per_mm: float) -> torch.Tensor:
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


def about(spec: CaseSpec, lesion: Lesion, without: torch.Tensor, grid: VolumeGrid) -> dict[str, Any]:
    """Return what a case says of its lesion. without: the visit that has more of it, before it was put in."""
    share, tissue = lesion.changed(grid), without.numpy()
    amount = float(share.sum())
    change = share * (lesion.value_per_mm - tissue)
    added = float(change.sum())
    middle = voxel_to_world(grid, ndi.center_of_mass(np.abs(change)))
    own_mm = lesion.prior_at_mm if spec.kind == "gone" else lesion.at_mm
    if spec.kind == "calcifications":
        amount = math.pi / 6 * spec.size_mm**3 / math.prod(grid.spacing_mm)
    gland = float((share * (tissue - FAT)).sum() / share.sum()) / (GLAND - FAT)
    return {
        "lesion_mm": lesion.at_mm,
        "prior_lesion_mm": lesion.prior_at_mm,
        "change_mm": tuple((np.array(lesion.at_mm) + middle - np.array(own_mm)).tolist()),
        "lesion_size_mm": spec.size_mm,
        "lesion_contrast_per_mm": (-1 if spec.kind == "gone" else 1) * added / amount,
        "tissue": "gland" if gland > 0.5 else "fat",
    }
