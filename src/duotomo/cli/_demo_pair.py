"""The breast of `duotomo demo`: squeezed differently at two visits, with a new mass at the later one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.io.scan import Scan, Values
from duotomo.phantoms import Breast, BreastShape, Density, SpiculatedMass, WithLesions
from duotomo.phantoms.compressed import Compressed
from duotomo.phantoms.compression import Compression, compress
from duotomo.simulate import scan

RADII_MM = (40.0, 34.0, 30.0)
"""Half axes (x, y, z) of the breast at rest."""
CHEST_MM = 4.0
"""From the detector's edge to the back of the breast. All of it is in view: nothing enters or leaves."""
ANATOMY_SEED = 1

NOW_MM, PRIOR_MM = 44.0, 48.0
"""Between the plates, today and at the prior visit."""
PRIOR_ROLL_DEG = 5.0

# In fat: a mass attenuates hardly more than gland, and nobody sees it there.
MASS_MM, MASS_RADIUS_MM = (-24.0, 17.0, 30.0), 4.0

ROOM_MM = (50.0, 104.0)
"""Of the grids that are scanned, (y, x): a squeezed breast is wider than one at rest."""
DETECTOR_MM = (56.0, 150.0)
"""(v, u): as wide as the breast's shadow in the outermost views."""
N_VIEWS, ARC_DEG = 11, 50.0
PHOTONS_PER_MM2 = 270_000.0
FINER = 2

LANDMARKS_MM = 3.0
"""Between the points of tissue that are followed from one visit to the other."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Today's visit and the prior one, and what is true about them.

    voxel_mm: of the volumes that the scans are meant for; pixels have the same size, and the scans are made
    on a grid twice as fine. seed: of the noise.
    """

    voxel_mm: float = 1.0
    seed: int = 0
    device: str = "cpu"

    def now(self) -> Scan:
        """Scan the breast today, with the mass."""
        mass = SpiculatedMass(center_mm=MASS_MM, radius_mm=MASS_RADIUS_MM, seed=ANATOMY_SEED)
        return self._scan(WithLesions(phantom=self._breast, lesions=(mass,)), self._squeezed_now, 0)

    def prior(self) -> Scan:
        """Scan the breast as it was before, without the mass."""
        return self._scan(self._breast, self._squeezed_before, 1)

    @property
    def mass_mm(self) -> tuple[float, float, float]:
        """Where the middle of the mass is today, xyz."""
        x, y, z = self._squeezed_now.from_rest(np.array(MASS_MM))
        return float(x), float(y), float(z)

    def landmarks_mm(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return where points of tissue are at the prior visit, and where they are today: (point, xyz)."""
        low, high = np.subtract(self._shape.center_mm, RADII_MM), np.add(self._shape.center_mm, RADII_MM)
        low[1] = self._shape.center_mm[1]
        axes = (np.arange(a + LANDMARKS_MM / 2, b, LANDMARKS_MM) for a, b in zip(low, high, strict=True))
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        points = points[self._shape.depth_mm(points) > 0]
        before, now = (one.from_rest(points) for one in (self._squeezed_before, self._squeezed_now))
        return torch.from_numpy(before), torch.from_numpy(now)

    @property
    def acquisition(self) -> Acquisition:
        """How both visits are scanned."""
        n_v, n_u = (math.ceil(size / self.voxel_mm) for size in DETECTOR_MM)
        return Acquisition.arc(
            n_views=N_VIEWS,
            angle_range_rad=math.radians(ARC_DEG),
            source_to_detector_mm=660.0,
            pivot_height_mm=0.0,
            detector_shape=(n_v, n_u),
            pixel_spacing_mm=(self.voxel_mm, self.voxel_mm),
        )

    @cached_property
    def _shape(self) -> BreastShape:
        return BreastShape(center_mm=(0.0, CHEST_MM, RADII_MM[2]), radii_mm=RADII_MM)

    @cached_property
    def _breast(self) -> Breast:
        return Breast(shape=self._shape, density=Density.B, seed=ANATOMY_SEED, nipple_radius_mm=4.0)

    @cached_property
    def _squeezed_now(self) -> Compression:
        return compress(self._shape, thickness_mm=NOW_MM, refinements=2)

    @cached_property
    def _squeezed_before(self) -> Compression:
        roll_rad = math.radians(PRIOR_ROLL_DEG)
        return compress(self._shape, thickness_mm=PRIOR_MM, roll_rad=roll_rad, refinements=2)

    def _scan(self, body: Breast | WithLesions, squeezed: Compression, number: int) -> Scan:
        n_z, n_y, n_x = (math.ceil(size / self.voxel_mm) for size in (squeezed.thickness_mm, *ROOM_MM))
        spacing_mm = (squeezed.thickness_mm / n_z, self.voxel_mm, self.voxel_mm)
        generator = torch.Generator(device=self.device).manual_seed(2 * self.seed + number)
        projections = scan(
            Compressed(phantom=body, compression=squeezed, rest_spacing_mm=self.voxel_mm / FINER),
            VolumeGrid.on_detector((n_z, n_y, n_x), spacing_mm),
            self.acquisition,
            generator=generator,
            photons=PHOTONS_PER_MM2 * self.voxel_mm**2,
            finer=FINER,
        )
        return Scan(
            projections=projections.cpu(),
            values=Values.LINE_INTEGRALS,
            acquisition=self.acquisition,
            format="simulated",
            thickness_mm=squeezed.thickness_mm,
        )
