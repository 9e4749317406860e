"""Visits of which nothing may be said to have changed, and why; no value of an attribute is in the words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from duotomo.io import Allowed, comparison_refusal, read_visits
from duotomo.io.dicom import Identity, Pseudonyms
from tests.cli.patients import SECRETS, patient, write_visits


def visit(**changes: str) -> Identity:
    return patient(**{"ImageLaterality": "L", "ViewPosition": "CC"} | changes)


def test_one_patient_side_and_view_may_be_compared() -> None:
    assert comparison_refusal([visit(), visit(StudyDate="20230101")]) == ""
    assert comparison_refusal([visit(), visit()], [torch.zeros(2), torch.ones(2)]) == ""


def test_one_visit_has_nothing_beside_it() -> None:
    assert comparison_refusal([visit()]) == comparison_refusal([None]) == "There is one visit only."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"PatientID": "4712"}, "different patients: visit 1 and visit 2 differ in Patient ID (0010,0020)."),
        (
            {"PatientBirthDate": "19700101"},
            "different patients: visit 1 and visit 2 differ in Patient's Birth",
        ),
        (
            {"ImageLaterality": "R"},
            "different sides: visit 1 and visit 2 differ in Image Laterality (0020,0062).",
        ),
        ({"ViewPosition": "MLO"}, "different views: visit 1 and visit 2 differ in View Code Sequence"),
    ],
)
def test_what_differs_is_named(changes: dict[str, str], words: str) -> None:
    for other in (
        visit(**changes),
        visit(**changes).remarked("DIFFERENT"),
        visit(**changes).deidentified(Pseudonyms()),
    ):
        said = comparison_refusal([visit(), other])
        assert said.startswith(f"The visits are of {words}"), said
        assert not any(secret in said for secret in (*SECRETS, "4712", "19700101", "MLO"))


def test_all_reasons_are_said() -> None:
    said = comparison_refusal([visit(), visit(ImageLaterality="R", ViewPosition="MLO")])
    assert said.startswith("The visits are of different sides and different views: ")


def test_one_scan_twice_tells_nothing() -> None:
    pixels = torch.rand(3, 4)
    assert "the same scan twice" in comparison_refusal([None, None], [pixels, pixels.clone()])


def test_what_a_file_does_not_say_is_no_reason() -> None:
    assert comparison_refusal([visit(), None]) == ""
    assert comparison_refusal([visit(), visit(ImageLaterality="", PatientID="", ViewPosition="")]) == ""


def test_a_third_visit_is_compared_too() -> None:
    said = comparison_refusal([visit(), visit(), visit(ImageLaterality="R")])
    assert "visit 1 and visit 3 differ" in said


def test_what_was_allowed_for_a_computation_is_refused_here(tmp_path: Path) -> None:
    paths = write_visits(tmp_path, view="MLO")
    study = read_visits(paths, allowed=Allowed(allow_different_views=True))
    projections = [one.projections for one in study.visits]
    assert comparison_refusal(study.identities, projections).startswith("The visits are of different views: ")
