"""A cohort on a real Dask cluster: two of five cases are broken, and a worker is killed on the way."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from benchmarks.cohort_faults import below, of_dask, same
from benchmarks.cohort_studies import small_study, write_cohort
from duotomo.cohort import (
    Case,
    Resources,
    Row,
    SchedulerLostError,
    cohort,
    find_cases,
    read_manifest,
    read_table,
    survey,
)
from duotomo.cohort.dask_client import check_versions, connected
from duotomo.cohort.folder import INDEX, read_state
from duotomo.errors import DuotomoError
from duotomo.io import FileError, read_result, write_study
from duotomo.io.dicom.deidentification import Pseudonyms
from duotomo.io.durable import held
from tests.cli.commands import duotomo
from tests.cli.patients import SECRETS, write_visits

OPTIONS = {"transform": "translation", "uncertainty": "false"}
BROKEN = ("case-00", "case-02")
SOME_FAILED = 4


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five studies: one is missing, one cut short, and an option of the last is no number."""
    return write_cohort(tmp_path_factory.mktemp("studies"), 5, broken=True, options=OPTIONS)


@pytest.fixture(scope="module")
def finished(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the command, kill a worker once it computes, and return the folder and what was said."""
    out = tmp_path_factory.mktemp("cohort") / "out"
    words = ["cohort", str(manifest), "--out", str(out), "--workers", "2", "--threads", "1"]
    command = subprocess.Popen(
        [sys.executable, "-m", "duotomo", *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    while command.poll() is None and not list(out.glob("cases/*/checkpoint.h5")):
        time.sleep(0.02)
    workers = of_dask("worker", [command.pid])
    if workers:
        os.kill(workers[0], signal.SIGKILL)
    said, progress = command.communicate(timeout=400)
    assert command.returncode == SOME_FAILED, progress
    assert len(workers) == 2
    assert below(command.pid) == []
    return out, said + progress


def rows_of(out: Path) -> dict[str, Row]:
    return {row.case: row for row in read_table(out)}


def test_results_are_those_of_single_runs_though_a_worker_was_killed(
    finished: tuple[Path, str], manifest: Path, tmp_path: Path
) -> None:
    out, _ = finished
    rows = rows_of(out)
    assert [rows[name].status for name in ("case-01", "case-03")] == ["done", "done"]
    words = ("--transform", "translation", "--no-uncertainty", "--threads", "1")
    for name in ("case-01", "case-03"):
        study = manifest.parent / f"study_{name[-2:]}.h5"
        assert duotomo("joint", study, "--out", tmp_path / name, *words).code == 0
        assert same(read_result(out / "cases" / name), read_result(tmp_path / name))


def test_what_is_broken_is_said_by_row_and_column(finished: tuple[Path, str]) -> None:
    out, said = finished
    rows = rows_of(out)
    assert rows["case-00"].reason.startswith("row 2, column current: expected a scan there; got nothing")
    assert "row 4: read_scan: (current): expected the file as it was written" in rows["case-02"].reason
    assert rows["case-04"].reason.startswith("row 6, column steps: Invalid value for '--steps'")
    assert "5 cases: 3 failed, 2 done" in said
    assert "Failed: case-04: row 6, column steps" in said
    assert str(out) not in "".join(row.reason for row in rows.values())


def test_rows_stand_in_csv_and_parquet(finished: tuple[Path, str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out, _ = finished
    with (out / "cohort.csv").open(encoding="utf-8", newline="") as file:
        read = {row["case"]: row for row in csv.DictReader(file)}
    packed = {row["case"]: row for row in parquet.read_table(out / "cohort.parquet").to_pylist()}
    for name, row in rows_of(out).items():
        assert packed[name]["mean_displacement_mm"] == row.mean_displacement_mm
        assert read[name]["status"] == packed[name]["status"] == row.status
        assert (row.seconds is None) == (read[name]["seconds"] == "")


def test_a_second_call_does_only_what_is_missing(finished: tuple[Path, str], manifest: Path) -> None:
    out, _ = finished
    before = {path: path.stat().st_mtime_ns for path in out.glob("cases/*/*")}
    ran = duotomo("cohort", manifest, "--out", out, "--json")
    assert ran.code == SOME_FAILED
    assert ran.json["counts"] == {"failed": 3, "done": 2}
    assert {path: path.stat().st_mtime_ns for path in out.glob("cases/*/*")} == before
    dry = duotomo("cohort", manifest, "--out", out, "--dry-run", "--json").json
    assert dry["finished"] == ["case-01", "case-03"]
    assert all(one["problem"] for one in dry["cases"])


def test_an_option_that_is_none_stops_all_before_anything_starts(finished: tuple[Path, str]) -> None:
    out, _ = finished
    before = (out / INDEX).read_bytes()
    path = out.parent / "wrong.csv"
    path.write_text("case,current,thicknes\na,x.h5,50\n")
    ran = duotomo("cohort", path, "--out", out.parent / "other")
    assert ran.code == 2
    assert "row 2, column thicknes: expected case, current, prior" in ran.err
    assert (out / INDEX).read_bytes() == before


def test_two_at_once_on_one_folder_are_refused(finished: tuple[Path, str], manifest: Path) -> None:
    out, _ = finished
    with held("test", out):
        ran = duotomo("cohort", manifest, "--out", out)
    assert ran.code == 2
    assert "got another run that writes there" in ran.err


def test_a_result_that_was_damaged_is_a_row_that_says_so(finished: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = finished
    kept = (out / "cases" / "case-01" / "result.json").read_bytes()
    try:
        (out / "cases" / "case-01" / "result.json").write_bytes(kept[:-100])
        assert rows_of(out)["case-01"].status == "failed"
        assert "expected its result as it was written" in rows_of(out)["case-01"].reason
    finally:
        (out / "cases" / "case-01" / "result.json").write_bytes(kept)
    with pytest.raises(FileError, match=f"expected a cohort in .*; got no {INDEX} there"):
        read_table(tmp_path)
    (tmp_path / INDEX).write_bytes((out / INDEX).read_bytes()[:-9])
    with pytest.raises(FileError, match=r"expected .* as it was written; got: "):
        read_table(tmp_path)


def test_a_disk_that_is_full_loses_no_result(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [case for case in read_manifest(manifest) if case.name in BROKEN]
    replace_file = os.replace

    def full(source: object, target: object) -> None:
        if "states" in str(target):
            raise OSError(28, "No space left on device")
        replace_file(source, target)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(FileError, match=r"No space left on device.*run the same command again"):
            cohort(cases, tmp_path / "out")
    assert read_state(tmp_path / "out", "case-00") is None
    assert [row.status for row in cohort(cases, tmp_path / "out")] == ["failed", "failed"]


def test_two_women_in_one_case_are_refused_before_anything_starts(tmp_path: Path) -> None:
    one, two = write_visits(tmp_path, PatientID="another")
    case = Case(name="a", visits=(one, two), options={"thickness": 48}, where="row 2")
    (planned,) = survey([case], tmp_path / "out").planned
    assert planned.problem.startswith("row 2: read_visits: expected visits of one breast")
    assert "different patients" in planned.problem
    assert not any(secret in planned.problem for secret in SECRETS)


def test_names_are_of_one_case_each(tmp_path: Path) -> None:
    cases = [Case(name="a", visits=(tmp_path,)), Case(name="A", visits=(tmp_path,))]
    with pytest.raises(DuotomoError, match="expected a name of its own for each case; got a twice"):
        cohort(cases, tmp_path / "out")


def test_pairs_are_found_by_patient_side_and_view(tmp_path: Path) -> None:
    scans = tmp_path / "scans"
    for name, changes in {
        "a": {"StudyDate": "20230101", "StudyInstanceUID": "1.2.3.4"},
        "b": {"laterality": "R", "StudyInstanceUID": "1.2.3.5"},
    }.items():
        (scans / name).mkdir(parents=True)
        write_visits(scans / name, **changes)
    (scans / "notes.txt").write_text("no scan")
    # Each folder's first scan is of one woman's left breast: those are the same study, and not paired.
    (scans / "b" / "Roe_Mary_1.dcm").unlink()
    key = Pseudonyms(bytes(range(32)))
    found = find_cases(scans, key)
    (case,) = found.cases
    assert case.name.endswith("-L-CC")
    assert [path.name for path in case.visits] == ["Roe_Mary_1.dcm", "Roe_Mary_2.dcm"]
    assert [reason.partition(": ")[2] for reason in found.left_out] == ["one scan, and none before it"]
    assert find_cases(scans, key) == found
    assert not any(secret in f"{case.name}{found.left_out}" for secret in SECRETS)
    with pytest.raises(FileError, match="expected two DICOM scans of one patient, side and view"):
        find_cases(scans / "b", key)
    with pytest.raises(FileError, match="expected a folder at"):
        find_cases(scans / "none", key)


@contextmanager
def dask(*words: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Give a scheduler or a worker, started as a person would."""
    with (folder / "dask.txt").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1", "--no-dashboard"],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def address_in(path: Path) -> str:
    """Return the address that a scheduler has written, once it has."""
    end = time.monotonic() + 100
    while time.monotonic() < end:
        with suppress(OSError, ValueError):
            return str(json.loads(path.read_text())["address"])
        time.sleep(0.05)
    raise AssertionError(path)


def test_nobody_at_an_address_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with (
            pytest.raises(DuotomoError, match=f"expected a Dask scheduler .* at {address}; got: "),
            connected(address, wait_s=1.0),
        ):
            pass


def test_a_scheduler_that_is_there_is_checked_and_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study(tmp_path / "study.h5", small_study(0))
    case = Case(name="a", visits=(tmp_path / "study.h5",), options=OPTIONS)
    said, out = tmp_path / "scheduler.json", tmp_path / "out"
    with dask("scheduler", "--port", "0", "--scheduler-file", str(said), folder=tmp_path) as process:
        address = address_in(said)
        with (
            connected(address) as client,
            pytest.raises(DuotomoError, match=r"expected workers of the Dask scheduler at .*; got none"),
        ):
            check_versions(client, wait_s=0.1)
        with dask("worker", address, "--no-nanny", "--nthreads", "1", folder=tmp_path):
            with connected(address) as client:
                check_versions(client)
                with monkeypatch.context() as patch:
                    patch.setattr("duotomo.__version__", "0.0.0")
                    with pytest.raises(DuotomoError, match=r"got duotomo .* on tcp://.*, 0\.0\.0 here"):
                        check_versions(client)

            def on_standing(_: object) -> None:
                if (out / "logs" / "a.txt").exists():
                    process.kill()

            with pytest.raises(SchedulerLostError, match="expected the Dask scheduler to"):
                cohort([case], out, resources=Resources(scheduler=address), on_standing=on_standing)
    assert read_table(out)[0].status in ("waiting", "unfinished")


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DuotomoError, match=r"Install it: pip install 'duotomo\[cluster\]'"):
        cohort([Case(name="a", visits=(tmp_path,))], tmp_path / "out")
