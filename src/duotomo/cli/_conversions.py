"""From one format to another: scans, volumes and transforms, each by what writes the suffix."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from duotomo.cli._recognise import Kind, dicom_header, recognise
from duotomo.io.file_error import FileError

if TYPE_CHECKING:
    import torch

    from duotomo.geometry import VolumeGrid
    from duotomo.io.dicom.identity import Identity
    from duotomo.io.scan import Scan, Supplied
    from duotomo.transforms import Transform

WHERE = "duotomo convert"

SCAN_SUFFIXES = (".h5", ".hdf5", ".dcm", ".npy", ".mha")
VOLUME_SUFFIXES = (".nii.gz", ".nii", ".mha", ".nrrd", ".dcm")
TRANSFORM_SUFFIXES = (".tfm", ".h5", ".nii.gz", ".nii", ".mha", ".dcm")


@dataclass(frozen=True, kw_only=True)
class Task:
    """What to convert, and what a person said about it.

    what: the part of a result folder or a study. voxel: of a volume that does not say it. patient_from,
    moving_from: DICOM files of the reference and of the moving visit. grid_from: a volume on whose grid
    displacements are given.
    """

    source: Path
    target: Path
    what: str | None
    supplied: Supplied
    voxel: str | None
    with_geometry: bool
    patient_from: Path | None
    moving_from: Path | None
    grid_from: Path | None

    def suffix(self, known: tuple[str, ...], what: str) -> str:
        """Return which of the known suffixes the target has; raise if none."""
        name = self.target.name.lower()
        for suffix in known:
            if name.endswith(suffix) and name != suffix:
                return suffix
        raise FileError(
            f"{WHERE}: expected an output for a {what} that ends in {', '.join(known)}; got "
            f"{self.target.name!r} for {self.source.name}. Choose one of these."
        )


def convert_path(task: Task) -> list[Path]:
    """Do the task, and return the files that were written."""
    kind = recognise(WHERE, task.source, with_geometry=task.with_geometry)
    if kind is Kind.RESULT:
        return _from_result(task)
    if kind is Kind.STUDY:
        return _write_scan(_visit_of_study(task), task)
    _refuse_what(task, kind)
    return _convert(task.source, kind, task, grid=None)


def _convert(source: Path, kind: Kind, task: Task, *, grid: VolumeGrid | None) -> list[Path]:
    if kind is Kind.SCAN:
        from duotomo.io.scan_file import read_scan

        return _write_scan(read_scan(source, task.supplied), task)
    if kind is Kind.VOLUME:
        return _write_volume(source, task)
    if kind is Kind.TRANSFORM:
        return _write_transform(*_transform(source, task, grid), task)
    if kind is Kind.DISPLACEMENT:
        from duotomo.io import read_displacement

        field, params = read_displacement(source)
        return _write_transform(field, params, _grid(task) or field.grid, task)
    raise FileError(
        f"{WHERE}: expected a scan, a volume, a transform, a study or a result folder; got {source.name}, a "
        f"{kind.value}. Convert what it was made from."
    )


def _from_result(task: Task) -> list[Path]:
    import json

    from duotomo.errors import DuotomoError
    from duotomo.geometry import VolumeGrid
    from duotomo.io.result_index import checked, read_index

    index = read_index(WHERE, task.source)
    what = task.what or "volume"
    parts = [name for name in index["files"] if name != "history"]
    if what not in parts:
        raise FileError(
            f"{WHERE}: expected --what as one of {', '.join(parts)}; got {what!r}. Choose one of them."
        )
    try:
        part = checked(task.source, index, what)
        grid = VolumeGrid.from_json(json.dumps(index.get("grid")))
    except DuotomoError as error:
        raise FileError(f"{WHERE}: {task.source}: {error}") from error
    return _convert(part, recognise(WHERE, part), task, grid=grid)


def _visit_of_study(task: Task) -> Scan:
    from duotomo.io import read_study
    from duotomo.io.scan import Scan, Values

    study = read_study(task.source)
    names = [f"visit_{number}" for number in range(1, len(study.visits) + 1)]
    if task.what not in names:
        raise FileError(
            f"{WHERE}: expected --what as one of {', '.join(names)} for a study; got {task.what!r}. Choose a "
            f"visit."
        )
    visit = study.visits[names.index(task.what)]
    return Scan(
        projections=visit.projections,
        values=Values.LINE_INTEGRALS,
        acquisition=visit.acquisition,
        format="duotomo study",
        thickness_mm=study.grid_of(visit).size_mm[0],
    )


def _refuse_what(task: Task, kind: Kind) -> None:
    if task.what is not None:
        raise FileError(
            f"{WHERE}: expected --what for a result folder or a study only; got a {kind.value}. Leave it out."
        )


def _write_scan(scan: Scan, task: Task) -> list[Path]:
    if not task.target.suffix:
        return _write_views(scan, task)
    suffix = task.suffix(SCAN_SUFFIXES, "scan")
    if suffix == ".dcm":
        from duotomo.io.dicom.projections_writer import write_dicom_projections

        write_dicom_projections(task.target, scan, identity=_patient(task) or scan.identity)
        return [task.target]
    if suffix in (".h5", ".hdf5"):
        from duotomo.io.scan_hdf5 import write_scan

        write_scan(task.target, scan)
        return [task.target]
    return _write_stack(scan, task.target)


def _write_views(scan: Scan, task: Task) -> list[Path]:
    from duotomo.io.dicom.projections_writer import write_dicom_projections

    write_dicom_projections(task.target, scan, identity=_patient(task) or scan.identity, single_files=True)
    return sorted(task.target.glob("view_*.dcm"))


def _write_stack(scan: Scan, path: Path) -> list[Path]:
    """Write (view, v, u) and, beside it, the geometry as JSON."""
    import numpy as np

    from duotomo.io.durable import durable
    from duotomo.io.libraries import simpleitk
    from duotomo.io.paths import target

    path = target(WHERE, path, (".npy", ".mha"))
    values = scan.projections.numpy()
    geometry = path.with_suffix(".json")
    with durable(WHERE, geometry) as fresh:
        fresh.write_text(scan.acquisition.to_json() + "\n", encoding="utf-8")
    with durable(WHERE, path) as fresh:
        if path.suffix == ".npy":
            np.save(fresh, values)
        else:
            image = simpleitk().GetImageFromArray(values)
            d_v, d_u = scan.acquisition.pixel_spacing_mm
            image.SetSpacing((d_u, d_v, 1.0))
            simpleitk().WriteImage(image, str(fresh))
    return [path, geometry]


def _write_volume(source: Path, task: Task) -> list[Path]:
    from duotomo.cli._volumes import read_any_volume, write_any_volume
    from duotomo.io.dicom.header import is_dicom

    task.suffix(VOLUME_SUFFIXES, "volume")
    volume, grid = read_any_volume(source, task.voxel)
    own = _identity(source) if is_dicom(source) else None
    write_any_volume(task.target, volume, grid, _patient(task) or own)
    return [task.target]


def _transform(
    source: Path, task: Task, grid: VolumeGrid | None
) -> tuple[Transform, torch.Tensor, VolumeGrid | None]:
    from duotomo.geometry import VolumeGrid
    from duotomo.io import read_transform

    grid = _grid(task) or grid
    # Where no grid is known, the parameters' scale matters to nobody.
    transform, params = read_transform(source, grid or VolumeGrid.on_detector((2, 2, 2), (1.0, 1.0, 1.0)))
    return transform, params, grid


def _write_transform(
    transform: Transform, params: torch.Tensor, grid: VolumeGrid | None, task: Task
) -> list[Path]:
    from duotomo.io import write_displacement, write_transform
    from duotomo.transforms.maps import MatrixMap

    suffix = task.suffix(TRANSFORM_SUFFIXES, "transform")
    if suffix in (".tfm", ".h5"):
        write_transform(task.target, transform, params)
        return [task.target]
    linear = all(isinstance(stage, MatrixMap) for stage in transform.maps(params))
    if grid is None and not (suffix == ".dcm" and linear):
        raise FileError(
            f"{WHERE}: expected a grid on which displacements are given; got none. Pass --grid-from VOLUME."
        )
    if suffix != ".dcm":
        assert grid is not None
        write_displacement(task.target, transform, params, grid)
        return [task.target]
    from duotomo.io.dicom.registration import write_deformable_registration, write_spatial_registration

    fixed, moving = _patient(task), _moving(task)
    if linear:
        write_spatial_registration(task.target, transform, params, fixed=fixed, moving=moving)
    else:
        assert grid is not None
        write_deformable_registration(task.target, transform, params, grid, fixed=fixed, moving=moving)
    return [task.target]


def _grid(task: Task) -> VolumeGrid | None:
    from duotomo.cli._volumes import read_any_volume

    return None if task.grid_from is None else read_any_volume(task.grid_from)[1]


def _patient(task: Task) -> Identity | None:
    return None if task.patient_from is None else _identity(task.patient_from)


def _moving(task: Task) -> Identity | None:
    return None if task.moving_from is None else _identity(task.moving_from)


def _identity(path: Path) -> Identity:
    """Return the identity in a DICOM file, or in the first of a folder."""
    from duotomo.io.dicom.header import is_dicom
    from duotomo.io.dicom.identity import Identity

    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    found = next((file for file in files if file.is_file() and is_dicom(file)), None)
    if found is None:
        raise FileError(f"{WHERE}: expected a DICOM file at {path}; got none. Check the path.")
    return Identity.of(dicom_header(WHERE, found))
