"""With --deidentify no byte that is written names the patient, and DICOM files say what was done."""

from __future__ import annotations

import gzip
from pathlib import Path

import pydicom
import pytest

from tests.cli.commands import NOT_TRUSTED, duotomo
from tests.cli.patients import SECRETS, write_visits, write_volumes

QUICK = ("--transform", "translation", "--steps", 1, "--dicom", "--deidentify")
VOXEL = ("--voxel", "6,6,6")


def written(folder: Path) -> dict[str, bytes]:
    """Return by name every file, unpacked where it is packed."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in files.items()}


def names_nobody(folder: Path, inputs: list[Path]) -> None:
    uids = [str(element.value) for path in inputs for element in pydicom.dcmread(path) if element.VR == "UI"]
    # UIDs of classes are everybody's, and a few digits are in any array.
    known = {uid for uid in uids if uid.startswith("2.25.")}
    files = written(folder)
    assert any(name.endswith(".dcm") for name in files)
    for name, data in files.items():
        assert not any(secret in name for secret in SECRETS)
        found = [secret for secret in {*SECRETS, *known} - {"4711", "101112"} if secret.encode() in data]
        assert not found, (name, found)
        assert b"PID-4711" not in data
        assert b"826.0.1.4711" not in data


def test_no_file_of_a_result_names_the_patient(tmp_path: Path) -> None:
    paths = write_visits(tmp_path)
    ran = duotomo("joint", *paths, *QUICK, *VOXEL, "--format", "mha", "--out", tmp_path / "out")
    assert ran.code == NOT_TRUSTED, ran.err
    assert not any(secret in ran.out + ran.err for secret in SECRETS if secret not in ("Roe", "Mary"))
    names_nobody(tmp_path / "out", paths)
    # The same patient in both visits, by one pseudonym.
    datasets = [pydicom.dcmread(path) for path in (tmp_path / "out").glob("*.dcm")]
    assert len({dataset.PatientID for dataset in datasets}) == 1
    assert len({dataset.StudyInstanceUID for dataset in datasets}) == 1
    assert len({dataset.FrameOfReferenceUID for dataset in datasets}) == 2
    assert {dataset.PatientIdentityRemoved for dataset in datasets} == {"YES"}


@pytest.mark.parametrize("command", ["reconstruct", "register"])
def test_the_other_commands_do_so_too(command: str, tmp_path: Path) -> None:
    paths = write_visits(tmp_path)[:1] if command == "reconstruct" else write_volumes(tmp_path)
    options = ("--method", "bp", *QUICK[-2:], *VOXEL) if command == "reconstruct" else QUICK
    ran = duotomo(command, *paths, *options, "--out", tmp_path / "out")
    assert ran.code in (0, NOT_TRUSTED), ran.err
    names_nobody(tmp_path / "out", paths)


@pytest.mark.parametrize("name", ["out.dcm", "views"])
def test_a_converted_scan_names_nobody(name: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    paths = write_visits(tmp_path)[:1]
    assert duotomo("convert", paths[0], tmp_path / "out" / name).code == 0
    with pytest.raises(AssertionError):
        names_nobody(tmp_path / "out", paths)
    ran = duotomo("convert", paths[0], tmp_path / "out" / name, "--deidentify")
    assert ran.code == 0, ran.err
    names_nobody(tmp_path / "out", paths)


def test_a_key_repeats_the_pseudonyms_and_nothing_else_does(tmp_path: Path) -> None:
    one, two = write_volumes(tmp_path)
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    found = []
    for number, options in enumerate([(), (), ("--deidentify-key", key), ("--deidentify-key", key)]):
        out = tmp_path / f"{number}.dcm"
        assert duotomo("convert", one, out, "--deidentify", *options).code == 0
        dataset = pydicom.dcmread(out)
        assert str(dataset.PatientName) == f"{dataset.PatientID}^"
        found.append([dataset.PatientID, dataset.StudyInstanceUID, dataset.FrameOfReferenceUID])
    assert found[2] == found[3]
    assert all(len({row[i] for row in found[:3]}) == 3 for i in range(3))
    # Two visits of one patient in one study.
    assert duotomo("convert", two, tmp_path / "other.dcm", "--deidentify", "--deidentify-key", key).code == 0
    other = pydicom.dcmread(tmp_path / "other.dcm")
    assert [other.PatientID, other.StudyInstanceUID] == found[3][:2]
    assert other.FrameOfReferenceUID != found[3][2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--deidentify", "--keep-paths"), "expected --deidentify or --keep-paths; got both"),
        (("--deidentify-key", "key"), "expected --deidentify-key only with --deidentify"),
        (("--deidentify", "--deidentify-key", "none"), "Pseudonyms: expected a key in the file none; got"),
        (("--deidentify", "--deidentify-key", "key"), "expected a key of 16 to 4096 bytes; got 5"),
    ],
)
def test_wrong_options_are_explained(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key").write_bytes(b"short")
    ran = duotomo("joint", *write_visits(tmp_path), *options, "--out", tmp_path / "out")
    assert ran.code == 2
    assert message in ran.err
    assert not (tmp_path / "out").exists()
