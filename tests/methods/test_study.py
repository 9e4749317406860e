"""A study that cannot be computed is refused where it is made, with what to do about it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.errors import DeviceError, DtypeError, DuotomoError, GeometryError, NonFiniteError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.methods import Study, Visit
from tests.cases.studies import GRID, SCAN, seen

ONES = torch.ones(SCAN.shape)


def test_projections_must_show_something() -> None:
    with pytest.raises(
        DuotomoError, match="expected projections of an object; got no positive line integral"
    ):
        Visit(projections=torch.zeros(SCAN.shape), acquisition=SCAN)
    with pytest.raises(DuotomoError, match="got no positive line integral"):
        Visit(projections=-ONES, acquisition=SCAN)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_projections_must_be_finite(value: float) -> None:
    bad = ONES.clone()
    bad[3, 2, 1] = value
    with pytest.raises(NonFiniteError, match=r"Visit: expected projections to be finite.*\(3, 2, 1\)"):
        Visit(projections=bad, acquisition=SCAN)
    with pytest.raises(NonFiniteError, match="Visit: expected weights to be finite"):
        Visit(projections=ONES, acquisition=SCAN, weights=bad)


def test_shapes_must_fit_the_scan() -> None:
    with pytest.raises(ShapeError, match=r"expected projections \(view, v, u\) = \(7, 16, 26\).*reversed"):
        Visit(projections=ONES.permute(2, 1, 0), acquisition=SCAN)
    with pytest.raises(ShapeError, match="Wrong number of axes"):
        Visit(projections=ONES[None], acquisition=SCAN)
    with pytest.raises(ShapeError, match=r"expected weights \(view, v, u\)"):
        Visit(projections=ONES, acquisition=SCAN, weights=ONES[1:])


def test_weights_are_inverse_variances() -> None:
    for weights in (-ONES, torch.zeros(SCAN.shape)):
        with pytest.raises(
            DuotomoError, match="expected weights >= 0, some of them positive; got values from"
        ):
            Visit(projections=ONES, acquisition=SCAN, weights=weights)
    with pytest.raises(DtypeError, match=r"expected weights of torch.float32; got torch.float64"):
        Visit(projections=ONES, acquisition=SCAN, weights=ONES.double())


def test_a_study_has_a_reference() -> None:
    with pytest.raises(DuotomoError, match="expected at least one visit; got none"):
        Study(grid=GRID, visits=())


def test_the_reference_lives_on_the_grid_of_the_study() -> None:
    other = replace(seen(), grid=GRID.refine(2))
    with pytest.raises(GeometryError, match="expected the reference visit on the grid of the study"):
        Study(grid=GRID, visits=(other,))
    assert Study(grid=GRID, visits=(replace(seen(), grid=GRID),)).moving == ()


def test_visits_have_one_precision() -> None:
    with pytest.raises(DtypeError, match=r"Study, visit 2: expected projections of torch.float32"):
        Study(grid=GRID, visits=(seen(), seen(dtype=torch.float64)))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_visits_lie_on_one_device() -> None:
    there = replace(seen(), projections=seen().projections.cuda())
    with pytest.raises(DeviceError, match="Study, visit 2: expected projections on device 'cpu'"):
        Study(grid=GRID, visits=(seen(), there))


def test_rays_must_meet_the_grid() -> None:
    far = VolumeGrid(shape=(4, 4, 4), spacing_mm=(3.0, 3.0, 3.0), center_mm=(20.0, 20.0, 900.0))
    with pytest.raises(GeometryError, match=r"visit 1: expected rays that meet the grid, z 14 to 26 mm"):
        Study(grid=far, visits=(seen(),))
    with pytest.raises(
        GeometryError, match=r"Study, visit 2: expected rays .* Check the units and the origin"
    ):
        Study(grid=GRID, visits=(seen(), replace(seen(), grid=far)))


def test_a_visit_has_its_own_grid_or_that_of_the_study() -> None:
    own = GRID.refine(2)
    visits = (seen(), seen(), replace(seen(), grid=own))
    study = Study(grid=GRID, visits=visits)
    assert study.reference is visits[0]
    assert study.moving == visits[1:]
    assert [study.grid_of(visit) for visit in study.visits] == [GRID, GRID, own]
