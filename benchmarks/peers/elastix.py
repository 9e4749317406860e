"""elastix: rigid, affine, then a B-spline with a bending energy, each on four resolutions.

    PEER_PYTHON -m benchmarks.peers.elastix JOB.npz FOUND.npz

Its transforms take points of the fixed image to the moving one. With the moving visit as its fixed image,
they are moving_to_reference, and transformix evaluates them at the points without an inverse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import itk
import numpy as np

from benchmarks.peers.exchange import AFFINE, DEFORMABLE, Array, Job, serve

N_RESOLUTIONS = 4
METRIC = "AdvancedMattesMutualInformation"
COMMON = {
    # Smoothed but not coarsened: at voxels of millimetres a coarsened image has too few.
    "FixedImagePyramid": ["FixedSmoothingImagePyramid"],
    "MovingImagePyramid": ["MovingSmoothingImagePyramid"],
    "Metric": [METRIC],
    "NumberOfHistogramBins": ["32"],
    "ImageSampler": ["RandomCoordinate"],
    "NewSamplesEveryIteration": ["true"],
    "NumberOfSpatialSamples": ["4000"],
    "MaximumNumberOfIterations": ["500"],
    "AutomaticTransformInitialization": ["false"],
    "AutomaticScalesEstimation": ["true"],
    "ErodeMask": ["false"],
    "RequiredRatioOfValidSamples": ["0.05"],
    "WriteResultImage": ["false"],
}
SPLINE = {
    "Registration": ["MultiMetricMultiResolutionRegistration"],
    "Metric": [METRIC, "TransformBendingEnergyPenalty"],
    "Metric0Weight": ["1.0"],
    "Metric1Weight": ["50.0"],
    "FinalGridSpacingInPhysicalUnits": ["20.0"],
    "NumberOfSpatialSamples": ["2000"],
    "MaximumNumberOfIterations": ["300"],
}


def register(job: Job, folder: Path) -> Iterator[tuple[str, Array]]:
    """Yield where the points lie after the affine and after the B-spline."""
    fixed = image(job.moving, job.moving_origin_mm, job.spacing_mm)
    moving = image(job.reference, job.reference_origin_mm, job.spacing_mm)
    masks = {
        "fixed_mask": image(job.moving_mask, job.moving_origin_mm, job.spacing_mm),
        "moving_mask": image(job.reference_mask, job.reference_origin_mm, job.spacing_mm),
    }
    points = folder / "points.txt"
    rows = "\n".join(" ".join(f"{value:.9f}" for value in row) for row in job.points_mm)
    points.write_text(f"point\n{len(job.points_mm)}\n{rows}\n")
    stages = parameters("rigid", {}), parameters("affine", {})
    _, affine = itk.elastix_registration_method(fixed, moving, parameter_object=of(*stages), **masks)
    yield AFFINE, moved(moving, affine, points, folder)
    if job.deformable:
        _, both = itk.elastix_registration_method(
            fixed,
            moving,
            parameter_object=of(parameters("bspline", SPLINE)),
            initial_transform_parameter_object=affine,
            **masks,
        )
        yield DEFORMABLE, moved(moving, both, points, folder)


def image(volume: Array, origin_mm: Array, spacing_mm: float) -> Any:
    """Return a volume, (z, y, x), as an image."""
    made = itk.image_from_array(np.ascontiguousarray(volume))
    made.SetSpacing([spacing_mm] * 3)
    made.SetOrigin([float(value) for value in origin_mm])
    return made


def parameters(model: str, more: dict[str, list[str]]) -> Any:
    """Return elastix's own defaults for a model, and what differs from them."""
    values = itk.ParameterObject.New().GetDefaultParameterMap(model, N_RESOLUTIONS)
    for name, value in {**COMMON, **more}.items():
        values[name] = value
    return values


def of(*stages: Any) -> Any:
    """Return the parameters of several stages as one object."""
    made = itk.ParameterObject.New()
    for stage in stages:
        made.AddParameterMap(stage)
    return made


def moved(moving: Any, transform: Any, points: Path, folder: Path) -> Array:
    """Return where transformix takes the points of a file."""
    itk.transformix_filter(
        moving,
        transform_parameter_object=transform,
        fixed_point_set_file_name=str(points),
        output_directory=str(folder),
    )
    text = (folder / "outputpoints.txt").read_text()
    rows = re.findall(r"OutputPoint = \[ ([^\]]*) \]", text)
    return np.array([[float(value) for value in row.split()] for row in rows])


if __name__ == "__main__":
    serve(register)
