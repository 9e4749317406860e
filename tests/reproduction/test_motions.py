"""Motions are seeded, keep within their ranges, and move bodies as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.geometry import VolumeGrid
from duotomo.phantoms import Ellipsoid
from duotomo.reproduction.motions import (
    LARGE,
    MODERATE,
    Ranges,
    published_motion,
    random_affine,
    random_offsets,
    rotation,
)
from duotomo.transforms import Affine, BSpline

GRID = VolumeGrid.on_detector((35, 35, 35), (2.0, 2.0, 2.0), gap_mm=5.0)
AFFINE = Affine(GRID)
MIDDLE = torch.tensor(GRID.center_mm[::-1], dtype=torch.float64)
QUARTER = math.pi / 2


@given(seed=st.integers(0, 2**31), ranges=st.sampled_from([LARGE, MODERATE]))
def test_random_affine_motions_keep_within_their_ranges(seed: int, ranges: Ranges) -> None:
    found = random_affine(AFFINE, seed, ranges).physical()
    assert float(found["translation_mm"].abs().max()) <= ranges.translation_mm
    # A rotation times a triangle with a positive diagonal: the only way to split a matrix.
    turn, triangle = np.linalg.qr(found["matrix"].numpy())
    signs = np.sign(np.diag(triangle))
    turn, triangle = turn * signs, triangle * signs[:, None]
    scale = np.diag(triangle)
    assert np.abs(scale - 1).max() <= ranges.scale + 1e-12
    assert np.abs(triangle / scale - np.eye(3)).max() <= ranges.shear + 1e-12
    angles = math.atan2(turn[2, 1], turn[2, 2]), -math.asin(turn[2, 0]), math.atan2(turn[1, 0], turn[0, 0])
    assert max(map(abs, np.degrees(angles))) <= ranges.rotation_deg + 1e-9
    assert rotation(*angles) == pytest.approx(turn)


def test_random_affine_motions_differ_by_their_seed_only() -> None:
    assert torch.equal(random_affine(AFFINE, 3, LARGE).params, random_affine(AFFINE, 3, LARGE).params)
    assert not torch.equal(random_affine(AFFINE, 3, LARGE).params, random_affine(AFFINE, 4, LARGE).params)


def test_a_motion_is_the_same_on_voxels_of_any_size() -> None:
    finer = Affine(GRID.refine(2))
    points_mm = MIDDLE + 20 * torch.eye(3, dtype=torch.float64)
    moved_mm = random_affine(AFFINE, 3, LARGE).points(points_mm)
    torch.testing.assert_close(random_affine(finer, 3, LARGE).points(points_mm), moved_mm)


def test_the_published_motion_shifts_and_turns_the_body() -> None:
    body_mm = MIDDLE + 30 * torch.rand(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    # By -30 degrees about y: what points along z leans towards -x.
    half, root = 0.5, math.sqrt(3) / 2
    x, y, z = (body_mm - MIDDLE).T
    turned_mm = torch.stack([root * x - half * z, y, half * x + root * z], dim=1)
    there_mm = MIDDLE + turned_mm + torch.tensor([10.0, 0.0, -20.0])
    # The transform takes points of the moved body back to where they came from.
    torch.testing.assert_close(published_motion(AFFINE).points(there_mm), body_mm)


def test_a_ball_is_seen_where_the_published_motion_takes_it() -> None:
    x, y, z = MIDDLE.tolist()
    ball = Ellipsoid(center_mm=(x, y, z + 16.0), radii_mm=(7.0, 7.0, 7.0), value=1.0)
    volume = torch.from_numpy(ball.voxels(GRID)).double()
    moved = published_motion(AFFINE).warp(GRID)(volume)
    axes = [low + (torch.arange(n) + 0.5) * 2.0 for low, n in zip(GRID.low_mm, GRID.shape, strict=True)]
    center_mm = [
        float((moved.sum(dim=others) * axis).sum() / moved.sum())
        for others, axis in zip(((1, 2), (0, 2), (0, 1)), axes, strict=True)
    ][::-1]
    assert center_mm == pytest.approx([x + 10 - 8, y, z - 20 + 8 * math.sqrt(3)], abs=0.1)
    assert float(moved.sum()) == pytest.approx(float(volume.sum()), rel=0.02)


def test_random_offsets_are_seeded_and_bounded_along_each_axis() -> None:
    spline = BSpline.over(GRID, (9, 9, 9))
    motion, again, other = (random_offsets(spline, seed, (8.0, 4.0, 2.0)) for seed in (0, 0, 1))
    assert torch.equal(motion.params, again.params)
    assert not torch.equal(motion.params, other.params)
    most_mm = motion.physical()["coefficients_mm"].abs().amax(dim=(1, 2, 3))
    bounds_mm = torch.tensor([8.0, 4.0, 2.0], dtype=torch.float64)
    # Of 729 even draws, the largest is near the bound.
    assert (most_mm <= bounds_mm).all()
    assert (most_mm > 0.97 * bounds_mm).all()


@pytest.mark.parametrize(
    ("angles", "from_axis", "to_axis"),
    [((QUARTER, 0.0, 0.0), 1, 2), ((0.0, QUARTER, 0.0), 2, 0), ((0.0, 0.0, QUARTER), 0, 1)],
)
def test_rotations_are_right_handed(angles: tuple[float, float, float], from_axis: int, to_axis: int) -> None:
    assert rotation(*angles) @ np.eye(3)[from_axis] == pytest.approx(np.eye(3)[to_axis])


@given(angles=st.tuples(*[st.floats(-math.pi, math.pi)] * 3))
def test_rotations_turn_about_x_then_y_then_z(angles: tuple[float, float, float]) -> None:
    about_x, about_y, about_z = angles
    turn = rotation(about_x, about_y, about_z)
    in_turn = rotation(0, 0, about_z) @ rotation(0, about_y, 0) @ rotation(about_x, 0, 0)
    assert turn == pytest.approx(in_turn, abs=1e-12)
    assert turn @ turn.T == pytest.approx(np.eye(3), abs=1e-12)
    assert np.linalg.det(turn) == pytest.approx(1.0)
