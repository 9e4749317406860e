"""SimpleITK's resampling.

Its transforms take points of the output to points of the input, as duotomo's take moving to reference. Its
images are handed over with duotomo's coordinates and without turning an axis. It repeats the outermost voxels
up to the box's faces where duotomo fades to zero, so the two agree inside only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.available import Available, installed
from duotomo.geometry import VolumeGrid
from duotomo.transforms import Affine, BSpline, Transform


def available(device: str = "cpu") -> Available:
    """Return whether SimpleITK can run on a device."""
    if device != "cpu":
        return Available("SimpleITK resamples on a CPU only")
    return installed("SimpleITK", "SimpleITK")


class SimpleItk:
    """Linear resampling of float32 images on a number of threads."""

    def __init__(self, transform: Transform, params: torch.Tensor, *, n_threads: int) -> None:
        import SimpleITK as sitk

        sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(n_threads)
        self._sitk, self._grid = sitk, transform.grid
        self._transform = itk_transform(sitk, transform, params)

    def image(self, volume: NDArray[np.float32]) -> Any:
        """Return a volume, (z, y, x), as an image."""
        image = self._sitk.GetImageFromArray(volume)
        spacing_mm, low_mm = np.array(self._grid.spacing_mm), np.array(self._grid.low_mm)
        image.SetSpacing(spacing_mm[::-1].tolist())
        image.SetOrigin((low_mm + spacing_mm / 2)[::-1].tolist())
        return image

    def forward(self, image: Any) -> Any:
        """Return the image seen through the transform, on its own grid."""
        return self._sitk.Resample(image, self._transform, self._sitk.sitkLinear, 0.0)

    def array(self, image: Any) -> NDArray[np.float32]:
        """Return the values of an image, (z, y, x)."""
        values: NDArray[np.float32] = self._sitk.GetArrayFromImage(image)
        return values


def itk_transform(sitk: Any, transform: Transform, params: torch.Tensor) -> Any:
    """Return a transform in SimpleITK's own terms, in duotomo's frame."""
    parts = transform.physical(params)
    if isinstance(transform, Affine):
        affine = sitk.AffineTransform(3)
        affine.SetMatrix(parts["matrix"].flatten().tolist())
        affine.SetTranslation(parts["translation_mm"].tolist())
        affine.SetCenter(parts["center_mm"].tolist())
        return affine
    if isinstance(transform, BSpline):
        spline = sitk.BSplineTransform(3, 3)
        box = box_of(transform.lattice)
        spline.SetTransformDomainOrigin(box.low_mm[::-1])
        spline.SetTransformDomainPhysicalDimensions(box.size_mm[::-1])
        spline.SetTransformDomainMeshSize(box.shape[::-1])
        # Its parameters are the coefficients, by component, x fastest.
        spline.SetParameters(parts["coefficients_mm"].flatten().tolist())
        return spline
    raise TypeError(f"SimpleItk: expected an Affine or a BSpline; got {type(transform).__name__}.")


def box_of(lattice: VolumeGrid) -> VolumeGrid:
    """Return the box on which a spline is complete, cut at its control points: three parts fewer than points.

    ITK places a spline by it.
    """
    n_z, n_y, n_x = (n - 3 for n in lattice.shape)
    return VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=lattice.spacing_mm, center_mm=lattice.center_mm)
