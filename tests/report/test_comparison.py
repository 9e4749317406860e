"""A result beside the truth: registration brings tissue to its place, and a new lesion stands out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from duotomo.errors import DuotomoError
from duotomo.methods import Result, resample_to_reference
from duotomo.report.comparison import Comparison, compare_with_truth, draw_comparison
from duotomo.simulate import SimulatedVisits, SimulationOptions, make_visits
from duotomo.simulate.options import LesionVisits
from duotomo.solvers import Status


@pytest.fixture(scope="module")
def pair() -> SimulatedVisits:
    options = SimulationOptions(
        n_views=3, pixel_mm=3.0, second_visit=True, shift_mm=(6.0, 0.0, 0.0), lesion=LesionVisits.FIRST
    )
    return make_visits(options)


@pytest.fixture(scope="module")
def perfect(pair: SimulatedVisits) -> Result:
    """Return a result that knows the truth."""
    first, second = pair.visits
    assert pair.motion is not None
    registered = resample_to_reference(second.truth, pair.motion, grid=first.grid, moving_grid=second.grid)
    return Result(
        method="truth",
        grid=first.grid,
        volume=first.truth,
        others={"visit_1": first.truth, "visit_2": second.truth, "visit_2_registered": registered},
        motions=(pair.motion,),
        status=Status.CONVERGED,
        reason="It was told.",
        applications=0,
        seconds=0.0,
        history=(),
    )


@pytest.fixture(scope="module")
def found(perfect: Result, pair: SimulatedVisits) -> Comparison:
    return compare_with_truth(perfect, pair)


def test_the_true_motion_has_no_error(found: Comparison) -> None:
    before_mm, after_mm = found.tre_mm
    assert before_mm > 5.0
    assert after_mm < 1e-6


def test_the_lesion_stands_out_once_the_visits_are_registered(found: Comparison) -> None:
    before, after = found.changes
    assert after.elsewhere_per_mm < 0.5 * before.elsewhere_per_mm
    assert after.contrast > 2 * before.contrast
    assert after.lesion_per_mm > 0.005


def test_the_figure_is_a_picture(found: Comparison, tmp_path: Path) -> None:
    with Image.open(draw_comparison(tmp_path / "change", found)) as image:
        assert image.width > 1000
    assert (tmp_path / "change.svg").exists()


def test_without_a_lesion_or_the_visits_volumes_it_is_refused(perfect: Result, pair: SimulatedVisits) -> None:
    without = replace(pair, options=replace(pair.options, lesion=LesionVisits.NONE))
    with pytest.raises(DuotomoError, match="compare_with_truth: expected visits with a lesion; got none"):
        compare_with_truth(perfect, without)
    bare = replace(perfect, others={"visit_1": torch.zeros(perfect.grid.shape)})
    with pytest.raises(DuotomoError, match="got none named visit_2, visit_2_registered"):
        compare_with_truth(bare, pair)
