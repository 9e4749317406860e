"""A page's lattices lead from one frame to the other and back, and say within what a place is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io import read_result
from duotomo.methods import in_moving, in_reference
from duotomo.methods.correspondence import LEVEL
from duotomo.report.page_deformation import page_deformation
from duotomo.report.page_own_frame import page_own_frame
from duotomo.report.page_volumes import page_volumes
from duotomo.transforms import BSpline, Motion, Recompression, invert_points
from tests.cases.transforms import compressions, normal
from tests.report.page_results import GRID, LANDMARK, MOVED, body, result, save, spline, sure

CLINICAL = VolumeGrid.on_detector((50, 90, 200), (1.0, 1.0, 1.0), gap_mm=5.0)
NEAR_MM = 0.3
"""What the lattices of a page may miss, at nineteen of twenty places of a breast."""


def bent(grid: VolumeGrid) -> Motion:
    """Return control points 22 mm apart that are off by 5 mm."""
    transform = BSpline.spaced(22.0)(grid)
    assert isinstance(transform, BSpline)
    coefficients = 5.0 * normal((3, *transform.lattice.shape), seed=1)
    return Motion(transform, transform.params(coefficients_mm=coefficients))


def pressed(grid: VolumeGrid) -> Motion:
    """Return two compressions, and control points after them."""
    left = BSpline.spaced(22.0)(grid)
    assert isinstance(left, BSpline)
    transform = Recompression(grid, compressions(grid, expected_mm=8.0), left)
    coefficients = 2.0 * normal((3, *left.lattice.shape), seed=2)
    params = transform.params(modes={}, coefficients_mm=coefficients)
    params[: transform.n_modes] = 0.3 * normal((transform.n_modes,), seed=3)
    return Motion(transform, params)


def sampled(fields: Any, found: Any, points: torch.Tensor) -> torch.Tensor:
    """Return fields of a page's lattice, linear between its points, as the viewer takes them."""
    values = torch.from_numpy(np.ascontiguousarray(fields))[None].double()
    steps = torch.tensor(found.spacing_mm) * (torch.tensor(found.shape) - 1)
    places = 2 * (points - torch.tensor(found.first_mm)) / steps - 1
    return torch.nn.functional.grid_sample(values, places[None, None, None], align_corners=True)[0, :, 0, 0].T


@pytest.mark.parametrize("make", [bent, pressed])
def test_lattices_lead_both_ways_to_a_third_of_a_millimetre(make: Any) -> None:
    motion = make(CLINICAL)
    low, high = (torch.tensor(ends[::-1]) for ends in (CLINICAL.low_mm, CLINICAL.high_mm))
    generator = torch.Generator().manual_seed(4)
    points = low + (high - low) * torch.rand(1500, 3, generator=generator, dtype=torch.float64)
    back = page_deformation(motion, CLINICAL)
    own = page_own_frame(motion, CLINICAL, back)
    missed = (sampled(own.there, own, points) - motion.points(points)).norm(dim=1)
    assert float(missed.quantile(0.95)) < NEAR_MM
    inverse = invert_points(motion, points, tolerance_mm=1e-3)
    missed = (sampled(back.fields[:3], back, points) - inverse.xyz_mm).norm(dim=1)
    assert float(missed[~missed.isnan()].quantile(0.95)) < NEAR_MM


def test_ellipsoids_are_those_of_the_library_in_both_frames(tmp_path: Path) -> None:
    motion = spline()
    known = sure(motion, up_to_x_mm=20.0)
    folder = save(tmp_path, replace(result(motion=motion), uncertainties=(known,)))
    saved = read_result(folder)
    shown = page_volumes(saved)
    (own,), (back,) = shown.own_frames, shown.deformations
    assert own.covariance_there is not None
    assert own.covariance_back is not None
    points = torch.tensor([[0.0, 20.0, 15.0], [-10.0, 25.0, 12.0]], dtype=torch.float64)
    for fields, lattice, found in (
        (own.covariance_there, own, in_reference(known, points, level=LEVEL)),
        (own.covariance_back, back, in_moving(known, points, level=LEVEL)),
    ):
        numbers = sampled(fields, lattice, points)
        within = numbers[:, [0, 2, 5]].clamp(min=0).sqrt()
        assert within.numpy() == pytest.approx(found.within_mm.numpy(), rel=0.1)
    # Beyond the place up to which the data say something, nothing is said.
    beyond = sampled(own.covariance_there, own, torch.tensor([[27.0, 20.0, 15.0]], dtype=torch.float64))
    assert bool(beyond.isnan().all())
    assert bool(np.isfinite(own.there).all())


def test_a_visit_keeps_its_own_grid(tmp_path: Path) -> None:
    own = VolumeGrid.on_detector((10, 26, 30), (2.0, 1.5, 1.5), gap_mm=3.0)
    moved = (MOVED[0], MOVED[1], MOVED[2] - 5)
    others = {
        "visit_1": body(LANDMARK),
        "visit_2_registered": body(LANDMARK),
        "visit_2": body(moved, grid=own),
    }
    made = result(motion=spline(), others=others, grids={"visit_2": own})
    shown = page_volumes(read_result(save(tmp_path, made)))
    assert shown.own["visit_2"].shape == own.shape
    assert shown.numbers["visit_2"].shape == own.shape
    assert shown.numbers["visit_2_registered"].shape == GRID.shape
    assert shown.own_inside["visit_2"].shape == own.shape
    assert shown.own_frames[0].first_mm == pytest.approx(own.low_mm[::-1])
    assert np.unravel_index(shown.numbers["visit_2"].argmax(), own.shape) == pytest.approx(moved, abs=1)


def test_without_covariances_places_are_known_and_no_more(tmp_path: Path) -> None:
    shown = page_volumes(read_result(save(tmp_path, result(motion=spline()))))
    assert shown.own_frames[0].covariance_there is None
    assert shown.own_frames[0].covariance_back is None
    assert shown.own == {}
