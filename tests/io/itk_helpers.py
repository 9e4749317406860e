"""Points and images as SimpleITK sees them, written out anew: a point (x, y, z) is (-x, -y, z) in ITK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io.libraries import simpleitk
from duotomo.transforms import Motion

# Through duotomo's own loader, which keeps SWIG's warnings from becoming errors.
sitk = simpleitk()

LPS = np.array([-1.0, -1.0, 1.0])
GRID = VolumeGrid(shape=(5, 6, 7), spacing_mm=(1.5, 1.1, 0.7), center_mm=(9.0, 4.0, -2.0))


def moved_by_itk(itk: Any, xyz_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where ITK takes points, (n, xyz), of the machine frame."""
    return np.array([itk.TransformPoint((LPS * point).tolist()) for point in xyz_mm]) * LPS


def moved_by_us(motion: Motion, xyz_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where a motion takes points, (n, xyz)."""
    return motion.points(torch.from_numpy(xyz_mm.copy())).numpy()


def points_on(grid: VolumeGrid, *, n: int = 60, seed: int = 0, inset: float = 0.0) -> NDArray[np.float64]:
    """Return random points, (n, xyz), between a grid's outermost voxel centres, or so far inside of them.

    inset: in voxels. The outermost corners are among the points.
    """
    inner = np.array(grid.shape) - 1 - 2 * inset
    share = np.random.default_rng(seed).random((n, 3))
    share[:2] = [[0, 0, 0], [1, 1, 1]]
    return voxel_to_world(grid, inset + share * inner)


def image_on(grid: VolumeGrid, volume: torch.Tensor) -> Any:
    """Return a volume, (z, y, x), as ITK's image."""
    image = sitk.GetImageFromArray(volume.numpy())
    image.SetSpacing(grid.spacing_mm[::-1])
    image.SetOrigin((LPS * voxel_to_world(grid, (0, 0, 0))).tolist())
    image.SetDirection([-1, 0, 0, 0, -1, 0, 0, 0, 1])
    return image


def directions() -> dict[str, NDArray[np.float64]]:
    """Return direction matrices of ITK images: a column for each index."""
    rotation, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))
    rotation *= np.linalg.det(rotation)
    return {
        "ITK's axes": np.eye(3),
        "the machine's axes": np.diag([-1.0, -1.0, 1.0]),
        "z flipped": np.diag([-1.0, -1.0, -1.0]),
        "x and y swapped": np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
        "axes in a cycle, one flipped": np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        "turned": rotation,
        "turned and reflected": rotation * (1.0, -1.0, 1.0),
    }


def is_aligned(direction: NDArray[np.float64]) -> bool:
    """Return whether a direction matrix only permutes and flips axes."""
    return bool(((direction == 0) | (np.abs(direction) == 1)).all())


def text_file(path: Path, kind: str, params: str, fixed: str) -> Path:
    """Write the text of an ITK transform file, as ITK would."""
    path.write_text(
        f"#Insight Transform File V1.0\n#Transform 0\nTransform: {kind}\nParameters: {params}\n"
        f"FixedParameters: {fixed}\n"
    )
    return path
