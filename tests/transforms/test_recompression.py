"""Motions between two compressions: what is particular to them, beside the laws of all transforms."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from duotomo.errors import DuotomoError, ShapeError
from duotomo.transforms import BSpline, Motion, Translation
from duotomo.transforms.compressions import Response
from duotomo.transforms.recompression import Recompression
from tests.cases.transforms import MOVING, REFERENCE, compressions, draw_params, normal

PREDICTING = compressions(REFERENCE, expected_mm=0.8)
POINTS = normal((20, 3), seed=3) + torch.tensor(REFERENCE.center_mm[::-1], dtype=torch.float64)


def test_zeros_are_what_is_expected_of_the_modes() -> None:
    transform = Recompression(REFERENCE, PREDICTING)
    modes = transform.physical(transform.identity())["modes"]
    assert isinstance(modes, dict)
    assert [float(value) for value in modes.values()] == [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 40.0, 40.0]
    moved = transform.points(transform.identity(), POINTS) - POINTS
    assert float(moved.norm(dim=-1).min()) > 0.1


def test_no_mode_leaves_its_reach() -> None:
    transform = Recompression(REFERENCE, PREDICTING)
    far = transform.physical(torch.full((transform.n_params,), 1e3, dtype=torch.float64))["modes"]
    assert isinstance(far, dict)
    assert float(far["roll_moving_deg"]) == pytest.approx(12.0)
    assert float(far["thickness_mm"]) == pytest.approx(44.0)


def test_a_roll_alone_turns_about_the_middle_of_the_chest_wall() -> None:
    still = compressions(REFERENCE)
    of = {name: replace(getattr(still, name), coefficients=0 * getattr(still, name).coefficients)
          for name in ("release", "press")}  # fmt: skip
    center_mm = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    there_mm = torch.tensor([4.0, 6.0, 5.0], dtype=torch.float64)
    bare = replace(still, **of, moving_center_mm=(1.0, 2.0, 3.0), reference_center_mm=(4.0, 6.0, 5.0))
    transform = Recompression(REFERENCE, bare)
    params = transform.params(modes={"roll_reference_deg": 10.0, "shift_x_mm": 0.5})
    z_axis = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    moved = transform.points(params, torch.stack([center_mm, center_mm + z_axis])) - there_mm
    assert moved[0].tolist() == pytest.approx([0.5, 0.0, 0.0])
    # A positive roll takes z towards x.
    turned = [math.sin(math.radians(10.0)), 0.0, math.cos(math.radians(10.0))]
    assert (moved[1] - moved[0]).tolist() == pytest.approx(turned)


def test_the_first_motion_of_a_run_is_what_mechanics_predicts() -> None:
    transform = Recompression(REFERENCE, PREDICTING)
    start = Translation(REFERENCE)
    assert not bool(Motion(start, start.identity()).convert(transform).params.any())


@pytest.mark.parametrize("spacing_mm", [9.0, 4.0])
def test_modes_are_kept_and_control_points_refined(spacing_mm: float) -> None:
    coarse = Recompression(MOVING, PREDICTING, _spline(9.0))
    motion = Motion(coarse, draw_params(coarse, seed=4, size_voxels=0.5))
    finer = Recompression(REFERENCE, PREDICTING, _spline(spacing_mm))
    there = motion.convert(finer)
    assert float((there.points(POINTS) - motion.points(POINTS)).norm(dim=-1).max()) < 0.05
    bare = Motion(coarse, motion.params * (torch.arange(coarse.n_params) < coarse.n_modes))
    modes = bare.convert(Recompression(MOVING, PREDICTING))
    assert float((modes.points(POINTS) - bare.points(POINTS)).abs().max()) < 1e-9


def _spline(spacing_mm: float) -> BSpline:
    found = BSpline.spaced(spacing_mm)(MOVING)
    assert isinstance(found, BSpline)
    return found


def test_bad_values_are_refused() -> None:
    transform = Recompression(REFERENCE, PREDICTING)
    with pytest.raises(DuotomoError, match=r"expected modes of roll_moving_deg, .*; got 'roll'"):
        transform.params(modes={"roll": 1.0})
    with pytest.raises(DuotomoError, match="expected roll_moving_deg within 12 of 0; got 12"):
        transform.params(modes={"roll_moving_deg": 12.0})
    with pytest.raises(DuotomoError, match="expected no coefficients_mm"):
        transform.params(modes={}, coefficients_mm=torch.zeros(3, 4, 4, 5))
    with pytest.raises(DuotomoError, match=r"expected 6 modes or more, .*; got 2"):
        replace(PREDICTING, modes=PREDICTING.modes[:2])
    with pytest.raises(ShapeError, match=r"expected coefficients .* = \(3, 3, 7, 7, 7\); got \(10, 3"):
        Response(lattice=PREDICTING.release.lattice, modes=(0,), coefficients=PREDICTING.release.coefficients)
