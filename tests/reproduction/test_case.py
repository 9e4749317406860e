"""A case knows its truth, and where its object is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.operators import Projector
from duotomo.reproduction import case
from duotomo.reproduction.case import Case
from tests.reproduction.tiny import GRID, RING, SCAN, UNMOVED, tiny_case

BLOCK = (slice(2, 8), slice(3, 9), slice(4, 10))
WIDER = VolumeGrid(shape=(14, 18, 16), spacing_mm=(4.0, 4.0, 4.0), center_mm=GRID.center_mm)


def with_block(value: float = 0.05, beside: float = 0.0) -> Case:
    """Return a case whose moved object is a block of 6 x 6 x 6 voxels."""
    moved = torch.full(GRID.shape, beside)
    moved[BLOCK] = value
    return replace(tiny_case(), moved=moved)


def test_points_are_the_middles_of_the_objects_voxels() -> None:
    points_mm = with_block().points_mm
    assert points_mm.shape == (6**3, 3)
    assert points_mm.dtype == torch.float64
    # The first voxel, (z, y, x) = (2, 3, 4), of a grid that begins at (5, 0, -28) mm.
    assert points_mm[0].tolist() == [-28 + 4.5 * 4, 3.5 * 4, 5 + 2.5 * 4]
    assert points_mm[-1].tolist() == [-28 + 9.5 * 4, 8.5 * 4, 5 + 7.5 * 4]


def test_edge_points_are_the_skin_of_a_block() -> None:
    points_mm = with_block().edge_points_mm
    assert len(points_mm) == 6**3 - 4**3
    middle = torch.tensor([-28 + 7 * 4, 6 * 4, 5 + 5 * 4], dtype=torch.float64)
    assert ((points_mm - middle).abs().amax(dim=1) == 10.0).all()


def test_what_is_nearly_air_is_not_of_the_object() -> None:
    assert len(with_block(beside=0.004).points_mm) == 6**3
    assert len(with_block(beside=0.006).points_mm) == GRID.n_voxels


def test_many_points_are_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = with_block().points_mm
    monkeypatch.setattr(case, "MOST_POINTS", 50)
    few = with_block().points_mm
    assert 40 <= len(few) <= 50
    torch.testing.assert_close(few.mean(dim=0), everything.mean(dim=0), atol=1.5, rtol=0)


def test_the_moved_truth_is_where_the_motion_takes_it() -> None:
    one = tiny_case()
    # Moving to reference goes by (3, 0, -4) mm: the body went the other way.
    offset_mm = tiny_case().points_mm.mean(dim=0) - replace(one, moved=one.truth).points_mm.mean(dim=0)
    torch.testing.assert_close(
        offset_mm, torch.tensor([-3.0, 0.0, 4.0], dtype=torch.float64), atol=0.5, rtol=0
    )


def test_without_a_seed_the_truth_explains_the_data_and_with_one_it_does_not() -> None:
    published, honest = tiny_case(), tiny_case(seed=5)
    projector = Projector(grid=GRID, acquisition=SCAN)
    for visit, volume in zip(published.study.visits, (published.truth, published.moved), strict=True):
        torch.testing.assert_close(visit.projections, projector(volume), rtol=1e-5, atol=1e-6)
    for visit, volume in zip(honest.study.visits, (honest.truth, honest.moved), strict=True):
        assert (visit.projections - projector(volume)).norm() > 1e-3 * visit.projections.norm()
    assert "noise_seed" not in published.about
    assert honest.about["noise_seed"] == 5
    assert honest.about["number"] == 1


def test_noise_is_repeatable_and_differs_between_visits() -> None:
    still = case.Scans(grid=GRID, acquisition=SCAN, seed=5)
    first, again = (still.moved_by(RING, UNMOVED, {}) for _ in range(2))
    for one, other in zip(first.study.visits, again.study.visits, strict=True):
        assert torch.equal(one.projections, other.projections)
    assert not torch.equal(first.study.visits[0].projections, first.study.visits[1].projections)


def test_a_pair_has_each_body_in_its_own_frame() -> None:
    scans = case.Scans(grid=GRID, acquisition=SCAN, seed=None, moving_grid=WIDER)
    pair = scans.of_pair(RING, RING, UNMOVED, {"body": "twice the same"})
    assert pair.moving_grid == WIDER
    assert pair.truth.shape == GRID.shape
    assert pair.moved.shape == WIDER.shape
    assert pair.about == {"body": "twice the same"}
    # One body, seen on two grids whose voxels coincide: one scan.
    one, other = (visit.projections for visit in pair.study.visits)
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
