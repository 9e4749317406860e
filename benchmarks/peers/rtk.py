"""RTK's matched Joseph pair (itk-rtk) on any acquisition.

RTK's fixed frame at gantry angle zero has u along x, v along y and the source up z: duotomo's machine frame.
An ITK image is indexed (x, y, z), so its array is (z, y, x). Hence no axis is turned: only origins and
spacings are set. Projection coordinates are measured from the `detectorPosition` handed to `AddProjection`.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.available import Available, installed

if TYPE_CHECKING:
    from duotomo.geometry import Acquisition, VolumeGrid

Array = NDArray[np.float32]


def available(device: str = "cpu") -> Available:
    """Return whether RTK can run on a device."""
    if device != "cpu":
        return Available("RTK's wheels project on a CPU only")
    try:
        distribution("itk-rtk")
    except PackageNotFoundError:
        return Available("RTK is not installed (no package itk-rtk)")
    return installed("itk", "ITK")


class RtkJoseph:
    """RTK's Joseph forward projection and its matched back projection, on all cores, in float32."""

    def __init__(self, grid: VolumeGrid, acquisition: Acquisition) -> None:
        import itk
        from itk import RTK

        # 0 names platform threads. The forward filter uses them all; the back projection is serial by design.
        itk.MultiThreaderBase.SetGlobalDefaultThreader(0)
        itk.MultiThreaderBase.SetGlobalDefaultNumberOfThreads(os.cpu_count() or 1)
        self._itk, self._rtk, self._image = itk, RTK, itk.Image[itk.F, 3]
        self._volume_shape, self._projections_shape = tuple(grid.shape), tuple(acquisition.shape)
        self._geometry = _geometry(RTK, acquisition)

        spacing_zyx = np.asarray(grid.spacing_mm, dtype=float)
        first_zyx = np.asarray(grid.low_mm, dtype=float) + spacing_zyx / 2
        self._volume_frame = (first_zyx[::-1].tolist(), spacing_zyx[::-1].tolist())

        spacing_uv = np.asarray(acquisition.pixel_spacing_mm, dtype=float)[::-1]
        first_uv = -(np.asarray(acquisition.detector_shape)[::-1] - 1) / 2 * spacing_uv
        self._projections_frame = ([*first_uv.tolist(), 0.0], [*spacing_uv.tolist(), 1.0])

    def forward(self, volume: Array) -> Array:
        """Project a volume (z, y, x) to (view, v, u)."""
        zeros = self._zeros(self._projections_shape, self._projections_frame)
        project = self._rtk.JosephForwardProjectionImageFilter[self._image, self._image].New()
        return self._apply(project, zeros, self._view(volume, self._volume_frame))

    def adjoint(self, projections: Array) -> Array:
        """Back-project (view, v, u) to a volume (z, y, x)."""
        zeros = self._zeros(self._volume_shape, self._volume_frame)
        back_project = self._rtk.JosephBackProjectionImageFilter[self._image, self._image].New()
        return self._apply(back_project, zeros, self._view(projections, self._projections_frame))

    def _zeros(self, shape: tuple[int, ...], frame: tuple[list[float], list[float]]) -> Any:
        """Return an image that ITK owns: the filters add to it in place."""
        image = self._image.New()
        image.SetRegions([int(n) for n in shape[::-1]])
        image.Allocate(True)
        origin, spacing = frame
        image.SetOrigin(origin)
        image.SetSpacing(spacing)
        return image

    def _view(self, array: Array, frame: tuple[list[float], list[float]]) -> Any:
        image = self._itk.image_view_from_array(np.ascontiguousarray(array, dtype=np.float32))
        origin, spacing = frame
        image.SetOrigin(origin)
        image.SetSpacing(spacing)
        return image

    def _apply(self, rtk_filter: Any, zeros: Any, image: Any) -> Array:
        rtk_filter.SetGeometry(self._geometry)
        rtk_filter.SetInput(0, zeros)
        rtk_filter.SetInput(1, image)
        rtk_filter.Update()
        # This array subclass keeps the ITK image, and so its memory, alive.
        result: Array = self._itk.array_view_from_image(rtk_filter.GetOutput())
        return result


def _geometry(rtk: Any, acquisition: Acquisition) -> Any:
    geometry = rtk.ThreeDCircularProjectionGeometry.New()
    rays = zip(
        acquisition.sources_mm,
        acquisition.detector_centers_mm,
        acquisition.u_axes,
        acquisition.v_axes,
        strict=True,
    )
    for view, vectors in enumerate(rays):
        if not geometry.AddProjection(*(np.asarray(vector, dtype=float).tolist() for vector in vectors)):
            raise ValueError(f"RtkJoseph: RTK has no geometry for view {view}: {vectors}")
    return geometry
