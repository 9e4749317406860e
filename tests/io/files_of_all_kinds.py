"""One file of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from duotomo.io import (
    Scan,
    Values,
    file_kind,
    write_displacement,
    write_result,
    write_scan,
    write_study,
    write_transform,
    write_volume,
)
from duotomo.io.checkpoint_file import CheckpointFile
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.projections_writer import write_dicom_projections
from duotomo.io.dicom.registration import write_registration
from duotomo.io.libraries import pydicom
from duotomo.methods import Result
from duotomo.transforms import BSpline, Motion, Rigid
from tests.io.saved_helpers import FINGERPRINT, GRID, SCAN, converged, draw, state, study

RIGID = Rigid(GRID)
MOTION = Motion(RIGID, RIGID.params(rotation_deg=(0.0, 5.0, 0.0), translation_mm=(0.1, 0.2, 0.3)))
SPLINE = BSpline.over(GRID, (5, 5, 5))
BENT = Motion(SPLINE, 0.2 * draw(SPLINE.n_params, seed=7, dtype=torch.float64))
VOLUME = draw(*GRID.shape, seed=9)


def patient() -> Identity:
    """Return somebody whose name must not be told."""
    dataset = pydicom().Dataset()
    dataset.PatientName, dataset.PatientID, dataset.PatientBirthDate = "Doe^Jane", "ID-4711", "19610203"
    dataset.SOPInstanceUID, dataset.AccessionNumber = "1.2.3", "ACC-99"
    return Identity.of(dataset)


SECRETS = ("Doe", "Jane", "4711", "1961", "ACC-99")


def scan() -> Scan:
    """Return line integrals of a scan."""
    return Scan(projections=draw(*SCAN.shape, seed=1), values=Values.LINE_INTEGRALS, acquisition=SCAN)


def result() -> Result:
    """Return a volume and a motion."""
    return converged(grid=GRID, volume=VOLUME, motions=(MOTION,))


def damaged_dicom(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a DICOM file of which the library quotes the patient's name when it fails."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("bad value: Doe^Jane")

    monkeypatch.setattr(file_kind, "read_dataset", fail)
    path = folder / "damaged.dcm"
    path.write_bytes(b"\0" * 128 + b"DICM")
    return path


def write_all(folder: Path) -> Path:
    """Write a file of every kind to a folder, which is returned."""
    (folder / "result").mkdir()
    write_result(folder / "result", result(), moving_grids=[GRID], settings={})
    write_scan(folder / "scan.h5", scan())
    write_dicom_projections(folder / "scan.dcm", scan(), identity=patient())
    write_study(folder / "study.h5", study())
    CheckpointFile(folder / "checkpoint.h5", FINGERPRINT).save(state())
    for name in ("volume.nii.gz", "volume.mha", "volume.dcm"):
        write_volume(folder / name, VOLUME, GRID, identity=patient())
    for name in ("rigid.tfm", "rigid.h5"):
        write_transform(folder / name, MOTION)
    write_transform(folder / "bent.tfm", BENT)
    for name in ("displacement.nii.gz", "displacement.mha"):
        write_displacement(folder / name, BENT, GRID)
    write_registration(folder / "rigid.dcm", MOTION, fixed=patient())
    write_registration(folder / "bent.dcm", BENT, GRID, fixed=patient())
    (folder / "geometry.json").write_text(SCAN.to_json())
    (folder / "grid.json").write_text(GRID.to_json())
    return folder


KINDS = {
    "result": "result folder",
    "scan.h5": "scan",
    "scan.dcm": "scan",
    "study.h5": "study",
    "checkpoint.h5": "checkpoint",
    "volume.nii.gz": "volume",
    "volume.mha": "volume",
    "volume.dcm": "volume",
    "rigid.tfm": "transform",
    "rigid.h5": "transform",
    "bent.tfm": "transform",
    "displacement.nii.gz": "displacements",
    "displacement.mha": "displacements",
    "rigid.dcm": "DICOM registration",
    "bent.dcm": "DICOM registration",
    "geometry.json": "geometry",
    "grid.json": "geometry",
}
