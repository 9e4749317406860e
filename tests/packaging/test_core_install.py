"""`pip install duotomo`, without any extra, goes from two DICOM scans to a result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import duotomo
from duotomo.geometry import VolumeGrid
from duotomo.io import Scan, Values
from duotomo.io.dicom import write_dicom_projections
from duotomo.io.libraries import simpleitk
from duotomo.phantoms import Ellipsoid
from duotomo.simulate import scan
from duotomo.transforms import Motion, Translation
from tests.cases.scans import arc

ROOT = Path(__file__).parents[2]
SHIFT_MM = (4.0, 0.0, 0.0)

pytestmark = pytest.mark.slow


def run(*command: object) -> str:
    """Run a program without the source folder on its path; return what it said."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd="/", env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install duotomo and its dependencies into a new environment; return the folder of its programs."""
    folder = tmp_path_factory.mktemp("core") / "venv"
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", ROOT)
    return folder / "bin"


def write_scans(folder: Path) -> list[Path]:
    """Write two visits of an ellipsoid, the second shifted, as DICOM."""
    grid = VolumeGrid.on_detector((20, 25, 30), (2.0, 2.0, 2.0))
    acquisition = arc((35, 45), 2.0, n_views=9, degrees=40.0, source_to_detector_mm=650.0)
    body = Ellipsoid(center_mm=(0, 22, 20), radii_mm=(18, 14, 12), value=0.05)
    shift = Translation(grid)
    motions = {"first": None, "second": Motion(shift, shift.params(translation_mm=SHIFT_MM))}
    paths = []
    for name, motion in motions.items():
        generator = torch.Generator().manual_seed(len(paths))
        projections = scan(body, grid, acquisition, generator=generator, motion=motion)
        visit = Scan(
            projections=projections, values=Values.LINE_INTEGRALS, acquisition=acquisition, thickness_mm=40.0
        )
        paths.append(folder / f"{name}.dcm")
        write_dicom_projections(paths[-1], visit)
    return paths


def test_the_version_is_said(programs: Path) -> None:
    assert duotomo.__version__ in run(programs / "duotomo", "--version")


def test_no_extra_is_there(programs: Path) -> None:
    names = ("itk", "mkdocs", "pylops", "pytest", "triton")
    code = f"import importlib.util as u; print([n for n in {names} if u.find_spec(n)])"
    assert run(programs / "python", "-c", code).strip() == "[]"


def test_two_dicom_scans_become_a_result(programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "result"
    options = ("--transform", "translation", "--voxel", "2,2,2", "--dicom", "--out", out)
    run(programs / "duotomo", "joint", *write_scans(tmp_path), *options)
    transform = out / "visit_2_to_reference.tfm"
    moved_lps_mm = simpleitk().ReadTransform(str(transform)).TransformPoint((0.0, 0.0, 0.0))
    assert moved_lps_mm == pytest.approx((-SHIFT_MM[0], -SHIFT_MM[1], SHIFT_MM[2]), abs=0.5)
    assert (out / "report.html").is_file()
    assert list(out.rglob("*.dcm"))


def test_bodies_are_compressed_by_finite_elements(programs: Path, tmp_path: Path) -> None:
    options = ("--compressed", "--radii", "20,18,16", "--thickness", "26", "--views", "3", "--pixel", "4")
    run(programs / "duotomo", "simulate", "--out", tmp_path / "scan.h5", *options)
    assert (tmp_path / "scan.h5").is_file()
