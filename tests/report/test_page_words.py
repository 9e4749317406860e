"""Parameters in words are those that made the matrix, and checks say what should be looked at."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.report.page_charts import course_svg, residual_svg
from duotomo.report.page_text import CITATION, flat
from duotomo.report.page_words import LOOK, NOTE, PASS, matrix_rows, physical_rows, quality_checks
from duotomo.solvers import Step


@given(
    angle=st.floats(0.1, 170),
    axis=st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda a: sum(v * v for v in a) > 0.1),
)
def test_a_turn_is_read_from_its_matrix(angle: float, axis: tuple[float, float, float]) -> None:
    unit = torch.tensor(axis, dtype=torch.float64)
    unit = unit / unit.norm()
    x, y, z = unit.tolist()
    cross = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
    matrix = torch.linalg.matrix_exp(cross * torch.deg2rad(torch.tensor(angle, dtype=torch.float64)))
    rows = dict(matrix_rows(matrix.tolist()))
    found = [float(number) for number in re.findall(r"-?\d+\.\d+", rows["Turn"])]
    assert found[0] == pytest.approx(angle, abs=0.006)
    assert found[1:] == pytest.approx([x, y, z], abs=0.006)
    assert rows["Volume"] == "0.0 %"


@given(stretch=st.tuples(*[st.floats(0.6, 1.5)] * 3))
def test_a_stretch_is_told_in_per_cent(stretch: tuple[float, float, float]) -> None:
    rows = dict(matrix_rows(torch.diag(torch.tensor(stretch, dtype=torch.float64)).tolist()))
    plain = rows["Stretch"].replace("\N{MINUS SIGN}", "-")
    found = [float(number) for number in re.findall(r"[+-]?\d+\.\d+", plain)]
    assert found == pytest.approx([100 * (one - 1) for one in stretch], abs=0.06)


def test_compositions_are_told_part_by_part() -> None:
    parts = {"1 Translation": {"translation_mm": [1.0, 2.0, 3.0]}, "2 Other": {"strength": 4}}
    assert physical_rows(parts) == [
        ("1 Translation: Shift", "x +1.00 mm, y +2.00 mm, z +3.00 mm"),
        ("2 Other: strength", "4"),
    ]


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        ({"status": "converged"}, PASS, "Converged. Why."),
        ({"status": "step limit"}, NOTE, "Step limit"),
        ({"status": "diverged"}, LOOK, "Diverged"),
        ({"quality": {"residual_by_view": [[2.0, 2.0, 3.0]], "noise": [1.0]}}, PASS, "3.0 times the noise"),
        ({"quality": {"residual_by_view": [[2.0, 2.0, 5.0]], "noise": [1.0]}}, LOOK, "2.5 times the median"),
        (
            {"quality": {"folded_voxels": [0], "least_jacobian": [0.5]}},
            PASS,
            "folds nowhere. Least volume ratio 0.50",
        ),
        ({"quality": {"folded_voxels": [7]}}, LOOK, "visit 2 folds at 7 voxels"),
        ({"quality": {"trust": {"trusted": True, "reason": "All."}}}, PASS, "Trusted. All."),
        (
            {"quality": {"trust": {"trusted": False, "checks": [{"passed": False, "text": "It folds."}]}}},
            LOOK,
            "It folds.",
        ),
        ({"quality": {"residual_by_view": [[1.0, None]], "noise": [1.0]}}, LOOK, "not a number"),
        ({"quality": {"folded_voxels": [0], "least_jacobian": [None]}}, PASS, "folds nowhere."),
        (
            {"quality": {"mean_displacement_mm": [1.0], "largest_displacement_mm": [2.0]}},
            NOTE,
            "Visit 2 moved by 1.0 mm on average, 2.0 mm at most",
        ),
    ],
)
def test_a_check_says_whether_to_look(change: dict[str, Any], verdict: str, words: str) -> None:
    checks = quality_checks({"status": "converged", "reason": "Why.", **change})
    assert any(check.verdict == verdict and words in check.words for check in checks)
    if verdict != LOOK:
        assert all(check.verdict != LOOK for check in checks)


@pytest.mark.parametrize(
    "quality",
    [
        None,
        {},
        {"noise": [1.0]},
        {"residual_by_view": [[], 3], "noise": [None, "x"]},
        {"folded_voxels": "many"},
    ],
)
def test_checks_cope_with_what_is_absent(quality: Any) -> None:
    checks = quality_checks({"status": "converged", "reason": "Why.", "quality": quality})
    assert [check.verdict for check in checks] == [PASS]


def test_bars_stand_in_proportion_and_the_noise_has_its_line() -> None:
    drawn = ElementTree.fromstring(residual_svg([0.01, 0.02, 0.04], 0.02))
    heights = [float(bar.attrib["height"]) for bar in drawn.iter("rect")]
    assert heights == pytest.approx([heights[0], 2 * heights[0], 4 * heights[0]], abs=0.15)
    line = next(drawn.iter("line"))
    second = list(drawn.iter("rect"))[1]
    assert float(line.attrib["y1"]) == pytest.approx(float(second.attrib["y"]), abs=0.1)


def test_a_falling_objective_falls_in_the_chart() -> None:
    steps = [
        Step(
            stage=i // 3,
            what="<&>",
            number=i + 1,
            objective=0.5**i,
            gradient_norm=1.0,
            step_size=1.0,
            applications=i,
            seconds=1.0,
        )
        for i in range(9)
    ]
    drawn = ElementTree.fromstring(course_svg(steps))
    lines = [line.attrib["points"].split() for line in drawn.iter("polyline")]
    assert len(lines) == 3
    heights = [float(point.split(",")[1]) for line in lines for point in line]
    # Downwards on the screen, by equal steps, since the scale is logarithmic.
    steps = [b - a for a, b in pairwise(heights)]
    assert min(steps) > 0
    assert max(steps) - min(steps) < 0.25


def test_charts_without_numbers_are_left_out() -> None:
    assert course_svg([]) == ""
    assert residual_svg([], 1.0) == ""
    assert residual_svg([None, 1.0], 1.0) == ""
    assert "<rect" in residual_svg([0.0, 0.0], None)


def test_settings_become_lines() -> None:
    found = dict(
        flat({"stages": [{"n": 1}, {"n": 2}], "plain": True, "step": 0.5, "name": "x", "none": None})
    )
    assert found == {
        "stages.1.n": "1",
        "stages.2.n": "2",
        "plain": "yes",
        "step": "0.5",
        "name": "x",
        "none": "none",
    }


def test_the_citation_is_that_of_the_repository() -> None:
    kept = Path("CITATION.cff").read_text(encoding="utf-8")
    titles = re.findall(r"title = {(.*)}", CITATION)
    authors = re.findall(r"(\w+), (\w+)", next(line for line in CITATION.splitlines() if "Yang" in line))
    assert len(titles) == 2
    assert all(f'title: "{title}"' in kept for title in titles)
    assert len(authors) == 4
    assert all(f"family-names: {family}" in kept for family, _ in authors)


def test_a_motion_between_two_views_that_folds_has_a_remedy_of_its_own() -> None:
    index = {"status": "diverged", "reason": "", "quality": {"folded_voxels": [7]}}
    for model, transform in (("BSpline", "'affine'"), ("Recompression", "'recompression'")):
        checks = quality_checks({**index, "motions": [{"model": model}]})
        (remedy,) = [check.remedy for check in checks if "folds at 7 voxels" in check.words]
        assert f"none, `transform={transform}`" in remedy


def test_how_sure_a_motion_is_informs() -> None:
    words = "0.2 mm in plane, 1.1 mm in depth (median over the breast)"
    quality = {"uncertainty": [{"words": words}, {"words": "not known. It did not converge."}]}
    found = quality_checks({"status": "converged", "reason": "", "quality": quality})
    assert [line.words for line in found if line.verdict == NOTE] == [
        f"How sure the motion of visit 2 is: {words}.",
        "How sure the motion of visit 3 is: not known. It did not converge.",
    ]
