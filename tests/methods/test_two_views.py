"""Two views of one breast: its size from outlines, and the settings that follow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.mechanics import BetweenViews, BreastShape, Compression, between_views, compress
from duotomo.mechanics.response import HeldView
from duotomo.methods import (
    Priors,
    Study,
    Visit,
    settings_from_dict,
    settings_to_dict,
    two_view_settings,
    with_tissue_behind,
)
from duotomo.methods.held_breast import Footprint, footprint_of, radii_at_rest_mm
from duotomo.methods.level import FINEST
from duotomo.methods.schedule import FIRST_STEPS
from duotomo.operators import Projector
from tests.cases.transforms import compressions

RADII_MM, EDGE_MM, GAP_MM = (42.0, 45.0, 38.0), 3.0, 6.0
ROLLS_DEG, THICK_MM = (0.0, 45.0), (45.0, 42.0)


def sweep(grid: VolumeGrid) -> Acquisition:
    n_v, n_u = (math.ceil((size + 30) / 2) for size in grid.size_mm[1:])
    return Acquisition.arc(
        n_views=7,
        angle_range_rad=math.radians(50),
        source_to_detector_mm=660.0,
        pivot_height_mm=0.0,
        detector_shape=(n_v, n_u),
        pixel_spacing_mm=(2.0, 2.0),
    )


def body(pressed: Compression, grid: VolumeGrid) -> torch.Tensor:
    """Return 0.05/mm in the body, (z, y, x), and none elsewhere."""
    from duotomo.geometry.frame import voxel_centers_mm

    inside = pressed._to_rest.contains(voxel_centers_mm(grid).reshape(-1, 3)).reshape(grid.shape)
    return 0.05 * torch.from_numpy(inside).float()


@pytest.fixture(scope="module")
def study() -> Study:
    visits = []
    for roll_deg, thickness_mm in zip(ROLLS_DEG, THICK_MM, strict=True):
        shape = BreastShape(center_mm=(0.0, 0.0, 0.0), radii_mm=RADII_MM)
        pressed = compress(
            shape,
            thickness_mm=thickness_mm,
            roll_rad=math.radians(roll_deg),
            support_mm=GAP_MM,
            refinements=2,
        )
        n_z = round(thickness_mm / EDGE_MM)
        grid = VolumeGrid.on_detector((n_z, 26, 44), (EDGE_MM,) * 3, gap_mm=GAP_MM)
        scan = sweep(grid)
        views = Projector(grid=grid, acquisition=scan)(body(pressed, grid))
        visits.append(Visit(projections=views, acquisition=scan, grid=grid))
    return Study(grid=visits[0].grid, visits=(replace(visits[0], grid=None), visits[1]))


def test_a_footprint_is_that_of_the_body(study: Study) -> None:
    for visit, roll_deg, thickness_mm in zip(study.visits, ROLLS_DEG, THICK_MM, strict=True):
        found = footprint_of(visit, study.grid_of(visit))
        held = HeldView(thickness_mm=thickness_mm, roll_deg=roll_deg)
        pressed = held.compressed(RADII_MM, roll_deg=roll_deg, thickness_mm=thickness_mm, refinements=2)
        width, depth, _ = pressed.moved_mm.max(axis=0) - pressed.moved_mm.min(axis=0)
        assert found.width_mm == pytest.approx(width, abs=6)
        assert found.depth_mm == pytest.approx(depth, abs=4)
        assert found.middle_mm == pytest.approx(0.0, abs=2)


def test_what_no_ray_with_weight_has_seen_is_no_breast(study: Study) -> None:
    visit, grid = study.visits[0], study.grid
    whole = footprint_of(visit, grid)
    weights = torch.ones_like(visit.projections)
    weights[:, :, : weights.shape[2] // 2] = 0
    half = footprint_of(replace(visit, weights=weights), grid)
    # Rays lean: some that end on the other half cross this one.
    assert whole.width_mm / 2 < half.width_mm < 0.75 * whole.width_mm
    assert half.middle_mm > whole.middle_mm + whole.width_mm / 10


def test_outlines_tell_how_large_a_breast_is_at_rest() -> None:
    held = [HeldView(thickness_mm=t, roll_deg=a) for a, t in zip(ROLLS_DEG, THICK_MM, strict=True)]
    seen = []
    for view in held:
        pressed = view.compressed(
            RADII_MM, roll_deg=view.roll_deg, thickness_mm=view.thickness_mm, refinements=1
        )
        width, depth, _ = pressed.moved_mm.max(axis=0) - pressed.moved_mm.min(axis=0)
        seen.append(Footprint(width_mm=width, depth_mm=depth, middle_mm=0.0))
    assert radii_at_rest_mm(held, seen) == pytest.approx(RADII_MM, rel=0.06)


@pytest.fixture
def without_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model be made of compressions that nobody computed: settings do not depend on them."""
    monkeypatch.setattr(between_views, "_computed", lambda model, grid: compressions(grid))


@pytest.mark.usefixtures("without_elements")
def test_settings_begin_with_modes_and_end_with_control_points(study: Study) -> None:
    settings = two_view_settings(study, roll_deg=45.0, n_steps=7)
    models = [stage.model for stage in settings.stages if stage.model is not None]
    first, last = models[0], models[-1]
    assert isinstance(first, BetweenViews)
    assert (str(first), str(last)) == ("recompression", "recompression+bspline:22mm")
    assert first.radii_mm == pytest.approx(RADII_MM, rel=0.15)
    assert (first.reference.thickness_mm, first.moving.thickness_mm) == pytest.approx(THICK_MM)
    assert (first.reference.roll_deg, first.moving.roll_deg) == ROLLS_DEG
    assert not settings.initial_guess
    assert settings.stages[-1].n_steps == 7
    assert settings_from_dict(settings_to_dict(settings)) == settings


def test_a_volume_goes_on_behind_the_detector_for_the_reference_alone(study: Study) -> None:
    longer = with_tissue_behind(study, 12.0)
    assert longer.grid.shape == (study.grid.shape[0], study.grid.shape[1] + 4, study.grid.shape[2])
    assert longer.grid.high_mm == pytest.approx(study.grid.high_mm)
    assert longer.grid.low_mm[1] == pytest.approx(study.grid.low_mm[1] - 12.0)
    assert longer.grid_of(longer.visits[1]) == study.grid_of(study.visits[1])
    # What the reference does not see has no part in its projections.
    volume = torch.ones(longer.grid.shape)
    seen = Projector(grid=longer.grid, acquisition=longer.reference.acquisition)(volume)
    within = Projector(grid=study.grid, acquisition=study.reference.acquisition)(volume[:, 4:])
    inner = slice(3, None)
    torch.testing.assert_close(seen[:, inner], within[:, inner], rtol=1e-5, atol=1e-3)


@pytest.mark.usefixtures("without_elements")
@pytest.mark.parametrize("control_mm", [22.0, None])
def test_coarse_voxels_have_one_short_stage(study: Study, control_mm: float | None) -> None:
    settings = two_view_settings(study, roll_deg=45.0, control_mm=control_mm)
    first, second, *others = settings.stages
    assert str(first.model) == "recompression"
    assert first.n_steps == FIRST_STEPS
    assert first.coarsen != FINEST
    assert not first.fresh
    assert second.fresh
    assert {stage.coarsen for stage in (second, *others)} == {FINEST}
    assert not any(stage.fresh for stage in others)
    assert settings.priors.bending == pytest.approx(10 * Priors().bending)


@pytest.mark.usefixtures("without_elements")
def test_a_grid_of_one_level_keeps_its_stages(study: Study) -> None:
    coarse = replace(
        study,
        grid=study.grid.coarsen((3, 3, 3)),
        visits=(study.visits[0], replace(study.visits[1], grid=study.grid.coarsen((3, 3, 3)))),
    )
    stages = two_view_settings(coarse, roll_deg=45.0).stages
    assert {stage.coarsen for stage in stages} == {FINEST}
    assert [str(stage.model) for stage in stages[:2]] == ["recompression", "recompression"]


@pytest.mark.usefixtures("without_elements")
def test_plates_may_stand_elsewhere_than_the_faces_of_a_grid(study: Study) -> None:
    plates = ((7.0, 50.0), (8.0, 49.5))
    settings = two_view_settings(study, roll_deg=45.0, plates_mm=plates, control_mm=None)
    model = settings.stages[0].model
    assert isinstance(model, BetweenViews)
    assert (model.reference.support_mm, model.reference.thickness_mm) == (7.0, 43.0)
    assert (model.moving.support_mm, model.moving.thickness_mm) == (8.0, 41.5)
    assert model.control_mm is None


def test_two_views_are_two_visits_of_a_breast(study: Study) -> None:
    with pytest.raises(DuotomoError, match=r"two_view_settings: expected two visits, .*; got 1"):
        two_view_settings(replace(study, visits=study.visits[:1]), roll_deg=45.0)
    visit = study.visits[0]
    everywhere = replace(visit, weights=torch.ones_like(visit.projections))
    spread = replace(everywhere, projections=1e-3 + 0 * visit.projections)
    thin = torch.zeros_like(visit.projections)
    thin[:, 0, 0] = 1.0
    with pytest.raises(DuotomoError, match="footprint_of: expected rays that met a breast"):
        footprint_of(replace(spread, projections=1e-6 + thin), study.grid)
