"""Transforms to ITK's files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io.durable import durable
from duotomo.io.libraries import simpleitk
from duotomo.io.paths import AnyPath, target
from duotomo.io.patient_frame import itk_image, lps, lps_matrix
from duotomo.transforms import Composition, Motion, Transform, Translation
from duotomo.transforms.lattice_transform import FEWEST
from duotomo.transforms.maps import LatticeMap, MatrixMap

SUFFIXES = (".tfm", ".h5")

Box = tuple[NDArray[np.float64], NDArray[np.float64]]


def write_transform(path: AnyPath, motion: Motion, *, grid: VolumeGrid | None = None) -> None:
    """Write T as ITK's transform, so that `sitk.Resample(f, moving, T)` is `motion.warp()` of f.

    Both take points of the moving frame to the reference frame: f is the reference volume's image, moving
    any image on the moving grid. `.tfm` is text, `.h5` is HDF5; both keep float64. Translations stay
    translations; other matrices become affine transforms about the same centre. Cubic lattices become
    B-spline transforms of order 3 (the velocity's too: what is written is its flow), linear ones displacement
    fields, and a chain a composite transform, whose last part ITK applies first.

    Beyond the second and the last but one control point of a lattice, ITK moves nothing, whereas here a
    spline fades to zero smoothly. A displacement field likewise fades within one voxel, and ITK's does not.
    With `grid`, a lattice that points of this grid may leave is continued by zeros, so that ITK does the same
    for them. Without, it is written as it is, and `read_transform` gives the same parameters back.

    An older file is replaced once the new one is complete; if that fails, it stays.

    Parameters
    ----------
    path : str or path
        Ends in `.tfm` or `.h5`.
    motion : Motion
        T, moving_to_reference.
    grid : VolumeGrid, optional
        Of the frame that T starts from: the points that ITK has to take to the same places.

    Raises
    ------
    FileError
        If the suffix is another, or the file cannot be written: its folder is not there, or its disk has no
        room.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> shift = Translation(VolumeGrid.on_detector((4, 6, 8), (1.0, 0.5, 0.5)))
    >>> with TemporaryDirectory() as folder:
    ...     motion = Motion(shift, shift.params(translation_mm=(1.0, 2.0, 3.0)))
    ...     write_transform(f"{folder}/shift.tfm", motion)
    ...     print(Path(folder, "shift.tfm").read_text().splitlines()[3])
    Parameters: -1 -2 3
    """
    where = "write_transform"
    path = target(where, path, SUFFIXES)
    sitk = simpleitk()
    params = motion.params.detach().cpu()
    box = None if grid is None else _centers_mm(grid)
    itk = []
    for part, p in _parts(motion.transform, params):
        for stage in part.maps(p):
            itk.append(_lattice(stage, box) if isinstance(stage, LatticeMap) else _matrix(stage, part))
            box = box and _moved(box, stage)
    # ITK's composite applies the part that was added last first.
    written = itk[0] if len(itk) == 1 else sitk.CompositeTransform(itk[::-1])
    with durable(where, path) as fresh:
        sitk.WriteTransform(written, str(fresh))


def _parts(transform: Transform, params: torch.Tensor) -> Iterator[tuple[Transform, torch.Tensor]]:
    if isinstance(transform, Composition):
        for part, p in zip(transform.parts, transform.split(params), strict=True):
            yield from _parts(part, p)
    else:
        yield transform, params


def _matrix(stage: MatrixMap, of: Transform) -> Any:
    sitk = simpleitk()
    matrix, shift_mm = stage.matrix.numpy()[:, :3], stage.matrix.numpy()[:, 3]
    if isinstance(of, Translation):
        return sitk.TranslationTransform(3, lps(shift_mm).tolist())
    center_mm = np.asarray(getattr(of, "center_mm", np.zeros(3)))
    itk = sitk.AffineTransform(3)
    itk.SetCenter(lps(center_mm).tolist())
    itk.SetMatrix(lps_matrix(matrix).ravel().tolist())
    # M x + s = c + M (x - c) + t
    itk.SetTranslation(lps(matrix @ center_mm + shift_mm - center_mm).tolist())
    return itk


def _lattice(stage: LatticeMap, box: Box | None) -> Any:
    sitk = simpleitk()
    cubic = stage.degree == 3
    # ITK's splines are defined from the second to the last but one control point, give or take its rounding.
    domain = _centers_mm(stage.lattice, inset=1 + 1e-6 if cubic else 0.0)
    too_few = cubic and min(stage.lattice.shape) < FEWEST
    if too_few or (box is not None and not _within(box, domain)):
        # A B-spline ends two spacings from its control point if cubic, and one if linear.
        stage = _continued(stage, n=3 if cubic else 1)
    vectors = stage.coefficients.movedim(0, -1).numpy()
    if not cubic:
        return sitk.DisplacementFieldTransform(itk_image(stage.lattice, vectors, vectors=True))
    return sitk.BSplineTransform([itk_image(stage.lattice, c) for c in np.moveaxis(lps(vectors), -1, 0)], 3)


def _continued(stage: LatticeMap, *, n: int) -> LatticeMap:
    n_z, n_y, n_x = (count + 2 * n for count in stage.lattice.shape)
    lattice = VolumeGrid(
        shape=(n_z, n_y, n_x), spacing_mm=stage.lattice.spacing_mm, center_mm=stage.lattice.center_mm
    )
    coefficients = torch.nn.functional.pad(stage.coefficients, (n,) * 6)
    return LatticeMap(lattice=lattice, coefficients=coefficients, degree=stage.degree)


def _centers_mm(grid: VolumeGrid, *, inset: float = 0.0) -> Box:
    first, last = voxel_to_world(grid, [(inset,) * 3, [n - 1 - inset for n in grid.shape]])
    return first, last


def _within(box: Box, of: Box) -> bool:
    return bool((box[0] >= of[0]).all() and (box[1] <= of[1]).all())


def _moved(box: Box, stage: MatrixMap | LatticeMap) -> Box:
    """Return a box that holds wherever a stage takes the points of a box."""
    low, high = box
    if isinstance(stage, LatticeMap):
        reach_mm = stage.coefficients.abs().amax(dim=(1, 2, 3)).numpy()
        return low - reach_mm, high + reach_mm
    matrix = stage.matrix.numpy()
    middle, half = matrix[:, :3] @ ((low + high) / 2) + matrix[:, 3], np.abs(matrix[:, :3]) @ (high - low) / 2
    return middle - half, middle + half
