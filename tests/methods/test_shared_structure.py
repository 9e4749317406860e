"""Structure inside the breast tells visits of one breast from those of two, whatever the exposure."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.geometry import VolumeGrid, paper
from duotomo.methods import Priors, Settings, Study, Visit
from duotomo.methods.scales import scales_of
from duotomo.methods.sequential import one_visit
from duotomo.methods.shared_structure import SharedStructure, shared_structure
from duotomo.operators import Projector
from duotomo.transforms import Motion, Translation

GRID = VolumeGrid.on_detector((12, 24, 28), (4.0, 4.0, 4.0), gap_mm=5.0)
SCAN = paper(detector_shape=(60, 90), pixel_mm=2.0)
SHIFT_MM = (3.0, 2.0, -1.0)
SIGMA = 0.002


def body(seed: int) -> torch.Tensor:
    """Return an ellipsoid of one outline for all seeds, with lumps of some 12 mm inside."""
    z, y, x = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in GRID.shape), indexing="ij")
    inside = (z / 0.9).square() + (y / 0.9).square() + (x / 0.9).square() < 1
    drawn = torch.randn((1, 1, 6, 10, 12), generator=torch.Generator().manual_seed(seed))
    inner = torch.nn.functional.interpolate(drawn, size=GRID.shape, mode="trilinear")[0, 0]
    return torch.where(inside, 0.05 + 0.03 * inner.clamp(-1, 1), 0.0)


def motion(shift_mm: tuple[float, float, float]) -> Motion:
    translation = Translation(GRID)
    return Motion(translation, translation.params(translation_mm=shift_mm))


def study(other: torch.Tensor, *, gain: float = 1.0) -> Study:
    """Return a study whose second visit shows another body, moved."""
    project = Projector(grid=GRID, acquisition=SCAN)
    draw = torch.Generator().manual_seed(0)
    visits = []
    for volume in (body(1), motion(SHIFT_MM).warp(GRID)(other)):
        views = project(volume)
        noise = SIGMA * torch.randn(views.shape, generator=draw)
        visits.append(Visit(projections=views + noise, acquisition=SCAN))
    visits[1] = replace(visits[1], projections=gain * visits[1].projections)
    return Study(grid=GRID, visits=tuple(visits))


def found(data: Study, shift_mm: tuple[float, float, float] = SHIFT_MM) -> SharedStructure:
    (one,) = shared_structure(data, Settings.staged(GRID, Translation), [motion(shift_mm)])
    return one


def test_scales_of_the_reference_are_those_of_a_study_of_it_alone() -> None:
    data, priors = study(body(2)), Priors()
    assert scales_of(data, priors).of_visit(0) == scales_of(one_visit(data, 0), priors)


def test_one_breast_shows_one_structure() -> None:
    assert found(study(body(1))).correlation > 0.9


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_two_breasts_of_one_outline_do_not(seed: int) -> None:
    assert found(study(body(seed))).correlation < 0.6


def test_a_motion_that_is_off_shows() -> None:
    right, wrong = (found(study(body(1)), shift).correlation for shift in (SHIFT_MM, (-9.0, -10.0, -1.0)))
    assert wrong < right - 0.2


def test_the_exposure_does_not_matter() -> None:
    bright, plain = found(study(body(1), gain=1.2)), found(study(body(1)))
    assert bright.correlation == pytest.approx(plain.correlation, abs=0.02)
    assert bright.structure == pytest.approx(1.2 * plain.structure, rel=0.05)


def test_structure_is_told_from_noise() -> None:
    """The noise is that of pixels as the level combines them: here two and two."""
    one = found(study(body(1)))
    assert SIGMA / 3 < one.noise < 2 * SIGMA
    assert one.structure > 20 * one.noise


def test_a_breast_that_fills_no_view_has_nothing_inside() -> None:
    """Of a body that is all rim, nothing is compared."""
    data = study(body(1))
    views = torch.zeros_like(data.moving[0].projections)
    views[:, 20:24, 40:44] = 1.0
    one = found(Study(grid=GRID, visits=(data.reference, replace(data.moving[0], projections=views))))
    assert (one.correlation, one.structure) == (0.0, 0.0)
