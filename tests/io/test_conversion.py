"""What is converted is the same thing in another format, and the patient stays in DICOM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from duotomo.io import (
    FileError,
    ScanOptions,
    convert,
    read_displacement,
    read_scan,
    read_transform,
    read_volume,
)
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.io.libraries import pydicom
from tests.io.dicom import test_tomosynthesis
from tests.io.files_of_all_kinds import BENT, MOTION, VOLUME, write_all
from tests.io.itk_helpers import points_on
from tests.io.saved_helpers import GRID, SCAN, study

POINTS = torch.from_numpy(points_on(GRID, inset=1.0).copy())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("name", ["out.h5", "out.npy", "out.mha", "out.dcm", "folder"])
def test_a_scan_keeps_its_values_and_geometry(files: Path, tmp_path: Path, name: str) -> None:
    written = convert(files / "scan.dcm", tmp_path / name)
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    before, after = read_scan(files / "scan.dcm"), read_scan(tmp_path / name)
    torch.testing.assert_close(after.projections, before.projections, atol=1e-3, rtol=0)
    np.testing.assert_allclose(after.acquisition.sources_mm, SCAN.sources_mm, atol=1e-6)
    np.testing.assert_allclose(after.acquisition.detector_centers_mm, SCAN.detector_centers_mm, atol=1e-6)


def test_the_patient_stays_in_dicom(files: Path, tmp_path: Path) -> None:
    for name in ("out.dcm", "out.h5", "out.npy"):
        convert(files / "scan.dcm", tmp_path / name)
    assert str(pydicom().dcmread(tmp_path / "out.dcm").PatientName) == "Doe^Jane"
    for name in ("out.h5", "out.npy", "out.json"):
        assert b"Doe" not in (tmp_path / name).read_bytes()
        assert b"4711" not in (tmp_path / name).read_bytes()


@pytest.mark.parametrize("name", ["out.nii", "out.nii.gz", "out.mha", "out.nrrd", "out.dcm"])
def test_a_volume_keeps_its_values_and_place(files: Path, tmp_path: Path, name: str) -> None:
    assert convert(files / "volume.nii.gz", tmp_path / name) == [tmp_path / name]
    found, grid = read_volume(tmp_path / name)
    assert grid.shape == GRID.shape
    np.testing.assert_allclose(grid.low_mm, GRID.low_mm, atol=1e-4)
    # DICOM keeps 16 bits.
    torch.testing.assert_close(found, VOLUME, atol=1e-5 if name == "out.dcm" else 0, rtol=0)


@pytest.mark.parametrize("name", ["out.tfm", "out.h5", "out.nii.gz", "out.mha"])
def test_a_transform_takes_points_to_the_same_places(files: Path, tmp_path: Path, name: str) -> None:
    convert(files / "bent.tfm", tmp_path / name, grid_from=files / "volume.nii.gz")
    if name.endswith((".nii.gz", ".mha")):
        # Exact at voxel centres, and linear between them.
        found = read_displacement(tmp_path / name).displacement()
        torch.testing.assert_close(found, BENT.displacement(GRID), atol=1e-5, rtol=0)
    else:
        found = read_transform(tmp_path / name, GRID).points(POINTS)
        torch.testing.assert_close(found, BENT.points(POINTS), atol=1e-9, rtol=0)


def test_displacements_become_a_transform(files: Path, tmp_path: Path) -> None:
    convert(files / "displacement.mha", tmp_path / "d.h5")
    image, found = read_displacement(files / "displacement.mha"), read_transform(tmp_path / "d.h5", GRID)
    torch.testing.assert_close(found.points(POINTS), image.points(POINTS), atol=1e-9, rtol=0)


def test_registrations_go_to_dicom(files: Path, tmp_path: Path) -> None:
    convert(
        files / "rigid.tfm",
        tmp_path / "rigid.dcm",
        patient_from=files / "scan.dcm",
        moving_from=files / "volume.dcm",
    )
    spatial = pydicom().dcmread(tmp_path / "rigid.dcm")
    assert str(spatial.PatientName) == "Doe^Jane"
    moving = Identity.of(pydicom().dcmread(files / "volume.dcm"))
    assert spatial.RegistrationSequence[1].FrameOfReferenceUID == moving.frame_of_reference_uid
    convert(files / "bent.tfm", tmp_path / "bent.dcm", grid_from=files / "volume.nii.gz")
    assert "DeformableRegistrationSequence" in pydicom().dcmread(tmp_path / "bent.dcm")


def test_parts_of_a_result_and_of_a_study(files: Path, tmp_path: Path) -> None:
    convert(files / "result", tmp_path / "v.dcm", patient_from=files / "scan.dcm")
    assert str(pydicom().dcmread(tmp_path / "v.dcm").PatientName) == "Doe^Jane"
    convert(files / "result", tmp_path / "v.mha", what="volume")
    assert torch.equal(read_volume(tmp_path / "v.mha")[0], VOLUME)
    convert(files / "result", tmp_path / "t.nii.gz", what="visit_2_to_reference")
    found = read_displacement(tmp_path / "t.nii.gz").displacement()
    torch.testing.assert_close(found, MOTION.displacement(GRID), atol=1e-5, rtol=0)
    convert(files / "result", tmp_path / "back.tfm", what="reference_to_visit_2")
    back = read_transform(tmp_path / "back.tfm", GRID)
    torch.testing.assert_close(back.points(MOTION.points(POINTS)), POINTS, atol=1e-9, rtol=0)
    convert(files / "study.h5", tmp_path / "second.h5", what="visit_2")
    assert torch.equal(read_scan(tmp_path / "second.h5").projections, study().moving[0].projections)


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        ("volume.nii.gz", "volume.nii.gz", {}, r"expected an output beside the input; got"),
        ("volume.nii.gz", "v.tfm", {}, r"expected an output for a volume that ends in \.nii\.gz, \.nii"),
        ("volume.nii.gz", "w.mha", {"what": "volume"}, r"`what` for a result folder or a study only; got"),
        ("scan.h5", "s.tiff", {}, r"expected an output for a scan that ends in \.h5"),
        ("rigid.tfm", "t.nii.gz", {}, r"grid on which displacements are given; got none\. .*`grid_from`"),
        ("study.h5", "s.h5", {}, r"expected `what` as one of visit_1, visit_2, visit_3 for a study"),
        ("result", "v.mha", {"what": "nothing"}, r"expected `what` as one of volume, visit_2_to_ref"),
        ("geometry.json", "g.h5", {}, r"expected a scan, a volume, .* or a result folder; got geom"),
        ("volume.nii.gz", "v.dcm", {"patient_from": "geometry.json"}, r"expected a DICOM file at geom"),
        ("volume.nii.gz", "none/v.mha", {}, r"expected a folder at none; got none"),
    ],
)
def test_what_cannot_be_converted_is_said(
    source: str,
    target: str,
    options: dict[str, str],
    message: str,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files)
    before = sorted(path.name for path in files.iterdir())
    with pytest.raises(FileError, match=message):
        convert(source, target, **options)  # type: ignore[arg-type]
    assert sorted(path.name for path in files.iterdir()) == before


def test_a_damaged_result_is_not_converted(tmp_path: Path) -> None:
    folder = write_all(tmp_path) / "result"
    (folder / "volume.nii.gz").write_bytes(b"?")
    with pytest.raises(FileError, match=r"convert: .*: expected volume\.nii\.gz as it was written"):
        convert(folder, tmp_path / "v.mha")
    assert not (tmp_path / "v.mha").exists()


def test_the_voxels_of_a_dicom_volume_can_be_supplied(tmp_path: Path) -> None:
    path, wanted = tmp_path / "v.dcm", tmp_path / "v.nii.gz"
    write_tomosynthesis(path, test_tomosynthesis.VOLUME, test_tomosynthesis.GRID)
    test_tomosynthesis.changed(path, test_tomosynthesis.without_places)
    with pytest.raises(FileError, match=r"`voxel_mm`"):
        convert(path, wanted)
    assert not wanted.exists()
    convert(path, wanted, options=ScanOptions(voxel_mm=(1.0, 0.3, 0.2)))
    assert read_volume(wanted)[1].spacing_mm == pytest.approx(test_tomosynthesis.GRID.spacing_mm)
