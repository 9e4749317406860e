"""What is finished stays finished, whatever ends a run; what does not belong there is refused."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duotomo.errors import DuotomoError
from duotomo.io import FileError, durable, read_result, read_study
from duotomo.io.durable import locked
from duotomo.io.run_fingerprint import version_1_repr
from duotomo.methods import Checkpoint, settings_to_dict
from duotomo.methods.state import State
from duotomo.reproduction import ComparedMethod, DataLevel, Plan, reproduce
from duotomo.reproduction.case import Case
from duotomo.reproduction.experiment import SetUp
from duotomo.reproduction.runner import case_folder, folder_of
from duotomo.solvers import Status, Step
from tests.reproduction.tiny import GRID, SETTINGS, Counted

PLAN = Plan(level=DataLevel.HONEST)
ALL = [("sequential", 1), ("simultaneous", 1), ("sequential", 2), ("simultaneous", 2)]
STATE = State(
    stage=1,
    block=0,
    volumes={},
    coarsen=(1, 1, 1),
    model="affine",
    params=(),
    status=Status.STEP_LIMIT,
    reason="More to come.",
    applications=3,
    seconds=0.1,
    history=(),
)


class Noted:
    """A progress that writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def begin(self, set_up: SetUp, cases: tuple[int, ...]) -> None:
        self.events.append(f"begin {cases}")

    def making(self, number: int) -> None:
        self.events.append(f"making {number}")

    def start(self, number: int, method: ComparedMethod, case: Case | None) -> None:
        self.events.append(f"{'start' if case else 'skip'} {number} {method.name}")

    def step(self, step: Step) -> None:
        self.events.append("step")

    def end(self, row: dict[str, Any]) -> None:
        self.events.append(f"end {row['case']} {row['method']}")


def run(
    counted: Counted,
    folder: Path,
    *,
    cases: Iterable[int] | None = None,
    methods: Iterable[str] | None = None,
    plan: Plan = PLAN,
) -> tuple[dict[str, Any], list[str]]:
    noted = Noted()
    table = reproduce(counted.experiment, plan, folder, progress=noted, cases=cases, methods=methods)
    return table, noted.events


def test_every_way_on_every_case_becomes_a_row(tmp_path: Path) -> None:
    counted = Counted()
    table, events = run(counted, tmp_path)
    assert counted.calls == ALL
    assert counted.made == [1, 2]
    assert events[:6] == [
        "begin (1, 2)",
        "making 1",
        "start 1 sequential",
        "step",
        "end 1 sequential",
        "start 1 simultaneous",
    ]
    assert json.loads((tmp_path / "table.json").read_text(encoding="utf-8")) == json.loads(json.dumps(table))
    assert [(row["method"], row["case"]) for row in table["rows"]] == ALL
    for row in table["rows"]:
        assert row["start_tre_mm"] == pytest.approx(5.0 * row["case"])
        assert row["tre_mm"] == pytest.approx(row["start_tre_mm"] if row["method"] == "sequential" else 0.0)
        assert "key" not in row
        assert (row["status"], row["reason"]) == ("converged", "It was told.")
        assert (row["applications"], row["seconds"]) == (7, 0.5)
        assert row["about"] == {"number": row["case"]}


def test_the_table_says_what_was_compared(tmp_path: Path) -> None:
    table, _ = run(Counted(), tmp_path)
    assert {name: table[name] for name in ("experiment", "title", "level", "quick", "device")} == {
        "experiment": "tiny",
        "title": "A tiny ring",
        "level": "honest",
        "quick": False,
        "device": "cpu",
    }
    assert table["about"] == {"grid": repr(GRID)}
    assert table["paper"]["ratio"] == 31.0
    assert (table["shown"], table["n_cases"]) == (1, 2)
    assert {"duotomo", "torch"} <= set(table["versions"])
    names = ("name", "label", "family", "origin", "settings")
    assert [tuple(method[name] for name in names) for method in table["methods"]] == [
        (name, name, name, "ours", settings_to_dict(SETTINGS)) for name in ("sequential", "simultaneous")
    ]


def test_the_shown_case_is_kept_whole_and_others_only_as_rows(tmp_path: Path) -> None:
    run(Counted(), tmp_path)
    rows = {"sequential.json", "simultaneous.json"}
    kept = {"truth.nii.gz", "moved.nii.gz", "truth.tfm", "study.h5", "sequential", "simultaneous"}
    assert set(os.listdir(case_folder(tmp_path, 1))) == rows | kept
    assert set(os.listdir(case_folder(tmp_path, 2))) == rows
    assert read_study(case_folder(tmp_path, 1) / "study.h5").grid == GRID
    saved = read_result(case_folder(tmp_path, 1) / "simultaneous")
    assert saved.settings == settings_to_dict(SETTINGS)


def test_what_is_finished_is_not_computed_again(tmp_path: Path) -> None:
    first, _ = run(Counted(), tmp_path)
    again = Counted()
    second, events = run(again, tmp_path)
    assert (again.made, again.calls) == ([], [])
    assert second == first
    assert [event for event in events if event.startswith(("making", "start", "step"))] == []
    assert "skip 2 simultaneous" in events
    assert events.count("end 1 sequential") == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, DuotomoError("The solver gave up.")])
def test_a_run_that_ends_in_the_middle_is_gone_on_with(
    error: type[BaseException] | BaseException, tmp_path: Path
) -> None:
    def stop(case: Case, checkpoint: Checkpoint | None) -> None:
        assert checkpoint is not None
        checkpoint.save(STATE)
        raise error

    stopped = Counted(hooks={"simultaneous": stop})
    with pytest.raises((KeyboardInterrupt, DuotomoError)):
        run(stopped, tmp_path)
    home = case_folder(tmp_path, 1)
    assert (home / "sequential.json").exists()
    assert (home / "simultaneous.checkpoint.h5").exists()
    assert not (home / "simultaneous.json").exists()
    assert not (tmp_path / "table.json").exists()

    found: list[State | None] = []
    goes_on = Counted(hooks={"simultaneous": lambda _, checkpoint: found.append(_loaded(checkpoint))})
    table, _ = run(goes_on, tmp_path)
    assert goes_on.calls == ALL[1:]
    assert [state.reason if state else None for state in found] == ["More to come.", None]
    assert not (home / "simultaneous.checkpoint.h5").exists()
    assert len(table["rows"]) == 4


def _loaded(checkpoint: Checkpoint | None) -> State | None:
    assert checkpoint is not None
    return checkpoint.load()


def test_the_work_can_be_shared_and_the_table_comes_at_the_end(tmp_path: Path) -> None:
    one, other, last = Counted(), Counted(), Counted()
    table, _ = run(one, tmp_path, cases=[2])
    assert (one.made, len(table["rows"])) == ([2], 2)
    table, _ = run(other, tmp_path, methods=["simultaneous"])
    assert other.calls == ALL[1:2]
    assert len(table["rows"]) == 3
    assert not (tmp_path / "table.json").exists()
    table, _ = run(last, tmp_path)
    assert last.calls == ALL[:1]
    assert len(table["rows"]) == 4
    assert (tmp_path / "table.json").exists()


def test_cases_and_ways_that_are_not_there_are_refused(tmp_path: Path) -> None:
    for number in (0, 3):
        with pytest.raises(DuotomoError, match=f"tiny: expected `cases` from 1 to 2; got {number}"):
            run(Counted(), tmp_path, cases=[number])
    message = "tiny: expected `methods` among sequential, simultaneous; got 'best'"
    with pytest.raises(DuotomoError, match=message):
        run(Counted(), tmp_path, methods=["best"])
    assert os.listdir(tmp_path) == []


def test_rows_of_other_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(Counted(), tmp_path)
    monkeypatch.setattr("tests.reproduction.tiny.SETTINGS", replace(SETTINGS, tolerance=0.5))
    other = Counted()
    message = r"expected .*case_01.sequential\.json to come from the same settings and device; got another"
    with pytest.raises(DuotomoError, match=message):
        run(other, tmp_path)
    assert other.calls == []


def test_rows_of_version_1_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Version 1 had voxels as the basis, counted edges like other rays, and took exposures as known.
    old = replace(SETTINGS, basis="voxel", priors=replace(SETTINGS.priors, edges=0.0, offset=0.0))
    monkeypatch.setattr("tests.reproduction.tiny.SETTINGS", old)
    first, _ = run(Counted(), tmp_path)
    for path in tmp_path.glob("case_*/*.json"):
        row = json.loads(path.read_text(encoding="utf-8"))
        row["way"], row["key"] = row.pop("method"), f"cpu {version_1_repr(old)}"
        path.write_text(json.dumps(row), encoding="utf-8")
    again = Counted()
    table, _ = run(again, tmp_path)
    assert again.calls == []
    assert table == json.loads(json.dumps(first))


def test_rows_of_another_device_are_refused(tmp_path: Path) -> None:
    run(Counted(), tmp_path)
    with pytest.raises(DuotomoError, match=r"expected .* the same settings and device; got another run's"):
        run(Counted(), tmp_path, plan=replace(PLAN, device="cuda"))


def test_a_torn_row_is_refused_not_taken(tmp_path: Path) -> None:
    run(Counted(), tmp_path)
    torn = case_folder(tmp_path, 2) / "sequential.json"
    torn.write_bytes(torn.read_bytes()[:40])
    with pytest.raises(DuotomoError, match=r"expected a finished row in .*case_02.sequential\.json; got"):
        run(Counted(), tmp_path)
    torn.unlink()
    again = Counted()
    run(again, tmp_path)
    assert again.calls == ALL[2:3]


def test_two_runs_do_not_share_a_case(tmp_path: Path) -> None:
    case_folder(tmp_path, 1).mkdir()
    kept_out = Counted()
    with (
        locked("another", case_folder(tmp_path, 1)),
        pytest.raises(FileError, match=r"expected .*case_01 for this run alone; got another run"),
    ):
        run(kept_out, tmp_path)
    assert kept_out.calls == []
    beside = Counted()
    with locked("another", case_folder(tmp_path, 1)):
        run(beside, tmp_path, cases=[2])
    assert beside.made == [2]


@pytest.mark.parametrize("full_at", ["simultaneous.json", "result.json", "truth.nii.gz", "table.json"])
def test_a_full_disk_leaves_what_was_finished(
    full_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = durable.sync

    def full(path: Path) -> None:
        # The second result that is written: the first one had room.
        done = (case_folder(tmp_path, 1) / "sequential.json").exists()
        if path.name.endswith(full_at) and (done or full_at != "result.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(path)

    counted = Counted(n_cases=1)
    with monkeypatch.context() as patch:
        patch.setattr(durable, "sync", full)
        with pytest.raises(FileError, match=rf"expected to write .*{full_at}; got: .*No space left"):
            run(counted, tmp_path)
    left = sorted(path.name for path in tmp_path.rglob("*.json"))
    assert ("sequential.json" in left) == (full_at != "truth.nii.gz")
    assert ("simultaneous.json" in left) == (full_at == "table.json")
    assert not (tmp_path / "table.json").exists()
    assert [path for path in tmp_path.rglob("*") if "unfinished" in path.name] == []
    again = Counted(n_cases=1)
    table, _ = run(again, tmp_path)
    assert len(again.calls) == 2 - sum(name in left for name in ("sequential.json", "simultaneous.json"))
    assert len(table["rows"]) == 2


def test_levels_and_sizes_have_folders_of_their_own(tmp_path: Path) -> None:
    experiment = Counted().experiment
    folders = [
        folder_of(tmp_path, experiment, Plan(level=level, quick=quick))
        for level in DataLevel
        for quick in (False, True)
    ]
    assert len(set(folders)) == 6
    assert folders[3] == tmp_path / "tiny" / "honest-quick"


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("A letter.", encoding="utf-8")
    with pytest.raises(FileError, match=r"expected to make the folder .*case_01; got: .*another place"):
        run(Counted(), tmp_path / "taken")
