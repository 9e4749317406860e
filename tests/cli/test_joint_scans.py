"""Scans of any format become a study, whose grid is what the views see."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry.field_of_view import grid_in_view
from duotomo.io import read_result, read_transform, read_volume, write_study
from duotomo.io.dicom.identity import Identity
from duotomo.io.libraries import pydicom
from duotomo.io.scan import Scan, Values
from duotomo.io.scan_file import read_scan
from duotomo.io.scan_hdf5 import write_scan
from tests.cases.scans import arc
from tests.cli.commands import NOT_TRUSTED, THICKNESS_MM, duotomo, write_scans
from tests.cli.tiny import GRID, SCAN, SHIFT_MM, tiny_study

QUICK = ("--transform", "translation", "--voxel", "3,3,3", "--gap", "5")


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_scans(tmp_path_factory.mktemp("scans"))


def test_two_scans_become_a_registered_result(scans: tuple[Path, Path], tmp_path: Path) -> None:
    ran = duotomo("joint", *scans, *QUICK, "--out", tmp_path, "--json")
    assert ran.code == 0, ran.err
    content = ran.json
    assert content["status"] in ("converged", "step limit")
    assert content["quality"]["folded_voxels"] == [0]
    saved = read_result(tmp_path)
    assert saved.grid == grid_in_view(SCAN, thickness_mm=THICKNESS_MM, gap_mm=5.0, spacing_mm=(3.0, 3.0, 3.0))
    found = saved.motions[0].physical()["translation_mm"]
    torch.testing.assert_close(found, torch.tensor(SHIFT_MM, dtype=torch.float64), atol=0.6, rtol=0)
    assert set(saved.others) == {"visit_1", "visit_2", "visit_2_registered"}
    # Registered, the second visit is nearer to the first than it was.
    one, two, moved = (saved.others[name] for name in ("visit_1", "visit_2", "visit_2_registered"))
    assert (one - moved).norm() < 0.7 * (one - two).norm()
    assert saved.quality == content["quality"]
    index = json.loads((tmp_path / "result.json").read_text())
    assert index["files"]["visit_2_to_reference_displacement.nii.gz"]["kind"] == "displacement"
    assert (tmp_path / "report.html").is_file()


def test_no_file_names_the_inputs(scans: tuple[Path, Path], tmp_path: Path) -> None:
    ran = duotomo("joint", *scans, *QUICK, "--out", tmp_path, "--steps", 1)
    assert ran.code == NOT_TRUSTED, ran.err
    for path in tmp_path.iterdir():
        assert "Doe_Jane" not in path.name
        assert b"Doe_Jane" not in path.read_bytes(), path
    assert "Doe_Jane" not in ran.out + ran.err


def test_settings_repeat_the_run(scans: tuple[Path, Path], tmp_path: Path) -> None:
    first = duotomo("joint", *scans, *QUICK, "--steps", 3, "--out", tmp_path / "a", "--keep-paths")
    assert first.code == NOT_TRUSTED, first.err
    settings = tmp_path / "a" / "settings.toml"
    again = duotomo("joint", "--settings", settings, "--out", tmp_path / "b")
    assert again.code == NOT_TRUSTED, again.err
    one, two = read_result(tmp_path / "a"), read_result(tmp_path / "b")
    assert torch.equal(one.volume, two.volume)
    assert torch.equal(one.params[0], two.params[0])
    # The command line wins.
    other = duotomo(
        "joint", "--settings", settings, "--transform", "rigid", "--out", tmp_path / "c", "--json"
    )
    assert other.code == NOT_TRUSTED, other.err
    assert read_result(tmp_path / "c").models == ("Rigid",)
    # Without their paths, the inputs have to be named.
    bare = duotomo("joint", *scans, *QUICK, "--steps", 1, "--out", tmp_path / "d")
    assert bare.code == NOT_TRUSTED, bare.err
    lost = duotomo("joint", "--settings", tmp_path / "d" / "settings.toml", "--out", tmp_path / "e")
    assert lost.code == 2
    assert "expected scans, or a study; got none" in lost.err


def test_visits_may_differ_in_geometry_and_thickness(tmp_path: Path) -> None:
    other = arc((24, 30), 3.0, n_views=5, degrees=40.0, source_to_detector_mm=700.0)
    views = tiny_study().reference.projections
    np.save(tmp_path / "one.npy", views.numpy())
    np.save(tmp_path / "two.npy", np.resize(views.numpy(), other.shape))
    (tmp_path / "one.geometry").write_text("not read")
    (tmp_path / "g1.json").write_text(SCAN.to_json())
    (tmp_path / "g2.json").write_text(other.to_json())
    given = ("--geometry", tmp_path / "g1.json", "--geometry", tmp_path / "g2.json", "--thickness", "48,42")
    out = tmp_path / "out"
    options = ("--transform", "translation", "--voxel", "6,6,6", "--steps", 1, "--out", out)
    ran = duotomo("joint", tmp_path / "one.npy", tmp_path / "two.npy", *given, *options)
    assert ran.code == NOT_TRUSTED, ran.err
    saved = read_result(out)
    spacing = (6.0, 6.0, 6.0)
    assert saved.grid == grid_in_view(SCAN, thickness_mm=48.0, spacing_mm=spacing)
    assert saved.grids["visit_2"] == grid_in_view(other, thickness_mm=42.0, spacing_mm=spacing)


def test_counts_become_line_integrals_and_say_so(tmp_path: Path) -> None:
    paths = []
    for number, visit in enumerate(tiny_study().visits, start=1):
        counts = 1e4 * torch.exp(-visit.projections)
        counts[0, 0, 0] = 0.0
        scan = Scan(projections=counts, values=Values.COUNTS, acquisition=SCAN, thickness_mm=THICKNESS_MM)
        paths.append(tmp_path / f"{number}.h5")
        write_scan(paths[-1], scan)
    options = ("--transform", "translation", "--voxel", "6,6,6", "--steps", 1)
    ran = duotomo("joint", *paths, *options, "--out", tmp_path / "a", "--flat-field", 1e4)
    assert ran.code == NOT_TRUSTED, ran.err
    assert "Visit 2: " in ran.err
    visits = json.loads((tmp_path / "a" / "result.json").read_text())["settings"]["visits"]
    assert all(visit["preparation"] for visit in visits)
    missing = duotomo("joint", *paths, *options, "--out", tmp_path / "b")
    assert missing.code == 2
    assert not (tmp_path / "b").exists()


def test_dicom_results_have_the_patient_and_nothing_else_has(
    scans: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reading(*arguments: object, **options: object) -> Scan:
        dataset = pydicom().Dataset()
        dataset.PatientName, dataset.PatientID = "Roe^Mary", "1234"
        scan = read_scan(*arguments, **options)  # type: ignore[arg-type]
        return replace(scan, identity=Identity.of(dataset))

    monkeypatch.setattr("duotomo.io.visits.read_scan", reading)
    options = ("--transform", "translation", "--voxel", "6,6,6", "--steps", 1, "--dicom", "--format", "mha")
    ran = duotomo("joint", *scans, *options, "--out", tmp_path)
    assert ran.code == NOT_TRUSTED, ran.err
    index = json.loads((tmp_path / "result.json").read_text())["files"]
    named = {path.name for path in tmp_path.iterdir() if b"Roe^Mary" in path.read_bytes()}
    assert named == {name for name in index if name.endswith(".dcm")}
    assert {"volume.dcm", "visit_2.dcm", "visit_2_to_reference.dcm"} <= set(index)
    frames = {
        name: str(pydicom().dcmread(tmp_path / f"{name}.dcm").FrameOfReferenceUID)
        for name in ("volume", "visit_1", "visit_2_registered", "visit_2")
    }
    assert len({frames[name] for name in list(frames)[:3]}) == 1
    assert frames["visit_2"] != frames["volume"]
    saved = read_result(tmp_path)
    volume, grid = read_volume(tmp_path / "volume.mha")
    assert torch.equal(volume, saved.volume)
    assert grid == saved.grid


def test_what_runs_again_replaces_what_was_there(scans: tuple[Path, Path], tmp_path: Path) -> None:
    for steps in (1, 2):
        ran = duotomo("joint", *scans, *QUICK, "--voxel", "6,6,6", "--steps", steps, "--out", tmp_path)
        assert ran.code == NOT_TRUSTED, ran.err
    saved = read_result(tmp_path)
    assert "steps = 2" in (tmp_path / "settings.toml").read_text()
    index = json.loads((tmp_path / "result.json").read_text())
    assert index["generation"] == 2
    kept = set(index["files"])
    beside = {"result.json", "settings.toml", "three_views.png", "report.html"}
    assert {path.name for path in tmp_path.iterdir()} == kept | beside
    assert all(
        hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == entry["sha256"]
        for name, entry in index["files"].items()
    )
    assert read_transform(tmp_path / "visit_2_to_reference.tfm", saved.grid)


def test_a_page_that_cannot_be_made_does_not_cost_the_result(
    scans: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(folder: Path) -> str:
        raise DuotomoError("write_page: expected the viewer; got none.")

    monkeypatch.setattr("duotomo.report.page.page_of", failing)
    ran = duotomo("joint", *scans, *QUICK, "--voxel", "6,6,6", "--steps", 1, "--out", tmp_path)
    assert ran.code == NOT_TRUSTED, ran.err
    assert "No page was made: write_page: expected the viewer; got none." in ran.err
    assert read_result(tmp_path).volume.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--voxel", "1,2"), "expected 3 numbers, with commas between them, for --voxel; got '1,2'"),
        (("--voxel", "a,b,c"), "for --voxel; got 'a,b,c'"),
        (("--voxel", "nan,1,1"), "for --voxel; got 'nan,1,1'"),
        (("--voxel", "0,1,1"), "expected"),
        (
            ("--thickness", "50,40,30"),
            "expected --thickness once, or once for each of 2 visits; got it 3 times",
        ),
        (
            ("--machine", "paper", "--machine", "a", "--machine", "b"),
            "expected --machine once, or once for each",
        ),
        (("--thickness", "900"), "expected the top of the breast below the source"),
        (("--pixel-spacing", "1,2,3"), "expected 2 numbers, with commas between them, for --pixel-spacing"),
        (("--angles", "1;2"), "expected numbers, with commas between them, for --angles"),
        (("--plain", "--bending", "1"), "expected --plain alone"),
        (("--transform", "elastic"), "expected --transform as one of translation, rigid, affine, bspline"),
    ],
)
def test_wrong_options_are_explained_and_leave_nothing(
    scans: tuple[Path, Path], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    ran = duotomo("joint", *scans, "--out", tmp_path / "new", *options)
    assert ran.code == 2
    assert message in ran.err
    assert not (tmp_path / "new").exists()


def test_a_missing_thickness_names_the_option(tmp_path: Path) -> None:
    paths = write_scans(tmp_path, thickness_mm=None)
    ran = duotomo("joint", *paths, "--out", tmp_path / "new", "--json")
    assert ran.code == 2
    assert "got none in the file of visit 1. Pass it in mm: --thickness 50" in ran.err
    assert "--thickness" in ran.json["error"]


def test_one_visit_is_not_enough_and_a_study_stands_alone(scans: tuple[Path, Path], tmp_path: Path) -> None:
    ran = duotomo("joint", scans[0], "--out", tmp_path / "new")
    assert ran.code == 2
    assert "expected at least two visits; got one" in ran.err
    write_study(tmp_path / "study.h5", tiny_study())
    ran = duotomo("joint", tmp_path / "study.h5", scans[0], "--out", tmp_path / "new")
    assert ran.code == 2
    assert "expected scans, or one study alone; got 2 files" in ran.err
    ran = duotomo(
        "joint", tmp_path / "study.h5", "--out", tmp_path / "new", "--thickness", "40", "--keep-dead"
    )
    assert ran.code == 2
    assert "got --keep-dead, --thickness too" in ran.err
    assert not (tmp_path / "new").exists()


def test_voxels_are_pixels_unless_given(scans: tuple[Path, Path], tmp_path: Path) -> None:
    ran = duotomo("joint", *scans, "--transform", "translation", "--steps", 1, "--out", tmp_path)
    assert ran.code == NOT_TRUSTED, ran.err
    assert read_result(tmp_path).grid.spacing_mm == (3.0, 3.0, 3.0)
    assert "--gap says how far above" in ran.err
    assert GRID.spacing_mm == (3.0, 3.0, 3.0)
