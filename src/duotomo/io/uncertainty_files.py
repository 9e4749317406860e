"""How sure the motion of a visit is, in three files: a summary, and images of deviations and covariances."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io.displacement import FARTHEST_MM, LPS_VECTORS
from duotomo.io.durable import durable
from duotomo.io.images import read_image
from duotomo.io.images.nifti import write_nifti
from duotomo.io.paths import FileError, naming, reason
from duotomo.io.patient_frame import aligned, from_image, ras_affine
from duotomo.io.plain_json import json_text
from duotomo.io.schemas import UncertaintySchema, check_schema
from duotomo.methods.correspondence import covariance_map_mm2
from duotomo.methods.least_determined import LeastDetermined
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.methods.uncertainty_summary import Spread, UncertaintySummary

FORMAT, VERSION = "duotomo uncertainty", 1

SYMMETRIC = 1005
"""NIfTI's code for symmetric matrices."""

LOWER = np.tril_indices(3)
"""Rows and columns of the components of one."""

MOST_BYTES = 2**22
"""A covariance of 64 parameters, as text, is far below."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedUncertainty:
    """How sure the motion of one visit is, as a result folder has it.

    Parameters
    ----------
    summary : UncertaintySummary
        Over the breast.
    map_mm : torch.Tensor, optional
        Standard deviation of where points go, (xyz, z, y, x), in mm, float32; NaN where the data do not
        determine the motion. None where there are no numbers.
    grid : VolumeGrid, optional
        Of the map, in the moving frame.
    covariance_mm2 : torch.Tensor, optional
        Of where points go, (z, y, x, xyz, xyz), in mm^2, float64; NaN as in the map. None where there are no
        numbers, and in older folders.
    coarse : VolumeGrid, optional
        Of the covariances, in the moving frame.
    """

    summary: UncertaintySummary
    map_mm: torch.Tensor | None = field(default=None, repr=False)
    grid: VolumeGrid | None = None
    covariance_mm2: torch.Tensor | None = field(default=None, repr=False)
    coarse: VolumeGrid | None = None


def write_deviations(path: Path, uncertainty: MotionUncertainty, grid: VolumeGrid) -> None:
    """Write the standard deviations along x, y and z at the voxels of a moving grid, in mm, as NIfTI.

    As displacements are written, (x, y, z, 1, component) of intent 1007, but float32, and a deviation has no
    sign that an axis could turn. NaN where the motion is not determined.
    """
    values = uncertainty.map_mm(grid).permute(3, 2, 1, 0).numpy()[:, :, :, None, :]
    with durable("write_result", path) as fresh:
        write_nifti(fresh, np.ascontiguousarray(values), ras_affine(grid), intent=LPS_VECTORS)


def write_covariances(path: Path, uncertainty: MotionUncertainty, grid: VolumeGrid) -> None:
    """Write the covariances of where the points of a moving grid go, on a coarser one, in mm^2, as NIfTI.

    (x, y, z, 1, component) of intent 1005, a symmetric matrix by the rows of its lower triangle: xx, yx, yy,
    zx, zy, zz, in the machine frame. NaN where the motion is not determined.
    """
    covariance, coarse = covariance_map_mm2(uncertainty, grid)
    values = covariance[..., LOWER[0], LOWER[1]].permute(2, 1, 0, 3)[:, :, :, None].float().numpy()
    with durable("write_result", path) as fresh:
        write_nifti(fresh, np.ascontiguousarray(values), ras_affine(coarse), intent=SYMMETRIC)


def write_summary(path: Path, summary: UncertaintySummary, visit: int) -> None:
    """Write a summary as JSON; visit: its number, from 1."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "visit": visit,
        **summary.to_dict(),
        "covariance": None if summary.covariance is None else summary.covariance.tolist(),
    }
    with durable("write_result", path) as fresh:
        fresh.write_text(json_text(content, indent=1) + "\n", encoding="utf-8")


def read_uncertainty(
    summary: Path, deviations: Path | None, covariances: Path | None = None
) -> SavedUncertainty:
    """Return what was written of one motion; without numbers there is a summary alone."""
    with naming("read_uncertainty", summary):
        found = _summary(summary)
    if deviations is None:
        return SavedUncertainty(summary=found)
    with naming("read_uncertainty", deviations):
        map_mm, grid = _deviations(deviations)
    known = SavedUncertainty(summary=found, map_mm=map_mm, grid=grid)
    if covariances is None:
        return known
    with naming("read_uncertainty", covariances):
        covariance, coarse = _covariances(covariances)
    return replace(known, covariance_mm2=covariance, coarse=coarse)


def _summary(path: Path) -> UncertaintySummary:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"a file of more than {MOST_BYTES} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileError(
            f"expected JSON as write_result wrote it; got: {reason(error)}. Restore it."
        ) from error
    check_schema(UncertaintySchema, content)
    names = ("model", "form", "reason", "n_params", "n_modes", "n_points", "determined")
    rows = content["covariance"]
    return UncertaintySummary(
        **{name: content[name] for name in names},
        in_plane=_spread(content["in_plane"]),
        in_depth=_spread(content["in_depth"]),
        covariance=None if rows is None else torch.tensor(rows, dtype=torch.float64),
        least_determined=tuple(
            LeastDetermined(words=one["words"], deviation_mm=one["deviation_mm"], share=one["share"])
            for one in content["least_determined"]
        ),
    )


def _spread(content: dict[str, float] | None) -> Spread | None:
    if content is None:
        return None
    return Spread(median_mm=content["median_mm"], upper_mm=content["upper_mm"])


def _deviations(path: Path) -> tuple[torch.Tensor, VolumeGrid]:
    image = read_image(path, in_one_file=True)
    shape = image.array.shape[::-1]
    if image.header is None or len(shape) != 5 or shape[3:] != (1, 3):
        raise FileError(f"expected (x, y, z, 1, 3) standard deviations; got {shape}. Restore the file.")
    placement = aligned(from_image(image, image.array[:, 0]), "Restore the file.")
    known = placement.vectors[~np.isnan(placement.vectors)]
    if ((known < 0) | (known > FARTHEST_MM)).any():
        raise FileError(
            f"expected standard deviations between 0 and {FARTHEST_MM:g} mm; got others. Restore the file."
        )
    return torch.from_numpy(placement.vectors.astype(np.float32)), placement.grid


def _covariances(path: Path) -> tuple[torch.Tensor, VolumeGrid]:
    image = read_image(path, in_one_file=True)
    shape = image.array.shape[::-1]
    if image.header is None or len(shape) != 5 or shape[3:] != (1, 6):
        raise FileError(f"expected (x, y, z, 1, 6) covariances; got {shape}. Restore the file.")
    # Components are those of the machine frame, as written: the axes of the file are its axes.
    grid = aligned(from_image(image, image.array[:3, 0]), "Restore the file.").grid
    lower = torch.from_numpy(image.array[:, 0].astype(np.float64))
    matrices = torch.empty(*lower.shape[1:], 3, 3, dtype=torch.float64)
    for component, (row, column) in enumerate(zip(*LOWER, strict=True)):
        matrices[..., row, column] = matrices[..., column, row] = lower[component]
    variances = matrices.diagonal(dim1=-2, dim2=-1).nan_to_num(nan=0.0)
    if bool((variances < 0).any()) or bool((matrices.nan_to_num(nan=0.0).abs() > FARTHEST_MM**2).any()):
        raise FileError(
            f"expected covariances up to {FARTHEST_MM**2:g} mm^2, and variances of at least zero; got "
            "others. Restore the file."
        )
    return matrices, grid
