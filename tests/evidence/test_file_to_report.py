"""One command goes from files that other programs wrote to a page with the volume where it belongs.

RTK (itk-rtk) simulates scans of two balls and writes its own geometry and views; the FDA's views (ReconDBT,
public domain) are read as they were published.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.peers import rtk as peer
from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io import read_result
from duotomo.io.scan_geometry import sweep
from duotomo.reproduction.third_party.fda import FILE, fda_projections
from tests.cli.commands import NOT_TRUSTED, duotomo
from tests.evidence.test_fda_projections import DATA, bright_spot
from tests.io.test_scan_rtk import write_xml

needs_rtk = pytest.mark.skipif(not peer.available(), reason="needs RTK: pip install itk-rtk")
needs_fda = pytest.mark.skipif(
    not (DATA / FILE).exists(), reason=f"needs {FILE} in {DATA}; set DUOTOMO_DATA to the folder that holds it"
)
pytestmark = pytest.mark.filterwarnings(
    "ignore:builtin type .* has no __module__ attribute:DeprecationWarning"
)

ISOCENTRE_MM = np.array([0.0, 10.0, 50.0])
"""RTK's origin in the machine frame: 50 mm above the detector, whose low edge is at y = -10 mm in RTK's."""

LARGE, SMALL = ((0.0, 32.0, 24.0), 16.0, 0.02), ((6.0, 26.0, 30.0), 4.0, 0.06)
"""Two balls: centre (x, y, z) in the machine frame, radius, both in mm, and attenuation in 1/mm."""

SHIFT_MM = np.array([4.0, 2.0, 0.0])


def scan_with_rtk(folder: Path, name: str, shift_mm: np.ndarray) -> Path:
    """Let RTK project the balls, moved by a shift, and write the views and the geometry."""
    import itk
    from itk import RTK

    geometry = RTK.ThreeDCircularProjectionGeometry.New()
    for angle in np.linspace(-20.0, 20.0, 9):
        geometry.AddProjection(600.0, 650.0, float(angle))
    write_xml(folder / f"{name}.xml", geometry)
    image = itk.Image[itk.F, 3]
    views = image.New()
    views.SetRegions([50, 40, 9])
    views.Allocate(True)
    views.SetSpacing([2.0, 2.0, 1.0])
    views.SetOrigin([-49.0, -9.0, 0.0])
    for center_mm, radius_mm, value in (LARGE, SMALL):
        project = RTK.RayEllipsoidIntersectionImageFilter[image, image].New()
        project.SetGeometry(geometry)
        project.SetInput(views)
        project.SetDensity(value)
        project.SetAxis([radius_mm] * 3)
        project.SetCenter((np.array(center_mm) + shift_mm - ISOCENTRE_MM).tolist())
        project.Update()
        views = project.GetOutput()
        views.DisconnectPipeline()
    itk.imwrite(views, str(folder / f"{name}.mha"))
    return folder / f"{name}.mha"


def small_ball_mm(volume: Any, grid: VolumeGrid) -> np.ndarray:
    """Return where a volume is brightest, (x, y, z)."""
    return voxel_to_world(grid, bright_spot(volume.double().numpy(), grid.spacing_mm))


def assert_page(out: Path) -> None:
    """Raise unless there is a page that holds the volume."""
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert '"title": ' in page
    assert 'type="application/gzip" id="volume-0">' in page


@needs_rtk
def test_from_rtks_files_to_a_report(tmp_path: Path) -> None:
    path, out = scan_with_rtk(tmp_path, "scan", np.zeros(3)), tmp_path / "out"
    options = ["--method", "sart", "--steps", "5", "--voxel", "2,2,2", "--thickness", "48"]
    ran = duotomo("reconstruct", path, *options, "--out", out)
    assert ran.code == 0, ran.err
    assert_page(out)
    saved = read_result(out)
    away_mm = small_ball_mm(saved.volume, saved.grid) - SMALL[0]
    print("the small ball is off by (x, y, z) mm:", away_mm.round(2))
    assert np.abs(away_mm[:2]).max() < 1.0
    # Over 40 degrees a ball is smeared along depth.
    assert abs(away_mm[2]) < 3.0


@needs_rtk
def test_from_two_of_rtks_scans_to_a_report(tmp_path: Path) -> None:
    paths = [scan_with_rtk(tmp_path, "first", np.zeros(3)), scan_with_rtk(tmp_path, "second", SHIFT_MM)]
    out = tmp_path / "out"
    options = ["--transform", "translation", "--voxel", "3,3,3", "--thickness", "48", "--steps", "12"]
    ran = duotomo("joint", *paths, *options, "--out", out)
    assert ran.code in (0, NOT_TRUSTED), ran.err
    assert_page(out)
    saved = read_result(out)
    (motion,) = saved.motions
    # T takes points of the second visit to where they are in the first.
    found_mm = -motion.physical()["translation_mm"].numpy()
    print("the shift is off by (x, y, z) mm:", (found_mm - SHIFT_MM).round(3))
    assert np.abs(found_mm - SHIFT_MM).max() < 0.5
    away_mm = small_ball_mm(saved.volume, saved.grid) - SMALL[0]
    print("the small ball is off by (x, y, z) mm:", away_mm.round(2))
    assert np.abs(away_mm[:2]).max() < 1.5
    assert abs(away_mm[2]) < 4.0


@needs_fda
@pytest.mark.parametrize("how", ["geometry", "options"])
def test_from_the_fdas_file_to_a_report(how: str, tmp_path: Path) -> None:
    angles, out = (15, 10, 5, 0, -5, -10, -15), tmp_path / "out"
    if how == "geometry":
        fda = sweep(
            angles_deg=angles,
            source_to_detector_mm=650,
            source_to_pivot_mm=605,
            pixel_spacing_mm=(0.4, 0.4),
            detector_shape=(170, 615),
        )
        (tmp_path / "fda.json").write_text(fda.to_json())
        words = ["--geometry", tmp_path / "fda.json"]
    else:
        words = ["--pixel-spacing", "0.4,0.4", "--source-to-detector", "650", "--source-to-pivot", "605"]
        words += ["--angles", ",".join(map(str, angles))]
    options = ["--thickness", "50", "--method", "cgls", "--steps", "10", "--voxel", "2,0.8,0.8"]
    ran = duotomo("reconstruct", DATA / FILE, *words, *options, "--out", out)
    assert ran.code == 0, ran.err
    assert_page(out)
    saved = read_result(out)
    away_mm = small_ball_mm(saved.volume, saved.grid) - np.array(fda_projections(DATA).lesion_center_mm)
    print("the lesion is off by (x, y, z) mm:", away_mm.round(2))
    assert np.abs(away_mm[:2]).max() < 1.0
    assert abs(away_mm[2]) < 3.0
