"""Two volumes become a motion, and the moving one seen in the frame of the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io import read_result, write_volume
from duotomo.methods import resample_to_reference
from duotomo.transforms import Motion, Translation
from tests.cli.commands import duotomo

GRID = VolumeGrid.on_detector((14, 16, 18), (2.0, 2.0, 2.0), gap_mm=5.0)
SHIFT_MM = (4.0, -2.0, 1.0)


def blob() -> torch.Tensor:
    """Return a smooth, lopsided blob."""
    axes = [torch.arange(n, dtype=torch.float32) - (n - 1) / 2 for n in GRID.shape]
    z, y, x = torch.meshgrid(*axes, indexing="ij")
    return 0.05 * torch.exp(-(z**2 / 14 + y**2 / 20 + (x - 1) ** 2 / 8)) * (1 + 0.2 * torch.tanh(y))


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("volumes")
    shift = Translation(GRID)
    params = shift.params(translation_mm=SHIFT_MM)
    write_volume(folder / "one.nii.gz", blob(), GRID)
    write_volume(folder / "two.nii.gz", shift.warp(params, GRID, GRID)(blob()), GRID)
    return folder / "one.nii.gz", folder / "two.nii.gz"


@pytest.mark.parametrize("options", [(), ("--misfit", "correlation")])
def test_the_motion_is_found(volumes: tuple[Path, Path], tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = duotomo("register", *volumes, "--transform", "rigid", "--out", tmp_path, "--json", *options)
    # At the last digit of float32 no step lowers a correlation any more.
    assert ran.code == (0 if ran.json["status"] == "converged" else 3), ran.err
    saved = read_result(tmp_path)
    center = torch.tensor([[0.0, 16.0, 19.0]], dtype=torch.float64)
    moved = saved.motions[0].points(center) - center
    torch.testing.assert_close(moved[0], torch.tensor(SHIFT_MM, dtype=torch.float64), atol=0.2, rtol=0)
    assert ran.json["quality"]["mean_displacement_mm"][0] == pytest.approx(21**0.5, abs=0.3)
    assert torch.equal(saved.volume, blob())
    registered = saved.others["visit_2_registered"]
    assert (registered - saved.volume).norm() < 0.2 * saved.volume.norm()
    assert (tmp_path / "report.html").is_file()
    assert [step.stage for step in saved.history] == sorted(step.stage for step in saved.history)


def test_what_is_written_is_the_moving_volume_in_the_reference_frame(
    volumes: tuple[Path, Path], tmp_path: Path
) -> None:
    ran = duotomo("register", *volumes, "--transform", "translation", "--out", tmp_path, "--dicom")
    assert ran.code == 0, ran.err
    saved = read_result(tmp_path)
    shift = Translation(GRID)
    moving = shift.warp(shift.params(translation_mm=SHIFT_MM), GRID, GRID)(blob())
    found = Motion(shift, saved.params[0])
    seen = resample_to_reference(moving, found, grid=GRID, moving_grid=GRID)
    torch.testing.assert_close(saved.others["visit_2_registered"], seen)
    assert (tmp_path / "visit_2_to_reference.dcm").is_file()


def test_wrong_input_is_explained(volumes: tuple[Path, Path], tmp_path: Path) -> None:
    new = tmp_path / "new"
    ran = duotomo("register", volumes[0], "--out", new)
    assert ran.code == 2
    assert "expected two volumes; got fewer" in ran.err
    ran = duotomo("register", volumes[0], tmp_path / "none.nii.gz", "--out", new)
    assert ran.code == 2
    assert "read_volume: expected a file at" in ran.err
    assert not new.exists()
    write_volume(tmp_path / "empty.nii.gz", torch.zeros(GRID.shape), GRID)
    ran = duotomo("register", volumes[0], tmp_path / "empty.nii.gz", "--out", new)
    assert ran.code == 2
    assert "expected a volume with positive values; got none" in ran.err
    assert list(new.iterdir()) == []
