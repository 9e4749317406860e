"""The benchmark of the projector compares programs that compute the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import projector
from benchmarks.cases import CASES, grid, line_integrals, sweep
from benchmarks.contest import Program, adjoint_gap, relative_difference
from benchmarks.peers import leap, rtk
from duotomo.geometry import VolumeGrid, paper
from duotomo.phantoms import Ellipsoid

pytestmark = pytest.mark.filterwarnings(
    "ignore:builtin type .* has no __module__ attribute:DeprecationWarning"
)

GRID, SCAN = VolumeGrid.on_detector((16, 18, 20), (3.0, 3.0, 3.0), gap_mm=5.0), paper().bin(4)
BALL = Ellipsoid(center_mm=(0.0, 27.0, 29.0), radii_mm=(20.0, 18.0, 16.0), value=0.05)
VOXELS = torch.from_numpy(BALL.voxels(GRID, oversample=4, dtype=np.float32))


def results(program: Program, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a program's forward projection of the ball and its adjoint of y."""
    runs = program.runs(VOXELS, y)
    forward, adjoint = (runs[name].read(runs[name].call()) for name in ("forward", "adjoint"))
    return forward, adjoint


def test_the_sizes_of_the_cases_are_those_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "how_to" / "timing.md"
    text = page.read_text(encoding="utf-8")
    for name, (volume_grid, scan) in CASES.items():
        n_views, *pixels = scan.shape
        voxels, views = (" x ".join(map(str, counts)) for counts in (volume_grid.shape, pixels))
        assert f"| `{name}` | {voxels} | {n_views} of {views} |" in text


def test_line_integrals_are_those_of_the_solid() -> None:
    assert np.array_equal(line_integrals(BALL, SCAN), BALL.line_integrals(SCAN))


@pytest.mark.parametrize(
    ("name", "largest_difference", "largest_gap"),
    # LEAP is least accurate where rays run along its z.
    [("rtk", 0.1, 1e-3), ("leap", 0.25, 0.1), ("leap-along-y", 0.1, 0.1)],
)
def test_peers_project_as_we_do(name: str, largest_difference: float, largest_gap: float) -> None:
    entrant = projector.PROGRAMS[name]
    if not (state := entrant.available("cpu")):
        pytest.skip(str(state))
    ours, theirs = projector.Duotomo(GRID, SCAN, "cpu"), entrant.make(GRID, SCAN, "cpu")
    projections, _ = results(ours, torch.zeros(SCAN.shape))
    ours_of, theirs_of = results(ours, projections), results(theirs, projections)
    # Another projector: Joseph's interpolates along rays, ours averages over pixels.
    assert relative_difference(theirs_of[0], projections) < largest_difference
    assert adjoint_gap(VOXELS, projections, *theirs_of) < largest_gap
    # Ours is a matched pair: <A x, y> = <x, A^T y>.
    assert adjoint_gap(VOXELS, projections, *ours_of) < 1e-6


def test_the_command_prints_and_writes_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = grid((6, 7, 8), (1.0, 1.0, 1.0)), sweep(n_views=2, detector_shape=(12, 12), pixel_mm=1.0)
    monkeypatch.setitem(CASES, "tiny", tiny)
    monkeypatch.setattr(projector, "memory_bandwidth", lambda device: 1e9)
    path = tmp_path / "rows.json"
    projector.main(["--cases", "tiny", "--programs", "duotomo", "--repeats", "1", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [(row["case"], row["operation"], row["program"]) for row in rows] == [
        ("tiny", "forward", "duotomo"),
        ("tiny", "adjoint", "duotomo"),
    ]
    assert rows[0]["error"] < 0.1
    assert rows[1]["gap"] < 1e-6
    assert "Gvoxel-views/s" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--cases", "--programs"])
def test_unknown_names_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        projector.parse([option, "strange"])
    assert f"{option}: expected some of" in capsys.readouterr().err


def test_rtk_and_leap_say_why_they_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.available.find_spec", lambda name: None)
    assert "LEAP is not installed" in str(leap.available("cpu"))
    assert "on a CPU only" in str(rtk.available("cuda"))
    assert not rtk.available("cuda")
