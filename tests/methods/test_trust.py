"""What is wrong with a result or its data is said, with its likely cause, and without the truth."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import pytest
import torch

from duotomo.geometry import Acquisition
from duotomo.methods import Result, Settings, Study, Visit, quality_of, simultaneous, trust
from duotomo.methods import input_checks as input_checks_module
from duotomo.methods.held_back import HeldBack, held_back
from duotomo.methods.input_checks import Check, input_checks
from duotomo.methods.settings import Stage
from duotomo.methods.shared_structure import SharedStructure
from duotomo.methods.trust import Trust, trust_of, trust_of_run
from duotomo.operators import Projector
from duotomo.solvers import Status
from duotomo.transforms import Affine, BSpline, Motion, Recompression, Translation
from tests.cases.studies import GRID, SCAN, seen, shifted, study, truth
from tests.cases.transforms import compressions

SHIFT = shifted(3.0, 0.0, 2.0)


@cache
def given() -> Study:
    return study(SHIFT)


def with_moving(**changes: object) -> Study:
    """Return the study with changes to its second visit."""
    moving = replace(given().moving[0], **changes)  # type: ignore[arg-type]
    return Study(grid=GRID, visits=(given().reference, moving))


def result(motion: Motion = SHIFT, *, status: Status = Status.CONVERGED) -> Result:
    return Result(
        method="known motion",
        grid=GRID,
        volume=truth(),
        motions=(motion,),
        status=status,
        reason="The limit of 3 steps was reached.",
        applications=1,
        seconds=1.0,
        history=(),
    )


def settings() -> Settings:
    return Settings.staged(GRID, Translation)


def failures(data: Study) -> dict[str, str]:
    return {check.name: check.text for check in input_checks(data) if not check.passed}


def moved_scan(
    *,
    source: tuple[float, float, float] = (0.0, 0.0, 0.0),
    detector: float = 0.0,
    sources: torch.Tensor | None = None,
) -> Acquisition:
    """Return the scan with other sources, or its source shifted, or its detector shifted along x, in mm."""
    if sources is None:
        sources = torch.tensor(SCAN.source_mm, dtype=torch.float64) + torch.tensor(
            source, dtype=torch.float64
        )
    centers = torch.tensor(SCAN.detector_center_mm, dtype=torch.float64) + torch.tensor([detector, 0.0, 0.0])
    return Acquisition(
        source_mm=sources.tolist(),
        detector_center_mm=centers.tolist(),
        u_axis=SCAN.u_axis,
        v_axis=SCAN.v_axis,
        pixel_spacing_mm=SCAN.pixel_spacing_mm,
        detector_shape=SCAN.detector_shape,
    )


def test_good_visits_pass_every_check() -> None:
    assert failures(given()) == {}


def test_the_right_motion_is_trusted() -> None:
    found = trust_of(given(), settings(), result())
    assert found.trusted, found.reason
    assert found.use == "both"
    assert found.reason == f"All {len(found.checks)} checks passed."


def test_a_wrong_motion_predicts_held_back_rays_worse_than_one_visit() -> None:
    found = trust_of(given(), settings(), result(shifted(-4.0, 0.0, 2.0)))
    assert not found.trusted
    assert found.use == "reference"
    assert "held back" in found.reason


def test_held_back_rays_tell_right_from_wrong() -> None:
    right = held_back(given(), settings(), (SHIFT,))
    wrong = held_back(given(), settings(), (shifted(-4.0, 0.0, 2.0),))
    assert len(right) == 2
    assert max(row.ratio for row in right) < 1.05
    assert max(row.ratio for row in wrong) > 1.3


def test_nothing_held_back_says_nothing() -> None:
    nothing = HeldBack(joint=0.0, alone=0.0, joint_fit=0.0, alone_fit=0.0)
    assert nothing.ratio == nothing.fit_ratio == 1.0


def test_views_of_air_are_missing() -> None:
    views = given().moving[0].projections.clone()
    views[:3] = 0.0
    text = failures(with_moving(projections=views))["missing views"]
    assert f"Visit 2: 3 of {SCAN.n_views} views (1, 2, 3)" in text


def test_views_without_weight_are_missing() -> None:
    weights = torch.ones(SCAN.shape)
    weights[-2:] = 0.0
    assert "2 of" in failures(with_moving(weights=weights))["missing views"]


def test_views_that_are_not_there_are_noticed_beside_the_other_visit() -> None:
    half = SCAN.n_views // 2
    moving = Visit(projections=given().moving[0].projections[:half].clone(), acquisition=SCAN[:half])
    found = failures(Study(grid=GRID, visits=(given().reference, moving)))
    assert "Are views missing" in found["number of views"]


def test_clipped_line_integrals_are_saturated() -> None:
    views = given().moving[0].projections
    found = failures(with_moving(projections=views.clamp(max=0.6 * float(views.max()))))
    assert "saturated" in found["saturation"]
    low = failures(with_moving(projections=views.clamp(min=0.3 * float(views.max()))))
    assert "saturated" in low["saturation"]


def test_saturated_views_that_do_not_fit_together_are_called_saturated() -> None:
    views = given().moving[0].projections.clone()
    views[0] = views[0].roll(1, dims=1).clamp(max=0.6 * float(views.max()))
    found = failures(with_moving(projections=views))
    assert "saturation" in found
    assert found["views together"].endswith("Saturated views do so.")


def test_reversed_views_place_the_breast_outside_its_grid() -> None:
    found = failures(with_moving(projections=given().moving[0].projections.flip(0)))
    assert "reversed" in found["place of the breast"]


def test_swapped_views_are_named_by_their_order() -> None:
    views = given().moving[0].projections.clone()
    views[[1, 2]] = views[[2, 1]]
    found = failures(with_moving(projections=views))
    assert "from view 2 to 3 the breast moves opposite" in found["order of views"]
    assert "wrong order" in found["order of views"]


def test_swapped_views_of_a_narrow_sweep_are_named_though_they_fit_together() -> None:
    sources = torch.tensor(SCAN.source_mm, dtype=torch.float64)
    narrow = moved_scan(sources=sources.mean(dim=0) + 0.17 * (sources - sources.mean(dim=0)))
    visit = seen(SHIFT, acquisition=narrow)
    assert failures(Study(grid=GRID, visits=(visit,))) == {}
    views = visit.projections.clone()
    views[[1, 2]] = views[[2, 1]]
    found = failures(Study(grid=GRID, visits=(replace(visit, projections=views),)))
    assert "wrong order" in found["order of views"]
    assert "views together" not in found


def test_tissue_that_enters_at_the_edge_is_not_taken_for_a_wrong_order() -> None:
    centers = input_checks_module._Centers.of(given().reference)
    steps = torch.arange(SCAN.n_views, dtype=torch.float64)
    expected = torch.stack([0.4 * steps, 0 * steps])
    drifting = torch.stack([-0.1 * steps, 0 * steps])
    assert input_checks_module._order(1, centers, drifting, expected).passed
    order = [0, 2, 1, *range(3, SCAN.n_views)]
    assert not input_checks_module._order(1, centers, drifting + expected[:, order], expected).passed


def test_a_view_whose_source_was_elsewhere_does_not_fit_the_others() -> None:
    sources = torch.tensor(SCAN.source_mm, dtype=torch.float64)
    sources[2, 0] += 30.0
    found = failures(with_moving(acquisition=moved_scan(sources=sources)))
    assert "displaced" in found["views together"]


def test_all_views_of_a_ball_show_the_same_mass_and_one_point() -> None:
    """Far sources see obliquely: without the cosine of the rays, masses differ by a tenth."""
    wide = Acquisition(
        source_mm=[(x, 0.0, 600.0) for x in (-300.0, -150.0, 0.0, 150.0, 300.0)],
        detector_center_mm=[(0.0, 20.0, 0.0)] * 5,
        u_axis=[(1.0, 0.0, 0.0)] * 5,
        v_axis=[(0.0, 1.0, 0.0)] * 5,
        pixel_spacing_mm=(1.0, 1.0),
        detector_shape=(60, 120),
    )
    visit = seen(acquisition=wide)
    centers = input_checks_module._Centers.of(visit)
    assert float(centers.mass.max() / centers.mass.min()) < 1.005
    seen_mm, expected_mm = input_checks_module._places_mm(visit, centers)
    torch.testing.assert_close(seen_mm, expected_mm, atol=0.02, rtol=0.0)


def test_a_turned_detector_does_not_fit_its_views() -> None:
    turn = math.radians(8.0)
    axes = {
        "u_axis": [(math.cos(turn), math.sin(turn), 0.0)] * SCAN.n_views,
        "v_axis": [(-math.sin(turn), math.cos(turn), 0.0)] * SCAN.n_views,
    }
    scan = Acquisition(
        source_mm=SCAN.source_mm,
        detector_center_mm=SCAN.detector_center_mm,
        pixel_spacing_mm=SCAN.pixel_spacing_mm,
        detector_shape=SCAN.detector_shape,
        **axes,
    )
    found = failures(with_moving(acquisition=scan))
    assert "turned" in found["views together"]
    assert "8.0 degrees" in found["geometry of the machine"]


@pytest.mark.parametrize("scan", [moved_scan(source=(5.0, 0.0, 0.0)), moved_scan(detector=5.0)])
def test_a_geometry_that_differs_between_visits_to_one_machine_is_named(scan: Acquisition) -> None:
    assert "differs by 5.0 mm" in failures(with_moving(acquisition=scan))["geometry of the machine"]


def test_a_sweep_that_is_described_as_wider_is_named() -> None:
    middle, *_ = torch.tensor(SCAN.source_mm, dtype=torch.float64).mean(dim=0)
    sources = torch.tensor(SCAN.source_mm, dtype=torch.float64)
    sources[:, 0] += 0.15 * (sources[:, 0] - middle)
    text = failures(with_moving(acquisition=moved_scan(sources=sources)))["geometry of the machine"]
    assert "differs by 0.0 mm" in text


def test_a_sweep_the_other_way_is_no_contradiction() -> None:
    back = moved_scan(sources=torch.tensor(SCAN.source_mm, dtype=torch.float64).flip(0))
    assert failures(Study(grid=GRID, visits=(given().reference, seen(SHIFT, acquisition=back)))) == {}


def test_another_machine_is_no_contradiction() -> None:
    other = moved_scan(source=(5.0, 0.0, 0.0)).bin(2)
    moving = seen(SHIFT, acquisition=other)
    assert "geometry of the machine" not in failures(Study(grid=GRID, visits=(given().reference, moving)))


def test_a_narrow_range_of_angles_does_not_determine_depth() -> None:
    middle = SCAN.n_views // 2
    one = SCAN[middle : middle + 1]
    visit = Visit(projections=Projector(grid=GRID, acquisition=one)(truth()), acquisition=one)
    assert "depth" in failures(Study(grid=GRID, visits=(visit,)))["range of angles"]


def test_a_failed_check_of_the_data_spares_the_held_back_rays(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(trust, "held_back", never)
    found = trust_of(given(), settings(), result(status=Status.STEP_LIMIT))
    assert not found.trusted
    assert "did not converge: The limit of 3 steps was reached." in found.reason


def test_a_motion_that_folds_is_named() -> None:
    spline = BSpline.over(GRID, (5, 5, 5))
    generator = torch.Generator().manual_seed(1)
    params = 10 * torch.randn(spline.n_params, generator=generator, dtype=torch.float64)
    reason = trust_of(given(), settings(), result(Motion(spline, params))).reason
    assert "the motion folds in" in reason
    assert "same breast, the same side" in reason


def between_two_views(*, n_folded: int) -> Trust:
    """Return the verdict on a motion between two views, which is said to fold."""
    recompression = Recompression(GRID, compressions(GRID))
    found = result(Motion(recompression, recompression.identity()))
    quality = replace(quality_of(given(), truth(), GRID, found.motions), folded_voxels=(n_folded,))
    return trust_of(given(), settings(), found, quality=quality)


def remedies(found: Trust) -> dict[str, str]:
    return {check.name: check.remedy for check in found.checks if not check.passed}


def test_two_views_have_remedies_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'recompression+bspline:40mm'" in remedies(between_two_views(n_folded=5))["folding"]
    rows = (HeldBack(joint=0.95, alone=1.0, joint_fit=1.8, alone_fit=1.0),) * 2
    monkeypatch.setattr(trust, "held_back", lambda *_, **__: rows)
    assert "'bspline:25mm'" in remedies(trust_of(given(), settings(), result()))["explained rays"]
    whole = Check(name="breast within the detector", passed=True, value=0.0, limit=0.0, text="It is.")
    monkeypatch.setattr(trust, "cut_off", lambda *_: whole)
    found = remedies(between_two_views(n_folded=0))
    assert "'recompression+bspline:15mm'" in found["explained rays"]
    assert "'bspline" not in found["explained rays"]


@pytest.mark.parametrize("scale", [0.6, 1.6])
def test_changes_of_volume_that_tissue_does_not_make_are_named(scale: float) -> None:
    affine = Affine(GRID)
    matrix = torch.diag(torch.tensor([scale, 1.0, 1.0]))
    motion = Motion(affine, affine.params(matrix=matrix, translation_mm=(0.0, 0.0, 0.0)))
    found = trust_of(given(), settings(), result(motion))
    assert f"changes volumes by a factor of {scale:.2f}, more than tissue does" in found.reason


def test_one_visit_is_judged_by_its_data() -> None:
    alone = Study(grid=GRID, visits=given().visits[:1])
    found = trust_of(alone, settings(), replace(result(), motions=()))
    assert found.trusted
    assert {check.name for check in found.checks}.isdisjoint({"folding", "held-back rays"})


@pytest.mark.parametrize(
    ("status", "n_folded", "failed"),
    [
        (Status.CONVERGED, 0, []),
        (Status.CONVERGED, 5, ["folding"]),
        (Status.STEP_LIMIT, 0, ["convergence"]),
        (Status.BREAKDOWN, 5, ["convergence", "folding"]),
    ],
)
def test_a_registration_is_judged_by_run_and_motion(status: Status, n_folded: int, failed: list[str]) -> None:
    found = trust_of_run(result(status=status), [GRID], [n_folded])
    assert [check.name for check in found.checks if not check.passed] == failed
    assert found.trusted is not bool(failed)
    assert ("Allow more steps." in found.reason) is (status is Status.STEP_LIMIT)


def test_a_volume_that_predicts_the_reference_worse_is_not_used() -> None:
    for value, use in ((1.05, "reference"), (0.9, "both")):
        check = Check(name=trust.REFERENCE, passed=True, value=value, limit=trust.WORSE, text="")
        assert Trust.of_checks([check]).use == use


@pytest.mark.parametrize(
    ("ratio", "fit_ratio", "cause"),
    [(0.95, 1.8, "more freedom"), (0.95, 1.8, "same breast, the same side"), (1.3, 1.1, "same breast")],
)
def test_rays_that_are_not_explained_name_the_likely_cause(
    ratio: float, fit_ratio: float, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (HeldBack(joint=ratio, alone=1.0, joint_fit=fit_ratio, alone_fit=1.0),) * 2
    monkeypatch.setattr(trust, "held_back", lambda *_, **__: rows)
    found = trust_of(given(), settings(), result())
    assert not found.trusted
    assert cause in found.reason


def test_more_freedom_is_no_remedy_for_another_breast(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (HeldBack(joint=1.4, alone=1.0, joint_fit=2.0, alone_fit=1.0),) * 2
    monkeypatch.setattr(trust, "held_back", lambda *_, **__: rows)
    found = trust_of(given(), settings(), result())
    assert {"explained rays", "held-back rays"} <= {check.name for check in found.checks if not check.passed}
    assert "same breast, the same side" in found.reason
    assert "freedom" not in found.reason


def test_the_verdict_is_plain_values() -> None:
    check = Check(name="range of angles", passed=False, value=math.inf, limit=1.0, text="Too few.")
    found = json.loads(json.dumps(Trust.of_checks([check]).to_dict(), allow_nan=False))
    assert found["trusted"] is False
    assert found["reason"] == "Too few."
    (row,) = found["checks"]
    assert row.pop("remedy").startswith("Use a scan with more views")
    assert row == {
        "name": "range of angles",
        "passed": False,
        "value": None,
        "limit": 1.0,
        "text": "Too few.",
    }


@pytest.mark.parametrize("what", ["noise", "one number", "air"])
def test_views_without_a_breast_are_named(what: str) -> None:
    views = given().moving[0].projections
    noise = torch.randn(views.shape, generator=torch.Generator().manual_seed(0))
    other = {"noise": views.mean() + views.std() * noise, "one number": torch.full_like(views, 2.7)}
    shown = other.get(what, 0.002 * noise)
    assert "its views show no breast" in failures(with_moving(projections=shown))["breast in the views"]
    assert "breast in the views" not in failures(given())


@pytest.mark.parametrize(
    ("correlation", "structure", "passed", "words"),
    [
        (0.9, 0.1, True, "correlates by 0.90 with what the reference predicts."),
        (0.5, 0.1, False, "Do the visits show the same breast, the same side?"),
        (0.1, 0.03, True, "too little structure to compare"),
    ],
)
def test_other_structure_inside_is_not_trusted(
    correlation: float, structure: float, passed: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = SharedStructure(correlation=correlation, structure=structure, noise=0.01)
    monkeypatch.setattr(trust, "shared_structure", lambda *_, **__: (one,))
    found = trust_of(given(), settings(), result())
    (check,) = (check for check in found.checks if check.name == "structure inside")
    assert (check.passed, check.value) == (passed, correlation)
    assert words in check.text
    assert passed or not found.trusted


def test_a_visit_of_one_number_is_computed_and_not_trusted() -> None:
    """Its pixels differ by rounding at most, which is no noise."""
    views = given().moving[0].projections
    even = with_moving(projections=torch.full_like(views, float(views.mean())))
    how = Settings(stages=(Stage(coarsen=(2, 2, 2), model=Translation, n_steps=2),))
    found = trust_of(even, how, simultaneous(even, how))
    assert "its views show no breast" in found.reason
