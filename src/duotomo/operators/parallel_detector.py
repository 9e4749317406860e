"""The detector, parallel to the slices, on which one view of a scan is computed.

Where the real detector already lies parallel to the slices with its rows along x, this is the real one.
A detector that tilts or is turned gets a virtual one in the plane z = its centre's height: as fine as the
real one appears there, and large enough to hold its image. The real view is then resampled from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.kernels.planar.reference import boxes, corners, largest_box

Floats = NDArray[np.float64]

ROW_SWEEP = 0.5
"""Share of a slab's thickness that its footprint sweeps along y: docs/decisions/0003-slab-weights.md."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ParallelDetector:
    """A detector parallel to the slices, seen from one source position.

    source_mm: xyz. height_mm: z of its plane. low_mm: (y, x) of its low corner. pitch_mm, shape: (v, u).
    homography: from the real detector's pixel index (v, u, 1) to this one's coordinate, where pixel k covers
    [k, k + 1]; None where the real detector is this one.
    """

    source_mm: Floats
    height_mm: float
    low_mm: tuple[float, float]
    pitch_mm: tuple[float, float]
    shape: tuple[int, int]
    homography: Floats | None

    @classmethod
    def of(cls, acquisition: Acquisition, view: int) -> ParallelDetector:
        """Return the parallel detector for one view."""
        source = acquisition.sources_mm[view]
        center = acquisition.detector_centers_mm[view]
        steps = np.stack([acquisition.v_axes[view], acquisition.u_axes[view]])
        steps = steps * np.asarray(acquisition.pixel_spacing_mm)[:, None]
        n_v, n_u = acquisition.detector_shape
        along_y = np.allclose(steps[0, [0, 2]], 0, atol=1e-12) and steps[0, 1] > 0
        along_x = np.allclose(steps[1, 1:], 0, atol=1e-12) and steps[1, 0] > 0
        if along_y and along_x:
            low = center - (steps[0] * n_v + steps[1] * n_u) / 2
            return cls(
                source_mm=source,
                height_mm=float(center[2]),
                low_mm=(float(low[1]), float(low[0])),
                pitch_mm=acquisition.pixel_spacing_mm,
                shape=acquisition.detector_shape,
                homography=None,
            )
        first = center - steps[0] * (n_v - 1) / 2 - steps[1] * (n_u - 1) / 2
        return _virtual(source, first, steps, (n_v, n_u), float(center[2]), view)

    def footprints(self, grid: VolumeGrid) -> Floats:
        """Return where the voxel edges of each slice land, (slice, axis, 4): `kernels.project.footprint`."""
        s_x, s_y, s_z = self.source_mm
        height = s_z - self.height_mm
        bottoms = grid.low_mm[0] + grid.spacing_mm[0] * np.arange(grid.shape[0])
        faces = bottoms[:, None] + grid.spacing_mm[0] * np.array([0.0, 1.0])
        middles = faces.mean(axis=1, keepdims=True)
        footprints = np.empty((grid.shape[0], 2, 4))
        for axis, (source, sweep) in enumerate(((s_y, ROW_SWEEP), (s_x, 1.0))):
            z = middles + sweep * (faces - middles)
            magnification = height / (s_z - z)
            low, spacing = grid.low_mm[1 + axis], grid.spacing_mm[1 + axis]
            footprints[:, axis, 0::2] = (
                source + (low - source) * magnification - self.low_mm[axis]
            ) / self.pitch_mm[axis]
            footprints[:, axis, 1::2] = spacing * magnification / self.pitch_mm[axis]
        return footprints

    def slopes_sq(self) -> tuple[Floats, Floats]:
        """Return the squared slopes of the rays against z along v and along u, (v,) and (u,)."""
        s_x, s_y, s_z = self.source_mm
        height = s_z - self.height_mm
        slopes = []
        for axis, source in enumerate((s_y, s_x)):
            centers = self.low_mm[axis] + self.pitch_mm[axis] * (np.arange(self.shape[axis]) + 0.5)
            slopes.append(((centers - source) / height) ** 2)
        return slopes[0], slopes[1]

    def reach(self, shape: tuple[int, int]) -> int:
        """How far from its own image, in real pixels, a virtual pixel can find boxes that overlap it."""
        if self.homography is None:
            return 0
        half = (1 + largest_box(self.homography, shape)) / 2
        inverse: Floats = np.linalg.inv(self.homography).astype(np.float64)
        farthest = 0.0
        for v in (0.0, float(self.shape[0])):
            for u in (0.0, float(self.shape[1])):
                jacobian = _jacobian(inverse, np.array([v, u]))
                farthest = max(farthest, float((np.abs(jacobian) @ half).max()))
        # One for rounding the image to a pixel, and 5 % for the curvature between the corners.
        return math.ceil(1.05 * farthest + 0.5)


def _virtual(
    source: Floats, first: Floats, steps: Floats, shape: tuple[int, int], height_mm: float, view: int
) -> ParallelDetector:
    v, u = corners(shape, margin=0.5)
    heights_mm = first[2] + steps[0, 2] * v + steps[1, 2] * u
    if not np.all(heights_mm < source[2]):
        raise GeometryError(
            f"Projector: expected all of the detector below the source in view {view}; got a corner at "
            f"z = {heights_mm.max():.6g} mm, the source at {source[2]:.6g} mm. "
            f"Check the detector's axes and tilt."
        )
    # Homogeneous: the ray from s through d meets z = h at (d_xy (s_z - h) - s_xy (d_z - h)) / (s_z - d_z).
    drop = source[2] - height_mm
    vectors = np.stack([steps[0], steps[1], first], axis=1)
    lift = vectors[2] - np.array([0.0, 0.0, height_mm])
    y = vectors[1] * drop - source[1] * lift
    x = vectors[0] * drop - source[0] * lift
    w = np.array([0.0, 0.0, source[2]]) - vectors[2]
    to_plane = np.stack([y, x, w])
    images, _ = boxes(to_plane, v, u)
    low, high = images.min(axis=0), images.max(axis=0)
    scale = _jacobian(to_plane, np.array([(shape[0] - 1) / 2, (shape[1] - 1) / 2]))
    pitch = np.abs(scale).max(axis=1)
    n = [max(1, math.ceil(float(e))) for e in (high - low) / pitch]
    to_pixels = np.array(
        [[1 / pitch[0], 0, -low[0] / pitch[0]], [0, 1 / pitch[1], -low[1] / pitch[1]], [0, 0, 1]]
    )
    return ParallelDetector(
        source_mm=source,
        height_mm=height_mm,
        low_mm=(float(low[0]), float(low[1])),
        pitch_mm=(float(pitch[0]), float(pitch[1])),
        shape=(n[0], n[1]),
        homography=to_pixels @ to_plane,
    )


def _jacobian(homography: Floats, at: Floats) -> Floats:
    a, b, c = homography @ np.array([*at, 1.0])
    image = np.array([a / c, b / c])
    return np.asarray((homography[:2, :2] - image[:, None] * homography[2, :2]) / c)
