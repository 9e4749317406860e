"""The forward projector of one visit, and its exact transpose."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.kernels.dispatch import planar_kernels, project_kernels
from duotomo.kernels.project.footprint import Bands
from duotomo.operators.linear import LinearOperator
from duotomo.operators.parallel_detector import ParallelDetector

CHUNK_SHARE = 0.08
"""Working memory for scaled views, as a share of the volume."""

CHUNK_PIXELS = 2**18
"""Scaled views may have so many pixels (1 MiB) however small the volume is: few large passes are faster."""


class Projector(LinearOperator):
    """`A`: line integrals of a volume, averaged over each pixel, for every view of an acquisition.

    A voxel is a box of constant attenuation. Its footprint on a pixel is separable,

        p[v, u] = l[v, u] sum over slices of sum over (y, x) of Y[v, y] f[z, y, x] X[u, x],

    where X and Y are the shares of the pixel that the voxel's footprint covers, averaged over the slab, and l
    is the length of the pixel's ray inside one slab. The transpose uses the same weights. Rays are whole
    lines: a voxel below the detector counts like any other, and what falls beside the detector is not seen.

    Parameters
    ----------
    grid : VolumeGrid
        Grid of the volume, f, (z, y, x) in 1/mm: the domain.
    acquisition : Acquisition
        Views that make the projections, p, (view, v, u): the range.

    Raises
    ------
    GeometryError
        If the grid reaches up to a source, or a detector to its source.

    Examples
    --------
    >>> from duotomo.geometry import Acquisition, VolumeGrid
    >>> grid = VolumeGrid.on_detector((4, 6, 8), (1.0, 1.0, 1.0))
    >>> scan = Acquisition.arc(n_views=3, angle_range_rad=0.4, source_to_detector_mm=660.0,
    ...                        pivot_height_mm=0.0, detector_shape=(8, 12), pixel_spacing_mm=(1.0, 1.0))
    >>> A = Projector(grid, scan)
    >>> A(torch.ones(4, 6, 8)).shape, A.T(torch.ones(3, 8, 12)).shape
    (torch.Size([3, 8, 12]), torch.Size([4, 6, 8]))
    """

    domain_axes = ("z", "y", "x")
    range_axes = ("view", "v", "u")
    domain_name = "volume"
    range_name = "projections"

    def __init__(self, grid: VolumeGrid, acquisition: Acquisition) -> None:
        acquisition.check_above(grid)
        self.grid, self.acquisition = grid, acquisition
        self.domain, self.range = grid.shape, acquisition.shape
        detectors = [ParallelDetector.of(acquisition, view) for view in range(acquisition.n_views)]
        n_views = len(detectors)
        parallel = all(detector.homography is None for detector in detectors)
        n_pixels = max(math.prod(detector.shape) for detector in detectors)
        room_pixels = max(CHUNK_PIXELS, int(CHUNK_SHARE * grid.n_voxels))
        at_once = max(1, room_pixels // n_pixels - (not parallel))
        starts = range(0, n_views, at_once)
        self._parts = [_Part(grid, acquisition, detectors[i : i + at_once], i) for i in starts]
        # Forward, nothing has to be kept of parallel views: all of them share one pass over the volume.
        self._all = _Part(grid, acquisition, detectors, 0) if parallel else None
        # One room for all parts: they differ a little in size, and holes that do not fit would add up.
        self._room = max(part.n_pixels + part.n_spread for part in self._parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projections = x.new_empty(x.shape[0], *self.range)
        if self._all is not None:
            for volume, views in zip(x, projections, strict=True):
                self._all.project(volume, views)
            return projections
        room = x.new_empty(self._room)
        for volume, views in zip(x, projections, strict=True):
            for part in self._parts:
                part.project_virtually(volume, views[part.views.start : part.views.stop], room)
        return projections

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        volumes = y.new_empty(y.shape[0], *self.domain)
        # A GPU writes the volume faster than it adds to it, and has room for all views at once.
        parts = [self._all] if self._all is not None and y.device.type == "cuda" else self._parts
        room = y.new_empty(max(part.n_pixels + part.n_spread for part in parts))
        for projections, volume in zip(y, volumes, strict=True):
            for part in parts:
                chosen = projections[part.views.start : part.views.stop]
                part.backproject(chosen, volume, room, add=part.views.start > 0)
        return volumes


class _Part:
    """Views of a projector that are worked on at once, on parallel detectors as large as the largest."""

    def __init__(
        self, grid: VolumeGrid, acquisition: Acquisition, detectors: list[ParallelDetector], first: int
    ) -> None:
        self.views = range(first, first + len(detectors))
        self._detectors = detectors
        self.parallel = all(detector.homography is None for detector in detectors)
        rows, columns = (max(detector.shape[axis] for detector in detectors) for axis in range(2))
        self.shape = (len(detectors), rows, columns)
        self.n_pixels = math.prod(self.shape)
        self.n_spread = 0 if self.parallel else rows * columns
        self._reaches = [detector.reach(acquisition.detector_shape) for detector in detectors]
        self._footprints = np.stack([detector.footprints(grid) for detector in detectors])
        slopes = [replace(detector, shape=(rows, columns)).slopes_sq() for detector in detectors]
        thickness_sq = grid.spacing_mm[0] ** 2
        self._along_v_sq = thickness_sq * np.stack([v for v, _ in slopes])
        self._along_u_sq = thickness_sq * (1 + np.stack([u for _, u in slopes]))
        self._lengths_sq: dict[tuple[torch.device, torch.dtype], tuple[torch.Tensor, torch.Tensor]] = {}

    @cached_property
    def forward_bands(self) -> Bands:
        """The bands that project."""
        return Bands.of(self._footprints, transposed=False)

    @cached_property
    def transposed_bands(self) -> Bands:
        """The bands that project back."""
        return Bands.of(self._footprints, transposed=True)

    def project(self, volume: torch.Tensor, views: torch.Tensor) -> None:
        """Write to `views`, (view, v, u), the projections of `volume` on the parallel detectors."""
        project_kernels(volume.device).accumulate(
            volume, views, self.forward_bands, add=False, lengths_sq=self.lengths_sq(views)
        )

    def project_virtually(self, volume: torch.Tensor, views: torch.Tensor, room: torch.Tensor) -> None:
        """Write to `views`, (view, v, u), the projections of `volume`, by way of the parallel detectors.

        room: (at least n_pixels + n_spread,), to work in.
        """
        virtual = room[: self.n_pixels].view(self.shape)
        self.project(volume, virtual)
        for detector, seen, view in zip(self._detectors, virtual, views, strict=True):
            rows, columns = detector.shape
            if detector.homography is None:
                view.copy_(seen[:rows, :columns])
                continue
            # What lies beside its detector is no part of the view, whatever views it is worked on with.
            image = room[self.n_pixels :][: rows * columns].view(rows, columns)
            planar_kernels(view.device).resample(
                image.copy_(seen[:rows, :columns]), view, detector.homography
            )

    def backproject(
        self, views: torch.Tensor, volume: torch.Tensor, room: torch.Tensor, *, add: bool
    ) -> None:
        """Write to `volume`, or add to it, the transpose of the projection applied to `views`.

        room: (at least n_pixels + n_spread,), to work in.
        """
        virtual = room[: self.n_pixels].view(self.shape)
        along_v, along_u = self.lengths_sq(views)
        torch.add(along_v[:, :, None], along_u[:, None, :], out=virtual).sqrt_()
        if self.parallel:
            virtual *= views
        else:
            for detector, reach, seen, view in zip(
                self._detectors, self._reaches, virtual, views, strict=True
            ):
                rows, columns = detector.shape
                image = room[self.n_pixels :][: rows * columns].view(rows, columns)
                seen[:rows, :columns] *= _spread(detector, reach, view, image)
                seen[rows:] = 0.0
                seen[:, columns:] = 0.0
        project_kernels(views.device).accumulate(virtual, volume, self.transposed_bands, add=add)

    def lengths_sq(self, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (view, v) and (view, u), whose sum is the squared length in mm of a ray inside one slab."""
        key = (like.device, like.dtype)
        if key not in self._lengths_sq:
            along_v, along_u = (
                torch.from_numpy(part).to(like) for part in (self._along_v_sq, self._along_u_sq)
            )
            self._lengths_sq[key] = (along_v, along_u)
        return self._lengths_sq[key]


def _spread(detector: ParallelDetector, reach: int, view: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    """Return the transpose, on the parallel detector, of how `view` comes from there. image: to write to."""
    if detector.homography is None:
        return view
    back = np.linalg.inv(detector.homography)
    planar_kernels(view.device).spread(view, image, detector.homography, back, reach)
    return image
