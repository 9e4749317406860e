"""Laws of simulated visits: the truth explains them, the motion connects them, seeds repeat them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.operators import Projector
from duotomo.simulate import PhantomKind, SimulatedVisits, SimulationOptions, demo_pair, make_visits
from duotomo.simulate.options import LesionVisits
from duotomo.simulate.visits import machine_acquisition

COARSE = SimulationOptions(n_views=3, pixel_mm=4.0, second_visit=True)
SQUEEZED = replace(COARSE, compressed=True, thickness_mm=46.0, lesion=LesionVisits.FIRST)


@pytest.fixture(scope="module")
def squeezed() -> SimulatedVisits:
    return make_visits(replace(SQUEEZED, shift_mm=(2.0, 0.0, 0.0)))


@pytest.fixture(scope="module")
def demo() -> SimulatedVisits:
    return demo_pair(voxel_mm=4.0)


@pytest.mark.parametrize("phantom", PhantomKind)
def test_the_truth_explains_the_scans(phantom: PhantomKind) -> None:
    pair = make_visits(replace(COARSE, phantom=phantom))
    assert len(pair.visits) == 2
    for visit in pair.visits:
        explained = Projector(grid=visit.grid, acquisition=pair.acquisition)(visit.truth)
        assert (explained - visit.projections).norm() < 0.1 * visit.projections.norm()
        assert visit.photons == pytest.approx(270_000 * 4.0**2, rel=0.05)


def test_the_motion_takes_the_second_visit_to_the_first() -> None:
    pair = make_visits(replace(COARSE, phantom=PhantomKind.TOROID, roll_deg=0.0, shift_mm=(4.0, 0.0, 0.0)))
    assert pair.motion is not None
    # What stands at x = 4 mm at the second visit stood at 0 before.
    moved_mm = pair.motion.points(torch.tensor([[4.0, 20.0, 20.0]], dtype=torch.float64))
    torch.testing.assert_close(moved_mm, torch.tensor([[0.0, 20.0, 20.0]], dtype=torch.float64))


def test_one_visit_has_no_motion_and_no_landmarks() -> None:
    one = make_visits(replace(COARSE, second_visit=False))
    assert len(one.visits) == 1
    assert one.motion is None
    assert one.lesion_mm is None
    with pytest.raises(DuotomoError, match="landmarks_mm: expected two visits of a breast; got 1 of"):
        one.landmarks_mm()


def test_compressed_visits_are_as_thick_as_the_plates_allow(squeezed: SimulatedVisits) -> None:
    assert [visit.thickness_mm for visit in squeezed.visits] == pytest.approx([46.0, 0.92 * 46.0])


def test_landmarks_go_where_the_motion_takes_them(squeezed: SimulatedVisits) -> None:
    rigid = make_visits(COARSE)
    for pair, most_mm in ((squeezed, 0.1), (rigid, 1e-9)):
        moving_mm, reference_mm = pair.landmarks_mm(6.0)
        assert pair.motion is not None
        assert len(moving_mm) > 100
        off_mm = (pair.motion.points(moving_mm) - reference_mm).norm(dim=1)
        assert float(off_mm.mean()) < most_mm
        assert float((moving_mm - reference_mm).norm(dim=1).mean()) > 1.0


def test_the_lesion_is_where_it_is_said_to_be(squeezed: SimulatedVisits) -> None:
    without = make_visits(replace(SQUEEZED, shift_mm=(2.0, 0.0, 0.0), lesion=LesionVisits.NONE))
    first, second = (
        one.truth - other.truth for one, other in zip(squeezed.visits, without.visits, strict=True)
    )
    assert float(second.abs().max()) == 0.0
    assert squeezed.lesion_mm is not None
    grid = squeezed.visits[0].grid
    weights = first.clamp(min=0).double()
    center_mm = [
        float((weights.sum(dim=others) * (low + (torch.arange(n) + 0.5) * d)).sum() / weights.sum())
        for others, low, n, d in zip(
            ((0, 1), (0, 2), (1, 2)), grid.low_mm[::-1], grid.shape[::-1], grid.spacing_mm[::-1], strict=True
        )
    ]
    assert center_mm == pytest.approx(squeezed.lesion_mm, abs=2.0)


def test_seeds_repeat_the_scans_and_differ_between_visits() -> None:
    options = replace(COARSE, phantom=PhantomKind.TOROID, roll_deg=0.0)
    one, again, other = (make_visits(replace(options, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(one.visits[0].projections, again.visits[0].projections)
    assert not torch.equal(one.visits[0].projections, other.visits[0].projections)
    assert (options.noise_seed(1), options.noise_seed(2)) == (1, 2)
    assert replace(options, noise_seeds=(8, 9)).noise_seed(2) == 9


def test_the_demo_is_a_thicker_and_turned_prior_and_a_new_mass(demo: SimulatedVisits) -> None:
    assert [visit.thickness_mm for visit in demo.visits] == pytest.approx([44.0, 48.0])
    assert demo.options.lesion is LesionVisits.FIRST
    assert demo.acquisition.shape == (11, 14, 38)
    moving_mm, reference_mm = demo.landmarks_mm()
    assert 1.0 < float((moving_mm - reference_mm).norm(dim=1).mean()) < 10.0


def test_machines_give_fewer_views_and_larger_pixels() -> None:
    whole = machine_acquisition("paper", pixel_mm=1.0)
    some = machine_acquisition("paper", n_views=3, pixel_mm=2.0)
    assert some.n_views == 3
    assert some.detector_shape == tuple(n // 2 for n in whole.detector_shape)
    assert some.angles_rad.tolist() == pytest.approx(whole.angles_rad[[0, 5, 10]].tolist())
    assert machine_acquisition("paper", n_views=1).angles_rad.tolist() == pytest.approx([0.0])


def test_unknown_machines_and_too_many_views_are_refused() -> None:
    with pytest.raises(GeometryError, match=r"expected `machine` as one of .*paper.*; got 'magic'"):
        machine_acquisition("magic")
    with pytest.raises(GeometryError, match=r"expected `n_views` of at most 11, which paper has; got 12"):
        machine_acquisition("paper", n_views=12)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"compressed": True, "phantom": PhantomKind.TOROID},
            "expected `phantom='breast'` with `compressed`; got toroid",
        ),
        ({"lesion": LesionVisits.SECOND}, "expected `second_visit` with `lesion='second'`; got one visit"),
        ({"photons_per_mm2": 0.0}, "expected `photons_per_mm2` above 0; got 0.0"),
        ({"radii_mm": (1.0, 0.0, 1.0)}, "expected `radii_mm` above 0; got"),
    ],
)
def test_what_cannot_be_simulated_is_refused(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(DuotomoError, match=match):
        SimulationOptions(**changes)


def test_options_load_nothing_heavy() -> None:
    code = "import sys, duotomo.simulate.options; print([m for m in ('numpy', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
