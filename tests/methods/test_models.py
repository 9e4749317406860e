"""Motion is carried from model to model without loss where it can be, and to the nearest elsewhere."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods import Model, carried_over
from duotomo.transforms import Affine, Rigid, Translation, Velocity
from tests.strategies import sixteenths

GRID = VolumeGrid(shape=(8, 9, 10), spacing_mm=(2.0, 1.5, 1.0), center_mm=(30.0, 20.0, -5.0))
LADDER = [Model("translation"), Model("rigid"), Model("affine"), Model("bspline", (5, 6, 5))]

small = st.lists(sixteenths(-1, 1), min_size=12, max_size=12).map(lambda row: torch.tensor(row).double())


def places() -> torch.Tensor:
    """Return points of the grid's box, xyz."""
    low, high = (torch.tensor(edge[::-1]).double() for edge in (GRID.low_mm, GRID.high_mm))
    steps = torch.linspace(0.1, 0.9, 4).double()
    return low + torch.cartesian_prod(steps, steps, steps) * (high - low)


@pytest.mark.parametrize("low", range(4))
@pytest.mark.parametrize("high", range(4))
@settings(max_examples=8)
@given(row=small)
def test_a_softer_model_moves_points_as_the_stiffer_did(low: int, high: int, row: torch.Tensor) -> None:
    if low > high or LADDER[low].name == "bspline":
        return
    source, target = LADDER[low].build(GRID), LADDER[high].build(GRID)
    params = row[: source.n_params]
    carried = carried_over(source, params, target)
    expected, got = source.points(params, places()), target.points(carried, places())
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)


@given(row=small)
def test_going_down_a_translation_takes_the_mean_displacement(row: torch.Tensor) -> None:
    affine, shift = Affine(GRID), Translation(GRID)
    carried = shift.physical(carried_over(affine, row, shift))["translation_mm"]
    middle = torch.tensor(GRID.center_mm[::-1]).double()
    torch.testing.assert_close(carried, affine.points(row, middle) - middle, atol=1e-9, rtol=0)


@given(row=small)
def test_going_down_a_rigid_motion_leaves_out_the_strain(row: torch.Tensor) -> None:
    rigid, affine = Rigid(GRID), Affine(GRID)
    turn = carried_over(rigid, row[:6], affine)
    torch.testing.assert_close(carried_over(affine, turn, rigid), row[:6], atol=1e-7, rtol=0)
    # A stretch along the axes has no rotation in it.
    stretch = affine.params(
        matrix=torch.diag(torch.tensor([1.1, 0.9, 1.05]).double()), translation_mm=(0, 0, 0)
    )
    torch.testing.assert_close(carried_over(affine, stretch, rigid), rigid.identity(), atol=1e-9, rtol=0)


def test_transforms_may_turn_about_any_centre() -> None:
    source = Rigid(GRID, center_mm=(4.0, 5.0, 6.0))
    params = source.params(rotation_deg=(5.0, -8.0, 3.0), translation_mm=(1.0, 2.0, 3.0))
    for target in (Rigid(GRID, center_mm=(-3.0, 9.0, 1.0)), Affine(GRID, center_mm=(0.0, 0.0, 70.0))):
        carried = carried_over(source, params, target)
        torch.testing.assert_close(
            target.points(carried, places()), source.points(params, places()), atol=1e-8, rtol=0
        )


def test_a_model_that_has_no_nearest_is_refused() -> None:
    shift, velocity = Translation(GRID), Velocity.over(GRID, (5, 5, 5))
    with pytest.raises(DuotomoError, match=r"to carry to; got Velocity\. Start it from its identity"):
        carried_over(shift, shift.identity(), velocity)


@given(st.sampled_from([*LADDER, Model("bspline", (9, 7, 12))]))
def test_a_model_is_what_its_text_says(model: Model) -> None:
    assert Model.parse(str(model)) == model
    assert eval(repr(model)) == model


@pytest.mark.parametrize("text", ["elastic", "bspline", "affine:4,4,4", "", "Affine"])
def test_unknown_models_are_refused(text: str) -> None:
    with pytest.raises(DuotomoError, match="expected translation, rigid, affine or bspline with its control"):
        Model.parse(text)


@pytest.mark.parametrize(
    "text", ["bspline:4", "bspline:4,4", "bspline:a,b,c", "bspline:1,2,3,4", "bspline:4,4,"]
)
def test_control_points_are_three_counts(text: str) -> None:
    with pytest.raises(DuotomoError, match=r"expected three counts of control points \(z, y, x\); got"):
        Model.parse(text)
