"""A study in one HDF5 file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.io.hdf5 import (
    FileFormat,
    group_at,
    has,
    numbered,
    put,
    put_text,
    reading,
    tensor,
    text,
    writing,
)
from duotomo.io.paths import AnyPath, naming
from duotomo.methods.study import Study, Visit

FORMAT = FileFormat(name="duotomo study", version=2, older=(1,))

_AXES = ("view", "v", "u")


def write_study(path: AnyPath, study: Study) -> None:
    """Write the visits of a study, their geometry and the grid to one `.h5` file.

    `/grid` holds the grid in its attribute `json`; `/visits/0`, the reference, and `/visits/1`, ... hold
    `projections` and, where known, `weights`, both (view, v, u), with the attributes `acquisition` and, where
    it differs from the study's, `grid`. An older file is replaced once the new one is complete.

    Parameters
    ----------
    path
        As for `write_scan`.
    study : Study
        Of any number of visits.

    Raises
    ------
    FileError
        As for `write_scan`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> scan = Acquisition.arc(n_views=1, angle_range_rad=0, source_to_detector_mm=660, pivot_height_mm=0,
    ...                        detector_shape=(8, 8), pixel_spacing_mm=(1, 1))
    >>> visit = Visit(projections=torch.ones(1, 8, 8), acquisition=scan)
    >>> study = Study(grid=VolumeGrid.on_detector((4, 8, 8), (1.0, 1.0, 1.0)), visits=(visit, visit))
    >>> with TemporaryDirectory() as folder:
    ...     write_study(f"{folder}/study.h5", study)
    ...     again = read_study(f"{folder}/study.h5")
    >>> again.grid == study.grid, len(again.visits), again.reference.acquisition == scan
    (True, 2, True)
    """
    with writing("write_study", path, FORMAT) as file:
        put_text(file.create_group("grid"), "json", study.grid.to_json())
        visits = file.create_group("visits")
        for number, visit in enumerate(study.visits):
            group = visits.create_group(str(number))
            put_text(group, "acquisition", visit.acquisition.to_json())
            if visit.grid is not None:
                put_text(group, "grid", visit.grid.to_json())
            put(group, "projections", visit.projections)
            if visit.weights is not None:
                put(group, "weights", visit.weights)


def read_study(path: AnyPath, device: torch.device | str = "cpu") -> Study:
    """Return the study in a file that `write_study` wrote, bit for bit.

    Parameters
    ----------
    path
        As for `write_scan`.
    device : torch.device or str
        Where its tensors are put.

    Returns
    -------
    Study
        Whose shapes, values and rays were checked.

    Raises
    ------
    FileError
        If the file is missing, damaged, or of another kind.
    """
    where = "read_study"
    with reading(where, path, FORMAT) as file:
        grid = VolumeGrid.from_json(text(group_at(file, "grid"), "json"))
        visits = [_visit(group) for group in numbered(group_at(file, "visits"))]
    with naming(where, path):
        return Study(grid=grid, visits=tuple(_on(device, visit) for visit in visits))


def _visit(group: Any) -> Visit:
    return Visit(
        projections=tensor(group, "projections", _AXES),
        acquisition=Acquisition.from_json(text(group, "acquisition")),
        weights=tensor(group, "weights", _AXES) if has(group, "weights") else None,
        grid=VolumeGrid.from_json(text(group, "grid")) if "grid" in group.attrs else None,
    )


def _on(device: torch.device | str, visit: Visit) -> Visit:
    weights = None if visit.weights is None else visit.weights.to(device)
    return replace(visit, projections=visit.projections.to(device), weights=weights)
