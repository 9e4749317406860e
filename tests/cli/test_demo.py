"""The demo makes two scans, lets `duotomo joint` work on them, and says what came out beside the truth."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from duotomo.cli.demo import NOW, _holds
from duotomo.geometry import VolumeGrid
from duotomo.io import Scan, Values, read_result, read_scan, write_scan
from duotomo.phantoms import compress
from duotomo.report.comparison import LesionDifference, compare_with_truth, lesion_difference
from duotomo.simulate import demo_pair, scene
from tests.cli.commands import NOT_TRUSTED, Ran, duotomo

COARSE = ("--voxel", 6, "--steps", 1)

once = functools.cache(compress)


@pytest.fixture(autouse=True, scope="module")
def _squeezed_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene, "compress", once)
        yield


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return out, duotomo("demo", "--out", out, "--voxel", 2)


def test_it_writes_scans_a_result_and_a_picture(ran: tuple[Path, Ran]) -> None:
    out, said = ran
    assert said.code == 0, said.err
    assert {path.name for path in out.iterdir()} == {
        "current.h5",
        "prior.h5",
        "result",
        "change.png",
        "change.svg",
    }
    assert [read_scan(out / name).thickness_mm for name in ("current.h5", "prior.h5")] == [44.0, 48.0]
    saved = read_result(out / "result")
    assert set(saved.others) == {"visit_1", "visit_2", "visit_2_registered"}
    assert saved.settings["command"] == "joint"
    with Image.open(out / "change.png") as image:
        image.load()


def test_it_says_the_command_and_where_to_look(ran: tuple[Path, Ran]) -> None:
    out, said = ran
    assert f"$ duotomo joint {out / 'current.h5'} {out / 'prior.h5'} --transform bspline" in said.err
    assert "tissue is off by" in said.out
    page = out / "result" / "report.html"
    last = said.out.splitlines()[-1]
    assert last.startswith(f"Open {page}") if page.exists() else "viewer is not built" in last


def test_registration_helps_on_voxels_twice_as_large(ran: tuple[Path, Ran]) -> None:
    found = compare_with_truth(read_result(ran[0] / "result"), demo_pair(voxel_mm=2.0))
    before, after = found.changes
    assert found.tre_mm[1] < 0.7 * found.tre_mm[0]
    assert after.elsewhere_per_mm < 0.6 * before.elsewhere_per_mm
    assert after.contrast > 1.6 * before.contrast


@pytest.mark.slow
def test_the_mass_stands_out_as_the_page_says(tmp_path: Path) -> None:
    said = duotomo("demo", "--out", tmp_path, "--json")
    before, after = said.json["before"], said.json["after"]
    assert after["tre_mm"] < 0.3 * before["tre_mm"]
    assert after["elsewhere_per_mm"] < 0.4 * before["elsewhere_per_mm"]
    assert after["contrast"] > 3
    assert before["contrast"] < 1.5


def test_the_command_it_shows_repeats_its_result(tmp_path: Path) -> None:
    said = duotomo("demo", "--out", tmp_path / "first", *COARSE, "--json")
    assert said.json["status"] == "done"
    assert said.json["after"]["tre_mm"] > 0
    shown = next(line for line in said.err.splitlines() if line.startswith("$ duotomo "))
    words = shown.removeprefix("$ duotomo ").split()
    words[words.index("--out") + 1] = str(tmp_path / "again")
    assert duotomo(*words).code == NOT_TRUSTED
    first, again = read_result(tmp_path / "first" / "result"), read_result(tmp_path / "again")
    assert torch.equal(again.volume, first.volume)


def test_landmarks_lie_between_the_plates() -> None:
    before, now = demo_pair(voxel_mm=6.0).landmarks_mm()
    assert before.shape == now.shape
    assert len(before) > 1000
    for points, thickness_mm in ((before, 48.0), (now, 44.0)):
        assert points[:, 2].min() > -0.5
        assert points[:, 2].max() < thickness_mm + 0.5


def test_scans_that_are_there_are_used_only_if_they_are_of_the_same_pair(tmp_path: Path) -> None:
    """Finite elements that are solved anew may be rounded otherwise; another scan is another run."""
    visit, path = demo_pair(voxel_mm=6.0).visits[0], tmp_path / NOW
    scan = Scan(
        projections=(1 + 1e-6) * visit.projections,
        values=Values.LINE_INTEGRALS,
        acquisition=visit.acquisition,
        thickness_mm=visit.thickness_mm,
    )
    assert not _holds(path, visit)
    write_scan(path, scan)
    assert _holds(path, visit)
    assert not _holds(path, demo_pair(voxel_mm=6.0, seed=1).visits[0])
    assert not _holds(path, demo_pair(voxel_mm=5.0).visits[0])
    write_scan(path, replace(scan, thickness_mm=40.0))
    assert not _holds(path, visit)


def test_an_unfinished_run_is_refused_before_its_scans_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "checkpoint.h5").write_bytes(b"a state")
    (tmp_path / NOW).write_bytes(b"a scan")
    said = duotomo("demo", "--out", tmp_path, *COARSE)
    assert said.code == 2
    assert "Pass --resume to go on with it" in said.err
    assert (tmp_path / NOW).read_bytes() == b"a scan"


def test_a_change_elsewhere_lowers_the_contrast() -> None:
    grid = VolumeGrid.on_detector((10, 20, 20), (2.0, 1.0, 1.0))
    at = (-4.5, 5.5, 11.0)
    difference = torch.full(grid.shape, 0.001)
    difference[5, 5, 5] = 0.02
    tissue = torch.ones(grid.shape, dtype=torch.bool)
    clear = lesion_difference(difference, tissue, grid, at, 1.0)
    assert clear.lesion_per_mm == pytest.approx(0.02)
    difference[:, 15:] = 0.01
    blurred = lesion_difference(difference, tissue, grid, at, 1.0)
    assert blurred.contrast < clear.contrast
    tissue[:, 15:] = False
    assert lesion_difference(difference, tissue, grid, at, 1.0).contrast == pytest.approx(clear.contrast)
    assert LesionDifference(lesion_per_mm=0.0, elsewhere_per_mm=1.0).contrast == 0


def test_a_command_that_fails_ends_the_demo_with_its_code(tmp_path: Path) -> None:
    (tmp_path / "result").write_text("a file where a folder should be")
    said = duotomo("demo", "--out", tmp_path, *COARSE)
    assert said.code == 2
    assert "expected to make the folder" in said.err
    assert "tissue is off by" not in said.out


def test_quiet_says_nothing_but_that_one_step_is_not_to_be_trusted(tmp_path: Path) -> None:
    said = duotomo("demo", "--out", tmp_path, *COARSE, "--quiet")
    assert (said.code, said.out) == (NOT_TRUSTED, "")
    assert said.err.startswith("Warning: do not trust this result. The run did not converge")
    assert [line[:12] for line in said.err.splitlines()[1:]] == ["  What to do"]


def test_without_finite_elements_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "compress", compress)
    monkeypatch.setitem(sys.modules, "skfem", None)
    said = duotomo("demo", "--out", tmp_path, *COARSE)
    assert said.code == 2
    assert "pip install scikit-fem" in said.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_missing_cuda_is_said_not_replaced(tmp_path: Path) -> None:
    said = duotomo("demo", "--out", tmp_path, "--device", "cuda")
    assert said.code == 2
    assert "no CUDA device is available here" in said.err


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_demo_on_the_gpu(tmp_path: Path) -> None:
    said = duotomo("demo", "--out", tmp_path, *COARSE, "--device", "cuda")
    assert said.code == 0, said.err


def test_help_lists_the_command() -> None:
    assert "demo" in duotomo("--help").out
