"""greedy: an affine and a deformable registration by normalised cross-correlation over patches.

    PEER_PYTHON -m benchmarks.peers.greedy JOB.npz FOUND.npz

Its transforms take points of the fixed image to the moving one. With the moving visit as its fixed image,
they are moving_to_reference: first the displacement, then the affine. Its matrices are in RAS, its
displacements in LPS.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK as sitk
from picsl_greedy import Greedy3D

from benchmarks.peers.exchange import AFFINE, DEFORMABLE, Array, Job, serve

METRIC = "-m NCC 2x2x2 -threads 1"
LINEAR = f"-a -i fixed moving -gm mask {METRIC} -n 200x100x50"
DEFORMING = f"-i fixed moving -gm mask -it affine {METRIC} -n 200x100x50 -s 2.0vox 0.5vox -sv -e 0.25"
TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])


def register(job: Job, folder: Path) -> Iterator[tuple[str, Array]]:
    """Yield where the points lie after the affine and after the deformation."""
    images = {
        "fixed": image(job.moving, job.moving_origin_mm, job.spacing_mm),
        "moving": image(job.reference, job.reference_origin_mm, job.spacing_mm),
        "mask": image(job.moving_mask.astype(np.float32), job.moving_origin_mm, job.spacing_mm),
    }
    program = Greedy3D()
    with (folder / "greedy.log").open("w") as log:
        program.execute(f"{LINEAR} -dof 6 -ia-identity -o rigid", log, log, rigid=None, **images)
        program.execute(f"{LINEAR} -dof 12 -ia rigid -o affine", log, log, affine=None)
        matrix = TO_RAS @ np.asarray(program["affine"]) @ TO_RAS
        yield AFFINE, applied(matrix, job.points_mm)
        if job.deformable:
            program.execute(f"{DEFORMING} -o warp", log, log, warp=None)
            displacement = sitk.Cast(program["warp"], sitk.sitkVectorFloat64)
            displaced = sitk.DisplacementFieldTransform(displacement)
            points_mm = np.array([displaced.TransformPoint(point.tolist()) for point in job.points_mm])
            yield DEFORMABLE, applied(matrix, points_mm)


def image(volume: Array, origin_mm: Array, spacing_mm: float) -> Any:
    """Return a volume, (z, y, x), as an image."""
    made = sitk.GetImageFromArray(np.ascontiguousarray(volume))
    made.SetSpacing([spacing_mm] * 3)
    made.SetOrigin([float(value) for value in origin_mm])
    return made


def applied(matrix: Array, points_mm: Array) -> Array:
    """Return where a matrix, 4 x 4, takes points, (n, xyz)."""
    return points_mm @ matrix[:3, :3].T + matrix[:3, 3]


if __name__ == "__main__":
    serve(register)
