"""What is converted is the same thing in another format, and the patient stays in DICOM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from duotomo.io import (
    read_displacement,
    read_transform,
    read_volume,
    write_study,
    write_transform,
    write_volume,
)
from duotomo.io.dicom.projections_writer import write_dicom_projections
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.io.libraries import pydicom
from duotomo.io.scan_file import read_scan
from duotomo.transforms import BSpline, Motion
from tests.cli.commands import duotomo
from tests.cli.test_info import TURN, patient, result_folder, scan
from tests.cli.tiny import GRID, SCAN, tiny_study

POINTS = torch.tensor([(0.0, 20.0, 30.0), (9.0, 12.0, 25.0)], dtype=torch.float64)


def convert(source: Path, target: Path, *options: object) -> None:
    ran = duotomo("convert", source, target, *options)
    assert ran.code == 0, ran.err
    assert str(target) in ran.out


@pytest.fixture
def dicom(tmp_path: Path) -> Path:
    path = tmp_path / "in.dcm"
    write_dicom_projections(path, scan(), identity=patient())
    return path


@pytest.mark.parametrize("name", ["out.h5", "out.npy", "out.mha", "out.dcm", "folder"])
def test_a_scan_keeps_its_values_and_geometry(dicom: Path, tmp_path: Path, name: str) -> None:
    convert(dicom, tmp_path / name)
    before, after = read_scan(dicom), read_scan(tmp_path / name)
    torch.testing.assert_close(after.projections, before.projections, atol=1e-3, rtol=0)
    np.testing.assert_allclose(after.acquisition.sources_mm, SCAN.sources_mm, atol=1e-6)
    np.testing.assert_allclose(after.acquisition.detector_centers_mm, SCAN.detector_centers_mm, atol=1e-6)


def test_the_patient_stays_in_dicom(dicom: Path, tmp_path: Path) -> None:
    convert(dicom, tmp_path / "out.dcm")
    assert str(pydicom().dcmread(tmp_path / "out.dcm").PatientName) == "Doe^Jane"
    convert(dicom, tmp_path / "out.h5")
    convert(dicom, tmp_path / "out.npy")
    for name in ("out.h5", "out.npy", "out.json"):
        assert b"Doe" not in (tmp_path / name).read_bytes()
        assert b"4711" not in (tmp_path / name).read_bytes()


@pytest.mark.parametrize("name", ["out.nii", "out.nii.gz", "out.mha", "out.nrrd", "out.dcm"])
def test_a_volume_keeps_its_values_and_place(tmp_path: Path, name: str) -> None:
    volume = torch.rand(GRID.shape, generator=torch.Generator().manual_seed(0))
    write_volume(tmp_path / "in.nii.gz", volume, GRID)
    convert(tmp_path / "in.nii.gz", tmp_path / name)
    found, grid = read_volume(tmp_path / name)
    assert grid.shape == GRID.shape
    np.testing.assert_allclose(grid.low_mm, GRID.low_mm, atol=1e-4)
    # DICOM keeps 16 bits.
    torch.testing.assert_close(found, volume, atol=1e-5 if name == "out.dcm" else 0, rtol=0)
    convert(tmp_path / name, tmp_path / "back.nii.gz")
    torch.testing.assert_close(read_volume(tmp_path / "back.nii.gz")[0], found, atol=1e-7, rtol=0)


@pytest.mark.parametrize("name", ["out.tfm", "out.h5", "out.nii.gz", "out.mha"])
def test_a_transform_takes_points_to_the_same_places(tmp_path: Path, name: str) -> None:
    spline = BSpline.over(GRID, (5, 5, 5))
    bent = Motion(
        spline, torch.randn(spline.n_params, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    )
    write_transform(tmp_path / "in.tfm", bent)
    write_volume(tmp_path / "grid.nii.gz", torch.zeros(GRID.shape), GRID)
    convert(tmp_path / "in.tfm", tmp_path / name, "--grid-from", tmp_path / "grid.nii.gz")
    image = name.endswith((".nii.gz", ".mha"))
    moved = read_displacement(tmp_path / name) if image else read_transform(tmp_path / name, GRID)
    # An image of displacements is exact at voxel centres, and linear between them.
    points = POINTS if not image else torch.tensor([(1.5, 19.5, 30.5), (10.5, 13.5, 24.5)]).double()
    expected = bent.points(points)
    torch.testing.assert_close(moved.points(points), expected, atol=1e-3, rtol=0)


def test_displacements_become_a_transform(tmp_path: Path) -> None:
    write_transform(tmp_path / "in.tfm", TURN)
    write_volume(tmp_path / "grid.nii.gz", torch.zeros(GRID.shape), GRID)
    convert(tmp_path / "in.tfm", tmp_path / "d.nii.gz", "--grid-from", tmp_path / "grid.nii.gz")
    convert(tmp_path / "d.nii.gz", tmp_path / "d.h5")
    moved = read_transform(tmp_path / "d.h5", GRID)
    torch.testing.assert_close(moved.points(POINTS), TURN.points(POINTS), atol=1e-6, rtol=0)


def test_registrations_go_to_dicom(dicom: Path, tmp_path: Path) -> None:
    write_transform(tmp_path / "rigid.tfm", TURN)
    convert(tmp_path / "rigid.tfm", tmp_path / "rigid.dcm", "--patient-from", dicom)
    spatial = pydicom().dcmread(tmp_path / "rigid.dcm")
    assert str(spatial.PatientName) == "Doe^Jane"
    assert len(spatial.RegistrationSequence) == 2
    spline = BSpline.over(GRID, (5, 5, 5))
    bent = Motion(spline, 0.3 * torch.ones(spline.n_params, dtype=torch.float64))
    write_transform(tmp_path / "bent.tfm", bent)
    write_volume(tmp_path / "grid.nii.gz", torch.zeros(GRID.shape), GRID)
    convert(tmp_path / "bent.tfm", tmp_path / "bent.dcm", "--grid-from", tmp_path / "grid.nii.gz")
    assert "DeformableRegistrationSequence" in pydicom().dcmread(tmp_path / "bent.dcm")


def test_parts_of_a_result_and_of_a_study(dicom: Path, tmp_path: Path) -> None:
    folder = result_folder(tmp_path / "result")
    convert(folder, tmp_path / "v.dcm", "--patient-from", dicom)
    assert str(pydicom().dcmread(tmp_path / "v.dcm").PatientName) == "Doe^Jane"
    convert(folder, tmp_path / "v.mha", "--what", "volume")
    torch.testing.assert_close(
        read_volume(tmp_path / "v.mha")[0], read_volume(tmp_path / "v.dcm")[0], atol=1e-4, rtol=0
    )
    convert(folder, tmp_path / "t.nii.gz", "--what", "visit_2_to_reference")
    moved = read_displacement(tmp_path / "t.nii.gz")
    torch.testing.assert_close(moved.points(POINTS), TURN.points(POINTS), atol=1e-4, rtol=0)

    write_study(tmp_path / "study.h5", tiny_study())
    convert(tmp_path / "study.h5", tmp_path / "second.h5", "--what", "visit_2")
    assert torch.equal(read_scan(tmp_path / "second.h5").projections, tiny_study().moving[0].projections)


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        ("v.nii.gz", "v.nii.gz", (), "expected an output beside the input"),
        ("v.nii.gz", "v.tfm", (), "expected an output for a volume that ends in .nii.gz, .nii, .mha"),
        ("v.nii.gz", "w.mha", ("--what", "volume"), "expected --what for a result folder or a study only"),
        ("s.h5", "s.tiff", (), "expected an output for a scan that ends in .h5"),
        ("t.tfm", "t.nii.gz", (), "expected a grid on which displacements are given; got none"),
        ("study.h5", "s.h5", (), "expected --what as one of visit_1, visit_2 for a study; got None"),
        (
            "result",
            "v.mha",
            ("--what", "nothing"),
            "expected --what as one of volume, visit_2_to_reference, reference_to_visit_2; got",
        ),
        (
            "g.json",
            "g.h5",
            (),
            "expected a scan, a volume, a transform, a study or a result folder; got g.json",
        ),
        ("v.nii.gz", "v.dcm", ("--patient-from", "v.nii.gz"), "expected a DICOM file at"),
        ("v.nii.gz", "none/v.mha", (), "expected a folder at"),
    ],
)
def test_what_cannot_be_converted_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    target: str,
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_volume("v.nii.gz", torch.rand(GRID.shape), GRID)
    write_transform("t.tfm", TURN)
    write_study("study.h5", tiny_study())
    result_folder(tmp_path / "result")
    Path("g.json").write_text(SCAN.to_json())
    duotomo("convert", "study.h5", "s.h5", "--what", "visit_1")
    before = sorted(path.name for path in tmp_path.iterdir())
    ran = duotomo("convert", source, target, *options)
    assert ran.code == 2
    assert message in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_damaged_result_is_not_converted(tmp_path: Path) -> None:
    folder = result_folder(tmp_path / "result")
    (folder / "volume.nii.gz").write_bytes(b"?")
    ran = duotomo("convert", folder, tmp_path / "v.mha")
    assert ran.code == 2
    assert "expected volume.nii.gz as it was written" in ran.err
    assert not (tmp_path / "v.mha").exists()


def test_the_voxels_of_a_dicom_volume_can_be_supplied(tmp_path: Path) -> None:
    from tests.io.dicom.test_tomosynthesis import GRID as PLACED
    from tests.io.dicom.test_tomosynthesis import VOLUME, changed, without_places

    path, wanted = tmp_path / "v.dcm", tmp_path / "v.nii.gz"
    write_tomosynthesis(path, VOLUME, PLACED)
    changed(path, without_places)
    ran = duotomo("convert", path, wanted)
    assert ran.code == 2
    assert "--voxel" in ran.err
    assert not wanted.exists()
    assert duotomo("convert", path, wanted, "--voxel", "1,0.3,0.2").code == 0
    assert read_volume(wanted)[1].spacing_mm == pytest.approx(PLACED.spacing_mm)
