"""What a registration program is given and gives back: two volumes in one file, points in another.

The programs run in an environment of their own, which has NumPy but not duotomo, so this file imports neither
duotomo nor torch. Millimetres in the machine frame, axes not turned: ITK calls them LPS, and since every
image and every point is handed over alike, the name does not matter.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

AFFINE, DEFORMABLE = "affine", "deformable"
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """Two volumes to register, and points of the moving one to follow.

    The origins already align the centroids: a program that starts from the identity starts there.

    Parameters
    ----------
    reference, moving : numpy.ndarray
        Volumes, (z, y, x), float32, in 1/m.
    reference_mask, moving_mask : numpy.ndarray
        Where the body and its margin lie, (z, y, x), uint8.
    reference_origin_mm, moving_origin_mm : numpy.ndarray
        Centre of voxel 0, (xyz,).
    spacing_mm : float
        Edge of a voxel.
    points_mm : numpy.ndarray
        Points of the moving frame, (n, xyz).
    deformable : bool
        Whether a deformable model follows the affine one.
    """

    reference: Array
    moving: Array
    reference_mask: Array
    moving_mask: Array
    reference_origin_mm: Array
    moving_origin_mm: Array
    spacing_mm: float
    points_mm: Array
    deformable: bool

    def save(self, path: Path) -> None:
        """Write the job to a file."""
        np.savez(path, **vars(self))

    @classmethod
    def load(cls, path: Path) -> Job:
        """Read a job from a file."""
        with np.load(path) as arrays:
            values: dict[str, Any] = {name: arrays[name] for name in arrays.files}
        values["spacing_mm"] = float(values["spacing_mm"])
        values["deformable"] = bool(values["deformable"])
        return cls(**values)


Register = Callable[[Job, Path], Iterator[tuple[str, Array]]]
"""Yields each model's name and where the points lie in the reference frame, (n, xyz), once it is found.

The path is a folder for files in between.
"""


def serve(register: Register) -> None:
    """Register the job that the command line names, and write after each model what has been found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("found", type=Path)
    options = parser.parse_args()
    job, found = Job.load(options.job), {}
    began = time.perf_counter()
    for model, points_mm in register(job, options.found.parent):
        found[f"{model}_mm"] = points_mm
        found[f"{model}_seconds"] = np.array(time.perf_counter() - began)
        np.savez(options.found, **found)
