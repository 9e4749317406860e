"""From one format to another: scans, volumes and motions, each by what writes the suffix."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io.agreement import Allowed, compare_visits, remark_of
from duotomo.io.dicom.deidentification import Pseudonyms
from duotomo.io.dicom.header import is_dicom
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.identity_file import read_identity
from duotomo.io.dicom.projections_writer import write_dicom_projections
from duotomo.io.dicom.registration import is_linear, write_registration
from duotomo.io.dicom.registration_reader import read_registration
from duotomo.io.displacement import read_displacement, vector_grid, write_displacement
from duotomo.io.durable import durable
from duotomo.io.file_kind import FileKind, recognise
from duotomo.io.file_set import together
from duotomo.io.itk_reader import read_transform
from duotomo.io.itk_writer import write_transform
from duotomo.io.libraries import simpleitk
from duotomo.io.paths import AnyPath, FileError, naming, reason, target
from duotomo.io.result_index import INDEX, checked, name_of, read_index
from duotomo.io.scan import Scan
from duotomo.io.scan_file import read_scan
from duotomo.io.scan_hdf5 import write_scan
from duotomo.io.scan_options import ScanOptions, Values
from duotomo.io.study_file import read_study
from duotomo.io.volume_file import read_volume, write_volume
from duotomo.transforms import DisplacementField, Motion, invert
from duotomo.transforms.inversion import InverseStatus, best_inverse

_WHERE = "convert"

SCAN_SUFFIXES = (".h5", ".hdf5", ".dcm", ".npy", ".mha")
VOLUME_SUFFIXES = (".nii.gz", ".nii", ".mha", ".nrrd", ".dcm")
TRANSFORM_SUFFIXES = (".tfm", ".h5", ".nii.gz", ".nii", ".mha", ".dcm")

FARTHEST_OFF_MM = 1e-3
"""An inverse that is no better than this at the points of its grid is none."""

MOST_MIDDLES = 12
"""Places along each axis, about, between which an inverse is looked at."""

PARTS = ("volume", "motion", "inverse", "displacement")
"""Kinds of files of a result that can be converted."""


@dataclass(frozen=True, kw_only=True)
class _Task:
    """What to convert to, and what was said about it."""

    source: Path
    target: Path
    options: ScanOptions
    patient: Identity | None
    moving: Identity | None
    grid: VolumeGrid | None
    allowed: Allowed | None
    pseudonyms: Pseudonyms | None
    inverse: bool = False
    note: Callable[[str], None] = lambda text: None
    remark: str = ""

    def identities(self, own: Identity | None, moving: Identity | None = None) -> tuple[Identity | None, ...]:
        """Return whom an output is of, and its moving visit; raise if what was given names somebody else.

        own: of the source.
        """
        agreement = compare_visits(
            _WHERE,
            [self.patient, own, moving],
            allowed=self.allowed,
            names=("`patient_from`", "the input", "`moving_from`"),
        )
        known = agreement.identities([self.patient or own, moving])
        if self.remark:
            known = tuple((one or Identity.anonymous()).remarked(self.remark) for one in known)
        if self.pseudonyms is not None:
            known = tuple((one or Identity.anonymous()).deidentified(self.pseudonyms) for one in known)
        return known

    def suffix(self, known: Sequence[str], what: str) -> str:
        """Return which of the known suffixes the target has; raise if none."""
        name = self.target.name.lower()
        for suffix in known:
            if name.endswith(suffix) and name != suffix:
                return suffix
        raise FileError(
            f"{_WHERE}: expected an output for a {what} that ends in {', '.join(known)}; got "
            f"{self.target.name!r} for {self.source.name}. Choose one of these."
        )


def convert(
    source: AnyPath,
    target: AnyPath,
    *,
    what: str | None = None,
    options: ScanOptions | None = None,
    patient_from: AnyPath | None = None,
    moving_from: AnyPath | None = None,
    grid_from: AnyPath | None = None,
    allowed: Allowed | None = None,
    pseudonyms: Pseudonyms | None = None,
    inverse: bool = False,
    on_note: Callable[[str], None] | None = None,
) -> list[Path]:
    """Convert a scan, a volume, a transform, or a part of a study or a result, to another format.

    Scans become `.h5`, `.dcm`, `.npy` or `.mha` (with the geometry as JSON beside it), or, without a suffix,
    a folder with one DICOM file for each view. Volumes become `.nii`, `.nii.gz`, `.mha`, `.nrrd` or `.dcm`.
    Transforms become `.tfm`, `.h5`, displacements (`.nii`, `.nii.gz`, `.mha`) or a DICOM registration.

    Parameters
    ----------
    source : str or path
        A file or a folder that `recognise` knows.
    target : str or path
        Its suffix says the format.
    what : str, optional
        Which part of a study, such as "visit_1", or of a result, such as "volume" or "visit_2_to_reference".
        Of a result the volume, unless given.
    options : ScanOptions, optional
        What a scan does not say; `voxel_mm`, (frames, rows, columns), of a DICOM volume that does not.
    patient_from : str or path, optional
        A DICOM file whose patient and study a DICOM output belongs to; those of the source unless given.
    moving_from : str or path, optional
        A DICOM file of the moving visit, for a registration.
    grid_from : str or path, optional
        A volume on whose grid displacements are given.
    allowed : Allowed, optional
        In what `patient_from`, `moving_from` and the source may differ; in nothing, unless given.
    pseudonyms : Pseudonyms, optional
        Makes a DICOM output de-identified.
    inverse : bool
        Convert the inverse of a transform: exact of a matrix, and otherwise displacements on a grid of the
        reference frame.
    on_note : callable, optional
        Called with how exact an inverse is.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    FileError
        If the source cannot be read, or there is no such conversion.
    DuotomoError
        If a file that was named is of another patient, side or view.
    """
    source, target, options = Path(source), Path(target), options or ScanOptions()
    if source == target or (source.exists() and target.exists() and source.samefile(target)):
        raise FileError(
            f"{_WHERE}: expected an output beside the input; got {target} for both. Choose another name."
        )
    kind = recognise(source, with_geometry=options.has_geometry)
    task = _Task(
        source=source,
        target=target,
        options=options,
        patient=None if patient_from is None else read_identity(_WHERE, Path(patient_from)),
        moving=None if moving_from is None else read_identity(_WHERE, Path(moving_from)),
        grid=None if grid_from is None else read_volume(grid_from)[1],
        allowed=allowed,
        pseudonyms=pseudonyms,
        inverse=inverse,
        note=on_note or _silent,
    )
    if inverse and kind not in _INVERTIBLE:
        raise FileError(
            f"{_WHERE}: expected `inverse` for a transform, or that of a result; got a {kind.value}. Leave "
            f"it out."
        )
    if kind in (FileKind.SCAN, FileKind.STUDY) and not target.suffix:
        # A folder of views.
        return _converted(task, kind, what)
    place = _place(target)
    with together(_WHERE, place.parent, place.name) as draft:
        written = _converted(replace(task, target=draft / place.name), kind, what)
    return [place.with_name(path.name) for path in written]


_INVERTIBLE = (FileKind.TRANSFORM, FileKind.DISPLACEMENT, FileKind.REGISTRATION, FileKind.RESULT)


def _silent(text: str) -> None:
    pass


def _place(path: Path) -> Path:
    """Return the path of an output; raise unless a file can be there."""
    return target(_WHERE, path, (path.suffix,))


def _converted(task: _Task, kind: FileKind, what: str | None) -> list[Path]:
    if kind is FileKind.RESULT:
        return _from_result(task, what or "volume")
    if kind is FileKind.STUDY:
        return _write_scan(_visit_of_study(task.source, what), task)
    if what is not None:
        raise FileError(
            f"{_WHERE}: {task.source}: expected `what` for a result folder or a study only; got a "
            f"{kind.value}. Leave it out."
        )
    return _convert(task.source, kind, task, grid=None)


def _convert(source: Path, kind: FileKind, task: _Task, *, grid: VolumeGrid | None) -> list[Path]:
    if kind is FileKind.SCAN:
        return _write_scan(read_scan(source, task.options.of_visit(1, 1)), task)
    if kind is FileKind.VOLUME and task.inverse:
        raise FileError(f"{_WHERE}: expected `inverse` for a transform; got a volume. Leave it out.")
    if kind is FileKind.VOLUME:
        return _write_volume(source, task)
    if kind is FileKind.TRANSFORM:
        grid = task.grid or grid
        # Where no grid is known, the parameters' scale matters to nobody.
        motion = read_transform(source, grid or VolumeGrid.on_detector((2, 2, 2), (1.0, 1.0, 1.0)))
        return _write_motion(motion, grid, task)
    if kind is FileKind.DISPLACEMENT:
        motion = read_displacement(source)
        return _write_motion(motion, task.grid or motion.grid, task)
    if kind is FileKind.REGISTRATION:
        found = read_registration(source)
        grid = task.grid or grid or (found.motion.grid if found.is_inverse else None)
        # A deformable registration holds the inverse: turned round twice it is what it was.
        return _write_motion(found.motion, grid, replace(task, inverse=task.inverse != found.is_inverse))
    raise FileError(
        f"{_WHERE}: expected a scan, a volume, a transform, a study or a result folder; got {source.name}, a "
        f"{kind.value}. Convert what it was made from."
    )


def _from_result(task: _Task, what: str) -> list[Path]:
    index = read_index(_WHERE, task.source)
    parts = {name_of(file): file for file, entry in index["files"].items() if entry["kind"] in PARTS}
    if what not in parts:
        raise FileError(
            f"{_WHERE}: {task.source}: expected `what` as one of {', '.join(parts) or 'no parts'}; got "
            f"{what!r}. Choose one of them."
        )
    with naming(_WHERE, task.source):
        part = checked(task.source, index, parts[what])
        grid = VolumeGrid.from_json(json.dumps(index.get("grid")))
        task = replace(task, remark=_remark(index))
    return _convert(part, recognise(part), task, grid=grid)


def _remark(index: Mapping[str, Any]) -> str:
    """Return in what the inputs of a result do not belong together."""
    try:
        rows = ((index.get("settings") or {}).get("agreement") or {}).get("conflicts") or []
        return remark_of([str(row["what"]) for row in rows])
    except (AttributeError, KeyError, TypeError) as error:
        raise FileError(
            f"expected `agreement` of {INDEX} as write_result wrote it; got: {reason(error)}. Restore it."
        ) from error


def _visit_of_study(source: Path, what: str | None) -> Scan:
    study = read_study(source)
    names = [f"visit_{number}" for number in range(1, len(study.visits) + 1)]
    if what not in names:
        raise FileError(
            f"{_WHERE}: expected `what` as one of {', '.join(names)} for a study; got {what!r}. Choose a "
            f"visit."
        )
    visit = study.visits[names.index(what)]
    return Scan(
        projections=visit.projections,
        values=Values.LINE_INTEGRALS,
        acquisition=visit.acquisition,
        format="duotomo study",
        thickness_mm=study.grid_of(visit).size_mm[0],
    )


def _write_scan(scan: Scan, task: _Task) -> list[Path]:
    path, (identity, _) = task.target, task.identities(scan.identity)
    if not path.suffix:
        write_dicom_projections(path, scan, identity=identity, single_files=True)
        return sorted(path.glob("view_*.dcm"))
    suffix = task.suffix(SCAN_SUFFIXES, "scan")
    if suffix == ".dcm":
        write_dicom_projections(path, scan, identity=identity)
    elif suffix in (".h5", ".hdf5"):
        write_scan(path, scan)
    else:
        return _write_stack(scan, path)
    return [path]


def _write_stack(scan: Scan, path: Path) -> list[Path]:
    """Write (view, v, u) and, beside it, the geometry as JSON."""
    path = target(_WHERE, path, (".npy", ".mha"))
    values = scan.projections.numpy()
    geometry = path.with_suffix(".json")
    with durable(_WHERE, geometry) as fresh:
        fresh.write_text(scan.acquisition.to_json() + "\n", encoding="utf-8")
    with durable(_WHERE, path) as fresh:
        if path.suffix == ".npy":
            np.save(fresh, values)
        else:
            image = simpleitk().GetImageFromArray(values)
            d_v, d_u = scan.acquisition.pixel_spacing_mm
            image.SetSpacing((d_u, d_v, 1.0))
            simpleitk().WriteImage(image, str(fresh))
    return [path, geometry]


def _write_volume(source: Path, task: _Task) -> list[Path]:
    task.suffix(VOLUME_SUFFIXES, "volume")
    volume, grid = read_volume(source, task.options.voxel_mm)
    own = read_identity(_WHERE, source) if is_dicom(source) else None
    identity, _ = task.identities(own)
    write_volume(task.target, volume, grid, identity=identity)
    return [task.target]


def _write_motion(motion: Motion, grid: VolumeGrid | None, task: _Task) -> list[Path]:
    suffix = task.suffix(TRANSFORM_SUFFIXES, "transform")
    if task.inverse:
        motion = _inverted(motion, grid, task)
    if grid is not None and task.grid is None:
        grid = vector_grid(motion, grid)
    if suffix in (".tfm", ".h5"):
        write_transform(task.target, motion)
        return [task.target]
    if grid is None and not (suffix == ".dcm" and is_linear(motion)):
        raise FileError(
            f"{_WHERE}: expected a grid on which displacements are given; got none. Pass a volume as "
            f"`grid_from`."
        )
    if suffix == ".dcm":
        fixed, moving = task.identities(None, task.moving)
        write_registration(task.target, motion, grid, fixed=fixed, moving=moving)
    else:
        assert grid is not None
        write_displacement(task.target, motion, grid)
    return [task.target]


def _inverted(motion: Motion, grid: VolumeGrid | None, task: _Task) -> Motion:
    """Return the inverse, and say how exact it is; raise where there is none."""
    if is_linear(motion):
        task.note("Inverse: in closed form")
        closed = motion.transform.inverse(motion.params)
        return closed or invert(motion, motion.grid).motion
    if grid is None:
        raise FileError(
            f"{_WHERE}: expected a grid on which the inverse is given; got none. Pass a volume of the frame "
            f"that the transform leads to as `grid_from`."
        )
    grid = grid if task.grid is not None else vector_grid(motion, grid)
    motion = _continued(motion)
    # Folding is said below.
    found = best_inverse(motion, grid)
    if found.status is InverseStatus.FOLDED or found.residual_mm > FARTHEST_OFF_MM:
        raise FileError(
            f"{_WHERE}: expected a transform that has an inverse everywhere on {grid.shape} voxels; got one "
            f"whose best is off by {found.residual_mm:.3g} mm there: {found.status.value}. Choose a smaller "
            f"grid with `grid_from`, or a transform that does not fold."
        )
    between = _between(motion, found.motion, grid)
    task.note(
        f"Inverse: right to {found.residual_mm:.1e} mm at {grid.n_voxels} points, and to {between:.1e} mm "
        f"between them, where it is linear"
    )
    return found.motion


def _continued(motion: Motion) -> Motion:
    """Return displacements that go on beyond their lattice as at its border, as far as the largest reaches.

    There a file says nothing, and a jump to none would have no inverse.
    """
    if not isinstance(motion.transform, DisplacementField):
        return motion
    lattice = motion.transform.grid
    field_mm = motion.transform.maps(motion.params)[0].coefficients
    most_mm = field_mm.abs().amax(dim=(1, 2, 3)).tolist()[::-1]
    n_z, n_y, n_x = (
        math.ceil(length / edge) + 1 for length, edge in zip(most_mm, lattice.spacing_mm, strict=True)
    )
    wider_mm = torch.nn.functional.pad(field_mm[None], (n_x, n_x, n_y, n_y, n_z, n_z), mode="replicate")[0]
    wider = VolumeGrid(
        shape=(lattice.shape[0] + 2 * n_z, lattice.shape[1] + 2 * n_y, lattice.shape[2] + 2 * n_x),
        spacing_mm=lattice.spacing_mm,
        center_mm=lattice.center_mm,
    )
    field = DisplacementField(wider)
    return Motion(field, field.params(displacement_mm=wider_mm))


def _between(motion: Motion, inverse: Motion, grid: VolumeGrid) -> float:
    """Return how far off an inverse is, at most, in the middle between points of its grid; some of them."""
    if min(grid.shape) < 2:
        return 0.0
    strides = (max(1, n // MOST_MIDDLES) for n in grid.shape)
    index = np.meshgrid(
        *(np.arange(0, n - 1, step) + 0.5 for n, step in zip(grid.shape, strides, strict=True)), indexing="ij"
    )
    xyz_mm = torch.from_numpy(voxel_to_world(grid, np.stack(index, axis=-1)).reshape(-1, 3).copy())
    return float((motion.points(inverse.points(xyz_mm)) - xyz_mm).norm(dim=-1).max())
