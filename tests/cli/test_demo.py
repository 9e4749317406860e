"""The demo writes what it says, and says what it wrote."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from duotomo.cli import main
from duotomo.geometry import VolumeGrid


def demo(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["demo", *options], catch_exceptions=False)
    return result.exit_code, result.output


def test_demo_writes_its_files_and_names_them(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    code, output = demo("--out", str(out), "--size", "24", "--steps", "5")
    assert code == 0, output
    written = [Path(line.strip()) for line in output.split("Wrote\n")[1].splitlines()]
    assert sorted(written) == sorted(out.iterdir())
    assert all(path.stat().st_size > 0 for path in written)
    grid = VolumeGrid.from_json((out / "grid.json").read_text())
    volume = np.load(out / "volume.npy")
    assert volume.shape == grid.shape == (24, 24, 24)
    assert np.isfinite(volume).all()
    with Image.open(out / "three_views.png") as image:
        image.load()
        assert image.format == "PNG"


def test_demo_says_memory_and_compilation_before_the_result(tmp_path: Path) -> None:
    _, output = demo("--out", str(tmp_path), "--size", "16", "--steps", "2")
    order = [output.index(word) for word in ("Memory: about", "Kernels compiled", "CGLS:", "Relative error")]
    assert order == sorted(order)


def test_demo_finds_the_object(tmp_path: Path) -> None:
    _, output = demo("--out", str(tmp_path), "--size", "24", "--steps", "15")
    match = re.search(r"Relative error .*: (0\.\d+)", output)
    assert match is not None
    assert float(match[1]) < 0.1


def test_seed_decides_the_volume(tmp_path: Path) -> None:
    volumes = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        demo("--out", str(tmp_path / name), "--size", "16", "--steps", "2", "--seed", seed)
        volumes.append(np.load(tmp_path / name / "volume.npy"))
    np.testing.assert_array_equal(volumes[0], volumes[1])
    assert not np.array_equal(volumes[0], volumes[2])


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_missing_cuda_is_said_not_replaced(tmp_path: Path) -> None:
    code, output = demo("--out", str(tmp_path), "--device", "cuda")
    assert code == 2
    assert "no CUDA device is available here" in output


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_demo_on_the_gpu(tmp_path: Path) -> None:
    code, output = demo("--out", str(tmp_path), "--size", "24", "--steps", "5", "--device", "cuda")
    assert code == 0, output


def test_help_lists_the_command() -> None:
    assert "demo" in CliRunner().invoke(main, ["--help"]).output
