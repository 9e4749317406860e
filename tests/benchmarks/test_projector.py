"""The benchmark of the projector compares programs that compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import projector
from benchmarks.cases import CASES
from benchmarks.peers import rtk
from duotomo.geometry import VolumeGrid, paper
from duotomo.phantoms import Ellipsoid

pytestmark = pytest.mark.filterwarnings(
    "ignore:builtin type .* has no __module__ attribute:DeprecationWarning"
)


def test_the_sizes_of_the_cases_are_those_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "how_to" / "timing.md"
    text = page.read_text(encoding="utf-8")
    for name, (grid, scan) in CASES.items():
        n_views, *pixels = scan.shape
        voxels, views = (" x ".join(map(str, counts)) for counts in (grid.shape, pixels))
        assert f"| `{name}` | {voxels} | {n_views} of {views} |" in text


@pytest.mark.skipif(not rtk.available(), reason="RTK is not installed")
def test_rtk_projects_as_we_do() -> None:
    grid, scan = VolumeGrid.on_detector((16, 18, 20), (3.0, 3.0, 3.0), gap_mm=5.0), paper().bin(4)
    solid = Ellipsoid(center_mm=(0.0, 27.0, 29.0), radii_mm=(20.0, 18.0, 16.0), value=0.05)
    ball = solid.voxels(grid, oversample=4, dtype=np.float32)
    ours, theirs = projector.Duotomo(grid, scan, "cpu"), projector.Rtk(grid, scan)
    projections = ours.forward(ours.prepare(ball)).numpy()
    # Another projector: Joseph's interpolates along rays, ours averages over pixels.
    assert np.linalg.norm(theirs.forward(ball) - projections) < 0.1 * np.linalg.norm(projections)
    # Both are matched pairs: <A x, y> = <x, A^T y>.
    assert projector.adjoint_gap(theirs, ball, projections) < 1e-3
    assert projector.adjoint_gap(ours, ball, projections) < 1e-6
