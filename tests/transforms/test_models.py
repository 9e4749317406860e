"""Models build transforms; a motion is converted without loss where it can be, else to the nearest."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.transforms import Affine, BSpline, Composition, Motion, Rigid, Transform, Translation, Velocity
from duotomo.transforms.maps import MatrixMap
from duotomo.transforms.models import LatticeModel, Model, chain, model_name
from tests.strategies import sixteenths

GRID = VolumeGrid(shape=(8, 9, 10), spacing_mm=(2.0, 1.5, 1.0), center_mm=(30.0, 20.0, -5.0))
LINEAR: list[Model] = [Translation, Rigid, Affine]
LADDER = [*LINEAR, BSpline.shaped((5, 6, 5))]

small = st.lists(sixteenths(-1, 1), min_size=12, max_size=12).map(lambda row: torch.tensor(row).double())


def places() -> torch.Tensor:
    """Return points of the grid's box, xyz."""
    low, high = (torch.tensor(edge[::-1]).double() for edge in (GRID.low_mm, GRID.high_mm))
    steps = torch.linspace(0.1, 0.9, 4).double()
    return low + torch.cartesian_prod(steps, steps, steps) * (high - low)


def moved(model: Model, row: torch.Tensor) -> Motion:
    transform = model(GRID)
    return Motion(transform, row[: transform.n_params])


@pytest.mark.parametrize("low", range(3))
@pytest.mark.parametrize("high", range(4))
@settings(max_examples=8)
@given(row=small)
def test_a_softer_model_moves_points_as_the_stiffer_did(low: int, high: int, row: torch.Tensor) -> None:
    if low > high:
        return
    motion = moved(LINEAR[low], row)
    converted = motion.convert(LADDER[high](GRID))
    torch.testing.assert_close(converted.points(places()), motion.points(places()), atol=1e-6, rtol=0)


@given(row=small)
def test_going_down_a_translation_takes_the_mean_displacement(row: torch.Tensor) -> None:
    affine = moved(Affine, row)
    shift_mm = affine.convert(Translation(GRID)).physical()["translation_mm"]
    middle = torch.tensor(GRID.center_mm[::-1]).double()
    torch.testing.assert_close(shift_mm, affine.points(middle) - middle, atol=1e-9, rtol=0)


@given(row=small)
def test_going_down_a_rigid_motion_leaves_out_the_strain(row: torch.Tensor) -> None:
    rigid, affine = Rigid(GRID), Affine(GRID)
    turn = Motion(rigid, row[:6]).convert(affine)
    torch.testing.assert_close(turn.convert(rigid).params, row[:6], atol=1e-7, rtol=0)
    # A stretch along the axes has no rotation in it.
    matrix = torch.diag(torch.tensor([1.1, 0.9, 1.05]).double())
    stretch = Motion(affine, affine.params(matrix=matrix, translation_mm=(0, 0, 0)))
    torch.testing.assert_close(stretch.convert(rigid).params, rigid.identity(), atol=1e-9, rtol=0)


def test_transforms_may_turn_about_any_centre() -> None:
    source = Rigid(GRID, center_mm=(4.0, 5.0, 6.0))
    params = source.params(rotation_deg=(5.0, -8.0, 3.0), translation_mm=(1.0, 2.0, 3.0))
    motion = Motion(source, params)
    for target in (Rigid(GRID, center_mm=(-3.0, 9.0, 1.0)), Affine(GRID, center_mm=(0.0, 0.0, 70.0))):
        got = motion.convert(target).points(places())
        torch.testing.assert_close(got, motion.points(places()), atol=1e-8, rtol=0)


@pytest.mark.parametrize("model", [Translation, Rigid, Affine])
@pytest.mark.parametrize(
    ("target", "atol_mm"),
    [
        (chain(Affine, BSpline.shaped((4, 4, 4))), 1e-6),
        (chain(Translation, Affine), 1e-6),
        (chain(BSpline.shaped((4, 4, 4)), Affine), 0.01),
        (Velocity.shaped((6, 6, 6)), 0.02),
    ],
    ids=str,
)
def test_chains_and_velocities_follow_linear_motions(model: Model, target: Model, atol_mm: float) -> None:
    motion = moved(model, 0.5 * torch.linspace(-1, 1, 12).double())
    converted = motion.convert(target(GRID))
    torch.testing.assert_close(converted.points(places()), motion.points(places()), atol=atol_mm, rtol=0)


def test_a_velocity_follows_a_spline() -> None:
    spline = BSpline.over(GRID, (5, 5, 5))
    generator = torch.Generator().manual_seed(1)
    motion = Motion(spline, 0.4 * torch.randn(spline.n_params, generator=generator).double())
    found = motion.convert(Velocity.over(GRID, (5, 5, 5)))
    off_mm, size_mm = (
        d.norm(dim=0).mean() for d in (found.displacement() - motion.displacement(), motion.displacement())
    )
    assert off_mm < 0.05 * size_mm


class Shear(Transform):
    """x moves with z: a transform that knows nothing of conversions."""

    n_params = 1

    def __init__(self, grid: VolumeGrid) -> None:
        self.grid = grid

    def maps(self, params: torch.Tensor) -> tuple[MatrixMap, ...]:
        unit = torch.zeros(3, 4, dtype=torch.float64)
        unit[0, 2], unit[0, 3] = 1.0, -self.grid.center_mm[0]
        return (MatrixMap(matrix=torch.eye(3, 4, dtype=torch.float64) + 0.1 * params[0] * unit),)

    def physical(self, params: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"shear": 0.1 * self.check(params)}


def test_a_transform_of_others_is_converted_by_fitting() -> None:
    affine, shear = Affine(GRID), Shear(GRID)
    matrix = torch.eye(3).double()
    matrix[0, 2] = 0.07
    motion = Motion(affine, affine.params(matrix=matrix, translation_mm=(0, 0, 0)))
    found = motion.convert(shear)
    assert float(found.physical()["shear"][0]) == pytest.approx(0.07, abs=1e-6)
    back = found.convert(affine)
    torch.testing.assert_close(back.points(places()), found.points(places()), atol=1e-8, rtol=0)


class Detached(Shear):
    """Its parameters are lost on the way to the matrix."""

    def maps(self, params: torch.Tensor) -> tuple[MatrixMap, ...]:
        return super().maps(torch.from_numpy(params.numpy()))


def test_maps_that_cannot_be_differentiated_are_refused() -> None:
    shift = Translation(GRID)
    motion = Motion(shift, shift.params(translation_mm=(1.0, 0.0, 0.0)))
    with pytest.raises(DuotomoError, match=r"convert: expected a transform whose maps are differentiable"):
        motion.convert(Detached(GRID))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Translation, "translation"),
        (Affine, "affine"),
        (BSpline.shaped((9, 7, 12)), "bspline:9,7,12"),
        (BSpline.spaced(25.0), "bspline:25mm"),
        (Velocity.spaced(12.5), "velocity:12.5mm"),
        (chain(Affine, BSpline.spaced(25.0)), "affine+bspline:25mm"),
    ],
)
def test_models_have_names_and_build_what_they_name(model: Model, name: str) -> None:
    assert model_name(model) == name
    transform = model(GRID)
    assert transform.grid == GRID
    assert transform.n_params == len(transform.identity())
    assert hash(model) == hash(model)


@given(spacing_mm=st.floats(3.0, 60.0))
def test_control_points_are_no_farther_apart_than_asked_for(spacing_mm: float) -> None:
    transform = BSpline.spaced(spacing_mm)(GRID)
    assert isinstance(transform, BSpline)
    assert all(d <= spacing_mm * (1 + 1e-9) for d in transform.lattice.spacing_mm)
    for n, size in zip(transform.lattice.shape, GRID.size_mm, strict=True):
        # One control point fewer would be too few.
        assert n == 4 or size / (n - 4) > spacing_mm * (1 - 1e-9)


def test_what_a_chain_is_made_of() -> None:
    transform = chain(Affine, BSpline.shaped((4, 4, 5)), Velocity.shaped((4, 5, 4)))(GRID)
    assert isinstance(transform, Composition)
    assert [start for start, _ in transform.lattice_parts()] == [12, 12 + 3 * 80]
    assert transform.control_spacing_mm == tuple(
        min(pair) for pair in zip((16.0, 13.5, 5.0), (16.0, 6.75, 10.0), strict=True)
    )
    assert chain(Translation, Rigid)(GRID).control_spacing_mm is None


def test_models_that_cannot_be() -> None:
    with pytest.raises(DuotomoError, match=r"expected control_shape or spacing_mm; got None and None"):
        LatticeModel(BSpline)
    with pytest.raises(DuotomoError, match=r"BSpline: expected spacing_mm above 0 and finite; got -1"):
        BSpline.spaced(-1.0)
    with pytest.raises(DuotomoError, match=r"Velocity: expected at most 10000000 control points; got 999"):
        Velocity.shaped((999, 999, 999))
    with pytest.raises(DuotomoError, match=r"BSpline: expected at most 10000000 control points"):
        BSpline.spaced(1e-3)(GRID)
    with pytest.raises(DuotomoError, match=r"chain: expected two models or more; got 1"):
        chain(Affine)
