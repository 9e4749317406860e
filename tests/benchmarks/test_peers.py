"""Programs beside each other: every row is there, one that fails says why, geometries are the same."""

from __future__ import annotations

import json
import sys
from math import inf, nan
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import projector, warp
from benchmarks.cases import CASES, grid, sweep
from benchmarks.contest import Entrant, Run, Task, contest
from benchmarks.peers import __main__ as peers
from benchmarks.peers import astra, leap
from benchmarks.peers.available import Available, everywhere
from benchmarks.rows import Row, print_header, print_rows, ratio_to_duotomo
from benchmarks.timing import time_in_turns
from duotomo.geometry import Acquisition, VolumeGrid, voxel_to_world, world_to_pixel

X, Y = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).unbind()
TASK = Task(name="tiny", x=X, y=Y, judged=(X, Y), expected={"forward": 2 * X.double()})


class Fake:
    """Doubles, as the task wants, unless told otherwise."""

    def __init__(self, forward: float = 2.0, adjoint: float = 2.0) -> None:
        self._forward, self._adjoint = forward, adjoint

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        return {
            "forward": Run(call=lambda: self._forward * x),
            "adjoint": Run(call=lambda: self._adjoint * y),
        }


class Broken:
    """Cannot be made, as a program for other voxels."""

    def __init__(self, *arguments: object) -> None:
        raise ValueError("wants cubic voxels;\n  got slabs")


class NoAdjoint(Fake):
    """Fails in one operation."""

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        return {**super().runs(x, y), "adjoint": Run(call=lambda: 1 / 0)}


def rows_of(task: Task, **programs: Any) -> dict[tuple[str, str], Row]:
    rows = contest(task, programs, device="cpu", repeats=2)
    return {(row.program, row.operation): row for row in rows}


def test_errors_and_gaps_are_those_of_the_definition() -> None:
    rows = rows_of(TASK, duotomo=Fake, other=lambda: Fake(forward=2.2, adjoint=2.0))
    assert rows["duotomo", "forward"].error == pytest.approx(0.0, abs=1e-6)
    assert rows["duotomo", "adjoint"].gap == pytest.approx(0.0, abs=1e-7)
    assert rows["other", "forward"].error == pytest.approx(0.1, rel=1e-5)
    inner = float((X * Y).sum().abs())
    gap = 0.2 * inner / (2.2 * float(X.norm()) * float(Y.norm()))
    assert rows["other", "adjoint"].gap == pytest.approx(gap, rel=1e-4)
    assert rows["other", "forward"].gap is None
    assert rows["other", "adjoint"].error is None


@pytest.mark.parametrize(
    ("program", "failing", "reason"),
    [
        (Broken, ("forward", "adjoint"), "ValueError: wants cubic voxels; got slabs"),
        (NoAdjoint, ("adjoint",), "ZeroDivisionError"),
        (lambda: Fake(forward=nan), ("forward",), "not finite"),
        (lambda: Fake(forward=2.2), ("forward",), "expected an error below 1e-02; got 1.0e-01"),
    ],
    ids=["made", "called", "numbers", "same"],
)
def test_a_program_that_fails_is_a_row_with_the_reason(
    program: Any, failing: tuple[str, ...], reason: str
) -> None:
    task = Task(**{**vars(TASK), "largest_error": 1e-2})
    rows = rows_of(task, duotomo=Fake, other=program)
    assert set(rows) == {(name, o) for name in ("duotomo", "other") for o in ("forward", "adjoint")}
    for (name, operation), row in rows.items():
        if name == "other" and operation in failing:
            assert reason in row.failed
            assert row.best_ms is None
            assert row.median_ms is None
            assert row.gap is None
        else:
            assert not row.failed
            assert row.best_ms is not None
            assert row.best_ms > 0


def test_a_program_that_fails_under_the_clock_does_not_end_the_others() -> None:
    calls = {"ours": lambda: None, "theirs": lambda: 1 / 0}
    times = time_in_turns(calls, "cpu", 3)
    assert times["ours"].best_s < inf
    assert not times["ours"].failed
    assert times["theirs"].failed == "ZeroDivisionError: division by zero"


def test_beyond_its_limit_a_program_runs_no_more() -> None:
    made = dict.fromkeys(("fast", "slow"), 0)

    def count(name: str) -> None:
        made[name] += 1

    times = time_in_turns({name: lambda name=name: count(name) for name in made}, "cpu", 4, limit_s=0.0)
    assert made == {"fast": 1, "slow": 1}
    assert all(0 < time.best_s < inf for time in times.values())


def test_ratios_are_to_duotomo_on_the_same_case() -> None:
    rows = [
        Row(device=device, case="a", operation="forward", program=name, best_ms=ms)
        for device, name, ms in (("cpu", "duotomo", 4.0), ("cpu", "rtk", 10.0), ("cuda", "astra", 5.0))
    ]
    assert [ratio_to_duotomo(row, rows) for row in rows] == [1.0, 2.5, None]


def test_the_table_shows_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    print_header("Table")
    rows = contest(TASK, {"duotomo": Fake, "other": NoAdjoint}, device="cpu", repeats=1)
    print_rows(rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["Table", lines[2]]
    assert "adjoint gap" in lines[2]
    assert len({len(line) for line in lines[2:] if not line.startswith("  other:")}) == 1
    assert "  other: ZeroDivisionError: division by zero" in lines


def test_the_command_runs_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = grid((6, 7, 8), (1.0, 1.0, 1.0)), sweep(n_views=2, detector_shape=(12, 12), pixel_mm=1.0)
    monkeypatch.setitem(CASES, "tiny", tiny)
    monkeypatch.setitem(projector.PROGRAMS, "broken", Entrant(everywhere, Broken))
    monkeypatch.setitem(projector.PROGRAMS, "absent", Entrant(lambda device: Available("not here"), Fake))
    path = tmp_path / "peers.json"
    names = ["--programs", "duotomo,broken,absent,grid_sample", "--devices", "cpu", "--repeats", "1"]
    sizes = ["--shape", "8,9,10", "--control", "5,5,5", "--limit", "5", "--json", str(path)]
    peers.main(["--cases", "tiny,affine", *names, *sizes])
    found = json.loads(path.read_text())
    assert found["left_out"] == {"absent": "not here"}
    assert found["machines"]["cpu"].startswith("CPU, ")
    assert found["versions"]["torch"]
    rows = {(row["case"], row["operation"], row["program"]): row for row in found["rows"]}
    both, gradient = ("forward", "adjoint"), "parameter-gradient"
    assert set(rows) == {("tiny", o, name) for o in both for name in ("duotomo", "broken")} | {
        ("affine", o, name) for o in (*both, gradient) for name in ("duotomo", "grid_sample")
    }
    for (_, operation, name), row in rows.items():
        if name == "broken":
            assert "wants cubic voxels" in row["failed"]
            assert row["best_ms"] is None
            continue
        assert row["failed"] == ""
        assert row["median_ms"] >= row["best_ms"] > 0
        assert (row["gap"] is not None and row["gap"] < 1e-5) == (operation == "adjoint")
        if name == "duotomo":
            assert row["ratio_to_duotomo"] == 1.0
    assert rows["tiny", "forward", "duotomo"]["error"] < 0.1
    assert rows["affine", "forward", "grid_sample"]["error"] < 1e-5
    text = capsys.readouterr().out
    assert "absent is left out: not here" in text
    assert text.count("wants cubic voxels") == 2


def test_large_cases_are_for_a_gpu() -> None:
    assert "clinical" not in peers.default_cases("cpu")
    assert "clinical" in peers.default_cases("cuda")
    assert {"a", "b", "c", "affine", "bspline"} <= set(peers.default_cases("cpu"))


@pytest.mark.parametrize("option", ["--devices", "--cases", "--programs"])
def test_unknown_names_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        peers.parse([option, "strange"])
    assert f"{option}: expected some of" in capsys.readouterr().err


def test_peers_say_why_they_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "on a GPU only" in str(astra.available("cpu"))
    assert "on a GPU only" in str(leap.footprints_available("cpu"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert str(astra.available("cuda")) == str(leap.available("cuda")) == "PyTorch sees no CUDA device"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("benchmarks.peers.available.find_spec", lambda name: None)
    assert "ASTRA is not installed" in str(astra.available("cuda"))
    assert "LEAP is not installed" in str(leap.footprints_available("cuda"))
    assert "SimpleITK" in str(warp.PROGRAMS["simpleitk"].available("cuda"))


SCAN = Acquisition.arc(
    n_views=3,
    angle_range_rad=0.8,
    detector_tilt_range_rad=0.1,
    source_to_detector_mm=660.0,
    pivot_height_mm=0.0,
    detector_shape=(32, 70),
    pixel_spacing_mm=(2.0, 1.5),
)
GRID = VolumeGrid.on_detector((3, 4, 5), (2.0, 2.0, 2.0), gap_mm=3.0)


def test_astra_meets_the_same_pixels() -> None:
    point_mm = np.array([12.0, 20.0, 30.0])
    for view, expected in zip(astra.vectors(SCAN), world_to_pixel(SCAN, point_mm), strict=True):
        source, middle, u, v = view.reshape(4, 3)
        # source + t (point - source) = middle + a u + b v, a and b in pixels from the middle of the detector.
        _, a, b = np.linalg.solve(np.column_stack([point_mm - source, -u, -v]), middle - source)
        n_v, n_u = SCAN.detector_shape
        assert (b + (n_v - 1) / 2, a + (n_u - 1) / 2) == pytest.approx(expected)


def test_astra_gets_the_same_box() -> None:
    slabs = VolumeGrid.on_detector((6, 10, 20), (1.0, 0.1, 0.2), gap_mm=5.0)
    assert astra.volume_window(slabs) == pytest.approx((10, 20, 6, -2.0, 2.0, 0.0, 1.0, 5.0, 11.0))


@pytest.mark.parametrize("kind", [leap.Leap, leap.LeapAlongY, leap.LeapFootprints])
def test_leaps_volumes_are_turned_as_its_vectors_are(
    kind: type[leap.Leap], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_leap(kind, GRID, monkeypatch)
    assert np.linalg.det(kind.TURN) == pytest.approx(1.0)
    volume = torch.zeros(GRID.shape)
    index = (2, 0, 3)
    volume[index] = 1.0
    own = program.own(volume)
    assert torch.equal(program.ours(own), volume)
    place = np.argwhere(own.numpy())[0]
    leap_mm = ((place - (np.array(own.shape) - 1) / 2) * 2.0)[::-1]
    from_middle_mm = voxel_to_world(GRID, index) - np.array(GRID.center_mm[::-1])
    assert leap_mm == pytest.approx(kind.TURN @ from_middle_mm)


def test_leap_wants_cubes(monkeypatch: pytest.MonkeyPatch) -> None:
    slabs = VolumeGrid.on_detector((3, 4, 5), (1.0, 0.1, 0.1))
    with pytest.raises(ValueError, match="cubic voxels; got"):
        fake_leap(leap.Leap, slabs, monkeypatch)


def test_what_leap_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="LEAP refuses set_volume"):
        fake_leap(leap.Leap, GRID, monkeypatch, refused="set_volume")


def test_leap_without_its_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="no library"):
        fake_leap(leap.Leap, GRID, monkeypatch, library=None)


def fake_leap(
    kind: type[leap.Leap],
    volume_grid: VolumeGrid,
    monkeypatch: pytest.MonkeyPatch,
    *,
    library: object = "library",
    refused: str = "",
) -> leap.Leap:
    """Return the adapter on a LEAP that only says whether it accepts its settings."""

    class Models:
        libprojectors = library

        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: name != refused

    module = ModuleType("leapctype")
    module.tomographicModels = Models  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "leapctype", module)
    return kind(volume_grid, SCAN, "cpu")
