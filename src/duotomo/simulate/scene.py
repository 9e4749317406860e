"""What stands in the beam at each visit of a simulation: grids, phantoms and the motion between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch

from duotomo.geometry import VolumeGrid
from duotomo.mechanics.compression import Compression, motion_between
from duotomo.phantoms import (
    Breast,
    BreastShape,
    EllipticCylinder,
    Phantom,
    SheppLogan,
    SpiculatedMass,
    Toroid,
    WithLesions,
    compress,
)
from duotomo.phantoms.compressed import Compressed
from duotomo.phantoms.phantom import Cached, Shifted
from duotomo.simulate.options import PhantomKind, SimulationOptions, Triple
from duotomo.transforms import Motion, Rigid

FINER = 2
"""A breast is compressed from voxels this many times finer than those of its truth, as is its scan."""

ROOM_MM = 12.0
"""In plane, between the body and the edge of the grid: a compressed breast is wider, and may be shifted."""

LESION_AT = (0.25, 0.45, 0.1)
"""Where the lesion is unless given, in radii (x, y, z) from the middle of the chest wall."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """The body of a simulation at each visit; visits count from 1. voxel_mm: of the grids, in plane."""

    options: SimulationOptions
    voxel_mm: float

    def grid(self, visit: int) -> VolumeGrid:
        """Return the grid of a visit: all of the body, between the plates where there are any."""
        options, thicknesses_mm = self.options, self.options.thicknesses_mm
        height_mm = 2 * self._half_height_mm if thicknesses_mm is None else thicknesses_mm[visit - 1]
        r_x, r_y, _ = options.radii_mm
        depth_mm = options.chest_wall_mm + r_y if options.phantom is PhantomKind.BREAST else 2 * r_y
        n_z, n_y, n_x = (
            max(1, math.ceil(size / self.voxel_mm - 1e-9))
            for size in (height_mm, depth_mm + ROOM_MM, 2 * (r_x + ROOM_MM))
        )
        return VolumeGrid.on_detector(
            (n_z, n_y, n_x), (height_mm / n_z, self.voxel_mm, self.voxel_mm), gap_mm=options.gap_mm
        )

    def phantom(self, visit: int) -> Phantom:
        """Return the body at a visit; without plates, the second visit's is moved by `motion` yet."""
        options = self.options
        body = self._at_rest
        if options.lesion.at(visit):
            mass = SpiculatedMass(
                center_mm=self._lesion_at_rest_mm, radius_mm=options.lesion_radius_mm, seed=options.seed
            )
            body = WithLesions(phantom=body, lesions=(mass,))
        if not options.compressed:
            return body
        between_plates = Compressed(
            phantom=body, compression=self._compressions[visit - 1], rest_spacing_mm=self.voxel_mm / FINER
        )
        return between_plates if visit == 1 else Shifted(phantom=between_plates, shift_mm=options.shift_mm)

    @cached_property
    def motion(self) -> Motion:
        """From the second visit to the first, moving_to_reference."""
        options = self.options
        if options.compressed:
            reference, moving = self._compressions
            return motion_between(reference, moving, self.grid(2), shift_mm=options.shift_mm)
        rigid = Rigid(self.grid(1), center_mm=self._center_mm)
        # The body is turned and then shifted, so T shifts and turns it back.
        cos, sin = math.cos(math.radians(options.roll_deg)), math.sin(math.radians(options.roll_deg))
        x, y, z = options.shift_mm
        back_mm = (-(cos * x - sin * z), -y, -(sin * x + cos * z))
        params = rigid.params(rotation_deg=(0.0, -options.roll_deg, 0.0), translation_mm=back_mm)
        return Motion(rigid, params)

    @property
    def lesion_mm(self) -> Triple:
        """Centre of the lesion at the first visit, xyz."""
        if not self.options.compressed:
            return self._lesion_at_rest_mm
        x, y, z = self._compressions[0].from_rest(np.array(self._lesion_at_rest_mm)).tolist()
        return x, y, z

    def landmarks_mm(self, spacing_mm: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return points of the breast at the second visit, and at the first: (point, xyz) twice."""
        shape = self._shape
        low, high = np.subtract(shape.center_mm, shape.radii_mm), np.add(shape.center_mm, shape.radii_mm)
        low[1] = shape.center_mm[1]
        axes = (np.arange(a + spacing_mm / 2, b, spacing_mm) for a, b in zip(low, high, strict=True))
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        points = points[shape.depth_mm(points) > 0]
        if not self.options.compressed:
            there = torch.from_numpy(points)
            return self.motion.inverse().points(there), there
        first, second = (torch.from_numpy(one.from_rest(points)) for one in self._compressions)
        return second + torch.tensor(self.options.shift_mm), first

    @property
    def _lesion_at_rest_mm(self) -> Triple:
        if self.options.lesion_mm is not None:
            return self.options.lesion_mm
        x, y, z = (
            c + a * r for c, a, r in zip(self._center_mm, LESION_AT, self.options.radii_mm, strict=True)
        )
        return x, y, z

    @property
    def _center_mm(self) -> Triple:
        """Middle of the body, or of the back of a breast, xyz."""
        options = self.options
        y = options.chest_wall_mm
        if options.phantom is not PhantomKind.BREAST:
            y = options.radii_mm[1] + ROOM_MM / 2
        return 0.0, y, options.gap_mm + self._half_height_mm

    @property
    def _half_height_mm(self) -> float:
        """Half of the height that the body takes, at either visit where nothing is compressed."""
        options = self.options
        r_x, _, r_z = options.radii_mm
        if options.compressed or not options.second_visit:
            return r_z
        roll_rad = abs(math.radians(options.roll_deg))
        return r_z * math.cos(roll_rad) + r_x * math.sin(roll_rad) + abs(options.shift_mm[2])

    @property
    def _shape(self) -> BreastShape:
        return BreastShape(center_mm=self._center_mm, radii_mm=self.options.radii_mm)

    @cached_property
    def _at_rest(self) -> Phantom:
        options, center_mm = self.options, self._center_mm
        r_x, r_y, r_z = options.radii_mm
        if options.phantom is PhantomKind.BREAST:
            breast = Breast(
                shape=self._shape, density=options.density, seed=options.seed, nipple_radius_mm=0.1 * r_x
            )
            # Compression reads it on voxels that are finer than those of the scan.
            sampled = partial(breast.voxels, oversample=options.rest_oversample)
            return Cached(sampled) if options.compressed else breast
        small = min(options.radii_mm)
        if options.phantom is PhantomKind.SHEPP_LOGAN:
            return SheppLogan(center_mm=center_mm, size_mm=2 * small)
        return Toroid(
            center_mm=center_mm,
            major_radius_mm=0.5 * small,
            minor_radius_mm=0.22 * small,
            value=0.034,
            modulation=0.5,
            body=EllipticCylinder(center_mm=center_mm, radii_mm=(r_x, r_y), height_mm=2 * r_z, value=0.046),
        )

    @cached_property
    def _compressions(self) -> tuple[Compression, ...]:
        options, thicknesses_mm = self.options, self.options.thicknesses_mm
        assert thicknesses_mm is not None
        rolls_rad = (0.0, math.radians(options.roll_deg))
        return tuple(
            compress(
                self._shape,
                thickness_mm=thickness_mm,
                roll_rad=roll_rad,
                support_mm=options.gap_mm,
                refinements=2,
            )
            for thickness_mm, roll_rad in zip(thicknesses_mm, rolls_rad, strict=False)
        )
