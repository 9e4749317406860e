"""Two patients, sides or views, and one scan twice, are refused; where that is allowed, results say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pydicom
import pytest

from tests.cli.commands import NOT_TRUSTED, Ran, duotomo, write_scans
from tests.cli.patients import SECRETS, write_visits, write_volumes

QUICK = ("--transform", "translation", "--steps", 1, "--quiet")
COMMANDS = {"joint": (write_visits, (*QUICK, "--voxel", "6,6,6")), "register": (write_volumes, QUICK)}

PATIENTS, SIDES, VIEWS = "different-patients", "different-sides", "different-views"
DIFFERENCES: list[tuple[dict[str, str], str, str]] = [
    ({"PatientID": "PID-4712"}, PATIENTS, "Patient ID (0010,0020)"),
    ({"IssuerOfPatientID": "South Hospital"}, PATIENTS, "Issuer of Patient ID (0010,0021)"),
    ({"PatientName": "Doe^Jane"}, PATIENTS, "Patient's Name (0010,0010)"),
    ({"PatientBirthDate": "19610204"}, PATIENTS, "Patient's Birth Date (0010,0030)"),
    ({"PatientSex": "M"}, PATIENTS, "Patient's Sex (0010,0040)"),
    ({"laterality": "R"}, SIDES, "Image Laterality (0020,0062)"),
    ({"view": "MLO"}, VIEWS, "View Code Sequence (0054,0220)"),
]


def run(command: str, folder: Path, changes: dict[str, str], *options: object) -> Ran:
    write, quick = COMMANDS[command]
    return duotomo(command, *write(folder, **changes), *quick, "--dicom", *options, "--out", folder / "out")


def settings(folder: Path) -> Any:
    return json.loads((folder / "out" / "result.json").read_text())["settings"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("changes", "what", "attribute"), DIFFERENCES, ids=lambda value: str(value)[:20])
def test_a_difference_is_refused_by_its_name(
    command: str, changes: dict[str, str], what: str, attribute: str, tmp_path: Path
) -> None:
    ran = run(command, tmp_path, changes)
    assert ran.code == 2
    assert f"visit 1 and visit 2 differ in {attribute}. Check the files" in ran.err
    assert f"pass --allow-{what}." in ran.err
    assert not any(secret in ran.err for secret in (*SECRETS, *changes.values()) if len(secret) > 3)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", [0, 5, 6])
def test_what_is_allowed_stands_in_every_result(command: str, number: int, tmp_path: Path) -> None:
    changes, what, attribute = DIFFERENCES[number]
    ran = run(command, tmp_path, changes, f"--allow-{what}")
    assert ran.code in (0, NOT_TRUSTED), ran.err
    assert f"Warning: visit 1 and visit 2 differ in {attribute}." in ran.err
    said_everywhere(tmp_path, what.replace("-", " "), attribute)
    # Permissions are of these inputs: whoever repeats the run has to give them again.
    assert "allow" not in (tmp_path / "out" / "settings.toml").read_text()


def said_everywhere(folder: Path, what: str, attribute: str) -> None:
    (conflict,) = settings(folder)["agreement"]["conflicts"]
    assert conflict["what"] == what
    files = list((folder / "out").glob("*.dcm"))
    assert len(files) >= 3
    for dataset in map(pydicom.dcmread, files):
        assert dataset.SeriesDescription.startswith(f"{what.upper()}: duotomo")
        shown = dataset.get("ImageComments") or dataset.ContentDescription
        assert shown.startswith(what.upper())
    page = (folder / "out" / "report.html").read_text()
    alarm = page.split('<p class="alarm">')[1].split("</p>")[0]
    assert what.upper() in alarm
    assert attribute.replace("'", "&#x27;") in alarm
    assert "#text .alarm{color:#8c0000" in page.replace(": ", ":").replace(" {", "{").replace("{ ", "{")


@pytest.mark.parametrize("command", COMMANDS)
def test_one_scan_twice_is_refused_unless_allowed(command: str, tmp_path: Path) -> None:
    write, quick = COMMANDS[command]
    one, _ = write(tmp_path)
    words = (command, one, one, *quick, "--dicom", "--out", tmp_path / "out")
    ran = duotomo(*words)
    assert ran.code == 2
    assert "have the same SOP Instance UID (0008,0018), Pixel Data (7FE0,0010)" in ran.err
    assert not (tmp_path / "out").exists()
    ran = duotomo(*words, "--allow-same-scan")
    assert ran.code in (0, NOT_TRUSTED), ran.err
    said_everywhere(tmp_path, "the same scan twice", "Pixel Data")


def test_a_copy_in_another_format_is_the_same_scan(tmp_path: Path) -> None:
    one, _ = write_scans(tmp_path)
    copy = tmp_path / "copy.npy"
    assert duotomo("convert", one, copy).code == 0
    ran = duotomo("joint", one, copy, "--thickness", 48, *QUICK, "--out", tmp_path / "out")
    assert ran.code == 2
    assert "got the same scan twice: visit 1 and visit 2 have the same Pixel Data (7FE0,0010)" in ran.err
    assert "--allow-same-scan" in ran.err


def test_what_one_file_does_not_say_is_no_difference_but_is_said(tmp_path: Path) -> None:
    ran = run("joint", tmp_path, {"PatientID": "", "PatientName": "roe^mary^", "PatientSex": ""})
    assert ran.code == NOT_TRUSTED, ran.err
    agreement = settings(tmp_path)["agreement"]
    assert agreement["conflicts"] == []
    assert agreement["not_compared"] == ["PatientID", "PatientSex"]
    assert {"PatientName", "ImageLaterality", "ViewCodeSequence", "PixelData"} < set(agreement["compared"])
    assert 'class="alarm"' not in (tmp_path / "out" / "report.html").read_text()
    assert all("DIFFERENT" not in str(pydicom.dcmread(path)) for path in (tmp_path / "out").glob("*.dcm"))


def test_nothing_is_known_of_scans_of_other_formats(tmp_path: Path) -> None:
    ran = duotomo("joint", *write_scans(tmp_path), *QUICK, "--voxel", "6,6,6", "--out", tmp_path / "out")
    assert ran.code == NOT_TRUSTED, ran.err
    agreement = settings(tmp_path)["agreement"]
    assert agreement["compared"] == ["PixelData"]
    assert "PatientID" in agreement["not_compared"]


def test_a_volume_is_not_given_to_another_patient_unasked(tmp_path: Path) -> None:
    one, other = write_volumes(tmp_path, PatientID="PID-4712")
    out = tmp_path / "out.dcm"
    ran = duotomo("convert", one, out, "--patient-from", other)
    assert ran.code == 2
    assert "--patient-from and the input differ in Patient ID (0010,0020)" in ran.err
    assert not out.exists()
    assert duotomo("convert", one, out, "--patient-from", other, "--allow-different-patients").code == 0
    assert pydicom.dcmread(out).SeriesDescription == "DIFFERENT PATIENTS: duotomo"
    assert duotomo("convert", one, out, "--patient-from", one).code == 0
    assert pydicom.dcmread(out).SeriesDescription == "duotomo"


def test_a_remark_follows_a_result_into_other_files(tmp_path: Path) -> None:
    assert run("register", tmp_path, {"laterality": "R"}, "--allow-different-sides").code in (0, NOT_TRUSTED)
    for number, words in enumerate(
        [("out",), ("out", "--what", "visit_2_to_reference"), ("out/volume.dcm",)]
    ):
        copy = tmp_path / f"{number}.dcm"
        ran = duotomo("convert", tmp_path / words[0], copy, *words[1:], "--deidentify")
        assert ran.code == 0, ran.err
        assert pydicom.dcmread(copy).SeriesDescription == "DIFFERENT SIDES: duotomo"


def test_paths_are_kept_in_the_settings_file_alone(tmp_path: Path) -> None:
    paths = write_visits(tmp_path)
    words = ("joint", *paths, *QUICK, "--voxel", "6,6,6", "--keep-paths", "--out", tmp_path / "out")
    assert duotomo(*words).code == NOT_TRUSTED
    named = [path.name for path in (tmp_path / "out").iterdir() if b"Roe_Mary" in path.read_bytes()]
    assert named == ["settings.toml"]
