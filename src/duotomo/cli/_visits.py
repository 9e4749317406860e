"""Visits of built-in phantoms, with the truth about them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from duotomo.cli._plan import Body, Plan
from duotomo.geometry import VolumeGrid
from duotomo.phantoms import Breast
from duotomo.simulate import scan
from duotomo.simulate.scanning import Phantom
from duotomo.transforms import DisplacementField, Rigid, Transform

if TYPE_CHECKING:
    from duotomo.phantoms.compression import Compression

FINER = 2
"""Scans are made on voxels this many times finer than those the volumes are meant to have."""

LATTICE_MM = 2.0
"""Between the points where the true motion is kept."""

ROOM_MM = 12.0
"""In plane, between the body and the edge of the grid: a squeezed breast is wider, and may be shifted."""

LESION_AT = (0.25, 0.45, 0.1)
"""Where the lesion is, in radii (x, y, z) from the middle of the chest wall."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    """One visit: noisy line integrals, (view, v, u), and the truth, (z, y, x), on its own grid."""

    projections: torch.Tensor = field(repr=False)
    photons_per_pixel: float
    grid: VolumeGrid
    truth: torch.Tensor = field(repr=False)
    thickness_mm: float


class Maker:
    """Makes the visits of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._half_height_mm = _half_height_mm(plan)
        self._center_mm = (0.0, _middle_y_mm(plan), plan.gap_mm + self._half_height_mm)

    def visits(self) -> Iterator[Simulated]:
        """Make one visit after the other."""
        for number in (1, 2) if self.plan.two else (1,):
            yield self._visit(number)

    @cached_property
    def motion(self) -> tuple[Transform, torch.Tensor]:
        """The transform between the visits, moving_to_reference, on the second visit's grid."""
        plan, grid = self.plan, self.grid(2)
        if plan.thickness_mm is None:
            rigid = Rigid(self.grid(1), center_mm=self._center_mm)
            # The body is turned and then shifted, so T shifts and turns it back.
            cos, sin = math.cos(math.radians(plan.roll_deg)), math.sin(math.radians(plan.roll_deg))
            x, y, z = plan.shift_mm
            back_mm = (-(cos * x - sin * z), -y, -(sin * x + cos * z))
            return rigid, rigid.params(rotation_deg=(0.0, -plan.roll_deg, 0.0), translation_mm=back_mm)
        from duotomo.phantoms.compression import motion_between

        n_z, n_y, n_x = (math.ceil(size / LATTICE_MM) + 3 for size in grid.size_mm)
        lattice = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(LATTICE_MM,) * 3, center_mm=grid.center_mm)
        # x in the moving frame is tissue that stood at x - shift before the body was shifted.
        moved = motion_between(self._compressions[0], self._compressions[1], _shifted(lattice, plan.shift_mm))
        transform = DisplacementField(lattice)
        shift = torch.tensor(plan.shift_mm, dtype=torch.float64)[:, None, None, None]
        return transform, transform.params(displacement_mm=moved - shift)

    def grid(self, visit: int) -> VolumeGrid:
        """Return the grid of a visit, counted from 1: all of the body, between the plates."""
        plan = self.plan
        voxel_mm = plan.voxel_mm
        height_mm = 2 * self._half_height_mm if plan.thickness_mm is None else plan.thickness_mm[visit - 1]
        depth_mm = plan.radii_mm[1] * (1 if plan.body is Body.BREAST else 2) + ROOM_MM
        n_z, n_y, n_x = (
            max(1, math.ceil(size / voxel_mm - 1e-9))
            for size in (height_mm, depth_mm, 2 * (plan.radii_mm[0] + ROOM_MM))
        )
        return VolumeGrid.on_detector(
            (n_z, n_y, n_x), (height_mm / n_z, voxel_mm, voxel_mm), gap_mm=plan.gap_mm
        )

    def _visit(self, number: int) -> Simulated:
        plan, grid = self.plan, self.grid(number)
        phantom = self._phantom(number)
        moved = number == 2 and plan.thickness_mm is None
        transform, params = self.motion if moved else (None, None)
        d_v, d_u = plan.acquisition.pixel_spacing_mm
        photons = plan.photons * d_v * d_u
        truth = torch.from_numpy(phantom.voxels(grid, dtype=np.float32))
        if transform is not None and params is not None:
            truth = transform.warp(params, grid, grid)(truth)
        return Simulated(
            projections=scan(
                phantom,
                grid,
                plan.acquisition,
                generator=torch.Generator(plan.device).manual_seed(10 * plan.seed + number),
                photons=photons,
                finer=FINER,
                transform=transform,
                params=params,
            ).cpu(),
            photons_per_pixel=photons,
            grid=grid,
            truth=truth,
            thickness_mm=grid.size_mm[0],
        )

    def _phantom(self, number: int) -> Phantom:
        from duotomo.phantoms import SpiculatedMass, WithLesions

        plan = self.plan
        phantom: Phantom = self._at_rest if plan.thickness_mm is None else self._made_once
        if plan.lesion.at(number):
            x, y, z = (c + a * r for c, a, r in zip(self._center_mm, LESION_AT, plan.radii_mm, strict=True))
            mass = SpiculatedMass(center_mm=(x, y, z), radius_mm=plan.lesion_radius_mm, seed=plan.seed)
            phantom = WithLesions(phantom=phantom, lesions=(mass,))
        if plan.thickness_mm is None:
            return phantom
        from duotomo.phantoms.compressed import Compressed

        squeezed = Compressed(
            phantom=phantom, compression=self._compressions[number - 1], rest_spacing_mm=plan.voxel_mm / FINER
        )
        return squeezed if number == 1 else _Shifted(squeezed, plan.shift_mm)

    @cached_property
    def _at_rest(self) -> Phantom:
        from duotomo.phantoms import BreastShape, Density, EllipticCylinder, SheppLogan, Toroid

        plan, center_mm = self.plan, self._center_mm
        r_x, r_y, r_z = plan.radii_mm
        if plan.body is Body.BREAST:
            shape = BreastShape(center_mm=center_mm, radii_mm=plan.radii_mm)
            return Breast(
                shape=shape, density=Density[plan.density.value], seed=plan.seed, nipple_radius_mm=0.1 * r_x
            )
        if plan.body is Body.SHEPP_LOGAN:
            return SheppLogan(center_mm=center_mm, size_mm=2 * min(plan.radii_mm))
        body = EllipticCylinder(center_mm=center_mm, radii_mm=(r_x, r_y), height_mm=2 * r_z, value=0.046)
        small = min(plan.radii_mm)
        return Toroid(
            center_mm=center_mm,
            major_radius_mm=0.5 * small,
            minor_radius_mm=0.22 * small,
            value=0.034,
            modulation=0.5,
            body=body,
        )

    @cached_property
    def _made_once(self) -> Phantom:
        breast = self._at_rest
        assert isinstance(breast, Breast)
        return _Once(breast)

    @cached_property
    def _compressions(self) -> list[Compression]:
        from duotomo.phantoms import BreastShape
        from duotomo.phantoms.compression import compress

        plan = self.plan
        assert plan.thickness_mm is not None
        shape = BreastShape(center_mm=self._center_mm, radii_mm=plan.radii_mm)
        rolls = (0.0, math.radians(plan.roll_deg))[: 2 if plan.two else 1]
        return [
            compress(
                shape, thickness_mm=thickness_mm, roll_rad=roll_rad, support_mm=plan.gap_mm, refinements=2
            )
            for thickness_mm, roll_rad in zip(plan.thickness_mm, rolls, strict=False)
        ]


class _Once:
    """A breast that is made once for a grid: both visits are squeezed from it.

    Compression reads it on voxels that are finer than those of the scan, so one point of each is enough.
    """

    def __init__(self, breast: Breast) -> None:
        self._breast = breast
        self._made: dict[VolumeGrid, NDArray[Any]] = {}

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return attenuation, 1/mm, (z, y, x): a copy, which lesions may be written into."""
        if grid not in self._made:
            self._made[grid] = self._breast.voxels(grid, oversample=1, dtype=np.float32)
        return self._made[grid].astype(dtype)


@dataclass(frozen=True, eq=False)
class _Shifted:
    """A phantom that stands elsewhere."""

    phantom: Phantom
    shift_mm: tuple[float, float, float]

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return attenuation, 1/mm, (z, y, x)."""
        return self.phantom.voxels(_shifted(grid, self.shift_mm), dtype=dtype)


def _shifted(grid: VolumeGrid, shift_mm: tuple[float, float, float]) -> VolumeGrid:
    """Return where the grid was before everything was shifted."""
    z, y, x = (c - s for c, s in zip(grid.center_mm, shift_mm[::-1], strict=True))
    return VolumeGrid(shape=grid.shape, spacing_mm=grid.spacing_mm, center_mm=(z, y, x))


def _middle_y_mm(plan: Plan) -> float:
    return 0.0 if plan.body is Body.BREAST else plan.radii_mm[1] + ROOM_MM / 2


def _half_height_mm(plan: Plan) -> float:
    """Return half of the height that the body takes, at either visit where nothing is compressed."""
    r_x, _, r_z = plan.radii_mm
    if plan.thickness_mm is not None or not plan.two:
        return r_z
    roll_rad = abs(math.radians(plan.roll_deg))
    return r_z * math.cos(roll_rad) + r_x * math.sin(roll_rad) + abs(plan.shift_mm[2])
