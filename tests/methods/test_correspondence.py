"""A point of one visit in the other one: its place there, and the ellipsoid about it."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chi2

from duotomo.errors import DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.methods import MotionUncertainty, in_moving, in_reference, matches
from duotomo.methods.correspondence import through
from duotomo.methods.error_levels import quantile
from duotomo.methods.structure import Structure
from duotomo.transforms import (
    Affine,
    BSpline,
    Motion,
    Recompression,
    Transform,
    chain,
    invert_points,
)
from tests.cases.transforms import compressions

GRID = VolumeGrid.on_detector((16, 20, 20), (3.0, 3.0, 3.0), gap_mm=4.0)
POINTS = torch.tensor([[0.0, 20.0, 25.0], [12.0, 30.0, 18.0], [-15.0, 25.0, 35.0]], dtype=torch.float64)
TRANSFORMS = {
    "affine": lambda: Affine(GRID),
    "chain": lambda: chain(Affine, BSpline.shaped((4, 5, 5)))(GRID),
    "recompression": lambda: Recompression(GRID, compressions(GRID, expected_mm=3.0)),
    "recompression and control points": lambda: Recompression(
        GRID, compressions(GRID, expected_mm=3.0), BSpline.over(GRID, (4, 5, 5))
    ),
}


def moved(transform: Transform, spread: float = 0.05) -> MotionUncertainty:
    """Return a motion, and a covariance of rank 8 along which its parameters may be wrong."""
    generator = torch.Generator().manual_seed(3)
    params = 0.2 * torch.randn(transform.n_params, generator=generator, dtype=torch.float64)
    n_modes = min(8, transform.n_params)
    modes = torch.randn(transform.n_params, n_modes, generator=generator, dtype=torch.float64)
    core = spread**2 * torch.eye(n_modes, dtype=torch.float64)
    return MotionUncertainty(motion=Motion(transform, params), form="laplace", modes=modes, core=core)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_ellipsoids_hold_what_drawn_motions_say_in_both_directions(name: str) -> None:
    known = moved(TRANSFORMS[name]())
    drawn = known.samples(400)
    there, back = in_reference(known, POINTS), in_moving(known, POINTS)
    expected = float(chi2.cdf(quantile(0.9), 3))
    forward = torch.stack([there.holds(one.points(POINTS)) for one in drawn]).double().mean(dim=0)
    assert forward.numpy() == pytest.approx(expected, abs=0.05)
    # Where the drawn motions have the points of the reference in the moving visit.
    places = [invert_points(one, POINTS, tolerance_mm=0.01, max_steps=10).xyz_mm for one in drawn[:60]]
    backward = torch.stack([back.holds(one) for one in places])
    assert float(backward.double().mean()) == pytest.approx(expected, abs=0.06)
    assert float((known.motion.points(back.places_mm) - POINTS).norm(dim=-1).max()) < 0.01


@pytest.mark.parametrize("name", TRANSFORMS)
def test_there_and_back_is_the_same_point_and_the_same_doubt(name: str) -> None:
    known = moved(TRANSFORMS[name]())
    there = in_reference(known, POINTS)
    back = in_moving(known, there.places_mm)
    torch.testing.assert_close(back.places_mm, POINTS, atol=0.01, rtol=0)
    jacobian = known.motion.jacobian(POINTS)
    again = jacobian @ back.covariance_mm2 @ jacobian.transpose(-1, -2)
    torch.testing.assert_close(again, there.covariance_mm2, rtol=1e-3, atol=1e-6)


def shifted(deviations_mm: tuple[float, float, float], matrix: torch.Tensor) -> MotionUncertainty:
    """Return a linear motion about which only shifts along x, y and z are unsure."""
    affine = Affine(GRID)
    params = affine.params(matrix=matrix, translation_mm=(0.0, 0.0, 0.0))
    units = torch.eye(3, dtype=torch.float64).tolist()
    eye = torch.eye(3, dtype=torch.float64)
    modes = [affine.params(matrix=eye, translation_mm=unit) - affine.identity() for unit in units]
    core = torch.diag(torch.tensor(deviations_mm, dtype=torch.float64).square())
    return MotionUncertainty(
        motion=Motion(affine, params), form="laplace", modes=torch.stack(modes, dim=1), core=core
    )


def test_a_turn_turns_the_ellipsoid_and_a_stretch_squeezes_it() -> None:
    # By 90 degrees about z, x to y, and to twice the length along z.
    known = shifted((1.0, 2.0, 3.0), torch.tensor([[0, -1, 0], [1, 0, 0], [0, 0, 2]]).double())
    scale, at = math.sqrt(quantile(0.5)), known.motion.points(POINTS)
    there, back = in_reference(known, POINTS, level=0.5), in_moving(known, at, level=0.5)
    for found, reach in ((there, (1.0, 2.0, 3.0)), (back, (2.0, 1.0, 1.5))):
        expected = scale * torch.tensor(reach).double().expand(3, 3)
        torch.testing.assert_close(found.within_mm, expected)
        radii, axes = found.ellipsoids_mm()
        torch.testing.assert_close(radii, expected.sort(dim=-1).values)
        torch.testing.assert_close(axes @ axes.transpose(-1, -2), torch.eye(3).double().expand(3, 3, 3))
        torch.testing.assert_close(found.volume_mm3, 4 / 3 * math.pi * radii.prod(dim=-1))


def test_a_flat_ellipsoid_holds_nothing_beside_its_plane() -> None:
    known = shifted((1.0, 2.0, 0.0), torch.eye(3).double())
    found = in_reference(known, POINTS, level=0.5)
    off = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 0.5], [50.0, 0.0, 0.0]]).double()
    assert found.holds(POINTS + off).tolist() == [True, False, False]
    assert float(found.levels(POINTS + off)[1, 1]) == pytest.approx(1.0)
    assert bool(found.holds(POINTS).all())


def test_an_ellipsoid_does_not_go_back_through_a_motion_that_flattens() -> None:
    jacobian = torch.diag(torch.tensor([1.0, 1.0, 0.0])).double()
    assert bool(through(torch.eye(3).double(), jacobian).isnan().all())


def test_what_is_not_determined_is_not_known_and_not_hidden() -> None:
    transform = BSpline.over(GRID, (4, 5, 5))
    motion = Motion(transform, transform.identity())
    nothing = MotionUncertainty.none(motion, "The run did not converge.")
    for found in (in_reference(nothing, POINTS), in_moving(nothing, POINTS)):
        assert not bool(found.is_known.any())
        assert not bool(found.holds(POINTS).any())
        assert bool(found.ellipsoids_mm()[0].isnan().all())
        assert found.words()[0] == "x 0.0, y 20.0, z 25.0 mm, how surely is not known"
    empty = Structure(grid=GRID, values=torch.zeros(GRID.shape))
    blank = MotionUncertainty(
        motion=motion,
        form="sandwich",
        modes=torch.ones(transform.n_params, 1).double(),
        core=torch.eye(1).double(),
        structure=empty,
    )
    assert not bool(in_reference(blank, POINTS).is_known.any())


def test_a_point_that_nothing_leads_to_has_no_place() -> None:
    transform = BSpline.over(GRID, (5, 5, 5))
    coefficients = torch.zeros(3, *transform.lattice.shape, dtype=torch.float64)
    params = transform.params(coefficients_mm=coefficients)
    # It folds wildly: many points of the reference are not found.
    shift = 400.0 * torch.sin(torch.linspace(0, 60, transform.n_params, dtype=torch.float64))
    known = moved(transform)
    lost = MotionUncertainty(
        motion=Motion(transform, params + shift), form="laplace", modes=known.modes, core=known.core
    )
    found = in_moving(lost, POINTS)
    gone = found.places_mm.isnan().any(dim=-1)
    assert bool(gone.any())
    assert found.words()[int(gone.nonzero()[0, 0])] == "not known: the motion leads nowhere from there"


@pytest.mark.parametrize("ask", [in_reference, in_moving])
def test_points_have_three_coordinates(ask: object) -> None:
    with pytest.raises(ShapeError, match=r"in_(reference|moving): expected xyz_mm"):
        ask(moved(Affine(GRID)), torch.zeros(4, 2))  # type: ignore[operator]


@pytest.mark.parametrize("level", [0.0, 1.0, 90.0, math.nan])
def test_a_level_is_a_probability(level: float) -> None:
    with pytest.raises(DuotomoError, match="expected a level between 0 and 1; got"):
        matches(moved(Affine(GRID)), POINTS, POINTS, level=level)


def test_levels_are_those_of_the_ellipsoids() -> None:
    known = moved(TRANSFORMS["affine"]())
    found = in_reference(known, POINTS, level=0.8)
    radii, axes = found.ellipsoids_mm()
    # The ends of the half axes lie on the ellipsoids; the places themselves are within all of them.
    for axis in range(3):
        ends = found.places_mm + radii[:, axis, None] * axes[..., axis]
        assert found.levels(ends).diagonal().numpy() == pytest.approx(0.8)
    assert found.levels(found.places_mm).diagonal().numpy() == pytest.approx(0.0, abs=1e-6)
    nothing = MotionUncertainty.none(known.motion, "The run did not converge.")
    assert bool(in_reference(nothing, POINTS).levels(POINTS).isnan().all())


@pytest.mark.parametrize("name", ["affine", "recompression"])
def test_findings_of_two_views_are_matched_by_ellipsoids(name: str) -> None:
    known = moved(TRANSFORMS[name]())
    truth = in_moving(known.__class__(**{**vars(known), "motion": known.samples(1, seed=5)[0]}), POINTS)
    order = torch.tensor([2, 0, 1])
    far = torch.tensor([[80.0, 80.0, 80.0]])
    found = matches(known, POINTS, torch.cat([truth.places_mm[order], far]), level=0.99)
    pairs = {(one.reference, one.moving) for one in found}
    assert {(0, 1), (1, 2), (2, 0)} <= pairs
    assert all(one.moving != 3 for one in found)
    assert [one.level for one in found] == sorted(one.level for one in found)
    nothing = MotionUncertainty.none(known.motion, "The run did not converge.")
    assert matches(nothing, POINTS, POINTS) == ()
