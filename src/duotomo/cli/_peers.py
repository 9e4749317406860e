"""Other programs that project and warp, for `duotomo bench`: each where it is installed."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

    from duotomo.geometry import Acquisition, VolumeGrid
    from duotomo.transforms import Transform

Run = Callable[[], object]


def rtk_runs(
    grid: VolumeGrid, acquisition: Acquisition, volume: torch.Tensor, projections: torch.Tensor
) -> dict[str, Run]:
    """Return RTK's matched Joseph pair, by operation; nothing where RTK is not installed.

    At gantry angle zero RTK's fixed frame is the machine frame, and an ITK image's array is (z, y, x): only
    origins and spacings are set.
    """
    if find_spec("itk") is None:
        return {}
    with warnings.catch_warnings():
        # From SWIG's own types; as an error it would end the process.
        warnings.filterwarnings("ignore", "builtin type .* has no __module__", DeprecationWarning)
        itk: Any = importlib.import_module("itk")
        try:
            rtk = itk.RTK
            geometry = rtk.ThreeDCircularProjectionGeometry.New()
        except (AttributeError, ImportError):
            return {}
    # Platform threads, which end with the filter that began them; a pool that outlives it can crash at exit.
    itk.MultiThreaderBase.SetGlobalDefaultThreader(0)
    vectors = (
        acquisition.sources_mm,
        acquisition.detector_centers_mm,
        acquisition.u_axes,
        acquisition.v_axes,
    )
    for rows in zip(*vectors, strict=True):
        geometry.AddProjection(*(row.tolist() for row in rows))
    image = itk.Image[itk.F, 3]
    spacing_mm = np.array(grid.spacing_mm)
    in_volume = ((np.array(grid.low_mm) + spacing_mm / 2)[::-1].tolist(), spacing_mm[::-1].tolist())
    pixel_mm = np.array(acquisition.pixel_spacing_mm)[::-1]
    first_mm = -(np.array(acquisition.detector_shape)[::-1] - 1) / 2 * pixel_mm
    in_projections = ([*first_mm.tolist(), 0.0], [*pixel_mm.tolist(), 1.0])

    def placed(one: Any, frame: tuple[list[float], list[float]]) -> Any:
        one.SetOrigin(frame[0])
        one.SetSpacing(frame[1])
        return one

    def run(kind: Any, shape: tuple[int, ...], frame: Any, values: torch.Tensor, values_frame: Any) -> Run:
        data = placed(itk.image_from_array(values.numpy()), values_frame)

        def once() -> object:
            # The filters add to an image in place, so each call needs its own.
            zeros = image.New()
            zeros.SetRegions([int(n) for n in shape[::-1]])
            zeros.Allocate(True)
            work = kind[image, image].New()
            work.SetGeometry(geometry)
            work.SetInput(0, placed(zeros, frame))
            work.SetInput(1, data)
            work.Update()
            return work.GetOutput()

        return once

    forward, adjoint = rtk.JosephForwardProjectionImageFilter, rtk.JosephBackProjectionImageFilter
    return {
        "forward": run(forward, acquisition.shape, in_projections, volume, in_volume),
        "adjoint": run(adjoint, grid.shape, in_volume, projections, in_projections),
    }


def grid_sample_runs(transform: Transform, params: torch.Tensor, volume: torch.Tensor) -> dict[str, Run]:
    """Return PyTorch's `grid_sample` for a transform of one matrix, by operation.

    Coordinates are distances from the middle of the box in half sizes, xyz.
    """
    import torch
    from torch.nn import functional

    from duotomo.transforms.maps import MatrixMap

    grid = transform.grid
    (stage,) = transform.maps(params)
    assert isinstance(stage, MatrixMap)
    matrix = stage.matrix
    half_mm = torch.tensor(grid.size_mm[::-1], dtype=torch.float64) / 2
    middle_mm = torch.tensor(grid.center_mm[::-1], dtype=torch.float64)
    linear, shift_mm = matrix[:, :3], matrix[:, :3] @ middle_mm + matrix[:, 3] - middle_mm
    theta = torch.cat([linear * half_mm, shift_mm[:, None]], dim=1)[None] / half_mm[:, None]
    theta = theta.to(volume)

    def read(values: torch.Tensor) -> torch.Tensor:
        places = functional.affine_grid(theta, [1, 1, *grid.shape], align_corners=False)
        return functional.grid_sample(values[None, None], places, align_corners=False)[0, 0]

    leaf = volume.detach().clone().requires_grad_()
    warped = read(leaf)
    return {
        "forward": lambda: read(volume),
        "adjoint": lambda: torch.autograd.grad(warped, leaf, volume, retain_graph=True)[0],
    }


def simpleitk_runs(transform: Transform, params: torch.Tensor, volume: torch.Tensor) -> dict[str, Run]:
    """Return SimpleITK's linear resampling, which has no adjoint; nothing where it is not installed."""
    if find_spec("SimpleITK") is None:
        return {}
    from duotomo.io.libraries import simpleitk
    from duotomo.io.patient_frame import itk_image, lps, lps_matrix

    sitk, parts = simpleitk(), transform.physical(params)
    image = itk_image(transform.grid, volume.numpy())
    affine = sitk.AffineTransform(3)
    affine.SetMatrix(lps_matrix(np.asarray(parts["matrix"])).ravel().tolist())
    affine.SetTranslation(lps(np.asarray(parts["translation_mm"])).tolist())
    affine.SetCenter(lps(np.asarray(parts["center_mm"])).tolist())
    return {"forward": lambda: sitk.Resample(image, affine, sitk.sitkLinear, 0.0)}
