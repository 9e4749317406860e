"""A result in further formats; the patient is in its DICOM files and nowhere else."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.io import FileError, ResultFormat, read_result, read_volume, write_result
from duotomo.io.libraries import pydicom
from duotomo.io.result_files import check_libraries
from duotomo.methods import Settings, settings_from_dict
from duotomo.transforms import Rigid, Translation
from tests.io.files_of_all_kinds import BENT, MOTION, patient, result
from tests.io.saved_helpers import GRID, draw

OTHERS = {"visit_2": draw(*GRID.shape, seed=3), "visit_2_registered": draw(*GRID.shape, seed=4)}


def frame(path: Path) -> str:
    return str(pydicom().dcmread(path).FrameOfReferenceUID)


def test_volumes_and_motions_in_all_formats(tmp_path: Path) -> None:
    written = replace(result(), others=OTHERS, motions=(MOTION,))
    files = write_result(
        tmp_path,
        written,
        moving_grids=[GRID],
        settings={},
        formats=tuple(ResultFormat),
        identities=(patient(), None),
    )
    assert sorted(path.name for path in files) == sorted(path.name for path in tmp_path.iterdir())
    for name, volume in {"volume": written.volume, **OTHERS}.items():
        for suffix in (".mha", ".nrrd"):
            assert torch.equal(read_volume(tmp_path / f"{name}{suffix}")[0], volume)
        torch.testing.assert_close(read_volume(tmp_path / f"{name}.dcm")[0], volume, atol=1e-4, rtol=0)
    assert list(read_result(tmp_path).others) == list(OTHERS)
    # What lies in the reference frame is said to.
    assert frame(tmp_path / "volume.dcm") == frame(tmp_path / "visit_2_registered.dcm")
    assert frame(tmp_path / "volume.dcm") != frame(tmp_path / "visit_2.dcm")
    registration = pydicom().dcmread(tmp_path / "visit_2_to_reference.dcm")
    assert registration.RegistrationSequence[1].FrameOfReferenceUID == frame(tmp_path / "visit_2.dcm")
    named = {path.name for path in tmp_path.iterdir() if b"Doe^Jane" in path.read_bytes()}
    assert named == {"volume.dcm", "visit_2_registered.dcm", "visit_2_to_reference.dcm"}
    kinds = {name: one["kind"] for name, one in json.loads(files[0].read_text())["files"].items()}
    assert (kinds["volume.mha"], kinds["visit_2_to_reference.dcm"]) == ("copy", "registration")


def test_a_motion_that_bends_becomes_a_deformable_registration(tmp_path: Path) -> None:
    bent = replace(result(), motions=(BENT,))
    write_result(tmp_path, bent, moving_grids=[GRID], settings={}, formats=[ResultFormat.DICOM])
    found = pydicom().dcmread(tmp_path / "visit_2_to_reference.dcm")
    assert "DeformableRegistrationSequence" in found


def test_identities_are_of_every_visit(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected `identities` of 2 visits, the reference first; got 1"):
        write_result(
            tmp_path,
            result(),
            moving_grids=[GRID],
            settings={},
            formats=[ResultFormat.DICOM],
            identities=[patient()],
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "formats"), [("nibabel", ()), ("pydicom", (ResultFormat.DICOM,))])
def test_missing_libraries_are_missed_first(
    name: str, formats: tuple[ResultFormat, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_libraries(formats)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(FileError, match=rf"expected {name} to be installed"):
        check_libraries(formats)


def test_settings_are_kept_as_plain_values(tmp_path: Path) -> None:
    settings = Settings.staged(GRID, Rigid)
    write_result(tmp_path, result(), moving_grids=[GRID], settings=settings)
    assert settings_from_dict(read_result(tmp_path).settings) == settings
    write_result(tmp_path, result(), moving_grids=[GRID], settings={"command": "joint", "settings": settings})
    assert settings_from_dict(read_result(tmp_path).settings["settings"]) == settings
    with pytest.raises(
        DuotomoError, match=r"expected `settings` that JSON can hold; got a Translation in them"
    ):
        write_result(tmp_path, result(), moving_grids=[GRID], settings={"model": Translation(GRID)})
    assert settings_from_dict(read_result(tmp_path).settings["settings"]) == settings


def test_a_folder_in_the_way_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "volume.nii.gz").mkdir()
    with pytest.raises(DuotomoError, match=r"expected nothing, or .*volume\.nii\.gz; got a folder"):
        write_result(tmp_path, result(), moving_grids=[GRID], settings={})
    assert [path.name for path in tmp_path.iterdir()] == ["volume.nii.gz"]
